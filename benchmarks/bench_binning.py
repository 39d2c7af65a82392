"""Time to fit and to predict with each non-parametric method.

Fit times are multiples of sorting the probabilities of every class with ``np.sort``, prediction
times multiples of one softmax pass. Methods of other libraries that are installed run in the same
process. ``--growth`` measures how the time of skcalib's methods grows with the rows. Run::

    python benchmarks/bench_binning.py [--repeat 3] [--growth] [--sizes 5000x100 100000x1]
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial

import numpy as np
from methods import BINNING, Method, all_methods, probabilities
from scipy.special import softmax
from timing import medians

from skcalib.datasets import make_logits

SIZES = ["100000x1", "5000x100", "50000x100", "25000x1000", "1000000x10"]
GROWTH = ["1000x1", "10000x1", "100000x1", "1000000x1", "10000000x1"]
GROWTH += ["10000x2", "10000x10", "10000x100", "10000x1000"]
SLOW = 10.0


def logits(n: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits in single precision with a temperature of 2; one column in double."""
    Z, y = make_logits(n, max(n_columns, 2), temperature=2.0, random_state=0)
    return (Z.astype(np.float32) if n_columns > 1 else Z[:, 1:] - Z[:, :1]), y


def sort_all(columns: np.ndarray) -> None:
    for column in columns:
        np.sort(column)


def run(method: Method, Z: np.ndarray, y: np.ndarray, repeat: int) -> None:
    X = method.prepare(Z)
    P = probabilities(Z)
    columns = np.ascontiguousarray(P.T[1 if Z.shape[1] == 1 else 0 :])
    times = medians(
        {
            "sort": partial(sort_all, columns),
            "softmax": partial(softmax, Z, axis=1),
            "fit": partial(method.fit, X, y),
            "predict": partial(method.fit(X, y), X),
        },
        repeat,
        slow=SLOW,
    )
    fit, predict = times["fit"], times["predict"]
    print(
        f"    {method.name:24} fit {fit:9.4f} s = {fit / times['sort']:8.1f} sorts"
        f"    predict {predict:9.4f} s = {predict / times['softmax']:7.1f} softmax",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--sizes", nargs="+", metavar="ROWSxCOLUMNS")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for size in args.sizes or (GROWTH if args.growth else SIZES):
        n, n_columns = map(int, size.split("x"))
        Z, y = logits(n, n_columns)
        print(f"{n} x {n_columns}")
        for method in sorted(all_methods(), key=lambda m: m.kind):
            wanted = method.kind in BINNING and Z.size <= method.largest
            if wanted and (not args.growth or method.library == "skcalib"):
                run(method, Z, y, args.repeat)


if __name__ == "__main__":
    main()

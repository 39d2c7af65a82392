"""Time to fit each parametric method, as a multiple of one softmax pass over the logits.

Methods of other libraries that are installed run in the same process. For two classes, all methods
get one column of log-odds. Run::

    python benchmarks/bench_scaling.py [--repeat 5] [--only skcalib] [--kinds Platt vector]
        [--sizes 5000x100 1000000x1]
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial

import numpy as np
from methods import PARAMETRIC, Method, all_methods
from scipy.special import softmax
from timing import medians

from skcalib.datasets import make_logits

SIZES = ["25000x1000", "50000x100", "1000000x10", "5000x100", "1000000x1"]
# Fits that take more seconds than this are run once.
SLOW = 10.0


def logits(n: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits in single precision with a temperature of 2, and an offset for each class."""
    K = max(n_columns, 2)
    offset = np.random.default_rng(0).normal(scale=0.5, size=K)
    Z, y = make_logits(n, K, temperature=2.0, offset=offset, dtype=np.float32, random_state=0)
    return (Z if n_columns > 1 else Z[:, 1:] - Z[:, :1]), y


def log_loss(P: np.ndarray, y: np.ndarray) -> float:
    p = P[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.maximum(p, np.finfo(np.float64).tiny)).mean())


def run(method: Method, Z: np.ndarray, y: np.ndarray, repeat: int) -> None:
    X = method.prepare(Z)
    # One library at a time: the state of the allocator after another would slow the softmax pass.
    tasks = {"softmax": partial(softmax, Z, axis=1), "fit": partial(method.fit, X, y)}
    unit, seconds = medians(tasks, repeat, slow=SLOW).values()
    loss = log_loss(method.fit(X, y)(X), y) if seconds < SLOW else np.nan
    print(
        f"    {method.name:24} {seconds:9.4f} s / {unit:8.5f} s = {seconds / unit:8.2f}"
        f"    loss {loss:.8f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", help="name of a library")
    parser.add_argument("--kinds", nargs="+", default=PARAMETRIC, help="kinds of calibrators")
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="ROWSxCOLUMNS")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for size in args.sizes:
        n, n_columns = map(int, size.split("x"))
        Z, y = logits(n, n_columns)
        print(f"{n} x {n_columns}, float32")
        for method in sorted(all_methods(), key=lambda m: m.kind):
            wanted = args.only in (None, method.library) and Z.size <= method.largest
            if method.kind in args.kinds and wanted and (method.binary or n_columns > 1):
                run(method, Z, y, args.repeat)


if __name__ == "__main__":
    main()

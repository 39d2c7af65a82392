"""Time to fit and to predict with every calibrator and with those of other libraries.

Times are also given as multiples of one softmax pass over the same logits, or with ``--unit sort``
of ``np.sort`` of the probabilities of every class. Methods of other libraries that are installed
run in the same process; for two classes all are given one column of log-odds. ``--growth`` shows
how the times of skcalib grow with the rows and with the classes, as far as the memory and
``--limit`` seconds allow. Run::

    OMP_NUM_THREADS=1 python benchmarks/bench_methods.py [--growth] [--repeat 3]
        [--only skcalib] [--kinds VectorScaling BBQ] [--sizes 5000x100 1000000x1] [--unit sort]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from methods import all_methods
from peers import Method, probabilities
from results import simple_table, titled
from scipy.special import softmax
from timing import medians, seconds

from skcalib.datasets import make_logits

SIZES = ["1000x2", "5000x10", "5000x100", "100000x10"]
GROWTH = ["1000x2", "10000x2", "100000x2", "1000000x2", "10000000x2"]
GROWTH += ["10000x10", "10000x100", "10000x1000"]
# Fits that take more seconds than this the first time, with what is compiled then, are run once.
SLOW = 60.0
# Bytes for each logit in single precision: in double precision, with its rank, and some of both.
BYTES = 64
HEADER = ["method", "fit", "units", "predict", "units", "log loss", "skcalib: 1"]


class Times(NamedTuple):
    """Seconds to fit and to predict, those of the unit, and the log loss on the same rows."""

    method: Method
    fit: float
    predict: float
    unit: float
    loss: float


def shape(size: str) -> tuple[int, int]:
    rows, columns = map(int, size.split("x"))
    return rows, columns


def logits(n: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits in single precision with a temperature of 2, and an offset for each class."""
    K = max(n_columns, 2)
    offset = np.random.default_rng(0).normal(scale=0.5, size=K)
    Z, y = make_logits(n, K, temperature=2.0, offset=offset, dtype=np.float32, random_state=0)
    return (Z if n_columns > 1 else Z[:, 1:] - Z[:, :1]), y


def log_loss(P: np.ndarray, y: np.ndarray) -> float:
    p = P[np.arange(len(y)), y].astype(np.float64)
    return float(-np.log(np.maximum(p, np.finfo(np.float64).tiny)).mean())


def sort_all(P: np.ndarray) -> None:
    for column in P.T[1 if P.shape[1] == 2 else 0 :]:
        np.sort(column)


def unit_of(name: str, Z: np.ndarray) -> Callable[[], object]:
    if name == "softmax":
        return partial(softmax, Z, axis=1)
    return partial(sort_all, np.asfortranarray(probabilities(Z)))


def timed(method: Method, Z: np.ndarray, y: np.ndarray, unit: str, repeat: int) -> Times:
    """One method at a time: the allocator after another library would slow the unit."""
    X, fitted = method.prepare(Z), []
    tasks = {
        "fit": lambda: fitted.append(method.fit(X, y)),
        "predict": lambda: fitted[-1](X),
        "unit": unit_of(unit, Z),
    }
    found = medians(tasks, repeat, slow=SLOW)
    return Times(method, *found.values(), log_loss(fitted[-1](X), y))


def measured(size: str, methods: list[Method], args: argparse.Namespace) -> Iterator[Times]:
    """All methods of a size; those of a kind follow skcalib's."""
    Z, y = logits(*shape(size))
    for method in sorted(methods, key=lambda m: m.kind):
        if method.takes(Z):
            try:
                times = timed(method, Z, y, args.unit, args.repeat)
            except Exception as error:
                print(f"{size} {method.name}: {type(error).__name__}", flush=True)
                continue
            print(f"{size} {method.name}: {times.fit:.4f} s, {times.predict:.4f} s", flush=True)
            yield times


def table(all_times: list[Times]) -> str:
    """In multiples of the fastest unit, since another library can slow that beside its methods.

    The last column is the ratio of both times to those of skcalib's method of the kind.
    """
    unit = min(t.unit for t in all_times)
    ours = {t.method.kind: t.fit + t.predict for t in all_times if t.method.library == "skcalib"}
    lines = []
    for method, fit, predict, _, loss in all_times:
        own = ours.get(method.kind.partition(",")[0])
        each = [cell for t in (fit, predict) for cell in (f"{t:.4f}", f"{t / unit:.1f}")]
        ratio = f"{(fit + predict) / own:.1f}" if own else ""
        lines.append([method.name, *each, f"{loss:.5f}", ratio])
    return simple_table(HEADER, lines)


def fits_memory(size: str) -> bool:
    rows, columns = shape(size)
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return rows * max(columns, 2) * BYTES < available


def growth(methods: list[Method], args: argparse.Namespace) -> Iterator[list[str]]:
    """Seconds of each method at all sizes, by lines; none where it would take too long."""
    sizes = [size for size in args.sizes or GROWTH if fits_memory(size)]
    cells: dict[str, list[str]] = {method.name: [method.name] for method in methods}
    per_logit = dict.fromkeys(cells, 0.0)
    for method in methods:
        once(method, *logits(100, 2))  # imports
    for size in sizes:
        Z, y = logits(*shape(size))
        for method in methods:
            name, cell = method.name, "-"
            if per_logit[name] * Z.size <= args.limit:
                fit, predict = once(method, Z, y)
                per_logit[name] = (fit + predict) / Z.size
                cell = f"{fit:.3g}; {predict:.2g}"
            cells[name].append(cell)
            print(size, name, cell, flush=True)
    yield ["method", *sizes]
    yield from cells.values()


def once(method: Method, Z: np.ndarray, y: np.ndarray) -> list[float]:
    """Seconds to fit and to predict, the first time."""
    X, fitted = method.prepare(Z), []
    tasks = (lambda: fitted.append(method.fit(X, y))), (lambda: fitted[-1](X))
    return [seconds(task) for task in tasks]


def tables(args: argparse.Namespace) -> Iterator[str]:
    kinds = args.kinds or {m.kind for m in all_methods() if "," not in m.kind}
    methods = [m for m in all_methods() if m.kind in kinds]
    if args.growth:
        header, *lines = growth([m for m in methods if m.library == "skcalib"], args)
        yield simple_table(header, lines)
        return
    methods = [m for m in methods if args.only in (None, m.library)]
    for size in args.sizes or SIZES:
        found = list(measured(size, methods, args))
        yield titled("{} x {}".format(*shape(size)), table(found))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--growth", action="store_true", help="skcalib's own methods by rows and classes")
    add("--sizes", nargs="+", metavar="ROWSxCOLUMNS")
    add("--kinds", nargs="+", help="names of skcalib's calibrators")
    add("--only", metavar="LIBRARY")
    add("--unit", choices=["softmax", "sort"], default="softmax")
    add("--repeat", type=int, default=3)
    add("--limit", type=float, default=60.0, help="seconds of a fit, for --growth")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    warnings.simplefilter("ignore")
    text = "\n".join(tables(args))
    print(text)


if __name__ == "__main__":
    main()

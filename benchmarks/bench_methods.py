"""Time to fit and to predict with every calibrator and with those of other libraries.

Times are also given as multiples of one softmax pass over the same logits, or with ``--unit sort``
of ``np.sort`` of the probabilities of every class. Methods of other libraries that are installed
run in the same process; for two classes all are given one column of log-odds. ``growth`` shows how
the times of skcalib grow with the rows and with the classes. Run::

    OMP_NUM_THREADS=1 python benchmarks/bench_methods.py times [--repeat 3] [--only skcalib]
        [--kinds VectorScaling BBQ] [--sizes 5000x100 1000000x1] [--unit sort]
    OMP_NUM_THREADS=1 python benchmarks/bench_methods.py growth
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from command_line import run
from methods import all_methods
from peers import Method, probabilities
from scipy.special import softmax
from timing import medians, seconds

from skcalib.datasets import make_logits

GROWTH = "1000x2", "10000x2", "100000x2", "1000000x2", "10000000x2"
GROWTH = *GROWTH, "10000x10", "10000x100", "10000x1000"
# Fits that take more seconds than this the first time, with what is compiled then, are run once.
SLOW = 60.0
# Bytes for each logit in single precision: in double precision, with its rank, and some of both.
BYTES = 64


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


def wanted(kinds: tuple[str, ...], only: str) -> list[Method]:
    """Methods of a kind, which follow skcalib's, from one library or from all."""
    methods = all_methods()
    kinds = kinds or tuple({m.kind for m in methods if "," not in m.kind})
    some = [m for m in methods if m.kind in kinds and only in ("", m.library)]
    return sorted(some, key=lambda m: m.kind)


def times(
    sizes: tuple[str, ...] = ("1000x2", "5000x10", "5000x100", "100000x10"),
    kinds: tuple[str, ...] = (),
    only: str = "",
    unit: str = "softmax",
    repeat: int = 3,
) -> Iterator[tuple[Any, ...]]:
    """Seconds to fit and to predict, also in units, and the ratio to skcalib's method of the kind.

    The unit is the fastest of all, since another library can slow the unit beside its methods.
    """
    yield "size", "method", "fit", "units", "predict", "units", "log loss", "skcalib: 1"
    for size in sizes:
        Z, y = logits(*shape(size))
        found = []
        for method in wanted(kinds, only):
            try:
                found += [timed(method, Z, y, unit, repeat)] if method.takes(Z) else []
            except Exception as error:
                print(f"{size} {method.name}: {type(error).__name__}", flush=True)
        one = min(t.unit for t in found)
        ours = {t.method.kind: t.fit + t.predict for t in found if t.method.library == "skcalib"}
        for method, fit, predict, _, loss in found:
            own = ours.get(method.kind.partition(",")[0])
            each = [cell for t in (fit, predict) for cell in (t, f"{t / one:.1f}")]
            ratio = f"{(fit + predict) / own:.1f}" if own else ""
            yield size, method.name, *each, f"{loss:.5f}", ratio


def fits_memory(size: str) -> bool:
    rows, columns = shape(size)
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return rows * max(columns, 2) * BYTES < available


def growth(
    sizes: tuple[str, ...] = GROWTH, kinds: tuple[str, ...] = (), limit: float = 60.0
) -> Iterator[tuple[Any, ...]]:
    """Seconds to fit and to predict of skcalib's methods, as far as memory and the limit allow."""
    yield "size", "method", "fit", "predict"
    methods = wanted(kinds, "skcalib")
    per_logit = {m.name: 0.0 for m in methods}
    for method in methods:
        once(method, *logits(100, 2))  # imports
    for size in filter(fits_memory, sizes):
        Z, y = logits(*shape(size))
        for method in methods:
            if per_logit[method.name] * Z.size <= limit:
                fit, predict = once(method, Z, y)
                per_logit[method.name] = (fit + predict) / Z.size
                yield size, method.name, f"{fit:.3g}", f"{predict:.2g}"


def once(method: Method, Z: np.ndarray, y: np.ndarray) -> list[float]:
    """Seconds to fit and to predict, the first time."""
    X, fitted = method.prepare(Z), []
    tasks = (lambda: fitted.append(method.fit(X, y))), (lambda: fitted[-1](X))
    return [seconds(task) for task in tasks]


if __name__ == "__main__":
    run(times, growth)

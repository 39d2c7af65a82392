"""Time to fit few rows, with every calibrator and with those of other libraries.

``fixed-cost`` is the time of a calibrator that only checks its input and has nothing to fit, and
its share in fits to 20 rows of two classes. ``fits`` has the time to fit alone. A time is the least
of many, some of each method of a kind in turn. scikit-learn's calibrators are fitted directly, and
as users do, in ``CalibratedClassifierCV`` with a frozen classifier that returns its input. Run::

    OMP_NUM_THREADS=1 python benchmarks/bench_small_fits.py fixed-cost
    OMP_NUM_THREADS=1 python benchmarks/bench_small_fits.py fits [--sizes 200x2 1000x10]
        [--kinds TemperatureScaling PlattScaling] [--only skcalib] [--seconds 0.5]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from bench_methods import logits, shape
from command_line import run
from methods import all_methods, calibrators
from peers import Fitted, Method, frozen_classifier
from sklearn import calibration
from timing import seconds as seconds_of

from skcalib._rows import Rows
from skcalib._rows.arrays import Floats
from skcalib.base import BaseCalibrator

SIZES = "200x2", "1000x2", "5000x2", "200x10", "1000x10", "5000x10", "200x100", "5000x100"
# Rows of the fixed cost.
FEWEST = 20
# Runs of a method before the next one's turn.
RUNS = 4
# These fit other classifiers or several calibrators.
COMPOSED = {"AutoCalibrator", "EstimatorCalibration"}
LIBRARIES = ["skcalib", "scikit-learn", "CalibratedClassifierCV", "probmetrics", "betacal"]
METHODS = {
    "TemperatureScaling": "temperature",
    "PlattScaling": "sigmoid",
    "IsotonicCalibration": "isotonic",
}


def in_classifier() -> list[Method]:
    """Calibrators of scikit-learn with a frozen classifier."""

    def fit(method: str, Z: np.ndarray, y: np.ndarray) -> Fitted:
        classifier = frozen_classifier(Z, y)
        return calibration.CalibratedClassifierCV(classifier, method=method).fit(Z, y).predict_proba

    has_temperature = hasattr(calibration, "_TemperatureScaling")
    known = [m for m in METHODS if m != "TemperatureScaling" or has_temperature]
    return [Method(m, "CalibratedClassifierCV", partial(fit, METHODS[m])) for m in known]


def least(tasks: list[Callable[[], object]], each: float) -> list[float]:
    """Least seconds of each task, a few runs each in turn until each had so many seconds."""
    found = [seconds_of(task) for task in tasks]  # the first runs, with imports, last longer
    end = time.perf_counter() + each * len(tasks)
    while time.perf_counter() < end:
        # Right after another library's the first one has to fetch its code.
        again = [min(seconds_of(task) for _ in range(RUNS)) for task in tasks]
        found = list(map(min, found, again))
    return found


class Nothing(BaseCalibrator):
    """A calibrator that fits nothing, and so takes the fixed cost."""

    def _fit(self, _: Rows) -> dict[str, Any]:
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


def fixed_cost(seconds: float = 0.5) -> Iterator[tuple[Any, ...]]:
    """Microseconds of fits to few rows, and the share of the fixed cost in them."""
    yield f"{FEWEST} x 2", "microseconds", "fixed cost"
    Z, y = logits(FEWEST, 2)
    kinds = sorted(calibrators().keys() - COMPOSED)
    makers = [Nothing, *(calibrators()[kind] for kind in kinds)]
    fixed, *times = least([partial(make().fit, Z, y) for make in makers], seconds)
    yield "fixed cost", f"{1e6 * fixed:.0f}", ""
    for kind, t in zip(kinds, times, strict=True):
        yield kind, f"{1e6 * t:.0f}", f"{fixed / t:.0%}"


def fits(
    sizes: tuple[str, ...] = SIZES,
    kinds: tuple[str, ...] = (),
    only: str = "",
    seconds: float = 0.5,
) -> Iterator[tuple[Any, ...]]:
    """Milliseconds of fits by library, and in brackets multiples of skcalib's."""
    yield "rows x columns", "ms", *LIBRARIES
    methods = [m for m in [*all_methods(), *in_classifier()] if only in ("", m.library)]
    for size in sizes:
        Z, y = logits(*shape(size))
        for kind in kinds or sorted(calibrators().keys() - COMPOSED):
            some = {m.library: m for m in methods if m.kind == kind and works(m, Z, y)}
            tasks = [partial(m.fit, m.prepare(Z), y) for m in some.values()]
            times = dict(zip(some, least(tasks, seconds), strict=True))
            yield size, kind, *(cell(times.get(name), times["skcalib"]) for name in LIBRARIES)


def works(method: Method, Z: np.ndarray, y: np.ndarray) -> bool:
    """Whether the method takes such logits, also where some class has too few rows for it."""
    if method.library not in LIBRARIES or not method.takes(Z):
        return False
    try:
        method.fit(method.prepare(Z), y)
    except Exception as error:
        print(f"{method.name}: {type(error).__name__}", flush=True)
        return False
    return True


def cell(t: float | None, own: float) -> str:
    if t is None:
        return ""
    return f"{1e3 * t:.2f}" + (f" ({t / own:.1f})" if t != own else "")


if __name__ == "__main__":
    run(fixed_cost, fits)

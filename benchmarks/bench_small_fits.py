"""Time to fit few rows, with every calibrator and with those of other libraries.

The first table has the fixed cost of a fit, that of a calibrator that only checks its input and has
nothing to fit, and its share in fits to 20 rows of two classes. The others have the time to fit
alone. A time is the least of many, some of each method of a kind in turn.
scikit-learn's calibrators are fitted directly, and as users do, in ``CalibratedClassifierCV`` with
a frozen classifier that returns its input. Run::

    OMP_NUM_THREADS=1 python benchmarks/bench_small_fits.py [--sizes 200x2 1000x10] [--seconds 0.5]
        [--kinds TemperatureScaling PlattScaling] [--only skcalib] [--rst FILE]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bench_methods import logits, shape
from methods import all_methods, calibrators
from peers import Fitted, Method, frozen_classifier
from results import simple_table, titled
from sklearn import calibration
from timing import seconds

from skcalib._rows import Rows
from skcalib._rows.arrays import Floats
from skcalib.base import BaseCalibrator

SIZES = ["200x2", "1000x2", "5000x2", "200x10", "1000x10", "5000x10", "200x100", "5000x100"]
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
    found = [seconds(task) for task in tasks]  # the first runs, with imports, last longer
    end = time.perf_counter() + each * len(tasks)
    while time.perf_counter() < end:
        # Right after another library's the first one has to fetch its code.
        again = [min(seconds(task) for _ in range(RUNS)) for task in tasks]
        found = list(map(min, found, again))
    return found


class Nothing(BaseCalibrator):
    """A calibrator that fits nothing, and so takes the fixed cost."""

    def _fit(self, _: Rows) -> dict[str, Any]:
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


def fixed_costs(kinds: list[str], each: float) -> str:
    """Microseconds of fits to few rows, and the share of the fixed cost in them."""
    Z, y = logits(FEWEST, 2)
    makers = [Nothing, *(calibrators()[kind] for kind in kinds)]
    fixed, *times = least([partial(make().fit, Z, y) for make in makers], each)
    lines = [["fixed cost", f"{1e6 * fixed:.0f}", ""]]
    lines += [[k, f"{1e6 * t:.0f}", f"{fixed / t:.0%}"] for k, t in zip(kinds, times, strict=True)]
    header = ["", "microseconds", "fixed cost"]
    return titled(f"{FEWEST} x 2", simple_table(header, lines))


def table(size: str, kinds: list[str], methods: list[Method], each: float) -> str:
    """Milliseconds by library, and in brackets multiples of skcalib's."""
    Z, y = logits(*shape(size))
    lines = []
    for kind in kinds:
        some = {m.library: m for m in methods if m.kind == kind and works(m, Z, y)}
        tasks = [partial(m.fit, m.prepare(Z), y) for m in some.values()]
        times = dict(zip(some, least(tasks, each), strict=True))
        cells = [cell(times.get(name), times["skcalib"]) for name in LIBRARIES]
        lines.append([kind, *cells])
        print(size, *lines[-1], flush=True)
    return titled("{} x {}".format(*shape(size)), simple_table(["ms", *LIBRARIES], lines))


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


def tables(args: argparse.Namespace) -> Iterator[str]:
    kinds = args.kinds or sorted(calibrators().keys() - COMPOSED)
    methods = [m for m in [*all_methods(), *in_classifier()] if args.only in (None, m.library)]
    yield fixed_costs(kinds, args.seconds)
    for size in args.sizes:
        yield table(size, kinds, methods, args.seconds)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--sizes", nargs="*", default=SIZES, metavar="ROWSxCOLUMNS")
    add("--kinds", nargs="+", help="names of skcalib's calibrators")
    add("--only", metavar="LIBRARY")
    add("--seconds", type=float, default=0.5, help="for each fit, and at least two fits")
    add("--rst", type=Path, metavar="FILE", help="the tables for the documentation")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    warnings.simplefilter("ignore")
    text = "\n".join(tables(args))
    print(text)
    if args.rst:
        args.rst.write_text(text)


if __name__ == "__main__":
    main()

"""Time to predict one row, as a server does, and 1000 rows, with every calibrator.

Microseconds of ``predict_proba``, the least mean of several calls. scikit-learn's
``CalibratedClassifierCV``, and skcalib's ``CalibratedClassifier``, are around a frozen classifier
that only returns its input, the same logits, so that their times are those of the calibration. The
last lines are those of ``CalibrationMonitor.update``. Run::

    OMP_NUM_THREADS=1 python benchmarks/bench_rows.py [--classes 2 10 100] [--repeat 20]
        [--only Temperature scikit-learn]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from methods import calibrators
from peers import frozen_classifier, probabilities
from results import simple_table
from sklearn import calibration
from timing import least

import skcalib
from skcalib.datasets import make_logits
from skcalib.monitor import CalibrationMonitor

N_CALIBRATION = 2000
# Numbers of rows, and of calls between two looks at the clock.
CALLS = {1: 50, 1000: 5}
# What is called, for some of the rows and their labels.
OfRows = Callable[[np.ndarray, np.ndarray], Callable[[], object]]


def fitted(calibrator: Any, Z: np.ndarray, y: np.ndarray) -> OfRows:
    predict = calibrator.fit(Z, y).predict_proba
    return lambda Z, _: partial(predict, Z)


def fitted_with_features(Z: np.ndarray, y: np.ndarray) -> OfRows:
    features = np.arange(len(Z)) % 4
    predict = skcalib.conditional.ConditionalCalibrator().fit(Z, y, features=features).predict_proba
    return lambda Z, _: partial(predict, Z, features=features[: len(Z)])


def fitted_around(make: Callable[[Any], Any], Z: np.ndarray, y: np.ndarray) -> OfRows:
    return fitted(make(frozen_classifier(Z, y)), Z, y)


def updated(kind: Any, Z: np.ndarray, _: np.ndarray) -> OfRows:
    monitor = CalibrationMonitor(labels=range(Z.shape[1]), kind=kind)
    return lambda Z, y: partial(monitor.update, y, probabilities(Z))


def methods() -> dict[str, Callable[[np.ndarray, np.ndarray], OfRows]]:
    """How each method is fitted to logits and labels, by its name."""
    inside = partial(skcalib.CalibratedClassifier, calibrator=skcalib.TemperatureScaling())
    of_sklearn = ["sigmoid", "isotonic"]
    of_sklearn += ["temperature"] * hasattr(calibration, "_TemperatureScaling")
    found = {name: partial(fitted, make()) for name, make in calibrators().items()}
    found["ConditionalCalibrator, features"] = fitted_with_features
    found["CalibratedClassifier, temperature"] = partial(fitted_around, inside)
    for name in of_sklearn:
        make = partial(calibration.CalibratedClassifierCV, method=name)
        found[f"CalibratedClassifierCV, {name}, scikit-learn"] = partial(fitted_around, make)
    for kind in ("top-label", "classwise"):
        found[f"CalibrationMonitor.update, {kind}"] = partial(updated, kind)
    return found


def microseconds(n_classes: int, names: list[str], repeat: int) -> dict[str, list[str]]:
    """Those of each method for each number of rows."""
    Z, y = make_logits(N_CALIBRATION, n_classes, temperature=2.0, random_state=0)
    of_rows = {name: methods()[name](Z, y) for name in names}
    cells: dict[str, list[str]] = {name: [] for name in names}
    for n_rows, calls in CALLS.items():
        tasks = {name: of(Z[:n_rows], y[:n_rows]) for name, of in of_rows.items()}
        for name, seconds in least(tasks, repeat, calls).items():
            cells[name].append(f"{1e6 * seconds:.0f}")
    return cells


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--classes", nargs="+", type=int, default=[2, 10, 100])
    add("--repeat", type=int, default=20)
    add("--only", nargs="+", metavar="TEXT", help="methods whose names contain one of these")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    warnings.simplefilter("ignore")
    wanted = args.only or [""]
    names = [name for name in methods() if any(text in name for text in wanted)]
    cells: dict[str, list[str]] = {name: [name] for name in names}
    for n_classes in args.classes:
        for name, found in microseconds(n_classes, names, args.repeat).items():
            cells[name] += found
    header = ["method", *(f"{K} classes: {n}" for K in args.classes for n in CALLS)]
    text = simple_table(header, list(cells.values()))
    print(text)


if __name__ == "__main__":
    main()

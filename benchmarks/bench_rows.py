"""Time to predict one row, as a server does, and 1000 rows, with every calibrator.

Microseconds of ``predict_proba``, the least mean of several calls. scikit-learn's
``CalibratedClassifierCV``, and skcalib's ``CalibratedClassifier``, are around a frozen classifier
that only returns its input, the same logits, so that their times are those of the calibration. The
last lines are those of ``CalibrationMonitor.update``. Run::

    OMP_NUM_THREADS=1 python benchmarks/bench_rows.py [--classes 2 10 100] [--repeat 20]
        [--only Temperature scikit-learn]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from command_line import run
from methods import calibrators
from peers import frozen_classifier, probabilities
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


def times(
    classes: tuple[int, ...] = (2, 10, 100), repeat: int = 20, only: tuple[str, ...] = ("",)
) -> Iterator[tuple[Any, ...]]:
    """Microseconds of the methods whose names contain one of the texts in ``only``."""
    yield "method", "classes", *(f"{n} rows" for n in CALLS)
    for n_classes in classes:
        Z, y = make_logits(N_CALIBRATION, n_classes, temperature=2.0, random_state=0)
        of_rows = {
            name: fit(Z, y) for name, fit in methods().items() if any(text in name for text in only)
        }
        found = []
        for n_rows, calls in CALLS.items():
            tasks = {name: of(Z[:n_rows], y[:n_rows]) for name, of in of_rows.items()}
            found.append(least(tasks, repeat, calls))
        for name in of_rows:
            yield name, n_classes, *(f"{1e6 * seconds[name]:.0f}" for seconds in found)


if __name__ == "__main__":
    run(times)

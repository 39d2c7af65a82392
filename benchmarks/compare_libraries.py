"""Behaviour of other libraries on the same input: verifies statements of ``doc/comparison.rst``.

Temperature scaling in both precisions, with labels that are not column indices, with a missing
class, and without an optimum. Whether calibrators support weights, can be cloned, and pass the
estimator checks of scikit-learn. Which bins of the calibration error an edge and a score of 1
belong to, and whether it supports weights. Libraries that are not installed are skipped. Run::

    python benchmarks/compare_libraries.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import has_fit_parameter

from skcalib import CalibratedClassifier, TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

Array = np.ndarray


class Library(NamedTuple):
    """Name, calibrators, temperature scaling, and calibration error with ten bins."""

    name: str
    make: list[Callable[[], Any]]
    scaled: Callable[[Array, Array, list], Array] | None = None
    ece: Callable[[Array, Array], Any] | None = None
    measure: Callable | None = None


def from_probabilities(fitted: Callable[[Array, Array], Array]) -> Callable:
    """Temperature scaling of a library that takes probabilities."""
    return lambda Z, y, _: fitted(softmax(Z, axis=1), y)


def ours() -> Library:
    return Library(
        "skcalib",
        [TemperatureScaling, partial(CalibratedClassifier, GaussianNB(), cv=3)],
        lambda Z, y, classes: TemperatureScaling(classes=classes).fit(Z, y).predict_proba(Z),
        partial(expected_calibration_error, kind="binary", n_bins=10),
        expected_calibration_error,
    )


def scikit_learn() -> Library:
    from sklearn.calibration import CalibratedClassifierCV, calibration_curve

    def scaled(Z: Array, y: Array, classes: list) -> Array:
        base = LogisticRegression()  # its decision function returns its features
        base.coef_, base.intercept_, base.classes_ = np.eye(3), np.zeros(3), np.array(classes)
        calibrated = CalibratedClassifierCV(FrozenEstimator(base), method="temperature")
        return calibrated.fit(Z, y).predict_proba(Z)

    def ece(y: Array, p: Array) -> float:  # its curve has no counts; correct if they are equal
        return float(np.abs(np.subtract(*calibration_curve(y, p, n_bins=10))).mean())

    make = [partial(CalibratedClassifierCV, GaussianNB(), method="temperature", cv=3)]
    return Library("scikit-learn", make, scaled, ece, calibration_curve)


def netcal() -> Library:
    from netcal.metrics import ECE
    from netcal.scaling import TemperatureScaling as Scaling

    scaled = from_probabilities(lambda P, y: Scaling().fit(P, y).transform(P))
    return Library("netcal", [Scaling], scaled, lambda y, p: ECE(10).measure(p, y), ECE.measure)


def probmetrics() -> Library:
    from probmetrics.calibrators import get_calibrator

    make = partial(get_calibrator, "temp-scaling")
    fitted = from_probabilities(lambda P, y: make().fit(P, y).predict_proba(P))
    return Library("probmetrics", [make], fitted)


def dirichletcal() -> Library:
    from dirichletcal.calib.tempscaling import TemperatureScaling as Scaling

    scaled = from_probabilities(lambda P, y: Scaling().fit(P, y).predict_proba(P))
    return Library("dirichletcal", [Scaling], scaled)


def torchmetrics() -> Library:
    from torch import tensor
    from torchmetrics.functional.classification import binary_calibration_error as measure

    ten = partial(measure, n_bins=10)
    return Library("torchmetrics", [], None, lambda y, p: ten(tensor(p), tensor(y)), measure)


def mapie() -> Library:
    from mapie.calibration import TopLabelCalibrator, VennAbersCalibrator
    from mapie.metrics.calibration import expected_calibration_error as measure

    ece = partial(measure, num_bins=11, split_strategy="uniform")  # of edges
    make = [partial(kind, GaussianNB()) for kind in (TopLabelCalibrator, VennAbersCalibrator)]
    return Library("MAPIE", make, None, ece, measure)


def uncertainty_calibration() -> Library:
    from calibration import PlattBinnerMarginalCalibrator, get_ece

    make, ece = partial(PlattBinnerMarginalCalibrator, 100, 10), partial(get_ece, num_bins=10)
    return Library("uncertainty-calibration", [make], None, lambda y, p: ece(p, y), get_ece)


def betacal() -> Library:
    from betacal import BetaCalibration

    return Library("betacal", [BetaCalibration])


def splinecalib() -> Library:
    from splinecalib import SplineCalib

    return Library("splinecalib", [SplineCalib])


def venn_abers() -> Library:
    from venn_abers import VennAbersCalibrator

    return Library("venn-abers", [partial(VennAbersCalibrator, GaussianNB(), cal_size=0.3)])


def show(what: str, task: Callable[[], object]) -> None:
    """Print the result of the task, or its error, and a warning about convergence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = str(task())
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
    names = {w.category.__name__ for w in caught} & {"ConvergenceWarning"}
    print(f"    {what:22}{', '.join([text, *names])}", flush=True)


def temperature(Z: Array, P: Array) -> str:
    """The temperature; only its sign is identified from probabilities of 0 and 1."""
    F = np.log(np.maximum(P.astype(float), 1e-300))
    if np.median(F.min(axis=1)) < -100:
        reversed_ = np.mean(P.argmax(axis=1) != Z.argmax(axis=1)) > 0.5
        return "below 0: the order of the classes is reversed" if reversed_ else "near 0"
    Z, F = (A - A.mean(axis=1, keepdims=True) for A in (Z, F))
    return f"T = {np.median((Z * Z).sum(axis=1) / (Z * F).sum(axis=1)):.7g}"


def show_scaling(scaled: Callable) -> None:
    Z, y = make_logits(5000, 3, temperature=2.0, random_state=0)
    numbers, names, lack = [0, 1, 2], np.array(["ant", "bee", "cat"]), y != 1
    cases = {
        "double precision": (Z, y, numbers),
        "single precision": (Z.astype(np.float32), y, numbers),
        "labels 1, 2, 3": (Z, y + 1, [1, 2, 3]),
        "labels as strings": (Z, names[y], list(names)),
        "rows without class 1": (Z[lack], y[lack], numbers),
        "all rows correct": (Z, Z.argmax(axis=1), numbers),
        "all rows incorrect": (Z, Z.argmin(axis=1), numbers),
    }
    for what, case in cases.items():
        show(what, lambda case=case: temperature(case[0], scaled(*case)))


def show_calibrator(make: Callable[[], Any]) -> None:
    def checks() -> str:
        run = [c for c in check_estimator(make(), on_fail=None) if c["status"] != "skipped"]
        return f"{sum(c['status'] == 'passed' for c in run)} of {len(run)} pass"

    print(f"    {type(make()).__name__}")
    show("  weights", lambda: has_fit_parameter(make(), "sample_weight"))
    show("  clone", lambda: bool(clone(make())))
    show("  checks", checks)


def show_error(ece: Callable[[Array, Array], Any], measure: Callable) -> None:
    # The error is larger if the two scores are in different bins.
    below, own = (ece(np.array([1, 0]), np.array(p)) > 0.5 for p in ([0.5, 0.55], [0.95, 1.0]))
    print(f"    a score of 0.5 is in the bin {'below' if below else 'above'}")
    print(f"    a score of 1 is in {'a bin of its own' if own else 'the last bin'}")
    print(f"    weights {'sample_weight' in signature(measure).parameters}")


def main() -> None:
    warnings.simplefilter("ignore")
    some, more = (ours, scikit_learn, netcal, probmetrics), (dirichletcal, torchmetrics, mapie)
    single = betacal, splinecalib, venn_abers, uncertainty_calibration
    for of_library in (*some, *more, *single):
        try:
            name, make, scaled, ece, measure = of_library()
        except ImportError as error:
            print(f"{error.name}: not installed")
            continue
        print(f"{name} {version(name)}")
        if scaled:
            show_scaling(scaled)
        for one in make:
            show_calibrator(one)
        if ece:
            show_error(ece, measure)


if __name__ == "__main__":
    main()

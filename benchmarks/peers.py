"""What a calibration method is to the benchmarks, and those of other libraries.

Libraries that are not installed are skipped. ``pip install 'skcalib[bench]'`` installs all but
dirichletcal, whose metadata ask for another Python and for old versions: its sources run with JAX
if ``python_requires`` and ``install_requires`` of its ``setup.py`` are removed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

Fitted = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Fitted]


@dataclass(frozen=True)
class Method:
    """A calibration method of a library, and how it is fitted.

    ``kind`` is the name of skcalib's class for it. ``fit`` takes logits (n, K), or (n, 1) for two
    classes if ``binary``, as converted by ``prepare``, which is not timed, and labels. It returns a
    function from such logits to probabilities. The method is too slow for more than ``largest``
    elements.
    """

    kind: str
    library: str
    fit: Fit
    prepare: Callable[[np.ndarray], np.ndarray] = np.asarray
    largest: float = np.inf
    binary: bool = True

    @property
    def name(self) -> str:
        return self.kind if self.library in ("", "skcalib") else f"{self.kind}, {self.library}"

    def takes(self, Z: np.ndarray) -> bool:
        """Whether it is for such logits, and not too slow for them."""
        return Z.size <= self.largest and (self.binary or Z.shape[1] > 1)


def frozen_classifier(Z: np.ndarray, y: np.ndarray) -> Any:
    """Return a fitted classifier whose decision function returns its input."""
    return FrozenEstimator(Logits().fit(Z, y))


class Logits(ClassifierMixin, BaseEstimator):
    """A classifier whose logits are its input."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[both_columns(X).argmax(axis=1)]

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X if X.shape[1] > 2 else X[:, -1] - (X[:, 0] if X.shape[1] == 2 else 0)


def both_columns(Z: np.ndarray) -> np.ndarray:
    return Z if Z.shape[1] > 1 else np.hstack([np.zeros_like(Z), Z])


def probabilities(Z: np.ndarray) -> np.ndarray:
    P = softmax(both_columns(Z), axis=1)
    return P / P.sum(axis=1, keepdims=True)


def in_double(Z: np.ndarray) -> np.ndarray:
    return probabilities(Z.astype(np.float64))


def in_single(Z: np.ndarray) -> np.ndarray:
    return probabilities(Z.astype(np.float32))


def margins(Z: np.ndarray) -> np.ndarray:
    """Log-odds of every class against the others, or of the second of two."""
    if Z.shape[1] == 1:
        return Z
    P = softmax(Z.astype(np.float64), axis=1)
    return np.log(P) - np.log1p(-np.minimum(P, 1 - 1e-16))


def one_vs_rest(fit: Fit) -> Fit:
    """One fit of scores and events for each class, normalized; of two classes the second only."""

    def fit_all(S: np.ndarray, y: np.ndarray) -> Fitted:
        columns = dict(enumerate(S.T)) if S.shape[1] > 2 else {1: S[:, -1]}
        fitted = [fit(scores, y == k) for k, scores in columns.items()]

        def predict(S: np.ndarray) -> np.ndarray:
            scores = S.T if len(fitted) > 1 else S.T[-1:]
            P = np.stack([f(s) for f, s in zip(fitted, scores, strict=True)], axis=1)
            P = P if P.shape[1] > 1 else np.hstack([1 - P, P])
            return P / np.maximum(P.sum(axis=1, keepdims=True), 1e-30)

        return predict

    return fit_all


def or_never(fit: Fit) -> Fit:
    """Probability 0 for events that no row has, for which some libraries raise an error."""
    return lambda scores, events: fit(scores, events) if events.any() else np.zeros_like


# Elements of the largest problem that takes about a minute.
SLOW, SLOWEST = 1.1e7, 6e5


def peers() -> list[Method]:
    """Methods of each library that is installed."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # netcal has a progress bar for every class
    installed = [methods for name, methods in LIBRARIES.items() if find_spec(name)]
    return [method for methods in installed for method in methods()]


def scikit_learn() -> list[Method]:
    """Calibrators of scikit-learn, called directly without the meta-estimator."""
    from sklearn import calibration
    from sklearn.isotonic import IsotonicRegression

    def temperature(Z: np.ndarray, y: np.ndarray) -> Fitted:
        return calibration._TemperatureScaling().fit(Z, y).predict

    def platt(scores: np.ndarray, events: np.ndarray) -> Fitted:
        return calibration._SigmoidCalibration().fit(scores, events).predict

    def isotonic(p: np.ndarray, events: np.ndarray) -> Fitted:
        return IsotonicRegression(out_of_bounds="clip").fit(p, events).predict

    library = "scikit-learn"
    methods = [
        Method("PlattScaling", library, one_vs_rest(platt), margins, SLOW),
        Method("IsotonicCalibration", library, one_vs_rest(isotonic), probabilities),
    ]
    if hasattr(calibration, "_TemperatureScaling"):
        methods.insert(0, Method("TemperatureScaling", library, temperature))
    return methods


def betacal() -> list[Method]:
    """One-vs-rest beyond two classes, for which the library is.

    It is given single precision, as CalArena does: it clips probabilities at the precision of
    their type, so that few confident rows of two classes do less harm than in double precision.
    """
    from betacal import BetaCalibration

    def fit(p: np.ndarray, events: np.ndarray) -> Fitted:
        return BetaCalibration(parameters="abm").fit(p, events).predict

    return [Method("BetaCalibration", "betacal", one_vs_rest(or_never(fit)), in_single, SLOW)]


def splinecalib() -> list[Method]:
    """With its defaults: 17 strengths, of which one fold of five chooses."""
    from splinecalib import SplineCalib

    def fit(P: np.ndarray, y: np.ndarray) -> Fitted:
        fitted = SplineCalib()
        fitted.fit(P, y)
        return fitted.calibrate

    return [Method("SplineCalibration", "splinecalib", fit, in_double, SLOWEST)]


def venn_abers() -> list[Method]:
    """One-vs-rest, and one-vs-one (*ovo*), which is its default."""
    with np.errstate():  # its import changes it
        from venn_abers import VennAbers, VennAbersCalibrator

    def of_two(P: np.ndarray, y: np.ndarray) -> Fitted:
        fitted = VennAbers()
        fitted.fit(P, y)
        return lambda P: fitted.predict_proba(P)[0]

    def ovo(P: np.ndarray, y: np.ndarray) -> Fitted:
        return lambda new: VennAbersCalibrator().predict_proba(p_cal=P, y_cal=y, p_test=new)

    return [
        Method(kind, "venn-abers", fit, in_double, largest=1.1e5)
        for kind, fit in (
            ("VennAbersCalibration", one_vs_rest(of_events(of_two))),
            ("VennAbersCalibration, ovo", ovo),
        )
    ]


def dirichletcal() -> list[Method]:
    """With off-diagonal regularization of the strength that CalArena takes for all problems."""
    from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator

    def fit(P: np.ndarray, y: np.ndarray) -> Fitted:
        return FullDirichletCalibrator(reg_lambda=1e-3, reg_mu=1e-3).fit(P, y).predict_proba

    return [Method("DirichletCalibration", "dirichletcal", fit, in_double, SLOWEST)]


def probmetrics() -> list[Method]:
    """With its defaults, and mixed with a little of the uniform distribution, as it recommends.

    What it takes from other libraries is left out: beta, Dirichlet, splines, Venn-Abers.
    """
    from probmetrics.calibrators import ETSCalibrator, get_calibrator

    def method(kind: str, make: Callable[[], Any], *, ovr: bool, binary: bool) -> Method:
        def fit(P: np.ndarray, y: np.ndarray) -> Fitted:
            return make().fit(P, y).predict_proba

        fit = one_vs_rest(or_never(of_events(fit))) if ovr else fit
        largest = SLOWEST if kind.startswith("Matrix") else np.inf
        return Method(kind, "probmetrics", fit, probabilities, largest, binary)

    def both(
        kind: str, name: str, *, ovr: bool = False, binary: bool = True, **config: bool
    ) -> list[Method]:
        def make(*, mixed: bool) -> Callable[[], Any]:
            return lambda: get_calibrator(name, calibrate_with_mixture=mixed, **config)

        return [
            method(kind, make(mixed=False), ovr=ovr, binary=binary),
            method(f"{kind}, mixed", make(mixed=True), ovr=ovr, binary=binary),
        ]

    return [
        *both("TemperatureScaling", "temp-scaling"),
        *both("VectorScaling", "svs", binary=False, svs_print_init_info=False),
        *both("MatrixScaling", "sms", binary=False, sms_print_init_info=False),
        *both("PlattScaling", "affine-scaling", ovr=True),
        *both("QuadraticScaling", "quadratic-scaling", ovr=True),
        method("EnsembleTemperatureScaling", ETSCalibrator, ovr=False, binary=True),
    ]


def pairs(p: np.ndarray) -> np.ndarray:
    return np.stack([1 - p, p], axis=1)


def of_events(fit: Fit) -> Fit:
    """The same for the probability of an event as for those of two classes."""

    def fit_one(p: np.ndarray, events: np.ndarray) -> Fitted:
        fitted = fit(pairs(p), events.astype(int))
        return lambda p: fitted(pairs(p))[:, 1]

    return fit_one


def netcal() -> list[Method]:
    """In double precision: in single precision its optimizer stays at the initial value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from netcal.binning import BBQ, HistogramBinning, IsotonicRegression
        from netcal.scaling import LogisticCalibration, TemperatureScaling

    def method(kind: str, make: Callable, largest: float) -> Method:
        def fit(P: np.ndarray, y: np.ndarray) -> Fitted:
            transform = make().fit(P, y).transform
            # Of two classes it returns the probabilities of the second.
            return lambda P: pairs(transform(P)) if P.shape[1] == 2 else transform(P)

        return Method(kind, "netcal", fit, in_double, largest)

    return [
        method("TemperatureScaling", TemperatureScaling, SLOW),
        method("VectorScaling", LogisticCalibration, SLOWEST),
        method("HistogramBinning", HistogramBinning, SLOW),
        method("IsotonicCalibration", IsotonicRegression, SLOW),
        method("BBQ", BBQ, SLOWEST),
    ]


# Methods of a library by the name of its package.
LIBRARIES: dict[str, Callable[[], list[Method]]] = {
    "sklearn": scikit_learn,
    "betacal": betacal,
    "splinecalib": splinecalib,
    "venn_abers": venn_abers,
    "dirichletcal": dirichletcal,
    "probmetrics": probmetrics,
    "netcal": netcal,
}

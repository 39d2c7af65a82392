"""Common interface to the calibrators of skcalib and of other libraries, for the benchmarks.

Libraries that are not installed are skipped (``pip install 'skcalib[bench]'`` installs them).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV

import skcalib
from skcalib._base import BaseCalibrator

PARAMETRIC = skcalib.scaling.__all__
BINNING = skcalib.binning.__all__
ALPHAS = [0.01, 0.03, 0.1, 0.3, 1, 3]
Fitted = Callable[[np.ndarray], np.ndarray]


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
    fit: Callable[[np.ndarray, np.ndarray], Fitted]
    prepare: Callable[[np.ndarray], np.ndarray] = np.asarray
    largest: float = np.inf
    binary: bool = True

    @property
    def name(self) -> str:
        return self.kind if self.library == "skcalib" else f"{self.kind}, {self.library}"


def all_methods() -> list[Method]:
    """Methods of skcalib, then those of each library that is installed."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # netcal has a progress bar for every class
    methods = ours() + scikit_learn()
    if find_spec("probmetrics"):
        methods += probmetrics()
    if find_spec("netcal"):
        methods += netcal()
    return methods


def of_ours(name: str, make: Callable[..., Any]) -> Method:
    def fit(Z: np.ndarray, y: np.ndarray) -> Fitted:
        return make(classes=range(max(Z.shape[1], 2))).fit(Z, y).predict_proba

    return Method(name, "skcalib", fit)


def ours() -> list[Method]:
    """Every calibrator that skcalib exports, with its defaults; records have no groups."""
    members = {name: getattr(skcalib, name) for name in skcalib.__all__ if "Group" not in name}
    return [
        of_ours(name, member)
        for name, member in members.items()
        if isinstance(member, type) and issubclass(member, BaseCalibrator)
    ]


def variants() -> list[Method]:
    """Without regularization, as in the paper, and with a strength chosen by cross-validation."""
    linear = (skcalib.VectorScaling, skcalib.MatrixScaling)
    return [
        of_ours("PlattScaling, plain", partial(skcalib.PlattScaling, smooth_targets=False)),
        *(of_ours(f"{c.__name__}, plain", partial(c, alpha=0)) for c in linear),
        *(of_ours(f"{c.__name__}, grid", partial(grid_of_alpha, c)) for c in linear),
    ]


def grid_of_alpha(kind: Callable[..., Any], classes: range) -> GridSearchCV:
    scoring = make_scorer(
        log_loss, response_method="predict_proba", greater_is_better=False, labels=classes
    )
    return GridSearchCV(kind(classes=classes), {"alpha": ALPHAS}, scoring=scoring, cv=5)


def both_columns(Z: np.ndarray) -> np.ndarray:
    return Z if Z.shape[1] > 1 else np.hstack([np.zeros_like(Z), Z])


def probabilities(Z: np.ndarray) -> np.ndarray:
    P = softmax(both_columns(Z), axis=1)
    return P / P.sum(axis=1, keepdims=True)


def scikit_learn() -> list[Method]:
    """Calibrators of scikit-learn, called directly without the meta-estimator."""
    from sklearn import calibration
    from sklearn.isotonic import IsotonicRegression

    def temperature(Z: np.ndarray, y: np.ndarray) -> Fitted:
        fitted = calibration._TemperatureScaling().fit(Z, y)
        return fitted.predict

    def platt(M: np.ndarray, y: np.ndarray) -> Fitted:
        events = range(M.shape[1]) if M.shape[1] > 1 else [1]
        fitted = [
            calibration._SigmoidCalibration().fit(m, y == k)
            for k, m in zip(events, M.T, strict=True)
        ]

        def predict(M: np.ndarray) -> np.ndarray:
            P = np.stack([f.predict(m) for f, m in zip(fitted, M.T, strict=True)], axis=1)
            P = P if P.shape[1] > 1 else np.hstack([1 - P, P])
            return P / P.sum(axis=1, keepdims=True)

        return predict

    def margins(Z: np.ndarray) -> np.ndarray:
        if Z.shape[1] == 1:
            return Z
        P = softmax(Z.astype(np.float64), axis=1)
        return np.log(P) - np.log1p(-np.minimum(P, 1 - 1e-16))

    def isotonic(P: np.ndarray, y: np.ndarray) -> Fitted:
        columns = range(P.shape[1]) if P.shape[1] > 2 else [1]
        fitted = [IsotonicRegression(out_of_bounds="clip").fit(P[:, k], y == k) for k in columns]

        def predict(P: np.ndarray) -> np.ndarray:
            each = zip(fitted, columns, strict=True)
            S = np.stack([f.predict(P[:, k]) for f, k in each], axis=1)
            S = S if S.shape[1] > 1 else np.hstack([1 - S, S])
            return S / np.maximum(S.sum(axis=1, keepdims=True), 1e-30)

        return predict

    methods = [
        Method("PlattScaling", "scikit-learn", platt, margins, largest=1.1e7),
        Method("IsotonicCalibration", "scikit-learn", isotonic, probabilities),
    ]
    if hasattr(calibration, "_TemperatureScaling"):
        methods.insert(0, Method("TemperatureScaling", "scikit-learn", temperature))
    return methods


def probmetrics() -> list[Method]:
    """With its defaults, and mixed with a little of the uniform distribution, as it recommends."""
    from probmetrics.calibrators import get_calibrator

    def method(kind: str, name: str, *, binary: bool, **config: bool) -> Method:
        def fit(P: np.ndarray, y: np.ndarray) -> Fitted:
            return get_calibrator(name, **config).fit(P, y).predict_proba

        return Method(kind, "probmetrics", fit, probabilities, binary=binary)

    def both(kind: str, name: str, *, binary: bool, **config: bool) -> list[Method]:
        mixed = method(f"{kind}, mixed", name, binary=binary, calibrate_with_mixture=True, **config)
        return [method(kind, name, binary=binary, **config), mixed]

    return [
        *both("TemperatureScaling", "temp-scaling", binary=True),
        *both("VectorScaling", "svs", binary=False, svs_print_init_info=False),
        *both("MatrixScaling", "sms", binary=False, sms_print_init_info=False),
    ]


def netcal() -> list[Method]:
    """In double precision: in single precision its optimizer stays at the initial value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from netcal.binning import BBQ, HistogramBinning, IsotonicRegression
        from netcal.scaling import LogisticCalibration, TemperatureScaling

    def method(kind: str, make: Callable, largest: float) -> Method:
        def fit(P: np.ndarray, y: np.ndarray) -> Fitted:
            return make().fit(P, y).transform

        return Method(
            kind, "netcal", fit, lambda Z: probabilities(Z.astype(float)), largest, binary=False
        )

    return [
        method("TemperatureScaling", TemperatureScaling, largest=1.1e7),
        method("VectorScaling", LogisticCalibration, largest=6e5),
        method("HistogramBinning", HistogramBinning, largest=1.1e7),
        method("IsotonicCalibration", IsotonicRegression, largest=1.1e7),
        method("BBQ", BBQ, largest=6e5),
    ]

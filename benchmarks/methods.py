"""Every calibrator of skcalib and of other libraries, for the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peers import Fitted, Method, peers
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV

import skcalib
from skcalib._base import BaseCalibrator

ALPHAS = [0.01, 0.03, 0.1, 0.3, 1, 3]


def all_methods() -> list[Method]:
    """Methods of skcalib, then those of each library that is installed."""
    return ours() + peers()


def calibrators() -> dict[str, type[BaseCalibrator]]:
    """Every calibrator that skcalib exports, by name, but that of groups, which records lack."""
    members = {name: getattr(skcalib, name) for name in skcalib.__all__ if "Group" not in name}
    return {
        name: member
        for name, member in members.items()
        if isinstance(member, type) and issubclass(member, BaseCalibrator)
    }


def of_ours(name: str, make: Callable[..., Any]) -> Method:
    def fit(Z: np.ndarray, y: np.ndarray) -> Fitted:
        return make(classes=range(max(Z.shape[1], 2))).fit(Z, y).predict_proba

    return Method(name, "skcalib", fit)


def ours() -> list[Method]:
    """Every calibrator of skcalib, with its defaults."""
    return [of_ours(name, make) for name, make in calibrators().items()]


def variants() -> list[Method]:
    """Without regularization, as published, other forms, and a strength by cross-validation."""
    linear = (skcalib.VectorScaling, skcalib.MatrixScaling)
    plain = (*linear, skcalib.QuadraticScaling, skcalib.BetaCalibration)
    isotonic, venn_abers = skcalib.IsotonicCalibration, skcalib.VennAbersCalibration
    return [
        of_ours("TemperatureScaling, plain", partial(skcalib.TemperatureScaling, smoothing=0)),
        of_ours("PlattScaling, plain", partial(skcalib.PlattScaling, smooth_targets=False)),
        *(of_ours(f"{c.__name__}, plain", partial(c, alpha=0)) for c in plain),
        *(of_ours(f"{c.__name__}, alpha=1", partial(c, alpha=1.0)) for c in linear),
        *(of_ours(f"{c.__name__}, grid", partial(grid_of_alpha, c)) for c in linear),
        of_ours("IsotonicCalibration, plain", partial(isotonic, smoothing=0)),
        of_ours("IsotonicCalibration, linear", partial(isotonic, interpolation="linear")),
        of_ours("IsotonicCalibration, centered", partial(isotonic, interpolation="centered")),
        of_ours("VennAbersCalibration, brier", partial(venn_abers, merge="brier")),
        of_ours("VennAbersCalibration, ovo", partial(venn_abers, multi_class="ovo")),
    ]


def grid_of_alpha(kind: Callable[..., Any], classes: range) -> GridSearchCV:
    scoring = make_scorer(
        log_loss, response_method="predict_proba", greater_is_better=False, labels=classes
    )
    return GridSearchCV(kind(classes=classes), {"alpha": ALPHAS}, scoring=scoring, cv=5)

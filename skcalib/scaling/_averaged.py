"""Averages of linear maps of the same log-probabilities: one map, with the averaged scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skcalib._typing import Floats

from ._linear import _LinearScaling
from ._matrix import MatrixScaling
from ._temperature import TemperatureScaling
from ._vector import VectorScaling


def features_of(calibrator: Any) -> tuple[float, float] | None:
    """Temperature and smoothing, if it is a fitted linear map of log-probabilities with these."""
    linear = isinstance(calibrator, _LinearScaling) and calibrator.normalize_
    if not (linear or isinstance(calibrator, TemperatureScaling)):
        return None
    return calibrator.temperature_, calibrator.smoothing_


def averaged(calibrators: Sequence[Any], weights: Floats) -> _LinearScaling:
    """The fitted calibrator with the mean scores of fitted ones that have equal features."""
    first, weights = calibrators[0], weights / weights.sum()
    K = len(first.classes_)
    coefs = [getattr(c, "coef_", np.ones(K)) for c in calibrators]
    intercepts = [getattr(c, "intercept_", np.zeros(K)) for c in calibrators]
    has_matrix = any(coef.ndim == 2 for coef in coefs)
    found = MatrixScaling() if has_matrix else VectorScaling()
    if has_matrix:
        coefs = [coef if coef.ndim == 2 else np.diag(coef) for coef in coefs]
    found.coef_ = np.tensordot(weights, coefs, 1)
    found.intercept_ = weights @ np.array(intercepts)
    found.temperature_, found.smoothing_ = first.temperature_, first.smoothing_
    found.normalize_ = True
    found.classes_, found.n_features_in_ = first.classes_, first.n_features_in_
    return found

"""Linear maps of the same log-probabilities: fitted together, and averaged to a single map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skcalib._engine.rows import Rows
from skcalib._typing import Floats

from ._linear import _LinearScaling
from ._matrix import MatrixScaling
from ._temperature import TemperatureScaling
from ._vector import VectorScaling


def family_of(calibrator: Any) -> tuple[Any, ...] | None:
    """What the features of a linear map that is to be fitted depend on, if others may share them.

    Without regularization features are not the same where logits are no better than chance.
    """
    if type(calibrator) not in {VectorScaling, MatrixScaling} or not calibrator.normalize:
        return None
    return None if calibrator.alpha == 0 else (calibrator.smoothing,)


def fit_together(calibrators: Sequence[Any], rows: Rows) -> list[dict[str, Any]]:
    """Fitted attributes of members of a family, each from where the one before of its kind ended.

    Fits are fastest in the order of decreasing strengths.
    """
    for calibrator in calibrators:
        calibrator._check_parameters()  # noqa: SLF001
    prepared = calibrators[0]._prepared(rows)  # noqa: SLF001
    ends: dict[Any, Floats] = {}
    found = []
    for calibrator in calibrators:
        kind = type(calibrator), getattr(calibrator, "fit_intercept", True)
        fitted = calibrator._fit_map(prepared, ends.get(kind))  # noqa: SLF001
        parameters = [fitted["coef_"].ravel(), fitted["intercept_"]]
        ends[kind] = np.concatenate(parameters if kind[1] else parameters[:1])
        found.append(fitted)
    return found


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

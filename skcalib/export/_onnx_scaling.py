"""Formulas of temperature scaling, ensembles of it, linear maps and order-preserving scaling."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from skcalib._optimize.loss import LOWEST_FEATURE
from skcalib.scaling import (
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    TemperatureScaling,
    VectorScaling,
)

from ._formulas import (
    Outputs,
    as_mixed_outputs,
    as_outputs,
    divided,
    finite_unless_masked,
    formula,
    holding,
    mix_logits,
    mixture,
)
from ._graph import Value, both_columns, log_softmax


@formula.register
def _temperature(calibrator: TemperatureScaling, Z: Value) -> Outputs:
    unmixed = finite_unless_masked(partial(divided, temperature=calibrator.temperature_), Z)
    return as_mixed_outputs(calibrator, Z, unmixed, calibrator.smoothing_)


@formula.register(VectorScaling)
@formula.register(MatrixScaling)
@formula.register(DirichletCalibration)
def _linear(calibrator: Any, Z: Value) -> Outputs:
    n_columns, smoothing = calibrator.n_features_in_, calibrator.smoothing_
    F = Z
    if calibrator.normalize_:
        F = mixed_by_temperature(Z, calibrator.temperature_, smoothing, n_columns)
    unmixed = finite_unless_masked(partial(_linear_scores, calibrator), F)
    return as_mixed_outputs(calibrator, Z, unmixed, smoothing)


def mixed_by_temperature(Z: Value, temperature: float, smoothing: float, n_columns: int) -> Value:
    """Logits of the mixture that temperature scaling gives."""
    if n_columns > 1:  # else constants of rows leave rounding errors of their size
        Z = Z - Z.max()
    scaled = finite_unless_masked(partial(divided, temperature=temperature), Z)
    return mix_logits(scaled, smoothing, n_columns)


def _linear_scores(calibrator: Any, Z: Value) -> Value:
    """The linear map of logits, or of log-probabilities no less than the lowest."""
    coef, intercept = calibrator.coef_, calibrator.intercept_
    n_columns = calibrator.n_features_in_
    F = both_columns(Z, n_columns)
    if calibrator.normalize_:
        are_logs = calibrator.smoothing_ > 0 and n_columns > 1
        F = (F if are_logs else log_softmax(F)).at_least(LOWEST_FEATURE)
    F = holding(F, coef, intercept)
    S = (F @ coef.T if coef.ndim == 2 else F * coef) + intercept
    return as_wide_as_logits(S, n_columns).astype(Z.dtype)


def as_wide_as_logits(S: Value, n_columns: int) -> Value:
    """Scores with a column for each class as those, or as log-odds if logits have one column."""
    return S.columns(1, 2) - S.columns(0, 1) if n_columns == 1 else S


@formula.register
def _ensemble(calibrator: EnsembleTemperatureScaling, Z: Value) -> Outputs:
    unmixed = finite_unless_masked(partial(_two_temperatures, calibrator), Z)
    return as_mixed_outputs(calibrator, Z, unmixed, float(calibrator.weights_[2]))


def _two_temperatures(calibrator: EnsembleTemperatureScaling, Z: Value) -> Value:
    """Logits of the mixture of the scaled and the uncalibrated probabilities."""
    temperature, weights = calibrator.temperature_, calibrator.weights_[:2]
    if weights[1] == 0 or weights[0] == 0:
        return Z if weights[1] > 0 else divided(Z, temperature)
    U = both_columns(Z, calibrator.n_features_in_)
    U = U - U.max()
    parts = [log_softmax(divided(U, temperature)), log_softmax(U)]
    L = mixture(parts, weights / weights.sum())
    return as_wide_as_logits(L, calibrator.n_features_in_)


@formula.register
def _order_preserving(calibrator: OrderPreservingScaling, Z: Value) -> Outputs:
    n_columns, smoothing = calibrator.n_features_in_, calibrator.smoothing_
    L = mixed_by_temperature(Z, calibrator.temperature_, smoothing, n_columns)
    if smoothing == 0 or n_columns == 1:
        L = log_softmax(both_columns(L, n_columns))
    S = finite_unless_masked(partial(_piecewise, calibrator.knots_, calibrator.slopes_), L)
    return as_outputs(calibrator, Z, as_wide_as_logits(S, n_columns))


def _piecewise(knots: Any, slopes: Any, L: Value) -> Value:
    """The piecewise linear function, as the sum of its segments."""
    L = L.at_least(LOWEST_FEATURE)
    limits = pairwise([-np.inf, *knots.tolist(), np.inf])
    terms = (
        L.between(*of_segment) * slope
        for of_segment, slope in zip(limits, slopes.tolist(), strict=True)
    )
    return sum(terms, start=L * 0.0)

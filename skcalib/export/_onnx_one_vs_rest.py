"""Formulas of sigmoids of the log-odds of each class, one versus the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skcalib._optimize.spline import curvatures_of_values
from skcalib._rows.arrays import Floats
from skcalib.scaling import BetaCalibration, PlattScaling, QuadraticScaling, SplineCalibration
from skcalib.scaling._one_vs_rest import FARTHEST
from skcalib.scaling._platt import LARGE

from ._formulas import (
    Outputs,
    as_mixed_outputs,
    as_outputs,
    finite_unless_masked,
    formula,
    holding,
)
from ._graph import Value, both_columns, expm1, log1p, where
from ._onnx_scaling import mixed_by_temperature


def margins(Z: Value, n_columns: int) -> Value:
    """Log-odds of each class, or of the second of two: (n_rows, n_maps).

    The largest is not added to the others, which would lose precision beside it.
    """
    if n_columns <= 2:
        return Z.columns(1, 2) - Z.columns(0, 1) if n_columns == 2 else Z
    is_top = Z.argmax(keepdims=True).equals(np.arange(n_columns))
    M = Z - Z.max()
    rest = where(is_top, -np.inf, M)
    second = rest.max().at_least(np.finfo(Z.dtype).min)
    E = (rest - second).exp()
    total = E.sum()
    alone = total.equals(0.0)
    of_top = where(alone, np.inf, -(second + where(alone, 1.0, total).log()))
    return where(is_top, of_top, M - log1p(second.exp() * (total - E)))


def joined(S: Value, n_columns: int) -> Value:
    """Logits, as many columns as given, of normalized probabilities whose log-odds are ``S``."""
    if n_columns > 2:
        return log_sigmoid(S)
    return S if n_columns == 1 else both_columns(S, 1)


def log_sigmoid(S: Value) -> Value:
    """Logarithms of the probabilities whose log-odds are ``S``."""
    return S.at_most(0.0) - log1p((-S.abs()).exp())


@formula.register
def _platt(calibrator: PlattScaling, Z: Value) -> Outputs:
    coef, intercept, n_columns = calibrator.coef_, calibrator.intercept_, calibrator.n_features_in_

    def scores(S: Value) -> Value:
        return joined(sigmoid_scores(margins(S, n_columns), coef, intercept), n_columns)

    return as_outputs(calibrator, Z, finite_unless_masked(scores, Z))


def sigmoid_scores(M: Value, coef: Floats, intercept: Floats) -> Value:
    """Calibrated log-odds, a linear function of the margins of each column."""
    precise = holding(M, coef, intercept)
    if max(abs(coef).max(), abs(intercept).max()) > LARGE:
        precise = M.astype(np.float64)  # single precision loses what nearly cancels
    return (precise * coef + intercept).astype(M.dtype)


def _around_temperature(calibrator: Any, Z: Value, scores: Callable[[Value], Value]) -> Outputs:
    """The outputs for calibrated log-odds as a function of finite ones, (n_rows, n_maps)."""
    n_columns = calibrator.n_features_in_
    U = _mixed_log_odds(Z, calibrator.temperature_, calibrator.smoothing_, n_columns)
    S = joined(scores(U.between(-FARTHEST, FARTHEST)).astype(Z.dtype), n_columns)
    unmixed = finite_unless_masked(lambda _: S, Z)
    return as_mixed_outputs(calibrator, Z, unmixed, calibrator.smoothing_)


def _mixed_log_odds(Z: Value, temperature: float, smoothing: float, n_columns: int) -> Value:
    """Log-odds of the mixture that temperature scaling gives, of masked classes any."""
    if n_columns > 2:
        return margins(mixed_by_temperature(Z, temperature, smoothing, n_columns), n_columns)
    return mixed_by_temperature(margins(Z, n_columns), temperature, smoothing, 1)


@formula.register
def _quadratic(calibrator: QuadraticScaling, Z: Value) -> Outputs:
    def scores(U: Value) -> Value:
        C = U.between(*calibrator.limits_)
        square = (U * 2.0 - C) * C
        return square * calibrator.quadratic_ + U * calibrator.coef_ + calibrator.intercept_

    return _around_temperature(calibrator, Z, scores)


@formula.register
def _beta(calibrator: BetaCalibration, Z: Value) -> Outputs:
    T, a, b = calibrator.temperature_, calibrator.a_, calibrator.b_

    def scores(U: Value) -> Value:
        U = holding(U, T)
        distance = U.abs()
        bent = log1p(expm1(-T * distance) * 0.5) / T + distance * 0.5
        return bent * (T * (b - a)) + U * (T * ((a + b) / 2)) + calibrator.intercept_

    return _around_temperature(calibrator, Z, scores)


@formula.register
def _spline(calibrator: SplineCalibration, Z: Value) -> Outputs:
    knots, values = calibrator.knots_, calibrator.values_
    low, width = knots[:, 0], knots[:, -1] - knots[:, 0]

    def scores(U: Value) -> Value:
        return natural_spline((holding(U, 1 / width) - low) / width, values)

    return _around_temperature(calibrator, Z, scores)


def natural_spline(U: Value, values: Floats) -> Value:
    """Natural cubic splines by their values (K, J) at equally spaced knots of the unit interval.

    As sums of their changes on the segments. Sums of cubes above the knots, as those of the
    library, cancel where single precision does not hold it.
    """
    n_segments = values.shape[1] - 1
    bend = curvatures_of_values(n_segments + 1) @ values.T / n_segments**2  # (J, K)
    square, cube = bend[:-1] / 2, np.diff(bend, axis=0) / 6
    slope = np.diff(values.T, axis=0) - square - cube
    X = U * float(n_segments)
    S = X.at_most(0.0) * slope[0] + values[:, 0]
    for j, (b, c, d) in enumerate(zip(slope, square, cube, strict=True)):
        t = (X - float(j)).between(0.0, 1.0)
        S = S + t * (t * (t * d + c) + b)
    return S + (X - float(n_segments)).at_least(0.0) * (slope + 2 * square + 3 * cube)[-1]

"""Ordinal calibration."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from skcalib._input.classes import columns_in_order
from skcalib._input.parameters import check_integer, check_real, fitted_smoothing
from skcalib._optimize.ordinal import LOWEST_LOGIT, fit_ordinal
from skcalib._optimize.temperature import fit_inverse_temperature
from skcalib._rows import Rows, arrays
from skcalib._typing import ArrayLike, Floats, Indices
from skcalib._warnings import NotConvergedWarning, warn
from skcalib.base import BaseCalibrator

# Stands for the infinite log-odds below the first class and above the last class.
INFINITE = 1e4


class OrdinalCalibration(BaseCalibrator):
    r"""Calibration for ordered classes: a linear map of cumulative log-odds.

    Ordered classes are, for example, grades or stages of a disease. Let :math:`F_k` be the
    cumulative probability of the first k classes after temperature scaling. It is mapped by

    .. math:: \operatorname{logit} Q_k = a \operatorname{logit} F_k + b , \qquad
        \hat p_k = Q_k - Q_{k-1} ,

    with :math:`a > 0`. The temperature changes the spread of each forecast, the slope a changes
    its tails, and the intercept b moves all forecasts up or down.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the ridge penalty on :math:`\log(T / T_0)`, :math:`\log a` and b, with the
        temperature :math:`T_0` from :class:`TemperatureScaling`. In units of rows.
    smoothing : float or "auto", default="auto"
        Share :math:`\varepsilon` of the uniform distribution in the result, at least 0 and below
        1. "auto" is :math:`1 / (N + 1)` with N the total weight. With ``smoothing=0`` the
        probabilities are :math:`\hat p` exactly.
    max_iter : int, default=100
        Largest number of iterations.
    order : array-like of shape (n_classes,), default=None
        All labels from the lowest to the highest class. By default numbers and ordered categories
        determine the order. More than two text labels need this parameter.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, which says nothing about the order of the
        classes. By default the sorted labels in ``y``, or its ordered categories.

    Attributes
    ----------
    temperature_ : float
        The temperature T.
    slope_ : float
        The slope a.
    intercept_ : float
        The intercept b.
    smoothing_ : float
        The share :math:`\varepsilon` of the uniform distribution.
    n_iter_ : int
        Number of iterations.
    column_order_ : list of int
        Column numbers from the lowest to the highest class, so that ``classes_[column_order_]`` are
        the ordered labels.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If the fit stops after ``max_iter`` iterations.

    See Also
    --------
    TemperatureScaling : One parameter, for classes without an order.
    skcalib.metrics.ranked_probability_score : A proper score for ordered classes.

    Notes
    -----
    :func:`scipy.optimize.minimize` minimizes the mixture's log loss, plus :math:`\alpha / N` times
    the squared distance between :math:`(\log T, \log a, b)` and temperature scaling. If the order
    of the classes is reversed, b changes its sign and the map stays the same. With few classes, or
    if the order carries little information, :class:`AutoCalibrator` usually has a lower log loss.

    References
    ----------
    .. [1] McCullagh, "Regression Models for Ordinal Data", Journal of the Royal Statistical
       Society B 42, 1980.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import OrdinalCalibration
    >>> rng = np.random.default_rng(0)
    >>> grades = np.arange(5)
    >>> mean = rng.uniform(0, 4, size=500)
    >>> logits = -2.0 * (grades - mean[:, None]) ** 2  # over-confident forecasts
    >>> y = np.clip(np.round(mean + rng.normal(size=500)), 0, 4).astype(int)
    >>> calibrator = OrdinalCalibration().fit(logits, y)
    >>> calibrator.predict_proba(logits[:1]).round(2)
    array([[0.01, 0.13, 0.38, 0.35, 0.12]])
    """

    temperature_: float
    slope_: float
    intercept_: float
    smoothing_: float
    n_iter_: int
    column_order_: list[int]

    _on_device = True
    _has_class_parameters = False

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        smoothing: Literal["auto"] | float = "auto",
        max_iter: int = 100,
        order: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.alpha = alpha
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.order = order

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_real("alpha", self.alpha, closed=True)
        check_integer("max_iter", self.max_iter)
        columns = columns_in_order(rows.classes, rows.order if self.order is None else self.order)
        if (columns[1:] < columns[:-1]).any():
            rows = rows.map(partial(_in_order, columns)).relabel(partial(_ranks, columns))
        smoothing = fitted_smoothing(self.smoothing, rows)
        temperature = 1 / fit_inverse_temperature(rows, smoothing).value
        result = fit_ordinal(rows, temperature, smoothing, float(self.alpha), self.max_iter)
        if result.nit >= self.max_iter:
            warn(
                f"OrdinalCalibration stopped after {result.nit} iterations before it converged. "
                "Increase max_iter or alpha.",
                NotConvergedWarning,
            )
        log_temperature, log_slope, intercept = result.x
        return {
            "temperature_": float(np.exp(log_temperature)),
            "slope_": float(np.exp(log_slope)),
            "intercept_": float(intercept),
            "smoothing_": smoothing,
            "n_iter_": int(result.nit),
            "column_order_": columns.tolist(),
        }

    def _calibrate(self, Z: Floats) -> Floats:
        # Files without column_order_ are older than the parameter order.
        columns = np.array(getattr(self, "column_order_", range(max(Z.shape[1], 2))))
        U = arrays.double(_in_order(columns, Z))
        xp = arrays.namespace(U)
        U = (U - xp.max(U, axis=1, keepdims=True)) / self.temperature_
        E = xp.exp(xp.clip(U, LOWEST_LOGIT, 0.0))
        below, above = _exclusive_sums(E)
        # The outermost cut points are infinite: a 1 avoids a logarithm of 0, INFINITE is added
        # below.
        ends = np.zeros((2, U.shape[1]))
        ends[0, 0] = ends[1, -1] = 1.0
        first, last = (
            arrays.to_library(ends[:1], E, E.dtype),
            arrays.to_library(ends[1:], E, E.dtype),
        )
        log_odds = xp.log((below + E) / (above + last)), xp.log((below + first) / (E + above))
        upper = self.slope_ * log_odds[0] + self.intercept_ + INFINITE * last
        lower = self.slope_ * log_odds[1] + self.intercept_ - INFINITE * first
        width = xp.log1p(E / (below + first)) + xp.log1p(E / (above + last))
        width = self.slope_ * width + INFINITE * (first + last)
        # log(expit(upper) - expit(lower)), accurate for small probabilities.
        L = _log_expit(upper) + _log_expit(-lower) + xp.log(-xp.expm1(-width))
        L = arrays.astype(_take_columns(L, np.argsort(columns)), Z.dtype)
        return arrays.in_columns_of(Z, L)


def _in_order(columns: Indices, Z: Floats, *_: Any) -> Floats:
    """Return logits (m, K) with columns from the lowest to the highest class."""
    return _take_columns(arrays.both_columns(Z), columns)


def _ranks(columns: Indices, y: Indices) -> Indices:
    """Convert class indices (m,) to ranks (m,), 0 for the lowest class."""
    return np.argsort(columns)[y]


def _take_columns(Z: Floats, columns: Indices) -> Floats:
    """Return ``Z[:, columns]`` in every array library, and in ONNX graphs."""
    if (columns == np.arange(len(columns))).all():
        return Z
    if isinstance(Z, np.ndarray):
        return Z[:, columns]
    return Z @ arrays.to_library(np.eye(len(columns))[:, columns], Z, Z.dtype)


def _exclusive_sums(E: Floats) -> tuple[Floats, Floats]:
    """Sum each row before each column, and after each column: two arrays (m, K)."""
    n_classes = E.shape[1]
    if isinstance(E, np.ndarray):
        before, after = np.zeros_like(E), np.zeros_like(E)
        np.cumsum(E[:, :-1], axis=1, out=before[:, 1:])
        np.cumsum(E[:, :0:-1], axis=1, out=after[:, -2::-1])
        return before, after
    ones = np.triu(np.ones((n_classes, n_classes)), 1)
    return E @ arrays.to_library(ones, E, E.dtype), E @ arrays.to_library(ones.T.copy(), E, E.dtype)


def _log_expit(x: Floats) -> Floats:
    """Return ``log(1 / (1 + exp(-x)))`` without overflow."""
    xp = arrays.namespace(x)
    return xp.clip(x, None, 0.0) - xp.log1p(xp.exp(-xp.abs(x)))

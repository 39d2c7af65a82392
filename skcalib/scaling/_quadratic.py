"""Quadratic scaling: a quadratic map of the log-odds for each class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._optimize.logistic import Prior
from skcalib._rows import Rows, arrays
from skcalib._typing import Floats

from ._one_vs_rest import FARTHEST, _OneVsRestScaling, finite_range, fit_maps

# Lower bound of the standard deviation that scales slopes: log-odds may be nearly equal.
LEAST_SPREAD = 0.1


class QuadraticScaling(_OneVsRestScaling):
    r"""Quadratic scaling: a quadratic map of the log-odds for each class.

    The log-odds x of class k are mapped by

    .. math:: \hat p_k = \sigma(a_k + b_k x + c_k x^2), \qquad
        x = \log \frac{q_k}{1 - q_k}, \qquad
        q = (1 - \varepsilon)\, \mathrm{softmax}(z / T) + \varepsilon / K .

    With c > 0 the function is steeper at large log-odds than at small log-odds. With c = 0 the map
    is Platt scaling, and with a = c = 0 and b = 1 temperature scaling, mixed with the uniform
    distribution. The parameters minimise the log loss of the event :math:`y = k` plus a penalty
    that shrinks them to temperature scaling. Rows are then divided by their sum, and mixed with the
    uniform distribution. Two classes share one map, for the second class. Beyond the calibration
    rows' log-odds, tangents replace the function.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularization strength: three numbers have independent normal priors around 0 with variance
        :math:`1 / \alpha`. The first is the map minus x at the centre, the second is s times the
        slope minus 1 there. The third is :math:`s^2` times the slope's change over
        :math:`\log(2 N + 1)`, the largest log-odds after mixing. 0 is the plain form [1]_, which
        has no optimum for separable rows.
    smoothing : "auto" or float, default="auto"
        Share :math:`\varepsilon` of the uniform distribution in both mixtures, by default
        :math:`1 / (N + 1)`, with N the total weight. ``smoothing=0`` gives the plain map
        exactly.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets a.
    coef_ : ndarray of shape (n_classes,), or (1,) for two classes
        The slopes b at x = 0.
    quadratic_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients c of the squares.
    limits_ : ndarray of shape (2, n_classes), or (2, 1) for two classes
        The smallest and the largest x in the calibration rows.
    temperature_ : float
        The temperature T.
    smoothing_ : float
        The share :math:`\varepsilon`.
    alpha_ : float
        The regularization strength :math:`\alpha`.
    n_iter_ : int
        Number of passes over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in column order.
    n_features_in_ : int
        Number of columns in ``X`` during ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        If the logits are constant or no better than chance, as for :class:`TemperatureScaling`.
        With ``alpha=0``, if the map separates a class from the others, so that no optimum exists.
        The parameters are then large but finite. Also if Newton's method does not converge.
    UserWarning
        As for :class:`TemperatureScaling`.

    See Also
    --------
    BetaCalibration : A map with two slopes that never decreases.
    PlattScaling : A linear function of the log-odds.

    Notes
    -----
    :func:`scipy.optimize.minimize` finds the minimum by a Newton method for all classes at once.

    The centre is the mean log-odds, weighted by the information :math:`q_k (1 - q_k)`, and s is
    their standard deviation, clipped to [0.1, 1]. Log-odds on one side of zero, or with little
    variation, are then calibrated as freely as others.

    The map may decrease at one end, beyond :math:`-b / 2c`. The mixture bounds log-odds by about
    :math:`\log(2 N + 1)`, and tangents keep the slope constant beyond the calibration rows, so that
    no new row is far along a decreasing branch. Log-odds are clipped to ±1000, which matters only
    if ``smoothing=0``.

    References
    ----------
    .. [1] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import QuadraticScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 2, temperature=1.0, random_state=0)
    >>> odds = logits[:, 1] - logits[:, 0]
    >>> under_confident_above_half = np.where(odds > 0, odds / 2, odds)[:, None]
    >>> calibrator = QuadraticScaling().fit(under_confident_above_half, y)
    >>> bool(calibrator.quadratic_ > 0.05)
    True
    """

    intercept_: Floats
    coef_: Floats
    quadratic_: Floats
    limits_: Floats
    n_iter_: int

    def _fit_maps(self, odds: Rows, _: float) -> dict[str, Any]:
        highest, lowest = odds.sum(finite_range, merge=np.maximum)
        limits = np.where(np.isfinite(highest), [-lowest, highest], 0)
        # In this unit the third parameter is the change of the slope.
        unit = 2 * float(np.log1p(2 * max(odds.weight, 1)))
        information, *moments = odds.sum(_information)
        centre, square = moments / np.maximum(information, np.finfo(float).tiny)
        if self.alpha == 0:  # without a prior the units must not magnify rounding errors
            centre, square = 0 * centre, 1 + 0 * square
        spread = np.sqrt(np.clip(square - centre**2, LEAST_SPREAD**2, 1))
        prior = Prior(np.stack([spread, 0 * spread, centre], axis=1), self.alpha * np.eye(3))
        expand = partial(_quadratic_features, limits, unit, centre, spread)
        solution = fit_maps(odds, expand, prior)[1]
        theta = solution.x
        slope, quadratic = theta[:, 0] / spread, theta[:, 1] / (spread**2 * unit)
        return {
            "alpha_": float(self.alpha),
            "intercept_": theta[:, 2] - (slope - quadratic * centre) * centre,
            "coef_": slope - 2 * quadratic * centre,
            "quadratic_": quadratic,
            "limits_": limits,
            "n_iter_": solution.nfev + 1,  # one pass sums the weights
        }

    def _scores(self, U: Floats) -> Floats:
        return self.quadratic_ * _square(self.limits_, U) + self.coef_ * U + self.intercept_


def _square(limits: Floats, U: Floats) -> Floats:
    """Return squared log-odds (m, n_maps), or tangents beyond the limits (2, n_maps)."""
    limits = arrays.to_library(limits, U)
    C = arrays.namespace(U).clip(U, limits[0, ...], limits[1, ...])
    return (2 * U - C) * C


def _quadratic_features(
    limits: Floats, unit: float, centre: Floats, spread: Floats, U: Floats
) -> list[Floats]:
    """Return features (m, n_maps) in units that equalize the prior precision of all parameters.

    ``limits`` are (2, n_maps); ``centre`` and ``spread`` are (n_maps,).
    """
    V = (U - centre) / spread
    return [V, _square((limits - centre) / spread, V) / unit]


def _information(U: Floats, _: Any, w: Floats | None) -> Floats:
    """Sum ``q = p (1 - p)``, ``q x`` and ``q x^2`` over rows: (3, n_maps)."""
    U = U.astype(np.float64, copy=False)
    U = np.where(np.isfinite(U), U, FARTHEST)  # without information
    E = np.exp(-np.abs(U))
    Q = E / (1 + E) ** 2
    return np.stack([arrays.weighted_sum(A, w) for A in (Q, Q * U, Q * U * U)])

"""Maps of log-odds, one sigmoid per class: quadratic scaling and beta calibration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._input.labels import shown
from skcalib._input.parameters import check_real, fitted_smoothing
from skcalib._optimize.logistic import Prior, RowSigmoids, fit_sigmoids
from skcalib._optimize.temperature import (
    SMALLEST_SCALE,
    fit_inverse_temperature,
    mixed_logits,
    warn_of_no_minimum,
)
from skcalib._rows import Rows, arrays, thin
from skcalib._scores.columns import joined, margins
from skcalib._typing import ArrayLike, Bools, Floats
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, warn
from skcalib.base import BaseCalibrator, IncreasingMap

# Log-odds beyond this bound mean probabilities of 0 and 1 in double precision.
FARTHEST = 1e3

# A sample with ROWS_PER_MAP rows per class provides starting values if there are MANY_ODDS log-odds
# or more: with fewer it costs more than the passes that it saves.
ROWS_PER_MAP, MANY_ODDS = 512, 1 << 15

# Function from finite log-odds (m, K) to features, each (m, K), without the constant one.
Expand = Callable[[Floats], list[Floats]]


class _OneVsRestScaling(BaseCalibrator):
    """Base class for calibrators that map each class's log-odds after temperature scaling.

    Before the map, the probabilities are mixed with the uniform distribution.
    """

    temperature_: float
    alpha_: float

    _on_device = True
    # Strings that alpha accepts.
    _options: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        smoothing: Literal["auto"] | float = "auto",
        classes: ArrayLike | None = None,
    ) -> None:
        self.classes = classes
        self.alpha = alpha
        self.smoothing = smoothing

    @abstractmethod
    def _fit_maps(self, odds: Rows, temperature: float) -> dict[str, Any]:
        """Fit maps to rows with log-odds (n_rows, n_maps), and return the fitted attributes.

        Log-odds are infinite if the class, or every other class, is masked.
        """

    @abstractmethod
    def _scores(self, U: Floats) -> Floats:
        """Map finite log-odds ``U`` (m, n_maps) to calibrated log-odds (m, n_maps)."""

    def _fit(self, rows: Rows) -> dict[str, Any]:
        check_real("alpha", self.alpha, closed=True, option=self._options)
        smoothing = fitted_smoothing(self.smoothing, rows)
        scale = fit_inverse_temperature(rows, smoothing)
        warn_of_no_minimum(scale, penalized=True)
        # At the largest temperature log-odds would vanish, and slopes could not reverse them.
        unit = SMALLEST_SCALE if scale.outcome == "no_better_than_chance" else 1
        temperature = unit / scale.value
        odds = rows.map(partial(_infinite_if_masked, temperature, smoothing))
        fitted = self._fit_maps(odds, temperature)
        return {**fitted, "temperature_": temperature, "smoothing_": smoothing}

    def _calibrate(self, Z: Floats) -> Floats:
        Z = arrays.masked_logits(Z) if Z.shape[1] > 2 else Z  # they change the mixture
        U = arrays.double(_mixed_log_odds(self.temperature_, self.smoothing_, Z))
        return joined(arrays.astype(self._scores(U), Z.dtype), Z.shape[1])


def _mixed_log_odds(temperature: float, smoothing: float, Z: Floats) -> Floats:
    """Return finite log-odds (m, n_maps) after smoothed temperature scaling."""
    if Z.shape[1] > 2:
        U = margins(mixed_logits(temperature, smoothing, Z))
    else:
        U = arrays.mix_logits(margins(Z) / temperature, smoothing)
    return arrays.clip(U, -FARTHEST, FARTHEST)


def _infinite_if_masked(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Return log-odds for a fit, infinite if the class, or every other class, is masked."""
    with np.errstate(over="ignore"):
        U = _mixed_log_odds(temperature, smoothing, Z)
    if Z.min() > -np.inf:
        return U
    M = margins(Z)
    return np.where(np.isfinite(M), U, M)


def finite_range(U: Floats, *_: Any) -> Floats:
    """Return the largest finite log-odds, and the largest of their negatives: (2, n_maps)."""
    finite = np.isfinite(U)
    return np.stack([np.where(finite, V, -np.inf).max(axis=0) for V in (U, -U)]).astype(float)


def fit_maps(
    odds: Rows,
    expand: Expand,
    prior: Prior | None = None,
    low: Floats | None = None,
    *,
    smooth_targets: bool = False,
    separator: str = "a map",
    remedy: str = "alpha=1.0 or another alpha above 0",
) -> tuple[RowSigmoids, OptimizeResult]:
    """Fit one logistic regression per class to features that ``expand`` computes from log-odds.

    ``odds`` are rows with log-odds (n, n_maps). ``low`` (d,) are lower bounds. The search starts
    from the fit to a sample, else from the prior mean, else from constants with the class rates.
    ``separator`` and ``remedy`` are words for the warning about separable classes.
    """
    K = odds.n_columns
    low = None if low is None else np.tile(low, (K, 1))

    def fit(rows: Rows, start: Floats | None) -> tuple[RowSigmoids, OptimizeResult]:
        features = partial(_features, expand)
        sigmoids = RowSigmoids.of(rows, features, prior, smooth=smooth_targets)
        if start is None:
            mean = None if prior is None else prior.mean
            start = sigmoids.constant if mean is None else np.resize(mean, (K, mean.shape[-1]))
        return sigmoids, fit_sigmoids(sigmoids, start, low)

    start = None
    if not odds.is_local or odds.n_rows * K >= MANY_ODDS:
        sample = thin(odds, ROWS_PER_MAP * K)
        start = None if sample is None else fit(sample, None)[1].x
    sigmoids, solution = fit(odds, start)
    _warn_unless_fitted(sigmoids, solution, separator, remedy)
    return sigmoids, solution


def _features(expand: Expand, U: Floats) -> tuple[list[Floats], Bools | None]:
    """Return features (m, K), and which rows count for each class, or None if all count.

    Double precision separates log-odds that vary little from the constant feature.
    """
    U = U.astype(np.float64, copy=False)
    counts = np.isfinite(U)
    if counts.all():
        return expand(U), None
    return expand(np.where(counts, U, 0.0)), counts


def _warn_unless_fitted(
    sigmoids: RowSigmoids, solution: OptimizeResult, separator: str, remedy: str
) -> None:
    """Warn if unpenalized classes are separable, or if the search has not converged.

    ``separator`` and ``remedy`` are words for the message.
    """
    prior = sigmoids.prior
    plain = not (sigmoids.low if prior is None else prior.precision).any()
    separable = np.flatnonzero(sigmoids.share_wrong(solution.x) == 0) if plain else np.zeros(0, int)
    if separable.size:
        # With two classes, the one map may use one column or both.
        where = f"column {shown(separable)} of X" if len(solution.x) > 1 else "X"
        warn(
            f"The log loss has no minimum: in {where} {separator} separates the class "
            f"from the others, so the slope would grow without bound. Use {remedy}.",
            NoMinimumWarning,
            f"separable by {separator}",
        )
    elif not solution.success:
        warn(
            f"Newton's method did not converge in {solution.nfev + 1} passes over the rows. Check "
            f"X for nearly constant columns{f', and use {remedy}' if plain else ''}.",
            NotConvergedWarning,
        )


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


class BetaCalibration(IncreasingMap, _OneVsRestScaling):
    r"""Beta calibration: a sigmoid of log p and log(1 - p) for each class, non-decreasing.

    The probability p of class k is mapped by

    .. math:: \hat p_k = \sigma\left(a_k \log 2 p - b_k \log 2 (1 - p) + c_k\right),
        \qquad a_k, b_k \ge 0 .

    The sigmoid's argument is a constant plus the log-likelihood ratio between two beta
    distributions. As a function of the log-odds, its slope is b at large log-odds and a at small
    log-odds, so that it can correct different errors near 0 and near 1. With a = b the map is Platt
    scaling, and with a = b = 1 and c = 0 the identity. Temperature scaling comes first, mixed with
    the uniform distribution. The log-odds are multiplied by the temperature again:

    .. math:: \log \frac{p}{1 - p} = T \log \frac{q_k}{1 - q_k}, \qquad
        q = (1 - \varepsilon)\, \mathrm{softmax}(z / T) + \varepsilon / K .

    The parameters minimise the log loss of the event :math:`y = k` plus a penalty that shrinks them
    to temperature scaling. Rows are then divided by their sum, and mixed with the uniform
    distribution. Two classes share one map, for the second class.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularization strength: :math:`(a + b) T / 2` has a normal prior around 1, and
        :math:`(b - a) T` and c have normal priors around 0, all with variance :math:`1 / \alpha`.
        0 is the plain form of [1]_, which has no optimum for separable rows.
    smoothing : "auto" or float, default="auto"
        Share :math:`\varepsilon` of the uniform distribution in both mixtures, by default
        :math:`1 / (N + 1)`, with N the total weight. ``smoothing=0`` gives the plain map
        exactly: p are then the uncalibrated probabilities.
    classes : array-like of shape (n_classes,), default=None
        All labels in column order, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    a_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients a of log p: the slopes at small log-odds.
    b_ : ndarray of shape (n_classes,), or (1,) for two classes
        The coefficients b of log(1 - p): the slopes at large log-odds.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets c: calibrated log-odds at p = 1/2.
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
    QuadraticScaling : A quadratic function of the log-odds.
    PlattScaling : A linear function of the log-odds.

    Notes
    -----
    In [1]_ the offset is c plus :math:`(a - b) \log 2`. :func:`scipy.optimize.minimize` finds the
    minimum among :math:`a, b \ge 0` by a Newton method for all classes at once. Each iteration is
    one pass over the rows.

    References
    ----------
    .. [1] Kull, Silva Filho, Flach, "Beta calibration: a well-founded and easily implemented
       improvement on logistic calibration for binary classifiers", AISTATS 2017.
    .. [2] Berta, Holzmüller, Jordan, Bach, "Structured Matrix Scaling for Multi-Class
       Calibration", `arXiv:2511.03685 <https://arxiv.org/abs/2511.03685>`_.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import BetaCalibration
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 2, temperature=1.0, random_state=0)
    >>> odds = logits[:, 1] - logits[:, 0]
    >>> under_confident_above_half = np.where(odds > 0, odds / 2, odds)[:, None]
    >>> calibrator = BetaCalibration().fit(under_confident_above_half, y)
    >>> bool(calibrator.b_ > 1.5 * calibrator.a_)
    True
    """

    a_: Floats
    b_: Floats
    intercept_: Floats
    n_iter_: int

    def _fit_maps(self, odds: Rows, temperature: float) -> dict[str, Any]:
        # The prior shrinks (a + b) / 2 to 1, and b - a and c to 0.
        forms = np.array([[0.5, 0.5, 0], [-1, 1, 0], [0, 0, 1]])
        prior = Prior(np.array([1.0, 1, 0]), self.alpha * forms.T @ forms)
        low = np.array([0, 0, -np.inf])
        _, solution = fit_maps(odds, partial(_beta_features, temperature), prior, low)
        a, b, intercept = solution.x.T
        return {
            "alpha_": float(self.alpha),
            "a_": a / temperature,
            "b_": b / temperature,
            "intercept_": intercept,
            "n_iter_": solution.nfev + 1,  # one pass sums the weights
        }

    def _scores(self, U: Floats) -> Floats:
        mean, difference = (self.a_ + self.b_) / 2, self.b_ - self.a_
        T = self.temperature_
        return (T * difference) * _bend(T, U) + (T * mean) * U + self.intercept_


def _bend(temperature: float, U: Floats) -> Floats:
    r"""Return :math:`\frac1T \log \cosh(T u / 2)`, or :math:`-\frac1{2T} \log 4 p (1 - p)`."""
    xp = arrays.namespace(U)
    distance = xp.abs(arrays.double(U))
    return xp.log1p(xp.expm1(-temperature * distance) / 2) / temperature + distance / 2


def _beta_features(temperature: float, U: Floats) -> list[Floats]:
    """Return the features (m, n_maps) that a and b multiply, times T."""
    bend = _bend(temperature, U)
    return [U / 2 - bend, U / 2 + bend]

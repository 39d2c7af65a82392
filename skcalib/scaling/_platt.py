"""Platt scaling: a sigmoid of the margin for each class, fitted one versus the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from skcalib._base import BaseCalibrator
from skcalib._engine.rows import Rows
from skcalib._linear.temperature import check_range, fit_scale
from skcalib._scores.one_vs_rest import joined, margins, n_maps
from skcalib._typing import Floats, Indices
from skcalib._validation.labels import shown
from skcalib._warnings import NoMinimumWarning, NotConvergedWarning, ReversedOrderWarning, warn

__all__ = ["PlattScaling"]

# The last step may take so much off the mean loss of a class, relative to its variance.
TOLERANCE = 1e-10

SMALLEST_CURVATURE = 1e-12

MAX_PASSES = 100

# A sample that is to give a start has so many rows for each class.
ROWS_PER_MAP, FEW_ROWS_PER_MAP = 512, 128

# The middle of the margins is that of the rows of the class if there are so many.
FEWEST_EVENTS = 8

# Margins so many times as far from the centre as is typical may be those of masked classes.
SUSPICIOUS = 1e3

# Margins so many temperatures from zero have probabilities that double precision does not tell from
# 0 and 1. Smoothed targets would have the slope make some doubt of them.
BEYOND_DOUBT = 1e3

# The squares of larger margins are not summed, by precision.
FARTHEST = {"f": 1e15, "d": 1e100}

# Margins differ by rounding only if they differ by so many rounding errors of the logits.
ROUNDINGS = 8

# Slopes are told to be negative if they are so many of their standard errors below zero.
CLEARLY = 3.0

# Sigmoids with larger slopes or offsets are worked out in double precision.
LARGE = 64.0

# Margins that spread less or more are scaled, so that single precision holds their squares.
MODERATE = 1e-6, 1e6


class PlattScaling(BaseCalibrator):
    r"""Platt scaling: a sigmoid of the margin for each class, then rows that sum to one.

    For each class k, against all others, a slope :math:`a_k` and an offset :math:`c_k` of

    .. math:: \hat p_k = \sigma(a_k m_k + c_k), \qquad
        m_k = \log \frac{\mathrm{softmax}(z)_k}{1 - \mathrm{softmax}(z)_k} ,

    are those that minimise the log loss of the event :math:`y = k`; rows are then divided by
    their sum. Two classes take a single sigmoid, of the log-odds :math:`z_1 - z_0` of the second.

    Parameters
    ----------
    smooth_targets : bool, default=True
        Whether the targets are those of [1]_, :math:`(n_1 + 1) / (n_1 + 2)` for the
        :math:`n_1` rows of the class and :math:`1 / (n_0 + 2)` for the :math:`n_0` others,
        instead of 1 and 0. With them there always is an optimum.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns of ``X``, as for :class:`TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes,), or (1,) for two classes
        The slopes :math:`a`.
    intercept_ : ndarray of shape (n_classes,), or (1,) for two classes
        The offsets :math:`c`.
    n_iter_ : int
        Number of passes over the rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the columns.
    n_features_in_ : int
        Number of columns of ``X`` seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where ``X`` had string names.

    Warns
    -----
    ConvergenceWarning
        With ``smooth_targets=False``, if a class has no optimum, because a threshold on its
        margin separates it from the others. Its slope is then large but finite.
    UserWarning
        If a slope is negative by more than three of its standard errors, so that the order of the
        rows is reversed, if weights sum to far less than the number of rows, and as for
        :class:`TemperatureScaling`.

    Notes
    -----
    The margin, not the probability, is what a sigmoid can calibrate: margins that are right by a
    constant and a factor come out exact. All classes take their Newton steps together, each one
    pass over the rows that sums a gradient and a Hessian of two by two for every class. Rows in
    which a class is masked are not counted for it, nor are margins on the right side of zero and
    more than a thousand temperatures from it: smoothed targets would have the slope make some doubt
    of what is beyond doubt.

    References
    ----------
    .. [1] Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to
       Regularized Likelihood Methods", Advances in Large Margin Classifiers, 1999.
    .. [2] Lin, Lin, Weng, "A Note on Platt's Probabilistic Outputs for Support Vector Machines",
       Machine Learning 68, 2007.
    .. [3] Zadrozny, Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability
       Estimates", KDD 2002.

    Examples
    --------
    >>> from skcalib import PlattScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(5000, 2, temperature=2.0, offset=[0, 1], random_state=0)
    >>> calibrator = PlattScaling().fit(logits, y)
    >>> calibrator.coef_.round(1), calibrator.intercept_.round(1)
    (array([0.5]), array([-0.5]))
    """

    coef_: Floats
    intercept_: Floats
    n_iter_: int

    def __init__(self, *, smooth_targets: bool = True, classes: ArrayLike | None = None) -> None:
        super().__init__(classes=classes)
        self.smooth_targets = smooth_targets

    def _fit(self, rows: Rows) -> dict[str, Any]:
        # Where a pass is a round trip a start is worth more.
        per_map = ROWS_PER_MAP if rows.passes_are_cheap else FEW_ROWS_PER_MAP
        of_sample = rows.sample(_rough_sigmoids, per_map * n_maps(rows.n_columns))
        middle, start = of_sample or (rows.gather(_middle), None)
        units = _Units.of(rows, middle)
        events = _Events.of(rows, units, smooth=self.smooth_targets)
        if events.far:
            events = events.without_doubtless(smooth=self.smooth_targets)
        if start is not None:
            start = start * np.stack([units.unit, np.ones_like(units.unit)])
        theta, n_passes, converged = _fit_sigmoids(events, start)
        if not (self.smooth_targets and converged):
            _warn_unless_optimal(events, theta, converged=converged)
        _warn_of_reversed_order(events, theta)
        slope = theta[0] / units.unit
        return {
            "coef_": slope,
            "intercept_": theta[1] - slope * units.centre,
            "n_iter_": n_passes,
        }

    def _calibrate(self, Z: Floats) -> Floats:
        M, parameters = margins(Z), (self.coef_, self.intercept_)
        if np.abs(parameters).max() > LARGE:  # single precision loses what nearly cancels
            M = M.astype(np.float64)
        coef, intercept = (values.astype(M.dtype) for values in parameters)
        return joined((M * coef + intercept).astype(Z.dtype, copy=False), Z.shape[1])


@dataclass(frozen=True)
class _Units:
    """Where the margins of each class lie and how they spread: arrays of shape (n_maps,).

    Both are medians over the rows of the class, in which it is not masked, or over all if these
    are few: the margins of masked classes, and single ones far out, have no say.
    """

    centre: Floats  #: a margin, exact in the precision of the logits
    unit: Floats  #: what margins are divided by: 1, or a power of two
    spread: Floats  #: typical distance from the centre, in units, 0 if there is none
    rounding: Floats  #: what rounding of the logits may add to margins, in units

    @classmethod
    def of(cls, rows: Rows, middle: Floats) -> _Units:
        """The units of the margins of rows of logits, from :func:`_middle` of some."""
        centre, spread, size = middle.astype(rows.dtype).astype(np.float64)
        rounding = ROUNDINGS * float(np.finfo(rows.dtype).eps) * np.maximum(size, np.abs(centre))
        level = spread <= rounding
        if level.any():  # of most rows at least
            total, n = rows.sum(partial(_deviations, centre, rounding))
            spread = np.where(level, np.exp(total / np.maximum(n, 1)) * (n > 0), spread)
        check_range(float(spread.max()))
        low, high = MODERATE
        moderate = (spread == 0) | ((spread > low) & (spread < high))
        unit = np.exp2(np.round(np.log2(np.where(moderate, 1, spread))))
        return cls(centre, unit, spread / unit, rounding / unit)

    def margins(
        self, Z: Floats, y: Indices, limit: Floats
    ) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Margins in units about the centre, and which of them count, or None if all do.

        Those that do not, as they are masked, or beyond ``limit`` (n_maps,) on the side of the
        label, are zero.
        """
        M = margins(Z)
        near = np.abs(M).max() < min(limit.min(), FARTHEST["f"] * min(self.unit.min(), 1.0))
        counts = None
        if not near:
            counts = np.isfinite(M) & ((np.abs(M) <= limit) | ((M > 0) != _events(y, M)))
            M = np.where(counts, M, self.centre.astype(M.dtype))
        M -= self.centre.astype(M.dtype)
        if (self.unit != 1).any():
            M = M.astype(np.float64) / self.unit
        farthest = FARTHEST[M.dtype.char]
        return M if near else np.clip(M, -farthest, farthest), counts


def _events(y: Indices, M: Floats) -> NDArray[np.bool_]:
    """Whether the label of each row is the class of each column of margins: (m, n_maps)."""
    return y[:, None] == (np.arange(M.shape[1]) if M.shape[1] > 1 else 1)


def _middle(rows: Rows) -> Floats:
    """Median margin, median distance from it, and median size of the largest logit: (3, n_maps)."""
    Z, y = rows.X, rows.y
    M, K = margins(Z), n_maps(Z.shape[1])
    size = np.median(np.abs(Z.max(axis=1) if Z.shape[1] > 1 else Z))
    centre, spread = np.zeros((2, K))
    for k in range(K):
        of_class, all_rows = M[y == (k if K > 1 else 1), k], M[:, k]
        for margin in (of_class, all_rows):
            finite = margin[np.isfinite(margin)]
            if len(finite) >= (FEWEST_EVENTS if margin is of_class else 1):
                centre[k] = _median(finite)
                spread[k] = _median(np.abs(finite - centre[k]))
            if spread[k] > 0:
                break
    return np.stack([centre, spread, np.full(K, size)])


def _median(values: Floats) -> Any:
    """One of the middle values, and so exact in their precision."""
    middle = len(values) // 2
    return np.partition(values, middle)[middle]


def _deviations(centre: Floats, least: Floats, Z: Floats, *_: Any) -> Floats:
    """Sum of logarithms of distances from the centre that are larger, and their number."""
    distance = np.abs(margins(Z).astype(np.float64) - centre)
    some = np.isfinite(distance) & (distance > least)
    return np.stack([np.log(np.where(some, distance, 1)).sum(axis=0), some.sum(axis=0)])


@dataclass(frozen=True)
class _Events:
    """Margins in their units, and targets between 0 and 1 for each class: the problem to solve."""

    rows: Rows
    units: _Units
    limit: Floats  # (n_maps,): margins beyond it that are right do not count
    high: Floats  # (n_maps,): the target of rows of the class
    low: Floats  # (n_maps,): that of the others
    rate: Floats  # (n_maps,): the mean target
    weight: Floats  # (n_maps,): of the rows that count
    hits: Floats  # (n_maps,): of those that are of the class
    far: bool  # whether some margins are suspiciously far out

    @classmethod
    def of(cls, rows: Rows, units: _Units, *, smooth: bool, limit: Floats | None = None) -> _Events:
        """The events of rows of logits and labels."""
        K = n_maps(rows.n_columns)
        limit = np.full(K, np.inf) if limit is None else limit

        def total(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            M, counts = units.margins(Z, y, limit)
            far = (np.abs(M) > SUSPICIOUS * units.spread).sum(axis=0)
            if counts is None:
                hits = np.bincount(y, w, max(K, 2))[-K:]
                return np.stack([hits, np.full(K, len(y) if w is None else w.sum()), far])
            w = np.ones(len(y)) if w is None else w
            return np.stack([w @ (counts & _events(y, M)), w @ counts, far])

        hits, weight, far = rows.sum(total)
        misses = weight - hits
        high, low = np.ones(K), np.zeros(K)
        if smooth:
            high, low = (hits + 1) / (hits + 2), 1 / (misses + 2)
        weight = np.maximum(weight, np.finfo(float).tiny)
        rate = (hits * high + misses * low) / weight
        return cls(rows, units, limit, high, low, rate, weight, hits, bool(far.any()))

    def without_doubtless(self, *, smooth: bool) -> _Events:
        """The events without rows that a temperature puts beyond doubt.

        A class of which no events, or nothing else, would be left keeps all.
        """
        scale = fit_scale(self.rows)
        if scale.outcome != "minimum":
            return self
        limit = np.full_like(self.limit, BEYOND_DOUBT / scale.value)
        of = partial(_Events.of, self.rows, self.units, smooth=smooth)
        found = of(limit=limit)
        both = (found.hits > 0) & (found.hits < found.weight)
        return found if both.all() else of(limit=np.where(both, limit, np.inf))

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradient (2, n_maps) and Hessian (2, 2, n_maps) of the mean log loss."""
        rise = self.high - self.low

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            M, counts = self.units.margins(Z, y, self.limit)
            slope, offset, low, up = (v.astype(M.dtype) for v in (*theta, self.low, rise))
            # expit would take four times as long. The bound keeps p^2 from underflow.
            E = M * -slope
            E -= offset
            np.exp(np.minimum(E, -np.log(np.finfo(M.dtype).tiny) / 2, out=E), out=E)
            P = np.reciprocal(1 + E)
            Q = np.multiply(E, P**2, out=E)  # p (1 - p) without the difference, lost near p = 1
            R = np.subtract(P, low, out=P)
            if len(up) > 1:
                R[np.arange(len(R)), y] -= up[y]
            else:
                R[:, 0] -= up * y
            if counts is not None:
                R, Q = R * counts, Q * counts
            if w is not None:
                R, Q = R * w[:, None], Q * w[:, None]
            QM = Q * M
            dots = (np.einsum("ij,ij->j", A, M) for A in (R, QM))
            return np.stack([*dots, *(A.sum(axis=0) for A in (R, QM, Q))]).astype(np.float64)

        ga, aa, gc, ac, cc = self.rows.sum(block) / self.weight
        return np.stack([ga, gc]), np.array([[aa, ac], [ac, cc]])

    def share_wrong(self, theta: Floats) -> Floats:
        """Share of the weight that each sigmoid puts on the wrong side of 1/2: (n_maps,)."""

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            M, counts = self.units.margins(Z, y, self.limit)
            S = theta[0] * M + theta[1]
            wrong = np.where(_events(y, M), S <= 0, S >= 0)
            wrong = wrong if counts is None else wrong & counts
            return wrong.sum(axis=0) if w is None else w @ wrong

        return self.rows.sum(block) / self.weight


def _rough_sigmoids(rows: Rows) -> tuple[Floats, Floats]:
    """The middle of the margins of a sample, and slopes and offsets (2, n_maps) about it."""
    middle = _middle(rows)
    units = _Units.of(rows, middle)
    slope, offset = _fit_sigmoids(_Events.of(rows, units, smooth=True))[0]
    return middle, np.stack([slope / units.unit, offset])


def _fit_sigmoids(events: _Events, start: Floats | None = None) -> tuple[Floats, int, bool]:
    """Slopes and offsets (2, n_maps) for margins in units, the number of passes, whether all.

    Newton's method from the start or from a slope of zero, for all classes at once, each with a
    step of its own. A step is shortened where the loss rises steeply at its end, a condition on
    derivatives alone that suits a convex loss.
    """
    rate = np.clip(events.rate, 1e-10, 1 - 1e-10)
    theta = np.stack([np.zeros_like(rate), logit(rate)]) if start is None else start
    tiny, least = np.finfo(float).tiny, TOLERANCE * rate * (1 - rate)
    gradient, hessian = events.derivatives(theta)
    units = events.units
    varies = np.sqrt(hessian[0, 0] / np.maximum(hessian[1, 1], tiny)) > units.rounding
    curved_least = SMALLEST_CURVATURE * np.where(varies, units.spread, 0) ** 2
    step, length = _newton_step(gradient, hessian, curved_least), np.ones_like(rate)
    n_passes = 2  # one of them for the weights
    while True:
        before = np.einsum("ik,ik->k", gradient, step)
        done = -before <= least
        if done.all() or n_passes == MAX_PASSES:
            break
        n_passes += 1
        trial = theta + length * step
        ahead, curved = events.derivatives(trial)
        after = np.einsum("ik,ik->k", ahead, step)
        good = (after <= 0.5 * np.abs(before)) & ~done
        theta, gradient = np.where(good, trial, theta), np.where(good, ahead, gradient)
        step = np.where(good, _newton_step(ahead, curved, curved_least), step)
        shorter = length * np.clip(before / (before - np.maximum(after, tiny)), 0.1, 0.9)
        length = np.where(good | done, 1.0, shorter)
    # A last step that needs no look at where it leads.
    return theta + np.where(done, step, 0), n_passes, bool(done.all())


def _newton_step(gradient: Floats, hessian: Floats, least: Floats) -> Floats:
    """Minus the inverse of the Hessian (2, 2, n) times the gradient (2, n).

    Curvatures are kept from zero, that of the slope from ``least`` (n,). Where that is zero, the
    slope stays as it is.
    """
    cc, (ga, gc) = np.maximum(hessian[1, 1], SMALLEST_CURVATURE), gradient
    aa, ac = np.maximum(hessian[0, 0], least) + np.finfo(float).tiny, hessian[0, 1]
    det = np.maximum(aa * cc - ac**2, SMALLEST_CURVATURE * aa * cc)
    slope = np.where(least > 0, (ac * gc - cc * ga) / det, 0)
    return np.stack([slope, -(gc + ac * slope) / cc])


def _warn_of_reversed_order(events: _Events, theta: Floats) -> None:
    """Warn of classes whose probability falls as their logit rises, by more than chance."""
    slope = theta[0]
    if (slope >= 0).all():
        return
    (aa, ac), (_, cc) = events.derivatives(theta)[1]
    information = events.weight * np.maximum(aa - ac**2 / np.maximum(cc, SMALLEST_CURVATURE), 0)
    falling = np.flatnonzero((slope < 0) & (slope * np.sqrt(information) < -CLEARLY))
    if falling.size:
        warn(
            f"The slope of {falling.size} of {slope.size} sigmoids is negative, which reverses the "
            f"order of the rows, the first for column {falling[0] + (slope.size == 1)} of X: on "
            "these rows the class is less frequent where its logit is larger. Check that the "
            "columns of X are in the order of the classes.",
            ReversedOrderWarning,
        )


def _warn_unless_optimal(events: _Events, theta: Floats, *, converged: bool) -> None:
    """Warn of classes that a threshold separates, or of Newton steps that did not settle."""
    separable = np.flatnonzero(events.share_wrong(theta) == 0)
    separable += events.rows.n_columns - len(events.rate)  # two classes have a map for the second
    if separable.size and not events.low.any():
        warn(
            f"The log loss has no minimum: in column {shown(separable)} of X a "
            "threshold on the margin separates the class from the others, so that its slope would "
            "grow for ever. Use smooth_targets=True.",
            NoMinimumWarning,
            "separable by a threshold",
        )
    elif not converged:
        warn(
            f"Newton's method did not settle in {MAX_PASSES} passes over the rows. Use "
            "smooth_targets=True, and check X for columns that hardly vary.",
            NotConvergedWarning,
        )

"""Platt scaling: a sigmoid of the margin for each class, fitted one versus the rest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit
from sklearn.exceptions import ConvergenceWarning

from ._base import BaseCalibrator, Floats, Indices
from ._one_vs_rest import add_at_events, joined, margins, n_maps
from ._rows import call_on_sample, sum_rows

__all__ = ["PlattScaling"]

# The last step may take so much off the mean loss of a class, relative to its variance.
TOLERANCE = 1e-10
SMALLEST_CURVATURE = 1e-12
MAX_PASSES = 100
# A sample that is to give a start has so many rows for each class.
ROWS_PER_MAP = 512


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
        As for :class:`TemperatureScaling`.

    Notes
    -----
    The margin, not the probability, is what a sigmoid can calibrate: margins that are right by a
    constant and a factor come out exact. All classes take their Newton steps together, each one
    pass over the rows that sums a gradient and a Hessian of two by two for every class.

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

    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        events = _Events.of(Z, y, w, smooth=self.smooth_targets)
        of_sample = call_on_sample(_rough_sigmoids, Z, y, w, at_least=ROWS_PER_MAP * n_maps(Z))
        theta, n_passes, converged = _fit_sigmoids(events, of_sample)
        if not (self.smooth_targets and converged):
            _warn_unless_optimal(events, theta, converged=converged)
        slope, offset = theta
        return {
            "coef_": slope,
            "intercept_": offset - slope * events.centre,
            "n_iter_": n_passes,
        }

    def _calibrate(self, Z: Floats) -> Floats:
        coef, intercept = self.coef_.astype(Z.dtype), self.intercept_.astype(Z.dtype)
        with np.errstate(over="ignore"):
            return joined(margins(Z) * coef + intercept, Z.shape[1])


@dataclass(frozen=True)
class _Events:
    """Margins about a centre, and targets between 0 and 1 for each class: the problem to solve."""

    Z: Floats
    y: Indices
    w: Floats | None
    centre: Floats  # (n_maps,): the mean margin
    high: Floats  # (n_maps,): the target of rows of the class
    low: Floats  # (n_maps,): that of the others
    rate: Floats  # (n_maps,): the mean target
    weight: float

    @classmethod
    def of(cls, Z: Floats, y: Indices, w: Floats | None, *, smooth: bool) -> _Events:
        """The events of labels ``y`` (n,) for logits ``Z`` (n, K)."""
        K = n_maps(Z)

        def total(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            M = margins(Z)
            margin = M.sum(axis=0, dtype=np.float64) if w is None else w @ M
            hits = np.bincount(y, w, max(K, 2))[-K:]
            return np.stack([margin, hits, np.full(K, len(y) if w is None else w.sum())])

        margin, hits, weights = sum_rows(total, Z, y, w)
        weight = float(weights[0])
        misses = weight - hits
        high, low = np.ones(K), np.zeros(K)
        if smooth:
            high, low = (hits + 1) / (hits + 2), 1 / (misses + 2)
        rate = (hits * high + misses * low) / weight
        return cls(Z, y, w, margin / weight, high, low, rate, weight)

    def beyond_rounding(self, variance: Floats) -> Floats:
        """Variances of the margins, with zero for what is no more than rounding: (n_maps,)."""
        rounding = 8 * np.finfo(self.Z.dtype).eps * (1 + np.abs(self.centre))
        return np.where(variance > rounding**2, variance, 0)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradient (2, n_maps) and Hessian (2, 2, n_maps) of the mean log loss."""
        dtype = self.Z.dtype
        slope, offset, centre, low = (v.astype(dtype) for v in (*theta, self.centre, self.low))
        rise = (self.high - self.low).astype(dtype)
        largest = -np.log(np.finfo(dtype).tiny) / 2

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            M = margins(Z)
            M -= centre
            # expit would take four times as long. The bound keeps p^2 from underflow.
            E = M * -slope
            E -= offset
            np.exp(np.minimum(E, largest, out=E), out=E)
            P = np.reciprocal(1 + E)
            Q = np.multiply(E, P**2, out=E)  # p (1 - p) without the difference, lost near p = 1
            R = np.subtract(P, low, out=P)
            add_at_events(R, y, -rise[y if len(rise) > 1 else 0])
            if w is not None:
                R, Q = R * w[:, None], Q * w[:, None]
            QM = Q * M
            dots = (np.einsum("ij,ij->j", A, M) for A in (R, QM))
            return np.stack([*dots, *(A.sum(axis=0) for A in (R, QM, Q))]).astype(np.float64)

        ga, aa, gc, ac, cc = sum_rows(block, self.Z, self.y, self.w) / self.weight
        return np.stack([ga, gc]), np.array([[aa, ac], [ac, cc]])

    def share_wrong(self, theta: Floats) -> Floats:
        """Share of the weight that each sigmoid puts on the wrong side of 1/2: (n_maps,)."""
        centre = self.centre

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            S = theta[0] * (margins(Z) - centre) + theta[1]
            of_label = np.zeros_like(S)
            add_at_events(of_label, y, np.ones(len(y)))
            wrong = np.where(of_label, S <= 0, S >= 0)
            return wrong.sum(axis=0) if w is None else w @ wrong

        return sum_rows(block, self.Z, self.y, self.w) / self.weight


def _rough_sigmoids(Z: Floats, y: Indices, w: Floats | None) -> Floats | None:
    """Slopes and offsets (2, n_maps) for a sample of the rows, or None if it has no weight."""
    if w is not None and not w.any():
        return None
    events = _Events.of(Z, y, w, smooth=True)
    slope, offset = _fit_sigmoids(events)[0]
    return np.stack([slope, offset - slope * events.centre])


def _fit_sigmoids(events: _Events, start: Floats | None = None) -> tuple[Floats, int, bool]:
    """Slopes about the centre and offsets (2, n_maps), the number of passes, and whether all.

    Newton's method from the start or from a slope of zero, for all classes at once, each with a
    step of its own. A step is shortened where the loss rises steeply at its end, a condition on
    derivatives alone that suits a convex loss.
    """
    rate = np.clip(events.rate, 1e-10, 1 - 1e-10)
    theta = np.stack([np.zeros_like(rate), logit(rate)])
    if start is not None:
        theta = np.stack([start[0], start[1] + start[0] * events.centre])
    tiny, least = np.finfo(float).tiny, TOLERANCE * rate * (1 - rate)
    gradient, hessian = events.derivatives(theta)
    variance = events.beyond_rounding(hessian[0, 0] / hessian[1, 1])
    step, length = _newton_step(gradient, hessian, variance), np.ones_like(rate)
    n_passes = 2  # one of them for the centre
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
        step = np.where(good, _newton_step(ahead, curved, variance), step)
        shorter = length * np.clip(before / (before - np.maximum(after, tiny)), 0.1, 0.9)
        length = np.where(good | done, 1.0, shorter)
    # A last step that needs no look at where it leads.
    return theta + np.where(done, step, 0), n_passes, bool(done.all())


def _newton_step(gradient: Floats, hessian: Floats, variance: Floats) -> Floats:
    """Minus the inverse of the Hessian (2, 2, n) times the gradient (2, n).

    Curvatures are kept from zero, relative to the variance of the margins; where that is zero,
    the slope stays as it is.
    """
    aa = np.maximum(hessian[0, 0], SMALLEST_CURVATURE * variance) + np.finfo(float).tiny
    cc, ac = np.maximum(hessian[1, 1], SMALLEST_CURVATURE), hessian[0, 1]
    ga, gc = gradient
    det = np.maximum(aa * cc - ac**2, SMALLEST_CURVATURE * aa * cc)
    slope = np.where(variance > 0, (ac * gc - cc * ga) / det, 0)
    return np.stack([slope, -(gc + ac * slope) / cc])


def _warn_unless_optimal(events: _Events, theta: Floats, *, converged: bool) -> None:
    """Warn of classes that a threshold separates, or of Newton steps that did not settle."""
    separable = np.flatnonzero(events.share_wrong(theta) == 0)
    separable += events.Z.shape[1] - len(events.rate)  # two classes have a map for the second
    if separable.size and not events.low.any():
        warnings.warn(
            f"The log loss has no minimum: in column {', '.join(map(str, separable))} of X a "
            "threshold on the margin separates the class from the others, so that its slope would "
            "grow for ever. Use smooth_targets=True.",
            ConvergenceWarning,
            stacklevel=4,
        )
    elif not converged:
        warnings.warn(
            f"Newton's method did not settle in {MAX_PASSES} passes over the rows. Use "
            "smooth_targets=True, and check X for columns that hardly vary.",
            ConvergenceWarning,
            stacklevel=4,
        )

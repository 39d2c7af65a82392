r"""One-vs-rest logistic regression: the log loss of a sigmoid for each class, and its minimum.

For class k the features of a row are :math:`f = (f_1, \dots, f_{d-1}, 1)`, each an array of shape
(m, K) for the rows of a block, and the probability of the event :math:`y = k` is
:math:`\sigma(\theta_k^\top f_k)`. Two classes have a single sigmoid, for the second of them.
Targets need not be 0 and 1, and a ridge penalty may shrink parameters towards given ones. All K
problems of d parameters are solved at once: one pass over the rows sums the gradients (K, d) and
Hessians (K, d, d) of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import logit

from skcalib._engine.array_api import at_most, into, like, namespace, smallest_normal
from skcalib._engine.blocks import column_sums, is_event, stacked
from skcalib._engine.rows import Rows
from skcalib._typing import Bools, Floats, Indices

# The last step may take so much off the mean loss of a class, relative to its variance.
TOLERANCE = 1e-10

# Curvatures are no smaller than this, in units of the spread of the features.
SMALLEST_CURVATURE = 1e-12

MAX_PASSES = 100

# Stands for the weight of a class for which no rows count: strengths divided by it are finite.
NO_WEIGHT = 1e-200

# Of parameters, Newton steps, gradients and Hessians: steps that observe bounds of parameters.
Bound = Callable[[Floats, Floats, Floats, Floats], Floats]

# The first step from slopes of zero is lengthened by no more than one over this.
LEAST_UNEXPLAINED = 1 / 3

# Features this many times as far from zero as is typical are outliers.
OUTLYING = 1e3

# Of logits (m, K) and labels (m,): features but the constant one, each (m, K), in precisions that
# hold their squares; and which rows count for each class (m, K), or None if all do.
FeaturesOf = Callable[[Floats, Indices], tuple[list[Floats], Bools | None]]


class Problem(Protocol):
    """K logistic regressions, as Newton's method sees them."""

    @property
    def rate(self) -> Floats:
        """Mean target (K,)."""

    @property
    def spread(self) -> Floats:
        """How far features but the constant one typically are from zero: (d - 1, K)."""

    @property
    def rounding(self) -> Floats:
        """By how much rounding may change them: (d - 1, K)."""

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradients (K, d) and Hessians (K, d, d) of the objectives at ``theta`` (K, d)."""


@dataclass(frozen=True)
class Logistic:
    """K logistic regressions on the same rows.

    ``spread`` and ``rounding`` say how far features typically are from zero, and by how much
    rounding may change them: a slope whose feature does not vary by more than that stays as it is.
    """

    rows: Rows
    features: FeaturesOf
    spread: Floats  #: (d - 1, K)
    rounding: Floats  #: (d - 1, K)
    hits: Floats  #: (K,), weight of the rows of the class, of those that count for it
    weight: Floats  #: (K,), weight of all rows that count
    high: Floats  #: (K,), target of rows of the class
    low: Floats  #: (K,), target of the others
    has_outliers: bool
    ridge: Floats | None = None  #: (K, d), strengths of a ridge penalty on each mean loss
    centre: Floats | float = 0.0  #: (K, d), parameters that it shrinks towards

    @classmethod
    def of(
        cls, rows: Rows, features: FeaturesOf, spread: Floats, rounding: Floats, *, smooth: bool
    ) -> Logistic:
        """The problem with targets 1 and 0, or those of Platt (1999) if ``smooth``."""
        K = spread.shape[1]

        def count(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = features(Z, y)
            limits = [like(OUTLYING * size, F[0]) for size in spread]
            far = [abs(f) > limit for f, limit in zip(F, limits, strict=True)]
            outliers: Any = sum(map(column_sums, far))
            if counts is not None:
                of_class = column_sums(counts & is_event(y, K), w)
                return stacked(of_class, column_sums(counts, w), outliers)
            if isinstance(y, np.ndarray):
                hits = np.bincount(y, w, max(K, 2))[-K:]
            else:
                hits = column_sums(is_event(y, K), w)
            n = y.shape[0] if w is None else namespace(w).sum(w)
            return stacked(hits, namespace(hits).full_like(hits, float(n)), outliers)

        hits, weight, outliers = rows.sum(count)
        high, low = np.ones(K), np.zeros(K)
        if smooth:
            high, low = (hits + 1) / (hits + 2), 1 / (weight - hits + 2)
        weight = np.maximum(weight, NO_WEIGHT)
        found = hits, weight, high, low, bool(outliers.any())
        return cls(rows, features, spread, rounding, *found)

    @property
    def rate(self) -> Floats:
        """Mean target (K,)."""
        return (self.hits * self.high + (self.weight - self.hits) * self.low) / self.weight

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradients (K, d) and Hessians (K, d, d) of the mean log losses at ``theta`` (K, d).

        With the ridge penalty ``ridge * (theta - centre)**2`` of each class, if there is one.
        """
        d = theta.shape[1]

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = self.features(Z, y)
            R, Q = _residuals_and_curvatures(theta, F, y, self.low, self.high)
            if counts is not None:
                R, Q = (namespace(A).where(counts, A, 0.0) for A in (R, Q))
            if w is not None:
                R, Q = R * w[:, None], Q * w[:, None]
            return _moments(R, Q, F)

        sums = self.rows.sum(block).reshape(1 + d, d, -1) / self.weight
        gradient, hessian = sums[0].T, sums[1:].transpose(2, 0, 1)
        if self.ridge is not None:
            gradient = gradient + 2 * self.ridge * (theta - self.centre)
            hessian = hessian + 2 * self.ridge[:, :, None] * np.eye(d)
        return gradient, hessian

    def share_wrong(self, theta: Floats) -> Floats:
        """Share of the weight that each sigmoid puts on the wrong side of 1/2: (K,).

        1 for a class for which no rows count.
        """

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = self.features(Z, y)
            *slopes, offset = (like(a, F[0]) for a in theta.T)
            S = sum((f * a for f, a in zip(F, slopes, strict=True)), offset)
            wrong = namespace(S).where(is_event(y, len(theta)), S <= 0, S >= 0)
            return column_sums(wrong if counts is None else wrong & counts, w)

        share: Floats = self.rows.sum(block) / self.weight
        return np.where(self.weight > NO_WEIGHT, share, 1.0)


def _moments(R: Floats, Q: Floats, F: list[Floats]) -> Floats:
    """Sums of ``R`` times each feature, and of ``Q`` times each two: (d + d * d, K).

    The features ``F`` are without the last one, which is 1.
    """
    d = len(F) + 1

    def sums(A: Floats, least: int = 0) -> list[Floats]:
        return [*(_dot(A, f) for f in F[least:]), column_sums(A)]

    upper = [sums(Q * f, i) for i, f in enumerate(F)] + [[column_sums(Q)]]
    return stacked(*sums(R), *(upper[min(i, j)][abs(i - j)] for j in range(d) for i in range(d)))


def _dot(A: Floats, B: Floats) -> Floats:
    """Sum over the rows of the products, for each column."""
    if not isinstance(A, np.ndarray):
        return column_sums(A * B)
    if A.shape[1] == 1:
        return A.T @ B[:, 0]
    return np.einsum("ij,ij->j", A, B)


def _residuals_and_curvatures(
    theta: Floats, F: list[Floats], y: Indices, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Probabilities less targets, and ``p (1 - p)``, without weights: (m, K) each."""
    xp, dtype = namespace(F[0]), F[0].dtype
    *slopes, offset = (like(a, F[0], dtype) for a in theta.T)
    # expit would take four times as long. The bound keeps p^2 from underflow.
    E = F[0] * -slopes[0]
    for f, slope in zip(F[1:], slopes[1:], strict=True):
        E -= f * slope
    E -= offset
    E = at_most(E, -float(np.log(smallest_normal(E))) / 2, E)
    E = into("exp", E, E)
    P = into("reciprocal", None, 1 + E)
    rest = into("multiply", E, E, P)  # 1 - p without the difference, lost near p = 1
    low, short = like(low, P, dtype), like(1 - high, P, dtype)
    if isinstance(P, np.ndarray) and len(short) > 1:
        each = np.arange(len(y))
        of_events = short[y] - rest[each, y]
        Q, R = np.multiply(rest, P, out=rest), np.subtract(P, low, out=P)
        R[each, y] = of_events
        return R, Q
    R = xp.where(is_event(y, short.shape[0]), short - rest, P - low)
    return R, into("multiply", rest, rest, P)


def fit_logistic(
    problem: Problem, start: Floats | None = None, bound: Bound | None = None
) -> tuple[Floats, int, bool]:
    """Parameters (K, d), the number of passes over the rows, and whether all have converged.

    Newton's method from the start or from slopes of zero, for all classes at once, each with a step
    of its own. A step is shortened where the loss rises steeply at its end, a condition on
    derivatives alone that suits a convex loss.
    """
    rate = np.minimum(np.maximum(problem.rate, 1e-10), 1 - 1e-10)
    theta = start
    if theta is None:
        theta = np.column_stack([np.zeros_like(problem.spread.T), logit(rate)])
    gradient, hessian = problem.derivatives(theta)
    least = _least_curvatures(problem, hessian)
    tolerance = TOLERANCE * rate * (1 - rate)
    step, n_passes = _step(theta, gradient, hessian, least, bound), 2  # one is for the weights
    length = np.ones_like(rate) if start is not None else _first_length(rate, gradient, step)
    while True:
        before = (gradient * step).sum(axis=1)
        done = -before <= tolerance
        if done.all() or n_passes == MAX_PASSES:
            break
        n_passes += 1
        trial = theta + length[:, None] * step
        ahead, curved = problem.derivatives(trial)
        after = (ahead * step).sum(axis=1)
        good = (after <= 0.5 * np.abs(before)) & ~done
        if good.all():  # without the selection, which costs more than a pass over few rows
            theta, gradient, length = trial, ahead, np.ones_like(rate)
            step = _step(theta, gradient, curved, least, bound)
            continue
        moved = good[:, None]
        theta, gradient = np.where(moved, trial, theta), np.where(moved, ahead, gradient)
        step = np.where(moved, _step(theta, ahead, curved, least, bound), step)
        rise = np.maximum(after, np.finfo(float).tiny)
        length = np.where(good | done, 1.0, length * np.clip(before / (before - rise), 0.1, 0.9))
    # A last step that needs no look at where it leads.
    return theta + np.where(done[:, None], step, 0), n_passes, bool(done.all())


def _first_length(rate: Floats, gradient: Floats, step: Floats) -> Floats:
    """By how much a first step from slopes of zero is lengthened: (K,).

    It is that of linear regression. The slope that is best for two normal distributions is larger
    by one over the unexplained share of the variance of the targets, if their mean is 1/2.
    """
    explained = -(gradient * step).sum(axis=1) * (4 * rate * (1 - rate)) ** 2
    return 1 / np.maximum(1 - explained, LEAST_UNEXPLAINED)


def _step(
    theta: Floats, gradient: Floats, hessian: Floats, least: Floats, bound: Bound | None
) -> Floats:
    """Newton steps (K, d), within the bounds if there are some."""
    step = _newton_step(gradient, hessian, least)
    return step if bound is None else bound(theta, step, gradient, hessian)


def _least_curvatures(problem: Problem, hessian: Floats) -> Floats:
    """The least curvature of each parameter (K, d), zero where its feature does not vary."""
    *squares, mass = np.einsum("kii->ik", hessian)
    # The root of the quotient, which overflows where no rows count.
    size = np.sqrt(squares) / np.sqrt(np.maximum(mass, np.finfo(float).tiny))
    spread = np.where(size > problem.rounding, problem.spread, 0)
    return SMALLEST_CURVATURE * np.column_stack([spread.T**2, np.ones_like(mass)])


def _newton_step(gradient: Floats, hessian: Floats, least: Floats) -> Floats:
    """Minus the inverses of the Hessians (K, d, d) times the gradients: (K, d).

    Curvatures are no smaller than ``least`` (K, d). Parameters for which that is zero do not move.
    """
    diagonal = np.einsum("kii->ki", hessian)
    scale = np.where(least > 0, np.sqrt(np.maximum(diagonal, least)), np.inf)
    # Correlations, which are as well conditioned as they can be, whatever the features measure.
    scaled = hessian / (scale[:, :, None] * scale[:, None, :])
    np.einsum("kii->ki", scaled)[:] = 1 + SMALLEST_CURVATURE
    return -np.linalg.solve(scaled, (gradient / scale)[..., None])[..., 0] / scale

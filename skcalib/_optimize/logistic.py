r"""One-vs-rest logistic regression: the log loss of a sigmoid for each class, and its minimum.

For class k the features of a row are :math:`f = (f_1, \dots, f_{d-1}, 1)`, each an array of shape
(m, K) for the rows of a block, and the probability of the event :math:`y = k` is
:math:`\sigma(\theta_k^\top f_k)`. Two classes have a single sigmoid, for the second of them.
Targets need not be 0 and 1, and a normal prior may shrink parameters towards its mean. All K
problems of d parameters are solved at once, by :func:`~skcalib._optimize.newton.newton`: one pass
over the rows sums the gradients (K, d) and Hessians (K, d, d) of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize
from scipy.special import logit

from skcalib._optimize.newton import newton, parts_of
from skcalib._rows import Bools, Floats, Indices, Rows, arrays as xa

# The last step may take so much off the mean loss of a class, relative to its variance.
TOLERANCE = 1e-10

# With the one for the weights of the classes.
MAX_PASSES = 100

# The first step from slopes of zero is lengthened by no more than one over this.
LEAST_UNEXPLAINED = 1 / 3

# Stands for the weight of a class for which no rows count: strengths divided by it are finite.
NO_WEIGHT = 1e-200

# Of logits (m, K) and labels (m,): features but the constant one, each (m, K), in precisions that
# hold their squares; and which rows count for each class (m, K), or None if all do.
FeaturesOf = Callable[[Floats, Indices], tuple[list[Floats], Bools | None]]


@dataclass(frozen=True)
class Prior:
    """A normal distribution of the parameters of each class: its mean and precision (d, d).

    The mean is (d,), or (K, d) if classes differ.
    """

    mean: Floats
    precision: Floats


class Sigmoids(Protocol):
    """K logistic regressions."""

    @property
    def rate(self) -> Floats:
        """Mean target (K,)."""

    def loss(self, theta: Floats) -> float:
        """Sum of the objectives at ``theta`` (K, d), for other methods: newton does not call it."""

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradients (K, d) and Hessians (K, d, d) at ``theta`` (K, d)."""


def fit_sigmoids(
    sigmoids: Sigmoids,
    start: Floats,
    low: Floats | None = None,
    *,
    tol: float = TOLERANCE,
    max_iter: int | None = None,
) -> optimize.OptimizeResult:
    """Parameters ``x`` (K, d) of least loss, no lower than ``low`` (K, d) if that is given.

    ``nfev`` is the number of passes over the rows. From slopes of zero the first step is that of
    linear regression. The slope that is best for two normal distributions is larger by one over the
    unexplained share of the variance of the targets, if their mean is 1/2.
    """
    rate = np.clip(sigmoids.rate, 1e-10, 1 - 1e-10)

    def lengthened(promise: Floats) -> Floats:
        explained = promise * (4 * rate * (1 - rate)) ** 2
        return 1 / np.maximum(1 - explained, LEAST_UNEXPLAINED)

    gradient, hessian = parts_of(sigmoids.derivatives, 2, start.shape)
    found = optimize.minimize(
        lambda x: sigmoids.loss(x.reshape(start.shape)),
        start.ravel(),
        jac=lambda x: gradient(x).ravel(),
        hess=hessian,
        bounds=None if low is None else [(least, np.inf) for least in low.ravel().tolist()],
        method=newton,
        options={
            "tol": tol * rate * (1 - rate),
            "maxiter": MAX_PASSES - 1 if max_iter is None else max_iter + 1,
            "first_length": None if start[:, :-1].any() else lengthened,
        },
    )
    found.x = found.x.reshape(start.shape)
    return found


@dataclass(frozen=True)
class RowSigmoids:
    """K logistic regressions on the same rows: mean log losses, less mean log priors."""

    rows: Rows
    features: FeaturesOf
    events: Floats  #: (K,), weight of the rows of the class, of those that count for it
    weight: Floats  #: (K,), weight of all rows that count
    high: Floats  #: (K,), target of rows of the class
    low: Floats  #: (K,), target of the others
    prior: Prior | None = None

    @classmethod
    def of(
        cls, rows: Rows, features: FeaturesOf, K: int, prior: Prior | None = None, *, smooth: bool
    ) -> RowSigmoids:
        """With targets 1 and 0, or those of Platt (1999) if ``smooth``."""

        def count(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            _, counts = features(Z, y)
            if counts is not None:
                return xa.stacked(
                    xa.weighted_sum(counts & xa.is_event(y, K), w), xa.weighted_sum(counts, w)
                )
            events = xa.bincount(y, w, max(K, 2))[-K:]
            n = y.shape[0] if w is None else float(xa.namespace(w).sum(w))
            return xa.stacked(events, np.full(K, n))

        events, weight = rows.sum(count)
        high, low = np.ones(K), np.zeros(K)
        if smooth:
            high, low = (events + 1) / (events + 2), 1 / (weight - events + 2)
        return cls(rows, features, events, np.maximum(weight, NO_WEIGHT), high, low, prior)

    @property
    def rate(self) -> Floats:
        """Mean target (K,)."""
        return (self.events * self.high + (self.weight - self.events) * self.low) / self.weight

    @property
    def constant(self) -> Floats:
        """Parameters (K, 2) without slopes, for one feature: those of the rate of each class."""
        rate = np.clip(self.rate, 1e-10, 1 - 1e-10)
        return np.column_stack([np.zeros_like(rate), logit(rate)])

    def loss(self, theta: Floats) -> float:
        """Sum of the objectives at ``theta`` (K, d)."""
        features, high, low = self.features, self.high, self.low  # and not the rows

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = features(Z, y)
            S, xp = _scores(theta, F), xa.namespace(F[0])
            target = xp.where(xa.is_event(y, len(theta)), xa.like(high, S), xa.like(low, S))
            # Minus t log p - (1 - t) log(1 - p).
            losses = xa.at_least(S, 0) + xp.log1p(xp.exp(-xp.abs(S))) - target * S
            return xa.weighted_sum(losses if counts is None else xp.where(counts, losses, 0.0), w)

        total = (self.rows.sum(block) / self.weight).sum()
        if self.prior is not None:
            off, precision = theta - self.prior.mean, self.prior.precision
            total += np.einsum("ki,ij,kj->k", off, precision, off) @ (0.5 / self.weight)
        return float(total)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradients (K, d) and Hessians (K, d, d) at ``theta`` (K, d)."""
        d = theta.shape[1]
        features, high, low = self.features, self.high, self.low  # and not the rows

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = features(Z, y)
            R, Q = _residuals_and_curvatures(theta, F, y, low, high)
            if counts is not None:
                R, Q = (xa.namespace(A).where(counts, A, 0.0) for A in (R, Q))
            if w is not None:
                R, Q = R * w[:, None], Q * w[:, None]
            return _moments(R, Q, F)

        sums = self.rows.sum(block).reshape(1 + d, d, -1) / self.weight
        gradient, hessian = sums[0].T, sums[1:].transpose(2, 0, 1)
        if self.prior is not None:
            precision = self.prior.precision / self.weight[:, None, None]
            gradient = gradient + np.einsum("kij,kj->ki", precision, theta - self.prior.mean)
            hessian = hessian + precision
        return gradient, hessian

    def share_wrong(self, theta: Floats) -> Floats:
        """Share of the weight that each sigmoid puts on the wrong side of 1/2: (K,).

        1 for a class for which no rows count.
        """
        features = self.features  # and not the rows

        def block(Z: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = features(Z, y)
            S = _scores(theta, F)
            wrong = xa.namespace(S).where(xa.is_event(y, len(theta)), S <= 0, S >= 0)
            return xa.weighted_sum(wrong if counts is None else wrong & counts, w)

        share: Floats = self.rows.sum(block) / self.weight
        return np.where(self.weight > NO_WEIGHT, share, 1.0)


def _scores(theta: Floats, F: list[Floats]) -> Floats:
    """Arguments (m, K) of the sigmoids."""
    *slopes, offset = (xa.like(a, F[0]) for a in theta.T)
    return sum((f * a for f, a in zip(F, slopes, strict=True)), offset)


def _moments(R: Floats, Q: Floats, F: list[Floats]) -> Floats:
    """Sums of ``R`` times each feature, and of ``Q`` times each two: (d + d * d, K).

    The features ``F`` are without the last one, which is 1.
    """
    d = len(F) + 1

    def sums(A: Floats, least: int = 0) -> list[Floats]:
        if isinstance(A, np.ndarray) and A.shape[1] == 1:  # by BLAS, which is faster for one
            return [*(A.T @ f[:, 0] for f in F[least:]), xa.weighted_sum(A)]
        return [*(xa.vecdot(A, f, axis=0) for f in F[least:]), xa.weighted_sum(A)]

    upper = [sums(Q * f, i) for i, f in enumerate(F)] + [[xa.weighted_sum(Q)]]
    return xa.stacked(*sums(R), *(upper[min(i, j)][abs(i - j)] for j in range(d) for i in range(d)))


def _residuals_and_curvatures(
    theta: Floats, F: list[Floats], y: Indices, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Probabilities less targets, and ``p (1 - p)``, without weights: (m, K) each."""
    xp, dtype = xa.namespace(F[0]), F[0].dtype
    *slopes, offset = (xa.like(a, F[0], dtype) for a in theta.T)
    # expit would take four times as long. The bound keeps p^2 from underflow.
    E = F[0] * -slopes[0]
    for f, slope in zip(F[1:], slopes[1:], strict=True):
        E -= f * slope
    E -= offset
    E = xa.at_most(E, xa.largest_exponent(E), E)
    E = xa.into("exp", E, E)
    P = xa.into("reciprocal", None, 1 + E)
    rest = xa.into("multiply", E, E, P)  # 1 - p without the difference, lost near p = 1
    low, short = xa.like(low, P, dtype), xa.like(1 - high, P, dtype)
    if isinstance(P, np.ndarray) and len(theta) > 1:  # one entry of each row is that of an event
        each = np.arange(len(y))
        of_events = short[y] - rest[each, y]
        Q, R = np.multiply(rest, P, out=rest), np.subtract(P, low, out=P)
        R[each, y] = of_events
        return R, Q
    R = xp.where(xa.is_event(y, len(theta)), short - rest, P - low)
    return R, xa.into("multiply", rest, rest, P)

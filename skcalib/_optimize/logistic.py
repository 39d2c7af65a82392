r"""One-vs-rest logistic regression: log loss and its minimum for one sigmoid per class.

For class k the features of a row are :math:`f = (f_1, \dots, f_{d-1}, 1)`, each an array (m, K) for
a block of m rows, and the event :math:`y = k` has probability :math:`\sigma(\theta_k^\top f_k)`.
Two classes share a single sigmoid, for the second class. Targets may lie between 0 and 1, and a
normal prior may shrink parameters towards its mean. :func:`~skcalib._optimize.minimize.newton`
solves all K problems with d parameters at once: one pass over the rows sums their gradients (K, d)
and Hessians (K, d, d).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import optimize
from scipy.special import logit

from skcalib._optimize.minimize import newton
from skcalib._rows import Rows
from skcalib._rows.arrays import is_event, weighted_sum
from skcalib._typing import Bools, Floats, Indices

# Newton's method stops when a step lowers the mean loss of a class by less than this, times the
# variance of the target.
TOLERANCE = 1e-10

# Largest number of passes, including the pass that sums the class weights.
MAX_PASSES = 100

# Stands for zero weight, so that penalties divided by the weight are finite.
NO_WEIGHT = 1e-200

# Function from scores (m, K) to the features except the constant one, each (m, K) in double
# precision, and which rows count for each class (m, K), or None if all count.
FeatureFunction = Callable[[Floats], tuple[list[Floats], Bools | None]]


@dataclass(frozen=True)
class Prior:
    """Normal prior for the parameters of each class: mean (d,) or (K, d), precision (d, d)."""

    mean: Floats
    precision: Floats


class Sigmoids(Protocol):
    """K logistic regressions."""

    @property
    def rate(self) -> Floats:
        """Mean target (K,)."""

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradients (K, d) and Hessians (K, d, d) at ``theta`` (K, d)."""


def fit_sigmoids(
    sigmoids: Sigmoids, start: Floats, low: Floats | None = None
) -> optimize.OptimizeResult:
    """Return the parameters ``x`` (K, d) that minimize the loss, above ``low`` (K, d) if given.

    ``nfev`` counts passes over the rows. If all slopes of ``start`` are zero, the first step is a
    linear regression, lengthened by 1 / (1 - R^2). This is exact for two normal distributions
    and a mean target of 1/2.
    """
    rate = np.clip(sigmoids.rate, 1e-10, 1 - 1e-10)

    def linear_regression_length(promise: Floats) -> Floats:
        explained = promise * (4 * rate * (1 - rate)) ** 2
        return 1 / np.maximum(1 - explained, 1 / 3)

    return optimize.minimize(
        sigmoids.derivatives,
        start.ravel(),
        method=newton,
        options={
            "shape": start.shape,
            "low": low,
            "tol": TOLERANCE * rate * (1 - rate),
            "maxiter": MAX_PASSES - 1,  # one pass has summed the weights
            "first_length": None if start[:, :-1].any() else linear_regression_length,
        },
    )


@dataclass(frozen=True)
class RowSigmoids:
    """K logistic regressions on the same rows: mean log losses minus mean log priors."""

    rows: Rows
    features: FeatureFunction
    events: Floats  #: (K,), weight of the class among the rows that count
    weight: Floats  #: (K,), weight of all rows that count
    high: Floats  #: (K,), target of the rows of the class
    low: Floats  #: (K,), target of the other rows
    prior: Prior | None = None

    @classmethod
    def of(
        cls, rows: Rows, features: FeatureFunction, prior: Prior | None = None, *, smooth: bool
    ) -> RowSigmoids:
        """Return regressions with targets 1 and 0, or with Platt's targets (1999) if ``smooth``."""
        K = rows.n_columns

        def count(U: Floats, y: Indices, w: Floats | None) -> Floats:
            counts = features(U)[1]
            w = np.ones(len(y)) if w is None else w
            if counts is None:
                events = np.bincount(y, w, max(K, 2))[-K:]
                return np.stack([events, np.full(K, w.sum())])
            return np.stack([w @ (counts & is_event(y, K)), w @ counts])

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
        """Parameters (K, 2) for one feature: no slope, and the log-odds of the rate."""
        rate = np.clip(self.rate, 1e-10, 1 - 1e-10)
        return np.column_stack([np.zeros_like(rate), logit(rate)])

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradients (K, d) and Hessians (K, d, d) at ``theta`` (K, d)."""
        features, high, low = self.features, self.high, self.low  # workers get no rows

        def block(U: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = features(U)
            with np.errstate(over="ignore"):  # scipy.special.expit takes four times as long
                P = 1 / (1 + np.exp(_scores(-theta, F)))
            Q = P * (1 - P)
            P -= low
            if len(low) == 1:
                P[y == 1] -= high - low
            else:
                P[np.arange(len(y)), y] -= (high - low)[y]
            if counts is not None:
                P, Q = np.where(counts, P, 0), np.where(counts, Q, 0)
            if w is not None:
                P, Q = P * w[:, None], Q * w[:, None]
            return _derivative_sums(P, Q, F)  # P are the residuals now

        sums = self.rows.sum(block) / self.weight
        gradient, hessian = sums[0].T, sums[1:].transpose(2, 0, 1)
        if self.prior is not None:
            precision = self.prior.precision / self.weight[:, None, None]
            gradient = gradient + np.einsum("kij,kj->ki", precision, theta - self.prior.mean)
            hessian = hessian + precision
        return gradient, hessian

    def share_wrong(self, theta: Floats) -> Floats:
        """Return the share of the weight (K,) with a probability on the wrong side of 1/2.

        The share is 1 for a class without rows that count.
        """
        features = self.features

        def block(U: Floats, y: Indices, w: Floats | None) -> Floats:
            F, counts = features(U)
            S = _scores(theta, F)
            wrong = np.where(is_event(y, len(theta)), S <= 0, S >= 0)
            wrong = wrong if counts is None else wrong & counts
            return weighted_sum(wrong, w)

        share: Floats = self.rows.sum(block) / self.weight
        return np.where(self.weight > NO_WEIGHT, share, 1.0)


def _scores(theta: Floats, F: list[Floats]) -> Floats:
    """Return the linear scores (m, K) for ``theta`` (K, d) and features (m, K)."""
    S = F[0] * theta[:, 0]
    for f, slope in zip(F[1:], theta.T[1:-1], strict=True):
        S += f * slope
    S += theta[:, -1]
    return S


def _derivative_sums(R: Floats, Q: Floats, F: list[Floats]) -> Floats:
    """Sum gradients ``R f_i`` and Hessians ``Q f_i f_j`` over rows: (1 + d, d, K).

    ``R``, ``Q`` and the features ``F`` are (m, K). ``F`` lacks the last feature, which is 1.
    """
    d = len(F) + 1
    sums = np.empty((1 + d, d, R.shape[1]))

    def sums_times_features(A: Floats, first: int = 0) -> list[Floats]:
        return [*(np.einsum("ij,ij->j", A, f) for f in F[first:]), A.sum(axis=0)]

    sums[0] = sums_times_features(R)
    for i in range(d):
        row = sums_times_features(Q * F[i] if i < len(F) else Q, i)
        sums[1 + i, i:] = sums[1 + i :, i] = row
    return sums

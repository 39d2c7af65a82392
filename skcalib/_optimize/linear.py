r"""Linear maps of features: log loss with a ridge penalty, and its minimum.

The package and the user guide share this notation. A block of rows has logits ``Z`` (m, K), class
indices ``y`` (m,) and weights ``w`` (m,) or None for ones. Features ``F`` (m, K) are the logits, or
log-probabilities. A map with parameters ``theta`` (p,) computes scores ``S`` (m, K), linear in
``theta``, and probabilities ``P = softmax(S)``. The objective is

.. math:: L(\theta) = \frac1N \sum_i w_i \Bigl(\log\sum_k e^{s_{ik}} - s_{i y_i}\Bigr)
    + \sum_j r_j (\theta_j - \theta^0_j)^2, \quad N = \sum_i w_i,

where :math:`\theta^0` leaves the features unchanged and r is the ridge penalty. The objective is
convex. With the residuals ``R = w (P - Y)`` the first term has the gradient ``adjoint(R, F) / N``.
The maps and their preconditioners are in :mod:`skcalib._optimize.maps`, the choice of the penalty
in :mod:`skcalib._optimize.strength`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import optimize

from skcalib._optimize.maps import (
    LOWEST_FEATURE,
    MASKED_FEATURE,
    Blocks,
    MatrixMap,
    Regularization,
    VectorMap,
)
from skcalib._optimize.minimize import preconditioned_lbfgs
from skcalib._optimize.temperature import log_mixture
from skcalib._rows import Rows
from skcalib._rows.arrays import weighted_sum
from skcalib._typing import Floats, Indices

Map = VectorMap | MatrixMap

NO_RIDGE = Regularization()


def log_features(temperature: float, smoothing: float, Z: Floats, *_: object) -> Floats:
    """Return log-probabilities (m, K) after smoothed temperature scaling, bounded below."""
    F = log_mixture(temperature, smoothing, Z)
    if F.min() >= LOWEST_FEATURE:
        return F
    return np.where(np.isneginf(F), MASKED_FEATURE, np.maximum(F, LOWEST_FEATURE))


def top_zero_scores(theta: Floats, F: Floats, map_: Map) -> Floats:
    """Return scores (m, K) minus the largest score in the row, in the precision of ``theta``.

    ``theta`` is (p,), ``F`` is (m, K).
    """
    S = map_.scores(theta, F.astype(theta.dtype, copy=False))
    S -= S.max(axis=1, keepdims=True)
    return S


def softmax_and_losses(S: Floats, y: Indices) -> tuple[Floats, Floats]:
    """Return probabilities (m, K) and log losses (m,) for scores with maximum 0 in each row."""
    P = np.exp(S)
    total = P.sum(axis=1)
    P /= total[:, None]
    return P, np.log(total) - S[np.arange(len(y)), y]


def loss_gradient(theta: Floats, F: Floats, y: Indices, w: Floats | None, map_: Map) -> Floats:
    """Return the summed log loss and its gradient by ``theta``, in one array (1 + p,).

    ``theta`` is (p,), ``F`` is (m, K), ``y`` and ``w`` are (m,).
    """
    R, losses = softmax_and_losses(top_zero_scores(theta, F, map_), y)
    R[np.arange(len(y)), y] -= 1
    if w is not None:
        R *= w[:, None]
    gradient = map_.adjoint(R, F.astype(theta.dtype, copy=False))
    return np.append(weighted_sum(losses, w), gradient)


class LinearLoss:
    """Objective for a linear map: mean log loss plus a ridge penalty.

    The logits of ``rows`` are the features.
    """

    def __init__(self, map_: Map, rows: Rows, regularization: Regularization = NO_RIDGE) -> None:
        self.map_, self.rows = map_, rows
        self.n_classes = K = max(rows.n_columns, 2)
        # Whether passes are so short that double precision costs little.
        self.is_small = rows.n_rows * K <= 1 << 15
        # Parameters (p,) that leave the features unchanged, and ridge penalty (p,) on each.
        self.identity = map_.identity(K)
        self.regularization, self.ridge = regularization, map_.ridge(regularization, K)

    def penalized_with(self, regularization: Regularization) -> LinearLoss:
        """Return the objective with another ridge penalty."""
        return LinearLoss(self.map_, self.rows, regularization)

    def value_gradient(self, theta: Floats, dtype: Any = np.float64) -> tuple[float, Floats]:
        """Return the objective and its gradient (p,) at ``theta`` (p,), computed in ``dtype``."""
        typed = theta.astype(dtype, copy=False)
        sums = self.rows.sum(
            partial(loss_gradient, typed, map_=self.map_),
            # With fewer rows, adding the gradients of blocks would take as long as computing them.
            at_least=2 * len(theta) // self.n_classes,
        )
        loss, gradient = sums[0] / self.rows.weight, sums[1:] / self.rows.weight
        away, ridge = theta - self.identity, self.ridge
        return float(loss + ridge @ away**2), gradient + 2 * ridge * away

    def moments(self, theta: Floats) -> Floats:
        """Average the moments that :meth:`blocks` needs at ``theta`` (p,) over a sample."""
        map_ = self.map_

        def moments(F: Floats, y: Indices, w: Floats | None) -> Floats:
            P, _ = softmax_and_losses(top_zero_scores(theta, F, map_), y)
            Q = P * (1 - P)
            return map_.moments(F, Q if w is None else Q * w[:, None])

        means: Floats = self.rows.sample.sum(moments) / self.rows.sample.weight
        return means

    def blocks(self, moments: Floats) -> Blocks:
        """Return the approximate inverse Hessian for these moments, one block per class."""
        # Outside the null space the curvature of a class is K / (K - 1) times q, exactly if all
        # classes are equally probable or K = 2.
        K = self.n_classes
        return self.map_.blocks(moments * (K / (K - 1)), self.regularization)

    def has_no_errors(self, theta: Floats) -> bool:
        """Return whether the label has the largest score in every row, without ties."""
        map_ = self.map_

        def count_errors(F: Floats, y: Indices, _: Floats | None) -> Any:
            S, i = top_zero_scores(theta, F, map_), np.arange(len(y))
            label = S[i, y]
            S[i, y] = -np.inf
            return np.float64(np.count_nonzero(label <= S.max(axis=1)))

        return not self.rows.sum(count_errors)

    def minimize(
        self,
        tol: float,
        max_iter: int,
        start: Floats | None = None,
        blocks: Blocks | None = None,
    ) -> optimize.OptimizeResult:
        """Minimize the objective until the gradient norm is at most ``tol``.

        The search begins at ``start`` (p,), or at the identity. ``blocks`` are the first
        preconditioner; by default they are computed. ``success`` is false if ``max_iter``
        iterations do not suffice, if no minimum exists, or if rounding leaves no step that lowers
        the objective. ``x`` are then the best parameters.
        """
        # Single precision is faster on many features, and exact enough for tol >= 1e-6.
        dtype = np.dtype(np.float64) if self.is_small or tol < 1e-6 else self.rows.dtype
        # Without a ridge, stop once the loss is below log 2 times the smallest weight: then all
        # rows are classified correctly, and the loss has no minimum.
        lowest = -np.inf
        if not self.ridge.any():
            lowest = float(np.log(2) * self.rows.smallest_weight / self.rows.weight)
        x0 = self.identity
        if start is not None:
            x0 = self.map_.balanced(start, self.regularization, self.n_classes)
        return optimize.minimize(
            partial(self.value_gradient, dtype=dtype),
            x0,
            jac=True,
            method=preconditioned_lbfgs,
            options={
                "preconditioner": lambda theta: self.blocks(self.moments(theta)).solve,
                "precondition": None if blocks is None else blocks.solve,
                "gtol": tol,
                "maxiter": max_iter,
                "lowest": lowest,
                "noise": 1e-7 if dtype == np.float32 else 1e-12,
            },
        )

r"""Choice of the ridge strength for a linear map by approximate leave-one-out log losses.

At the minimum of the objective, with Hessian H, a row has Jacobian J (from parameters to scores),
residual :math:`g = p - e_y` and curvature :math:`D = \mathrm{diag}(p) - p p^\top`. If a part u of
the row's weight is left out, one Newton step changes its scores by

.. math:: u A (I - u D A)^{-1} g, \qquad A = J (N H)^{-1} J^\top ,

where A (K, K) is the leverage of the row (Rad and Maleki, "A scalable estimate of the out-of-sample
prediction error via approximate leave-one-out cross-validation", JRSS B 2020, arXiv:1801.10243).
Penalties are in proportion to 1 / N: leaving out the row does not change the penalty of the summed
loss. A row with weight 2 stands for two equal rows. Only one is left out: :math:`u = \min(w, 1)`.
With more than 5 classes the Hessian is approximated by one block per class, as in
:mod:`skcalib._optimize.maps`. A is then diagonal, and the change has a closed form.

The leave-one-out loss is the mean log loss of all rows plus its optimism, which is averaged over a
sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skcalib._optimize.linear import LinearLoss, Map, softmax_and_losses, top_zero_scores
from skcalib._optimize.maps import Blocks, Regularization
from skcalib._rows.arrays import weighted_sum
from skcalib._typing import Floats, Indices

# Up to this number of classes, leverages use the whole Hessian.
FEW_CLASSES = 5

# Without a row, a block retains at least this share of its curvature: the row may dominate it.
SMALLEST_REST = 0.1


class Fit(NamedTuple):
    """Fit with one strength, exact enough to compare strengths."""

    alpha: float
    loss: LinearLoss
    theta: Floats  #: parameters (p,) close to the minimum
    moments: Floats  #: from :meth:`LinearLoss.moments` at theta
    blocks: Blocks  #: from these moments
    estimate: float  #: mean leave-one-out log loss
    total: float  #: summed leave-one-out log loss minus the log prior at alpha
    n_iter: int


def choose_strength(
    loss: LinearLoss, rule: Callable[[float], Regularization], tol: float, max_iter: int
) -> tuple[Fit, list[Fit]]:
    """Return the fit with the smallest leave-one-out loss minus log prior, and all fits.

    ``rule(alpha)`` returns a regularization. Strengths fall from 3 until the total rises: for much
    smaller strengths the estimates would be too low if parameters are many. If 1 is no better than
    3, a strength of 10 is tried as well.
    """
    fits = [_fit(loss, rule, 3.0, tol, max_iter)]
    for alpha in (1.0, 0.3, 0.1, 0.03, 0.01, 0.003):
        fits.append(_fit(loss, rule, alpha, tol, max_iter, fits[-1]))
        if fits[-1].total >= fits[-2].total:
            break
    if len(fits) == 2:
        fits.insert(0, _fit(loss, rule, 10.0, tol, max_iter, fits[0]))
    return min(fits, key=lambda fit: fit.total), fits


def _fit(
    loss: LinearLoss,
    rule: Callable[[float], Regularization],
    alpha: float,
    tol: float,
    max_iter: int,
    near: Fit | None = None,
) -> Fit:
    """Fit with one strength, starting from the fit ``near`` with another strength."""
    loss = loss.penalized_with(rule(alpha))
    start = blocks = None
    if near is not None:  # one Newton step for the changed ridge, without a pass
        blocks = loss.blocks(near.moments)
        gradient = 2 * (loss.ridge - near.loss.ridge) * (near.theta - loss.identity)
        start = near.theta - blocks.solve(gradient)
    # A gradient norm of 1e-3 is enough to compare strengths.
    solution = loss.minimize(max(tol, 1e-3), max_iter, start, blocks)
    moments = loss.moments(solution.x)
    blocks = loss.blocks(moments)
    curvature = blocks if loss.n_classes > FEW_CLASSES else WholeHessian.of(loss, solution.x)
    step = curvature.solve(solution.jac)
    theta = solution.x - step
    mean_loss = solution.fun - solution.jac @ step / 2 - loss.ridge @ (theta - loss.identity) ** 2
    estimate = float(mean_loss) + optimism(loss, theta, curvature)
    total = loss.rows.weight * estimate - float(log_prior(alpha))
    return Fit(alpha, loss, theta, moments, blocks, estimate, total, solution.nit)


def log_prior(alphas: Any) -> Floats:
    """Return the log density of the log-normal prior for strengths, up to a constant.

    Two in three strengths are between 1/3 and 3.
    """
    prior: Floats = -((np.log(alphas) / np.log(3)) ** 2) / 2
    return prior


@dataclass(frozen=True)
class WholeHessian:
    """Inverse Hessian of an objective for a map of K classes, each with n parameters."""

    map_: Map
    index: Indices  #: (K n,), parameters sorted by class
    inverse: Floats  #: (K n, K n), sorted by class

    @classmethod
    def of(cls, loss: LinearLoss, theta: Floats) -> WholeHessian:
        """Invert the Hessian at ``theta`` (p,), averaged over a sample of the rows."""
        map_, sample = loss.map_, loss.rows.sample

        def hessian(F: Floats, y: Indices, w: Floats | None) -> Floats:
            P, _ = softmax_and_losses(top_zero_scores(theta, F, map_), y)
            X = map_.inputs(F)
            m, K, n = X.shape
            PX = P[:, :, None] * X
            weighted = PX if w is None else PX * w[:, None, None]
            H = -weighted.reshape(m, -1).T @ PX.reshape(m, -1)
            k = np.arange(K)
            H.reshape(K, n, K, n)[k, :, k] += np.einsum("mka,mkb->kab", weighted, X)
            return H

        H = sample.sum(hessian, at_least=len(theta)) / sample.weight
        index = map_.by_class(loss.n_classes)
        H += 2 * np.diag(loss.ridge[index])
        # Without a ridge some directions change no probability, such as equal offsets.
        return cls(map_, index, np.linalg.pinv(H, 1e-14, hermitian=True))

    def solve(self, gradient: Floats) -> Floats:
        """Return the inverse times a gradient (p,)."""
        step = np.empty_like(gradient)
        step[self.index] = self.inverse @ gradient[self.index]
        return step

    def leverages(self, F: Floats) -> Floats:
        """Return the leverages of each row of ``F`` (m, K) for all pairs of classes: (m, K, K)."""
        X = self.map_.inputs(F)
        m, K, n = X.shape
        A = np.empty((m, K, K))
        for k, block in enumerate(self.inverse.reshape(K, n, K * n)):
            A[:, :, k] = np.einsum("mkn,mkn->mk", X, (X[:, k] @ block).reshape(m, K, n))
        return A


def optimism(loss: LinearLoss, theta: Floats, curvature: Blocks | WholeHessian) -> float:
    """Return the leave-one-out log loss minus the log loss at the minimizer ``theta`` (p,).

    Both are means over a sample of the rows.
    """
    weight, map_, sample = loss.rows.weight, loss.map_, loss.rows.sample
    typed = theta if loss.is_small else theta.astype(sample.dtype)

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        F = F.astype(typed.dtype, copy=False)
        S = top_zero_scores(typed, F, map_)
        P, losses = softmax_and_losses(S, y)
        R = P.copy()
        R[np.arange(len(y)), y] -= 1
        A = curvature.leverages(F) / weight
        if w is not None:
            A *= np.minimum(w, 1).reshape(-1, *[1] * (A.ndim - 1))
        S += score_change(A, P, R) if A.ndim == 3 else diagonal_score_change(A, P, R)
        S -= S.max(axis=1, keepdims=True)
        return weighted_sum(softmax_and_losses(S, y)[1] - losses, w)

    return float(sample.sum(block) / sample.weight)


def score_change(A: Floats, P: Floats, R: Floats) -> Floats:
    """Return ``A (I - D A)^-1 r`` for the leverages ``A`` (m, K, K) in each row: (m, K).

    The probabilities ``P`` and the residuals ``R`` are (m, K).
    """
    PA = P[:, :, None] * A
    DA = PA - P[:, :, None] * PA.sum(axis=1, keepdims=True)
    unit = (1 + 1e-10) * np.eye(P.shape[1])  # the equations of a dominant row may be singular
    return (A @ np.linalg.solve(unit - DA, R[:, :, None]))[:, :, 0]


def diagonal_score_change(A: Floats, P: Floats, R: Floats) -> Floats:
    r"""Return ``A (I - D A)^-1 r`` for the diagonal leverages ``A`` (m, K) in each row: (m, K).

    The probabilities ``P`` and the residuals ``R`` are (m, K). By Sherman and Morrison, with
    ``e = 1 - p a``, this is

    .. math:: a \left(r - p\, \frac{\sum p a r / e}{1 + \sum p a p / e}\right) / e .

    D is half the curvature, since blocks share one covariance and contain only a part of a row's
    curvature. With a half, estimates were closest to cross-validation for networks with 100
    classes.
    """
    PA = 0.5 * P * A
    rest = np.maximum(1 - PA, SMALLEST_REST)
    PA /= rest
    total = np.einsum("ij,ij->i", PA, R) / (1 + np.einsum("ij,ij->i", PA, P))
    return A * (R - total[:, None] * P) / rest

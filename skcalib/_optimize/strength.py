r"""Choice of the ridge strength for a linear map by approximate leave-one-out log losses.

At the minimum of the objective, with Hessian H, a row has Jacobian J (from parameters to scores),
residual :math:`g = p - e_y` and curvature :math:`D = \mathrm{diag}(p) - p p^\top`. If a part u of
the row's weight is left out, one Newton step changes its scores by

.. math:: u A (I - u D A)^{-1} g, \qquad A = J (N H)^{-1} J^\top ,

where A (K, K) is the leverage of the row (Rad and Maleki, "A scalable estimate of the out-of-sample
prediction error via approximate leave-one-out cross-validation", JRSS B 2020, arXiv:1801.10243).
Penalties are in proportion to 1 / N: leaving out the row does not change the penalty of the summed
loss. A row with weight 2 stands for two equal rows. Only one is left out: :math:`u = \min(w, 1)`.
The Hessian is approximated by one block per class, as in :mod:`skcalib._optimize.maps`. A is then
diagonal, and the change has a closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from skcalib._optimize.linear import LinearLoss, Map, softmax_and_losses, top_zero_scores
from skcalib._optimize.maps import Blocks, Regularization
from skcalib._rows.arrays import weighted_sum
from skcalib._typing import Floats, Indices

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
    theta = solution.x - blocks.solve(solution.jac)
    estimate = leave_one_out_loss(loss, theta, blocks)
    total = loss.rows.weight * estimate - float(log_prior(alpha))
    return Fit(alpha, loss, theta, moments, blocks, estimate, total, solution.nit)


def log_prior(alphas: Any) -> Floats:
    """Return the log density of the log-normal prior for strengths, up to a constant.

    Two in three strengths are between 1/3 and 3.
    """
    prior: Floats = -((np.log(alphas) / np.log(3)) ** 2) / 2
    return prior


def leave_one_out_loss(loss: LinearLoss, theta: Floats, blocks: Blocks) -> float:
    """Return the mean leave-one-out log loss at the minimizer ``theta`` (p,)."""
    weight, map_, masked = loss.rows.weight, loss.map_, loss.masked
    typed = theta if loss.is_small else theta.astype(loss.rows.dtype)

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        return leave_one_out_losses(typed, F, y, w, map_, blocks, weight, masked=masked)

    return float(loss.rows.sum(block) / weight)


def leave_one_out_losses(
    theta: Floats,
    F: Floats,
    y: Indices,
    w: Floats | None,
    map_: Map,
    blocks: Blocks,
    weight: float,
    *,
    masked: bool = False,
) -> Floats:
    """Sum the leave-one-out log losses over rows, times their weights.

    ``theta`` is (p,), ``F`` is (m, K), ``y`` and ``w`` are (m,). ``blocks`` are the inverse Hessian
    for the mean loss. ``weight`` is the total weight.
    """
    S = top_zero_scores(theta, F, map_, masked=masked)
    P, _ = softmax_and_losses(S, y)
    R = P.copy()
    R[np.arange(len(y)), y] -= 1
    A = blocks.leverages(F.astype(theta.dtype, copy=False)) / weight
    if w is not None:
        A *= np.minimum(w, 1)[:, None]
    S += score_change(A, P, R)
    S -= S.max(axis=1, keepdims=True)
    losses: Floats = weighted_sum(softmax_and_losses(S, y)[1], w)
    return losses


def score_change(A: Floats, P: Floats, R: Floats) -> Floats:
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

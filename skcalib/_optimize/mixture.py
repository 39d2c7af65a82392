r"""Mixtures of probabilities with one another, and their weights.

A mixture of M probabilities :math:`q_{im}` of the label of row i, with weights :math:`\pi_m \ge 0`
that sum to one, has the log loss

.. math:: L(\pi) = -\frac1N \Bigl(\sum_i w_i \log \sum_m \pi_m q_{im}
    + \sum_m a_m \log \pi_m\Bigr) ,

convex in :math:`\pi`. Pseudo-rows :math:`a_m`, each a row whose label only member m gives any
probability to, are those of a Dirichlet prior; N is the sum of both weights. Since
:math:`L(s \pi) = L(\pi) - \log s`, the minimum of :math:`L(\pi) + \sum_m \pi_m - 1` among all
:math:`\pi \ge 0` sums to one, and so bounds are the only constraints. With the slopes g of that
function it is above its minimum by at most :math:`g^\top \pi - \min_m g_m`, the duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import optimize

from skcalib._rows import Floats, Indices, Plan, Rows, arrays as xa
from skcalib._rows.rows import OfBlock

# Probabilities of labels in a mixture are at least this, the largest of the row being 1.
SMALLEST_MIXED = 1e-100

# Smaller weights are zero.
SMALLEST_WEIGHT = 1e-12

MAX_ITERATIONS = 100

# Duality gap, in nats, at the end of the search, and where rounding hides what is left.
SMALLEST_GAP, LARGEST_GAP = 1e-9, 2e-5

# What makes the equations of a step regular; sufficient decrease, as a share of what the slope
# promises, up to rounding; the shortest share of a step; and of a weight that a step leaves.
RIDGE, ENOUGH, ROUNDING, SMALLEST_SHARE, LEAST_SHARE = 1e-13, 1e-4, 1e-14, 1e-6, 0.01


def mixture(L: Floats, weights: Floats) -> Floats:
    """Logarithms (n, K) of the mixture of probabilities with logarithms ``L`` (M, n, K)."""
    shifted = L + xa.like(xa.namespace(weights).log(weights)[:, None, None], L, L.dtype)
    xp = xa.namespace(L)
    top = xp.max(shifted, axis=0)
    finite = xp.where(-np.inf == top, 0.0, top)
    with np.errstate(divide="ignore"):
        return xp.log(xp.sum(xp.exp(shifted - finite), axis=0)) + finite


@dataclass(frozen=True)
class MixtureLoss:
    """Log loss of a mixture of M members plus the sum of their weights, less one.

    The rows have probabilities (n, M) of the labels, in any units per row, in place of logits, or
    what ``of_block`` makes them from.
    """

    rows: Rows
    pseudo_rows: Floats  #: (M,)
    of_block: OfBlock | None = None

    @property
    def weight(self) -> float:
        """Sum of the weights of rows and pseudo-rows."""
        return self.rows.weight + float(self.pseudo_rows.sum())

    def second_order(self, x: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (M,) and Hessian (M, M) at weights ``x`` (M,), by one pass.

        The gradient is one minus the Hessian times the weights: the shares of the members in the
        probability of a row sum to one.
        """
        of_block = partial(_logs_and_products, x, self.of_block)
        logs, *products = self.rows.sum(of_block, Plan(at_least=len(x)))
        H, a = np.reshape(products, (len(x), len(x))), self.pseudo_rows
        logs, H = logs + a[a > 0] @ np.log(x[a > 0]), (H + np.diag(a / x / x)) / self.weight
        return float(x.sum() - 1 - logs / self.weight), 1 - H @ x, H


def _logs_and_products(
    x: Floats, of_block: OfBlock | None, Q: Floats, y: Indices | None, w: Floats | None
) -> Floats:
    """Log-likelihood of a block, and minus its second derivatives: (1 + M * M,)."""
    Q = Q if of_block is None else of_block(Q, y, w)
    mixed = np.maximum(Q @ x, SMALLEST_MIXED)
    S, logs = Q / mixed[:, None], np.log(mixed)
    products = (S if w is None else S * w[:, None]).T @ S
    return np.append(logs.sum() if w is None else w @ logs, products)


def mixture_weights(loss: MixtureLoss, start: Floats) -> optimize.OptimizeResult:
    """Weights of least log loss, from a start that is positive and sums to one.

    With weights ``x`` (M,) that sum to one, their loss ``fun``, the number of passes ``nfev``, and
    whether the duality gap is small, ``success``. Each step of Newton's method ends where the
    quadratic model is least among all weights that are not negative, or on the way there.
    """
    x, (value, slope, H), nfev = start, loss.second_order(start), 1
    for _ in range(MAX_ITERATIONS):
        gap = float(slope @ x - slope.min())
        if gap <= SMALLEST_GAP:
            break
        # In these units rows of a single member have a curvature of one. With H = R' R the model is
        # |R u - b|^2 / 2 up to a constant, where R' b is H x - slope. It does not see the growth
        # towards zero, so no weight gets there in one step.
        unit = np.sqrt(x)
        R = np.linalg.cholesky(H * unit * unit[:, None] + RIDGE * np.eye(len(x))).T
        u, _ = optimize.nnls(R, np.linalg.solve(R.T, unit * (H @ x - slope)))
        least, share = np.maximum(LEAST_SHARE * x, SMALLEST_WEIGHT), 1.0
        step = np.maximum(u * unit, least) - x
        while share > SMALLEST_SHARE:
            ahead = (x + share * step) / (x + share * step).sum()
            found, nfev = loss.second_order(ahead), nfev + 1
            if found[0] <= value + ENOUGH * share * float(slope @ step) + ROUNDING * (1 + value):
                break
            share /= 4
        else:
            break
        x, (value, slope, H) = ahead, found
    weights = np.where(x <= 2 * SMALLEST_WEIGHT, 0, x)
    return optimize.OptimizeResult(
        x=weights / weights.sum(), fun=value, success=gap <= LARGEST_GAP, nfev=nfev
    )


def least_squares_weights(A: Floats, b: Floats) -> Floats:
    """Weights x (M,) that sum to one at which ``|A x - b|^2`` is least.

    With columns ``C = A - b`` that is ``|C x|^2``. At the least of ``|C u|^2 + (sum(u) - 1)^2``
    among all u that are not negative u is a multiple of x: only bounds are left.
    """
    C = A - b[:, None]
    C = np.vstack([C / max(float(np.abs(C).max()), np.finfo(float).tiny), np.ones(A.shape[1])])
    target = np.append(np.zeros(len(b)), 1)
    options = {"method": "bvls", "tol": 1e-15, "max_iter": 100 * len(C)}
    u = np.maximum(optimize.lsq_linear(C, target, (0, np.inf), **options).x, 0)
    return u / u.sum()

r"""Mixtures of probabilities, and their weights by maximum likelihood.

A mixture of M candidates gives the label of row i the probability :math:`\sum_m \pi_m q_{im}`. The
weights minimize

.. math:: L(\pi) = -\frac1N \Bigl(\sum_i w_i \log \sum_m \pi_m q_{im}
    + \sum_m a_m \log \pi_m\Bigr)

on the simplex. The Dirichlet prior acts like :math:`a_m` additional rows with a label that only
candidate m can predict; N is the sum of all :math:`w_i` and :math:`a_m`. The problem is convex.

Since :math:`L(s \pi) = L(\pi) - \log s`, the minimum of :math:`L(\pi) + \sum_m \pi_m - 1` over all
:math:`\pi \ge 0` sums to one, so that bounds are the only constraints. With the gradient g of this
function, the value is above the minimum by at most :math:`g^\top \pi - \min_m g_m`, the duality
gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import optimize, special

from skcalib._rows import Floats, Indices, Rows, arrays
from skcalib._rows.rows import BlockFunction

MAX_ITERATIONS = 100


def mixture(L: Floats, weights: Floats) -> Floats:
    """Log-probabilities (n, K) of the mixture of candidates with log-probabilities (M, n, K)."""
    xp = arrays.namespace(L)
    shifted = L + arrays.like(np.log(weights)[:, None, None], L, L.dtype)
    top = xp.max(shifted, axis=0)
    finite = xp.where(-np.inf == top, 0.0, top)
    with np.errstate(divide="ignore"):
        return xp.log(xp.sum(xp.exp(shifted - finite), axis=0)) + finite


def mixture_of_log_odds(S: Floats, weights: Floats) -> Floats:
    """Return log-probabilities (n, 2) of the mixture of candidates with log-odds (M, n, 1)."""
    xp = arrays.namespace(S)
    event = arrays.at_most(S, 0.0) - xp.log1p(xp.exp(-xp.abs(S)))
    return mixture(arrays.concat([event - S, event], axis=2), weights)


@dataclass(frozen=True)
class MixtureLoss:
    """Log loss of a mixture of M candidates, plus the sum of their weights, minus one.

    ``rows.X`` are the probabilities (n, M) of the labels, up to a factor per row, or
    ``block_probabilities`` computes these probabilities from a block of ``rows``.
    """

    rows: Rows
    pseudo_rows: Floats  #: (M,)
    block_probabilities: BlockFunction | None = None

    @property
    def weight(self) -> float:
        """Sum of the weights of rows and pseudo-rows."""
        return self.rows.weight + float(self.pseudo_rows.sum())

    def second_order(self, x: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (M,) and Hessian (M, M) at weights ``x`` (M,), by one pass."""
        sums = partial(_logs_and_products, x, self.block_probabilities)
        logs, *products = self.rows.sum(sums)
        a, H = self.pseudo_rows, np.reshape(products, (len(x), len(x)))
        logs, H = logs + a[a > 0] @ np.log(x[a > 0]), (H + np.diag(a / x / x)) / self.weight
        # The shares of the candidates in a row sum to one, so H @ x is minus the gradient of L.
        return float(x.sum() - 1 - logs / self.weight), 1 - H @ x, H


def _logs_and_products(
    x: Floats,
    block_probabilities: BlockFunction | None,
    Q: Floats,
    y: Indices | None,
    w: Floats | None,
) -> Floats:
    """Log-likelihood of a block, and minus its second derivatives: (1 + M * M,)."""
    Q = Q if block_probabilities is None else block_probabilities(Q, y, w)
    mixed = np.maximum(Q @ x, 1e-100)  # avoid division by zero
    S, logs = Q / mixed[:, None], np.log(mixed)
    products = (S if w is None else S * w[:, None]).T @ S
    return np.append(arrays.weighted_sum(logs, w), products)


def mixture_weights(loss: MixtureLoss, start: Floats) -> optimize.OptimizeResult:
    """Weights of lowest log loss, from a positive start that sums to one.

    The result has the weights ``x`` (M,), their loss ``fun``, the number of passes ``nfev``, and
    ``success`` if the duality gap is small. Each step of Newton's method minimizes the quadratic
    model over all weights that are not negative.
    """
    smallest = 1e-12  # smaller weights are zero
    x, (value, gradient, H), nfev = start, loss.second_order(start), 1
    for _ in range(MAX_ITERATIONS):
        gap = float(gradient @ x - gradient.min())
        if gap <= 1e-9:
            break
        # In these units a row that only one candidate predicts has a curvature of one. With
        # H = R' R the model is |R u - b|^2 / 2, up to a constant, where R' b is H x - gradient.
        unit = np.sqrt(x)
        R = np.linalg.cholesky(H * unit * unit[:, None] + 1e-13 * np.eye(len(x))).T
        u, _ = optimize.nnls(R, np.linalg.solve(R.T, unit * (H @ x - gradient)))
        # The model does not see that -log grows towards 0: no step divides a weight by over 100.
        step = np.maximum(u * unit, np.maximum(0.01 * x, smallest)) - x
        share = 1.0
        while share > 1e-6:
            ahead = (x + share * step) / (x + share * step).sum()
            new, nfev = loss.second_order(ahead), nfev + 1
            # A sufficient decrease, up to rounding errors.
            if new[0] <= value + 1e-4 * share * float(gradient @ step) + 1e-14 * (1 + value):
                break
            share /= 4
        else:
            break
        x, (value, gradient, H) = ahead, new
    weights = np.where(x <= 2 * smallest, 0, x)
    # Rounding errors can hide the last decrease: a gap of 2e-5 nats is small.
    return optimize.OptimizeResult(
        x=weights / weights.sum(), fun=value, success=gap <= 2e-5, nfev=nfev
    )


def fit_intercept(L: Floats, y: Indices, w: Floats | None) -> Floats:
    r"""Intercept (K,) of log-probabilities ``L`` (n, K), by penalized maximum likelihood.

    It minimizes :math:`-\sum_i w_i \log \mathrm{softmax}(l_i + b)_{y_i} + 10 \|b\|^2`. Without the
    penalty, the probabilities of each class would sum to the weight of its rows. The penalty is a
    normal prior for differences of two intercepts, with a standard deviation of 0.32.
    """
    total = len(y) if w is None else w.sum()
    counts = np.bincount(y, w, L.shape[1])

    def objective(b: Floats) -> tuple[float, Floats]:
        S = L + b
        log_sums = special.logsumexp(S, axis=1)
        losses = log_sums - S[np.arange(len(y)), y]
        gradient = arrays.weighted_sum(np.exp(S - log_sums[:, None]), w) - counts + 20 * b
        return float(arrays.weighted_sum(losses, w) + 10 * b @ b) / total, gradient / total

    options = {"gtol": 1e-3 / total, "ftol": 0.0}
    start = np.zeros(L.shape[1])
    return optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


def least_squares_weights(A: Floats, b: Floats) -> Floats:
    """Weights x (M,) that sum to one and minimize ``|A x - b|^2``.

    With columns ``C = A - b`` this is ``|C x|^2``. The minimum of ``|C u|^2 + (sum(u) - 1)^2`` over
    all u that are not negative is a multiple of x, so that bounds are the only constraints.
    """
    C = A - b[:, None]
    C = np.vstack([C / max(float(np.abs(C).max()), np.finfo(float).tiny), np.ones(A.shape[1])])
    target = np.append(np.zeros(len(b)), 1)
    options = {"method": "bvls", "tol": 1e-15, "max_iter": 100 * len(C)}
    u = np.maximum(optimize.lsq_linear(C, target, (0, np.inf), **options).x, 0)
    return u / u.sum()

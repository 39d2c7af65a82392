r"""Mixtures of probabilities, and their weights by maximum likelihood.

M candidates predict the label of row i with the probabilities :math:`q_{im}`, their mixture with
:math:`\sum_m \pi_m q_{im}`. The weights minimize

.. math:: L(\pi) = -\frac1N \Bigl(\sum_i w_i \log \sum_m \pi_m q_{im}
    + \sum_m a_m \log \pi_m\Bigr)

on the simplex. The Dirichlet prior acts like :math:`a_m` additional rows with a label that only
candidate m can predict; N sums all :math:`w_i` and :math:`a_m`. The problem is convex.

Since :math:`L(s \pi) = L(\pi) - \log s`, the minimizer of :math:`L(\pi) + \sum_m \pi_m - 1` among
all :math:`\pi \ge 0` sums to one, so that bounds are the only constraints. With the gradient g, the
value exceeds the minimum by at most :math:`g^\top \pi - \min_m g_m`, the duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import optimize, special

from skcalib._rows import Rows, arrays
from skcalib._typing import Floats, Indices

MAX_ITERATIONS = 100


def mixture(L: Floats, weights: Floats) -> Floats:
    """Mix log-probabilities (M, n, K) with weights (M,): log-probabilities (n, K)."""
    xp = arrays.namespace(L)
    shifted = L + arrays.to_library(np.log(weights)[:, None, None], L, L.dtype)
    top = xp.max(shifted, axis=0)
    finite = xp.where(-np.inf == top, 0.0, top)
    with np.errstate(divide="ignore"):
        return xp.log(xp.sum(xp.exp(shifted - finite), axis=0)) + finite


def mixture_from_log_odds(S: Floats, weights: Floats, shares: Floats) -> Floats:
    """Mix probabilities with log-odds (M, n, 1) by weights (M,): log-probabilities (n, 2).

    The probabilities contain ``shares`` (M,) of the uniform distribution, which ``S`` do not.
    """
    xp, factors = arrays.namespace(S), weights * (1 - shares)
    # Clip to avoid overflow in single precision.
    S = arrays.clip(S, -80.0, 80.0)
    E = xp.exp(arrays.concat([S, -S], axis=2))
    P = xp.sum(arrays.to_library(factors[:, None, None], S, S.dtype) / (1 + E), axis=0)
    return xp.log(P + float(weights @ shares) / 2)


@dataclass(frozen=True)
class MixtureLoss:
    """Log loss for a mixture of M candidates, plus the sum of their weights, minus one."""

    rows: Rows  #: their ``X`` are label probabilities (n, M), up to a factor per row
    pseudo_rows: Floats  #: (M,)

    @property
    def weight(self) -> float:
        """Total weight of the rows and pseudo-rows."""
        return self.rows.weight + float(self.pseudo_rows.sum())

    def second_order(self, x: Floats) -> tuple[float, Floats, Floats]:
        """Return value, gradient (M,) and Hessian (M, M) at weights ``x`` (M,), by one pass."""
        logs, *products = self.rows.sum(partial(_logs_and_products, x))
        a, H = self.pseudo_rows, np.reshape(products, (len(x), len(x)))
        logs, H = logs + a[a > 0] @ np.log(x[a > 0]), (H + np.diag(a / x / x)) / self.weight
        # Since L(s x) = L(x) - log s, H @ x is minus the gradient of L.
        return float(x.sum() - 1 - logs / self.weight), 1 - H @ x, H


def _logs_and_products(x: Floats, Q: Floats, _: Indices | None, w: Floats | None) -> Floats:
    """Return the log-likelihood of a block, and minus its second derivatives: (1 + M * M,).

    ``x`` are the weights (M,), ``Q`` label probabilities (m, M), and ``w`` weights of rows (m,).
    """
    mixed = np.maximum(Q @ x, 1e-100)  # avoid division by zero
    S, logs = Q / mixed[:, None], np.log(mixed)
    products = (S if w is None else S * w[:, None]).T @ S
    return np.append(arrays.weighted_sum(logs, w), products)


def mixture_weights(loss: MixtureLoss, start: Floats) -> optimize.OptimizeResult:
    """Return the weights ``x`` (M,) that minimize the loss, from positive weights ``start`` (M,).

    ``start`` sums to one. ``nfev`` counts passes. ``success`` tells whether the duality gap is
    small. Each Newton step minimizes the quadratic model over all weights that are not negative.
    """
    smallest = 1e-12  # smaller weights are zero
    x, (value, gradient, H), nfev = start, loss.second_order(start), 1
    for _ in range(MAX_ITERATIONS):
        gap = float(gradient @ x - gradient.min())
        if gap <= 1e-9:
            break
        # In these units the curvature is one for a row that only one candidate predicts. With
        # H = R'R the model is |R u - b|^2 / 2 plus a constant, where R'b = H x - gradient.
        unit = np.sqrt(x)
        R = np.linalg.cholesky(H * unit * unit[:, None] + 1e-13 * np.eye(len(x))).T
        u, _ = optimize.nnls(R, np.linalg.solve(R.T, unit * (H @ x - gradient)))
        # The model does not see that -log grows towards 0: no step divides a weight by over 100.
        step = np.maximum(u * unit, np.maximum(0.01 * x, smallest)) - x
        share = 1.0
        while share > 1e-6:
            trial = (x + share * step) / (x + share * step).sum()
            new, nfev = loss.second_order(trial), nfev + 1
            # A sufficient decrease, up to rounding errors.
            if new[0] <= value + 1e-4 * share * float(gradient @ step) + 1e-14 * (1 + value):
                break
            share /= 4
        else:
            break
        x, (value, gradient, H) = trial, new
    weights = np.where(x <= 2 * smallest, 0, x)
    # Rounding errors can hide the last decrease: a gap of 2e-5 nats is small.
    return optimize.OptimizeResult(
        x=weights / weights.sum(), fun=value, success=gap <= 2e-5, nfev=nfev
    )


def fit_intercept(log_odds: Floats, y: Indices, w: Floats | None) -> float:
    r"""Fit an intercept for log-odds (n,) so that the probabilities sum to the number of events.

    ``y`` (n,) is 1 for an event, and ``w`` are the weights (n,) or None. With 20 pseudo-rows, in
    which as many events occur as the log-odds predict on average, the probabilities of balanced
    classes change less than the probabilities of rare events.
    """
    w = np.ones(len(y)) if w is None else w
    rate = float(np.average(special.expit(log_odds), weights=w))
    w, log_odds = np.append(w, 20.0), np.append(log_odds, special.logit(rate))
    events = w[:-1] @ y + 20 * rate
    return float(optimize.brentq(lambda b: w @ special.expit(log_odds + b) - events, -100, 100))


def least_squares_weights(A: Floats, b: Floats) -> Floats:
    """Return weights x (M,) that sum to one and minimize ``|A x - b|^2``.

    ``A`` is (n, M), ``b`` is (n,). With ``C = A - b`` this is ``|C x|^2``. The minimizer of
    ``|C u|^2 + (sum(u) - 1)^2`` among all u that are not negative is a multiple of x, so that
    bounds are the only constraints.
    """
    C = A - b[:, None]
    C = np.vstack([C / max(float(np.abs(C).max()), np.finfo(float).tiny), np.ones(A.shape[1])])
    target = np.append(np.zeros(len(b)), 1)
    options = {"method": "bvls", "tol": 1e-15, "max_iter": 100 * len(C)}
    u = np.maximum(optimize.lsq_linear(C, target, (0, np.inf), **options).x, 0)
    return u / u.sum()

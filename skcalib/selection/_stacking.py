r"""Weights of a mixture of calibrators: stacking by cross-validated log loss.

With the out-of-fold probability :math:`q_{im}` that candidate m gives the label of row i, row
weights :math:`w_i` with sum N, and pseudo-rows :math:`a_m`, the weights :math:`\pi` on the simplex
minimise the convex function

.. math:: -\frac1N \Bigl(\sum_i w_i \log \sum_m \pi_m q_{im} + \sum_m a_m \log \pi_m\Bigr),

the negative logarithm of the posterior density for a Dirichlet prior with parameters
:math:`1 + a_m`: a pseudo-row is one whose label only candidate m gives any probability to.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from skcalib._engine.blas import with_one_blas_thread
from skcalib._typing import Bools, Floats

# The objective is at most this far above its minimum, in nats.
GAP = 1e-7

# The least weight that a candidate with pseudo-rows can have.
LEAST_WEIGHT = 1e-12


def mixture_weights(L: Floats, w: Floats | None, pseudo_rows: Floats) -> Floats:
    """Weights (M,) of candidates with out-of-fold log-probabilities ``L`` (n, M) of the labels.

    ``w`` (n,) are weights of the rows, or None, and ``pseudo_rows`` (M,) the prior. At the minimum
    under the constraint that they are positive, of the objective plus ``(1 + A / N)`` times their
    sum, with A the number of pseudo-rows, they sum to one: so there are only bounds.
    """
    w = np.ones(len(L)) if w is None else w
    total = pseudo_rows / w.sum()
    w = w / w.sum()
    Q = np.exp(L - L.max(axis=1, keepdims=True))
    slope = 1 + total.sum()
    has_prior = total > 0

    def objective(x: Floats) -> tuple[float, Floats]:
        mixed = Q @ x
        value = slope * x.sum() - w @ np.log(mixed) - total[has_prior] @ np.log(x[has_prior])
        gradient = slope - (w / mixed) @ Q
        gradient[has_prior] -= total[has_prior] / x[has_prior]
        return float(value), gradient

    bounds = [(LEAST_WEIGHT, None)] * L.shape[1]
    options = {"maxiter": 1000, "ftol": 0.0, "gtol": GAP, "maxcor": 20}
    solve = partial(minimize, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    found = with_one_blas_thread(solve, objective, np.full(L.shape[1], 1 / L.shape[1])).x
    found[found <= LEAST_WEIGHT] = 0.0
    return found / found.sum()


def pruned_weights(L: Floats, w: Floats, pseudo_rows: Floats, gain: float) -> Floats:
    """As :func:`mixture_weights`, without candidates that lower the log loss by little.

    One at a time, from the one of least weight on, candidates are left out without which the mean
    log loss is higher by no more than the share ``gain`` of it; never the last one in ``L``.
    """

    def fit(kept: Bools) -> tuple[float, Floats]:
        weights = np.zeros(L.shape[1])
        weights[kept] = mixture_weights(L[:, kept], w, pseudo_rows[kept])
        with np.errstate(divide="ignore"):
            log_mixed = logsumexp(L + np.log(weights), axis=1)
        return -float(w @ log_mixed) / w.sum(), weights

    kept = np.ones(L.shape[1], bool)
    least, weights = fit(kept)
    for m in np.argsort(weights[:-1], kind="stable"):
        without = kept.copy()
        without[m] = False
        loss, others = fit(without)
        if loss <= (1 + gain) * least:
            kept, weights = without, others
    return weights


def without_negligible(weights: Floats, least: float) -> Floats:
    """The weights without those below ``least``, of which one at least is left."""
    kept = np.where(weights < min(least, weights.max()), 0, weights)
    return kept / kept.sum()

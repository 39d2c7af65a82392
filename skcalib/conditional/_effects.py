r"""Effects of features: slopes and intercepts by level, by penalised maximum likelihood.

Each of d features puts a row into one of its levels. A row in the levels :math:`g_1, \dots, g_d`
has log-probabilities :math:`l` (K,), centred at 0, and the scores

.. math:: s_k = \Bigl(1 + \sum_j a_{g_j}\Bigr) l_k + \sum_j b_{g_j k} .

The effects, slopes :math:`a` and intercepts :math:`b`, minimize the total log loss plus
:math:`\lambda / 2` times the sum of their squares. A level without rows has zero effects, and a
level with far more rows than :math:`\lambda` is barely shrunk. The problem is convex.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, sparse

from skcalib._typing import Array, Floats, Indices
from skcalib._warnings import NotConvergedWarning, warn

# Largest slope of the mean log loss at the end of the search, number of iterations, and number of
# stored steps. With a hundred columns, 30 steps need half as many iterations as 10 steps.
TOL, MAX_ITERATIONS, MEMORY = 3e-4, 500, 30


def effect_scores(effects: Floats, L: Floats, levels: Indices) -> Floats:
    """Return scores (n, K) for log-probabilities (n, K) in levels (n, d).

    ``effects`` is a table (n_levels + 1, 1 + K) with the slope in the first column.
    """
    centred, masked = _centred(L)
    sums = effects[levels].sum(axis=1)
    S = centred * (1 + sums[:, :1]) + sums[:, 1:]
    return np.where(masked, -np.inf, S)


def _centred(L: Floats) -> tuple[Floats, Array]:
    """Return log-probabilities (n, K) minus their mean over unmasked classes, and the mask."""
    masked = np.isneginf(L)
    finite = np.where(masked, 0, L)
    mean = finite.sum(axis=1, keepdims=True) / (~masked).sum(axis=1, keepdims=True)
    return np.where(masked, 0, finite - mean), masked


def _class_probabilities(
    base: Floats, centred: Floats, A: Floats, y: Indices
) -> tuple[Floats, Floats]:
    """Return probabilities (K, n) and log-probabilities of labels (n,), for effects (1 + K, n).

    ``base`` and ``centred`` are log-probabilities (K, n), with -inf and 0 for masked classes.
    """
    S = centred * A[0]
    S += A[1:]
    S += base
    S -= S.max(axis=0)
    P = np.exp(S)
    total = P.sum(axis=0)
    P /= total
    return P, S[y, np.arange(len(y))] - np.log(total)


def fit_effects(
    L: Floats,
    y: Indices,
    w: Floats | None,
    levels: Indices,
    n_levels: int,
    strength: float,
    start: Floats | None = None,
) -> Floats:
    """Return the table of effects (n_levels + 1, 1 + K); its last row, for no level, is zero.

    Rows have log-probabilities (n, K), -inf for masked classes, labels, weights or None, and levels
    (n, d), which are rows of the table.
    """
    (n, K), d = L.shape, levels.shape[1]
    weight = n if w is None else w.sum()
    entries = np.ones(n * d), levels.ravel(), np.arange(0, n * d + 1, d)
    D = sparse.csr_array(entries, shape=(n, n_levels + 1))[:, :n_levels]
    D_t = D.T.tocsr()
    # Put classes first: sums over a few classes are then much faster.
    centred, masked = (np.ascontiguousarray(A.T) for A in _centred(L))
    base = np.where(masked, -np.inf, centred)

    def loss(x: Floats) -> tuple[float, Floats]:
        A = np.ascontiguousarray((D @ x.reshape(n_levels, 1 + K)).T)
        P, label_logs = _class_probabilities(base, centred, A, y)
        P[y, np.arange(n)] -= 1
        P = P if w is None else P * w
        gradient = D_t @ np.column_stack([np.sum(P * centred, axis=0), P.T])
        value = strength / 2 * x @ x - (label_logs.sum() if w is None else w @ label_logs)
        return float(value) / weight, (gradient.ravel() + strength * x) / weight

    options = {"gtol": TOL, "ftol": 0.0, "maxiter": MAX_ITERATIONS, "maxcor": MEMORY}
    if not n_levels:
        return np.zeros((1, 1 + K))
    x0 = np.zeros(n_levels * (1 + K)) if start is None else start[:-1].ravel()
    result = optimize.minimize(loss, x0, jac=True, method="L-BFGS-B", options=options)
    if np.abs(result.jac).max() > TOL:
        warn(
            f"The effects of the features did not converge in {result.nit} iterations: their "
            f"gradient is {np.abs(result.jac).max():.1g}. Leave out columns with extreme values.",
            NotConvergedWarning,
        )
    return np.append(result.x, np.zeros(1 + K)).reshape(n_levels + 1, 1 + K)

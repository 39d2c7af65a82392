r"""One map per class: what class k against all others says, and how the answers make one row.

Calibrators of the per-class family work on the margin, the log-odds of a class,

.. math:: m_k = \log \frac{p_k}{1 - p_k} = z_k - \log \sum_{j \ne k} e^{z_j},

for the event that the label is k. Two classes need one map only, for the second of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp, softmax

Floats = NDArray[np.floating[Any]]


def n_maps(Z: Floats) -> int:
    """Number of maps for logits (m, K): one per class, but one for two classes."""
    return Z.shape[1] if Z.shape[1] > 2 else 1


def margins(Z: Floats) -> Floats:
    """Log-odds of each class, or of the second of two, for logits (m, K): (m, n_maps)."""
    if Z.shape[1] <= 2:
        return Z[:, -1:] - (Z[:, :1] if Z.shape[1] == 2 else 0)
    M = Z - Z.max(axis=1, keepdims=True)
    E = np.exp(M)
    # The largest are summed apart from what is below them, so that this is not lost beside them.
    lower = M < 0
    E *= lower
    below, n_top = E.sum(axis=1), Z.shape[1] - lower.sum(axis=1)
    others = below[:, None] - E
    others += (n_top - 1).astype(Z.dtype)[:, None]
    others += lower
    surest = (n_top == 1) & (below < 1e3 * np.finfo(Z.dtype).tiny)  # underflow
    others[surest] = np.maximum(others[surest], np.finfo(Z.dtype).tiny)
    M -= np.log(others, out=others)
    if surest.any():
        M[surest] = _margins_of_sure_rows(Z[surest], M[surest])
    return M


def _margins_of_sure_rows(Z: Floats, M: Floats) -> Floats:
    """``M`` with the margin of the largest logit from logarithms of what is below it."""
    each, top = np.arange(len(Z)), Z.argmax(axis=1)
    below = Z - Z[each, top][:, None]
    below[each, top] = -np.inf
    M[each, top] = -logsumexp(below, axis=1)
    return M


def probabilities(Z: Floats) -> Floats:
    """Probability of each class, or of the second of two, for logits (m, K): (m, n_maps)."""
    return softmax(Z, axis=1) if Z.shape[1] > 2 else expit(margins(Z))


def add_at_events(R: Floats, y: NDArray[np.intp], values: Floats) -> None:
    """Add ``values[i]`` to ``R`` (m, n_maps) in place, where row i holds the event of its label."""
    if R.shape[1] > 1:
        R[np.arange(len(R)), y] += values
    else:
        R[:, 0] += values * y


def joined(S: Floats, n_columns: int) -> Floats:
    r"""Logits (m, n_columns) of probabilities whose log-odds for each class are ``S``.

    Probabilities of several classes are divided by their sum, which softmax does to their
    logarithms. It does so where all of them underflow, too.
    """
    if n_columns > 2:
        return log_expit(S)
    return S if n_columns == 1 else np.hstack([np.zeros_like(S), S])


def joined_probabilities(P: Floats, n_columns: int) -> Floats:
    """Logits (m, n_columns) of probabilities ``P`` that each class was given on its own.

    Softmax divides rows by their sum, and makes a row of zeros uniform. The logarithm of zero
    is that of the smallest positive number.
    """
    tiny = np.finfo(P.dtype).tiny
    if n_columns > 2:
        return np.log(np.maximum(P, tiny))
    other, event = (np.log(np.maximum(p, tiny)) for p in (1 - P, P))
    return event - other if n_columns == 1 else np.hstack([other, event])

r"""One map per class: what class k against all others says, and how the answers make one row.

Calibrators of the per-class family work on the margin, the log-odds of a class,

.. math:: m_k = \log \frac{p_k}{1 - p_k} = z_k - \log \sum_{j \ne k} e^{z_j},

for the event that the label is k. Two classes need one map only, for the second of them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, logsumexp, softmax

from skcalib._typing import Floats


def n_maps(n_columns: int) -> int:
    """Number of maps for so many columns of logits: one per class, but one for two classes."""
    return n_columns if n_columns > 2 else 1


def margins(Z: Floats) -> Floats:
    """Log-odds of each class, or of the second of two, for logits (m, K): (m, n_maps)."""
    if Z.shape[1] <= 2:
        return Z[:, -1:] - (Z[:, :1] if Z.shape[1] == 2 else 0)
    each, top = np.arange(len(Z)), Z.argmax(axis=1)
    M = Z - Z[each, top][:, None]
    E = np.exp(M)
    # The largest is summed apart from the others, so that these are not lost beside it.
    E[each, top] = 0
    below = E.sum(axis=1)
    others = np.subtract((1 + below)[:, None], E, out=E)
    least = np.finfo(Z.dtype).tiny
    others[each, top] = np.maximum(below, least)
    M -= np.log(others, out=others)
    surest = below < 1e3 * least  # underflow
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

r"""One-vs-rest calibration: log-odds of each class, and the normalization of calibrated rows.

One-vs-rest calibrators map the margin, the log-odds of a class,

.. math:: m_k = \log \frac{p_k}{1 - p_k} = z_k - \log \sum_{j \ne k} e^{z_j},

for the event that the label is k. Two classes need only one map, for the second class.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from skcalib._engine.array_api import at_least, at_most, concat, namespace, smallest_normal
from skcalib._engine.blocks import both_columns, is_event, softmax
from skcalib._typing import Floats, Indices


def n_maps(n_columns: int) -> int:
    """Number of maps for ``n_columns`` columns of logits: one per class, but one for two."""
    return n_columns if n_columns > 2 else 1


def margins(Z: Floats) -> Floats:
    """Log-odds of each class, or of the second of two, for logits (m, K): (m, n_maps)."""
    if Z.shape[1] <= 2:
        return Z[:, -1:] - (Z[:, :1] if Z.shape[1] == 2 else 0)
    if not isinstance(Z, np.ndarray):
        return _margins_of_tensor(Z)
    M = Z - Z.max(axis=1, keepdims=True)
    is_top = M == 0
    if np.count_nonzero(is_top) > len(Z):  # the first of those that are equal
        is_top &= is_top.cumsum(axis=1) == 1
    E = np.exp(M)
    # The largest is not added to the others, which would lose precision beside it.
    E -= is_top
    below = E.sum(axis=1)
    others = np.subtract((1 + below)[:, None], E, out=E)
    least = np.finfo(Z.dtype).tiny
    np.copyto(others, np.maximum(below, least)[:, None], where=is_top)
    M -= np.log(others, out=others)
    lost = below < 1e3 * least  # by underflow
    if lost.any():
        M[lost] = _margins_after_underflow(Z[lost], M[lost])
    return M


def _margins_after_underflow(Z: Floats, M: Floats) -> Floats:
    """``M`` with the margin of the largest logit by the log-sum-exp of the other logits."""
    top, margin, _ = top_and_rest(Z)
    M[np.arange(len(Z)), top] = margin
    return M


def _margins_of_tensor(Z: Floats) -> Floats:
    """The same without writing, and with the others of the largest logit relative to the second."""
    xp = namespace(Z)
    is_top = is_event(xp.argmax(Z, axis=1), Z.shape[1])
    # Of scores that are tied one is the top, also for gradients, which a maximum would divide.
    M = Z - xp.sum(xp.where(is_top, Z, 0.0), axis=1, keepdims=True)
    rest = xp.where(is_top, -np.inf, M)
    second = at_least(xp.max(rest, axis=1, keepdims=True), float(xp.finfo(Z.dtype).min))
    E = xp.exp(rest - second)
    total = xp.sum(E, axis=1, keepdims=True)
    alone = total == 0
    with np.errstate(divide="ignore"):
        of_top = -(second + xp.log(xp.where(alone, 1.0, total)))
    of_top = xp.where(alone, np.inf, of_top)
    return xp.where(is_top, of_top, M - xp.log1p(xp.exp(second) * (total - E)))


def top_and_rest(Z: Floats) -> tuple[Indices, Floats, Floats]:
    """The top label, its margin, and log-probabilities of the other classes if it is none of them.

    For logits (m, K), one column per class: arrays of shape (m,), (m,) and (m, K). The last one is
    -inf for the top label. The margin is infinite where all others are masked.
    """
    each, top = np.arange(len(Z)), Z.argmax(axis=1)
    below = Z - Z[each, top][:, None]
    below[each, top] = -np.inf
    second = np.maximum(below.max(axis=1, keepdims=True), np.finfo(Z.dtype).min)
    below -= second
    with np.errstate(divide="ignore"):
        others = np.log(np.exp(below).sum(axis=1))
    below -= np.where(others > -np.inf, others, 0)[:, None]
    return top, -(second[:, 0] + others), below


def probabilities(Z: Floats) -> Floats:
    """Probability of each class, or of the second of two, for logits (m, K): (m, n_maps)."""
    if Z.shape[1] > 2:
        return softmax(Z)
    M = margins(Z)
    return expit(M) if isinstance(M, np.ndarray) else softmax(M)[:, 1:]


def joined(S: Floats, n_columns: int) -> Floats:
    r"""Logits (m, n_columns) of the normalized probabilities whose log-odds are ``S``.

    The softmax of log-probabilities divides the probabilities of several classes by their sum,
    also where all of them underflow.
    """
    if n_columns > 2:
        # That of SciPy takes eight times as long.
        xp = namespace(S)
        return at_most(S, 0) - xp.log1p(xp.exp(-xp.abs(S)))
    return S if n_columns == 1 else both_columns(S)


def joined_probabilities(P: Floats, n_columns: int) -> Floats:
    """Logits (m, n_columns) of one-vs-rest probabilities ``P``.

    The softmax divides rows by their sum, and a row of zeros becomes uniform. Zero probabilities
    are replaced by the smallest positive normal number before the logarithm.
    """
    xp, tiny = namespace(P), smallest_normal(P)
    if n_columns > 2:
        return xp.log(at_least(P, tiny))
    other, event = (xp.log(at_least(p, tiny)) for p in (1 - P, P))
    return event - other if n_columns == 1 else concat([other, event], axis=1)

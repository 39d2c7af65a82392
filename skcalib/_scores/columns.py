r"""Columns of scores from logits, one per class or pair of classes, and logits from scores.

One class against the rest: calibrators map the margin, the log-odds of a class,

.. math:: m_k = \log \frac{p_k}{1 - p_k} = z_k - \log \sum_{j \ne k} e^{z_j},

for the event that the label is k. Two classes need only one map, for the second class. Calibrated
rows are normalized.

One class against one other: the score of the pair (j, k) is the probability of k among the two,
:math:`p_k / (p_j + p_k) = \mathrm{sigmoid}(z_k - z_j)`. Only rows of the two classes count.
Calibrated probabilities of pairs are coupled.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from skcalib._rows import arrays
from skcalib._typing import Bools, Floats, Indices


def n_maps(n_columns: int) -> int:
    """Return the number of maps for ``n_columns`` columns of logits: one per class, one for two."""
    return n_columns if n_columns > 2 else 1


def margins(Z: Floats) -> Floats:
    """Return log-odds (m, n_maps) for each class, or the second of two, from logits (m, K)."""
    if Z.shape[1] <= 2:
        return Z[:, -1:] - (Z[:, :1] if Z.shape[1] == 2 else 0)
    if not isinstance(Z, np.ndarray):
        return _exact_margins(Z)
    M = Z - Z.max(axis=1, keepdims=True)
    is_top = M == 0
    if np.count_nonzero(is_top) > len(Z):  # ties: only the first is the top label
        is_top &= is_top.cumsum(axis=1) == 1
    E = np.exp(M)
    # Sum the others without the largest term, which would swallow their digits.
    E -= is_top
    below = E.sum(axis=1)
    others = np.subtract((1 + below)[:, None], E, out=E)
    tiny = np.finfo(Z.dtype).tiny
    np.copyto(others, np.maximum(below, tiny)[:, None], where=is_top)
    M -= np.log(others, out=others)
    underflows = below < 1e3 * tiny
    if underflows.any():
        M[underflows] = _exact_margins(Z[underflows])
    return M


def _exact_margins(Z: Floats) -> Floats:
    """Return margins (m, K) that stay accurate if the largest logit is far above the others.

    The second largest logit is subtracted from the other classes, so that they do not underflow.
    """
    xp = arrays.namespace(Z)
    is_top = arrays.is_event(xp.argmax(Z, axis=1), Z.shape[1])
    # The sum selects one logit among ties. A maximum would divide gradients among them.
    M = Z - xp.sum(xp.where(is_top, Z, 0.0), axis=1, keepdims=True)
    rest = xp.where(is_top, -np.inf, M)
    # A lower bound for differences. NumPy 1 would convert float32 to compare it with the lowest.
    lowest = float(xp.finfo(Z.dtype).min) / 2
    second = arrays.at_least(xp.max(rest, axis=1, keepdims=True), lowest)
    E = xp.exp(rest - second)
    total = xp.sum(E, axis=1, keepdims=True)
    alone = total == 0
    with np.errstate(divide="ignore"):
        top_margin = -(second + xp.log(xp.where(alone, 1.0, total)))
    top_margin = xp.where(alone, np.inf, top_margin)
    return xp.where(is_top, top_margin, M - xp.log1p(xp.exp(second) * (total - E)))


def probabilities(Z: Floats) -> Floats:
    """Return probabilities (m, n_maps) of each class, or the second of two, for logits (m, K)."""
    if Z.shape[1] > 2:
        return arrays.softmax(Z)
    M = margins(Z)
    return expit(M) if isinstance(M, np.ndarray) else arrays.softmax(M)[:, 1:]


def joined(S: Floats, n_columns: int) -> Floats:
    r"""Convert one-vs-rest log-odds ``S`` (m, n_maps) to logits (m, n_columns).

    With three or more classes the logits are log-probabilities. Their softmax divides the
    probabilities by their sum, even where all of them underflow.
    """
    if n_columns > 2:
        # scipy.special.log_expit takes eight times as long.
        xp = arrays.namespace(S)
        return arrays.at_most(S, 0) - xp.log1p(xp.exp(-xp.abs(S)))
    return S if n_columns == 1 else arrays.both_columns(S)


def joined_probabilities(P: Floats, n_columns: int) -> Floats:
    """Convert one-vs-rest probabilities ``P`` (m, n_maps) to logits (m, n_columns).

    The softmax divides rows by their sum, and a row of zeros becomes uniform. The smallest positive
    normal number replaces zero probabilities before the logarithm.
    """
    xp, tiny = arrays.namespace(P), arrays.smallest_normal(P)
    if n_columns > 2:
        return xp.log(arrays.at_least(P, tiny))
    other, event = (xp.log(arrays.at_least(p, tiny)) for p in (1 - P, P))
    return event - other if n_columns == 1 else arrays.concat([other, event], axis=1)


# Pair probabilities are clipped from below, so that sums of their inverses are finite.
MIN_PAIR_PROBABILITY = 1e-290


def class_pairs(n_classes: int) -> Indices:
    """Return all pairs j < k of column numbers (n_pairs, 2) in lexicographic order."""
    return np.stack(np.triu_indices(n_classes, 1), axis=1)


def pair_scores(Z: Floats, pairs: Indices) -> Floats:
    """Return P(second class | one of the pair) (m, n_pairs) for finite logits (m, K)."""
    return expit(Z[:, pairs[:, 1]] - Z[:, pairs[:, 0]])


def pair_events(Z: Floats, y: Indices, pairs: Indices) -> tuple[Floats, Bools]:
    """Return scores of pairs and whether the label is the second class: two arrays (m, n_pairs).

    ``Z`` are logits (m, K), ``y`` labels (m,), ``pairs`` columns (n_pairs, 2). The score is NaN in
    rows without information about the pair: rows with another label, or with one of the two classes
    masked.
    """
    first, second = (y[:, None] == pairs[:, k] for k in (0, 1))
    masked = np.isneginf(Z)
    left_out = ~(first | second) | masked[:, pairs].any(axis=2)
    S = pair_scores(np.where(masked, 0, Z), pairs)
    S[left_out] = np.nan
    return S, second


def coupled(R: Floats, pairs: Indices, masked: Bools) -> Floats:
    r"""Combine the probabilities of pairs to class probabilities (m, K), up to a factor per row.

    With the probability :math:`r_{kj}` of k among k and j,

    .. math:: p_k = 1 \big/ \big( \sum_{j \ne k} 1 / r_{kj} - (K - 2) \big),

    which is exact if pairs are consistent (Price, Knerr, Personnaz, Dreyfus, NIPS 1994).
    ``R`` (m, n_pairs) are probabilities of the second class in each pair. ``masked`` (m, K) marks
    impossible classes: the other class in a pair is then certain.
    """
    K, xp = masked.shape[1], arrays.namespace(R)
    first, second = pairs.T
    R = xp.where(masked[:, first], 1.0, xp.where(masked[:, second], 0.0, R))
    is_first, is_second = (np.eye(K)[numbers] for numbers in (first, second))
    inverse = [1 / arrays.at_least(r, MIN_PAIR_PROBABILITY) for r in (R, 1 - R)]
    return 1 / (inverse[0] @ is_second + inverse[1] @ is_first - (K - 2))

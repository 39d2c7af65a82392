r"""Scores of rows and their events, in columns.

Calibrators of single classes and all measures use such columns, one per class or one for the top
label, computed block by block from logits or probabilities and labels. They are reduced either to
sums over the rows, or to ranked scores with their weights and hits.

One class against the rest: calibrators map the margin, the log-odds of a class,

.. math:: m_k = \log \frac{p_k}{1 - p_k} = z_k - \log \sum_{j \ne k} e^{z_j},

for the event that the label is k. Two classes need only one map, for the second class. Calibrated
rows are normalized.

One class against one other: the score of the pair (j, k) is the probability of k among the two,
:math:`p_k / (p_j + p_k) = \mathrm{sigmoid}(z_k - z_j)`. Only rows of the two classes count.
Calibrated probabilities of pairs are coupled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import expit

from skcalib._rows import Bools, Floats, Indices, Ranked, Rows, arrays, map_blocks
from skcalib._rows.ranking import are_single, distinct_scores

T = TypeVar("T")


class Scored(NamedTuple):
    """Scores of rows and indicators of their events: arrays of shape (n,)."""

    label: Any  #: the class of the scores, or None
    score: Floats
    event: Bools
    weight: Floats | None


@dataclass(frozen=True)
class ScoreColumns:
    """Scores and events of rows, one column for each of the labels.

    ``score_block`` computes scores and events (m, n_columns) for a block of rows with probabilities
    or logits (m, ...) and labels (m,).
    """

    labels: list[Any]  #: the class of each column, or None
    score_block: Callable[..., tuple[Floats, Bools]]
    rows: Rows
    kind: Any = "binary"  #: name of the score and the event, as in the measures

    def sums(
        self, f: Callable[[Floats, Bools, Floats | None], Floats], at_least: int = 1
    ) -> Floats:
        """Return the sum of ``f(scores, events, weights)`` over blocks of rows."""
        score_block = self.score_block  # not self, which holds the rows
        return self.rows.sum(lambda P, y, w: f(*score_block(P, y), w), at_least=at_least)

    def ranked(self, then: Callable[[Ranked], T], *, events: bool = True) -> list[T]:
        """Apply ``then`` to the ranked scores of each column, with the events or without."""
        rows = self.rows.in_memory()
        S, E = map_blocks(self.score_block, rows.X, rows.y, order="F")
        pairs = zip(S.T, E.T if events else [None] * S.shape[1], strict=True)
        single = isinstance(rows.X, np.ndarray) and are_single(rows.X)
        return [then(distinct_scores(*pair, rows.w, single=single)) for pair in pairs]

    def scored(self) -> Iterator[Scored]:
        """Yield the scores and events of all rows, column by column, in memory."""
        rows = self.rows.in_memory()
        S, E = map_blocks(self.score_block, rows.X, rows.y)
        for k, label in enumerate(self.labels):
            score = np.ascontiguousarray(S[:, k], dtype=np.float64)
            yield Scored(label, score, E[:, k], rows.w)


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


def _lowest_difference(Z: Floats) -> float:
    """Return a lower bound for differences between logits: half the lowest number of their dtype.

    NumPy 1 would convert float32 logits to float64 to compare them with the lowest number itself.
    """
    return float(arrays.namespace(Z).finfo(Z.dtype).min) / 2


def _exact_margins(Z: Floats) -> Floats:
    """Return margins (m, K) that stay accurate if the largest logit is far above the others.

    The second largest logit is subtracted from the other classes, so that they do not underflow.
    """
    xp = arrays.namespace(Z)
    is_top = arrays.is_event(xp.argmax(Z, axis=1), Z.shape[1])
    # The sum selects one logit among ties. A maximum would divide gradients among them.
    M = Z - xp.sum(xp.where(is_top, Z, 0.0), axis=1, keepdims=True)
    rest = xp.where(is_top, -np.inf, M)
    second = arrays.at_least(xp.max(rest, axis=1, keepdims=True), _lowest_difference(Z))
    E = xp.exp(rest - second)
    total = xp.sum(E, axis=1, keepdims=True)
    alone = total == 0
    with np.errstate(divide="ignore"):
        top_margin = -(second + xp.log(xp.where(alone, 1.0, total)))
    top_margin = xp.where(alone, np.inf, top_margin)
    return xp.where(is_top, top_margin, M - xp.log1p(xp.exp(second) * (total - E)))


def top_and_rest(Z: Floats) -> tuple[Indices, Floats, Floats]:
    """Split logits into the top label (m,), its margin (m,), and the other classes (m, K).

    ``Z`` are logits (m, K), one column per class. The other classes are log-probabilities,
    conditional on the top label being wrong, and -inf for the top label. The margin is infinite
    where all other classes are masked.
    """
    xp = arrays.namespace(Z)
    top = xp.argmax(Z, axis=1)
    is_top = arrays.is_event(top, Z.shape[1])
    below = xp.where(is_top, -np.inf, Z - xp.max(Z, axis=1, keepdims=True))
    second = arrays.at_least(xp.max(below, axis=1, keepdims=True), _lowest_difference(Z))
    below = below - second
    with np.errstate(divide="ignore"):
        others = xp.log(xp.sum(xp.exp(below), axis=1))
    below = below - xp.where(others > -np.inf, others, 0.0)[:, None]
    return top, -(second[:, 0] + others), below


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
    rows of other classes, and in rows that mask one of the two classes: they carry no information
    about the pair.
    """
    first, second = (y[:, None] == pairs[:, k] for k in (0, 1))
    masked = np.isneginf(Z)
    left_out = ~(first | second) | masked[:, pairs].any(axis=2)
    S = pair_scores(np.where(masked, 0, Z), pairs)
    S[left_out] = np.nan
    return S, second


def coupled(R: Floats, pairs: Indices, masked: Bools) -> Floats:
    r"""Couple probabilities of pairs to probabilities (m, K) of classes, up to a factor per row.

    With the probability :math:`r_{kj}` of k among k and j,

    .. math:: p_k = 1 \big/ \big( \sum_{j \ne k} 1 / r_{kj} - (K - 2) \big),

    which is exact if pairs are consistent (Price, Knerr, Personnaz, Dreyfus, NIPS 1994).
    ``R`` (m, n_pairs) contains the probability of the second class of each pair, and ``masked``
    (m, K) marks impossible classes, which make the other class of a pair certain.
    """
    K, xp = masked.shape[1], arrays.namespace(R)
    first, second = pairs.T
    R = xp.where(masked[:, first], 1.0, xp.where(masked[:, second], 0.0, R))
    is_first, is_second = (np.eye(K)[numbers] for numbers in (first, second))
    inverse = [1 / arrays.at_least(r, MIN_PAIR_PROBABILITY) for r in (R, 1 - R)]
    return 1 / (inverse[0] @ is_second + inverse[1] @ is_first - (K - 2))

"""Distinct scores in increasing order, with the weight and the hits of each."""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import logit

from .arrays import Array, Bools, Floats

# The grid of log-odds on which too many distinct scores are summarized covers [-REACH, REACH].
REACH = 40.0


class Ranked(NamedTuple):
    """Distinct scores with their weight and hits: float64 arrays of shape (m,)."""

    scores: Floats  #: distinct scores, increasing
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights where the event happened


def ranked(
    scores: Floats,
    hits: Bools | None = None,
    weights: Floats | None = None,
    *,
    are_sorted: bool = False,
) -> Ranked:
    """Rank scores (n,), which may be sorted already, and sum up the weights and hits of ties.

    Rows of zero weight are left out, and scores of NaN, those of masked classes.
    """
    if weights is not None and not weights.all():
        kept = weights > 0
        scores, weights = scores[kept], weights[kept]
        hits = None if hits is None else hits[kept]
    w = np.ones(len(scores)) if weights is None else weights
    happened = np.zeros(len(scores)) if hits is None else hits if weights is None else hits * w
    if hits is None and weights is None:  # sort is faster than argsort
        scores = np.sort(scores)
    elif not are_sorted:
        order = np.argsort(scores)
        scores, w, happened = scores[order], w[order], happened[order]
    n = np.searchsorted(scores, np.nan)  # which is last
    return _summed(scores[:n].astype(np.float64, copy=False), w[:n], happened[:n])


def _summed(scores: Floats, weight: Floats, hits: Array) -> Ranked:
    """Sums of ties, for scores in order. Of a chain of ties, the first score is kept."""
    # Scores within rounding of one another are ties, such as equal votes of a forest.
    distinct = np.diff(scores) > rounding(scores[1:], np.float64)
    first = np.flatnonzero(np.append(True, distinct))[: len(scores)]
    sums = (np.add.reduceat(values, first, dtype=np.float64) for values in (weight, hits))
    return Ranked(scores[first], *sums)


def rounding(p: Floats, dtype: DTypeLike) -> Floats:
    """Bound on the rounding error of probabilities after a logarithm and an exponential."""
    # The relative error of the exponential of z is |z| times that of z.
    log = np.log(np.maximum(p, np.finfo(np.float64).tiny))
    return 4 * float(np.finfo(dtype).eps) * p * (1 - log)


def merged(parts: list[Ranked], n_cells: int) -> Ranked:
    """At most ``n_cells`` ranked scores that summarize those of several sets of rows.

    If there are no more distinct scores, these are returned. Otherwise scores whose log-odds are
    in the same of ``n_cells`` cells of equal width on [-40, 40] are replaced by their mean. This
    changes the log-odds of a score by at most ``80 / n_cells``, except beyond 40 in absolute
    value, for probabilities within 4e-18 of 0 or 1. Summaries of summaries have the same bound.
    """
    scores, weight, hits = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(scores, kind="stable")  # a merge sort, fast for sorted parts
    scores, weight, hits = together = _summed(scores[order], weight[order], hits[order])
    if len(scores) <= n_cells:
        return together
    place = (np.clip(logit(np.clip(scores, 0, 1)), -REACH, REACH) + REACH) * (n_cells / (2 * REACH))
    cell = np.minimum(place.astype(np.intp), n_cells - 1)
    total, happened, at = (
        np.bincount(cell, values, n_cells).astype(np.float64)
        for values in (weight, hits, weight * scores)
    )
    kept = total > 0
    return Ranked(at[kept] / total[kept], total[kept], happened[kept])

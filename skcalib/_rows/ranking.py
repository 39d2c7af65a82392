"""Distinct scores in increasing order, with the weight and the hits of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .arrays import Bools, Floats


class Ranked(NamedTuple):
    """Distinct scores with their weight and hits: float64 arrays of shape (m,)."""

    scores: Floats  #: distinct scores, increasing
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights where the event happened


def distinct_scores(
    scores: Floats,
    hits: Bools | None = None,
    weights: Floats | None = None,
    *,
    are_sorted: bool = False,
) -> Ranked:
    """Sort scores (n,), unless they are sorted already, and add up the weights and hits of ties.

    Rows of zero weight and scores of NaN, which stand for masked classes, are left out.
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
    n = np.searchsorted(scores, np.nan)  # NaN is last
    scores, w, happened = scores[:n].astype(np.float64, copy=False), w[:n], happened[:n]
    # Scores within rounding of one another are ties, such as equal votes of a forest. The first
    # score of a chain of ties is kept.
    distinct = np.diff(scores) > rounding(scores[1:], np.float64)
    first = np.flatnonzero(np.append(True, distinct))[:n]
    sums = (np.add.reduceat(values, first, dtype=np.float64) for values in (w, happened))
    return Ranked(scores[first], *sums)


def rounding(p: Floats, dtype: DTypeLike) -> Floats:
    """Bound on the rounding error of probabilities after a logarithm and an exponential."""
    # The relative error of the exponential of z is |z| times the relative error of z.
    log = np.log(np.maximum(p, np.finfo(np.float64).tiny))
    return 4 * float(np.finfo(dtype).eps) * p * (1 - log)

"""Distinct scores in increasing order, with the weight and the hits of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .arrays import Bools, Floats, Indices


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
    single: bool = False,
) -> Ranked:
    """Sort scores (n,), unless they are sorted already, and add up the weights and hits of ties.

    Rows of zero weight and scores of NaN, which stand for masked classes, are left out. ``single``
    says that the scores were computed from float32 numbers.
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
    scores, w, happened = scores[:n], w[:n], happened[:n]
    first = _first_of_ties(scores, single=single)
    sums = (np.add.reduceat(values, first, dtype=np.float64) for values in (w, happened))
    return Ranked(scores[first].astype(np.float64, copy=False), *sums)


def _first_of_ties(scores: Floats, *, single: bool) -> Indices:
    """Return the index of the first score of each run of ties among sorted scores (n,).

    Scores within rounding of one another are ties, such as equal votes of a forest.
    """
    n, single = len(scores), single or are_single(scores)
    scores = scores.astype(np.float64, copy=False)
    gaps = np.diff(scores)
    is_new = np.append(True, gaps > rounding(scores[1:], np.float64))[:n]
    if not n or not single:
        return np.flatnonzero(is_new)
    error = rounding(scores, np.float32)
    first = np.flatnonzero(np.append(True, gaps > error[1:])[:n])
    last = np.append(first[1:], n) - 1
    # Dense scores form long runs, in which only equal scores are ties.
    is_short = scores[last] - scores[first] <= 2 * error[last]
    is_new &= ~np.repeat(is_short, last - first + 1)
    is_new[first] = True
    return np.flatnonzero(is_new)


def are_single(x: Floats) -> bool:
    """Return whether all numbers, or their differences from 1, have the digits of float32 only."""
    if x.dtype == np.float32:
        return True

    def are_exact(part: Floats) -> bool:
        with np.errstate(over="ignore"):
            is_exact = [values.astype(np.float32) == values for values in (part, 1 - part)]
        return bool((is_exact[0] | is_exact[1] | np.isnan(part)).all())

    return are_exact(x[:64]) and are_exact(x)  # the first rows decide in most cases


def rounding(p: Floats, dtype: DTypeLike) -> Floats:
    """Return a bound on rounding errors of probabilities after a logarithm and an exponential."""
    # The relative error of the exponential of z is |z| times the relative error of z.
    log = np.log(np.maximum(p, np.finfo(np.float64).tiny))
    return 4 * float(np.finfo(dtype).eps) * p * (1 - log)

"""Distinct scores in increasing order, with the weight and the hits of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.special import logit

from skcalib._typing import Array, Floats

# The smallest normal number in double precision.
TINY = np.finfo(np.float64).tiny

# The grid of log-odds on which too many distinct scores are summarized covers [-REACH, REACH].
REACH = 40.0

# Largest width, in rounding errors, of a chain of neighbouring scores that is treated as a tie.
LONGEST_CHAIN = 4


class Ranked(NamedTuple):
    """Distinct scores with their weight and hits: float64 arrays of shape (m,)."""

    scores: Floats  #: distinct scores, increasing
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights where the event happened


def ranked(
    scores: Floats,
    hits: NDArray[np.bool_] | None = None,
    weights: Floats | None = None,
    *,
    are_sorted: bool = False,
) -> Ranked:
    """Rank scores (n,), which may be sorted already, and sum up the weights and hits of ties.

    Rows of zero weight are left out, and scores of NaN, those of masked classes.

    Scores in double precision that differ by rounding errors only are ties. Otherwise the equal
    votes of a forest would be split by the rounding errors of a logarithm and an exponential.
    """
    if weights is not None and not weights.all():
        kept = weights > 0
        scores, weights = scores[kept], weights[kept]
        hits = None if hits is None else hits[kept]
    alone = hits is None and weights is None  # sort is faster than argsort
    order = None if alone else np.arange(len(scores)) if are_sorted else np.argsort(scores)
    in_order = (np.sort(scores) if order is None else scores[order]).astype(np.float64, copy=False)
    if len(in_order) and np.isnan(in_order[-1]):
        in_order = in_order[: np.searchsorted(in_order, np.nan)]
        order = None if order is None else order[: len(in_order)]
    first = _starts(in_order, scores.dtype == np.float64)
    w = None if weights is None else weights[order]
    count = np.diff(first, append=len(in_order)).astype(np.float64)
    weight = count if w is None else _per_score(w, first)
    if hits is None:
        return Ranked(in_order[first], weight, np.zeros(len(first)))
    happened = hits[order] if w is None else hits[order] * w
    return Ranked(in_order[first], weight, _per_score(happened, first))


def _per_score(values: Array, first: NDArray[np.intp]) -> Floats:
    if len(values) == 0:
        return np.zeros(0)
    return np.add.reduceat(values, first, dtype=np.float64)


def merged(parts: list[Ranked], n_cells: int) -> Ranked:
    """At most ``n_cells`` ranked scores of several sets of rows together: see :func:`summary`."""
    scores, weight, hits = (np.concatenate(column) for column in zip(*parts, strict=True))
    if _are_many(scores, n_cells):
        return _on_grid(scores, weight, hits, n_cells)
    order = np.argsort(scores, kind="stable")  # a merge sort, fast for sorted parts
    scores = scores[order]
    first = _starts(scores, pool=True)
    together = Ranked(
        scores[first], _per_score(weight[order], first), _per_score(hits[order], first)
    )
    return together if len(first) <= n_cells else _on_grid(*together, n_cells)


def summary(
    scores: Floats, hits: NDArray[np.bool_], weights: Floats | None, n_cells: int
) -> Ranked:
    """At most ``n_cells`` ranked scores that summarize those of all rows.

    If there are no more distinct scores, these are returned. Otherwise scores whose log-odds are
    in the same of ``n_cells`` cells of equal width on [-40, 40] are replaced by their mean. This
    changes the log-odds of a score by at most ``80 / n_cells``, except beyond 40 in absolute
    value, for probabilities within 4e-18 of 0 or 1. Merged summaries of parts of the rows have the
    same bound.
    """
    there = ~np.isnan(scores)
    if not there.all():
        scores, hits = scores[there], hits[there]
        weights = None if weights is None else weights[there]
    w = np.ones(len(scores)) if weights is None else weights
    positive = scores[w > 0].astype(np.float64, copy=False)
    if _are_many(positive, n_cells):
        return _on_grid(positive, w[w > 0], (w * hits)[w > 0], n_cells)
    return merged([ranked(scores, hits, weights)], n_cells)


def _are_many(scores: Floats, n_cells: int) -> bool:
    """Whether more than ``n_cells`` scores are distinct, from some of them, which is faster."""
    some = np.sort(scores[: 2 * n_cells])
    return len(scores) > 2 * n_cells and len(_starts(some, pool=True)) > n_cells


def _on_grid(scores: Floats, weight: Floats, hits: Floats, n_cells: int) -> Ranked:
    place = (np.clip(logit(np.clip(scores, 0, 1)), -REACH, REACH) + REACH) * (n_cells / (2 * REACH))
    cell = np.minimum(place.astype(np.intp), n_cells - 1)
    total, happened, at = (
        np.bincount(cell, values, n_cells).astype(np.float64)
        for values in (weight, hits, weight * scores)
    )
    kept = total > 0
    return Ranked(at[kept] / total[kept], total[kept], happened[kept])


def _starts(scores: Floats, pool: bool) -> NDArray[np.intp]:  # noqa: FBT001
    """Start of each distinct score in sorted scores (n,); ``pool`` ties those within rounding."""
    if len(scores) == 0:
        return np.zeros(0, np.intp)
    step, p = np.diff(scores), scores[1:]
    apart = step > 0
    near = np.flatnonzero(apart & (step < rounding(TINY) / TINY * p))
    if not pool or len(near) == 0:
        return np.flatnonzero(np.append(True, apart))
    near = near[step[near] <= rounding(p[near])]
    apart[near] = False
    first = np.flatnonzero(np.append(True, apart))
    # A long chain of neighbours is not a tie, but the scores of very many rows.
    start = np.searchsorted(first, near, side="right") - 1
    last = np.append(first[1:], len(scores))[start] - 1
    width = scores[last] - scores[first[start]]
    apart[near] = width > LONGEST_CHAIN * rounding(scores[last])
    return np.flatnonzero(np.append(True, apart))


def rounding(p: Any, dtype: DTypeLike = np.float64) -> Any:
    """Bound on the rounding error of a probability after a logarithm and an exponential."""
    # The relative error of the exponential of z is |z| times that of z.
    return 4 * float(np.finfo(dtype).eps) * p * (1 - np.log(p))

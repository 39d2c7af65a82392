"""Bins of scores: edges, the rule which bin a score is in, and sums per bin.

One rule serves calibrators, measures and pictures: bin m holds the scores ``s`` with
``edges[m] < s <= edges[m + 1]``, and the first bin also holds ``edges[0]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import logit

Floats = NDArray[np.floating[Any]]

# Up to so many inner edges, counting beats searching. Twice the number must fit into an int8.
FEW_EDGES = 62
# The smallest probability of note in double precision.
TINY = np.finfo(np.float64).tiny
# Log-odds beyond this are not told apart where there are too many scores to keep them all.
REACH = 40.0
# Neighbours that rounding may tell apart are one score up to a width of so many rounding errors.
LONGEST_CHAIN = 4


class BinSums(NamedTuple):
    """What a set of rows leaves in each bin: float64 arrays of shape (n_bins,) that add up."""

    n_samples: Floats  #: number of rows
    weight: Floats  #: sum of weights
    weight_squared: Floats  #: sum of squared weights
    hits: Floats  #: sum of weights where the event happened
    scores: Floats  #: sum of weights times scores


def uniform_edges(n_bins: int) -> Floats:
    """Edges of ``n_bins`` bins of equal width on [0, 1]."""
    return np.linspace(0.0, 1.0, n_bins + 1)


class Ranked(NamedTuple):
    """Scores in order, each once, with what lies at it: float64 arrays of shape (m,)."""

    scores: Floats  #: distinct scores, increasing
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights where the event happened


def ranked(
    scores: Floats, hits: NDArray[np.bool_] | None = None, weights: Floats | None = None
) -> Ranked:
    """Order scores (n,) whose events happened or not.

    Rows without weight are left out, and scores of NaN, those of classes that are masked.

    Scores in double precision that differ by no more than rounding are one. Otherwise equal votes
    of a forest would be torn apart by what is left of them after a logarithm and an exponential.
    """
    if weights is not None and not weights.all():
        kept = weights > 0
        scores, weights = scores[kept], weights[kept]
        hits = None if hits is None else hits[kept]
    alone = hits is None and weights is None  # a sort is quicker than an order
    order = None if alone else np.argsort(scores)
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


def _per_score(values: NDArray[Any], first: NDArray[np.intp]) -> Floats:
    if len(values) == 0:
        return np.zeros(0)
    return np.add.reduceat(values, first, dtype=np.float64)


def merged(parts: list[Ranked], n_cells: int) -> Ranked:
    """The ranked scores of several sets of rows together, at most ``n_cells``: see summary."""
    scores, weight, hits = (np.concatenate(column) for column in zip(*parts, strict=True))
    if _are_many(scores, n_cells):
        return _on_grid(scores, weight, hits, n_cells)
    order = np.argsort(scores, kind="stable")  # which merges what is in order
    scores = scores[order]
    first = _starts(scores, pool=True)
    together = Ranked(
        scores[first], _per_score(weight[order], first), _per_score(hits[order], first)
    )
    return together if len(first) <= n_cells else _on_grid(*together, n_cells)


def summary(
    scores: Floats, hits: NDArray[np.bool_], weights: Floats | None, n_cells: int
) -> Ranked:
    """At most ``n_cells`` ranked scores that stand for those of all rows.

    They are the scores themselves where there are no more of them. Otherwise those whose log-odds
    fall into the same of ``n_cells`` cells of equal width on [-40, 40] are one, at their mean, so
    that no score is moved by more than ``80 / n_cells`` in its log-odds, but for those beyond 40
    in size, probabilities nearer to 0 or 1 than 4e-18. Summaries of parts of the rows can be
    merged, and keep this promise.
    """
    there = ~np.isnan(scores)
    if not there.all():
        scores, hits = scores[there], hits[there]
        weights = None if weights is None else weights[there]
    w = np.ones(len(scores)) if weights is None else weights
    heavy = scores[w > 0].astype(np.float64, copy=False)
    if _are_many(heavy, n_cells):
        return _on_grid(heavy, w[w > 0], (w * hits)[w > 0], n_cells)
    return merged([ranked(scores, hits, weights)], n_cells)


def _are_many(scores: Floats, n_cells: int) -> bool:
    """Whether there are more than ``n_cells``, told from some of them: quicker than from all."""
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
    """Where another score begins in scores (n,) in order; pools what rounding may tell apart."""
    if len(scores) == 0:
        return np.zeros(0, np.intp)
    step, p = np.diff(scores), scores[1:]
    apart = step > 0
    near = np.flatnonzero(apart & (step < _rounding(TINY) / TINY * p))
    if not pool or len(near) == 0:
        return np.flatnonzero(np.append(True, apart))
    near = near[step[near] <= _rounding(p[near])]
    apart[near] = False
    first = np.flatnonzero(np.append(True, apart))
    # A long chain of neighbours is no tie: there are so many rows.
    start = np.searchsorted(first, near, side="right") - 1
    last = np.append(first[1:], len(scores))[start] - 1
    width = scores[last] - scores[first[start]]
    apart[near] = width > LONGEST_CHAIN * _rounding(scores[last])
    return np.flatnonzero(np.append(True, apart))


def _rounding(p: Any) -> Any:
    """How far apart equal probabilities may be after a logarithm and an exponential."""
    # The exponential of z has a relative error of |z| times that of z.
    return 4 * np.finfo(np.float64).eps * p * (1 - np.log(p))


class Blocks(NamedTuple):
    """The non-decreasing function of least squares: blocks of neighbours with one value each."""

    start: NDArray[np.intp]  #: position of the first score of each block among the ranked ones
    end: NDArray[np.intp]  #: and of the last
    value: Floats


def isotonic_blocks(rows: Ranked) -> Blocks:
    """Isotonic regression of the hits on the scores."""
    best = isotonic_regression(rows.hits / rows.weight, weights=rows.weight)
    start, end = best.blocks[:-1], best.blocks[1:] - 1
    return Blocks(start, end, best.x[start])


class Bins(NamedTuple):
    """Bins of one or more binnings, one binning after the other: arrays of shape (n_bins,)."""

    binning: NDArray[np.intp]  #: number of the binning
    end: NDArray[np.intp]  #: position of the last score in the bin among the ranked ones
    low: Floats  #: edge below
    high: Floats  #: edge above
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights where the event happened


def bins_ending_at(rows: Ranked, end: NDArray[np.intp], binning: NDArray[np.intp]) -> Bins:
    """Bins that end behind the scores at positions ``end``, halfway to the next score.

    The last bin of each binning ends at position m - 1, and its edge is 1.
    """
    first = np.append(True, binning[1:] != binning[:-1])
    after = np.minimum(end + 1, len(rows.scores) - 1)
    low, high = rows.scores[end], rows.scores[after]
    middle = low + (high - low) / 2
    high = np.where(after == end, 1.0, np.where(middle < high, middle, low))

    def since_last(values: Floats) -> Floats:
        total = np.cumsum(values)[end]
        return total - np.where(first, 0.0, np.roll(total, 1))

    weight, hits = since_last(rows.weight), since_last(rows.hits)
    # What rounding leaves of differences is nothing: neither hits, nor misses, nor fewer of them.
    rounding = 4 * np.finfo(np.float64).eps * rows.weight.sum()
    hits = np.where(weight - hits <= rounding, weight, np.where(hits <= rounding, 0.0, hits))
    return Bins(binning, end, np.where(first, 0.0, np.roll(high, 1)), high, weight, hits)


def equal_mass_bins(rows: Ranked, n_bins: NDArray[np.intp]) -> Bins:
    """For each entry B of ``n_bins`` at most B bins on [0, 1] that hold equal weight.

    Bin m ends behind the first score at which the cumulative weight reaches ``m / B`` of the
    total. Equal scores are never torn apart, so bins that would end at the same score are one
    bin. Splitting by cumulative weight (and not interpolating between order statistics) is what
    makes a weight of 2 the same as the row twice.
    """
    binning = np.repeat(np.arange(len(n_bins)), n_bins)
    number = np.arange(1, len(binning) + 1) - np.repeat(np.cumsum(n_bins) - n_bins, n_bins)
    # The tolerance keeps a bin that is exactly full from being overfilled through rounding.
    mass, last = np.cumsum(rows.weight), len(rows.weight) - 1
    targets = (number / n_bins[binning] - 1e-12) * mass[-1]
    end = np.minimum(np.searchsorted(mass, targets), last)
    end[number == n_bins[binning]] = last
    kept = np.append((end[1:] != end[:-1]) | (binning[1:] != binning[:-1]), True)
    return bins_ending_at(rows, end[kept], binning[kept])


def quantile_edges(rows: Ranked, n_bins: int) -> Floats:
    """Edges of at most ``n_bins`` bins on [0, 1] that hold equal weight."""
    return np.append(0.0, equal_mass_bins(rows, np.array([n_bins])).high)


def bin_index(scores: Floats, edges: Floats) -> NDArray[np.integer[Any]]:
    """Number of the bin that each score is in, from 0, for scores of any shape."""
    inner = edges[1:-1]
    if len(inner) > FEW_EDGES:
        return np.searchsorted(inner, scores, side="left")
    # Counting the edges below a score needs no branches: ten times faster than a search.
    scores = scores.astype(np.float64, copy=False)
    index = np.zeros_like(scores, dtype=np.int8)
    for edge in inner:
        index += scores > edge
    return index


def bin_sums(
    scores: Floats,
    hits: NDArray[np.bool_],
    weights: Floats | None,
    edges: Floats | list[Floats],
    n_bins: int,
) -> Floats:
    """The rows of :class:`BinSums` for each column of scores: shape (n_columns, 5, n_bins).

    ``scores`` and ``hits``, whether events happened, are of shape (m, n_columns), weights of shape
    (m,). Scores of NaN are in no bin. ``edges`` are those of at most ``n_bins`` bins, for all
    columns or a list for each.
    """
    n_columns = scores.shape[1]
    if isinstance(edges, list):
        each = zip(scores.T, edges, strict=True)
        bins = np.stack([bin_index(column, of_column) for column, of_column in each], axis=1)
    else:
        bins = bin_index(scores, edges)
    # Cell 2m + 1 collects the hits of bin m and cell 2m the misses: one count yields both.
    cells = 2 * bins + hits
    if n_columns > 1:
        cells = cells + 2 * n_bins * np.arange(n_columns)
    n_cells = 2 * n_bins * n_columns
    if np.isnan(scores.min()):  # one more cell, which is left out
        cells = np.where(np.isnan(scores), n_cells, cells)

    def per_cell(values: Floats | None) -> Floats:
        if values is not None:
            values = np.broadcast_to(values, cells.shape).ravel()
        count = np.bincount(cells.ravel(), values, n_cells)[:n_cells]
        return count.reshape(n_columns, n_bins, 2).astype(np.float64)

    count = weighted = squared = per_cell(None)
    if weights is not None:
        w = weights[:, None]
        weighted, squared, scores = per_cell(w), per_cell(w**2), w * scores
    score_sums = per_cell(scores).sum(axis=2)
    totals = [values.sum(axis=2) for values in (count, weighted, squared)]
    return np.stack([*totals, weighted[..., 1], score_sums], axis=1)

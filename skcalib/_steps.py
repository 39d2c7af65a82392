"""Bins of scores: edges, the rule which bin a score is in, and sums per bin.

One rule serves calibrators, measures and pictures: bin m holds the scores ``s`` with
``edges[m] < s <= edges[m + 1]``, and the first bin also holds ``edges[0]``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

# Up to so many inner edges, counting beats searching. Twice the number must fit into an int8.
FEW_EDGES = 62


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


def quantile_edges(scores: Floats, weights: Floats | None, n_bins: int) -> Floats:
    """Edges of at most ``n_bins`` bins on [0, 1] that hold equal weight.

    Bin m ends behind the first score at which the cumulative weight reaches ``m / n_bins`` of
    the total, halfway to the next score. Equal scores are never torn apart, so bins that would
    end at the same score are one bin. Splitting by cumulative weight (and not interpolating
    between order statistics) is what makes a weight of 2 the same as the row twice.
    """
    order = np.argsort(scores) if weights is not None else None
    ranked = np.sort(scores) if order is None else scores[order]
    ranked = ranked.astype(np.float64, copy=False)
    last = np.flatnonzero(np.append(ranked[1:] > ranked[:-1], True))  # of each distinct score
    mass = last + 1.0 if weights is None else np.cumsum(weights[order])[last]
    # The tolerance keeps a bin that is exactly full from being overfilled through rounding.
    targets = np.arange(1, n_bins) * mass[-1] / n_bins - 1e-12 * mass[-1]
    ends = np.unique(np.searchsorted(mass, targets))
    ends = ends[ends < len(last) - 1]
    low, high = ranked[last[ends]], ranked[last[ends] + 1]
    middle = low + (high - low) / 2
    return np.concatenate([[0.0], np.where(middle < high, middle, low), [1.0]])


def bin_index(scores: Floats, edges: Floats) -> NDArray[np.integer[Any]]:
    """Number of the bin that each score is in, from 0."""
    inner = edges[1:-1]
    if len(inner) > FEW_EDGES:
        return np.searchsorted(inner, scores, side="left")
    # Counting the edges below a score needs no branches: ten times faster than a search.
    scores = scores.astype(np.float64, copy=False)
    index = np.zeros(len(scores), dtype=np.int8)
    for edge in inner:
        index += scores > edge
    return index


def bin_sums(
    scores: Floats, hits: NDArray[np.bool_], weights: Floats | None, edges: Floats
) -> Floats:
    """The rows of :class:`BinSums` for scores of shape (n,) whose events happened or not."""
    n_bins = len(edges) - 1
    # Cell 2m + 1 collects the hits of bin m and cell 2m the misses: one count yields both.
    bins = bin_index(scores, edges)
    cells = 2 * bins + hits

    def per_cell(values: Floats | None) -> Floats:
        return np.bincount(cells, values, 2 * n_bins).reshape(n_bins, 2).astype(np.float64)

    count = weighted = squared = per_cell(None)
    if weights is not None:
        weighted, squared = per_cell(weights), per_cell(weights**2)
        scores = weights * scores
    score_sums = np.bincount(bins, scores, n_bins)
    totals = [cells.sum(axis=1) for cells in (count, weighted, squared)]
    return np.stack([*totals, weighted[:, 1], score_sums])

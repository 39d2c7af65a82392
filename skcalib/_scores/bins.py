"""Bins of scores: edges, the rule which bin a score is in, and sums per bin.

One rule serves calibrators, measures and pictures: bin m holds the scores ``s`` with
``edges[m] < s <= edges[m + 1]``, and the first bin also holds ``edges[0]``.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._engine.ranking import Ranked
from skcalib._typing import Floats

# Bins of equal width, or of equal weight.
Strategy = Literal["uniform", "quantile"]

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

"""Bins of scores: their edges, the assignment of scores to bins, and sums per bin.

Calibrators, measures and displays share one convention: bin m holds the scores ``s`` with
``edges[m] < s <= edges[m + 1]``, and the first bin also holds ``edges[0]``. Scores that exceed an
edge by no more than rounding in float32 equal the edge.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._rows import Ranked
from skcalib._rows.arrays import bincount, searchsorted
from skcalib._rows.ranking import rounding
from skcalib._typing import Floats, Strategy

# Up to this many inner edges, counting is faster than a search. Twice the number must fit an int8.
FEW_EDGES = 62
# Up to this many scores, a search is faster for any number of edges.
FEW_SCORES = 1 << 11


class BinSums(NamedTuple):
    """Sums over the rows in each bin: additive float64 arrays (n_bins,)."""

    n_samples: Floats  #: number of rows
    weight: Floats  #: sum of weights
    weight_squared: Floats  #: sum of squared weights
    hits: Floats  #: sum of weights where the event happened
    scores: Floats  #: sum of weights times scores


def uniform_edges(n_bins: int) -> Floats:
    """Return the edges (n_bins + 1,) of equally wide bins on [0, 1]."""
    return np.linspace(0.0, 1.0, n_bins + 1)


class Bins(NamedTuple):
    """Bins for one or more binnings, one binning after another: arrays (n_bins,)."""

    binning: NDArray[np.intp]  #: number of the binning
    end: NDArray[np.intp]  #: index of the last score of the bin among the ranked scores
    low: Floats  #: lower edge
    high: Floats  #: upper edge
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights where the event happened


def bins_ending_at(rows: Ranked, end: NDArray[np.intp], binning: NDArray[np.intp]) -> Bins:
    """Return bins that end at the scores with indices ``end``; edges are halfway to the next score.

    ``end`` and ``binning`` are (n_bins,). The last bin in each binning ends at the last score, and
    its upper edge is 1.
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
    # Hits or misses no larger than the rounding error of these differences are set to zero.
    rounding = 4 * np.finfo(np.float64).eps * rows.weight.sum()
    hits = np.where(weight - hits <= rounding, weight, np.where(hits <= rounding, 0.0, hits))
    return Bins(binning, end, np.where(first, 0.0, np.roll(high, 1)), high, weight, hits)


def equal_mass_bins(rows: Ranked, n_bins: NDArray[np.intp]) -> Bins:
    """Divide [0, 1] into at most B equally heavy bins, for each number B in ``n_bins``.

    Bin m ends at the first score where the cumulative weight is ``m / B`` times the total or more.
    Ties share a bin, so bins that would end at the same score are merged. Edges are not
    interpolated between order statistics, so that a weight of 2 equals the row twice.
    """
    binning = np.repeat(np.arange(len(n_bins)), n_bins)
    number = np.arange(1, len(binning) + 1) - np.repeat(np.cumsum(n_bins) - n_bins, n_bins)
    # Without the tolerance, rounding could add another score to a bin that is exactly full.
    mass, last = np.cumsum(rows.weight), len(rows.weight) - 1
    targets = (number / n_bins[binning] - 1e-12) * mass[-1]
    end = np.minimum(np.searchsorted(mass, targets), last)
    end[number == n_bins[binning]] = last
    is_last = np.append((end[1:] != end[:-1]) | (binning[1:] != binning[:-1]), True)
    return bins_ending_at(rows, end[is_last], binning[is_last])


def quantile_edges(rows: Ranked, n_bins: int) -> Floats:
    """Return the edges of at most ``n_bins`` equally heavy bins on [0, 1]."""
    return np.append(0.0, equal_mass_bins(rows, np.array([n_bins])).high)


def closed(edges: Floats, strategy: Strategy = "uniform") -> Floats:
    """Return edges (n_bins + 1,) with inner edges above all float32 scores that stand for them.

    One vote in five trees is 0.2 in float64 and 0.20000000298 in float32. Quantile bins have edges
    halfway between two scores, which stay unchanged.
    """
    if strategy == "quantile":
        return edges
    inner = edges[1:-1]
    return np.concatenate([edges[:1], inner + rounding(inner, np.float32), edges[-1:]])


def bin_index(scores: Floats, edges: Floats) -> NDArray[np.integer[Any]]:
    """Return the bin index for each score, in the shape of ``scores``."""
    inner = edges[1:-1]
    if not isinstance(scores, np.ndarray):  # a tensor in a prediction
        return searchsorted(inner, scores)
    if len(inner) > FEW_EDGES or scores.size <= FEW_SCORES:
        return inner.searchsorted(scores)
    # Counting the edges below a score needs no branches: ten times faster than a binary search.
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
    """Return :class:`BinSums` for each column of scores, as an array (n_columns, 5, n_bins).

    ``scores`` and ``hits`` (True where the event happened) are (m, n_columns), weights are (m,).
    NaN scores are in no bin. ``edges`` delimit at most ``n_bins`` bins: one array for all columns
    or a list of arrays.
    """
    n_columns = scores.shape[1]
    if isinstance(edges, list):
        columns = [bin_index(scores[:, k], inner) for k, inner in enumerate(edges)]
        bins = np.stack(columns, axis=1)
    else:
        bins = bin_index(scores, edges)
    # Cell 2m + 1 holds the hits of bin m and cell 2m the misses: one bincount sums both.
    cells = 2 * bins + hits
    if n_columns > 1:
        cells = cells + 2 * n_bins * np.arange(n_columns)
    n_cells = 2 * n_bins * n_columns
    if np.isnan(scores.min()):  # an additional cell, which is dropped
        cells = np.where(np.isnan(scores), n_cells, cells)

    per_cell = partial(bincount, cells, n=n_cells + 1)
    count = weight = weight_squared = per_cell(None)
    if weights is not None:
        w = weights[:, None]
        weight, weight_squared, scores = per_cell(w), per_cell(w**2), w * scores
    sums = np.stack([count, weight, weight_squared, weight, per_cell(scores)])[:, :n_cells]
    sums = sums.reshape(5, n_columns, n_bins, 2)
    sums[3, ..., 0] = 0  # only hits
    return sums.sum(axis=3).swapaxes(0, 1)

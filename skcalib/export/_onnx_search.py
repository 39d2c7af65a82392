"""Step functions and piecewise linear functions as ONNX graphs, by binary search without a loop.

The edges of all functions are one flat constant, and each step of the search is a ``Gather``, so
that no array is larger than the scores whatever the number of edges.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from skcalib._rows.arrays import Floats, Indices

from ._graph import Value, where


def bin_index(S: Value, edges: Sequence[Floats]) -> Value:
    """Number of the bin of each score (n_rows, n_maps) among the bins of all maps.

    ``edges`` are the inner edges of the bins of each map, in order; a bin is closed on the right.
    Those of the next map follow.
    """
    n_bins = np.array([len(of_map) + 1 for of_map in edges])
    # Entry i + 1 is the upper edge of bin i, for the last bin of a map one that no score is above.
    upper = np.concatenate([[np.inf], *(np.append(of_map, np.inf) for of_map in edges)])
    table, graph = S.like(upper), S.graph
    stop = np.cumsum(n_bins)[None, :]
    found, last = graph.constant(stop - n_bins), graph.constant(stop)
    step = 1 << int(n_bins.max() - 1).bit_length()
    while step := step // 2:
        # A score above the upper edge of the bin before is in this one or in a later one.
        trial = (found + step).at_most(last)
        found = where(table.taken(trial) < S, trial, found)
    return found


def steps(S: Value, edges: Sequence[Floats], values: Sequence[Floats], dtype: Any) -> Value:
    """Values of the bins of scores (n_rows, n_maps), for the inner edges of each map."""
    table = S.graph.constant(np.concatenate(values).astype(dtype))
    return table.taken(bin_index(S, edges))


def interpolated(S: Value, knots: Sequence[Floats], values: Sequence[Floats]) -> Value:
    """Linear interpolation between the knots of each map, and constant beyond them."""
    index = bin_index(S, knots)
    # Line i goes through the knot at its left end, the first one through that at its right end.
    x = np.concatenate([np.append(of_map[:1], of_map) for of_map in knots])
    y = np.concatenate([np.append(of_map[:1], of_map) for of_map in values])
    slope = np.concatenate([_slopes(*of_map) for of_map in zip(knots, values, strict=True)])
    start, height, rise = (S.like(table).taken(index) for table in (x, y, slope))
    return rise * (S - start) + height


def _slopes(knots: Floats, values: Floats) -> Floats:
    """Slopes before, between and after the knots."""
    return np.concatenate([[0.0], np.diff(values) / np.diff(knots), [0.0]])


def in_dtype(edges: Floats, dtype: np.dtype[Any]) -> Floats:
    """The largest numbers of a dtype that are no larger than edges in double precision.

    Scores of this dtype are above these exactly if they are above the edges.
    """
    rounded = edges.astype(dtype)
    return np.where(rounded > edges, np.nextafter(rounded, dtype.type(-np.inf)), rounded)


def as_log_odds(edges: Floats, dtype: np.dtype[Any]) -> Floats:
    """The largest log-odds of a dtype whose probability is no larger than each edge.

    By bisection of the numbers of the dtype in their order, with the function that the calibrators
    use, so that log-odds are compared with these as exactly as probabilities with the edges.
    """
    bits = np.dtype(f"i{dtype.itemsize}")
    # Probabilities of log-odds beyond these are 0 or 1.
    high = np.full(edges.shape, dtype.type(1e3).view(bits))
    low = -high
    for _ in range(8 * dtype.itemsize):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # the sum might overflow
        below = expit(_of_order(middle, dtype)) <= edges
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(edges >= 1, dtype.type(np.inf), _of_order(low, dtype))


def _of_order(order: Indices, dtype: np.dtype[Any]) -> Floats:
    """Numbers by their order: 1 is the smallest above 0, -1 its negative."""
    return np.copysign(np.abs(order).view(dtype), order).astype(dtype)

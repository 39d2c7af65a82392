r"""Isotonic regression of events on ranked scores, and Venn-Abers predictors from it.

Inductive Venn-Abers predictors are isotonic regressions with the test object, under both labels.
The points :math:`P_a = (W_a, H_a)` are the cumulative weight and hits up to score a. Isotonic
regression is the slope of their greatest convex minorant. A test object at score i with label 1
moves the points before it by (-1, -1), so by the max-min formula its value is

.. math:: p_1(i) = \max_{a < i} \min_{b \ge i} \frac{H_b - H_a + 1}{W_b - W_a + 1} .

A start a that attains the maximum has no smaller slope to any b > a, and the ends b lie on the
minorant of all points. Let :math:`t_a` be the slope of the tangent from :math:`P_a - (1, 1)` to the
minorant on the right of :math:`P_a`. Then :math:`p_1` is the running maximum of these slopes, and
no regression is computed again. With label 0 all is mirrored.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from skcalib._rows import Ranked, arrays
from skcalib._rows.ranking import rounding
from skcalib._typing import Floats, Indices


class IsotonicBlocks(NamedTuple):
    """The isotonic least-squares fit: blocks of neighbouring scores with a common value."""

    start: NDArray[np.intp]  #: index of the first score of each block among the ranked scores
    end: NDArray[np.intp]  #: index of the last
    value: Floats


def isotonic_blocks(rows: Ranked) -> IsotonicBlocks:
    """Fit an isotonic regression of the hits on the scores."""
    best = optimize.isotonic_regression(rows.hits / rows.weight, weights=rows.weight)
    start, end = best.blocks[:-1], best.blocks[1:] - 1
    return IsotonicBlocks(start, end, best.x[start])


def knots(rows: Ranked, blocks: IsotonicBlocks, *, centered: bool) -> tuple[Floats, Floats]:
    """Return knots (n_knots,) and values (n_knots,) for linear interpolation of the isotonic fit.

    The fit is constant from the first score of a block to the last. If ``centered``, only blocks
    with the value 0 or 1 are constant. Other blocks have a single knot, their weighted mean score.
    """
    first, last = rows.scores[blocks.start], rows.scores[blocks.end]
    if centered:
        total, weight = (
            np.add.reduceat(values, blocks.start)
            for values in (rows.weight * rows.scores, rows.weight)
        )
        middle = np.clip(total / weight, first, last)
        inside = (blocks.value > 0) & (blocks.value < 1)
        first, last = np.where(inside, middle, first), np.where(inside, middle, last)
    x, values = np.stack([first, last], axis=1).ravel(), np.repeat(blocks.value, 2)
    new = np.append(True, x[1:] > x[:-1])
    return x[new], values[new]


def interpolated(p: Floats, x: Floats, values: Floats) -> Floats:
    """Interpolate linearly between knots ``x``, and constantly beyond them, at points ``p`` (m,).

    ``x`` and ``values`` have the shape (n_knots,).
    """
    if isinstance(p, np.ndarray):
        return np.interp(p, x, values)
    if len(x) == 1:
        x, values = np.append(x, np.inf), np.repeat(values, 2)
    xp, p = arrays.namespace(p), arrays.double(p)
    right = xp.clip(arrays.searchsorted(x, p), 1, len(x) - 1)
    low, high = arrays.take(x, right - 1), arrays.take(x, right)
    share = xp.clip((p - low) / (high - low), 0.0, 1.0)
    left = arrays.take(values, right - 1)
    return left + share * (arrays.take(values, right) - left)


# Scores that are farther apart than this, in rounding errors of single precision, also equal test
# scores in single precision, such as the votes of a forest, and log-odds of two digits.
FAR = 100.0

# The proper score that defines the regret when p0 and p1 are merged into a probability.
Merge = Literal["log_loss", "brier"]


class Steps(NamedTuple):
    """Step functions p0 and p1 of a score on common bins, which are closed on the right."""

    edges: Floats  #: (n_bins + 1,), from 0 to 1
    p0: Floats  #: (n_bins,)
    p1: Floats  #: (n_bins,)


def merged(p0: Floats, p1: Floats, merge: Merge) -> Floats:
    """Return the probability (m,) that minimizes the worst-case regret between p0 and p1 (m,)."""
    return p1 / (1 - p0 + p1) if merge == "log_loss" else p1 + (p0**2 - p1**2) / 2


def values_at_scores(rows: Ranked) -> tuple[Floats, Floats]:
    """Return p0 and p1 (m,) of test objects with the same scores as the rows."""
    if len(rows.scores) == 0:
        return rows.weight, rows.weight
    mirrored = Ranked(-rows.scores[::-1], rows.weight[::-1], (rows.weight - rows.hits)[::-1])
    p0, p1 = 1 - _label_values(mirrored)[::-1], _label_values(rows)
    return np.minimum(p0, p1), p1  # with very large weights they differ by rounding only


def _label_values(rows: Ranked) -> Floats:
    """Return p1 (m,) at the scores of the rows, by the formula at the top of this module."""
    points = np.array([np.append(0.0, np.cumsum(values)) for values in (rows.weight, rows.hits)])
    blocks = isotonic_blocks(rows)
    at = np.append(0, blocks.end + 1)
    corners, edges = points[:, at], np.append(blocks.value, np.inf)
    after = np.repeat(np.arange(1, len(at)), np.diff(at))  # the next corner of each point
    # Skip points that cannot attain the maximum, which is at least the tangent slope from the
    # corner before a point. The tangent slope from the point is at most its slope to the corner
    # after it.
    from_corner = _tangents(corners[:, :-1], np.arange(1, len(at)), corners, edges)
    starts = np.flatnonzero(_slopes(points[:, :-1], corners[:, after]) >= from_corner[after - 1])
    slopes = np.zeros(len(rows.scores))
    slopes[starts] = _tangents(points[:, starts], after[starts], corners, edges)
    return np.minimum(np.maximum.accumulate(slopes), 1)


def _tangents(points: Floats, first: Indices, corners: Floats, edges: Floats) -> Floats:
    """Return the smallest slope (n,) from each moved point to the corners from ``first`` on.

    ``points`` (2, n) are moved by (-1, -1), ``first`` (n,) index ``corners`` (2, n_corners)
    and ``edges`` (n_corners,) are slopes of the minorant. The slope to a corner falls from corner
    to corner until the edge after it is steeper, and then rises, so that bisection finds it.
    """
    low, high = first, np.full(len(first), len(edges) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        rises = edges[middle] >= _slopes(points, corners[:, middle])
        low, high = np.where(rises, low, middle + 1), np.where(rises, middle, high)
    return _slopes(points, corners[:, low])


def _slopes(points: Floats, corners: Floats) -> Floats:
    """Return slopes (n,) from points (2, n), moved by (-1, -1), to corners (2, n)."""
    width, rise = corners - points + 1  # the difference first, since sums of weights may be large
    return rise / width


def steps(rows: Ranked) -> Steps:
    """Compute p0 and p1 as step functions of the score, from ranked probabilities.

    Between two scores, p0 equals p0 at the lower score and p1 equals p1 at the higher score. Below
    all scores p0 is 0, and above all scores p1 is 1.
    """
    p0, p1 = values_at_scores(rows)
    middle = rows.scores[:-1] + np.diff(rows.scores) / 2
    positive = np.maximum(rows.scores, np.finfo(np.float64).tiny)
    double, single = (rounding(positive, dtype) for dtype in (np.float64, np.float32))
    gap = np.diff(rows.scores, prepend=0.0, append=1.0)
    are_far = np.minimum(gap[:-1], gap[1:]) > FAR * single
    all_single = np.array_equal(rows.scores, rows.scores.astype(np.float32))
    error = np.where(are_far | all_single, single, double)
    below = np.maximum(rows.scores - error, np.append(0.0, middle))
    # A ranked score is the smallest of its ties, which may be a few rounding errors apart.
    above = np.minimum(rows.scores + 5 * error, np.append(middle, 1.0))
    # Bins between two scores alternate with bins around a score.
    edges = np.concatenate([[0.0], np.stack([below, above], axis=1).ravel(), [1.0]])
    low = np.append(0.0, np.repeat(p0, 2))
    high = np.append(np.repeat(p1, 2), 1.0)
    is_wide = edges[1:] > edges[:-1]
    ends, low, high = edges[1:][is_wide], low[is_wide], high[is_wide]
    changes = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    last = np.append(np.flatnonzero(changes), len(low) - 1)
    return Steps(np.append(0.0, ends[last]), low[last], high[last])

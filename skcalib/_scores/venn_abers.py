r"""Inductive Venn-Abers predictors: isotonic regression with the test object, under both labels.

With points :math:`P_a = (W_a, H_a)`, the cumulative weight and hits of the first a scores, isotonic
regression is the slope of their greatest convex minorant. A test object at score i with label 1
moves the points before it by (-1, -1), so by the max-min formula its value is

.. math:: p_1(i) = \max_{a < i} \min_{b \ge i} \frac{H_b - H_a + 1}{W_b - W_a + 1} .

A start a that attains the maximum has no smaller slope to any b > a, and the ends b lie on the
minorant of all points. So :math:`p_1` is the running maximum of the slopes :math:`t_a` of the
tangents from :math:`P_a - (1, 1)` to the part of the minorant on the right of :math:`P_a`, and
no regression is ever computed again. With label 0 all is mirrored.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from skcalib._engine.ranking import LONGEST_CHAIN, TINY, Ranked, rounding
from skcalib._typing import Floats, Indices

from .isotonic import isotonic_blocks

# Scores that are farther apart than this, in rounding errors of single precision, are the votes of
# a forest or something similar, and also equal to test scores in single precision.
FAR = 1e4

# How p0 and p1 are merged into a probability: by the score whose regret is the least.
Merge = Literal["log_loss", "brier"]


class Steps(NamedTuple):
    """Step functions p0 and p1 of a score on common bins, which are closed on the right."""

    edges: Floats  #: (n_bins + 1,), from 0 to 1
    p0: Floats  #: (n_bins,)
    p1: Floats  #: (n_bins,)


def merged(p0: Floats, p1: Floats, merge: Merge) -> Floats:
    """The probability whose worst regret over both labels, p0 or p1 being true, is the least."""
    return p1 / (1 - p0 + p1) if merge == "log_loss" else p1 + (p0**2 - p1**2) / 2


def values_at_scores(rows: Ranked) -> tuple[Floats, Floats]:
    """p0 and p1 of test objects whose scores are those of the rows: two arrays (m,)."""
    if len(rows.scores) == 0:
        return rows.weight, rows.weight
    mirrored = Ranked(-rows.scores[::-1], rows.weight[::-1], (rows.weight - rows.hits)[::-1])
    p0, p1 = 1 - _values_of_label_1(mirrored)[::-1], _values_of_label_1(rows)
    return np.minimum(p0, p1), p1  # equal up to rounding beside very large weights


def _values_of_label_1(rows: Ranked) -> Floats:
    points = np.array([np.append(0.0, np.cumsum(values)) for values in (rows.weight, rows.hits)])
    blocks = isotonic_blocks(rows)
    at = np.append(0, blocks.end + 1)
    corners, edges = points[:, at], np.append(blocks.value, np.inf)
    after = np.repeat(np.arange(1, len(at)), np.diff(at))  # the next corner of each point
    # Few points can have the maximum: it is at least the slope from the corner before, and the
    # slope from a point at most that to the corner after.
    from_corner = _tangents(corners[:, :-1], np.arange(1, len(at)), corners, edges)
    kept = np.flatnonzero(_slopes(points[:, :-1], corners[:, after]) >= from_corner[after - 1])
    slopes = np.zeros(len(rows.scores))
    slopes[kept] = _tangents(points[:, kept], after[kept], corners, edges)
    return np.minimum(np.maximum.accumulate(slopes), 1)


def _tangents(points: Floats, first: Indices, corners: Floats, edges: Floats) -> Floats:
    """Least slope from each point, moved by (-1, -1), to the corners from ``first`` on.

    The slope falls from corner to corner until the edge after a corner is steeper, and then rises.
    """
    low, high = first, np.full(len(first), len(edges) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        rises = edges[middle] >= _slopes(points, corners[:, middle])
        low, high = np.where(rises, low, middle + 1), np.where(rises, middle, high)
    return _slopes(points, corners[:, low])


def _slopes(points: Floats, corners: Floats) -> Floats:
    width, rise = corners - points + 1  # the difference first, beside large sums
    return rise / width


def steps(rows: Ranked) -> Steps:
    """p0 and p1 of test objects with any score, for ranked probabilities.

    Between two scores p0 is that of the lower one and p1 that of the higher one, p0 is 0 below all
    scores, and p1 is 1 above. Scores that differ by rounding errors are equal.
    """
    below, above = _neighbourhoods(rows.scores)
    p0, p1 = values_at_scores(rows)
    # The bins are, in turn, those between two scores and those of a score.
    edges = np.concatenate([[0.0], np.stack([below, above], axis=1).ravel(), [1.0]])
    low = np.append(0.0, np.repeat(p0, 2))
    high = np.append(np.repeat(p1, 2), 1.0)
    kept = edges[1:] > edges[:-1]
    ends, low, high = edges[1:][kept], low[kept], high[kept]
    changes = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    last = np.append(np.flatnonzero(changes), len(low) - 1)
    return Steps(np.append(0.0, ends[last]), low[last], high[last])


def _neighbourhoods(scores: Floats) -> tuple[Floats, Floats]:
    """Ends of the intervals around distinct probabilities in which others are equal to them."""
    # Scores in single precision are not pooled when they are ranked, but have rounding errors too.
    # So do later scores in single precision, from which a tie of calibration scores is far.
    double, single = (rounding(np.maximum(scores, TINY), t) for t in (np.float64, np.float32))
    gap = np.diff(scores, prepend=0.0, append=1.0)
    are_far = np.minimum(gap[:-1], gap[1:]) > FAR * single
    all_single = np.array_equal(scores, scores.astype(np.float32))
    error = np.where(are_far | all_single, single, double)
    middle = scores[:-1] + np.diff(scores) / 2
    middle = np.where(middle < scores[1:], middle, scores[:-1])
    below = np.maximum(scores - error, np.append(0.0, middle))
    # Of ties the first is stored.
    above = np.minimum(scores + (LONGEST_CHAIN + 1) * error, np.append(middle, 1.0))
    return below, above

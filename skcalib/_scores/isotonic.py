"""Isotonic regression of events on ranked scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from skcalib._engine.array_api import entries, namespace
from skcalib._engine.blocks import double, number_below
from skcalib._engine.ranking import Ranked
from skcalib._typing import Floats


class Blocks(NamedTuple):
    """The isotonic least-squares fit: blocks of neighbouring scores with a common value."""

    start: NDArray[np.intp]  #: index of the first score of each block among the ranked scores
    end: NDArray[np.intp]  #: index of the last
    value: Floats


def isotonic_blocks(rows: Ranked) -> Blocks:
    """Isotonic regression of the frequency of hits on the scores."""
    best = isotonic_regression(rows.hits / rows.weight, weights=rows.weight)
    start, end = best.blocks[:-1], best.blocks[1:] - 1
    return Blocks(start, end, best.x[start])


def with_pseudo_rows(rows: Ranked, weight: float) -> Ranked:
    """The rows and two more: a hit at the lowest score, and a miss at the highest."""
    low, high = np.zeros_like(rows.scores), np.zeros_like(rows.scores)
    low[0] = high[-1] = weight
    return Ranked(rows.scores, rows.weight + low + high, rows.hits + low)


def knots(rows: Ranked, blocks: Blocks, *, centered: bool) -> tuple[Floats, Floats]:
    """Scores and values between which the isotonic fit is interpolated linearly.

    It is constant from the first score of a block to the last; if ``centered``, only where that is
    0 or 1, and other blocks have a single knot, the weighted mean of their scores.
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
    """Linear interpolation between knots, and constant beyond them, at the points ``p`` (m,)."""
    if isinstance(p, np.ndarray):
        return np.interp(p, x, values)
    if len(x) == 1:
        x, values = np.append(x, np.inf), np.repeat(values, 2)
    xp, p = namespace(p), double(p)
    right = xp.clip(number_below(x, p), 1, len(x) - 1)
    low, high = entries(x, right - 1), entries(x, right)
    share = xp.clip((p - low) / (high - low), 0.0, 1.0)
    left = entries(values, right - 1)
    return left + share * (entries(values, right) - left)

"""Margins of each class in units of their own, for one-vs-rest logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skcalib._engine.array_api import like, namespace
from skcalib._engine.blocks import column_sums, double, is_event, stacked
from skcalib._engine.cached import cached_property
from skcalib._engine.rows import Rows
from skcalib._linear.logistic import Logistic
from skcalib._linear.temperature import check_range, fit_scale
from skcalib._scores.one_vs_rest import margins, n_maps
from skcalib._typing import Bools, Floats, Indices

# The median margin is that of the rows of the class if there are at least this many.
FEWEST_EVENTS = 8

# Margins this many temperatures from zero have probabilities that double precision does not tell
# from 0 and 1. Smoothed targets would make the slope smaller because of them.
CERTAIN = 1e3

# The squares of larger margins are not summed, by precision.
FARTHEST = {"f": 1e15, "d": 1e100}

# Margins whose differences are below this many rounding errors of the logits are equal.
ROUNDINGS = 8

# Margins that spread less or more are scaled, so that single precision holds their squares.
MODERATE = 1e-6, 1e6


@dataclass(frozen=True)
class Units:
    """Where the margins of each class lie and how they spread: arrays of shape (n_maps,).

    Both are medians over the rows of the class, in which it is not masked, or over all if these
    are few: masked classes and single outliers have no influence.
    """

    centre: Floats  #: a margin, exact in the precision of the logits
    unit: Floats  #: what margins are divided by: 1, or a power of two
    spread: Floats  #: typical distance from the centre, in units, 0 if there is none
    rounding: Floats  #: what rounding of the logits may add to margins, in units
    limit: Floats  #: margins on the side of the label and beyond it do not count

    @classmethod
    def of(cls, rows: Rows, middle: Floats) -> Units:
        """The units of the margins of rows of logits, from :func:`middle_of` of some."""
        centre, spread, size = middle.astype(rows.dtype).astype(np.float64)
        rounding = ROUNDINGS * float(np.finfo(rows.dtype).eps) * np.maximum(size, np.abs(centre))
        level = spread <= rounding
        if level.any():  # of most rows at least
            total, n = rows.sum(partial(_deviations, centre, rounding))
            spread = np.where(level, np.exp(total / np.maximum(n, 1)) * (n > 0), spread)
        check_range(float(spread.max()))
        low, high = MODERATE
        moderate = (spread == 0) | ((spread > low) & (spread < high))
        unit = np.exp2(np.round(np.log2(np.where(moderate, 1, spread))))
        limit = np.full_like(centre, np.inf)
        return cls(centre, unit, spread / unit, rounding / unit, limit)

    @cached_property
    def moderate(self) -> float:
        """Margins in whose way no limit is, and whose squares are summed, are below it."""
        return float(min(self.limit.min(), FARTHEST["f"] * min(self.unit.min(), 1.0)))

    @cached_property
    def are_ones(self) -> bool:
        """Whether margins are not scaled."""
        return bool((self.unit == 1).all())

    def problem(self, rows: Rows, *, smooth: bool) -> Logistic:
        """The sigmoids of margins in these units, to be fitted."""
        spread, rounding = self.spread[None], self.rounding[None]
        return Logistic.of(rows, self.margins, spread, rounding, smooth=smooth)

    def margins(self, Z: Floats, y: Indices) -> tuple[list[Floats], Bools | None]:
        """Margins in units about the centre, and which of them count, or None if all do.

        Those that do not, as they are masked or beyond the limit on the side of the label, are
        zero.
        """
        M, counts = margins(Z), None
        xp, centre = namespace(M), like(self.centre, M, M.dtype)
        near = max(float(xp.max(M)), -float(xp.min(M))) < self.moderate
        if not near:
            right = (M > 0) == is_event(y, M.shape[1])
            counts = xp.isfinite(M) & ((xp.abs(M) <= like(self.limit, M)) | ~right)
            M = xp.where(counts, M, centre)
        M -= centre
        if not self.are_ones:
            M = double(M) / like(self.unit, M)
        farthest = FARTHEST["f" if M.dtype == xp.float32 else "d"]
        return [M if near else xp.clip(M, -farthest, farthest)], counts


def middle_of(rows: Rows) -> Floats:
    """Median margin, median distance from it, and median size of the largest logit: (3, n_maps)."""
    rows = rows.on_host()
    Z, y = rows.X, rows.y
    M, K = margins(Z), n_maps(Z.shape[1])
    size = _median(np.abs(Z.max(axis=1)))
    centre, spread = np.zeros((2, K))
    for k in range(K):
        of_class, all_rows = M[y == (k if K > 1 else 1), k], M[:, k]
        for margin in (of_class, all_rows):
            finite = margin[np.isfinite(margin)]
            if len(finite) >= (FEWEST_EVENTS if margin is of_class else 1):
                centre[k] = _median(finite)
                spread[k] = _median(np.abs(finite - centre[k]))
            if spread[k] > 0:
                break
    return np.stack([centre, spread, np.full(K, size)])


def _median(values: Floats) -> Any:
    """One of the middle values, and so exact in their precision."""
    middle = len(values) // 2
    return np.partition(values, middle)[middle]


def _deviations(centre: Floats, least: Floats, Z: Floats, *_: Any) -> Floats:
    """Sum of logarithms of distances from the centre that are larger, and their number."""
    xp, M = namespace(Z), double(margins(Z))
    distance = xp.abs(M - like(centre, M))
    some = xp.isfinite(distance) & (distance > like(least, M))
    return stacked(column_sums(xp.log(xp.where(some, distance, 1.0))), column_sums(some))


def without_certain_rows(
    units: Units, problem: Logistic, *, smooth: bool
) -> tuple[Units, Logistic]:
    """Units and problem without margins that a temperature calls certain, and rightly so.

    A class of which no events, or nothing else, would be left keeps all.
    """
    scale = fit_scale(problem.rows)
    if scale.outcome != "minimum":
        return units, problem
    limited = replace(units, limit=np.full_like(units.limit, CERTAIN / scale.value))
    found = limited.problem(problem.rows, smooth=smooth)
    both = (found.hits > 0) & (found.hits < found.weight)
    if both.all():
        return limited, found
    limited = replace(units, limit=np.where(both, limited.limit, np.inf))
    return limited, limited.problem(problem.rows, smooth=smooth)

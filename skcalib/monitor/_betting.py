"""Sequential tests by betting: e-values that may be looked at after every batch.

A bet is a factor, computed from a batch, whose expected value is at most 1 under the null
hypothesis, whatever happened before. The capital of who bets is the product of factors; it starts
at 1, and exceeds ``1 / level`` at any time with a probability of at most ``level`` (Ville's
inequality). The mean of the capital of many bets has the same property, and grows nearly as fast
as that of the best of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._rows import Floats
from skcalib._scores.bins import BinSums

# Fewer rows are collected, since a bet takes half as long as an update with a single row.
ROWS_OF_A_BET = 20


def bet_on(bets: Bets, sums: Floats, n_before: int, n: int, tolerance: float) -> Bets:
    """Bets after a batch of ``n`` rows with the :class:`BinSums` (n_curves, 5, n_bins)."""
    n_curves, _, n_bins = sums.shape
    curves, bins = np.nonzero(sums[:, BinSums._fields.index("weight")])
    _, weight, _, hits, scores = sums[curves, :, bins].T
    # On single bins, on all bins, and on both halves: under-confidence is fewer events below 1/2,
    # and more above. A bin that contains 1/2 is in neither half.
    single = log_factors(weight, hits, scores, tolerance)
    side = (2 * bins + 1 - n_bins)[:, None]
    halves = np.where(side < 0, single[:, ::-1], np.where(side, single, 0))
    # Bins of a curve are next to one another, and each curve has at least one.
    each = np.arange(n_curves)
    joint = np.add.reduceat([single, halves], curves.searchsorted(each), axis=1)
    reserve, capital = less_reserve(bets.reserve, n_before, n), bets.capital.copy()
    capital[curves, bins] = after(capital[curves, bins], reserve, single)
    capital[:, n_bins:] = after(capital[:, n_bins:], reserve, joint.swapaxes(0, 1))
    return Bets(capital, reserve)


def log_factors(weight: Floats, hits: Floats, scores: Floats, tolerance: float) -> Capital:
    r"""Logarithms of the factors of bins, for each of the shifts: (n_bins, n_shifts).

    The event of a row with probability p multiplies the capital by
    :math:`e^{\delta y} / (1 + p (e^\delta - 1))`, the likelihood ratio of shifted log-odds, with an
    expected value of 1. The denominators of the rows of a bin are replaced by that of their mean
    score, which is not smaller (the logarithm is concave), and with a tolerance by the largest one
    that it permits.
    """
    p = (scores / weight)[:, None]
    if tolerance:
        p = np.maximum(p + np.copysign(tolerance, SHIFTS), 0)
    return hits[:, None] * SHIFTS - weight[:, None] * np.log1p(np.minimum(p, 1) * GROWTH)


def e_value(capital: Capital) -> float:
    """Mean over the curves: a third on single bins, on all bins, and on both halves."""
    n_curves, n_rows, n_shifts = capital.shape
    single, joint = capital[:, :-2].sum(), capital[:, -2:].sum()
    return float(single / (n_rows - 2) + joint) / (3 * n_curves * n_shifts)


Capital = NDArray[np.float64]

# What the bets assume: the log-odds of the event, or of a cell, are shifted by these numbers. A
# shift of the other sign is at the mirrored index.
_SIZES = 2.0 ** np.arange(-5, 3)
SHIFTS = np.concatenate([-_SIZES[::-1], _SIZES])
GROWTH = np.expm1(SHIFTS)
SHIFTS.flags.writeable = GROWTH.flags.writeable = False

# Half of the capital of each bet is staked from the first row on, since models may be
# miscalibrated from the start. The rest is kept for a drift, which begins later: after n rows the
# fraction 1 / sqrt(1 + n / RESERVED_ROWS) of it is left.
FIRST_STAKE = 0.5
RESERVED_ROWS = 100
# The logarithm of the largest capital: the product of two is finite.
LOG_MOST = 345.0


class Bets(NamedTuple):
    """Capital of bets, and the part of the capital of each that is not staked yet."""

    capital: Capital
    reserve: float

    @classmethod
    def new(cls, *shape: int) -> Bets:
        """Bets of which each has a capital of 1."""
        return cls(np.ones((*shape, len(SHIFTS))), 1 - FIRST_STAKE)


def less_reserve(reserve: float, n_before: int, n: int) -> float:
    """What is left of the reserve for ``n`` rows that follow ``n_before`` rows."""
    return reserve * math.sqrt((RESERVED_ROWS + n_before) / (RESERVED_ROWS + n_before + n))


def after(capital: Capital, reserve: float, log_factors: Capital) -> Capital:
    """Capital when all but the reserve was staked: a mixture over the rows where a drift begins.

    If the factors are 1 the capital stays as it is, whatever part of it was staked.
    """
    staked = np.maximum(capital - reserve, 0) * np.exp(np.minimum(log_factors, LOG_MOST))
    return np.minimum(reserve + staked, math.exp(LOG_MOST))


def together(first: Bets, second: Bets) -> Bets:
    """The bets on the rows of both: factors of different rows are multiplied."""
    capital = np.minimum(first.capital * second.capital, math.exp(LOG_MOST))
    return Bets(capital, first.reserve * second.reserve)


class SequentialTest:
    """Mixin with the result of the test, for classes with an ``alarm_level``."""

    alarm_level: float
    _capital: Capital
    _reserve: float
    _e_value: float
    _largest_e_value: float
    _n_samples_at_alarm: int | None

    def _start(self, bets: Bets, e_value: float = 1.0, n_samples: int = 0) -> None:
        """Begin with these bets."""
        self._largest_e_value, self._n_samples_at_alarm = 1.0, None
        self._store(bets, e_value, n_samples)

    def _store(self, bets: Bets, e_value: float, n_samples: int) -> None:
        """Bets after a batch, their e-value and the number of rows."""
        self._capital, self._reserve = bets
        self._e_value = e_value
        self._largest_e_value = max(self._largest_e_value, e_value)
        if self._n_samples_at_alarm is None and self._largest_e_value * self.alarm_level >= 1:
            self._n_samples_at_alarm = n_samples

    @property
    def e_value(self) -> float:
        """Evidence against the hypothesis: its expected value is at most 1 if that is true."""
        return self._e_value

    @property
    def p_value(self) -> float:
        """Inverse of the largest e-value so far, which is valid at any time."""
        return 1 / self._largest_e_value

    @property
    def alarm(self) -> bool:
        """Whether the p-value is or was at most ``alarm_level``."""
        return self._n_samples_at_alarm is not None

    @property
    def n_samples_at_alarm(self) -> int | None:
        """Number of rows at the end of the batch that raised the alarm; None without one."""
        return self._n_samples_at_alarm

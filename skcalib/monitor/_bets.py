"""Bets against calibration, with an expected value of at most 1 for each batch.

A bet is a factor, computed from a batch, with an expected value of at most 1 under the null
hypothesis, given all earlier batches. The capital of a bettor is the product of the factors. It
starts at 1, and exceeds ``1 / level`` at any time with a probability of at most ``level`` (Ville's
inequality). The mean capital over many bets has the same property, and grows nearly as fast as
the best bet.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._typing import Floats

Capital = NDArray[np.float64]

# Bets assume that the log-odds of the event are shifted by these numbers. The mirrored index holds
# the opposite shift.
_SIZES = 2.0 ** np.arange(-5, 3)
SHIFTS = np.concatenate([-_SIZES[::-1], _SIZES])
GROWTH = np.expm1(SHIFTS)
SHIFTS.flags.writeable = GROWTH.flags.writeable = False

# Each bet stakes half of its capital from the first row on, since models may be miscalibrated from
# the start. It reserves the rest for a later drift: after n rows the reserve has shrunk by the
# factor 1 / sqrt(1 + n / RESERVED_ROWS).
FIRST_STAKE = 0.5
RESERVED_ROWS = 100

# Logarithm of the largest capital, to avoid overflow.
MAX_LOG_CAPITAL = 345.0


class Bets(NamedTuple):
    """Capital of bets (n_curves, n_bins + 2, n_shifts), and the reserve that is not staked yet."""

    capital: Capital
    reserve: float

    @classmethod
    def start(cls, n_curves: int, n_bins: int) -> Bets:
        """Return bets with capital 1 on each bin, on all bins, and on both halves."""
        return cls(np.ones((n_curves, n_bins + 2, len(SHIFTS))), 1 - FIRST_STAKE)


def bin_sides(edges: Floats) -> Floats:
    """Return -1 for bins below 1/2, 1 for bins above, and 0 for a bin that contains 1/2."""
    rounding = 1e-9
    return (edges[:-1] >= 0.5 - rounding) * 1.0 - (edges[1:] <= 0.5 + rounding)


def bet_on(
    bets: Bets, sums: Floats, sides: Floats, n_before: int, n: int, tolerance: float
) -> Bets:
    """Return the bets after a batch of ``n`` rows.

    ``sums`` (n_curves, 5, n_bins) are the number, weight, squared weight, hits and scores of the
    rows that bet, ``sides`` (n_bins,) the halves of the bins.
    """
    n_curves, _, n_bins = sums.shape
    curves, bins = np.nonzero(sums[:, 1])
    _, weight, _, hits, scores = sums[curves, :, bins].T
    # Under-confidence means fewer events than predicted below 1/2, and more above. So bets on both
    # halves have opposite shifts, and a bin that contains 1/2 is in neither half.
    single = log_factors(weight, hits, scores, tolerance)
    side = sides[bins, None]
    halves = np.where(side < 0, single[:, ::-1], np.where(side, single, 0))
    # reduceat is valid: bins of a curve are adjacent, and every curve has at least one bin.
    joint = np.add.reduceat([single, halves], curves.searchsorted(np.arange(n_curves)), axis=1)
    fraction = math.sqrt((RESERVED_ROWS + n_before) / (RESERVED_ROWS + n_before + n))
    reserve, capital = bets.reserve * fraction, bets.capital.copy()
    capital[curves, bins] = stake(capital[curves, bins], reserve, single)
    capital[:, n_bins:] = stake(capital[:, n_bins:], reserve, joint.swapaxes(0, 1))
    return Bets(capital, reserve)


def log_factors(weight: Floats, hits: Floats, scores: Floats, tolerance: float) -> Capital:
    r"""Return the logarithms of the factors (n_bins, n_shifts) of bins with sums (n_bins,).

    A row with probability p multiplies the capital by
    :math:`e^{\delta y} / (1 + p (e^\delta - 1))`, the likelihood ratio of shifted log-odds, which
    has the expected value 1. One denominator, at the mean score of the bin, replaces the
    denominators of its rows. It is not smaller, because the logarithm is concave. A tolerance
    shifts the mean score to where the denominator is largest.
    """
    p = (scores / weight)[:, None]
    if tolerance:
        p = np.maximum(p + np.copysign(tolerance, SHIFTS), 0)
    return hits[:, None] * SHIFTS - weight[:, None] * np.log1p(np.minimum(p, 1) * GROWTH)


def stake(capital: Capital, reserve: float, log_factors: Capital) -> Capital:
    """Return the capital after a bet that stakes everything except the reserve.

    ``capital`` and ``log_factors`` have the same shape (..., n_shifts).
    """
    staked = np.maximum(capital - reserve, 0) * np.exp(np.minimum(log_factors, MAX_LOG_CAPITAL))
    return np.minimum(reserve + staked, math.exp(MAX_LOG_CAPITAL))


def e_value(capital: Capital) -> float:
    """Return the mean capital, with a third each on single bins, all bins, and both halves."""
    n_curves, n_rows, n_shifts = capital.shape
    single, joint = capital[:, :-2].sum(), capital[:, -2:].sum()
    return float(single / (n_rows - 2) + joint) / (3 * n_curves * n_shifts)


def bet_weights(w: Floats, groups: Any) -> Floats:
    """Return the weights (n,) of rows in bets, which sum to at most 1 in each group.

    The factor of a group is then a weighted geometric mean of the factors of its rows. Its expected
    value is at most 1 for any dependence between the rows (Hölder's inequality).
    """
    if groups is None:
        return w / w.max()
    _, group = np.unique(groups, return_inverse=True)
    sizes = np.maximum(np.bincount(group, w > 0), 1)
    shares = w / sizes[group]
    return shares / np.bincount(group, shares).max()

"""Bets against calibration, from the sums of the bins of a batch."""

from __future__ import annotations

import numpy as np

from skcalib._scores.bins import BinSums
from skcalib._typing import Floats, Indices

from ._betting import GROWTH, SHIFTS, Bets, Capital, after, less_reserve

# Fewer rows are collected, since a bet takes half as long as an update with a single row.
ROWS_OF_A_BET = 20


def new_bets(n_curves: int, n_bins: int) -> Bets:
    """For each curve the bets on each bin, on all bins, and on both halves of the bins."""
    return Bets.new(n_curves, n_bins + 2)


def bet_on(bets: Bets, sums: Floats, n_before: int, n: int, tolerance: float) -> Bets:
    """Bets after a batch of ``n`` rows with the :class:`BinSums` (n_curves, 5, n_bins)."""
    n_curves, _, n_bins = sums.shape
    curves, bins = np.nonzero(sums[:, BinSums._fields.index("weight")])
    _, weight, _, hits, scores = sums[curves, :, bins].T
    # On single bins, on all bins, and on both halves: under-confidence is fewer events below 1/2,
    # and more above. A bin that contains 1/2 is in neither half.
    of_bins = np.empty((3, len(bins), len(SHIFTS)))
    of_bins[:2] = log_factors(weight, hits, scores, tolerance)
    of_bins[2] = _mirrored(of_bins[0], 2 * bins + 1 - n_bins)
    # Bins of a curve are next to one another, and each curve has at least one.
    each = np.arange(n_curves)
    joint = np.add.reduceat(of_bins[1:], curves.searchsorted(each), axis=1)
    reserve, capital = less_reserve(bets.reserve, n_before, n), bets.capital.copy()
    capital[curves, bins] = after(capital[curves, bins], reserve, of_bins[0])
    capital[:, n_bins:] = after(capital[:, n_bins:], reserve, joint.swapaxes(0, 1))
    return Bets(capital, reserve)


def _mirrored(factors: Capital, side: Indices) -> Capital:
    """Those of opposite shifts where the side is negative, and none where it is 0."""
    side = side[:, None]
    return np.where(side < 0, factors[:, ::-1], np.where(side, factors, 0))


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

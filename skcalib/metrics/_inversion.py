r"""Tests of calibration by drawn labels, and intervals of calibration errors by inversion.

A calibration error :math:`\psi` of bins grows with the sizes of the gaps :math:`\gamma`. Noise
:math:`\epsilon` of the gaps raises it. The expectation of :math:`|\gamma_m + \epsilon_m|` is a
convex function of :math:`|\gamma_m|`. So noise raises the error by the smallest amount if all gaps
are proportional to their noise, and by the largest amount if few bins have gaps. These two cases
give the upper and the lower end of an interval, without an assumption on the true gaps.

Arrays of bins are of shape (n_columns, n_bins), and arrays of draws (n_draws, n_columns, n_bins).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from skcalib._input.measures import Scored
from skcalib._typing import Floats, Indices

from ._calibration_error import HOMOGENEOUS, Formula
from ._curve import clopper_pearson, effective_rows, with_groups
from ._groups import Random, inflation, sums_by_group
from ._resampling import ROUNDING_ERROR, Measured, MeasuredByBins, MeasuredByCall, label_draws

# Gaps of more than this many standard deviations are not noise.
CLEAR = 2.5

# Pseudo-counts of calibrated rows that shrink the gaps of bins with few rows towards 0.
ROWS_ADDED = 2.0

# Hypotheses on the size of gaps, in units of their standard deviation or of the gaps.
MOST_TIMES, BISECTIONS = 1e6, 10

# More scores than this in one column are drawn in cells of neighbours of one bin.
MOST_SINGLE_ROWS, CELLS = 1 << 13, 1 << 10


class BinsOfColumns(NamedTuple):
    """Bins of all columns, with zeros for empty bins, as formulas take them."""

    weight: Floats
    share: Floats  #: fraction of the weight of each column
    confidence: Floats
    gap: Floats
    n_effective: Floats

    @property
    def accuracy(self) -> Floats:
        """Frequency of the event."""
        return np.clip(self.confidence - self.gap, 0, 1)

    def error(self, formula: Formula, gap: Floats) -> Floats:
        """Return the mean over the columns of a formula of gaps, for each draw."""
        return np.asarray(formula(self._replace(gap=gap)).mean(axis=-1))


# --------------------------------------------------------------------------------------------------
# Tests: labels are drawn from the probabilities.


def null_draws(measured: Measured, n_resamples: int, random: Random) -> list[Floats]:
    """Measure drawn labels, for each way that labels in a group may depend on one another."""
    draws = []
    for right in measured.problem.dependences:
        draw = null_measure(measured, right=right)
        draws.append(np.array([draw(random) for _ in range(n_resamples)]))
    return draws


def p_value(estimate: float, draws: list[Floats]) -> float:
    """Return the fraction of draws, and the estimate itself, that are at least the estimate.

    The draws of two dependences have two fractions. The larger one counts, or the mean of both if
    the finite number of draws explains their difference.
    """
    # Simulated labels that equal the labels of the rows are ties despite rounding.
    threshold = estimate - ROUNDING_ERROR * abs(estimate)
    counts = [int(np.count_nonzero(one >= threshold)) for one in draws]
    differ = max(counts) - min(counts) > 1.5 * np.sqrt(sum(counts))
    as_large = max(counts) if differ else np.ceil(np.mean(counts))
    return float((1 + as_large) / (1 + len(draws[0])))


def null_measure(measured: Measured, *, right: bool) -> Callable[[Random], float]:
    """Return a function that draws labels from the probabilities and measures them."""
    if isinstance(measured, MeasuredByCall):
        return measured.of_labels(measured.problem.rows.X, right=right)
    # As the measure of the rows, a debiased measure subtracts the noise of independent rows.
    bins, hits = bins_of(measured, None), drawn_hits(measured, right=right)
    shape = bins.weight.shape

    def measure(random: Random) -> float:
        gap = bins.confidence - ratio(hits(random).reshape(shape), bins.weight)
        return float(bins.error(measured.formula, gap))

    return measure


def drawn_hits(measured: MeasuredByBins, *, right: bool) -> Callable[[Random], Any]:
    """Return a function that draws labels, and sums the weights of events in all bins."""
    w, units, columns = measured.weights, measured.problem.units, measured.columns
    n_bins = max(len(column.edges) for column in columns) - 1
    cells = np.stack([column.bins + n_bins * k for k, column in enumerate(columns)])
    S = np.stack([column.score for column in columns])
    if units is None and len(S) == 1 and len(w) > MOST_SINGLE_ROWS:
        # Neighbours in a bin have their mean score, which does not reduce the variance of events.
        order = np.argsort(S[0])
        first = np.arange(len(w)) * CELLS // len(w) + cells[0, order]
        first = np.flatnonzero(np.diff(first, prepend=-1))
        values = np.stack([np.ones_like(w), w, w**2, w * S[0]])[:, order]
        count, weight, squared, scores = np.add.reduceat(values, first, axis=1)
        n = np.rint(effective_rows(count, weight, squared)).astype(np.intp)
        cell, p = cells[0, order[first]], np.clip(scores / weight, 0, 1)
        return lambda random: np.bincount(cell, random.binomial(n, p) / n * weight, n_bins)
    exclusive = len(S) > 1 and measured.problem.kind != "multilabel"
    right = right and measured.problem.kind != "top-label"  # the event is that a row is right
    draw, rows = label_draws(S, units, exclusive=exclusive, right=right), np.arange(len(w))
    size = n_bins * len(S)
    if exclusive:
        return lambda random: np.bincount(cells[draw(random), rows], w, size)
    return lambda random: np.bincount(cells.ravel(), (draw(random) * w).ravel(), size)


# --------------------------------------------------------------------------------------------------
# Intervals.


def error_interval(
    measured: Measured, n_resamples: int, level: float, random: Random
) -> tuple[float, float, float, float]:
    """Return the error, the ends of its interval, and the level: from 0 unless the test rejects."""
    draws, estimate = null_draws(measured, n_resamples, random), measured.of_rows()
    if isinstance(measured, MeasuredByBins):
        low, high = interval_of_bins(measured, level, n_resamples, random)
    else:
        low, high = interval_of_function(measured, estimate, draws, level, random)
    rejects = p_value(estimate, draws) <= 1 - level + ROUNDING_ERROR
    low = float(min(low, estimate)) if rejects else 0.0
    return estimate, low, float(max(high, estimate)), level


def interval_of_bins(
    measured: MeasuredByBins, level: float, n_resamples: int, random: Random
) -> tuple[float, float]:
    """Return the ends of the interval for a binned error."""
    # A debiased error estimates the true value of the plain error.
    formula = HOMOGENEOUS[measured.name.removeprefix("debiased_")]
    bins = bins_of(measured, measured.problem.groups)
    if formula is HOMOGENEOUS["maximum_calibration_error"]:
        return limits_of_largest_gap(bins, level)
    noise = Noise(measured, bins, formula, level, n_resamples, random)
    return noise.low(), noise.high()


def limits_of_largest_gap(bins: BinsOfColumns, level: float) -> tuple[float, float]:
    """Return limits of the mean over the columns of the largest gap, by Clopper and Pearson.

    One of m bins has a gap above its lower limit at the level 1 - alpha / m. The largest gap is
    below the largest upper limit, as the bin with the largest true gap is below its limit.
    """
    filled, n_bins = bins.weight > 0, (bins.weight > 0).sum(axis=1, keepdims=True)
    n, p = np.where(filled, bins.n_effective, 1), bins.confidence
    low, high = clopper_pearson(bins.accuracy, n, 1 - (1 - level) / n_bins)
    nearest = np.where(filled, np.maximum(low - p, p - high), 0)
    low, high = clopper_pearson(bins.accuracy, n, level)
    farthest = np.where(filled, np.maximum(p - low, high - p), 0)
    return float(nearest.max(axis=1, initial=0).mean()), float(farthest.max(axis=1).mean())


class Noise:
    """Draws of a binned error, for hypotheses on the gaps."""

    def __init__(
        self,
        measured: MeasuredByBins,
        bins: BinsOfColumns,
        formula: Formula,
        level: float,
        n_resamples: int,
        random: Random,
    ) -> None:
        # Fewer draws do not show the quantiles.
        self.size = max(n_resamples, int(np.ceil(2 / (1 - level))) - 1)
        self.bins, self.formula = bins, formula
        self.estimate = float(bins.error(formula, bins.gap))
        self.seed = random.randint(1 << 31)
        self.spread, self.share_error = spreads(measured, bins, formula)
        #: rank of the draw that few draws are below
        self.rank = max(int((1 - level) / 2 * (self.size + 1) + 1e-9) - 1, 0)
        self.z = float(ndtri((1 + level) / 2))
        n, hits = bins.n_effective, bins.accuracy * bins.n_effective
        smooth = (hits + ROWS_ADDED / 2) / (n + ROWS_ADDED)
        self.deviation = np.sqrt(ratio(smooth * (1 - smooth), n))

    def draws(self, gap: Floats) -> Floats:
        """Return draws of the error for these true gaps, in increasing order."""
        n, p = np.maximum(np.rint(self.bins.n_effective), 1), self.bins.confidence - gap
        filled, noisy = self.bins.weight > 0, np.zeros((self.size, *n.shape))
        n, p = n[filled].astype(np.intp), np.clip(p[filled], 0, 1)
        # The same random numbers for each hypothesis.
        hits = np.random.RandomState(self.seed).binomial(n, p, size=(self.size, len(n)))
        noisy[:, filled] = self.bins.confidence[filled] - hits / n
        errors = self.bins.error(self.formula, noisy)
        mean = errors.mean()
        return np.sort(np.maximum(mean + self.spread * (errors - mean), 0))

    def low(self) -> float:
        """Return the lower end, where only gaps that are clear are no noise."""
        n, p = self.bins.n_effective, self.bins.confidence
        variance = np.maximum(p * (1 - p), (n + 1) / (n + 2) ** 2)
        clear = np.abs(self.bins.gap) > CLEAR * np.sqrt(ratio(variance, n))
        gap = np.where(clear, self.bins.gap, 0.0) if clear.any() else self.bins.gap
        # Draws that equal the estimate reach it.
        end = self._crossing(gap, -1 - self.rank, self.estimate * (1 - 1e-9))
        return max(end - self._further(end), 0.0)

    def high(self) -> float:
        """Return the upper end: gaps that are proportional to their noise, or to the estimate."""
        side = np.where(self.bins.gap < 0, -1.0, 1.0)
        for one_side in (-1.0, 1.0):  # an error of one side only
            if float(self.bins.error(self.formula, one_side * self.deviation)) == 0:
                side = np.full_like(side, -one_side)
        # An estimate that is smaller than chance allows does not prove a small error.
        chance = float(np.quantile(self.draws(np.zeros_like(side)), 0.25))
        # Without an event in a bin, its probability may be larger than the mean score.
        directions = side * self.deviation, -side * self.deviation, self.bins.gap
        ends = [
            self._crossing(direction, self.rank, max(self.estimate, chance))
            for direction in directions
            if self.bins.error(self.formula, direction) > 0
        ]
        end = max(ends, default=0.0)
        return end + self._further(end)

    def _crossing(self, direction: Floats, rank: int, estimate: float) -> float:
        """Return the error of gaps in a direction, if the estimate has the rank among the draws."""
        p = self.bins.confidence

        def hypothesis(size: float) -> Floats:
            return np.clip(size * direction, p - 1, p)

        def is_above(size: float) -> bool:
            return bool(self.draws(hypothesis(size))[rank] > estimate)

        if is_above(0.0):
            return 0.0
        lower, upper = 0.0, 1.0
        while not is_above(upper) and upper < MOST_TIMES:
            lower, upper = upper, 2 * upper
        for _ in range(BISECTIONS):
            middle = (lower + upper) / 2
            lower, upper = (lower, middle) if is_above(middle) else (middle, upper)
        return float(self.bins.error(self.formula, hypothesis(upper)))

    def _further(self, end: float) -> float:
        """Return how far the standard error of scores and weights moves an end."""
        reach = abs(end - self.estimate)
        return float(np.hypot(reach, self.z * self.share_error)) - reach


def spreads(measured: MeasuredByBins, bins: BinsOfColumns, formula: Formula) -> tuple[float, float]:
    """Return two corrections, because the noise is drawn for each bin independently.

    The first correction is the ratio of two standard errors of the calibration error, with and
    without dependence between bins: a group has events in several bins, and a row has several
    columns. The second correction is the standard error from the scores and weights of the bins.
    """
    by_gap, by_share = (slope / len(bins.gap) for slope in slopes(bins, formula))
    w, rows = measured.weights, np.zeros((2, len(measured.weights)))
    for k, column in enumerate(measured.columns):
        slope = ratio(by_gap[k], bins.weight[k])[column.bins]
        rows[0] += w * slope * (column.event - bins.accuracy[k, column.bins])
        share = by_share[k] - bins.share[k] @ by_share[k]
        rows[1] += w * share[column.bins] / w.sum()
        rows[1] += w * slope * (column.score - bins.confidence[k, column.bins])
    sums = [sums_by_group(terms, measured.problem.groups) for terms in rows]
    observed, share_error = (float(np.sqrt(terms @ terms)) for terms in sums)
    independent = by_gap**2 * ratio(bins.accuracy * (1 - bins.accuracy), bins.n_effective)
    expected = float(np.sqrt(independent.sum()))
    return max(observed / expected, 1.0) if expected > 0 else 1.0, share_error


def slopes(bins: BinsOfColumns, formula: Formula) -> tuple[Floats, Floats]:
    """Return derivatives of each column's error by its gaps and by the weights of its bins."""
    step, gap, share = 1e-7, bins.gap[:, None], bins.share[:, None]
    changes = step * np.eye(bins.gap.shape[1])

    def error(gap_change: Floats, share_change: Floats) -> Floats:
        changed = bins._replace(gap=gap + gap_change, share=share + share_change)
        return np.asarray(formula(changed))

    zeros = np.zeros_like(changes)
    by_gap = (error(changes, zeros) - error(-changes, zeros)) / (2 * step)
    return by_gap, (error(zeros, changes) - error(zeros, zeros)) / step


def interval_of_function(
    measured: MeasuredByCall, estimate: float, draws: list[Floats], level: float, random: Random
) -> tuple[float, float]:
    """Return the ends of the interval of a function that is a calibration error.

    The error for a sum of gaps is at most the sum of their errors, so the noise is added on both
    sides. The noise is the error of labels drawn from the probabilities, ``draws``, and from
    recalibrated probabilities. If the error is a square, its root has this interval.
    """
    P, power, noise = recalibrated(measured), 1 / measured.power, [*draws]
    for right in measured.problem.dependences:
        draw = measured.of_labels(P, right=right)
        noise.append(np.array([draw(random) for _ in draws[0]]))
    reach = np.quantile(noise, (1 + level) / 2, axis=1, method="higher").max() ** power
    low, high = max(estimate**power - reach, 0.0), estimate**power + reach
    return low ** (1 / power), high ** (1 / power)


def recalibrated(measured: MeasuredByCall) -> Floats:
    """Return the probabilities minus the gaps of 15 bins, in the shape of the probabilities."""
    problem, kind = measured.problem, measured.problem.kind
    if kind != "multilabel":
        kind = "binary" if problem.rows.X.ndim == 1 else "classwise"
    one = MeasuredByBins(
        problem._replace(kind=kind, pos_label=None), "expected_calibration_error", 15, "uniform"
    )
    bins = bins_of(one, problem.groups)
    gap = bins.gap * ratio(bins.n_effective, bins.n_effective + ROWS_ADDED)
    P = np.stack([c.score - gap[k, c.bins] for k, c in enumerate(one.columns)], axis=1)
    P = np.clip(P, 0, 1)
    if kind == "classwise":
        total = P.sum(axis=1, keepdims=True)
        P = np.where(total > 0, P / np.where(total > 0, total, 1), 1 / P.shape[1])
    return P[:, 0] if problem.rows.X.ndim == 1 else P


def bins_of(measured: MeasuredByBins, groups: Indices | None) -> BinsOfColumns:
    """Return the bins of all rows, with effective numbers of rows that account for groups (n,)."""
    columns, w = measured.columns, measured.problem.rows.w
    shape = len(columns), max(len(column.edges) for column in columns) - 1
    weight, confidence, gap, n = np.zeros((4, *shape))
    for k, (column, curve) in enumerate(zip(columns, measured.curves(), strict=True)):
        filled, size = np.unique(column.bins), curve.n_effective
        if groups is not None:
            scored = Scored(column.label, column.score, column.event, w)
            of_groups = with_groups(curve, scored, groups)
            few = inflation(0.95, np.maximum(np.asarray(of_groups.n_groups) - 1, 1))
            size = of_groups.n_effective / np.where(of_groups.n_effective < size, few**2, 1)
        for values, of_bins in zip(
            (weight, confidence, gap, n),
            (curve.weight, curve.confidence, curve.gap, size),
            strict=True,
        ):
            values[k, filled] = of_bins
    return BinsOfColumns(weight, weight / weight.sum(axis=1, keepdims=True), confidence, gap, n)


def ratio(a: Floats | float, b: Floats) -> Floats:
    """Return ``a / b``, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), b.shape)), where=b > 0)

"""Confidence limits of calibration errors that are homogeneous in the gaps, by test inversion.

The interval holds the true errors under which the observed error is not significant. True gaps
are assumed to be multiples ``m * gap`` of the observed ones, which are ``m * gap + noise``. Noise
is simulated by labels from the probabilities for ``m = 0``, where the model is calibrated, and from
the accuracies of bins for gaps as large as those observed; quantiles are interpolated between.
Arrays are of shape (n_columns, n_bins), draws of shape (n_draws, n_columns, n_bins).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from skcalib._typing import Floats, Indices

from ._curve import effective_rows
from ._mean_gap import mean_gap_ends
from ._resampling import ROUNDING, MeasuredByBins, Random, draw_rows, labels_at

# Neighbouring bins are pooled to blocks of this many times sqrt(n) of n rows: enough rows to reduce
# the noise of gaps, and a fraction of all rows that vanishes as n grows.
POOLED = 4.0

# Pseudo-counts of calibrated rows that shrink the gaps of bins with few rows towards 0.
ROWS_ADDED = 2.0

# Variance of the number of events below which labels drawn at the estimate have too little noise.
ENOUGH = 10.0

# Bound on the largest multiple of a gap, at which accuracies have long been clipped to 0 or 1.
FAR = 1e3


class BinsOfColumns(NamedTuple):
    """Bins of all columns, with zeros for empty bins."""

    cells: Indices  #: index of the bin of each row among all columns, shape (n_columns, n_rows)
    weight: Floats
    confidence: Floats
    gap: Floats
    n_effective: Floats

    @property
    def share(self) -> Floats:
        """Fraction of the weight of each column."""
        return self.weight / self.weight.sum(axis=1, keepdims=True)


class Draws(NamedTuple):
    """Noise of gaps, with labels from probabilities or pooled accuracies, and weight fractions."""

    calibrated: Floats
    pooled: Floats
    share: Floats


def inverted_ends(
    measured: MeasuredByBins, estimate: float, n_resamples: int, random: Random, level: float
) -> tuple[float, float]:
    """Ends of the confidence interval of a binned calibration error."""
    return simulated(measured, n_resamples, random, level).ends(measured.of_gaps, estimate)


def simulated(
    measured: MeasuredByBins, n_resamples: int, random: Random, level: float
) -> Simulation:
    """Draws for the intervals of all measures of the bins that are homogeneous in the gaps."""
    bins = bins_of(measured)
    pooled, significant = pooled_gaps(bins)
    draws = drawn(measured, bins, pooled, n_resamples, random)
    mean_gap = limits_of_few(measured, bins, pooled, level)
    return Simulation(bins, draws, pooled, significant, mean_gap, level)


def limits_of_few(
    measured: MeasuredByBins, bins: BinsOfColumns, pooled: Floats, level: float
) -> tuple[float, float] | None:
    """Limits of the mean gap of a single column in which hardly a row is wrong, else None."""
    accuracy = np.clip(bins.confidence - pooled, 0, 1)
    variance = np.sum(bins.n_effective * accuracy * (1 - accuracy))
    if len(measured.columns) > 1 or variance >= ENOUGH:
        return None
    (column,), rows = measured.columns, measured.problem.rows
    w = np.ones(rows.n_rows) if rows.w is None else rows.w
    return mean_gap_ends(column.score, column.event, w, level, correction=0.5)


class Simulation(NamedTuple):
    """Bins, their pooled gaps as they are and shrunk, and draws of their noise."""

    bins: BinsOfColumns
    draws: Draws
    pooled: Floats
    significant: Floats
    mean_gap: tuple[float, float] | None  #: its limits where draws have hardly any noise
    level: float

    def ends(
        self, of_gaps: Callable[[Floats, Floats], Any], estimate: float
    ) -> tuple[float, float]:
        """Ends of the confidence interval of a measure of gaps."""
        bins, level = self.bins, self.level
        size = np.sum(bins.share * np.abs(self.pooled))

        def end(gap: Floats, quantile: float, otherwise: float) -> float:
            solver = Inversion(bins, self.draws, of_gaps, gap, size)
            return solver.end(estimate, quantile, level, otherwise)

        few_rows = bins.n_effective / (bins.n_effective + ROWS_ADDED)
        shapes = [self.pooled, self.significant, bins.gap * few_rows]
        # Gaps with an error of 0 have no multiples to search.
        some = [bool(error_of(of_gaps, gap, bins.share)) for gap in shapes]
        # For the same true error, the observed one is larger for uneven gaps than for even ones.
        low = end(shapes[1 if some[1] else 2], (1 + level) / 2, 0.0)
        # An estimate below what noise alone gives only shows that the true error is not larger.
        high = max(end(shapes[k], (1 - level) / 2, estimate) for k in ([0, 2] if some[0] else [2]))
        if self.mean_gap is not None:
            # No error is less than that of an even gap of the same mean.
            even = (np.full_like(bins.gap, gap) for gap in self.mean_gap)
            errors = [float(error_of(of_gaps, gap, bins.share)) for gap in even]
            cancelling = bins.gap.min() < 0 < bins.gap.max()  # the mean does not show these gaps
            low, high = low if cancelling else min(low, *errors), max(high, *errors)
        return min(low, high), high


def bins_of(measured: MeasuredByBins) -> BinsOfColumns:
    """The bins of all rows."""
    columns = measured.columns
    n_bins = max(len(column.edges) for column in columns) - 1
    once = np.ones(measured.problem.rows.n_rows, dtype=np.intp)
    sums = np.zeros((5, len(columns), n_bins))
    for k, found in enumerate(measured.sums(once, [column.event for column in columns])):
        sums[:, k, : len(found.weight)] = found
    count, weight, squared, hits, scores = sums
    return BinsOfColumns(
        np.stack([column.bins + n_bins * k for k, column in enumerate(columns)]),
        weight,
        ratio(scores, weight),
        ratio(scores - hits, weight),
        effective_rows(count, weight, squared),
    )


def pooled_gaps(bins: BinsOfColumns) -> tuple[Floats, Floats]:
    """Gaps of pooled neighbouring bins, and the same shrunk by the variance of their noise."""
    n = bins.n_effective
    middle = np.cumsum(n, axis=1) - n / 2
    block = (middle / (POOLED * np.sqrt(n.sum(axis=1, keepdims=True)))).astype(np.intp)
    block += (block.max() + 1) * np.arange(len(block))[:, None]

    def pooled(values: Floats) -> Floats:
        return np.bincount(block.ravel(), values.ravel())[block]

    weight, rows = pooled(bins.weight), pooled(n)
    gap, confidence = (
        np.where(n > 0, ratio(pooled(bins.weight * values), weight), 0.0)
        for values in (bins.gap, bins.confidence)
    )
    gap *= rows / (rows + ROWS_ADDED)
    accuracy = np.clip(confidence - gap, 0, 1)
    noise = ratio(accuracy * (1 - accuracy), rows)
    # Positive-part James-Stein shrinkage: gaps no larger than their noise become 0.
    return gap, gap * np.clip(1 - ratio(noise, gap**2), 0, 1)


def ratio(a: Floats, b: Floats) -> Floats:
    """``a / b``, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(b.shape), where=b > 0)


def error_of(of_gaps: Callable[[Floats, Floats], Any], gap: Floats, share: Floats) -> Any:
    """Error of gaps, for each draw if there are several: the mean over the columns."""
    return of_gaps(gap, share).mean(axis=-1)


def drawn(
    measured: MeasuredByBins, bins: BinsOfColumns, pooled: Floats, n_resamples: int, random: Random
) -> Draws:
    """Draws of labels, the same as those of :func:`calibration_test`, and then of rows."""
    rows, shape = measured.problem.rows, bins.weight.shape
    n = rows.n_rows
    w = np.ones(n) if rows.w is None else rows.w
    score = np.stack([column.score for column in measured.columns])
    probabilities = [score, np.clip(score - pooled.ravel()[bins.cells], 0, 1)]
    if len(score) > 1:
        # Where all classes have probability 0, they are equally probable.
        probabilities = [np.where(p.sum(axis=0) > 0, p, 1.0) for p in probabilities]
        probabilities = [p / p.sum(axis=0) for p in probabilities]
    sources = [(_expected(bins, p, w), _cumulative(p)) for p in probabilities]
    noise, share = np.empty((2, n_resamples, *shape)), np.empty((n_resamples, *shape))
    for r in range(n_resamples):
        u = random.uniform(size=n)
        for of_source, (expected, cumulative) in zip(noise, sources, strict=True):
            hits = _hits(bins, cumulative, u, w)
            of_source[r] = ratio(expected - hits, bins.weight)
    for r in range(n_resamples):
        weight = draw_rows(n, random) * w
        share[r] = _sums(bins.cells, np.broadcast_to(weight, bins.cells.shape), shape)
        share[r] /= weight.sum()
    return Draws(noise[0], noise[1], share)


def _expected(bins: BinsOfColumns, p: Floats, w: Floats) -> Floats:
    return _sums(bins.cells, p * w, bins.weight.shape)


def _cumulative(p: Floats) -> Floats:
    """Cumulative probabilities for :func:`labels_at`, or the probabilities of a single event."""
    return p.T.cumsum(axis=1) if len(p) > 1 else p[0]


def _hits(bins: BinsOfColumns, cumulative: Floats, u: Floats, w: Floats) -> Floats:
    """Weight of the rows in each bin whose event occurs."""
    if cumulative.ndim == 1:
        return _sums(bins.cells[0], w * (u < cumulative), bins.weight.shape)
    rows = np.arange(len(u))  # classes exclude one another
    return _sums(bins.cells[labels_at(cumulative, u), rows], w, bins.weight.shape)


def _sums(cells: Indices, values: Floats, shape: tuple[int, ...]) -> Floats:
    size = int(np.prod(shape))
    sums = np.bincount(cells.ravel(), values.ravel(), size).astype(np.float64, copy=False)
    return sums.reshape(shape)


class Inversion(NamedTuple):
    """True errors of multiples of gaps, and the distribution of the observed errors."""

    bins: BinsOfColumns
    draws: Draws
    of_gaps: Callable[[Floats, Floats], Any]
    gap: Floats
    size: Any  #: mean absolute pooled gap, at which the noise is that of the pooled draws

    def true_gap(self, multiple: float) -> Floats:
        """Multiples of the gaps, clipped so that accuracies are between 0 and 1."""
        confidence = self.bins.confidence
        return confidence - np.clip(confidence - multiple * self.gap, 0, 1)

    def error(self, multiple: float) -> float:
        """The true error."""
        return float(error_of(self.of_gaps, self.true_gap(multiple), self.bins.share))

    def quantile(self, multiple: float, q: float) -> float:
        """Quantile of the observed errors."""
        gap, share = self.true_gap(multiple), self.bins.share
        by_share = error_of(self.of_gaps, gap, self.draws.share) - self.error(multiple)

        def of_noise(noise: Floats) -> float:
            return float(np.quantile(error_of(self.of_gaps, gap + noise, share) + by_share, q))

        size = multiple * np.sum(share * np.abs(self.gap))
        mixed = float(size / self.size) if size < self.size else 1.0
        if multiple == 0:
            return of_noise(self.draws.calibrated)
        if mixed == 1:
            return of_noise(self.draws.pooled)
        of_both = of_noise(self.draws.calibrated), of_noise(self.draws.pooled)
        return (1 - mixed) * of_both[0] + mixed * of_both[1]

    def end(self, estimate: float, q: float, level: float, otherwise: float) -> float:
        """The true error for which the estimate is the quantile q of the observed errors."""
        if self.quantile(0.0, q) >= estimate * (1 - ROUNDING):
            return otherwise
        upper = 1.0
        while self.quantile(upper, q) < estimate:
            if upper * np.abs(self.gap).max() >= FAR:  # most draws have no rows in these bins
                largest = error_of(self.of_gaps, self.true_gap(upper), self.draws.share)
                return float(np.quantile(largest, (1 + level) / 2))
            upper *= 2
        root = brentq(lambda m: self.quantile(m, q) - estimate, 0.0, upper, xtol=1e-5, rtol=1e-5)
        return self.error(root)

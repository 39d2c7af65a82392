"""Confidence limits of calibration errors that are homogeneous in the gaps, by test inversion.

The interval holds the true errors under which the observed error is not significant. True gaps
are assumed to be multiples ``m * gap`` of the observed ones, which are ``m * gap + noise``. Noise
is simulated by labels from the probabilities for ``m = 0``, where the model is calibrated, and from
the accuracies of bins for gaps as large as those observed; quantiles are interpolated between.
Arrays are of shape (n_columns, n_bins), draws of shape (n_draws, n_columns, n_bins).

Where hardly a row is wrong, Wilson's limits of the mean gap bound the interval.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from skcalib._rows import Bools, Floats, Indices

from ._calibration_error import Formula
from ._curve import effective_rows
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


class Gaps(NamedTuple):
    """What formulas that are homogeneous in the gaps take of bins."""

    gap: Floats
    share: Floats


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


class Simulation(NamedTuple):
    """Bins, their pooled gaps as they are and shrunk, and draws of their noise."""

    bins: BinsOfColumns
    draws: Draws
    pooled: Floats
    significant: Floats
    mean_gap: tuple[float, float] | None  #: its limits where draws have hardly any noise
    level: float

    def ends(self, formula: Formula, estimate: float) -> tuple[float, float]:
        """Ends of the confidence interval of a measure of gaps."""
        bins, level = self.bins, self.level
        few_rows = bins.n_effective / (bins.n_effective + ROWS_ADDED)
        pooled, significant, single = (
            Inversion(self, formula, gap)
            for gap in (self.pooled, self.significant, bins.gap * few_rows)
        )
        # For the same true error, the observed one is larger for uneven gaps than for even ones.
        # Gaps with an error of 0 have no multiples to search.
        lower = significant if significant.error(self.significant) else single
        low = lower.end(estimate, (1 + level) / 2, 0.0)
        # An estimate below what noise alone gives only shows that the true error is not larger.
        shapes = [pooled, single] if pooled.error(self.pooled) else [single]
        high = max(shape.end(estimate, (1 - level) / 2, estimate) for shape in shapes)
        if self.mean_gap is not None:
            # No error is less than that of an even gap of the same mean.
            errors = [float(single.error(np.full_like(bins.gap, gap))) for gap in self.mean_gap]
            cancelling = bins.gap.min() < 0 < bins.gap.max()  # the mean does not show these gaps
            low, high = low if cancelling else min(low, *errors), max(high, *errors)
        return min(low, high), high


class Inversion(NamedTuple):
    """True errors of multiples of gaps, and the distribution of the observed errors."""

    simulation: Simulation
    formula: Formula
    gap: Floats

    def error(self, gap: Floats, share: Floats | None = None) -> Any:
        """Error of gaps, for each draw if there are several: the mean over the columns."""
        share = self.simulation.bins.share if share is None else share
        return self.formula(Gaps(gap, share)).mean(axis=-1)

    def true_gap(self, multiple: float) -> Floats:
        """Multiples of the gaps, clipped so that accuracies are between 0 and 1."""
        confidence = self.simulation.bins.confidence
        return confidence - np.clip(confidence - multiple * self.gap, 0, 1)

    def quantile(self, multiple: float, q: float) -> float:
        """Quantile of the observed errors."""
        (bins, draws, pooled, *_), gap = self.simulation, self.true_gap(multiple)
        by_share = self.error(gap, draws.share) - float(self.error(gap))

        def of_noise(noise: Floats) -> float:
            return float(np.quantile(self.error(gap + noise) + by_share, q))

        # The noise is that of the pooled draws if gaps are as large as the pooled ones.
        size, full = (np.sum(bins.share * np.abs(g)) for g in (self.gap, pooled))
        part = float(multiple * size / full) if multiple * size < full else 1.0
        if multiple == 0:
            return of_noise(draws.calibrated)
        if part == 1:
            return of_noise(draws.pooled)
        return (1 - part) * of_noise(draws.calibrated) + part * of_noise(draws.pooled)

    def end(self, estimate: float, q: float, otherwise: float) -> float:
        """The true error for which the estimate is the quantile q of the observed errors."""
        if self.quantile(0.0, q) >= estimate * (1 - ROUNDING):
            return otherwise
        upper = 1.0
        while self.quantile(upper, q) < estimate:
            if upper * np.abs(self.gap).max() >= FAR:  # most draws have no rows in these bins
                largest = self.error(self.true_gap(upper), self.simulation.draws.share)
                return float(np.quantile(largest, (1 + self.simulation.level) / 2))
            upper *= 2
        root = brentq(lambda m: self.quantile(m, q) - estimate, 0.0, upper, xtol=1e-5, rtol=1e-5)
        return float(self.error(self.true_gap(root)))


def simulated(
    measured: MeasuredByBins, n_resamples: int, random: Random, level: float
) -> Simulation:
    """Draws for the intervals of all measures of the bins that are homogeneous in the gaps."""
    bins = bins_of(measured)
    pooled, significant = pooled_gaps(bins)
    draws = drawn(measured, bins, pooled, n_resamples, random)
    accuracy = np.clip(bins.confidence - pooled, 0, 1)
    variance, mean_gap = np.sum(bins.n_effective * accuracy * (1 - accuracy)), None
    if len(measured.columns) == 1 and variance < ENOUGH:
        *_, score, event = measured.columns[0]
        mean_gap = mean_gap_ends(score, event, measured.weights, level, correction=0.5)
    return Simulation(bins, draws, pooled, significant, mean_gap, level)


def bins_of(measured: MeasuredByBins) -> BinsOfColumns:
    """The bins of all rows."""
    columns = measured.columns
    n_bins = max(len(column.edges) for column in columns) - 1
    sums = np.zeros((5, len(columns), n_bins))
    for k, column_sums in enumerate(measured.sums()):
        sums[:, k, : len(column_sums.weight)] = column_sums
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


def drawn(
    measured: MeasuredByBins, bins: BinsOfColumns, pooled: Floats, n_resamples: int, random: Random
) -> Draws:
    """Draws of labels, the same as those of :func:`calibration_test`, and then of rows."""
    w, n = measured.weights, len(measured.weights)
    score = np.stack([column.score for column in measured.columns])

    def sums(cells: Indices, weight: Floats) -> Floats:
        total = np.bincount(cells.ravel(), weight.ravel(), bins.weight.size)
        return total.astype(np.float64, copy=False).reshape(bins.weight.shape)

    probabilities = [score, np.clip(score - pooled.ravel()[bins.cells], 0, 1)]
    if len(score) > 1:
        # Where all classes have probability 0, they are equally probable.
        probabilities = [np.where(p.sum(axis=0) > 0, p, 1.0) for p in probabilities]
        probabilities = [p / p.sum(axis=0) for p in probabilities]
    sources = [(sums(bins.cells, p * w), p.T.cumsum(axis=1)) for p in probabilities]
    noise, share = np.empty((2, n_resamples, *pooled.shape)), np.empty((n_resamples, *pooled.shape))
    for r in range(n_resamples):
        u = random.uniform(size=n)
        for draws, (expected, cumulative) in zip(noise, sources, strict=True):
            if len(score) == 1:
                hits = sums(bins.cells[0], w * (u < cumulative[:, 0]))
            else:  # classes exclude one another
                hits = sums(bins.cells[labels_at(cumulative, u), np.arange(n)], w)
            draws[r] = ratio(expected - hits, bins.weight)
    for r in range(n_resamples):
        weight = draw_rows(n, random) * w
        share[r] = sums(bins.cells, np.broadcast_to(weight, bins.cells.shape)) / weight.sum()
    return Draws(noise[0], noise[1], share)


def mean_gap_ends(
    confidence: Floats, hit: Floats | Bools, w: Floats, level: float, correction: float = 0.0
) -> tuple[float, float]:
    r"""Wilson's confidence interval of the mean confidence less the accuracy.

    Its ends are the gaps g for which :math:`|\hat g - g| = z\, s(g) + \kappa \sum_i w_i^2 / W^2`,
    where :math:`s(g)^2 = \sum_i w_i^2 p_i (1 - p_i) / W^2`, and the probabilities :math:`p_i` of
    being right are the confidences, moved proportionally towards 0 or 1 until their mean is less by
    g. The correction for continuity :math:`\kappa` is 0, or 1/2 for ends close to the exact ones.
    """
    c, share = confidence.astype(np.float64), w / w.sum()
    mean, gap = float(share @ c), float(share @ (c - hit))
    z, least = float(ndtri((1 + level) / 2)), correction * float(share @ share)

    def excess(g: float) -> float:
        wrong = 1 - c + c * (g / mean) if g > 0 else (1 - c) * (1 + g / max(1 - mean, 1e-300))
        distance = max(abs(g - gap) - least, 0.0)
        return distance**2 - z**2 * float(share**2 @ (wrong * (1 - wrong)))

    def end(bound: float) -> float:
        # The variance, and with it the excess, may be 0 at the estimate itself.
        start = gap + 1e-9 * (bound - gap)
        if excess(start) >= 0 or excess(bound) <= 0:
            return start if excess(start) >= 0 else bound
        return float(brentq(excess, start, bound))

    return end(min(mean - 1, gap)), end(max(mean, gap))

r"""Confidence limits of calibration errors by the noise of the gaps of bins.

The true error of bins is :math:`\psi(\gamma)`, where :math:`\psi` is sublinear (the mean, largest
or quadratic mean size of gaps). The gaps observed are :math:`g = \gamma + \epsilon`, with noise
:math:`\epsilon`, so that for the weights :math:`\lambda` of a subgradient of :math:`\psi` at
:math:`\gamma`

.. math:: \langle \lambda, \epsilon \rangle \le \psi(g) - \psi(\gamma) \le \psi(\epsilon) ,

whatever the true gaps are. The right side, whose noise is drawn, gives the lower end; the left
one, a sum over rows, the upper end. Arrays of bins are of shape (n_columns, n_bins), and those of
draws of shape (n_draws, n_columns, n_bins).
"""

from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from skcalib._rows import Bools, Floats, Indices

from ._calibration_error import FORMULAS, HOMOGENEOUS, Formula
from ._curve import effective_rows
from ._resampling import ROUNDING, MeasuredByBins, Random, labels_at

# Neighbouring bins are pooled to blocks of this many times sqrt(n) of n rows: enough rows to reduce
# the noise of gaps, and a fraction of all rows that vanishes as n grows.
POOLED = 4.0

# Pseudo-counts of calibrated rows that shrink the gaps of bins with few rows towards 0.
ROWS_ADDED = 2.0

# Of more scores in one column than this, neighbours in a bin are drawn together, as so many cells.
MOST_ROWS, CELLS = 1 << 13, 1 << 10

# The lower end, as a fraction of the estimate, is searched between noise of gaps of these sizes.
FRACTIONS = (0.0, 1 / 16, 1 / 4, 1.0)
BETWEEN = np.linspace(0, 1, 513)


class BinsOfColumns(NamedTuple):
    """Bins of all columns, with zeros for empty bins; what formulas take of a reliability curve."""

    weight: Floats
    share: Floats  #: fraction of the weight of each column
    confidence: Floats
    gap: Floats
    n_effective: Floats

    @property
    def accuracy(self) -> Floats:
        """Frequency of the event."""
        return np.clip(self.confidence - self.gap, 0, 1)

    def error(self, formula: Formula, gap: Floats) -> Any:
        """Mean over the columns of a formula of gaps, for each draw if there are several."""
        return formula(self._replace(gap=gap)).mean(axis=-1)


class Cells(NamedTuple):
    """Rows, or neighbours of one column that are drawn together."""

    bins: Indices  #: index of the bin among those of all columns, shape (n_columns, n_cells)
    score: Floats  #: mean score, shape (n_columns, n_cells)
    weight: Floats  #: of all rows, shape (n_cells,)
    n_rows: Indices  #: effective number of rows, shape (n_cells,)

    def probabilities(self, gap: Floats) -> Floats:
        """Those of the event of each column, (n_columns, n_cells), less the gap of their bin."""
        P = np.clip(self.score - gap.ravel()[self.bins], 0, 1)
        if len(P) > 1:
            # Where all classes have probability 0, they are equally probable.
            P = np.where(P.sum(axis=0) > 0, P, 1.0)
            P = P / P.sum(axis=0)
        return P


class Simulation(NamedTuple):
    """Bins and cells, and draws of the noise of the gaps."""

    bins: BinsOfColumns
    cells: Cells
    pooled: Floats  #: gaps of pooled bins
    noise: Floats  #: for each of :data:`FRACTIONS` of the pooled gaps
    normal: Floats  #: one standard normal number for each draw
    level: float

    def ends(self, name: str, estimate: float) -> tuple[float, float]:
        """Ends of the confidence interval of the true error, of the measure of this name."""
        plain = HOMOGENEOUS[name.removeprefix("debiased_")]
        spread = self.spread_of_shares(plain)
        return self.low(FORMULAS[name], estimate, spread), self.high(plain, spread)

    def low(self, formula: Formula, estimate: float, spread: float) -> float:
        """The least true error that noise raises to the estimate with a probability of 1 - level.

        It is 0 if and only if noise of a calibrated model does so.
        """
        draws = [
            self.bins.error(formula, noise) + part * spread * self.normal
            for part, noise in zip(FRACTIONS, self.noise, strict=True)
        ]
        if p_value(estimate, draws[0]) > 1 - self.level + ROUNDING:
            return 0.0
        quantiles = np.quantile(draws, self.level, axis=1, method="higher")
        reached = np.interp(BETWEEN, np.sqrt(FRACTIONS), quantiles)
        enough = np.append(BETWEEN[1:-1] ** 2 * estimate + reached[1:-1] >= estimate, True)
        return float(BETWEEN[1:][enough.argmax()] ** 2 * estimate)

    def high(self, plain: Formula, spread: float) -> float:
        """The largest true error from which noise may lead to the observed gaps."""
        (_, _, confidence, gap, n), z = self.bins, float(ndtri((1 + self.level) / 2))
        accuracy = np.clip(confidence - self.pooled, 0, 1)
        size = z * np.sqrt(ratio(accuracy * (1 - accuracy) + ratio(1.0, n), n))
        ends = []
        for shift in (0.0, np.where(gap < 0, -size, size), size, -size):
            slope = slopes(self.bins, plain, gap + shift)[0]
            further = distance(self.cells, self.bins, self.pooled, slope, z, spread)
            ends.append(float(np.sum(slope * gap) / len(slope)) + further)
        # Accuracies are between 0 and 1.
        extremes = (confidence, confidence - 1, confidence - (confidence < 0.5))
        largest = max(float(self.bins.error(plain, extreme)) for extreme in extremes)
        return max(float(self.bins.error(plain, gap)), min(max(ends), largest))

    def spread_of_shares(self, formula: Formula) -> float:
        """Standard error of the true error of bins, since the weight of bins is a sample's."""
        bins, weight, n = self.cells.bins, self.cells.weight, self.cells.n_rows
        of_cells = slopes(self.bins, formula, self.pooled)[1].ravel()[bins].mean(axis=0)
        off = of_cells - np.average(of_cells, weights=weight)
        return float(np.sqrt(np.sum((weight * off) ** 2 / n)) / weight.sum())


def slopes(bins: BinsOfColumns, formula: Formula, gap: Floats) -> tuple[Floats, Floats]:
    """Derivatives of the error of each column by its gaps and by the weight of its bins."""
    step, share = 1e-7, bins.share[:, None]
    each = step * np.eye(gap.shape[1])

    def error(of_gap: Floats, of_share: Floats) -> Floats:
        changed = bins._replace(gap=gap[:, None] + of_gap, share=share + of_share)
        return np.asarray(formula(changed))

    none = np.zeros_like(each)
    by_gap = (error(each, none) - error(-each, none)) / (2 * step)
    return by_gap, (error(none, each) - error(none, none)) / step


def distance(
    cells: Cells, bins: BinsOfColumns, pooled: Floats, slope: Floats, z: float, spread: float
) -> float:
    r"""Distance of the upper end of a weighted sum of gaps from its estimate, by Wilson's method.

    For a true sum that is larger by :math:`h`, probabilities are moved proportionally towards the
    outcome of each row that makes it largest; the end is the h for which
    :math:`(h - \kappa)^2 = z^2 (s(h)^2 + s_0^2)`, with the standard error :math:`s(h)` for these
    probabilities, that of the weight of bins, and a correction for continuity :math:`\kappa`.
    """
    w, P = cells.weight, cells.probabilities(pooled)
    L = ratio(slope, bins.weight).ravel()[cells.bins] / len(slope)
    if len(P) == 1:  # the other outcome is that there is no event
        P, L = np.concatenate([P, 1 - P]), np.concatenate([L, 0 * L])
    mean, square, least = (P * L).sum(axis=0), (P * L**2).sum(axis=0), L.min(axis=0)
    squared = w**2 / cells.n_rows
    moved, correction = w @ (mean - least), squared @ (L.max(axis=0) - least) / (2 * w.sum())
    if moved <= 0:
        return 0.0
    # At a fraction x of the way, h = moved * x, and the variance is a polynomial of x.
    constant, bend = squared @ (square - mean**2), squared @ (least - mean) ** 2
    linear = squared @ (least**2 - square + 2 * mean * (mean - least))
    equation = [
        moved**2 + z**2 * bend,
        -2 * moved * correction - z**2 * linear,
        correction**2 - z**2 * (constant + spread**2),
    ]
    return float(moved * min(1.0, np.max(np.roots(equation).real)))


def simulated(
    measured: MeasuredByBins, n_resamples: int, random: Random, level: float
) -> Simulation:
    """Draws for the intervals of all measures of the bins."""
    bins, cells = bins_of(measured), cells_of(measured)
    pooled = pooled_gaps(bins)
    noise = drawn(bins, cells, [part * pooled for part in FRACTIONS], n_resamples, random)
    normal = random.normal(size=n_resamples)
    return Simulation(bins, cells, pooled, noise, normal, level)


def null_errors(measured: MeasuredByBins, n_resamples: int, random: Random) -> Floats:
    """The measure for labels drawn from the probabilities, the same as those of an interval."""
    bins = bins_of(measured)
    noise = drawn(bins, cells_of(measured), [np.zeros_like(bins.gap)], n_resamples, random)
    return np.asarray(bins.error(measured.formula, noise[0]))


def p_value(estimate: float, draws: Floats) -> float:
    """Fraction of measures of a calibrated model as large as the one observed, counting that."""
    # Simulated labels that equal the given ones must count as a tie despite rounding.
    as_large = int(np.count_nonzero(draws >= estimate - ROUNDING * abs(estimate)))
    return (1 + as_large) / (1 + len(draws))


def bins_of(measured: MeasuredByBins) -> BinsOfColumns:
    """The bins of all rows."""
    columns = measured.columns
    n_bins = max(len(column.edges) for column in columns) - 1
    sums = np.zeros((5, len(columns), n_bins))
    for k, column_sums in enumerate(measured.sums()):
        sums[:, k, : len(column_sums.weight)] = column_sums
    count, weight, squared, hits, scores = sums
    share, n = weight / weight.sum(axis=1, keepdims=True), effective_rows(count, weight, squared)
    return BinsOfColumns(weight, share, ratio(scores, weight), ratio(scores - hits, weight), n)


def cells_of(measured: MeasuredByBins) -> Cells:
    """Each row, or neighbours in the bins of one column of many rows."""
    columns, w = measured.columns, measured.weights
    n_bins = max(len(column.edges) for column in columns) - 1
    bins = np.stack([column.bins + n_bins * k for k, column in enumerate(columns)])
    score = np.stack([column.score for column in columns])
    if len(columns) > 1 or len(w) <= MOST_ROWS:
        return Cells(bins, score, w, np.ones(len(w), dtype=np.intp))
    order = np.argsort(score[0])
    start = np.diff(np.arange(len(w)) * CELLS // len(w) + bins[0, order], prepend=-1)
    first = np.flatnonzero(start)

    def sums(values: Floats) -> Floats:
        return np.add.reduceat(values[order], first)

    weight = sums(w)
    n = np.rint(effective_rows(sums(np.ones_like(w)), weight, sums(w**2))).astype(np.intp)
    return Cells(bins[:, order[first]], (sums(w * score[0]) / weight)[None], weight, n)


def pooled_gaps(bins: BinsOfColumns) -> Floats:
    """Gaps of pooled neighbouring bins."""
    n = bins.n_effective
    middle = np.cumsum(n, axis=1) - n / 2
    block = (middle / (POOLED * np.sqrt(n.sum(axis=1, keepdims=True)))).astype(np.intp)
    block += (block.max() + 1) * np.arange(len(block))[:, None]

    def pooled(values: Floats) -> Floats:
        return np.bincount(block.ravel(), values.ravel())[block]

    rows = pooled(n)
    gap = np.where(n > 0, ratio(pooled(bins.weight * bins.gap), pooled(bins.weight)), 0.0)
    return gap * rows / (rows + ROWS_ADDED)


def ratio(a: Any, b: Floats) -> Floats:
    """``a / b``, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(b.shape), where=b > 0)


def drawn(
    bins: BinsOfColumns, cells: Cells, gaps: list[Floats], n_resamples: int, random: Random
) -> Floats:
    """Draws of the noise of gaps, for labels from the probabilities less each of these gaps.

    Rows of a cell have its mean probability: their number of events is no less variable then.
    """
    w, together = cells.weight, cells.n_rows.max() > 1

    def sums(of_cells: Indices, values: Floats) -> Floats:
        return np.bincount(of_cells.ravel(), values.ravel(), bins.weight.size).astype(np.float64)

    out = np.empty((len(gaps), n_resamples, *bins.weight.shape))
    # The same random numbers for all gaps: those of a test are the same as of an interval.
    generators = [*(deepcopy(random) for _ in gaps[1:]), random]
    for gap, generator, draws in zip(gaps, generators, out, strict=True):
        P = cells.probabilities(gap)
        expected, cumulative = sums(cells.bins, P * w), P.T.cumsum(axis=1)
        for r in range(n_resamples):
            if together:
                share = generator.binomial(cells.n_rows, P[0]) / cells.n_rows
                hits = sums(cells.bins, share * w)
            elif len(P) == 1:
                hits = sums(cells.bins, w * (generator.uniform(size=len(w)) < P[0]))
            else:  # classes exclude one another
                y = labels_at(cumulative, generator.uniform(size=len(w)))
                hits = sums(cells.bins[y, np.arange(len(w))], w)
            draws[r] = ratio((expected - hits).reshape(bins.weight.shape), bins.weight)
    return out


def mean_gap_ends(
    confidence: Floats, hit: Floats | Bools, w: Floats, level: float
) -> tuple[float, float]:
    r"""Wilson's confidence interval of the mean confidence less the accuracy.

    Its ends are the gaps g for which :math:`|\hat g - g| = z\, s(g)`, where
    :math:`s(g)^2 = \sum_i w_i^2 p_i (1 - p_i) / W^2`, and the probabilities :math:`p_i` of being
    right are the confidences, moved proportionally towards 0 or 1 until their mean is less by g.
    """
    c, share = confidence.astype(np.float64), w / w.sum()
    mean, gap = float(share @ c), float(share @ (c - hit))
    z = float(ndtri((1 + level) / 2))

    def excess(g: float) -> float:
        wrong = 1 - c + c * (g / mean) if g > 0 else (1 - c) * (1 + g / max(1 - mean, 1e-300))
        return (g - gap) ** 2 - z**2 * float(share**2 @ (wrong * (1 - wrong)))

    def end(bound: float) -> float:
        # The variance, and with it the excess, may be 0 at the estimate itself.
        start = gap + 1e-9 * (bound - gap)
        if excess(start) >= 0 or excess(bound) <= 0:
            return start if excess(start) >= 0 else bound
        return float(brentq(excess, start, bound))

    return end(min(mean - 1, gap)), end(max(mean, gap))

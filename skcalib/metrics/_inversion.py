r"""Confidence limits of calibration errors by the noise of the gaps of bins.

The true error of bins is :math:`\psi(\gamma)`, where :math:`\psi` is sublinear (the mean, largest
or quadratic mean size of gaps). The gaps observed are :math:`g = \gamma + \epsilon`, with noise
:math:`\epsilon`, so that for the weights :math:`\lambda` of a subgradient of :math:`\psi` at
:math:`\gamma`

.. math:: \langle \lambda, \epsilon \rangle \le \psi(g) - \psi(\gamma) \le \psi(\epsilon) ,

for all true gaps. The right side, with noise that is drawn, gives the lower end; the left side, a
sum over rows, gives the upper end. Arrays of bins are of shape (n_columns, n_bins), and arrays of
draws of shape (n_draws, n_columns, n_bins).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from skcalib._rows import Bools, Floats, Indices

from ._calibration_error import FORMULAS, HOMOGENEOUS, Formula, noise_square
from ._curve import effective_rows
from ._groups import (
    Random,
    are_skewed,
    degrees_of_freedom,
    inflation,
    sums_by_group,
    uniform_numbers,
)
from ._resampling import ROUNDING_ERROR, MeasuredByBins, MeasuredByCall, labels_at

# Neighbouring bins are pooled to blocks of this many times sqrt(n) of n rows: enough rows to reduce
# the noise of gaps, and a fraction of all rows that vanishes as n grows.
POOLED = 4.0

# Pseudo-counts of calibrated rows that shrink the gaps of bins with few rows towards 0.
ROWS_ADDED = 2.0

# More scores than this in one column are drawn in cells of neighbours of one bin.
MOST_SINGLE_ROWS, CELLS = 1 << 13, 1 << 10

# More groups than this are merged at random before their signs are flipped.
MOST_GROUPS = 1 << 12

# The lower end, as a fraction of the estimate, is searched between noise of gaps of these sizes.
FRACTIONS = (0.0, 1 / 16, 1 / 4, 1.0)
BETWEEN = np.linspace(0, 1, 513)

# Draws of the largest estimate, as a function of the true error.
Largest = Callable[[float], Floats]


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
        """Mean over the columns of a formula of gaps, for each draw if there are several."""
        return np.asarray(formula(self._replace(gap=gap)).mean(axis=-1))


class BinCells(NamedTuple):
    """Rows, or neighbours of one column that are drawn together."""

    bins: Indices  #: index of the bin among the bins of all columns, shape (n_columns, n_cells)
    score: Floats  #: mean score, shape (n_columns, n_cells)
    weight: Floats  #: weight of all rows, shape (n_cells,)
    n_rows: Floats  #: effective number of rows, shape (n_cells,)
    event: Bools | None = None  #: events of single rows, shape (n_columns, n_cells)
    units: Indices | None = None  #: number of the unit of each row, if rows depend on one another
    exclusive: bool = True  #: whether only one of the events of a row can happen

    def probabilities(self, gap: Floats) -> Floats:
        """Probabilities of the events (n_columns, n_cells), less the gap of their bin."""
        P = np.clip(self.score - gap.ravel()[self.bins], 0, 1)
        if len(P) > 1 and self.exclusive:
            # Where all classes have probability 0, they are equally probable.
            P = np.where(P.sum(axis=0) > 0, P, 1.0)
            P = P / P.sum(axis=0)
        return P


class Simulation(NamedTuple):
    """Bins and cells, and draws of the noise of the gaps."""

    bins: BinsOfColumns
    cells: BinCells
    pooled: Floats  #: gaps of pooled bins
    noise: Floats  #: for each of :data:`FRACTIONS` of the pooled gaps
    normal: Floats  #: one standard normal number for each draw
    level: float

    def ends(self, name: str, estimate: float) -> tuple[float, float]:
        """Ends of the confidence interval of the true error, for the measure of this name."""
        plain = HOMOGENEOUS[name.removeprefix("debiased_")]
        spread = self.share_spread(plain)
        largest = [
            self.largest_estimate(name, noise, part * spread)
            for part, noise in zip(FRACTIONS, self.noise, strict=True)
        ]
        low = least_true_error(estimate, FRACTIONS, largest, self.level)
        return low, self.high(plain, spread)

    def largest_estimate(self, name: str, noise: Floats, spread: float) -> Largest:
        """Draws of the largest estimate that the noise makes of a true error, as a function."""
        sizes = HOMOGENEOUS[name.removeprefix("debiased_")](self.bins._replace(gap=noise))
        shares, plain = spread * self.normal, sizes.mean(axis=-1)
        if name in HOMOGENEOUS:
            return lambda error: error + plain + shares
        if name == "debiased_root_mean_squared_calibration_error":
            # Debiased sizes are not sublinear: the variance is subtracted after the sum.
            variance = noise_square(self.bins._replace(gap=noise))

            def largest(error: float) -> Floats:
                square = (error + sizes) ** 2 - variance
                return np.asarray(np.sqrt(np.maximum(square, 0)).mean(axis=-1)) + shares

            return largest
        # The debiased ECE grows at most twice as fast as the sizes of the gaps.
        debiased = self.bins.error(FORMULAS[name], noise)
        return lambda error: np.minimum(2 * error + debiased, error + plain) + shares

    def high(self, plain: Formula, spread: float) -> float:
        """The largest true error from which noise may lead to the observed gaps."""
        (_, _, confidence, gap, n), units = self.bins, self.cells.units
        z = float(ndtri((1 + self.level) / 2))
        if units is not None:
            z *= inflation(self.level, degrees_of_freedom(sums_by_group(self.cells.weight, units)))
        accuracy = np.clip(confidence - self.pooled, 0, 1)
        variance = ratio(accuracy * (1 - accuracy) + ratio(1.0, n), n)
        if units is not None:
            variance = np.maximum(variance, (self.noise[-1] ** 2).mean(axis=0))
        size, ends = z * np.sqrt(variance), []
        for shift in (0.0, np.where(gap < 0, -size, size), size, -size):
            slope = slopes(self.bins, plain, gap + shift)[0] / len(gap)
            further = distance(self, slope, z, spread)
            ends.append(float(np.sum(slope * gap)) + further)
        # Accuracies are between 0 and 1.
        extremes = (confidence, confidence - 1, confidence - (confidence < 0.5))
        largest = max(float(self.bins.error(plain, extreme)) for extreme in extremes)
        return max(float(self.bins.error(plain, gap)), min(max(ends), largest))

    def share_spread(self, formula: Formula) -> float:
        """Standard error of the true error of bins, since the weight of bins is a sample's."""
        bins, _, weight, n, _, units, _ = self.cells
        slopes_of_cells = slopes(self.bins, formula, self.pooled)[1].ravel()[bins].mean(axis=0)
        off = slopes_of_cells - np.average(slopes_of_cells, weights=weight)
        sums = sums_by_group(weight * off / np.sqrt(n), units)
        return float(np.sqrt(sums @ sums) / weight.sum())


def least_true_error(
    estimate: float,
    fractions: tuple[float, ...],
    largest: list[Largest],
    level: float,
) -> float:
    """The least true error that noise raises to the estimate with a probability of 1 - level.

    ``largest[k](x)`` are draws of the largest estimate for the true error x, with the noise of
    true gaps that are ``fractions[k]`` of the observed ones. The result is 0 if and only if noise
    of a calibrated model raises an error of 0 to the estimate.
    """
    if p_value(estimate, largest[0](0.0)) > 1 - level + ROUNDING_ERROR:
        return 0.0
    places = np.sqrt(fractions)

    def reaches(share: float) -> bool:
        """Whether noise raises the true error ``share**2 * estimate`` to the estimate."""
        error = share**2 * estimate
        k = int(np.searchsorted(places, share, side="right")) - 1
        near = [np.quantile(largest[i](error), level, method="higher") for i in (k, k + 1)]
        return bool(np.interp(share, places[k : k + 2], near) >= estimate)

    shares = BETWEEN[1:-1].tolist()
    first = bisect_left(shares, x=True, key=reaches)
    return float(shares[first] ** 2 * estimate) if first < len(shares) else float(estimate)


def slopes(bins: BinsOfColumns, formula: Formula, gap: Floats) -> tuple[Floats, Floats]:
    """Derivatives of the error of each column by its gaps and by the weight of its bins."""
    step, share = 1e-7, bins.share[:, None]
    each = step * np.eye(gap.shape[1])

    def error(gap_change: Floats, share_change: Floats) -> Floats:
        changed = bins._replace(gap=gap[:, None] + gap_change, share=share + share_change)
        return np.asarray(formula(changed))

    none = np.zeros_like(each)
    by_gap = (error(each, none) - error(-each, none)) / (2 * step)
    return by_gap, (error(none, each) - error(none, none)) / step


def distance(simulation: Simulation, slope: Floats, z: float, spread: float) -> float:
    r"""Distance of the upper end of a weighted sum of gaps from its estimate, by Wilson's method.

    For a true sum that is larger by :math:`h`, probabilities are moved proportionally towards the
    outcome of each row that makes it largest; the end is the h for which
    :math:`(h - \kappa)^2 = z^2 (s(h)^2 + s_0^2)`, with the standard error :math:`s(h)` for these
    probabilities, the standard error :math:`s_0` of the weight of bins, and a correction for
    continuity :math:`\kappa`. Where rows depend on one another, variances are multiplied by the
    ratio of the variance of the noise to the variance for independent rows.
    """
    bins, cells, pooled = simulation.bins, simulation.cells, simulation.pooled
    w, P = cells.weight, cells.probabilities(pooled)
    L, squared = ratio(slope, bins.weight).ravel()[cells.bins], w**2 / cells.n_rows
    if len(P) > 1 and not cells.exclusive:  # all events are independent
        w, squared = np.tile(w, len(P)), np.tile(squared, len(P))
        P, L = P.reshape(1, -1), L.reshape(1, -1)
    if len(P) == 1:  # the other outcome is that there is no event
        P, L = np.concatenate([P, 1 - P]), np.concatenate([L, 0 * L])
    mean, square, least = (P * L).sum(axis=0), (P * L**2).sum(axis=0), L.min(axis=0)
    moved = w @ (mean - least)
    if moved <= 0:
        return 0.0
    constant = squared @ (square - mean**2)
    if cells.units is not None:
        observed = np.mean(np.sum(simulation.noise[-1] * slope, axis=(1, 2)) ** 2)
        effect = max(1.0, float(observed / constant)) if constant > 0 else 1.0
        squared, constant = squared * effect, constant * effect
    correction = squared @ (L.max(axis=0) - least) / (2 * cells.weight.sum())
    # The variance is a polynomial of the fraction x of the way, where h = moved * x.
    bend = squared @ (least - mean) ** 2
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
    bins, cells = bins_of(measured), bin_cells(measured)
    pooled = pooled_gaps(bins)
    noise = drawn(bins, cells, [part * pooled for part in FRACTIONS], n_resamples, random)
    normal = random.normal(size=n_resamples)
    return Simulation(bins, cells, pooled, noise, normal, level)


def ends_by_labels(
    measured: MeasuredByCall, estimate: float, n_resamples: int, random: Random, level: float
) -> tuple[float, float]:
    """Ends of the interval of a function that is a calibration error.

    The noise of the error is drawn as labels of the probabilities and of recalibrated ones. It is
    added to the estimate for the upper end, as the error of a sum of gaps is at most the sum of
    their errors. A squared error has the squared ends of the interval of its root, for which this
    holds.
    """
    power = measured.power
    estimate = estimate ** (1 / power)
    draws = [
        np.array([measured.of_labels(random, P) for _ in range(n_resamples)]) ** (1 / power)
        for P in (None, recalibrated(measured))
    ]
    largest: list[Largest] = [partial(np.add, noise) for noise in draws]
    low = least_true_error(estimate, (0.0, 1.0), largest, level)
    reach = [np.quantile(noise, (1 + level) / 2, method="higher") for noise in draws]
    return low**power, (estimate + float(max(reach))) ** power


def recalibrated(measured: MeasuredByCall) -> Floats:
    """The probabilities less the gaps of pooled bins, in the shape of the probabilities."""
    problem = measured.problem
    kind = problem.kind
    if kind != "multilabel":
        kind = "binary" if problem.rows.X.ndim == 1 else "classwise"
    name, gaps_of_all = "expected_calibration_error", problem._replace(kind=kind, pos_label=None)
    one = MeasuredByBins(gaps_of_all, name, 15, "uniform")
    bins = bins_of(one)
    place = np.stack([column.bins + 15 * k for k, column in enumerate(one.columns)])
    score = np.stack([column.score for column in one.columns])
    exclusive = kind != "multilabel"
    cells = BinCells(place, score, one.weights, np.ones(len(one.weights)), exclusive=exclusive)
    P = cells.probabilities(pooled_gaps(bins)).T
    return P[:, 0] if problem.rows.X.ndim == 1 else P


def vanishes(measured: MeasuredByCall) -> bool:
    """Return whether a function is a calibration error: near 0 for many calibrated rows.

    Labels are drawn from spread probabilities with a fixed seed, so the result depends neither on
    the rows nor on the seed of the user. Errors of 16 times the rows are about a quarter, or
    smaller. A proper score does not depend on the number of rows.
    """
    random = np.random.RandomState(0)
    few = np.array([measured.of_spread(500, random) for _ in range(19)])
    many = measured.of_spread(8000, random)
    if not np.isfinite([*few, many]).all():
        raise ValueError(
            "measure must be a finite number for labels that are drawn from probabilities, got "
            f"{few[~np.isfinite(few)][:1]}. Pass method='inversion' for a calibration error, or "
            "method='jackknife' for another measure."
        )
    return bool(few.min() >= -ROUNDING_ERROR and many <= 0.7 * few.mean())


def null_errors(measured: MeasuredByBins, n_resamples: int, random: Random) -> Floats:
    """The measure for labels drawn from the probabilities, with the draws of an interval."""
    bins = bins_of(measured)
    noise = drawn(bins, bin_cells(measured), [np.zeros_like(bins.gap)], n_resamples, random)
    return bins.error(measured.formula, noise[0])


def p_value(estimate: float, draws: Floats) -> float:
    """Fraction of draws and the estimate itself that are at least as large as the estimate."""
    # Simulated labels that equal the labels of the rows are ties despite rounding.
    as_large = int(np.count_nonzero(draws >= estimate - ROUNDING_ERROR * abs(estimate)))
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


def bin_cells(measured: MeasuredByBins) -> BinCells:
    """Each row, or neighbours in the bins of one column of many rows."""
    columns, w, units = measured.columns, measured.weights, measured.problem.units
    n_bins = max(len(column.edges) for column in columns) - 1
    bins = np.stack([column.bins + n_bins * k for k, column in enumerate(columns)])
    score = np.stack([column.score for column in columns])
    if units is not None or len(columns) > 1 or len(w) <= MOST_SINGLE_ROWS:
        event = np.stack([column.event for column in columns])
        exclusive = measured.problem.kind != "multilabel"
        return BinCells(bins, score, w, np.ones(len(w)), event, units, exclusive)
    order = np.argsort(score[0])
    start = np.diff(np.arange(len(w)) * CELLS // len(w) + bins[0, order], prepend=-1)
    first = np.flatnonzero(start)

    def sums(values: Floats) -> Floats:
        return np.add.reduceat(values[order], first)

    weight = sums(w)
    n = np.rint(effective_rows(sums(np.ones_like(w)), weight, sums(w**2)))
    return BinCells(bins[:, order[first]], (sums(w * score[0]) / weight)[None], weight, n)


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


def ratio(a: Floats | float, b: Floats) -> Floats:
    """``a / b``, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(b.shape), where=b > 0)


def drawn(
    bins: BinsOfColumns, cells: BinCells, gaps: list[Floats], n_resamples: int, random: Random
) -> Floats:
    """Draws of the noise of gaps, for labels from the probabilities less each of these gaps.

    Rows of a cell have its mean probability, which does not reduce the variance of their number
    of events.
    """
    w, units, n_bins = cells.weight, cells.units, bins.weight.size
    if units is not None and not are_skewed(cells.score, w, units):
        return flipped(bins, cells, units, gaps, n_resamples, random)

    def sums(slopes_of_cells: Indices, values: Floats) -> Floats:
        return np.bincount(slopes_of_cells.ravel(), values.ravel(), n_bins).astype(np.float64)

    out = np.empty((len(gaps), n_resamples, *bins.weight.shape))
    # The same random numbers for all gaps: the draws of a test are the first draws of an interval.
    generators = [*(deepcopy(random) for _ in gaps[1:]), random]
    for gap, generator, draws in zip(gaps, generators, out, strict=True):
        P = cells.probabilities(gap)
        expected, cumulative = sums(cells.bins, P * w), P.T.cumsum(axis=1)
        for r in range(n_resamples):
            if cells.event is None:  # cells of several rows
                n_rows = cells.n_rows.astype(np.intp)
                hits = sums(cells.bins, generator.binomial(n_rows, P[0]) / n_rows * w)
            elif len(P) == 1 or not cells.exclusive:
                u = uniform_numbers(len(w), generator, units)
                hits = sums(cells.bins, w * (u < P))
            else:  # classes exclude one another
                y = labels_at(cumulative, uniform_numbers(len(w), generator, units))
                hits = sums(cells.bins[y, np.arange(len(w))], w)
            draws[r] = ratio((expected - hits).reshape(bins.weight.shape), bins.weight)
    return out


def flipped(
    bins: BinsOfColumns,
    cells: BinCells,
    units: Indices,
    gaps: list[Floats],
    n_resamples: int,
    random: Random,
) -> Floats:
    """Draws of the noise of gaps by flips of the signs of the residuals of whole groups."""
    n_groups = int(units.max()) + 1
    if n_groups > MOST_GROUPS:  # merged groups are independent of one another, too
        units = random.permutation(np.arange(n_groups) % MOST_GROUPS)[units]
        n_groups = MOST_GROUPS
    signs = random.choice([-1.0, 1.0], size=(n_resamples, n_groups))
    place = (cells.bins + bins.weight.size * units).ravel()
    out = np.empty((len(gaps), n_resamples, *bins.weight.shape))
    for gap, draws in zip(gaps, out, strict=True):
        events = np.asarray(cells.event)
        residuals = cells.weight * (cells.score - gap.ravel()[cells.bins] - events)
        sums = np.bincount(place, residuals.ravel(), bins.weight.size * n_groups)
        noise = (signs @ sums.reshape(n_groups, -1)).reshape(draws.shape)
        draws[:] = noise / np.where(bins.weight > 0, bins.weight, np.inf)
    return out

"""Intervals of all measures before and after calibration, and of their differences.

Each value is that of :func:`skcalib.metrics.calibration_error_interval` or
:func:`skcalib.metrics.compare_calibration` with the seed :data:`SEED`; resamples are drawn once for
all measures. Log loss, Brier score and accuracy are means over rows, whose intervals are those of
the normal distribution, or Wilson's for the accuracy.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from skcalib._rows.arrays import Floats, Indices
from skcalib.metrics import CalibrationComparisonResult, CalibrationErrorInterval
from skcalib.metrics._calibration_error import FORMULAS, HOMOGENEOUS
from skcalib.metrics._inversion import Simulation, bins_of, mean_gap_ends, simulated
from skcalib.metrics._proper_scores import brier_scores, log_losses
from skcalib.metrics._resampling import Measured, MeasuredByBins, draw_rows, measured_by
from skcalib.metrics._uncertainty import comparison_of, interval_of

from ._evaluation import Evaluation
from ._measures import ACCURACY, BINNED, BRIER, ECE, LOG_LOSS, SMOOTH, Change, Measure, of_classes

SEED = 0
LEVEL = 0.95

# Resamples: 999, or fewer for many rows, so that all intervals of 10 000 rows take some seconds.
MOST, LEAST, ENTRIES = 999, 99, 10_000_000

# Above so many entries there are no intervals of measures that take long for each resample.
TOO_MANY = {"smooth": 100_000, "classes": 5_000_000}

BINNED_NAMES = tuple(measure.function for measure in BINNED)


def number_of_resamples(n_entries: int) -> int:
    """How many resamples there are for so many rows, or rows times classes."""
    return int(np.clip(ENTRIES // n_entries, LEAST, MOST))


class Intervals:
    """Measures of rows before and after calibration."""

    def __init__(self, rows: Evaluation) -> None:
        self.rows = rows
        self.pair = (rows.before, rows.after)
        self.n_resamples = number_of_resamples(rows.n_samples)  #: of the binned measures

    def changes(self) -> dict[str, Change]:
        """All measures by their titles, in the order of the table."""
        own = of_classes(self.rows.n_classes)
        return {**self._means(), **self._binned(), SMOOTH.title: self._smooth(),
                own.title: self._of_classes(own)}  # fmt: skip

    def _means(self) -> dict[str, Change]:
        rows, index = self.rows, self.rows.index
        of_rows: dict[Measure, list[Floats]] = {
            LOG_LOSS: [log_losses(P, index) for P in self.pair],
            BRIER: [brier_scores(P, index) for P in self.pair],
            ACCURACY: [(P.argmax(axis=1) == index).astype(np.float64) for P in self.pair],
        }
        found = {}
        for measure, (before, after) in of_rows.items():
            interval = wilson_interval if measure is ACCURACY else mean_interval
            difference = compared_means(after - before, rows.weights)
            first, second = (interval(values, rows.weights) for values in (before, after))
            found[measure.title] = Change(first, second, difference)
        return found

    def _measured(self, measure: Measure) -> list[Measured]:
        rows, name, kind = self.rows, measure.function, measure.kind
        return [
            measured_by(name, rows.n_bins, "uniform", rows.y, P, kind, rows.w, rows.classes, None)
            for P in self.pair
        ]

    def _binned(self) -> dict[str, Change]:
        models = [m for m in self._measured(ECE) if isinstance(m, MeasuredByBins)]
        n, of_all = models[0].problem.rows.n_rows, [binned_values(m) for m in models]
        estimates = [f(None) for f in of_all]
        draws = bootstrapped(n, self.n_resamples, of_all)
        simulations = [simulated_with_seed(m, self.n_resamples) for m in models]
        found = {}
        for k, measure in enumerate(BINNED):
            ends = []
            for j, simulation in enumerate(simulations):
                estimate, formula = float(estimates[j][k]), HOMOGENEOUS.get(measure.function)
                if formula is None:
                    ends.append(interval_of(estimate, draws[:, j, k], LEVEL, "basic"))
                else:
                    low, high = simulation.ends(formula, estimate)
                    ends.append(CalibrationErrorInterval(estimate, low, high))
            ahead = float(estimates[1][k] - estimates[0][k])
            difference = comparison_of(ahead, draws[:, 1, k] - draws[:, 0, k], LEVEL)
            found[measure.title] = Change(ends[0], ends[1], difference)
        return found

    def _smooth(self) -> Change:
        models, n = self._measured(SMOOTH), self.rows.n_samples
        estimates = [m.of_rows() for m in models]
        if n > TOO_MANY["smooth"]:
            return without_intervals(*estimates)
        draws = bootstrapped(n, LEAST, [model.of_rows for model in models])
        ends = [interval_of(e, draws[:, j], LEVEL, "basic") for j, e in enumerate(estimates)]
        ahead = estimates[1] - estimates[0]
        return Change(ends[0], ends[1], comparison_of(ahead, draws[:, 1] - draws[:, 0], LEVEL))

    def _of_classes(self, measure: Measure) -> Change:
        models = [m for m in self._measured(measure) if isinstance(m, MeasuredByBins)]
        n = models[0].problem.rows.n_rows
        estimates = [m.of_rows() for m in models]
        n_entries = n * len(models[0].columns)
        if n_entries > TOO_MANY["classes"]:
            return without_intervals(*estimates)
        n_resamples = number_of_resamples(n_entries)
        ends = []
        for model, estimate in zip(models, estimates, strict=True):
            simulation = simulated_with_seed(model, n_resamples)
            low, high = simulation.ends(model.formula, estimate)
            ends.append(CalibrationErrorInterval(estimate, low, high))
        draws = bootstrapped(n, n_resamples, [classwise_error(m) for m in models])
        ahead = estimates[1] - estimates[0]
        return Change(ends[0], ends[1], comparison_of(ahead, draws[:, 1] - draws[:, 0], LEVEL))


def bootstrapped(
    n: int, n_resamples: int, measures: Iterable[Callable[[Indices], Floats | float]]
) -> Floats:
    """Values of measures of bootstrap samples, with the sample on the first axis."""
    random, functions = check_random_state(SEED), list(measures)
    samples = (draw_rows(n, random) for _ in range(n_resamples))
    return np.array([[f(times) for f in functions] for times in samples])


def simulated_with_seed(model: MeasuredByBins, n_resamples: int) -> Simulation:
    """Draws for the intervals of the binned measures."""
    return simulated(model, n_resamples, check_random_state(SEED), LEVEL)


def binned_values(model: MeasuredByBins) -> Callable[[Indices | None], Floats]:
    """All binned measures of the top label of resampled rows."""

    def values(times: Indices | None) -> Floats:
        (curve,) = model.curves(times)
        return np.array([FORMULAS[name](curve) for name in BINNED_NAMES])

    return values


def classwise_error(model: MeasuredByBins) -> Callable[[Indices], float]:
    """The mean ECE of the classes of resampled rows, with a single sum for all classes."""
    cells = bins_of(model).cells
    w = model.problem.rows.w
    gaps = np.stack([column.score - column.event for column in model.columns]).astype(np.float64)
    gaps = gaps if w is None else gaps * w
    flat = cells.ravel()

    def value(times: Indices) -> float:
        total = times.sum() if w is None else times @ w
        sums = np.bincount(flat, (gaps * times).ravel())
        return float(np.abs(sums).sum() / total / len(cells))

    return value


def without_intervals(before: float, after: float) -> Change:
    """Values of a measure whose resampling would take too long."""
    nan = math.nan
    return Change(
        CalibrationErrorInterval(before, nan, nan),
        CalibrationErrorInterval(after, nan, nan),
        CalibrationComparisonResult(after - before, nan, nan, nan),
    )


def mean_and_error(values: Floats, w: Floats) -> tuple[float, float]:
    r"""Weighted mean and its standard error, which is NaN for a single row.

    The error is that of the bootstrap of rows, :math:`s^2 = \sum_i w_i^2 (x_i - \bar x)^2 / W^2`,
    with the factor :math:`n / (n - 1)` of an unbiased variance.
    """
    w = w / w.max()
    n, mean = np.count_nonzero(w), float(np.average(values, weights=w))
    if n < 2:
        return mean, math.nan
    variance = np.sum(w**2 * (values - mean) ** 2) / w.sum() ** 2
    return mean, math.sqrt(variance * n / (n - 1))


def mean_interval(values: Floats, w: Floats) -> CalibrationErrorInterval:
    """Normal interval of a weighted mean."""
    mean, error = mean_and_error(values, w)
    half = float(ndtri((1 + LEVEL) / 2)) * error
    return CalibrationErrorInterval(mean, mean - half, mean + half)


def wilson_interval(values: Floats, w: Floats) -> CalibrationErrorInterval:
    """Wilson's interval of a weighted fraction, with the effective number of rows."""
    w = w / w.max()
    n = w.sum() ** 2 / (w @ w)
    p, z = float(np.average(values, weights=w)), float(ndtri((1 + LEVEL) / 2))
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return CalibrationErrorInterval(
        p, max(float(centre - half), 0.0), min(float(centre + half), 1.0)
    )


def gap_interval(confidence: Floats, hit: Floats, w: Floats) -> CalibrationErrorInterval:
    """Interval of the mean confidence less the accuracy.

    Its ends are those of the normal interval, or of Wilson's where they lie further out, as they do
    if hardly a row is misclassified.
    """
    low, high = mean_gap_ends(confidence, hit, w, LEVEL)
    normal = mean_interval(confidence.astype(np.float64) - hit, w)
    ends = float(np.fmin(low, normal.low)), float(np.fmax(high, normal.high))
    return CalibrationErrorInterval(normal.estimate, *ends)


def compared_means(differences: Floats, w: Floats) -> CalibrationComparisonResult:
    """Normal test and interval of the mean of paired differences."""
    mean, error = mean_and_error(differences, w)
    half = float(ndtri((1 + LEVEL) / 2)) * error
    if error == 0:
        return CalibrationComparisonResult(mean, 1.0 if mean == 0 else 0.0, mean, mean)
    pvalue = float(2 * ndtr(-abs(mean) / error))
    return CalibrationComparisonResult(mean, pvalue, mean - half, mean + half)

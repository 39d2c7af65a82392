"""Evaluated rows of a report, and their measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import expit, logit, ndtri

from skcalib import clinical, metrics
from skcalib._input.groups import groups_with, warn_of_few_events
from skcalib._input.labels import encode
from skcalib._output import counted
from skcalib._typing import Array, Floats, Indices, Kind
from skcalib._warnings import CodesWarning, ColumnOrderWarning, FewGroupsWarning, ignored
from skcalib.conditional import MulticalibrationResult
from skcalib.metrics import CalibrationDifference, IntervalEstimate
from skcalib.metrics._groups import degrees_of_freedom, effective_rates, skewed_interval
from skcalib.metrics._proper_scores import log_losses

# More rows have no intervals for measures without bins, nor more entries for other errors.
MANY_ROWS, MANY_ENTRIES = 100_000, 5_000_000
# Resamples, and the fewer ones for many rows and for measures that take milliseconds.
MOST_RESAMPLES, FEWEST_RESAMPLES = 499, 99

# The warnings of a report are given when it is created.
T = TypeVar("T")
silent = ignored(CodesWarning, ColumnOrderWarning, FewGroupsWarning)

LEVEL = 0.95
Z_LEVEL = float(ndtri((1 + LEVEL) / 2))

# Measures with intervals by resampling: names in skcalib.metrics.
ERRORS = {
    "ECE": "expected_calibration_error",
    "debiased ECE": "debiased_expected_calibration_error",
    "MCE": "maximum_calibration_error",
    "smooth ECE": "smooth_calibration_error",
    "averaged two-bin error": "averaged_two_bin_calibration_error",
}
WITHOUT_BINS = ERRORS["smooth ECE"], ERRORS["averaged two-bin error"]

# Figures of the risk with t intervals or likelihood intervals.
RISKS = "observed over expected", "c-statistic", "calibration in the large", "calibration slope"


class Change(NamedTuple):
    """Measure before and after calibration, and the difference, with 95% intervals.

    ``difference.estimate`` is the value after calibration minus the value before. The ends of
    intervals that were not computed are NaN.
    """

    before: IntervalEstimate
    after: IntervalEstimate
    difference: CalibrationDifference


@dataclass(eq=False)
class Evaluation:
    """Rows of positive weight, and their figures, which are computed when they are first used."""

    y: Array
    P: Floats  #: the second of two columns is the event
    classes: Array  #: in the order of the columns
    sample_weight: Floats | None
    groups: Indices | None  #: number of the group of each row
    n_bins: int
    kind: Kind  #: "binary" or "top-label"
    seed: int  #: of all resamples
    n_absent: int  #: number of rows of weight 0, which are left out
    segments: MulticalibrationResult | None = None  #: gaps of segments, if there are features

    def __post_init__(self) -> None:
        self.index: Indices = encode(self.y, self.classes)  #: column of each label
        self.counts = np.bincount(self.index, minlength=len(self.classes))
        self.n_samples = len(self.y)
        w = self.sample_weight
        self.weights = np.ones(self.n_samples) if w is None else w
        # Number of rows, or groups, of equal weight with the same variance of means.
        share = self.weights / self.weights.sum()
        self.likelihood_weight = share / float(share @ share)  # sums to the effective rows
        units = np.arange(self.n_samples) if self.groups is None else self.groups
        share = np.bincount(units, share)
        self.n_effective, self.n_units = 1 / float(share @ share), len(share)
        self.units = counted(self.n_units, "row" if self.groups is None else "group")
        self.random: Any = {"groups": self.groups, "random_state": self.seed}
        self.binned: Any = {"n_bins": self.n_bins, "kind": self.kind}

    def measure(self, function: Callable[..., T], *others: Any, **params: Any) -> T:
        """Apply a function of labels, probabilities and weights to the rows."""
        params = {"sample_weight": self.sample_weight, "labels": self.classes} | params
        return function(self.y, self.P, *others, **params)

    def draws(self, n_entries: int) -> dict[str, Any]:
        """Return keyword arguments of resampling: 499 resamples, or down to 99 for many rows."""
        n_resamples = int(np.clip(5_000_000 // n_entries, FEWEST_RESAMPLES, MOST_RESAMPLES))
        return {**self.random, "n_resamples": n_resamples}

    def warn_of_few_groups(self) -> None:
        """Warn if few groups have the rarer outcome, or a wrong prediction."""
        if self.groups is not None:
            fewest = min(len(np.unique(self.groups[self.hits == outcome])) for outcome in (0, 1))
            wrong = self.P.argmax(axis=1) != self.index
            warn_of_few_events(fewest, self.n_units, groups_with(wrong, self.groups))

    @property
    def hits(self) -> Floats:
        """Event of each row: 1 where it happened, else 0."""
        event = 1 if self.kind == "binary" else self.P.argmax(axis=1)
        return (self.index == event).astype(float)

    @cached_property
    def row_values(self) -> dict[str, Floats]:
        """Measures that are means over rows: proper scores, accuracy, and the mean gap."""
        is_binary = self.kind == "binary"
        score = self.P[:, 1] if is_binary else self.P.max(axis=1)
        off = self.P - (self.index[:, None] == np.arange(len(self.classes))).astype(float)
        gap = "mean probability - event rate" if is_binary else "confidence - accuracy"
        return {
            "log loss": log_losses(self.P, self.index),
            "Brier score": (off**2).sum(axis=1) / (2 if len(self.classes) == 2 else 1),
            "accuracy": (self.P.argmax(axis=1) == self.index).astype(float),
            gap: score - self.hits,
        }

    @property
    def errors(self) -> dict[str, tuple[str, Kind]]:
        """Calibration errors by title: names in skcalib.metrics, and kinds."""
        other: Kind = "top-label" if self.kind == "binary" else "classwise"
        errors = {title: (measure, self.kind) for title, measure in ERRORS.items()}
        return {**errors, f"{other} ECE": (ERRORS["ECE"], other)}

    @cached_property
    def measures(self) -> dict[str, IntervalEstimate]:
        """Return all measures by title, in the order of the table."""
        titles = (*self.row_values, *self.errors)
        return {title: self.ece if title == "ECE" else measured(self, title) for title in titles}

    @cached_property
    def ece(self) -> IntervalEstimate:
        """Return the calibration error of the verdict, which needs no other."""
        found: IntervalEstimate = measured(self, "ECE")
        return found

    @cached_property
    @silent
    def tests(self) -> dict[str, Any]:
        """Return the tests with a p-value by subject, the segments last."""
        params = self.binned | self.draws(self.n_samples)
        tests: dict[str, Any] = {"the ECE": self.measure(metrics.calibration_test, **params)}
        if self.kind == "binary":
            params = {**self.random, "sample_weight": self.likelihood_weight}
            params["measure"] = "spiegelhalter_z"
            tests["Spiegelhalter's z"] = self.measure(metrics.calibration_test, **params)
        return tests if self.segments is None else tests | {"a segment": self.segments}

    @cached_property
    @silent
    def risk(self) -> dict[str, Any] | None:
        """Figures of the risk of the event, or None unless the kind is binary."""
        if self.kind != "binary":
            return None
        # Distances from a smooth curve. The maximum has no interval, and many rows take minutes.
        params: Any = {"quantile": [None, 0.5, 0.9, 1], "sample_weight": self.likelihood_weight}
        numbers: Any = self.measure(clinical.integrated_calibration_index, **params)
        distances: Any = [IntervalEstimate(x, math.nan, math.nan) for x in numbers]
        if self.n_samples <= MANY_ROWS:
            params |= {"quantile": [None, 0.5, 0.9], "confidence_level": LEVEL}
            params |= {**self.random, "n_resamples": FEWEST_RESAMPLES}
            distances[:3] = self.measure(clinical.integrated_calibration_index, **params)
        return {
            "events": int(self.counts[1]),
            "prevalence": proportion_interval(self.hits, self.weights, self.groups),
            **{title: risk_figure(self, title) for title in RISKS},
            **dict(zip(["ICI", "E50", "E90", "Emax"], distances, strict=True)),
            "Spiegelhalter's z": self.tests["Spiegelhalter's z"],
        }


def has_interval(found: Any) -> bool:
    """Return whether a figure exists and its ends are finite: one group is too few for a slope."""
    return found is not None and math.isfinite(found.low) and math.isfinite(found.high)


@silent
def measured(rows: Evaluation, title: str, before: Evaluation | None = None) -> Any:
    """Return a measure with its interval, or its change since an evaluation ``before``.

    The ends are NaN for so many rows that the interval would take minutes.
    """
    if title in rows.row_values:
        values, units = rows.row_values[title], (rows.weights, rows.groups)
        if before is not None:
            change = values - before.row_values[title]
            return CalibrationDifference(*mean_estimate(change, *units))
        return (proportion_interval if title == "accuracy" else mean_interval)(values, *units)
    measure, kind = rows.errors[title]
    is_binned = measure not in WITHOUT_BINS
    n_entries = rows.n_samples * (len(rows.classes) if kind == "classwise" else 1)
    if n_entries > (MANY_ENTRIES if is_binned else MANY_ROWS):
        function, params = getattr(metrics, measure), rows.binned if is_binned else {}
        error, *first = (
            x.measure(function, **params | {"kind": kind}) for x in (rows, before) if x
        )
        if not first:
            return IntervalEstimate(error, math.nan, math.nan)
        return CalibrationDifference(error - first[0], math.nan, math.nan, math.nan)
    params = {**rows.binned, **rows.draws(n_entries), "kind": kind, "measure": measure}
    if not is_binned:  # a resample takes milliseconds
        params["n_resamples"] = FEWEST_RESAMPLES
    if before is None:
        return rows.measure(metrics.calibration_error_interval, **params)
    return before.measure(metrics.calibration_difference, rows.P, **params)


def mean_estimate(
    values: Floats, w: Floats, groups: Indices | None = None, level: float = LEVEL
) -> tuple[float, float, float, float]:
    """Return a weighted mean, its interval, and the p-value of 0; NaN for a single group."""
    mean = float(np.average(values, weights=w))
    units = np.arange(len(w)) if groups is None else groups
    terms = (w, w / w.sum() * (values - mean))
    sizes, residuals = (np.bincount(units, term).astype(float) for term in terms)
    n = np.count_nonzero(sizes)
    if n < 2:
        return mean, math.nan, math.nan, math.nan
    residuals = residuals[sizes > 0]
    freedom = degrees_of_freedom(sizes[sizes > 0])
    return mean, *skewed_interval(mean, n * residuals, level, freedom)


def mean_interval(values: Floats, w: Floats, groups: Indices | None = None) -> IntervalEstimate:
    """Return the interval of a weighted mean, corrected for skewness."""
    return IntervalEstimate(*mean_estimate(values, w, groups)[:3])


def proportion_interval(hit: Floats, w: Floats, groups: Indices | None = None) -> IntervalEstimate:
    """Return the Wilson interval of a weighted proportion, with the effective number of rows."""
    share = w / w.sum()
    p = float(hit @ share)
    rates = np.array([p]), share / float(share @ share)
    n = float(effective_rates(hit[None] > 0, *rates, groups, LEVEL)[0][0])
    centre, factor = p + Z_LEVEL**2 / (2 * n), 1 + Z_LEVEL**2 / n
    half = Z_LEVEL * math.sqrt(max(p * (1 - p), 0) / n + (Z_LEVEL / (2 * n)) ** 2)
    return IntervalEstimate(p, (centre - half) / factor, (centre + half) / factor)


def observed_over_expected(
    p: Floats, hit: Floats, w: Floats, groups: Indices | None = None, level: float = LEVEL
) -> IntervalEstimate:
    """Return the event rate divided by the mean risk, with the delta method for the logarithm."""
    observed, expected = (float(np.average(values, weights=w)) for values in (hit, p))
    if observed == 0 or expected == 0:
        raise ValueError("The ratio needs an event and a risk above 0.")
    influence = hit / observed - p / expected
    _, low, high, _ = mean_estimate(influence, w, groups, level)
    ratio = observed / expected
    return IntervalEstimate(ratio, ratio * math.exp(low), ratio * math.exp(high), level)


def c_statistic(
    p: Floats, hit: Floats, w: Floats, groups: Indices | None = None
) -> IntervalEstimate:
    """Return the probability that the risk of an event is above the risk of a row without it.

    Ties count one half. The influence of each row has the variance of DeLong, DeLong,
    Clarke-Pearson, Biometrics 44, 1988. The interval is symmetric in the log-odds.
    """
    scores, rank = np.unique(p, return_inverse=True)
    events, others = (np.bincount(rank, w * x, len(scores)) for x in (hit, 1 - hit))
    if not (events.any() and others.any()):
        raise ValueError("The c-statistic needs rows with the event and rows without it.")
    others_below, events_below = (  # weights below each risk, and half of the ties
        ((np.cumsum(x) - x / 2) / x.sum())[rank] for x in (others, events)
    )
    value = float(np.average(others_below, weights=w * hit))
    rate = float(np.average(hit, weights=w))
    event_deviations, other_deviations = others_below - value, 1 - events_below - value
    influence = np.where(hit > 0, event_deviations / rate, other_deviations / (1 - rate))
    if not 0 < value < 1:
        return IntervalEstimate(value, math.nan, math.nan)
    _, *ends, _ = mean_estimate(influence, w, groups)
    low, high = (float(expit(logit(value) + end / (value * (1 - value)))) for end in ends)
    return IntervalEstimate(value, low, high)


@silent
def risk_figure(rows: Evaluation, title: str, level: float = LEVEL) -> Any:
    """Return one of the ``RISKS`` with its interval, or None if it does not exist."""
    outcomes = rows.hits, rows.weights, rows.groups
    logistic = {"sample_weight": rows.likelihood_weight, "groups": rows.groups}
    try:
        if title == "observed over expected":
            return observed_over_expected(rows.P[:, 1], *outcomes, level)
        if title == "c-statistic":
            return c_statistic(rows.P[:, 1], *outcomes)
        is_slope = title == "calibration slope"
        function = clinical.calibration_slope if is_slope else clinical.calibration_intercept
        return rows.measure(function, **logistic, confidence_level=level)
    except ValueError:  # rows of one class, or separated by a threshold
        return None

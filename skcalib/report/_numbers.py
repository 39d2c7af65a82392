"""Evaluated rows of a report, and their measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri
from sklearn.utils import check_random_state, column_or_1d

from skcalib import clinical, metrics
from skcalib._input.arrays import on_host
from skcalib._input.groups import groups_with, warn_of_few_events
from skcalib._input.labels import as_labels, encode
from skcalib._input.logits import check_weights
from skcalib._input.measures import resolved
from skcalib._output import counted
from skcalib._typing import Array, Bools, Floats, Indices, Kind
from skcalib._warnings import CodesWarning, ColumnOrderWarning, FewGroupsWarning, ignored
from skcalib.conditional import MulticalibrationResult, multicalibration_error
from skcalib.metrics import CalibrationDifference, CalibrationTestResult, IntervalEstimate
from skcalib.metrics._groups import degrees_of_freedom, effective_rates, skewed_interval
from skcalib.metrics._proper_scores import log_losses

# More rows have no intervals for measures without bins.
MANY_ROWS = 100_000
# Resamples, and the fewer ones for many rows and for measures that take milliseconds.
MOST_RESAMPLES, FEWEST_RESAMPLES = 499, 99

# The warnings of a report are given when it is created.
silent = ignored(CodesWarning, ColumnOrderWarning, FewGroupsWarning)

LEVEL = 0.95
ALPHA = 0.05
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
    """Copies of labels and probabilities, and their figures, computed when they are first used."""

    y: Any
    P: Floats
    classes: Array  #: in the order of the columns; the second of two is the event
    sample_weight: Floats | None
    groups: Indices | None  #: number of the group of each row
    features: Any
    categorical_features: Any
    n_bins: int
    kind: Kind  #: "binary" or "top-label"
    random_state: Any

    def __post_init__(self) -> None:
        self.y, self.P = np.array(column_or_1d(as_labels(on_host(self.y)))), np.array(self.P)
        w = check_weights(self.sample_weight, len(self.P))
        self.weights = np.ones(len(self.y)) if w is None else w.copy()
        self.sample_weight = None if w is None else self.weights
        self.kind = resolved(self.kind, self.classes)
        self.index: Indices = encode(self.y, self.classes)  #: column of each label
        # Rows with a positive weight, of each class and in all.
        used = self.weights > 0
        self.counts = np.bincount(self.index[used], minlength=len(self.classes))
        self.n_samples = int(self.counts.sum())
        # Number of rows, or groups, of equal weight with the same variance of means.
        share = self.weights / self.weights.sum()
        scaled = share / float(share @ share)
        self.n_units, unit = self.n_samples, "row"
        if self.groups is not None:
            self.groups = np.unique(on_host(self.groups), return_inverse=True)[1]
            self.n_units, unit = len(np.unique(self.groups[used])), "group"
            self._warn_of_few_events(self.groups, used)
            share = np.bincount(self.groups, share)
        self.n_effective = 1 / float(share @ share)
        self.units = counted(self.n_units, unit)  #: independent ones, as text
        #: of all resamples
        self.seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # Keyword arguments of measures without bins, of others, of likelihoods, of resampling.
        self.row_params: Any = {"sample_weight": self.sample_weight, "labels": self.classes}
        self.params = {**self.row_params, "n_bins": self.n_bins, "kind": self.kind}
        # Likelihoods count weights as rows: scale them to sum to the effective rows.
        self.likelihood_params = {**self.row_params, "sample_weight": scaled}
        self.random_params: Any = {"groups": self.groups, "random_state": self.seed}
        if self.features is not None:  # checked now by one draw, because segments come later
            with ignored(ColumnOrderWarning):
                self._find_segments(groups=self.groups, n_resamples=1)
            self.features = deepcopy(self.features)

    def _warn_of_few_events(self, groups: Indices, used: Bools) -> None:
        """Warn if few groups have the rarer outcome, or a wrong prediction."""
        units, hits = groups[used], self.hits[used]
        fewest = min(len(np.unique(units[hits == outcome])) for outcome in (0, 1))
        wrong = self.P.argmax(axis=1) != self.index
        warn_of_few_events(fewest, self.n_units, groups_with(wrong[used], units))

    def draws(self, n_entries: int) -> dict[str, Any]:
        """Return keyword arguments of resampling: 499 resamples, or down to 99 for many rows."""
        n_resamples = int(np.clip(5_000_000 // n_entries, FEWEST_RESAMPLES, MOST_RESAMPLES))
        return {**self.random_params, "n_resamples": n_resamples}

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
    @silent
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
    def test(self) -> CalibrationTestResult:
        """Return the test of calibration."""
        return metrics.calibration_test(self.y, self.P, **self.params, **self.draws(self.n_samples))

    @cached_property
    @silent
    def segments(self) -> MulticalibrationResult | None:
        """Return the gaps of segments, or None without features."""
        return None if self.features is None else self._find_segments(**self.draws(self.n_samples))

    def _find_segments(self, **params: Any) -> MulticalibrationResult:
        params |= {"kind": self.kind, "categorical_features": self.categorical_features}
        return multicalibration_error(self.y, self.P, self.features, **self.row_params, **params)

    @cached_property
    @silent
    def distances(self) -> dict[str, IntervalEstimate]:
        """Return the ICI and quantiles of the distances; NaN for ends that take minutes."""
        params = {"quantile": [None, 0.5, 0.9, 1], **self.likelihood_params}
        numbers: Any = clinical.integrated_calibration_index(self.y, self.P, **params)
        found: Any = [IntervalEstimate(number, math.nan, math.nan) for number in numbers]
        if self.n_samples <= MANY_ROWS:  # the maximum has no interval
            params |= {"quantile": [None, 0.5, 0.9], "confidence_level": LEVEL}
            params |= {**self.random_params, "n_resamples": FEWEST_RESAMPLES}
            found[:3] = clinical.integrated_calibration_index(self.y, self.P, **params)
        return dict(zip(["ICI", "E50", "E90", "Emax"], found, strict=True))

    @cached_property
    def risk(self) -> dict[str, Any] | None:
        """Figures of the risk of the event, or None unless the kind is binary."""
        if self.kind != "binary":
            return None
        return {title: risk_figure(self, title) for title in risk_functions(self)}

    @cached_property
    @silent
    def decisions(self) -> tuple[list[str], list[str], int]:
        """Return the tests that reject, those that do if all share the level, and their number."""
        alone = rejections(self, ALPHA)
        together = rejections(self, ALPHA / len(alone))
        doubted, rejected = (
            [test for test, rejects in found.items() if rejects] for found in (alone, together)
        )
        return doubted, rejected, len(alone)


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
    params, is_binned = {**rows.params, "kind": kind}, measure not in WITHOUT_BINS
    n_entries = rows.n_samples * (len(rows.classes) if kind == "classwise" else 1)
    if n_entries <= (5_000_000 if is_binned else MANY_ROWS):
        params |= {"measure": measure, **rows.draws(n_entries)}
        if not is_binned:  # a resample takes milliseconds
            params["n_resamples"] = FEWEST_RESAMPLES
        if before is None:
            return metrics.calibration_error_interval(rows.y, rows.P, **params)
        return metrics.calibration_difference(rows.y, before.P, rows.P, **params)
    if not is_binned:
        del params["n_bins"]
    error, *first = (
        getattr(metrics, measure)(rows.y, one.P, **params) for one in (rows, before) if one
    )
    if not first:
        return IntervalEstimate(error, math.nan, math.nan)
    return CalibrationDifference(error - first[0], math.nan, math.nan, math.nan)


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


# Tests by intervals that do not contain 1.
RISK_TESTS = {
    "the mean risk": "observed over expected",
    "the spread of the risks": "calibration slope",
}


def risk_functions(rows: Evaluation, level: float = LEVEL) -> dict[str, Callable[[], Any]]:
    """Return functions that compute the figures of the risk of the second class.

    ``level`` is the confidence level of the intervals that decide on calibration.
    """
    risk, outcomes = rows.P[:, 1], (rows.hits, rows.weights, rows.groups)
    fitted = {"y_true": rows.y, "y_proba": rows.P, **rows.likelihood_params}
    logistic = {**fitted, "groups": rows.groups, "confidence_level": level}
    z = {**fitted, **rows.random_params, "measure": "spiegelhalter_z"}
    return {
        "events": lambda: int(rows.counts[1]),
        "prevalence": lambda: proportion_interval(*outcomes),
        "observed over expected": lambda: observed_over_expected(risk, *outcomes, level),
        "c-statistic": lambda: c_statistic(risk, *outcomes),
        "calibration in the large": lambda: clinical.calibration_intercept(**logistic),
        "calibration slope": lambda: clinical.calibration_slope(**logistic),
        "ICI": lambda: rows.distances["ICI"],
        "E50": lambda: rows.distances["E50"],
        "E90": lambda: rows.distances["E90"],
        "Emax": lambda: rows.distances["Emax"],
        "Spiegelhalter's z": lambda: metrics.calibration_test(**z),
    }


@silent
def risk_figure(rows: Evaluation, title: str, level: float = LEVEL) -> Any:
    """Return a figure of the risk, or None if it does not exist."""
    try:
        return risk_functions(rows, level)[title]()
    except ValueError:  # rows of one class, or separated by a threshold
        return None


def rejections(rows: Evaluation, level: float) -> dict[str, bool]:
    """Return whether each test on the page rejects at a level."""
    results: dict[str, Any] = {"the ECE": rows.test}
    if rows.kind == "binary":
        for test, title in RISK_TESTS.items():
            results[test] = risk_figure(rows, title, 1 - level)
        results["Spiegelhalter's z"] = risk_figure(rows, "Spiegelhalter's z")
    results["a segment"] = rows.segments
    rejected = {}
    for test, result in results.items():
        if isinstance(result, IntervalEstimate):
            if not math.isnan(result.low):
                rejected[test] = not result.low <= 1 <= result.high
        elif result is not None:
            rejected[test] = result.pvalue <= level
    return rejected

"""Evaluated rows of a report, and their measures before and after calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from skcalib import clinical, metrics
from skcalib._input.labels import encode
from skcalib._rows import Array, Floats, Indices
from skcalib.metrics import CalibrationDifference, IntervalEstimate
from skcalib.metrics._groups import degrees_of_freedom, skewed_interval, sums_by_group
from skcalib.metrics._input import Kind
from skcalib.metrics._proper_scores import brier_scores, log_losses

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
    """Labels, probabilities before and after calibration, and the settings of the measures."""

    y: Array
    before: Floats
    after: Floats
    classes: Array
    sample_weight: Floats | None
    groups: Indices | None  #: number of the group of each row
    n_bins: int
    kind: Kind  #: "binary" or "top-label"
    seed: int  #: of all resamples

    def __post_init__(self) -> None:
        self.index: Indices = encode(self.y, self.classes)  #: column of each label
        w = self.sample_weight
        self.weights = np.ones(len(self.y)) if w is None else w
        # Rows with a positive weight, of each class and in all.
        self.counts = np.bincount(self.index[self.weights > 0], minlength=len(self.classes))
        self.n_samples = int(self.counts.sum())

    @property
    def row_params(self) -> dict[str, Any]:
        """Keyword arguments of measures without bins."""
        return {"sample_weight": self.sample_weight, "labels": self.classes}

    @property
    def params(self) -> dict[str, Any]:
        """Keyword arguments of measures and diagrams."""
        return {**self.row_params, "n_bins": self.n_bins, "kind": self.kind}

    @property
    def diagram_params(self) -> dict[str, Any]:
        """Keyword arguments of reliability diagrams."""
        return {**self.params, "groups": self.groups, "random_state": self.seed}

    def draws(self, n_entries: int) -> dict[str, Any]:
        """Keyword arguments of resampling: 499 resamples, or down to 99 for many rows."""
        n_resamples = int(np.clip(5_000_000 // n_entries, 99, 499))
        return {"groups": self.groups, "n_resamples": n_resamples, "random_state": self.seed}

    def events(self, P: Floats) -> tuple[Floats, Floats]:
        """Score of each row, and 1 where its event happened, else 0."""
        if self.kind == "binary":
            return P[:, 1], (self.index == 1).astype(float)
        return P.max(axis=1), (P.argmax(axis=1) == self.index).astype(float)

    @property
    def n_effective(self) -> float:
        """Number of rows, or groups, of equal weight with the same variance of means."""
        share = sums_by_group(self.weights / self.weights.sum(), self.groups)
        return 1 / float(share @ share)


def all_changes(rows: Evaluation) -> dict[str, Change]:
    """All measures by name, in the order of the table."""
    changes = mean_changes(rows)
    for title, measure in ERRORS.items():
        changes[title] = error_change(rows, measure, rows.kind)
    other: Kind = "top-label" if rows.kind == "binary" else "classwise"
    changes[f"{other} ECE"] = error_change(rows, ERRORS["ECE"], other)
    return changes


def mean_changes(rows: Evaluation) -> dict[str, Change]:
    """Measures that are means over rows: proper scores, accuracy, and the mean gap."""

    def values(P: Floats) -> dict[str, Floats]:
        score, event = rows.events(P)
        gap = "mean probability - event rate" if rows.kind == "binary" else "confidence - accuracy"
        return {
            "log loss": log_losses(P, rows.index),
            "Brier score": brier_scores(P, rows.index),
            "accuracy": (P.argmax(axis=1) == rows.index).astype(float),
            gap: score - event,
        }

    before, after, weights_and_groups = (
        values(rows.before),
        values(rows.after),
        (rows.weights, rows.groups),
    )
    changes = {}
    for title in before:
        interval = proportion_interval if title == "accuracy" else mean_interval
        difference = mean_difference(after[title] - before[title], *weights_and_groups)
        first, second = (interval(values[title], *weights_and_groups) for values in (before, after))
        changes[title] = Change(first, second, difference)
    return changes


def error_change(rows: Evaluation, measure: str, kind: Kind) -> Change:
    """Calibration error before and after; without intervals if these would take minutes."""
    n_entries = rows.n_samples * (len(rows.classes) if kind == "classwise" else 1)
    params = {**rows.params, "kind": kind}
    without_bins = measure in {ERRORS["smooth ECE"], ERRORS["averaged two-bin error"]}
    if n_entries > (100_000 if without_bins else 5_000_000):
        function = getattr(metrics, measure)
        if without_bins:
            del params["n_bins"]
        before, after = (function(rows.y, P, **params) for P in (rows.before, rows.after))
        return Change(
            IntervalEstimate(before, math.nan, math.nan),
            IntervalEstimate(after, math.nan, math.nan),
            CalibrationDifference(after - before, math.nan, math.nan, math.nan),
        )
    params |= {"measure": measure, **rows.draws(n_entries)}
    if without_bins:  # it takes milliseconds for each resample
        params["n_resamples"] = 99
    return Change(
        metrics.calibration_error_interval(rows.y, rows.before, **params),
        metrics.calibration_error_interval(rows.y, rows.after, **params),
        metrics.calibration_difference(rows.y, rows.after, rows.before, **params),
    )


def mean_estimate(
    values: Floats, w: Floats, groups: Indices | None = None
) -> tuple[float, float, float, float]:
    """Weighted mean, its 95% interval, and the p-value of the mean 0; NaN for a single group."""
    mean, sizes = float(np.average(values, weights=w)), sums_by_group(w, groups)
    n = np.count_nonzero(sizes)
    if n < 2:
        return mean, math.nan, math.nan, math.nan
    residuals = sums_by_group(w / w.sum() * (values - mean), groups)[sizes > 0]
    freedom = degrees_of_freedom(sizes[sizes > 0])
    return mean, *skewed_interval(mean, n * residuals, LEVEL, freedom)


def mean_interval(values: Floats, w: Floats, groups: Indices | None = None) -> IntervalEstimate:
    """Interval of a weighted mean, corrected for skewness."""
    return IntervalEstimate(*mean_estimate(values, w, groups)[:3])


def proportion_interval(hit: Floats, w: Floats, groups: Indices | None = None) -> IntervalEstimate:
    """Wilson interval of a weighted proportion, with the effective number of rows or groups."""
    share = sums_by_group(w / w.sum(), groups)
    p, n = float(np.average(hit, weights=w)), 1 / float(share @ share)
    centre, factor = p + Z_LEVEL**2 / (2 * n), 1 + Z_LEVEL**2 / n
    half = Z_LEVEL * math.sqrt(p * (1 - p) / n + (Z_LEVEL / (2 * n)) ** 2)
    return IntervalEstimate(p, (centre - half) / factor, (centre + half) / factor)


def mean_difference(
    differences: Floats, w: Floats, groups: Indices | None = None
) -> CalibrationDifference:
    """Interval and test of a weighted mean of paired differences, corrected for skewness."""
    return CalibrationDifference(*mean_estimate(differences, w, groups))


def risk_figures(rows: Evaluation) -> dict[str, tuple[Any, Any]]:
    """Figures of the risk of the second class before and after; None where there is none.

    Likelihoods count weights as rows, so the weights are scaled to sum to the effective rows.
    """
    share = rows.weights / rows.weights.sum()
    params = {"sample_weight": share / float(share @ share), "labels": rows.classes}
    distance, groups = clinical.integrated_calibration_index, rows.groups
    measures: dict[str, Callable[..., Any]] = {
        "calibration in the large": partial(clinical.calibration_intercept, groups=groups),
        "calibration slope": partial(clinical.calibration_slope, groups=groups),
        "ICI": distance,
        "E50": partial(distance, quantile=0.5),
        "E90": partial(distance, quantile=0.9),
        "Emax": partial(distance, quantile=1),
        "Spiegelhalter's z": partial(
            metrics.calibration_test, measure="spiegelhalter_z", groups=groups,
            random_state=rows.seed,
        ),
    }  # fmt: skip

    def figure(measure: Callable[..., Any], P: Floats) -> Any:
        try:
            return measure(rows.y, P, **params)
        except ValueError:  # rows of one class, or separated by a threshold
            return None

    return {
        title: (figure(measure, rows.before), figure(measure, rows.after))
        for title, measure in measures.items()
    }


def class_columns(rows: Evaluation) -> dict[str, Array]:
    """Rows, base rate, mean probability and ECE of each class, in the order of the columns."""
    weight = np.bincount(rows.index, rows.weights, minlength=len(rows.classes))
    columns = {"label": rows.classes, "n_samples": rows.counts, "base_rate": weight / weight.sum()}
    for when, P in (("before", rows.before), ("after", rows.after)):
        columns[f"mean_{when}"] = np.average(P, axis=0, weights=rows.sample_weight).astype(float)
        params = {**rows.params, "kind": "classwise", "average": None}
        columns[f"ece_{when}"] = metrics.expected_calibration_error(rows.y, P, **params)
    return columns

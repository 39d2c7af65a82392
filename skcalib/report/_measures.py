"""The rows of a report, and all measures before and after calibration with intervals.

Each value is that of :func:`skcalib.metrics.calibration_error_interval` or
:func:`skcalib.metrics.calibration_difference` with the seed :data:`SEED`; resamples are drawn once
for all measures. Log loss, Brier score and accuracy are means over rows, whose intervals are those
of the normal distribution, or Wilson's for the accuracy.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from skcalib import clinical, metrics
from skcalib._output.html import as_text
from skcalib._rows import Array, Floats, Indices
from skcalib._validation.labels import encode, shown
from skcalib.metrics import CalibrationDifference, IntervalEstimate
from skcalib.metrics._calibration_error import FORMULAS
from skcalib.metrics._input import Kind, resolved
from skcalib.metrics._inversion import Simulation, cells_of, mean_gap_ends, simulated
from skcalib.metrics._proper_scores import brier_scores, log_losses
from skcalib.metrics._groups import draw_rows
from skcalib.metrics._resampling import Measured, MeasuredByBins, measured_by
from skcalib.metrics._uncertainty import difference_of, interval_of

# Classes with fewer rows are listed: their measures say little.
FEW = 10

# Longer names are cut, of classes and of the report itself: they would fill the page, leave no room
# for the diagrams, and take long to draw.
LETTERS, LETTERS_OF_REPORT = 120, 400


class Evaluation:
    """Labels, weights and settings, and the probabilities that are evaluated with them."""

    def __init__(
        self,
        y: Array,
        w: Floats | None,
        classes: Array,
        n_bins: int,
        before: Floats,
        after: Floats,
        kind: Kind = "auto",
    ) -> None:
        self.y, self.w, self.classes, self.n_bins = y, w, classes, n_bins
        self.before, self.after = before, after
        #: Of two classes the second is the event, of more the top label counts.
        self.kind = resolved(kind, classes)
        # Arguments of measures without bins, with bins, and with the kind as well.
        self.of_rows: dict[str, Any] = {"sample_weight": w, "labels": classes}
        self.keywords = {**self.of_rows, "n_bins": n_bins}
        self.of_kind = {**self.keywords, "kind": self.kind}
        self.index = encode(y, classes)  # the column of each label
        self.weights = np.ones(len(y)) if w is None else w
        self.n_classes = len(classes)
        # Rows with a positive weight, of each class and in all.
        self.counts = np.bincount(self.index[self.weights > 0], minlength=self.n_classes)
        self.n_samples = int(self.counts.sum())
        # Rows of equal weight whose means would have the same variance.
        share = self.weights / self.weights.max()
        self.n_effective = float(share.sum() ** 2 / (share @ share))

    def scored(self, P: Floats) -> tuple[Floats, Array]:
        """The score of each row, and whether its event happened."""
        if self.kind == "binary":
            return P[:, 1], self.index == 1
        return P.max(axis=1), P.argmax(axis=1) == self.index

    def mean(self, values: Array) -> float:
        """The weighted mean of a value of each row."""
        return float(np.average(values, weights=self.w))


def short(name: object, letters: int = LETTERS) -> str:
    """A name as text, by default of a class, without what exceeds so many letters."""
    text = as_text(name)
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"


def listed(classes: Iterable[Any]) -> str:
    """The first names of classes as a list, with quotation marks around texts."""
    return shown([short(c) if len(as_text(c)) > LETTERS else c for c in classes]) or "none"


def facts_of(Z: Floats, rows: Evaluation) -> list[tuple[str, str]]:
    """Facts about logits and their rows, of which those with a weight of 0 are left out."""
    n_absent = len(Z) - rows.n_samples
    absent = f", and {n_absent:,} with a weight of 0, which are left out" if n_absent else ""
    weights = f"{rows.weights.sum():,.6g} in total, {rows.n_effective:,.1f} effective rows"
    kept = rows.weights > 0
    Z = Z[kept]
    masked = np.isneginf(Z)
    low, high = (f.reduce(Z[~masked], initial=np.nan) for f in (np.fmin, np.fmax))
    n_masked = f"{masked.sum():,} logits in {masked.any(axis=1).sum():,} rows"
    tied = (Z.max(axis=1, keepdims=True) == Z).sum(axis=1) > 1 if Z.shape[1] > 1 else Z == 0
    n_distinct = len(np.unique(rows.after[kept].max(axis=1)))
    return [
        ("Rows", f"{rows.n_samples:,}{absent}"),
        ("Weights", "none: all rows count the same" if rows.w is None else weights),
        (
            f"Classes with fewer than {FEW} rows",
            listed(rows.classes[(rows.counts > 0) & (rows.counts < FEW)]),
        ),
        ("Classes without rows", listed(rows.classes[rows.counts == 0])),
        ("Logits", f"{low:.4g} to {high:.4g}, {Z.dtype}"),
        ("Masked classes", n_masked if masked.any() else "none"),
        ("Rows with a tie for the largest logit", f"{tied.sum():,}"),
        ("Distinct confidences after calibration", f"{n_distinct:,}"),
    ]


SEED = 0
LEVEL = 0.95
Z_LEVEL = float(ndtri((1 + LEVEL) / 2))  # 1.96

# Resamples: 999, or fewer for many rows, so that all intervals of 10 000 rows take some seconds.
MOST, LEAST, ENTRIES = 999, 99, 10_000_000

# Above so many entries there are no intervals of measures that take long for each resample.
TOO_MANY = {"smooth": 100_000, "classes": 5_000_000}

# Measures of the event of two classes, or the top label, by their titles: names in skcalib.metrics.
BINNED = {
    "ECE": "expected_calibration_error",
    "MCE": "maximum_calibration_error",
    "RMSCE": "root_mean_squared_calibration_error",
    "overconfidence error": "overconfidence_error",
    "underconfidence error": "underconfidence_error",
    "debiased ECE": "debiased_expected_calibration_error",
    "debiased RMSCE": "debiased_root_mean_squared_calibration_error",
}
SMOOTH = {"smooth ECE": "smooth_calibration_error"}

# Figures of the risk of an event, by their titles.
_DISTANCE = clinical.integrated_calibration_index
RISK: dict[str, Callable[..., Any]] = {
    "calibration in the large": clinical.calibration_intercept,
    "calibration slope": clinical.calibration_slope,
    "ICI": _DISTANCE,
    "E50": partial(_DISTANCE, quantile=0.5),
    "E90": partial(_DISTANCE, quantile=0.9),
    "Emax": partial(_DISTANCE, quantile=1),
    "Spiegelhalter's z": partial(metrics.calibration_test, measure="spiegelhalter_z"),
}

# What the measures are, by their titles.
MEANINGS = {
    "log loss": "Mean negative logarithm of the probability of the label: a proper scoring rule, "
    "which rewards calibration and discrimination, and by which calibrators should be chosen.",
    "Brier score": "Mean squared distance of the probabilities from the label, halved for two "
    "classes: a proper scoring rule, which confident errors affect less than the log loss.",
    "accuracy": "Fraction of the rows whose most probable class is the label.",
    "ECE": "Expected calibration error: the mean gap between predicted probability and observed "
    "frequency over the bins, of the second of two classes, or of the predicted class of more. It "
    "is biased upwards where bins hold few rows.",
    "MCE": "Maximum calibration error: the largest gap of all bins, however few rows that bin "
    "holds.",
    "RMSCE": "Root mean squared calibration error: the quadratic mean of the gaps, between ECE and "
    "MCE.",
    "overconfidence error": "The part of the ECE from bins whose predicted probability exceeds "
    "the observed frequency.",
    "underconfidence error": "The part of the ECE from bins whose observed frequency exceeds the "
    "predicted probability.",
    "debiased ECE": "The ECE less an estimate of its bias, so that models can be compared.",
    "debiased RMSCE": "Square root of an unbiased estimate of the mean squared gap, 0 if that is "
    "negative.",
    "smooth ECE": "Smooth calibration error: the gap as seen through a kernel whose width the data "
    "choose, without bins.",
    "classwise ECE": "The ECE of the predicted probability of each class for the event that the "
    "label is that class, as a mean over the classes.",
    "top-label ECE": "The ECE of the confidence, the probability of the predicted class, for the "
    "event that it is the label.",
}


class Change(NamedTuple):
    """A measure before and after calibration with 95 % intervals, and the difference.

    ``difference.estimate`` is the value after calibration less that before. Where intervals are
    not computed, their ends are NaN.
    """

    before: IntervalEstimate
    after: IntervalEstimate
    difference: CalibrationDifference


def number_of_resamples(n_entries: int) -> int:
    """How many resamples there are for so many rows, or rows times classes."""
    return int(np.clip(ENTRIES // n_entries, LEAST, MOST))


def changes_of(rows: Evaluation) -> dict[str, Change]:
    """All measures by their titles, in the order of the table."""
    # Beside the main measures the ECE of the other definition.
    n = rows.n_samples
    other: Kind = "top-label" if rows.kind == "binary" else "classwise"
    n_entries = n if other == "top-label" else n * rows.n_classes
    of_smooth = LEAST if n <= TOO_MANY["smooth"] else 0
    of_classes = number_of_resamples(n_entries) if n_entries <= TOO_MANY["classes"] else 0
    return {
        **_means(rows),
        **_errors(rows, BINNED, rows.kind, number_of_resamples(n)),
        **_errors(rows, SMOOTH, rows.kind, of_smooth),
        **_errors(rows, {f"{other} ECE": BINNED["ECE"]}, other, of_classes),
    }


def _means(rows: Evaluation) -> dict[str, Change]:
    """The measures that are means over rows."""
    pair, y = (rows.before, rows.after), rows.index
    of_rows = {
        "log loss": (mean_interval, [log_losses(P, y) for P in pair]),
        "Brier score": (mean_interval, [brier_scores(P, y) for P in pair]),
        "accuracy": (wilson_interval, [(P.argmax(axis=1) == y).astype(float) for P in pair]),
    }
    return {
        title: Change(
            interval(before, rows.weights),
            interval(after, rows.weights),
            compared_means(after - before, rows.weights),
        )
        for title, (interval, (before, after)) in of_rows.items()
    }


def _errors(
    rows: Evaluation, names: dict[str, str], kind: Kind, n_resamples: int
) -> dict[str, Change]:
    """Calibration errors by title from the same resamples; without any, they have no intervals."""
    first, *_ = names.values()
    models = [
        measured_by(first, rows.n_bins, "uniform", rows.y, P, kind, rows.w, rows.classes, None)
        for P in (rows.before, rows.after)
    ]

    functions = [resampled(model, [*names.values()]) for model in models]
    n, random = models[0].problem.rows.n_rows, check_random_state(SEED)
    estimates = np.array([values(np.ones(n, dtype=np.intp)) for values in functions])
    if n_resamples == 0:
        pairs = zip(names, estimates.T.tolist(), strict=True)
        return {title: _without_intervals(*pair) for title, pair in pairs}
    samples = (draw_rows(n, random) for _ in range(n_resamples))
    draws = np.array([[values(times) for values in functions] for times in samples])
    simulations = [
        simulated(model, n_resamples, check_random_state(SEED), LEVEL)
        if isinstance(model, MeasuredByBins)
        else None
        for model in models
    ]
    return {
        title: _with_intervals(name, estimates[:, k].tolist(), draws[:, :, k].T, simulations)
        for k, (title, name) in enumerate(names.items())
    }


def resampled(model: Measured, names: list[str]) -> Callable[[Indices], list[float]]:
    """The function that gives measures of rows that are repeated so many times."""
    if not isinstance(model, MeasuredByBins):
        return lambda times: [model.of_rows(times)]
    if len(model.columns) == 1:
        return lambda times: [FORMULAS[f](curve) for curve in model.curves(times) for f in names]
    # The ECE of classes, which may be many, by a single sum for all of them.
    cells = cells_of(model).bins
    gaps = np.stack([column.score - column.event for column in model.columns]) * model.weights

    def classwise_error(times: Indices) -> list[float]:
        sums = np.bincount(cells.ravel(), (gaps * times).ravel())
        return [float(np.abs(sums).sum() / (times @ model.weights) / len(cells))]

    return classwise_error


def _with_intervals(
    name: str, estimates: list[float], draws: Floats, simulations: list[Simulation | None]
) -> Change:
    """A measure with intervals by inversion where there are such, else basic ones."""
    before, after = (
        interval_of(estimate, of_model, LEVEL, "basic")
        if simulation is None
        else IntervalEstimate(estimate, *simulation.ends(name, estimate))
        for estimate, of_model, simulation in zip(estimates, draws, simulations, strict=True)
    )
    difference = difference_of(after, before, draws[1] - draws[0], LEVEL)
    return Change(before, after, difference)


def _without_intervals(before: float, after: float) -> Change:
    """Values of a measure whose resampling would take too long."""
    nan = math.nan
    return Change(
        IntervalEstimate(before, nan, nan),
        IntervalEstimate(after, nan, nan),
        CalibrationDifference(after - before, nan, nan, nan),
    )


def risk_figures(rows: Evaluation) -> dict[str, tuple[Any, Any]]:
    """Figures of the risk of the second class before and after, None where rows have no such.

    Likelihoods count weights as rows, so these sum to the effective rows, as of all intervals here.
    """
    w = rows.weights * (rows.n_effective / rows.weights.sum())

    def figure(f: Callable[..., Any], P: Floats) -> Any:
        try:
            return f(rows.y, P, sample_weight=w, labels=rows.classes)
        except ValueError:  # of rows of one class, or separated by a threshold
            return None

    return {title: (figure(f, rows.before), figure(f, rows.after)) for title, f in RISK.items()}


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


def mean_interval(values: Floats, w: Floats) -> IntervalEstimate:
    """Normal interval of a weighted mean."""
    mean, error = mean_and_error(values, w)
    return IntervalEstimate(mean, mean - Z_LEVEL * error, mean + Z_LEVEL * error)


def wilson_interval(hit: Floats, w: Floats) -> IntervalEstimate:
    """Wilson's interval of a weighted fraction, with the effective number of rows."""
    # The fraction is one less the gap to a confidence of one.
    low, high = mean_gap_ends(np.ones(len(hit)), hit, w, LEVEL)
    return IntervalEstimate(float(np.average(hit, weights=w)), 1 - high, 1 - low)


def gap_interval(confidence: Floats, hit: Floats, w: Floats) -> IntervalEstimate:
    """Interval of the mean confidence less the accuracy.

    Its ends are those of the normal interval, or of Wilson's where they lie further out, as they do
    if hardly a row is misclassified.
    """
    low, high = mean_gap_ends(confidence, hit, w, LEVEL)
    normal = mean_interval(confidence.astype(np.float64) - hit, w)
    ends = float(np.fmin(low, normal.low)), float(np.fmax(high, normal.high))
    return IntervalEstimate(normal.estimate, *ends)


def compared_means(differences: Floats, w: Floats) -> CalibrationDifference:
    """Normal test and interval of the mean of paired differences."""
    mean, error = mean_and_error(differences, w)
    if error == 0:
        return CalibrationDifference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    pvalue, half = float(2 * ndtr(-abs(mean) / error)), Z_LEVEL * error
    return CalibrationDifference(mean, mean - half, mean + half, pvalue)

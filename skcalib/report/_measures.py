"""The measures of a report: what they are, their names in tables, and which of them apply."""

from typing import NamedTuple

from skcalib.metrics import CalibrationComparisonResult, CalibrationErrorInterval
from skcalib.metrics._input import Kind


class Measure(NamedTuple):
    """A measure with its name in tables and a sentence that says what it is."""

    title: str
    function: str  #: its name in :mod:`skcalib.metrics`, or of the mean of a score
    meaning: str
    kind: Kind = "top-label"


class Change(NamedTuple):
    """A measure before and after calibration with 95 % intervals, and the difference.

    ``difference.statistic`` is the value after calibration less that before. Where intervals are
    not computed, their ends are NaN.
    """

    before: CalibrationErrorInterval
    after: CalibrationErrorInterval
    difference: CalibrationComparisonResult


LOG_LOSS = Measure(
    "log loss",
    "log_loss",
    "Mean negative logarithm of the probability of the label: a proper scoring rule, which "
    "rewards calibration and discrimination, and by which calibrators should be chosen.",
)
BRIER = Measure(
    "Brier score",
    "brier_score",
    "Mean squared distance of the probabilities from the label, halved for two classes: a proper "
    "scoring rule, which confident errors affect less than the log loss.",
)
ACCURACY = Measure(
    "accuracy", "accuracy", "Fraction of the rows whose most probable class is the label."
)
ECE = Measure(
    "ECE",
    "expected_calibration_error",
    "Expected calibration error: the mean gap between confidence and accuracy over the bins. It is "
    "biased upwards where bins hold few rows.",
)
MCE = Measure(
    "MCE",
    "maximum_calibration_error",
    "Maximum calibration error: the largest gap of all bins, however few rows that bin holds.",
)
RMSCE = Measure(
    "RMSCE",
    "root_mean_squared_calibration_error",
    "Root mean squared calibration error: the quadratic mean of the gaps, between ECE and MCE.",
)
OVER = Measure(
    "overconfidence error",
    "overconfidence_error",
    "The part of the ECE from bins whose confidence exceeds their accuracy.",
)
UNDER = Measure(
    "underconfidence error",
    "underconfidence_error",
    "The part of the ECE from bins whose accuracy exceeds their confidence.",
)
DEBIASED_ECE = Measure(
    "debiased ECE",
    "debiased_expected_calibration_error",
    "The ECE less an estimate of its bias, so that models can be compared.",
)
DEBIASED_RMSCE = Measure(
    "debiased RMSCE",
    "debiased_root_mean_squared_calibration_error",
    "Square root of an unbiased estimate of the mean squared gap, 0 if that is negative.",
)
SMOOTH = Measure(
    "smooth ECE",
    "smooth_calibration_error",
    "Smooth calibration error: the gap as seen through a kernel whose width the data choose, "
    "without bins.",
)
CLASSWISE = Measure(
    "classwise ECE",
    "expected_calibration_error",
    "The ECE of the predicted probability of each class for the event that the label is that "
    "class, as a mean over the classes.",
    kind="classwise",
)
BINARY = Measure(
    "binary ECE",
    "expected_calibration_error",
    "The ECE of the predicted probability of the second class for the event that the label is "
    "that class.",
    kind="binary",
)

MEANS = (LOG_LOSS, BRIER, ACCURACY)
BINNED = (ECE, MCE, RMSCE, OVER, UNDER, DEBIASED_ECE, DEBIASED_RMSCE)


def of_classes(n_classes: int) -> Measure:
    """The measure of the probabilities of classes, of which two are one event."""
    return BINARY if n_classes == 2 else CLASSWISE


def measures(n_classes: int) -> tuple[Measure, ...]:
    """All measures for so many classes, in the order of the table."""
    return (*MEANS, *BINNED, SMOOTH, of_classes(n_classes))

"""Measures of calibration of labels and probabilities, with scorers, intervals and tests."""

from __future__ import annotations

from ._calibration_error import (
    averaged_two_bin_calibration_error,
    debiased_expected_calibration_error,
    debiased_root_mean_squared_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_squared_calibration_error,
    smooth_calibration_error,
    underconfidence_error,
)
from ._curve import ReliabilityCurve, reliability_curve
from ._display import ScoreDecompositionDisplay
from ._proper_scores import ScoreDecomposition, ranked_probability_score, score_decomposition
from ._scorers import calibration_scorer, get_scorer_names
from ._uncertainty import (
    CalibrationDifference,
    CalibrationTestResult,
    IntervalEstimate,
    calibration_difference,
    calibration_error_interval,
    calibration_test,
)

__all__ = [
    "CalibrationDifference",
    "CalibrationTestResult",
    "IntervalEstimate",
    "ReliabilityCurve",
    "ScoreDecomposition",
    "ScoreDecompositionDisplay",
    "averaged_two_bin_calibration_error",
    "calibration_difference",
    "calibration_error_interval",
    "calibration_scorer",
    "calibration_test",
    "debiased_expected_calibration_error",
    "debiased_root_mean_squared_calibration_error",
    "expected_calibration_error",
    "get_scorer_names",
    "maximum_calibration_error",
    "overconfidence_error",
    "ranked_probability_score",
    "reliability_curve",
    "root_mean_squared_calibration_error",
    "score_decomposition",
    "smooth_calibration_error",
    "underconfidence_error",
]

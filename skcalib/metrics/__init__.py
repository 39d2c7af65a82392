"""Measures of calibration, as functions of labels and probabilities and as scorers.

Their common parameters are described in :func:`reliability_curve`.
"""

from ._calibrated_mean import CalibratedMean, calibrated_mean
from ._calibration_error import (
    debiased_expected_calibration_error,
    debiased_root_mean_squared_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    overconfidence_error,
    root_mean_squared_calibration_error,
    smooth_calibration_error,
    underconfidence_error,
)
from ._clinical import (
    calibration_intercept,
    calibration_slope,
    integrated_calibration_index,
)
from ._cost import NetBenefitCurve, bayes_decision, expected_cost, net_benefit, net_benefit_curve
from ._curve import ReliabilityCurve, reliability_curve
from ._proper_scores import ScoreDecomposition, score_decomposition
from ._scorers import get_scorer, get_scorer_names
from ._segments import MulticalibrationResult, multicalibration_error
from ._selective import (
    RiskCoverageCurve,
    SelectiveThreshold,
    area_under_risk_coverage,
    risk_coverage_curve,
    selective_threshold,
)
from ._uncertainty import (
    CalibrationDifference,
    CalibrationTestResult,
    IntervalEstimate,
    calibration_difference,
    calibration_error_interval,
    calibration_test,
)

__all__ = [
    "CalibratedMean",
    "CalibrationDifference",
    "CalibrationTestResult",
    "IntervalEstimate",
    "MulticalibrationResult",
    "NetBenefitCurve",
    "ReliabilityCurve",
    "RiskCoverageCurve",
    "ScoreDecomposition",
    "SelectiveThreshold",
    "area_under_risk_coverage",
    "bayes_decision",
    "calibrated_mean",
    "calibration_difference",
    "calibration_error_interval",
    "calibration_intercept",
    "calibration_slope",
    "calibration_test",
    "debiased_expected_calibration_error",
    "debiased_root_mean_squared_calibration_error",
    "expected_calibration_error",
    "expected_cost",
    "get_scorer",
    "get_scorer_names",
    "integrated_calibration_index",
    "maximum_calibration_error",
    "multicalibration_error",
    "net_benefit",
    "net_benefit_curve",
    "overconfidence_error",
    "reliability_curve",
    "risk_coverage_curve",
    "root_mean_squared_calibration_error",
    "score_decomposition",
    "selective_threshold",
    "smooth_calibration_error",
    "underconfidence_error",
]

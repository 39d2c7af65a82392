"""Decisions from calibrated probabilities: costs, thresholds, and selective prediction."""

from __future__ import annotations

from ._cost import bayes_decision, calibration_decision_loss, expected_cost
from ._display import RiskCoverageDisplay
from ._selective import (
    RiskCoverageCurve,
    SelectiveThreshold,
    area_under_risk_coverage,
    risk_coverage_curve,
    selective_threshold,
)

__all__ = [
    "RiskCoverageCurve",
    "RiskCoverageDisplay",
    "SelectiveThreshold",
    "area_under_risk_coverage",
    "bayes_decision",
    "calibration_decision_loss",
    "expected_cost",
    "risk_coverage_curve",
    "selective_threshold",
]

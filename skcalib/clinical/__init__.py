"""Measures of risk models in medicine: slope, intercept, net benefit, and optimism."""

from __future__ import annotations

from ._censoring import censoring_weights
from ._display import NetBenefitDisplay
from ._net_benefit import NetBenefitCurve, net_benefit, net_benefit_curve
from ._optimism import OptimismCorrection, optimism_corrected
from ._regression import (
    calibration_intercept,
    calibration_slope,
    integrated_calibration_index,
)

__all__ = [
    "NetBenefitCurve",
    "NetBenefitDisplay",
    "OptimismCorrection",
    "calibration_intercept",
    "calibration_slope",
    "censoring_weights",
    "integrated_calibration_index",
    "net_benefit",
    "net_benefit_curve",
    "optimism_corrected",
]

"""Measures of calibration, as functions of labels and probabilities and as scorers.

All take the same arguments, described once in :func:`reliability_curve`.
"""

from __future__ import annotations

from ._binned import (
    ReliabilityCurve,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_curve,
    root_mean_squared_calibration_error,
)
from ._scorers import get_scorer, get_scorer_names

__all__ = [
    "ReliabilityCurve",
    "expected_calibration_error",
    "get_scorer",
    "get_scorer_names",
    "maximum_calibration_error",
    "reliability_curve",
    "root_mean_squared_calibration_error",
]

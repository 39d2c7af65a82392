"""Calibration within segments and given features of the rows."""

from __future__ import annotations

from ._calibrator import ConditionalCalibrator
from ._display import SegmentDisplay
from ._segments import MulticalibrationResult, multicalibration_error

__all__ = [
    "ConditionalCalibrator",
    "MulticalibrationResult",
    "SegmentDisplay",
    "multicalibration_error",
]

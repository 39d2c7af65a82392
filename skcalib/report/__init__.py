"""Report of a calibrator as a figure and as a page: before and after calibration."""

from __future__ import annotations

from ._report import CalibrationReport as CalibrationReport, calibration_report

# What is called. Its result is public here, and not in the top level.
__all__ = ["calibration_report"]

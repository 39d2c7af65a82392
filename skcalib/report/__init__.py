"""Report of a calibrator as a figure and as a page: before and after calibration."""

from __future__ import annotations

from ._report import CalibrationReport as CalibrationReport, calibration_report

# The class of the result is public in this module only, not in skcalib.
__all__ = ["calibration_report"]

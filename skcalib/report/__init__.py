"""Report of a calibrator as a figure and as a page: before and after calibration."""

from ._report import CalibrationReport, calibration_report

__all__ = ["CalibrationReport", "calibration_report"]

"""Report of a calibrator as a figure and as a page: before and after calibration."""

from ._function import calibration_report
from ._report import CalibrationReport

__all__ = ["CalibrationReport", "calibration_report"]

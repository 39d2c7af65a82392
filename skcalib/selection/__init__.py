"""The default calibrator, and calibrators compared."""

from ._auto import AutoCalibrator
from ._compare import compare_calibrators
from ._comparison import CalibratorComparison

__all__ = ["AutoCalibrator", "CalibratorComparison", "compare_calibrators"]

"""The default calibrator, and calibrators compared."""

from ._auto import AutoCalibrator
from ._compare import compare_calibrators
from ._comparison import CalibratorComparison
from ._conditional import ConditionalCalibrator

__all__ = ["AutoCalibrator", "CalibratorComparison", "ConditionalCalibrator", "compare_calibrators"]

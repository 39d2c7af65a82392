"""The default calibrator, calibrators compared, and measures corrected for optimism."""

from ._auto import AutoCalibrator
from ._compare import compare_calibrators
from ._comparison import CalibratorComparison
from ._conditional import ConditionalCalibrator
from ._optimism import OptimismCorrection, optimism_corrected

__all__ = [
    "AutoCalibrator",
    "CalibratorComparison",
    "ConditionalCalibrator",
    "OptimismCorrection",
    "compare_calibrators",
    "optimism_corrected",
]

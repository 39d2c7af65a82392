"""The default calibrator, calibrators compared, and measures corrected for optimism."""

from ._auto import AutoCalibrator
from ._compare import compare_calibrators
from ._comparison import CalibratorComparison as CalibratorComparison
from ._conditional import ConditionalCalibrator
from ._optimism import OptimismCorrection as OptimismCorrection, optimism_corrected

# What is called. Results are public here, and not in the top level.
__all__ = ["AutoCalibrator", "ConditionalCalibrator", "compare_calibrators", "optimism_corrected"]

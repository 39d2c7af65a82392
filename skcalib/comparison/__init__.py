"""Comparison of calibrators by cross-validation."""

from ._compare import compare_calibrators
from ._comparison import CalibratorComparison

__all__ = ["CalibratorComparison", "compare_calibrators"]

"""Comparison of calibrators by cross-validation."""

from __future__ import annotations

from ._compare import compare_calibrators
from ._comparison import CalibratorComparison

__all__ = ["CalibratorComparison", "compare_calibrators"]

"""Calibrators compared on the same rows."""

from __future__ import annotations

from ._compare import compare_calibrators
from ._comparison import CalibratorComparison

__all__ = ["CalibratorComparison", "compare_calibrators"]

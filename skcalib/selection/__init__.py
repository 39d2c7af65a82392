"""Calibrators compared on the same rows, and those made of other estimators."""

from __future__ import annotations

from ._classifier_calibrator import ClassifierCalibrator
from ._compare import compare_calibrators
from ._comparison import CalibratorComparison

__all__ = ["CalibratorComparison", "ClassifierCalibrator", "compare_calibrators"]

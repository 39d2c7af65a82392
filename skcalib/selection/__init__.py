"""The default calibrator, calibrators compared, by group, by top label, and of any classifier."""

from __future__ import annotations

from ._auto import AutoCalibrator
from ._classifier_calibrator import ClassifierCalibrator
from ._compare import compare_calibrators
from ._comparison import CalibratorComparison
from ._groups import GroupCalibrator
from ._top_label import TopLabelCalibration

__all__ = [
    "AutoCalibrator",
    "CalibratorComparison",
    "ClassifierCalibrator",
    "GroupCalibrator",
    "TopLabelCalibration",
    "compare_calibrators",
]

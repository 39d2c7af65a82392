"""Calibrators around calibrators: of groups, top labels, several labels, and class priors."""

from ._classifier_calibrator import ClassifierCalibrator
from ._multilabel import MultiLabelCalibrator
from ._prior_shift import PriorShift
from ._top_label import TopLabelCalibration

__all__ = [
    "ClassifierCalibrator",
    "MultiLabelCalibrator",
    "PriorShift",
    "TopLabelCalibration",
]

"""Calibrators around calibrators: of top labels, several labels, noisy labels, and class priors."""

from ._classifier_calibrator import ClassifierCalibrator
from ._multilabel import MultiLabelCalibrator
from ._noisy_labels import NoisyLabelCalibration
from ._prior_shift import PriorShift
from ._top_label import TopLabelCalibration

__all__ = [
    "ClassifierCalibrator",
    "MultiLabelCalibrator",
    "NoisyLabelCalibration",
    "PriorShift",
    "TopLabelCalibration",
]

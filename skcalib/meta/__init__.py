"""Calibrators around calibrators: several labels, class priors, and any classifier."""

from ._multilabel import MultiLabelCalibrator
from ._prior_shift import PriorShift

__all__ = ["MultiLabelCalibrator", "PriorShift"]

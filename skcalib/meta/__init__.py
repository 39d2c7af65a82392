"""Calibrators around calibrators: several labels, class priors, and any classifier."""

from __future__ import annotations

from ._estimator_calibration import EstimatorCalibration
from ._multilabel import MultiLabelCalibrator
from ._prior_shift import PriorShift

__all__ = ["EstimatorCalibration", "MultiLabelCalibrator", "PriorShift"]

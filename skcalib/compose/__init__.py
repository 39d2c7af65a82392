"""Classifiers with calibrators, logits in pipelines, several labels, and other class priors."""

from __future__ import annotations

from ._calibrated_classifier import CalibratedClassifier
from ._logit_transformer import LogitTransformer
from ._multilabel import MultiLabelCalibrator
from ._prior_shift import PriorShift

__all__ = ["CalibratedClassifier", "LogitTransformer", "MultiLabelCalibrator", "PriorShift"]

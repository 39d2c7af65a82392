"""Classifiers with calibrators, and logits in pipelines."""

from __future__ import annotations

from ._calibrated_classifier import CalibratedClassifier
from ._logit_transformer import LogitTransformer

__all__ = ["CalibratedClassifier", "LogitTransformer"]

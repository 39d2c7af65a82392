"""Classifiers with calibrators, and logits in pipelines."""

from ._calibrated_classifier import CalibratedClassifier
from ._logit_transformer import LogitTransformer
from ._score_transformer import ScoreTransformer

__all__ = ["CalibratedClassifier", "LogitTransformer", "ScoreTransformer"]

"""Language models as judges: logits from scores, and means from few labels and many scores."""

from __future__ import annotations

from ._calibrated_mean import CalibratedMean, calibrated_mean, calibrated_mean_difference
from ._score_transformer import ScoreTransformer

__all__ = ["CalibratedMean", "ScoreTransformer", "calibrated_mean", "calibrated_mean_difference"]

"""Calibrators for special cases, with names that may still change."""

from __future__ import annotations

from skcalib.meta import EstimatorCalibration

from ._noisy_labels import NoisyLabelCalibration
from ._top_label import TopLabelCalibration

__all__ = ["EstimatorCalibration", "NoisyLabelCalibration", "TopLabelCalibration"]

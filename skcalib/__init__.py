"""Calibrated probabilities for classifiers, as scikit-learn estimators."""

from __future__ import annotations

from .binning import BBQ, HistogramBinning, IsotonicCalibration
from .display import ReliabilityDisplay
from .platt import PlattScaling
from .scaling import MatrixScaling, TemperatureScaling, VectorScaling

__all__ = [
    "BBQ",
    "HistogramBinning",
    "IsotonicCalibration",
    "MatrixScaling",
    "PlattScaling",
    "ReliabilityDisplay",
    "TemperatureScaling",
    "VectorScaling",
]
__version__ = "0.1.0"

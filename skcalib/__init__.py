"""Calibrated probabilities for classifiers, as scikit-learn estimators."""

from __future__ import annotations

from ._version import __version__ as __version__
from .binning import BBQ, HistogramBinning, IsotonicCalibration, VennAbersCalibration
from .comparison import compare_calibrators
from .compose import CalibratedClassifier, LogitTransformer
from .display import ConfidenceDisplay, ReliabilityDisplay, TemperatureSweepDisplay
from .meta import MultiLabelCalibrator, PriorShift
from .report import calibration_report
from .scaling import (
    BetaCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    OrdinalCalibration,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    TemperatureScaling,
    Uncalibrated,
    VectorScaling,
)
from .selection import AutoCalibrator

__all__ = [
    "BBQ",
    "AutoCalibrator",
    "BetaCalibration",
    "CalibratedClassifier",
    "ConfidenceDisplay",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "HistogramBinning",
    "IsotonicCalibration",
    "LogitTransformer",
    "MatrixScaling",
    "MultiLabelCalibrator",
    "OrderPreservingScaling",
    "OrdinalCalibration",
    "PlattScaling",
    "PriorShift",
    "QuadraticScaling",
    "ReliabilityDisplay",
    "SplineCalibration",
    "TemperatureScaling",
    "TemperatureSweepDisplay",
    "Uncalibrated",
    "VectorScaling",
    "VennAbersCalibration",
    "calibration_report",
    "compare_calibrators",
]

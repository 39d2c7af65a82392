"""Calibrated probabilities for classifiers, as scikit-learn estimators."""

from __future__ import annotations

from ._version import __version__ as __version__
from .binning import BBQ, HistogramBinning, IsotonicCalibration, VennAbersCalibration
from .compose import (
    CalibratedClassifier,
    LogitTransformer,
    MultiLabelCalibrator,
    PriorShift,
)
from .display import (
    ConfidenceDisplay,
    ReliabilityDisplay,
    ReliabilityGridDisplay,
    ScoreDecompositionDisplay,
    TemperatureSweepDisplay,
)
from .monitor import CalibrationMonitor, DriftMonitor
from .report import CalibrationReport, calibration_report
from .scaling import (
    BetaCalibration,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    MatrixScaling,
    OrderPreservingScaling,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    TemperatureScaling,
    VectorScaling,
)
from .selection import (
    AutoCalibrator,
    CalibratorComparison,
    ClassifierCalibrator,
    GroupCalibrator,
    TopLabelCalibration,
    compare_calibrators,
)

__all__ = [
    "BBQ",
    "AutoCalibrator",
    "BetaCalibration",
    "CalibratedClassifier",
    "CalibrationMonitor",
    "CalibrationReport",
    "CalibratorComparison",
    "ClassifierCalibrator",
    "ConfidenceDisplay",
    "DirichletCalibration",
    "DriftMonitor",
    "EnsembleTemperatureScaling",
    "GroupCalibrator",
    "HistogramBinning",
    "IsotonicCalibration",
    "LogitTransformer",
    "MatrixScaling",
    "MultiLabelCalibrator",
    "OrderPreservingScaling",
    "PlattScaling",
    "PriorShift",
    "QuadraticScaling",
    "ReliabilityDisplay",
    "ReliabilityGridDisplay",
    "ScoreDecompositionDisplay",
    "SplineCalibration",
    "TemperatureScaling",
    "TemperatureSweepDisplay",
    "TopLabelCalibration",
    "VectorScaling",
    "VennAbersCalibration",
    "calibration_report",
    "compare_calibrators",
]

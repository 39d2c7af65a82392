"""Calibrated probabilities for classifiers, as scikit-learn estimators.

First step: ``CalibratedClassifier(classifier).fit(X, y)``, or ``AutoCalibrator().fit(logits, y)``
for logits of held-out rows. This module has the names that most users need; import others from:

- ``skcalib.metrics``: calibration errors, curves, scorers, intervals and tests
- ``skcalib.decision``, ``skcalib.clinical``: costs, abstention; slope, net benefit, optimism
- ``skcalib.conditional``, ``skcalib.fusion``: features and segments; several scores of one row
- ``skcalib.judge``: scores of language models, and a rate in many rows from a few human labels
- ``skcalib.monitor``, ``skcalib.export``: drift and streams; ONNX, JSON and torch
- ``skcalib.datasets``, ``skcalib.experimental``, ``skcalib.testing``: data; new methods; checks
"""

from __future__ import annotations

from ._version import __version__ as __version__
from .binning import BBQ, HistogramBinning, IsotonicCalibration, VennAbersCalibration
from .comparison import compare_calibrators
from .compose import CalibratedClassifier, LogitTransformer
from .display import ConfidenceDisplay, ReliabilityDisplay, TemperatureSweepDisplay
from .meta import MultiLabelCalibrator, PriorShift
from .report import calibration_report, validation_report
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
    "validation_report",
]

"""Scaling methods: smooth maps of the logits."""

from __future__ import annotations

from ._linear import DirichletCalibration, MatrixScaling, VectorScaling
from ._one_vs_rest import BetaCalibration, QuadraticScaling
from ._order_preserving import OrderPreservingScaling
from ._ordinal import OrdinalCalibration
from ._platt import PlattScaling
from ._spline import SplineCalibration
from ._temperature import EnsembleTemperatureScaling, TemperatureScaling, Uncalibrated

__all__ = [
    "BetaCalibration",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "MatrixScaling",
    "OrderPreservingScaling",
    "OrdinalCalibration",
    "PlattScaling",
    "QuadraticScaling",
    "SplineCalibration",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
]

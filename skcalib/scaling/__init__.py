"""Scaling methods: smooth maps of the logits."""

from __future__ import annotations

from ._beta import BetaCalibration
from ._dirichlet import DirichletCalibration
from ._linear import VectorScaling
from ._matrix import MatrixScaling
from ._order_preserving import OrderPreservingScaling
from ._platt import PlattScaling
from ._quadratic import QuadraticScaling
from ._spline import SplineCalibration
from ._temperature import EnsembleTemperatureScaling, TemperatureScaling
from ._uncalibrated import Uncalibrated

__all__ = [
    "BetaCalibration",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "MatrixScaling",
    "OrderPreservingScaling",
    "PlattScaling",
    "QuadraticScaling",
    "SplineCalibration",
    "TemperatureScaling",
    "Uncalibrated",
    "VectorScaling",
]

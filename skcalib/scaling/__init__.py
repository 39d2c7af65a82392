"""Scaling methods: smooth maps of the logits."""

from ._beta import BetaCalibration
from ._dirichlet import DirichletCalibration
from ._linear import VectorScaling
from ._matrix import MatrixScaling
from ._order_preserving import OrderPreservingScaling
from ._ordinal import OrdinalCalibration
from ._platt import PlattScaling
from ._quadratic import QuadraticScaling
from ._spline import SplineCalibration
from ._temperature import EnsembleTemperatureScaling, TemperatureScaling

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
    "VectorScaling",
]

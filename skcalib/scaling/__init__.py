"""Scaling methods: smooth maps of the logits."""

from __future__ import annotations

from ._matrix import MatrixScaling
from ._platt import PlattScaling
from ._temperature import TemperatureScaling
from ._vector import VectorScaling

__all__ = ["MatrixScaling", "PlattScaling", "TemperatureScaling", "VectorScaling"]

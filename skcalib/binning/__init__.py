"""Binning methods: step functions of the probability of each class."""

from __future__ import annotations

from ._bbq import BBQ
from ._histogram import HistogramBinning
from ._isotonic import IsotonicCalibration, VennAbersCalibration

__all__ = ["BBQ", "HistogramBinning", "IsotonicCalibration", "VennAbersCalibration"]

"""Reliability diagrams, histograms of the confidence, and temperature sweeps."""

from __future__ import annotations

from ._confidence import ConfidenceDisplay
from ._reliability import ReliabilityDisplay
from ._sweep import TemperatureSweepDisplay

__all__ = [
    "ConfidenceDisplay",
    "ReliabilityDisplay",
    "TemperatureSweepDisplay",
]

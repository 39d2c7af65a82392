"""Monitors of a classifier in production: its calibration, and the drift of its predictions."""

from ._drift import DriftMonitor
from ._monitor import CalibrationMonitor

__all__ = ["CalibrationMonitor", "DriftMonitor"]

"""Monitors of a classifier in production, and calibrators that follow its labels."""

from ._drift import DriftMonitor
from ._monitor import CalibrationMonitor
from ._online import OnlineCalibrator

__all__ = ["CalibrationMonitor", "DriftMonitor", "OnlineCalibrator"]

"""Monitors of a classifier in production, and calibrators that follow its labels."""

from __future__ import annotations

from ._monitor import CalibrationMonitor
from ._online import OnlineCalibrator

__all__ = ["CalibrationMonitor", "OnlineCalibrator"]

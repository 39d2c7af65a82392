"""Monitors of the calibration of a classifier in production."""

from __future__ import annotations

from ._monitor import CalibrationMonitor

__all__ = ["CalibrationMonitor"]

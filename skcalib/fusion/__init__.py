"""Fusion: one calibrated probability from several scores of the same row."""

from __future__ import annotations

from ._calibrator import FusionCalibrator

__all__ = ["FusionCalibrator"]

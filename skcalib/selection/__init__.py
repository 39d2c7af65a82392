"""The default calibrator."""

from __future__ import annotations

from ._auto import AutoCalibrator

__all__ = ["AutoCalibrator"]

"""The default calibrator."""

from ._auto import AutoCalibrator

__all__ = ["AutoCalibrator"]

"""Fitted calibrators outside Python and scikit-learn: ONNX, JSON and torch."""

from __future__ import annotations

from ._json import from_json, to_json
from ._onnx import to_onnx
from ._skl2onnx import register_skl2onnx
from ._torch import to_torch

__all__ = ["from_json", "register_skl2onnx", "to_json", "to_onnx", "to_torch"]

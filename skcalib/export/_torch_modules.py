"""Torch module for fitted calibrators. Importing this module imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skcalib.base import BaseCalibrator

from ._calibrators import chain_logits

# Fitted attributes that become parameters. Formulas need others, such as knots, as NumPy arrays.
PARAMETERS = (
    "a_", "b_", "coef_", "intercept_", "limits_", "log_ratios_", "quadratic_", "slopes_",
    "temperature_",
)  # fmt: skip


class Module(nn.Module):
    """Module that maps logits (..., n_columns) to calibrated logits (..., n_columns)."""

    def __init__(self, chain: Sequence[BaseCalibrator], dtype: torch.dtype) -> None:
        super().__init__()
        self.n_columns = chain[0].n_features_in_
        self.members = nn.ModuleList([Fitted(member, dtype) for member in chain])

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrate logits (..., n_columns) in their dtype."""
        if not logits.is_floating_point():
            raise TypeError("logits must be of a floating-point type. Convert them with float().")
        if logits.dim() == 0 or logits.shape[-1] != self.n_columns:
            raise ValueError("logits must have a column for each class, as in the fit.")
        is_half = logits.dtype in (torch.float16, torch.bfloat16)
        Z = (logits.float() if is_half else logits).reshape(-1, self.n_columns)
        members: Any = self.members
        Z = chain_logits([member.calibrator() for member in members], Z)
        return Z.reshape(logits.shape).to(logits.dtype)


class Fitted(nn.Module):
    """Module with fitted arrays as parameters and inner calibrators as modules."""

    def __init__(self, calibrator: BaseCalibrator, dtype: torch.dtype) -> None:
        super().__init__()
        self._calibrator = copy(calibrator)  # with NumPy arrays
        parts = getattr(calibrator, "calibrators_", {}).values()
        self.inner = nn.ModuleList([Fitted(part, dtype) for part in parts])
        for name in PARAMETERS:
            value = getattr(calibrator, name, None)
            # Linear maps of logits that are not normalized do not use the temperature.
            is_temperature = name == "temperature_" and getattr(calibrator, "normalize_", True)
            if isinstance(value, np.ndarray) or (is_temperature and isinstance(value, float)):
                tensor = torch.as_tensor(np.array(value), dtype=dtype)
                self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    def calibrator(self) -> BaseCalibrator:
        """Return the calibrator with its arrays replaced by parameters."""
        made: Any = copy(self._calibrator)
        vars(made).update(self.named_parameters(recurse=False))
        if len(self.inner):
            parts: Any = zip(made.calibrators_, self.inner, strict=True)
            made.calibrators_ = {name: part.calibrator() for name, part in parts}
        return made

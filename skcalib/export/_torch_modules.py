"""Torch module for fitted calibrators. Importing this module imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skcalib._fits import output_of
from skcalib.base import BaseCalibrator, calibrated_logits

Used = Callable[[BaseCalibrator], set[str]]

# Fitted arrays that stay constants, because calibrators need them as NumPy arrays.
NUMBERS = {"knots_", "values_", "weights_"}


class Module(nn.Module):
    """Module that maps logits (..., n_columns) to calibrated logits (..., n_columns)."""

    def __init__(self, chain: Sequence[BaseCalibrator], dtype: torch.dtype, used: Used) -> None:
        super().__init__()
        self.n_columns = chain[0].n_features_in_
        self.members = nn.ModuleList([Fitted(member, dtype, used) for member in chain])

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrate logits (..., n_columns) in their dtype."""
        if not logits.is_floating_point():
            raise TypeError("logits must be of a floating-point type. Convert them with float().")
        if logits.dim() == 0 or logits.shape[-1] != self.n_columns:
            raise ValueError("logits must have a column for each class, as in the fit.")
        is_half = logits.dtype in (torch.float16, torch.bfloat16)
        Z = (logits.float() if is_half else logits).reshape(-1, self.n_columns)
        members: Any = self.members
        for member in members:
            Z = output_of(member.calibrator(), calibrated_logits, Z)
        return Z.reshape(logits.shape).to(logits.dtype)


class Fitted(nn.Module):
    """Module with fitted arrays as parameters and inner calibrators as modules.

    ``used`` returns the names of the fitted attributes that a calibrator needs.
    """

    def __init__(self, calibrator: BaseCalibrator, dtype: torch.dtype, used: Used) -> None:
        super().__init__()
        self._calibrator = copy(calibrator)  # with NumPy arrays
        self.names: list[str] = []  # names of inner calibrators
        self.inner = nn.ModuleList()
        for name in sorted(used(self._calibrator)):
            value = getattr(self._calibrator, name)
            if name == "calibrators_":
                self.names = list(value)
                self.inner.extend(Fitted(part, dtype, used) for part in value.values())
            elif name == "temperature_" or (isinstance(value, np.ndarray) and name not in NUMBERS):
                tensor = torch.as_tensor(np.array(value), dtype=dtype)
                self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    def calibrator(self) -> BaseCalibrator:
        """Return the calibrator with its arrays replaced by parameters."""
        made: BaseCalibrator = object.__new__(type(self._calibrator))
        made.__dict__ |= vars(self._calibrator)
        made.__dict__ |= dict(self.named_parameters(recurse=False))
        inner: Any = self.inner
        if self.names:
            parts = [part.calibrator() for part in inner]
            made.__dict__["calibrators_"] = dict(zip(self.names, parts, strict=True))
        return made

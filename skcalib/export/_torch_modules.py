"""Formulas of calibrators as modules of torch, for ``torch.jit.script`` and ``torch.compile``.

Each step takes logits (..., K), finite ones, and which are masked, and returns logits of the same
shape, whose masked entries are finite but have no meaning. It works along the last axis.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# torch.jit.script takes no global numbers. Margins and scores are no further from zero than 1e30,
# so that they can be multiplied and added; log-probabilities that are features are no lower than
# -1e3, which is LOWEST_FEATURE of the library.


def parameter(value: Any, dtype: torch.dtype) -> nn.Parameter:
    """A fitted value as a parameter that training leaves as it is, unless it is told otherwise."""
    return nn.Parameter(torch.as_tensor(np.asarray(value), dtype=dtype), requires_grad=False)


def log_softmax(z: Tensor, masked: Tensor) -> Tensor:
    """Log-probabilities among the classes that are not masked, finite for the others."""
    found = z.masked_fill(masked, -float("inf")).log_softmax(-1)
    return found.masked_fill(masked, -1e30)


class Module(nn.Module):
    """A fitted calibrator: logits (..., n_columns) in, calibrated logits of the same shape out."""

    def __init__(self, steps: Sequence[nn.Module], n_columns: int) -> None:
        super().__init__()
        self.n_columns = n_columns
        self.steps = nn.ModuleList(steps)

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated logits, in the dtype of the logits."""
        if not logits.is_floating_point():
            raise TypeError("logits must be of a floating-point type. Convert them with float().")
        if logits.dim() == 0 or logits.shape[-1] != self.n_columns:
            raise ValueError("logits must have a column for each class, as those of the fit.")
        z = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.n_columns == 1:
            z = torch.cat([torch.zeros_like(z), z], -1)
        masked = z == -float("inf")
        z = z.clamp(-1e30, 1e30)
        for step in self.steps:
            z = step(z, masked)
        if self.n_columns == 1:
            z = z[..., 1:] - z[..., :1]
        return z.to(logits.dtype).masked_fill(logits == -float("inf"), -float("inf"))


class Temperature(nn.Module):
    """Logits divided by a temperature."""

    def __init__(self, temperature: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.temperature = parameter(temperature, dtype)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        top = z.masked_fill(masked, -1e30).amax(-1, keepdim=True)
        return ((z - top) / self.temperature).clamp(-1e30, 1e30)


class Mixed(nn.Module):
    """Log-probabilities of the mixture with the uniform distribution of classes not masked."""

    def __init__(self, smoothing: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.smoothing = parameter(smoothing, dtype)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        n_classes = (~masked).sum(-1, keepdim=True).to(z.dtype)
        uniform = self.smoothing.log() - n_classes.log()
        return torch.logaddexp(log_softmax(z, masked) + torch.log1p(-self.smoothing), uniform)


class Linear(nn.Module):
    """A slope for each class, or a matrix, and offsets; of log-probabilities if normalized."""

    def __init__(self, coef: Any, intercept: Any, dtype: torch.dtype, *, normalized: bool) -> None:
        super().__init__()
        self.normalized = normalized
        self.coef = parameter(coef, dtype)
        self.intercept = parameter(intercept, dtype)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        if self.normalized:
            z = log_softmax(z, masked).clamp(min=-1e3)
        dtype = torch.promote_types(z.dtype, self.coef.dtype)
        z, coef = z.to(dtype), self.coef.to(dtype)
        if coef.dim() == 1:
            return z * coef + self.intercept
        some_masked = masked.any(-1, keepdim=True)
        return (z @ coef.mT + self.intercept).masked_fill(some_masked, float("nan"))


class Increasing(nn.Module):
    """One increasing, piecewise linear function of all log-probabilities."""

    def __init__(self, knots: Any, slopes: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.knots = parameter(knots, dtype)
        self.slopes = parameter(slopes, dtype)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        z = log_softmax(z, masked).clamp(min=-1e3)
        n_knots = self.knots.shape[0]
        if n_knots == 0:
            return z * self.slopes[0]
        out = torch.minimum(z, self.knots[0]) * self.slopes[0]
        for j in range(1, n_knots):
            inside = torch.minimum(torch.maximum(z, self.knots[j - 1]), self.knots[j])
            out = out + inside * self.slopes[j]
        return out + torch.maximum(z, self.knots[n_knots - 1]) * self.slopes[n_knots]


class OneVsRest(nn.Module):
    """A sigmoid of a linear function of the log-odds of each class; one for two classes."""

    def __init__(self, coef: Any, intercept: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.coef = parameter(coef, dtype)
        self.intercept = parameter(intercept, dtype)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        if z.shape[-1] == 2:
            odds = (z[..., 1:] - z[..., :1]) * self.coef + self.intercept
            return torch.cat([torch.zeros_like(odds), odds], -1)
        return nn.functional.logsigmoid(self.odds(z, masked) * self.coef + self.intercept)

    def odds(self, z: Tensor, masked: Tensor) -> Tensor:
        """Log-odds of each class; those of the largest from the logits of the others."""
        below = log_softmax(z, masked)
        top = below.argmax(-1, keepdim=True)
        is_top = torch.zeros_like(masked).scatter(-1, top, True)  # noqa: FBT003
        rest = below.masked_fill(is_top, -1e30).logsumexp(-1, keepdim=True)
        # No other class is more probable than half.
        others = torch.log1p(-below.clamp(max=-0.6931).exp())
        found = torch.where(is_top, below - rest, below - others)
        return found.clamp(-1e30, 1e30)


class Mixture(nn.Module):
    """Log-probabilities of a mixture of several calibrators."""

    def __init__(self, members: Sequence[nn.Module], weights: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = parameter(weights, dtype)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        parts = [log_softmax(member(z, masked), masked) for member in self.members]
        shares = torch.log(self.weights).unsqueeze(-1)
        return (torch.stack(parts, -2) + shares).logsumexp(-2).clamp(min=-1e30)


class Steps(nn.Module):
    """Several steps as one."""

    def __init__(self, steps: Sequence[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:
        """The step, for logits and whether they are masked."""
        for step in self.steps:
            z = step(z, masked)
        return z


class Uniform(nn.Module):
    """The same logit for all classes."""

    def forward(self, z: Tensor, masked: Tensor) -> Tensor:  # noqa: ARG002
        """The step, for logits and whether they are masked."""
        return torch.zeros_like(z)

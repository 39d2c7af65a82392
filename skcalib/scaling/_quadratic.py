"""Quadratic scaling: a sigmoid of a quadratic function of the log-odds of each class."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._engine.rows import Rows
from skcalib._typing import Floats

from ._one_vs_rest import Prior, _OneVsRestScaling, fit_maps

__all__ = ["QuadraticScaling"]


class QuadraticScaling(_OneVsRestScaling):
    coef_: Floats
    quadratic_: Floats
    intercept_: Floats
    limits_: Floats
    n_iter_: int

    def _fit_maps(self, odds: Rows, temperature: float, alpha: float) -> dict[str, Any]:
        highest, lowest = odds.reduce(np.maximum, _farthest)
        limits = np.where(np.isfinite(highest), [-lowest, highest], 0)
        unit = 2 * np.log1p(2 * max(odds.weight, 1))
        expand = partial(_expand, limits, unit)
        prior = Prior(np.array([1.0, 0, 0]), np.full(3, alpha))
        theta, n_passes = fit_maps(odds, expand, prior)
        return {
            "coef_": theta[:, 0],
            "quadratic_": theta[:, 1] / unit,
            "intercept_": theta[:, 2],
            "limits_": limits,
            "n_iter_": n_passes,
        }

    def _scores(self, U: Floats) -> Floats:
        return self.intercept_ + self.coef_ * U + self.quadratic_ * _square(self.limits_, U)


def _square(limits: Floats, U: Floats) -> Floats:
    """Squares of log-odds, or the tangents beyond the limits (2, n_maps)."""
    low, high = limits.astype(U.dtype)
    C = np.clip(U, low, high)
    return C * (2 * U - C)


def _expand(limits: Floats, unit: float, U: Floats) -> list[Floats]:
    return [U, _square(limits, U) / np.asarray(unit, U.dtype)]


def _farthest(U: Floats, *_: Any) -> Floats:
    """The largest finite log-odds and minus the least: (2, n_maps)."""
    finite = np.isfinite(U)
    return np.stack([np.where(finite, V, -np.inf).max(axis=0) for V in (U, -U)]).astype(np.float64)

"""Beta calibration."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._engine.rows import Rows
from skcalib._typing import Floats

from ._one_vs_rest import Prior, _OneVsRestScaling, fit_maps

__all__ = ["BetaCalibration"]


class BetaCalibration(_OneVsRestScaling):
    a_: Floats
    b_: Floats
    intercept_: Floats
    n_iter_: int

    def _fit_maps(self, odds: Rows, temperature: float, alpha: float) -> dict[str, Any]:
        prior = Prior(np.array([1.0, 0, 0]), np.full(3, alpha))
        theta, n_passes = fit_maps(odds, partial(_expand, temperature), prior)
        if (theta[:, 0] < np.abs(theta[:, 1])).any():
            theta, more = _increasing(odds, temperature, alpha, theta)
            n_passes += more
        mean, half, intercept = theta.T
        return {
            "a_": (mean - half) / temperature,
            "b_": (mean + half) / temperature,
            "intercept_": intercept,
            "n_iter_": n_passes,
        }

    def _scores(self, U: Floats) -> Floats:
        mean, half = (self.temperature_ * c / 2 for c in (self.b_ + self.a_, self.b_ - self.a_))
        return self.intercept_ + mean * U + half * _bend(self.temperature_, U)


def _bend(temperature: float, U: Floats) -> Floats:
    distance = np.abs(U, dtype=np.float64)
    bent = distance + 2 / temperature * np.log1p(np.expm1(-temperature * distance) / 2)
    return bent.astype(U.dtype)


def _expand(temperature: float, U: Floats) -> list[Floats]:
    return [U, _bend(temperature, U)]


def _expand_edge(temperature: float, edge: Floats, U: Floats) -> list[Floats]:
    """The one feature that is left where a (edge 1) or b (edge -1) is zero, or both (edge 0)."""
    edge = edge.astype(U.dtype)
    return [np.abs(edge) * U + edge * _bend(temperature, U)]


def _increasing(
    odds: Rows, temperature: float, alpha: float, theta: Floats
) -> tuple[Floats, int]:
    """The best parameters with a, b >= 0, given the best ones, and the number of passes.

    The loss is convex. So if one of the two is negative, it is zero at the optimum with bounds;
    if both are, at least one is, and not both of them are positive without the other.
    """
    # For half the sum and half the difference of a and b, which are the same here or opposite.
    prior = Prior(np.array([0.5, 0]), alpha * np.array([2.0, 1]))
    edge, n_passes = np.where(theta[:, 1] > 0, 1.0, -1.0), 0
    wrong = theta[:, 0] < np.abs(theta[:, 1])
    for edges in (edge, -edge, 0 * edge):
        line, more = fit_maps(odds, partial(_expand_edge, temperature, edges), prior)
        slope, intercept = line.T
        n_passes += more
        right = wrong & ((slope >= 0) | (edges == 0))
        found = np.column_stack([np.abs(edges) * slope, edges * slope, intercept])
        theta, wrong = np.where(right[:, None], found, theta), wrong & ~right
        if not wrong.any():
            break
    return theta, n_passes

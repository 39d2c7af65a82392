r"""One-vs-rest logistic regression on natural cubic splines of a score, shrunk towards lines.

For the score x of class k, with knots equally spaced between :math:`t_{k1}` and :math:`t_{kJ}`, the
probability of the event :math:`y = k` is :math:`\sigma(s_k(x))`, and the objective

.. math:: \frac1N \sum_i w_i\, \ell_i(s_k) + \lambda (t_{kJ} - t_{k1}) \int s_k''(x)^2 dx .

Parameters are found from counts in cells of the score (:mod:`.binned`), and corrected by Newton
steps with the gradient of all rows, for which the Hessian of the cells is good enough: each takes
three digits or more off the error. Newton's method and its tolerance are those of
:mod:`.logistic`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit

from skcalib._engine.blocks import is_event
from skcalib._engine.rows import Plan, Rows
from skcalib._typing import Floats, Indices

from .binned import Binned, Cells, cells_of
from .logistic import SMALLEST_CURVATURE, fit_logistic
from .natural_spline import (
    evaluate,
    powers,
    powers_of_values,
    slopes_of_values,
    smooth_basis,
)
from .piecewise import lowest_point

# Share of the information of the rows, the sum of p (1 - p), below the knots, and above them.
OUTSIDE = 0.02


@dataclass(frozen=True)
class Splines:
    """Splines of K classes with the same number J of knots, to be fitted to rows of scores.

    Those that are not finite do not count for their class. Parameters are the coefficients of
    :func:`.natural_spline.smooth_basis` in units of the score, so that the penalty is their squared
    norm, without those of the last two: slopes in the middle, and values there.
    """

    rows: Rows
    edges: Floats  #: (2, K), the outer knots
    cells: list[Cells]
    of_cells: list[Binned]  #: the splines on the cells of each class, without penalties
    share: float  #: targets are 1 and 0 mixed with this share of 1/2
    values: Floats  #: (J, J), those of the basis at the knots
    coefficients: Floats  #: (J + 1, J), those of the basis in powers

    @classmethod
    def of(cls, rows: Rows, n_knots: int, share: float) -> Splines:
        """Splines with knots between which most of the information of the rows is."""
        values, cells = smooth_basis(n_knots), cells_of(rows)
        coefficients = powers_of_values(n_knots) @ values
        edges = [_edges(each) for each in cells]
        pairs = zip(edges, cells, strict=True)
        of_cells = [_binned(coefficients, share, *pair) for pair in pairs]
        return cls(rows, np.array(edges).T, cells, of_cells, share, values, coefficients)

    def knots(self) -> Floats:
        """All knots of each class (K, J)."""
        low, high = self.edges
        return np.linspace(low, high, len(self.values), axis=1)

    def values_of(self, theta: Floats) -> Floats:
        """Values at the knots (K, J), from parameters (K, J)."""
        return self.units * theta @ self.values.T

    @property
    def units(self) -> Floats:
        """What parameters are multiplied by: (K, J)."""
        return np.array([_units(edges, len(self.values)) for edges in self.edges.T])

    @property
    def unchanged(self) -> Floats:
        """Parameters of the splines that leave the scores as they are: (K, J)."""
        found = np.zeros((len(self.cells), len(self.values)))
        found[:, -2], found[:, -1] = 1, self.edges.mean(axis=0)
        return found

    def path(self, strengths: Floats) -> tuple[Floats, Floats]:
        """Parameters (L, K, J) on the cells for each strength; summed leave-one-out losses (L,).

        Those of a single strength, which there is nothing to compare with, are 0.
        """
        found, losses = [], np.zeros(len(strengths))
        of_classes = zip(self.of_cells, self.cells, self.unchanged, strict=True)
        for problem, cells, start in of_classes:
            penalized = _penalized(problem, strengths)
            theta = fit_logistic(penalized, np.tile(start, (len(strengths), 1)))[0]
            if len(strengths) > 1 and len(cells.scores):
                losses += penalized.leave_one_out_losses(theta, cells.hits)
            found.append(theta)
        return np.stack(found, axis=1), losses

    def fit(self, strength: float, start: Floats, *, increasing: bool) -> tuple[Floats, int, bool]:
        """Parameters (K, J), the number of passes, and whether Newton's method has converged."""
        of_cells = [_penalized(problem, np.array([strength])) for problem in self.of_cells]
        problem = _OfRows(replace(self, of_cells=of_cells))
        if not increasing:
            return fit_logistic(problem, start)
        slopes = slopes_of_values(len(self.values)) @ self.values[:, :-1]
        falls = (start[:, :-1] @ slopes.T).min(axis=1) < 0
        start = np.where(falls[:, None], self.unchanged, start)
        return fit_logistic(problem, start, partial(_increasing, slopes))


def _increasing(
    slopes: Floats, theta: Floats, step: Floats, gradient: Floats, hessian: Floats
) -> Floats:
    """Steps (K, J) to the minima of the quadratic models among splines with positive slopes.

    ``slopes`` is the matrix from parameters but the last to coefficients of the slope.
    """
    inverse, step = np.linalg.inv(slopes), step.copy()
    for k in np.flatnonzero((((theta + step)[:, :-1] @ slopes.T) < 0).any(axis=1)):
        H, across, curvature = hessian[k, :-1, :-1], hessian[k, -1, :-1], hessian[k, -1, -1]
        curvature = max(curvature, SMALLEST_CURVATURE)
        # Of the model at its minimum in the last parameter, which is free.
        of_rest = gradient[k, :-1] - across * gradient[k, -1] / curvature
        of_rest, H = inverse.T @ of_rest, H - np.outer(across, across) / curvature
        at = slopes @ theta[k, :-1]
        rest = inverse @ (lowest_point(at, of_rest, inverse.T @ H @ inverse) - at)
        step[k] = np.append(rest, -(gradient[k, -1] + across @ rest) / curvature)
    return step


def _units(edges: Floats, n_knots: int) -> Floats:
    """The width of the interval of the knots, and 1 for the constant function: (J,)."""
    return np.append(np.full(n_knots - 1, edges[1] - edges[0]), 1)


def _binned(coefficients: Floats, share: float, edges: tuple[float, float], cells: Cells) -> Binned:
    """The splines of a class on its cells, without a penalty."""
    n_knots = coefficients.shape[1]
    U = (cells.scores - edges[0]) / (edges[1] - edges[0])
    P = np.column_stack([power.copy() for power in powers(U, n_knots)])
    targets = (1 - share) * cells.hits + share / 2 * cells.weight
    features = P @ coefficients * _units(np.array(edges), n_knots)
    return Binned(features, cells.weight, targets, np.zeros((1, n_knots)))


def _penalized(problem: Binned, strengths: Floats) -> Binned:
    """The splines with penalties of these strengths, times N."""
    bends = np.append(np.ones(problem.features.shape[1] - 2), [0, 0])
    return replace(problem, ridge=np.outer(strengths, bends) / problem.total)


@dataclass(frozen=True)
class _OfRows:
    """The splines with gradients of all rows, and Hessians of the cells."""

    splines: Splines

    @property
    def rate(self) -> Floats:
        return np.concatenate([each.rate for each in self.splines.of_cells])

    @property
    def spread(self) -> Floats:
        return np.hstack([each.spread for each in self.splines.of_cells])

    @property
    def rounding(self) -> Floats:
        return np.hstack([each.rounding for each in self.splines.of_cells])

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        splines, units = self.splines, self.splines.units
        coefficients = splines.coefficients @ (units * theta).T
        block = partial(_gradient, splines.edges, coefficients, splines.share)
        sums = splines.rows.sum(block, Plan(room=4)) / [each.total for each in splines.of_cells]
        gradient = units * (sums.T @ splines.coefficients)
        gradient += 2 * np.concatenate([each.ridge for each in splines.of_cells]) * theta
        pairs = zip(splines.of_cells, theta, strict=True)
        return gradient, np.concatenate([each.derivatives(row[None])[1] for each, row in pairs])


def _gradient(
    edges: Floats, coefficients: Floats, share: float, M: Floats, y: Indices, w: Floats | None
) -> Floats:
    """Sums over rows of residuals times the functions of :func:`.natural_spline.powers`."""
    there = np.isfinite(M)
    low, high = edges
    U = (np.where(there, M, low) - low) / (high - low)
    R = evaluate(U, coefficients)
    expit(R, out=R)
    R -= share / 2
    R -= (1 - share) * is_event(y, M.shape[1])
    R *= there if w is None else there * w[:, None]
    n_knots = len(coefficients) - 1
    return np.array([np.einsum("ij,ij->j", power, R) for power in powers(U, n_knots)])


def _edges(cells: Cells) -> tuple[float, float]:
    """Scores between which all but a share of the information is, or all scores."""
    x, P = cells.scores, expit(cells.scores)
    information = cells.weight * np.maximum(P * (1 - P), np.finfo(float).tiny)
    if len(x) > 1:
        shares = (information.cumsum() - information / 2) / information.sum()
        low, high = np.interp([OUTSIDE, 1 - OUTSIDE], shares, x)
        low, high = (low, high) if low < high else (x[0], x[-1])
        return float(low), float(high)
    middle = float(x[0]) if len(x) else 0.0
    return middle - 0.5, middle + 0.5

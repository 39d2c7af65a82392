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

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit

from skcalib._engine.rows import Plan, Rows
from skcalib._typing import Floats, Indices

from .binned import Binned, Cells, cells_of
from .logistic import fit_logistic, is_event
from .natural_spline import evaluate, powers, powers_of_values, smooth_basis

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
    cells: list[Cells]
    edges: Floats  #: (2, K), the outer knots
    n_knots: int
    share: float  #: targets are 1 and 0 mixed with this share of 1/2

    @classmethod
    def of(cls, rows: Rows, n_knots: int, share: float) -> Splines:
        """Splines with knots between which most of the information of the rows is."""
        cells = cells_of(rows)
        edges = np.array([_edges(each) for each in cells]).T
        return cls(rows, cells, edges, n_knots, share)

    @property
    def knots(self) -> Floats:
        """(K, J)."""
        return np.linspace(*self.edges, self.n_knots, axis=1)

    @property
    def width(self) -> Floats:
        """Distances of the outer knots (K,)."""
        return self.edges[1] - self.edges[0]

    @property
    def units(self) -> Floats:
        """What parameters are multiplied by: (K, J)."""
        return np.column_stack([self.width] * (self.n_knots - 1) + [np.ones(len(self.cells))])

    def values(self, theta: Floats) -> Floats:
        """Values at the knots (K, J), from parameters (K, J)."""
        return self.units * theta @ smooth_basis(self.n_knots).T

    def binned(self, k: int, strengths: Floats) -> Binned:
        """The splines of class k on the cells, with penalties of these strengths, times N."""
        cells = self.cells[k]
        U = (cells.scores - self.edges[0, k]) / self.width[k]
        basis = smooth_basis(self.n_knots).T * self.units[k][:, None]
        F = evaluate(np.repeat(U[:, None], self.n_knots, axis=1), basis)
        bends = np.append(np.ones(self.n_knots - 2), [0, 0])
        targets = (1 - self.share) * cells.hits + self.share / 2 * cells.weight
        return Binned(F, cells.weight, targets, np.outer(strengths, bends) / self.total(k))

    def total(self, k: int) -> float:
        """Sum of the weights that count for class k, not 0."""
        return max(float(self.cells[k].weight.sum()), float(np.finfo(float).tiny))

    def path(self, strengths: Floats) -> tuple[Floats, Floats]:
        """Parameters (L, K, J) on the cells for each strength; summed leave-one-out losses (L,)."""
        found, losses = [], np.zeros(len(strengths))
        for k, cells in enumerate(self.cells):
            problem = self.binned(k, strengths)
            theta = fit_logistic(problem)[0]
            losses += problem.leave_one_out_losses(theta, cells.hits)
            found.append(theta)
        return np.stack(found, axis=1), losses

    def fit(self, strength: float, start: Floats) -> tuple[Floats, int, bool]:
        """Parameters (K, J), the number of passes, and whether Newton's method has converged."""
        problems = [self.binned(k, np.array([strength])) for k in range(len(self.cells))]
        return fit_logistic(_OfRows(self, problems), start)


@dataclass(frozen=True)
class _OfRows:
    """The splines with gradients of all rows, and Hessians of the cells."""

    splines: Splines
    of_cells: list[Binned]

    @property
    def rate(self) -> Floats:
        return np.concatenate([each.rate for each in self.of_cells])

    @property
    def spread(self) -> Floats:
        return np.hstack([each.spread for each in self.of_cells])

    @property
    def rounding(self) -> Floats:
        return np.hstack([each.rounding for each in self.of_cells])

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        splines, J = self.splines, self.splines.n_knots
        to_powers = powers_of_values(J) @ smooth_basis(J)
        coefficients = to_powers @ (splines.units * theta).T
        block = partial(_gradient, splines.edges, coefficients, splines.share)
        totals = np.array([each.total for each in self.of_cells])
        sums = splines.rows.sum(block, Plan(room=4)) / totals
        gradient = splines.units * (to_powers.T @ sums).T
        gradient += 2 * np.concatenate([each.ridge for each in self.of_cells]) * theta
        pairs = zip(self.of_cells, theta, strict=True)
        return gradient, np.concatenate([each.derivatives(row[None])[1] for each, row in pairs])


def _gradient(
    edges: Floats, coefficients: Floats, share: float, M: Floats, y: Indices, w: Floats | None
) -> Floats:
    """Sums over rows of residuals times the functions of :func:`.natural_spline.powers`."""
    n_knots, there = len(coefficients) - 1, np.isfinite(M)
    low, high = edges
    U = (np.where(there, M, low) - low) / (high - low)
    S, product = np.zeros_like(U), np.empty_like(U)
    for power, r in zip(powers(U, n_knots), coefficients, strict=True):
        S += np.multiply(power, r, out=product)
    R = expit(S, out=S)
    R -= share / 2
    R -= (1 - share) * is_event(y, M.shape[1])
    R *= there if w is None else there * w[:, None]
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

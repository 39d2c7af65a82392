r"""One-vs-rest logistic regression on natural cubic splines, shrunk towards lines.

On knots :math:`t_j = j / (J - 1)` in the unit interval a natural cubic spline is

.. math:: s(u) = r_0 + r_1 u + \sum_{j=0}^{J-2} r_{j+2} (u - t_j)_+^3 ,

linear outside the interval, so that its J values at the knots determine it. Its roughness
:math:`\int s''(u)^2 du` is a quadratic form in these values (Green and Silverman, "Nonparametric
Regression and Generalized Linear Models", 1994, section 2.1). Other knots are a change of units.

For the score x of class k, with knots between :math:`t_{k1}` and :math:`t_{kJ}`, the event
:math:`y = k` has the probability :math:`\sigma(s_k(x))`, and the objective is

.. math:: \frac1N \sum_i w_i\, \ell_i(s_k) + \lambda (t_{kJ} - t_{k1}) \int s_k''(x)^2 dx .

A first fit replaces the scores in a narrow cell by their mean. The log loss then depends only on
the cell's weight and the weight of its positives. Fits with many regularization strengths, and
their leave-one-out log losses, cost less than a pass over the rows. The error is quadratic in the
cell width, and zero with few distinct scores. Newton steps with the gradient from all rows and the
Hessian from the cells correct it, by three digits or more per step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import OptimizeResult
from scipy.special import expit, log_expit

from skcalib._optimize.logistic import fit_sigmoids
from skcalib._optimize.strength import SMALLEST_REST
from skcalib._rows import Rows, arrays
from skcalib._rows.arrays import is_event
from skcalib._typing import Floats, Indices

# Number of cells between the smallest and the largest score of a class.
N_SCORE_CELLS = 512

# Scores that vary by at most this number of rounding errors count as equal.
ROUNDINGS = 8

# Smallest block: with fewer rows, adding counts would cost more than counting.
ROWS_AT_LEAST = 2048

# Smaller values of basis splines are rounding errors.
SMALLEST_VALUE = 1e-12

# Share of the information, the sum of p (1 - p), below the first knot and above the last.
SHARE_OUTSIDE = 0.02


@cache
def unit_splines(n_knots: int) -> CubicSpline:
    """Return J natural splines, each 1 at one of J equidistant knots in [0, 1], else 0.

    Any natural spline is their sum, weighted by its values at the knots.
    """
    return CubicSpline(np.linspace(0, 1, n_knots), np.eye(n_knots), bc_type="natural")


def value_slopes(n_knots: int) -> Floats:
    """Return the matrix (J - 1, J) that maps values at the knots to slope coefficients.

    The coefficients belong to quadratic B-splines, which are positive and sum to 1: the spline
    increases if all coefficients are positive (Ramsay, "Monotone regression splines in action",
    1988). The first and the last coefficient are the slopes at the ends.
    """
    _, squares, slopes, _ = unit_splines(n_knots).c
    return slopes + squares / (n_knots - 1)


@cache
def value_powers(n_knots: int) -> Floats:
    """Return the matrix (J + 1, J) that maps values at the knots to :func:`powers`."""
    cubes, _, slopes, values = unit_splines(n_knots).c
    return np.vstack([values[0], slopes[0], np.diff(cubes, axis=0, prepend=0)])


def smooth_basis(n_knots: int) -> Floats:
    """Return J basis splines by their values at the knots, one per column: (J, J).

    The last spline is 1 and the spline before it ``u - 1/2``. The other splines have roughness 1
    and are orthogonal to each other in roughness, and to lines at the knots.
    """
    knots = np.linspace(0, 1, n_knots)
    bend, h = unit_splines(n_knots)(knots, 2), 1 / (n_knots - 1)
    # The second derivative is linear between the knots.
    left, right = bend[:-1], bend[1:]
    rough = h / 3 * (left.T @ left + right.T @ right + left.T @ right / 2 + right.T @ left / 2)
    sizes, vectors = np.linalg.eigh(rough)
    return np.column_stack([vectors[:, 2:] / np.sqrt(sizes[2:]), knots - 0.5, np.ones(n_knots)])


def powers(U: Floats, n_knots: int) -> Iterator[Floats]:
    """Yield 1, u, and a cube above each knot except the last, at ``U``, linear outside [0, 1]."""
    yield arrays.namespace(U).ones_like(U)
    yield U
    inside = arrays.at_most(U, 1.0)
    above = arrays.at_least(U, 1.0) - 1
    for j in range(n_knots - 1):
        knot = j / (n_knots - 1)
        distance = arrays.at_least(inside, knot) - knot
        # Beyond 1 the cube continues as its tangent.
        yield distance * distance * distance + 3 * (1 - knot) ** 2 * above


def evaluate(U: Floats, coefficients: Floats) -> Floats:
    """Evaluate K splines with coefficients (J + 1, K) at the points ``U`` (m, K): (m, K)."""
    coefficients = arrays.to_library(coefficients, U, U.dtype)
    n_knots = coefficients.shape[0] - 1
    if U.shape[1] == 1:  # all cubes in one operation
        knots = np.arange(n_knots - 1) / (n_knots - 1)
        inside = arrays.at_most(U, 1.0)
        distance = arrays.at_least(inside - arrays.to_library(knots, U, U.dtype), 0.0)
        slopes = arrays.to_library(3 * (1 - knots) ** 2, U, U.dtype)  # of tangents beyond 1
        cubes = distance * distance * distance + (U - inside) * slopes
        return coefficients[0, :] + coefficients[1, :] * U + cubes @ coefficients[2:, :]
    S = arrays.namespace(U).zeros_like(U)
    for j, power in enumerate(powers(U, n_knots)):
        S = S + power * coefficients[j, :]
    return S


class ScoreCells(NamedTuple):
    """Scores of one class, summarized in m cells that are not empty: arrays (m,)."""

    scores: Floats  #: mean scores, increasing
    weight: Floats  #: sum of weights
    positives: Floats  #: sum of weights with this class as label


def score_cells(rows: Rows) -> list[ScoreCells]:
    """Return the cells for each score column. Infinite scores do not count."""
    low, high = rows.sum(_range, merge=np.maximum) * [[-1], [1]]
    width = np.maximum(high - low, 0)
    rounding = ROUNDINGS * np.finfo(rows.dtype).eps * np.maximum(np.abs([low, high]).max(axis=0), 1)
    per_cell = np.divide(N_SCORE_CELLS, width, out=np.zeros_like(width), where=width > rounding)
    counts = partial(_counts, np.where(width > 0, low, 0), per_cell)
    cells = []
    for weight, positives, total in rows.sum(counts, at_least=ROWS_AT_LEAST).swapaxes(0, 1):
        filled = weight > 0
        cells.append(ScoreCells(total[filled] / weight[filled], weight[filled], positives[filled]))
    return cells


def _range(M: Floats, *_: object) -> Floats:
    """Return minus the smallest, and the largest, finite score per column: (2, K)."""
    is_finite = np.isfinite(M)
    limits = [np.max(S, axis=0, where=is_finite, initial=-np.inf) for S in (-M, M)]
    return np.array(limits, dtype=np.float64)


def _counts(low: Floats, per_cell: Floats, M: Floats, y: Indices, w: Floats | None) -> Floats:
    """Sum weights, positives and scores in each cell: (3, K, N_SCORE_CELLS).

    ``low`` and ``per_cell`` are (K,), ``M`` is (m, K), ``y`` and ``w`` are (m,).
    """
    K = M.shape[1]
    is_finite = np.isfinite(M)
    M = np.where(is_finite, M, low).astype(np.float64, copy=False)
    cell = np.minimum((M - low) * per_cell, N_SCORE_CELLS - 1).astype(np.intp)
    cell += np.arange(K) * N_SCORE_CELLS
    W = is_finite.astype(np.float64) if w is None else is_finite * w[:, None]
    sums = W, W * is_event(y, K), W * M
    counts = [np.bincount(cell.ravel(), S.ravel(), K * N_SCORE_CELLS) for S in sums]
    return np.array(counts, dtype=np.float64).reshape(3, K, N_SCORE_CELLS)


@dataclass(frozen=True)
class CellSigmoids:
    """L logistic regressions for one class on the same cells, one per ridge penalty."""

    cells: ScoreCells
    features: Floats  #: (m, d), the last of them 1
    targets: Floats  #: (m,), sums over the rows of each cell
    ridge: Floats  #: (L, d), strengths of the penalties on each mean loss

    @property
    def total(self) -> float:
        """Total weight, or 1 if there are no rows."""
        return float(self.cells.weight.sum()) or 1.0

    @property
    def rate(self) -> Floats:
        """Mean target (L,)."""
        return np.full(len(self.ridge), self.targets.sum() / self.total)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradients (L, d) and Hessians (L, d, d) at ``theta`` (L, d)."""
        F, w = self.features, self.cells.weight[:, None]
        P = expit(F @ theta.T)
        gradient = (w * P - self.targets[:, None]).T @ F / self.total + 2 * self.ridge * theta
        curvature = (w * P * (1 - P)).T / self.total
        hessian = (curvature[:, None] * F.T) @ F + 2 * self.ridge[:, :, None] * np.eye(F.shape[1])
        return gradient, hessian

    def leave_one_out_losses(self, theta: Floats) -> Floats:
        """Return summed leave-one-out log losses (L,) at the minimizers ``theta`` (L, d).

        Each time a weight of one is left out, also in cells with other weights. One Newton step
        then changes the score by ``a r / (1 - a p (1 - p))``, with the residual ``r`` and the
        leverage ``a`` (see :mod:`skcalib._optimize.strength`).
        """
        (_, weight, positives), S = self.cells, self.features @ theta.T
        P = expit(S)
        hessian = self.total * self.derivatives(theta)[1]
        size = np.einsum("lii->l", hessian)[:, None, None]
        # Without this the equation is singular if one row has nearly all weight.
        inverse = np.linalg.inv(hessian + 1e-10 * size * np.eye(theta.shape[1]))
        A = np.einsum("lij,ij->il", self.features @ inverse, self.features)
        A /= np.maximum(1 - A * P * (1 - P), SMALLEST_REST)
        log_positive, log_other = log_expit(S + A * (P - 1)), log_expit(-S - A * P)
        return -(positives @ log_positive + (weight - positives) @ log_other)

    def penalized(self, strengths: Floats) -> CellSigmoids:
        """Return the regressions with penalties on all parameters except the last two, times N."""
        bends = np.append(np.ones(self.features.shape[1] - 2), [0, 0])
        return replace(self, ridge=np.outer(strengths, bends) / self.total)


@dataclass(frozen=True)
class Splines:
    """K splines with J knots each, to be fitted to rows of scores.

    Infinite scores do not count for their class. The parameters (K, J) multiply
    :func:`smooth_basis` in units of the score. The penalty is their squared norm without the last
    two, the slope and the value in the middle.
    """

    rows: Rows
    edges: Floats  #: (2, K), the outer knots
    by_class: list[CellSigmoids]  #: the splines on the cells of each class, without penalties
    share: float  #: targets are 1 and 0 mixed with this share of 1/2
    values: Floats  #: (J, J), basis at the knots
    coefficients: Floats  #: (J + 1, J), coefficients of the basis in powers

    @classmethod
    def of(cls, rows: Rows, n_knots: int, share: float) -> Splines:
        """Place ``n_knots`` per class around most of the information in the rows."""
        values, cells = smooth_basis(n_knots), score_cells(rows)
        coefficients = value_powers(n_knots) @ values
        edges = np.array([_knot_range(c.scores, c.weight) for c in cells])
        by_class = [
            _on_cells(c, low, high, coefficients, share)
            for c, (low, high) in zip(cells, edges, strict=True)
        ]
        return cls(rows, edges.T, by_class, share, values, coefficients)

    def knots(self) -> Floats:
        """Return all knots (K, J)."""
        low, high = self.edges
        return np.linspace(low, high, len(self.values), axis=1)

    def knot_values(self, theta: Floats) -> Floats:
        """Return the values at the knots (K, J) from parameters (K, J)."""
        return self.units * theta @ self.values.T

    @property
    def units(self) -> Floats:
        """Factors (K, J) that multiply the parameters: the widths between outer knots, and 1."""
        J, (low, high) = len(self.values), self.edges
        return np.column_stack([np.tile((high - low)[:, None], J - 1), np.ones(len(low))])

    @property
    def unchanged(self) -> Floats:
        """Parameters (K, J) that leave the scores unchanged."""
        theta = np.zeros((len(self.by_class), len(self.values)))
        theta[:, -2], theta[:, -1] = 1, self.edges.mean(axis=0)
        return theta

    def path(self, strengths: Floats) -> tuple[Floats, Floats]:
        """Fit each strength (L,) on the cells: parameters (L, K, J), leave-one-out losses (L,).

        A single strength needs no choice: its loss is not computed, and 0.
        """
        starts, losses = [], np.zeros(len(strengths))
        for sigmoids, start in zip(self.by_class, self.unchanged, strict=True):
            penalized = sigmoids.penalized(strengths)
            theta = fit_sigmoids(penalized, np.tile(start, (len(strengths), 1))).x
            if len(strengths) > 1 and len(sigmoids.targets):
                losses += penalized.leave_one_out_losses(theta)
            starts.append(theta)
        return np.stack(starts, axis=1), losses

    def fit(self, strength: float, start: Floats, *, increasing: bool) -> OptimizeResult:
        """Return the parameters ``x`` (K, J) that minimize the loss, by :func:`.fit_sigmoids`."""
        strengths, low = np.array([strength]), None
        by_class = [sigmoids.penalized(strengths) for sigmoids in self.by_class]
        # With bounds, slope coefficients replace all parameters except the last.
        to_slopes = np.eye(len(self.values))
        if increasing:
            to_slopes[:-1, :-1] = value_slopes(len(self.values)) @ self.values[:, :-1]
            low = np.where(np.arange(len(self.values)) < len(self.values) - 1, 0, -np.inf)
            low = np.tile(low, (len(start), 1))
            start, unchanged = start @ to_slopes.T, self.unchanged @ to_slopes.T
            start = np.where(np.any(start < low, axis=1, keepdims=True), unchanged, start)
        sigmoids = RowSplines(replace(self, by_class=by_class), np.linalg.inv(to_slopes))
        solution = fit_sigmoids(sigmoids, start, low)
        solution.x = solution.x @ sigmoids.basis.T
        return solution


def _on_cells(
    cells: ScoreCells, low: float, high: float, coefficients: Floats, share: float
) -> CellSigmoids:
    """Return unpenalized splines for one class with outer knots ``low`` and ``high``.

    ``coefficients`` are (J + 1, J).
    """
    n_knots = coefficients.shape[1]
    U = (cells.scores - low) / (high - low)
    F = np.column_stack(list(powers(U, n_knots))) @ coefficients
    F[np.abs(F) < SMALLEST_VALUE] = 0
    F[:, :-1] *= high - low
    targets = (1 - share) * cells.positives + share / 2 * cells.weight
    return CellSigmoids(cells, F, targets, np.zeros((1, n_knots)))


@dataclass(frozen=True)
class RowSplines:
    """Objective for splines: gradients from all rows, losses and Hessians from the cells."""

    splines: Splines
    basis: Floats  #: (J, J), maps parameters of the fit to parameters of the splines

    @property
    def rate(self) -> Floats:
        """Mean target (K,)."""
        return np.concatenate([sigmoids.rate for sigmoids in self.splines.by_class])

    def derivatives(self, x: Floats) -> tuple[Floats, Floats]:
        """Return gradients (K, J) and Hessians (K, J, J) at ``x`` (K, J)."""
        splines, units, theta = self.splines, self.splines.units, x @ self.basis.T
        coefficients = splines.coefficients @ (units * theta).T
        block = partial(_gradient, splines.edges, coefficients, splines.share)
        sums = splines.rows.sum(block) / [sigmoids.total for sigmoids in splines.by_class]
        gradient = units * (sums.T @ splines.coefficients)
        gradient += 2 * np.concatenate([sigmoids.ridge for sigmoids in splines.by_class]) * theta
        pairs = zip(splines.by_class, theta, strict=True)
        hessian = np.concatenate([sigmoids.derivatives(row[None])[1] for sigmoids, row in pairs])
        return gradient @ self.basis, self.basis.T @ hessian @ self.basis


def _gradient(
    edges: Floats, coefficients: Floats, share: float, M: Floats, y: Indices, w: Floats | None
) -> Floats:
    """Sum residuals times :func:`powers` over rows: (J + 1, K).

    ``edges`` are (2, K), ``coefficients`` (J + 1, K), ``M`` (m, K), ``y`` and ``w`` (m,).
    """
    is_finite = np.isfinite(M)
    low, high = edges
    U = (np.where(is_finite, M, low) - low) / (high - low)
    R = expit(evaluate(U, coefficients)) - share / 2
    R -= (1 - share) * is_event(y, M.shape[1])
    R *= is_finite if w is None else is_finite * w[:, None]
    n_knots = len(coefficients) - 1
    return np.array([np.einsum("ij,ij->j", power, R) for power in powers(U, n_knots)])


def _knot_range(scores: Floats, weight: Floats) -> tuple[float, float]:
    """Return scores that leave SHARE_OUTSIDE of the information on each side.

    ``scores`` and ``weight`` are (m,).
    """
    if len(scores) > 1:
        P = expit(scores)
        information = weight * np.maximum(P * (1 - P), np.finfo(float).tiny)
        shares = (information.cumsum() - information / 2) / information.sum()
        low, high = np.interp([SHARE_OUTSIDE, 1 - SHARE_OUTSIDE], shares, scores)
        low, high = (low, high) if low < high else (scores[0], scores[-1])
        return float(low), float(high)
    middle = float(scores[0]) if len(scores) else 0.0
    return middle - 0.5, middle + 0.5

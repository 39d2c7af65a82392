r"""Rows on a grid of scores, smoothed there by a normal kernel that is reflected at 0 and 1.

The kernel is the heat kernel on [0, 1]. At the midpoints of cells, smoothing is therefore a product
in the cosine transform, which conserves the total.

Rows i have weights that sum to 1, and :math:`K_\sigma` is the reflected kernel. The density of
scores is :math:`d(t) = \sum_i w_i K_\sigma(t, \text{score}_i)`, and the smooth curve is

.. math:: f(t) = t + \frac{1}{d(t)} \sum_i w_i K_\sigma(t, \text{score}_i)
    (1[\text{event}_i] - \text{score}_i) .

If the bandwidth is the smECE, the area between the curve and the diagonal, weighted by the density,
is the smECE. A calibrated model has the diagonal as the expected curve for any bandwidth:
smoothing does not bend it, as it would with a mean of the events alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.optimize import brentq, newton

from skcalib._rows.arrays import bincount
from skcalib._typing import Floats, Indices

# Number of cells of the grid of scores.
N_CELLS = 1 << 14

# A coarser grid, and the narrowest kernel that it resolves, for a first guess of the smECE.
N_COARSE, COARSE_BANDWIDTH = 1 << 9, 0.01

# Lower bound for the bandwidth, which is otherwise the smECE. Narrower kernels would draw a spike
# for each row. Smoothing only lowers the mean absolute residual, so the area is at most the smECE.
NARROWEST = 0.01

# Lower bound for the bandwidth of a drawn curve, in standard deviations of the scores, of a single
# row; n rows have n^(-1/5) of it. Narrower kernels draw waves for calibrated models.
WIDTH_OF_ONE_ROW = 0.7


def midpoints(n_cells: int = N_CELLS) -> Floats:
    """Return the midpoints (n_cells,) of the cells."""
    return (np.arange(n_cells) + 0.5) / n_cells


def on_grid(scores: Floats, values: Floats, n_cells: int = N_CELLS) -> Floats:
    """Sum values (n, n_columns) on the midpoints, column by column: (n_columns, n_cells).

    Linear binning divides each value between the two midpoints next to its score.
    """
    n_columns, (below, share) = scores.shape[1], _cells_below(scores, n_cells)
    upper = values * share
    cell = below + n_cells * np.arange(n_columns)
    size = n_cells * n_columns
    sums = bincount(cell, values - upper, size) + bincount(cell + 1, upper, size)
    return sums.reshape(n_columns, n_cells)


def _cells_below(scores: Floats, n_cells: int) -> tuple[Indices, Floats]:
    """Return the midpoint below each score, and the share of the midpoint above it."""
    position = np.clip(scores.astype(np.float64, copy=False) * n_cells - 0.5, 0, n_cells - 1)
    below = np.minimum(position, n_cells - 2).astype(np.intp)
    return below, position - below


def residuals_on_grid(scores: Floats, events: Any, weights: Floats | None) -> Floats:
    """Sum ``score - event`` on the midpoints: (n_columns, N_CELLS).

    Scores and events have the shape (n, n_columns), weights the shape (n,).
    """
    residuals = scores.astype(np.float64, copy=False) - events
    return on_grid(scores, residuals if weights is None else residuals * weights[:, None])


def smoothed(values: Floats, bandwidth: float) -> Floats:
    """Smooth values (..., N_CELLS) on the grid with a bandwidth."""
    return _from_spectrum(dct(values), bandwidth, values.shape[-1])


def smooth_error(residuals: Floats) -> float:
    """Return the bandwidth that equals the sum of the absolute smoothed residuals (N_CELLS,)."""
    spectrum, n_cells = dct(residuals), residuals.shape[-1]

    def excess(bandwidth: float, n: int = n_cells) -> Any:
        return np.abs(_from_spectrum(spectrum, bandwidth, n)).sum() - bandwidth

    if excess(COARSE_BANDWIDTH, N_COARSE) > 0:  # wide kernels: a coarse grid is close to the root
        near = brentq(excess, COARSE_BANDWIDTH, 2.0, args=(N_COARSE,), xtol=1e-6)
        return float(newton(excess, near, x1=near * (1 + 1e-5), tol=1e-13))
    finest = 1 / n_cells
    if excess(finest) <= 0:  # below the resolution of the grid
        return float(excess(finest) + finest)
    return float(brentq(excess, finest, 2.0, xtol=1e-12))


def kernel_height(bandwidth: float, n_cells: int) -> Floats:
    """Return the height (n_cells,) of each midpoint's kernel there, the largest weight of a row."""
    factors, spectrum = _factors(bandwidth)[1:], np.zeros(n_cells)
    spectrum[0] = 2 * (1 + factors.sum())
    spectrum[2 : 2 + 2 * len(factors) : 2] = factors
    return np.asarray(n_cells * idct(spectrum))


def _from_spectrum(spectrum: NDArray[np.float64], bandwidth: float, n_cells: int) -> Floats:
    """Return smoothed values on a grid of n_cells, which may be coarser: the sums are equal."""
    factors = _factors(bandwidth)
    low = spectrum[..., : len(factors)]
    return np.asarray(idct(low * factors[: low.shape[-1]], n=n_cells))


def _factors(bandwidth: float) -> Floats:
    """Return the factors of low frequencies. Those of all further frequencies are below 1e-18."""
    return np.asarray(
        np.exp(-0.5 * (bandwidth * np.pi * np.arange(9.2 / (np.pi * bandwidth))) ** 2)
    )


class SmoothCurve(NamedTuple):
    """Smooth curve of the event over scores: arrays of the same shape, and two numbers."""

    score: Floats
    value: Floats  #: estimated frequency of the event, possibly outside of [0, 1]
    density: Floats  #: of the scores, with the kernel
    n_rows: Floats  #: effective number of rows within reach of the kernel
    bandwidth: float
    error: float  #: the smECE

    @classmethod
    def of(
        cls, score: Floats, event: Any, weight: Floats | None, *, n_cells: int = N_CELLS,
        narrowest: float = NARROWEST,
    ) -> SmoothCurve:  # fmt: skip
        r"""Return the smooth curve on a grid of scores, for scores, events and weights (n,).

        The bandwidth is the smECE, but at least ``narrowest``. The number of rows is
        :math:`(\sum w k)^2 / \sum w^2 k`, where k is the kernel divided by its largest value: a row
        at the score itself counts as one, and a row farther away as less.
        """
        w = np.full(len(score), 1 / len(score)) if weight is None else weight / weight.sum()
        values = (w * (event - score), w, w**2)
        residuals, *others = (on_grid(score[:, None], x[:, None], n_cells)[0] for x in values)
        error = smooth_error(residuals)
        bandwidth = max(error, narrowest)
        above, density, squares = n_cells * smoothed(np.array([residuals, *others]), bandwidth)
        t = midpoints(n_cells)
        # Leave out cells without rows in reach: their density is a rounding error.
        reached = (density > 1e-9 * density.max()) & (squares > 0)
        density = np.where(reached, density, 0.0)
        value, n_rows = t.copy(), np.zeros_like(t)
        value[reached] += above[reached] / density[reached]
        height = kernel_height(bandwidth, n_cells)[reached]
        n_rows[reached] = density[reached] ** 2 / (squares[reached] * height)
        return cls(t, value, density, n_rows, bandwidth, error)

    def at(self, cells: Indices) -> SmoothCurve:
        """Return the curve at the scores with these indices."""
        score, value, density, n_rows = (part[cells] for part in self[:4])
        return SmoothCurve(score, value, density, n_rows, self.bandwidth, self.error)

    def smooth(self, cells: Indices, values: Floats) -> Floats:
        """Smooth values (n_values, n) in cells (n,): (n_values, n_scores) at the curve's scores."""
        sums = np.array([np.bincount(cells, v, N_CELLS) for v in np.atleast_2d(values)])
        return N_CELLS * smoothed(sums, self.bandwidth)[:, self.cells(np.nan_to_num(self.score))]

    def interpolate(self, scores: Floats) -> Floats:
        """Interpolate the values of a curve on a whole grid linearly at scores (n,)."""
        below, share = _cells_below(scores, len(self.value))
        values = np.clip(self.value, 0, 1)
        return values[below] + share * (values[below + 1] - values[below])

    @staticmethod
    def narrowest_drawn(
        score: Floats, weight: Floats | None, groups: Indices | None = None
    ) -> float:
        """Return the lower bound for the bandwidth of a drawn curve of scores (n,).

        Rows with the same score in a group (n,) count as one row.
        """
        w = np.ones(len(score)) if weight is None else weight
        deviation = np.sqrt(np.cov(score, aweights=w, ddof=0))
        if groups is not None:
            pairs, pair = np.unique(groups + 1j * score, return_inverse=True)
            w = bincount(pair, w, len(pairs))
        n = w.sum() ** 2 / (w @ w)
        return max(NARROWEST, float(WIDTH_OF_ONE_ROW * deviation * n**-0.2))

    @staticmethod
    def cells(scores: Floats) -> Indices:
        """Return the cells (n,) of the grid that contain the scores (n,)."""
        return np.minimum(scores * N_CELLS, N_CELLS - 1).astype(np.intp)

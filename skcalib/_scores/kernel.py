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
from scipy.optimize import brentq

from skcalib._rows.arrays import bincount
from skcalib._rows.columns import Scored
from skcalib._typing import Floats, Indices

# Number of cells of the grid of scores.
N_CELLS = 1 << 14

# Lower bound for the bandwidth, which is otherwise the smECE. Narrower kernels would draw a spike
# for each row. Smoothing only lowers the mean absolute residual, so the area is at most the smECE.
NARROWEST = 0.01


def midpoints(n_cells: int = N_CELLS) -> Floats:
    """Return the midpoints (n_cells,) of the cells."""
    return (np.arange(n_cells) + 0.5) / n_cells


def on_grid(scores: Floats, values: Floats, n_cells: int = N_CELLS) -> Floats:
    """Sum values (n, n_columns) on the midpoints, column by column: (n_columns, n_cells).

    Linear binning divides each value between the two midpoints next to its score.
    """
    n_columns = scores.shape[1]
    position = np.clip(scores.astype(np.float64, copy=False) * n_cells - 0.5, 0, n_cells - 1)
    below = np.minimum(position, n_cells - 2).astype(np.intp)
    upper = values * (position - below)
    cell = below + n_cells * np.arange(n_columns)
    size = n_cells * n_columns
    sums = bincount(cell, values - upper, size) + bincount(cell + 1, upper, size)
    return sums.reshape(n_columns, n_cells)


def residuals_on_grid(scores: Floats, events: Any, weights: Floats | None) -> Floats:
    """Sum ``score - event`` on the midpoints: (n_columns, N_CELLS).

    Scores and events have the shape (n, n_columns), weights the shape (n,).
    """
    residuals = scores.astype(np.float64, copy=False) - events
    return on_grid(scores, residuals if weights is None else residuals * weights[:, None])


def smoothed(values: Floats, bandwidth: float) -> Floats:
    """Smooth values (..., N_CELLS) on the grid with a bandwidth."""
    return _from_spectrum(dct(values), bandwidth)


def smooth_error(residuals: Floats) -> float:
    """Return the bandwidth that equals the sum of the absolute smoothed residuals (N_CELLS,)."""
    spectrum = dct(residuals)

    def excess(bandwidth: float) -> Any:
        return np.abs(_from_spectrum(spectrum, bandwidth)).sum() - bandwidth

    finest = 1 / residuals.shape[-1]
    if excess(finest) <= 0:  # below the resolution of the grid
        return float(excess(finest) + finest)
    return float(brentq(excess, finest, 2.0, xtol=1e-12))


def kernel_height(scores: Floats, bandwidth: float) -> Floats:
    """Return the height (n,) of each score's kernel at the score, the largest weight of a row."""
    images = 2.0 * np.arange(-4, 5)[:, None]
    distances = np.concatenate([images + np.zeros_like(scores), images + 2 * scores])
    heights = np.exp(-0.5 * (distances / bandwidth) ** 2).sum(axis=0)
    return heights / (bandwidth * np.sqrt(2 * np.pi))


def _from_spectrum(spectrum: NDArray[np.float64], bandwidth: float) -> Floats:
    # The factors of all further frequencies are below 1e-18.
    n_cells, n_low = spectrum.shape[-1], int(9.2 / (np.pi * bandwidth)) + 1
    low = spectrum[..., :n_low]
    frequencies = np.pi * np.arange(low.shape[-1])
    return np.asarray(idct(low * np.exp(-0.5 * (bandwidth * frequencies) ** 2), n=n_cells))


class SmoothCurve(NamedTuple):
    """The curve at scores: arrays of the same shape, and two numbers."""

    score: Floats
    value: Floats  #: estimated frequency of the event, possibly outside of [0, 1]
    density: Floats  #: of the scores, with the kernel
    n_rows: Floats  #: effective number of rows within reach of the kernel
    bandwidth: float
    error: float  #: the smECE

    def at(self, cells: Indices) -> SmoothCurve:
        """Return the curve at the scores with these indices."""
        score, value, density, n_rows = (part[cells] for part in self[:4])
        return SmoothCurve(score, value, density, n_rows, self.bandwidth, self.error)


def smooth_curve(rows: Scored) -> SmoothCurve:
    r"""Return the smooth curve on the grid of scores.

    The number of rows is :math:`(\sum w k)^2 / \sum w^2 k`, where k is the kernel divided by its
    largest value: a row at the score itself counts as one, and a row farther away as less.
    """
    weight = normalized_weights(rows)
    values = (weight * (rows.event - rows.score), weight, weight**2)
    residuals, *others = (on_grid(rows.score[:, None], x[:, None])[0] for x in values)
    error = smooth_error(residuals)
    bandwidth = max(error, NARROWEST)
    above, density, squares = N_CELLS * smoothed(np.array([residuals, *others]), bandwidth)
    t = midpoints()
    # Leave out cells without rows in reach: their density is a rounding error.
    reached = (density > 1e-9 * density.max()) & (squares > 0)
    density = np.where(reached, density, 0.0)
    value, n_rows = t.copy(), np.zeros_like(t)
    value[reached] += above[reached] / density[reached]
    height = kernel_height(t[reached], bandwidth)
    n_rows[reached] = density[reached] ** 2 / (squares[reached] * height)
    return SmoothCurve(t, value, density, n_rows, bandwidth, error)


def smooth_distances(rows: Scored) -> Floats:
    """Return the distance (n,) from the smooth curve to the diagonal at each row.

    A coarser grid suffices here than for the error, since no bandwidth is below ``NARROWEST``.
    """
    weight, n_cells = normalized_weights(rows), N_CELLS >> 3
    values = (weight * (rows.event - rows.score), weight)
    above, density = (on_grid(rows.score[:, None], x[:, None], n_cells)[0] for x in values)
    bandwidth = max(smooth_error(above), NARROWEST)
    above, density = smoothed(np.array([above, density]), bandwidth)
    t, reached = midpoints(n_cells), density > 1e-9 * density.max()
    value = t + np.divide(above, density, out=np.zeros_like(t), where=reached)
    value = np.clip(value, 0, 1)
    # Interpolate between midpoints, which needs no search on a grid.
    position = np.clip(rows.score * n_cells - 0.5, 0, n_cells - 1)
    below = np.minimum(position, n_cells - 2).astype(np.intp)
    curve = value[below] + (position - below) * (value[below + 1] - value[below])
    return np.abs(curve - rows.score)


def normalized_weights(rows: Scored) -> Floats:
    """Return the weights (n,) of the rows, divided by their sum."""
    weight = np.ones(len(rows.score)) if rows.weight is None else rows.weight
    return weight / weight.sum()

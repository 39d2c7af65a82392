"""Rows on a grid of scores, smoothed there by a normal kernel that is reflected at 0 and 1.

The kernel is the heat kernel of the interval, so on the midpoints of cells smoothing is a product
in the space of cosines, which conserves the total.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.optimize import brentq

from skcalib._rows import Floats, arrays as xa

# Number of cells of the grid of scores.
N_CELLS = 1 << 14


def midpoints() -> Floats:
    """The scores at the midpoints of the cells: (N_CELLS,)."""
    return (np.arange(N_CELLS) + 0.5) / N_CELLS


def on_grid(scores: Floats, values: Floats) -> Floats:
    """Sums of values (n, n_columns) on the midpoints, for each column: (n_columns, N_CELLS).

    Each value is divided between the two midpoints beside its score by linear binning.
    """
    scores = xa.double(scores)
    xp, n_columns = xa.namespace(scores), scores.shape[1]
    place = xp.clip(scores * N_CELLS - 0.5, 0, N_CELLS - 1)
    below = xa.astype(xp.clip(place, 0, N_CELLS - 2), xp.int64)
    upper = values * (place - xa.double(below))
    cell = below + xa.like(N_CELLS * np.arange(n_columns), below)
    size = N_CELLS * n_columns
    sums = xa.bincount(cell, values - upper, size) + xa.bincount(cell + 1, upper, size)
    return sums.reshape(n_columns, N_CELLS)


def residuals_on_grid(scores: Floats, events: Any, weights: Floats | None) -> Floats:
    """Sums of ``score - event`` on the midpoints, for each column: (n_columns, N_CELLS)."""
    residuals = xa.double(scores) - xa.double(events)
    return on_grid(scores, residuals if weights is None else residuals * weights[:, None])


def smoothed(values: Floats, bandwidth: float) -> Floats:
    """Values on the grid (..., N_CELLS), smoothed with a bandwidth."""
    return _from_spectrum(dct(values), bandwidth)


def smooth_error(residuals: Floats) -> float:
    """The bandwidth that equals the sum of the absolute values of the smoothed residuals."""
    spectrum = dct(residuals)

    def excess(bandwidth: float) -> Any:
        return np.abs(_from_spectrum(spectrum, bandwidth)).sum() - bandwidth

    finest = 1 / N_CELLS
    if excess(finest) <= 0:  # below the resolution of the grid
        return float(excess(finest) + finest)
    return float(brentq(excess, finest, 2.0, xtol=1e-12))


def kernel_height(scores: Floats, bandwidth: float) -> Floats:
    """Height of the kernel of each score at that score itself: the largest weight of a row."""
    images = 2.0 * np.arange(-4, 5)[:, None]
    distances = np.concatenate([images + np.zeros_like(scores), images + 2 * scores])
    heights = np.exp(-0.5 * (distances / bandwidth) ** 2).sum(axis=0)
    return heights / (bandwidth * np.sqrt(2 * np.pi))


def _from_spectrum(spectrum: NDArray[np.float64], bandwidth: float) -> Floats:
    frequencies = np.pi * np.arange(N_CELLS)
    return np.asarray(idct(spectrum * np.exp(-0.5 * (bandwidth * frequencies) ** 2)))

"""The smooth calibration error, a kernel estimate without bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct, idct
from scipy.optimize import brentq

from skcalib._engine.array_api import astype, like, namespace
from skcalib._engine.blocks import double, sums_by_index
from skcalib._engine.rows import Plan
from skcalib._typing import Floats

from ._input import Average, Kind, columns_of

# Number of cells of the grid of scores.
N_CELLS = 1 << 14


def smooth_calibration_error(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    kind: Kind = "top-label",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    average: Average = "macro",
) -> Any:
    r"""Smooth calibration error (smECE): the mean absolute value of smoothed residuals.

    Residuals :math:`\text{score}_i - 1[\text{event}_i]` are smoothed over the scores by a normal
    kernel :math:`K_\sigma` that is reflected at 0 and 1. Their mean absolute value is

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac 1N \sum_i w_i\,
        K_\sigma(t, \text{score}_i) (\text{score}_i - 1[\text{event}_i]) \Big| \, dt .

    The error is the unique :math:`\sigma` that equals :math:`\mathrm{smECE}_\sigma`. There are no
    bins to choose, and the error is a continuous function of the scores.

    Parameters
    ----------
    y_true, y_proba, kind, sample_weight, labels, pos_label
        As for :func:`reliability_curve`.
    average : {"macro", "micro"} or None, default="macro"
        As for :func:`expected_calibration_error`.

    Returns
    -------
    float or ndarray of shape (n_classes,)
        Between 0 and 1; an array with ``average=None``.

    Raises
    ------
    ValueError
        As :func:`reliability_curve`.

    Notes
    -----
    Residuals are divided between the two nearest of 16 384 grid points by linear binning, and
    smoothed on the grid by a discrete cosine transform, which is exact.

    References
    ----------
    .. [1] Blasiok, Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing",
       ICLR 2024, `arXiv:2309.12236 <https://arxiv.org/abs/2309.12236>`_.

    Examples
    --------
    >>> from skcalib.metrics import smooth_calibration_error
    >>> round(smooth_calibration_error([1] * 9 + [0], [1.0] * 10, kind="binary"), 3)
    0.1
    """
    columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label, average)
    on_grid = columns.sums(_residuals, Plan(at_least=N_CELLS)) / columns.rows.weight
    errors = np.array([_smooth_error(residuals) for residuals in on_grid])
    return errors if average is None else float(np.mean(errors))


def _smooth_error(residuals: Floats) -> float:
    frequencies = np.pi * np.arange(N_CELLS)
    spectrum = dct(residuals)

    def excess(width: float) -> Any:
        smoothed = idct(spectrum * np.exp(-0.5 * (width * frequencies) ** 2))
        return np.abs(smoothed).sum() - width

    finest = 1 / N_CELLS
    if excess(finest) <= 0:  # below the resolution of the grid
        return float(excess(finest) + finest)
    return float(brentq(excess, finest, 2.0, xtol=1e-12))


def _residuals(scores: Floats, events: Any, weights: Floats | None) -> Floats:
    """Sums of residuals on the midpoints of cells, for each column: (n_columns, N_CELLS)."""
    scores = double(scores)
    xp, n_columns = namespace(scores), scores.shape[1]
    residual = scores - double(events)
    if weights is not None:
        residual *= weights[:, None]
    place = xp.clip(scores * N_CELLS - 0.5, 0, N_CELLS - 1)
    below = astype(xp.clip(place, 0, N_CELLS - 2), xp.int64)
    upper = residual * (place - double(below))
    cell = below + like(N_CELLS * np.arange(n_columns), below)
    size = N_CELLS * n_columns
    on_grid = sums_by_index(cell, residual - upper, size) + sums_by_index(cell + 1, upper, size)
    return on_grid.reshape(n_columns, N_CELLS)

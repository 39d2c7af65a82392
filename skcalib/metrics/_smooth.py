"""The smooth calibration error, a kernel estimate without bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._engine.blocks import double
from skcalib._engine.rows import Plan
from skcalib._scores.kernel import N_CELLS, on_grid, smooth_error
from skcalib._typing import Floats

from ._input import Average, Kind, columns_of


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
    residuals = columns.sums(_residuals, Plan(at_least=N_CELLS)) / columns.rows.weight
    errors = np.array([smooth_error(of_column) for of_column in residuals])
    return errors if average is None else float(np.mean(errors))


def _residuals(scores: Floats, events: Any, weights: Floats | None) -> Floats:
    """Sums of residuals on the midpoints of cells, for each column: (n_columns, N_CELLS)."""
    residual = double(scores) - double(events)
    if weights is not None:
        residual *= weights[:, None]
    return on_grid(scores, residual)

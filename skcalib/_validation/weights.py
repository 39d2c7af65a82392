"""Checks of sample weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from skcalib._engine.inputs import as_numpy
from skcalib._engine.memory import MemoryRows
from skcalib._typing import Floats
from skcalib._warnings import SmallWeightsWarning, warn

# Sums of weights lie between it and its inverse.
SMALLEST_WEIGHT = 1e-140

# Weights whose mean is smaller are probably relative, as fractions of a total.
SMALL_SHARE = 0.02


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> Floats | None:
    """Weights as a float64 array of shape (n_rows,), or None if there are none."""
    w = check_each_weight(sample_weight, n_rows)
    if w is not None:
        check_total_weight(MemoryRows(w, None, w).weight)
    return w


def check_each_weight(sample_weight: ArrayLike | None, n_rows: int) -> Floats | None:
    """The same for a part of the rows, whose weights may all be zero."""
    if sample_weight is None:
        return None
    w = check_array(
        [sample_weight] if np.isscalar(sample_weight) else as_numpy(sample_weight, "sample_weight"),
        dtype=np.float64,
        ensure_2d=False,
        input_name="sample_weight",
    )
    if w.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry per row, shape ({n_rows},), got shape {w.shape}."
        )
    if w.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got a weight of {w.min():g}.")
    return w


def check_total_weight(weight: float) -> None:
    """Raise a ValueError for a total weight of zero, or one whose square over- or underflows."""
    if weight == 0:
        raise ValueError("sample_weight must not be all zero, got only weights of zero.")
    if not SMALLEST_WEIGHT <= weight <= 1 / SMALLEST_WEIGHT:
        raise ValueError(
            f"sample_weight must have a sum between {SMALLEST_WEIGHT:g} and "
            f"{1 / SMALLEST_WEIGHT:g}, so that squares of weights are finite, got {weight:.3g}. "
            "Multiply all weights by the "
            "same number; a weight of 2 is the row twice."
        )


def warn_of_small_weights(weight: float, n_rows: int) -> None:
    """Warn of weights that seem to be relative, where a weight of 2 is the row twice."""
    if weight < SMALL_SHARE * n_rows:
        warn(
            f"The weights of {n_rows} rows sum to {weight:.3g}, and a weight of 2 is the row "
            f"twice: the fit is regularized, or smoothed, as if there were {weight:.3g} rows. If "
            "weights are relative, multiply them by len(w) / sum(w).",
            SmallWeightsWarning,
        )

"""Partial pooling: a calibrator for each group of rows, mixed with one for all rows.

A group has the probabilities of its own calibrator with the weight ``n / (n + s)``, where ``n`` is
the weight of its calibration rows and ``s`` the shrinkage, and otherwise the pooled ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skcalib._engine.memory import MemoryRows
from skcalib._subestimator import fit_to_rows, log_probabilities
from skcalib._typing import Array, Floats, Indices

from ._fit_and_score import Messages, messages_of, recorded_warnings, warn_once
from ._out_of_fold import part_of
from ._stacking import mixture


def fit_groups(
    pooled: Any,
    calibrator: Any,
    rows: MemoryRows,
    group: Indices,
    names: Sequence[str],
    classes: Array,
    shrinkage: float,
) -> dict[str, Any]:
    """Fitted attributes: copies of ``pooled`` for all rows, and of ``calibrator`` for each group.

    ``group`` (n,) are indices of ``names``, which stand in warnings. Groups without rows, or whose
    rows are all of one class, have the pooled calibrator, and a share of 0.
    """
    fitted, messages = _fit_recorded(pooled, rows, classes)
    found = {"All rows": [messages]}
    weight = np.bincount(group, rows.w, len(names))
    calibrators, shares = [fitted] * len(names), np.zeros(len(names))
    for k, numbers in enumerate(_rows_of_groups(group, len(names))):
        y = rows.y[numbers]
        if (y[1:] != y[:1]).any():
            part = part_of(rows, numbers)
            calibrators[k], messages = _fit_recorded(calibrator, part, classes)
            shares[k] = weight[k] / (weight[k] + shrinkage)
            found[names[k]] = [messages]
    warn_once(found)
    return {"pooled_calibrator_": fitted, "calibrators_": calibrators, "shares_": shares}


def _fit_recorded(calibrator: Any, rows: MemoryRows, classes: Array) -> tuple[Any, Messages]:
    """The calibrator fitted to the rows, and messages of its warnings."""
    with recorded_warnings() as caught:
        fitted = fit_to_rows(calibrator, rows, classes)
    return fitted, messages_of(caught)


def _rows_of_groups(group: Indices, n_groups: int) -> list[Indices]:
    """Numbers of the rows of each group, in their order."""
    ends = np.cumsum(np.bincount(group, minlength=n_groups))
    return np.split(np.argsort(group, kind="stable"), ends[:-1])


def log_probabilities_of_groups(
    pooled: Any,
    calibrators: Sequence[Any],
    shares: Floats,
    Z: Floats,
    group: Indices,
    classes: Array,
) -> Floats:
    """Logarithms (m, K) of the mixed probabilities, for checked logits of rows of some groups."""
    L = log_probabilities(pooled, Z, classes)
    for k in np.unique(group[shares[group] > 0]):
        some, share = group == k, shares[k]
        own = log_probabilities(calibrators[k], Z[some], classes)
        if share < 1:
            own = mixture(np.stack([own, L[some]]), np.array([share, 1 - share]))
        L[some] = own
    return L

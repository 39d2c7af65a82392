r"""Weights of experts in a stream of rows.

Experts e give each label a probability :math:`p_e`. Their weights are posterior probabilities,
:math:`v_e \leftarrow v_e p_e` divided by their sum. A share of the weights is then spread evenly:
the fixed share of Herbster and Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.
"""

from __future__ import annotations

import numpy as np

from skcalib._rows import Floats, Indices

# Largest number of parts of a row with a weight above 1.
MOST_PARTS = 1000

# Smallest weight of an expert: each may become the best one later.
SMALLEST_WEIGHT = 1e-300


def in_parts(w: Floats | None, n_rows: int) -> tuple[Indices, Floats]:
    """Numbers of the rows, each repeated so that weights are at most one, and these weights."""
    if w is None:
        return np.arange(n_rows), np.ones(n_rows)
    n_parts = np.clip(np.ceil(w), 1, MOST_PARTS).astype(np.intp)
    return np.repeat(np.arange(n_rows), n_parts), np.repeat(w / n_parts, n_parts)


def updated_weights(weights: Floats, P: Floats, w: Floats | None, share: float) -> Floats:
    """Weights (E,) of experts after rows, to whose labels they gave probabilities ``P`` (n, E)."""
    P = P / P.max(axis=1, keepdims=True)
    for i, part in zip(*in_parts(w, len(P)), strict=True):
        weights = weights * P[i] ** part
        weights = np.maximum(weights / weights.sum(), SMALLEST_WEIGHT)
        spread = 1 - (1 - share) ** part
        weights = (1 - spread) * weights + spread / len(weights)
    return weights

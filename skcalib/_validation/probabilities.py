"""Checks of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._engine.array_api import namespace, on_host
from skcalib._engine.tensors import held
from skcalib._typing import Floats

# Rows of probabilities that were rounded still sum to one within it: bfloat16, which softmax of
# networks is often in, changes each number by up to 2^-8 of it.
SUM_TOLERANCE = 5e-3


def improper_rows(P: Floats) -> int:
    """Number of rows of (m, K) that hold a negative number or NaN, or do not sum to one."""

    def count(P: Floats) -> Any:
        xp = namespace(P)
        sums_to_one = xp.abs(xp.sum(P, axis=1) - 1) <= SUM_TOLERANCE
        return xp.count_nonzero(~(sums_to_one & (xp.min(P, axis=1) >= 0)))

    return int(held(P).sum(count))


# A probability may exceed one by what normalising in single precision can add.
ROUNDING = 1e-6


def check_probabilities(P: Floats) -> None:
    if P.ndim == 1:
        xp = namespace(P)
        if not (xp.min(P) >= 0 and xp.max(P) <= 1 + ROUNDING):
            P = on_host(P)
            worst = P[np.argmax(~((P >= 0) & (P <= 1 + ROUNDING)))]
            raise ValueError(
                f"y_proba must hold probabilities between 0 and 1, got {worst:g}. Pass "
                "probabilities, not logits."
            )
        return
    if n_bad := improper_rows(P):
        P = on_host(P)
        row = next(row for row in P if improper_rows(row[None]))
        raise ValueError(
            "Each row of y_proba must hold probabilities between 0 and 1 that sum to one within "
            f"{SUM_TOLERANCE:g}, got {n_bad} of {len(P)} rows that do not, the first with minimum "
            f"{row.min():g}, maximum {row.max():g} and sum {row.sum():g}. Pass probabilities, "
            "not logits; if they only do not sum to one, p / p.sum(axis=1, keepdims=True)."
        )

"""Checks of logits: invalid values, masked classes, probabilities passed by mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._engine.memory import MemoryRows
from skcalib._engine.rows import Rows
from skcalib._typing import Array, Floats
from skcalib._warnings import ProbabilitiesWarning, warn

from .probabilities import improper_rows


def check_finite(Z: Floats) -> bool:
    """Whether some class is masked; a ValueError for logits that are invalid.

    Those are NaN and +inf, logits too large to take differences, and rows, or log-odds, of nothing
    but -inf.
    """
    largest = np.finfo(Z.dtype).max / 4

    def is_bad(Z: Floats) -> Array:
        return np.array(not (Z.max() <= largest and Z.min() >= -largest), dtype=np.intp)

    if not MemoryRows(Z).sum(is_bad):
        return False
    kinds: dict[str, Any] = {
        "NaN": np.isnan,
        "+inf": np.isposinf,
        "too large": lambda Z: np.isfinite(Z) & (np.abs(Z) > largest),
        "-inf": np.isneginf,
        "row": lambda Z: (-np.inf == Z).all(axis=1),
    }
    counts = MemoryRows(Z).sum(lambda Z: np.array([is_kind(Z).sum() for is_kind in kinds.values()]))
    _refuse_logits(dict(zip(kinds, counts.tolist(), strict=True)), Z, float(largest))
    return True


def _refuse_logits(n: dict[str, int], Z: Floats, largest: float) -> None:
    """Raise a ValueError for invalid logits, from the number of each kind."""
    if n["NaN"] or n["+inf"] or (n["-inf"] and Z.shape[1] == 1):
        found = ", ".join(f"{n[kind]} {kind}" for kind in ("NaN", "+inf", "-inf") if n[kind])
        raise ValueError(
            f"X must hold finite logits, or -inf for masked classes, got {found}. {_REMEDY}"
        )
    if n["too large"]:
        raise ValueError(
            f"X must hold logits of at most {largest:.2g} in size, so that their differences are "
            f"finite in {Z.dtype}, got larger ones. Scale them down, and use -inf for masked "
            "classes."
        )
    if n["row"]:
        raise ValueError(
            f"Each row of X must have a finite logit, got {n['row']} of {len(Z)} rows of "
            "nothing but -inf. "
            f"{_REMEDY}"
        )


_REMEDY = (
    "If they come from the logarithm of probabilities that are 0 or 1, clip these before taking "
    "the log, as in np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
)


def any_masked(rows: Rows) -> bool:
    """Whether some class is masked in some row."""
    return bool(rows.sum(lambda Z, *_: np.isneginf(Z).sum()))


def check_labels_are_not_masked(rows: Rows) -> None:
    """Raise a ValueError if the logit of some label is -inf."""
    n = int(rows.sum(lambda Z, y, _: np.isneginf(Z[np.arange(len(Z)), y]).sum()))
    if n:
        raise ValueError(
            f"The logit of the label of a row must be finite, got {n} of {rows.n_rows} rows in "
            "which it is -inf: a masked class is impossible. Check that the columns of X are in "
            f"the order of the classes. {_REMEDY}"
        )


def are_like_probabilities(Z: Floats) -> bool:
    """Whether every row of the logits is non-negative and sums to one."""
    # Real logits fail in the first few rows, so the full test costs nothing.
    some = Z[:100]
    return not (Z.shape[1] == 1 or some.min() < 0 or improper_rows(some) or improper_rows(Z))


def warn_of_probabilities() -> None:
    """Warn of logits that are like probabilities."""
    warn(
        "Every row of X is non-negative and sums to one: X probably holds probabilities where "
        "logits are expected. Pass np.log(p) instead.",
        ProbabilitiesWarning,
    )

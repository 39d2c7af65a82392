"""Checks of logits: invalid values, masked classes, probabilities passed by mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._engine.array_api import namespace
from skcalib._engine.blocks import of_labels
from skcalib._engine.rows import Rows
from skcalib._engine.tensors import held
from skcalib._typing import Array, Floats
from skcalib._warnings import ProbabilitiesWarning, warn

from .probabilities import improper_rows


def check_finite(Z: Floats) -> bool:
    """Whether some class is masked; a ValueError for logits that are invalid.

    Those are NaN and +inf, logits too large to take differences, and rows, or log-odds, of nothing
    but -inf.
    """
    xp = namespace(Z)
    largest = float(xp.finfo(Z.dtype).max) / 4

    def is_bad(Z: Floats) -> Array:
        return np.array(not (xp.max(Z) <= largest and xp.min(Z) >= -largest), dtype=np.intp)

    if not held(Z).sum(is_bad):
        return False
    kinds: dict[str, Any] = {
        "NaN": xp.isnan,
        "+inf": lambda Z: np.inf == Z,
        "too large": lambda Z: xp.isfinite(Z) & (xp.abs(Z) > largest),
        "-inf": lambda Z: -np.inf == Z,
        "row": lambda Z: xp.all(-np.inf == Z, axis=1),
    }

    def count(Z: Floats) -> Array:
        return np.array([int(xp.count_nonzero(is_kind(Z))) for is_kind in kinds.values()])

    counts = held(Z).sum(count)
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
            f"Each row of X must have a finite logit, got {n['row']} of {Z.shape[0]} rows of "
            "nothing but -inf. "
            f"{_REMEDY}"
        )


_REMEDY = (
    "If they come from the logarithm of probabilities that are 0 or 1, clip these before taking "
    "the log, as in np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
)


def any_masked(rows: Rows) -> bool:
    """Whether some class is masked in some row."""
    return bool(rows.sum(lambda Z, *_: namespace(Z).count_nonzero(-np.inf == Z)))


def check_labels_are_not_masked(rows: Rows) -> None:
    """Raise a ValueError if the logit of some label is -inf."""
    n = int(rows.sum(lambda Z, y, _: namespace(Z).count_nonzero(-np.inf == of_labels(Z, y))))
    if n:
        raise ValueError(
            f"The logit of the label of a row must be finite, got {n} of {rows.n_rows} rows in "
            "which it is -inf: a masked class is impossible. Check that the columns of X are in "
            f"the order of the classes. {_REMEDY}"
        )


def are_like_probabilities(Z: Floats) -> bool:
    """Whether every row of the logits is non-negative and sums to one."""
    # Real logits fail in the first few rows, so the full test costs nothing.
    some = Z[: min(100, Z.shape[0]), ...]
    if Z.shape[1] == 1 or namespace(Z).min(some) < 0:
        return False
    return not (improper_rows(some) or improper_rows(Z))


def warn_of_probabilities() -> None:
    """Warn of logits that are like probabilities."""
    warn(
        "Every row of X is non-negative and sums to one: X probably holds probabilities where "
        "logits are expected. Pass np.log(p) instead.",
        ProbabilitiesWarning,
    )

"""Partial pooling: a calibrator for each group of rows, mixed with one for all rows.

A group has the probabilities of its own calibrator with the share ``n / (n + s)``, where ``n`` is
the weight of its calibration rows and ``s`` the shrinkage, and otherwise the pooled ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_consistent_length

from skcalib._engine.blocks import weighted_sum
from skcalib._engine.inputs import check_in_memory
from skcalib._engine.memory import MemoryRows
from skcalib._linear.mixed import mixture
from skcalib._splits import Split
from skcalib._subestimator import fit_to_rows, log_probabilities
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.labels import as_labels, encode, flat, is_among, shown

from ._fit_and_score import Messages, messages_of, recorded_warnings, warn_once
from ._out_of_fold import hold_two_classes, part_of

# Shrinkages that are compared out-of-fold, the last one for a single calibrator of all rows.
SHRINKAGES = (5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, np.inf)

N_FOLDS = 5


def checked_groups(X: Any, groups: Any) -> Array:
    """The group of each row; a ValueError for those that are missing or too few."""
    check_in_memory(
        [X, groups],
        "Groups are for rows in memory, got a Dask collection. Call compute() on a part of it that "
        "fits into memory, or leave groups out.",
    )
    labels = as_labels(groups, "groups")
    if np.ndim(labels) == 0:
        raise ValueError(
            f"groups must have one entry per row, got {labels!r}. For rows of a single group pass "
            f"[{labels!r}] * len(X)."
        )
    of_rows: Array = flat(labels)
    check_consistent_length(X, of_rows)
    return of_rows


def encoded(labels: Array, groups: Array) -> Indices:
    """The number of each label among the groups, or -1; a ValueError for labels of another type."""
    if len(groups) == 0:
        return np.full(len(labels), -1)
    try:
        return np.where(is_among(labels, groups), encode(labels, groups), -1)
    except TypeError as error:
        raise ValueError(
            "groups must be of the type that they were of in fit, as in "
            f"{groups.tolist()[0]!r}, got {labels.tolist()[0]!r}. Convert them."
        ) from error


def members(group: Indices) -> Iterator[tuple[int, Indices]]:
    """The number of each group that has rows, and the numbers of its rows."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for low, high in pairwise([0, *starts.tolist(), len(group)]):
        yield int(ordered[low]), order[low:high]


class Fitted(NamedTuple):
    """The calibrator of all rows, those of the groups, and what the groups weigh.

    Groups without rows, or whose rows are all of one class, have the pooled calibrator, and no
    weight.
    """

    pooled: Any
    calibrators: list[Any]
    weight: Floats
    messages: dict[Any, Messages]  #: warnings by the number of the group, or "all rows"

    def shares(self, shrinkage: float) -> Floats:
        """The share of the own calibrator of each group."""
        return self.weight / np.where(self.weight > 0, self.weight + shrinkage, 1)


def fit_groups(
    calibrator: Any,
    rows: MemoryRows,
    group: Indices,
    n_groups: int,
    classes: Array,
    pooled: Any = None,
) -> Fitted:
    """Copies of the calibrator fitted to all rows and to those of each group.

    ``group`` (n,) are the numbers of the groups. ``pooled`` replaces the calibrator of all rows.
    """
    of_all, messages = _fit_recorded(calibrator if pooled is None else pooled, rows, classes)
    found = Fitted(of_all, [of_all] * n_groups, np.zeros(n_groups), {"all rows": messages})
    for k, numbers in members(group):
        part = part_of(rows, numbers)
        if (part.y[1:] != part.y[:1]).any():
            found.calibrators[k], found.messages[k] = _fit_recorded(calibrator, part, classes)
            found.weight[k] = part.weight
    return found


def _fit_recorded(calibrator: Any, rows: MemoryRows, classes: Array) -> tuple[Any, Messages]:
    """The calibrator fitted to the rows, and messages of its warnings."""
    with recorded_warnings() as caught:
        fitted = fit_to_rows(calibrator, rows, classes)
    return fitted, messages_of(caught)


def warn_of_groups(kind: str, names: Array | range, found: Mapping[Any, Messages]) -> None:
    """Give each warning once, with the names of the groups that it is of."""
    named = {names[k] if isinstance(k, int) else k: messages for k, messages in found.items()}
    first = {key: text for messages in reversed(named.values()) for key, text in messages.items()}
    for key, text in first.items():
        of_warning = [name for name, messages in named.items() if key in messages]
        warn_once({f"{kind} {shown(of_warning)}": [{key: text}]})


def chosen_shrinkage(
    calibrator: Any, rows: MemoryRows, group: Indices, n_groups: int, classes: Array
) -> float:
    """The shrinkage of the lowest out-of-fold log loss; infinite if there can be no folds."""
    losses = out_of_fold_losses(calibrator, rows, group, n_groups, classes)
    return np.inf if losses is None else SHRINKAGES[int(losses.argmin())]


def out_of_fold_losses(
    calibrator: Any, rows: MemoryRows, group: Indices, n_groups: int, classes: Array
) -> Floats | None:
    """Log loss of all rows, summed, for each of the shrinkages; None if there can be no folds."""
    n_folds = min(N_FOLDS, rows.n_rows)
    splits = [Split(*s) for s in KFold(n_folds, shuffle=True, random_state=0).split(rows.y)]
    if not hold_two_classes(rows.y, splits):
        return None
    losses = np.zeros(len(SHRINKAGES))
    for train, test in splits:
        fitted = fit_groups(calibrator, part_of(rows, train), group[train], n_groups, classes)
        losses += _losses(fitted, part_of(rows, test), group[test], classes)
    return losses


def _losses(fitted: Fitted, rows: MemoryRows, group: Indices, classes: Array) -> Floats:
    """Log loss of rows, summed, for each of the shrinkages."""
    label = np.arange(rows.n_rows), rows.y
    pooled = log_probabilities(fitted.pooled, rows.X, classes)[label]
    of_groups = log_probabilities_of_groups(*fitted[:2], fitted.shares(0.0), rows.X, group, classes)
    losses = np.empty(len(SHRINKAGES))
    for i, shrinkage in enumerate(SHRINKAGES):
        share = fitted.shares(shrinkage)[group]
        with np.errstate(divide="ignore"):
            mixed = np.logaddexp(of_groups[label] + np.log(share), pooled + np.log1p(-share))
        losses[i] = -weighted_sum(mixed, rows.w)
    return losses


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
    for k, some in members(group):
        share = shares[k]
        if share == 0:
            continue
        own = log_probabilities(calibrators[k], Z[some], classes)
        if share < 1:
            own = mixture(np.stack([own, L[some]]), np.array([share, 1 - share]))
        L[some] = own
    return L

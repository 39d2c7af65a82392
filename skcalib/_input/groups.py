"""Groups of dependent rows, warnings if they are few, and evidence of dependence."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._rows import Rows
from skcalib._typing import Array, Bools, Floats, Indices
from skcalib._warnings import FewGroupsWarning, warn

from .arrays import check_in_memory
from .labels import as_labels
from .logits import check_weights

# Fewer groups do not show how much groups vary.
FEW_GROUPS = 20

# Fewer groups with an event do not show how much rare events vary.
FEW_EVENTS = 10

# Fewer groups with wrong predictions do not show how much losses and differences vary.
FEW_WRONG = 7


def in_groups(rows: Rows, X: Any, groups: Any, sample_weight: Any) -> Rows:
    """Add groups (n,), unless they are None, to the rows of ``X`` with positive weight.

    ``sample_weight`` (n,) tells which rows were left out.
    """
    if groups is None:
        return rows
    check_in_memory([X])
    return rows.in_memory().replace(groups=check_groups(groups, X.shape[0], sample_weight))


def check_groups(groups: Any, n_rows: int, sample_weight: Any = None) -> Array:
    """Convert groups (n_rows,) to an array, or raise a ValueError unless each row has one.

    Groups of rows with zero weight are left out.
    """
    check_in_memory([groups])
    if np.ndim(groups) == 0:
        raise ValueError(
            f"groups must have one entry per row, got {groups!r}. Pass the column of this name, "
            f"such as X[{groups!r}]."
        )
    labels = as_labels(groups, "groups")
    if len(labels) != n_rows:
        raise ValueError(
            f"groups must have one entry per row, {n_rows}, got {len(labels)}. Pass the groups "
            "of the same rows, in their order."
        )
    w = check_weights(sample_weight, n_rows)
    return labels if w is None else labels[w > 0]


def unless_single(groups: Array | None) -> Array | None:
    """Return the groups, or None if there is a single group, which folds cannot divide."""
    return None if groups is None or len(np.unique(groups)) < 2 else groups


def group_numbers(groups: Any, y_proba: Any, sample_weight: Any) -> Indices | None:
    """Return the number of each row's group, for rows with positive weight.

    None if there are no groups, or if all groups have one row.
    """
    if groups is None or isinstance(y_proba, Rows):  # checked rows have numbers already
        return groups
    labels = check_groups(groups, np.shape(y_proba)[0], sample_weight)
    numbers = np.unique(labels, return_inverse=True)[1].reshape(-1)
    n_groups = int(numbers.max()) + 1
    warn_of_few_groups(n_groups)
    return None if n_groups == len(numbers) else numbers


def warn_of_few_groups(n_groups: int) -> None:
    """Warn if there are too few groups to estimate how much they vary."""
    if n_groups < FEW_GROUPS:
        warn(
            f"Intervals and tests with groups hold for {FEW_GROUPS} groups and more, got "
            f"{n_groups}: intervals may be too narrow. Collect rows of more groups.",
            FewGroupsWarning,
        )


def effective_number(sizes: Floats) -> float:
    """Return the number of groups if their squared sizes were equal: a few large ones count as few.

    Groups of size 0 do not count.
    """
    if not sizes.any():
        return 0.0
    squares = (sizes / sizes.max()) ** 2
    return float(squares.sum() ** 2 / (squares @ squares))


def groups_with(hit: Bools, groups: Indices) -> float:
    """Return the effective number of groups with hits, by the fraction of hits in each group."""
    sizes = np.bincount(groups)
    used = sizes > 0
    return effective_number(np.bincount(groups, hit)[used] / sizes[used])


def warn_of_few_events(n_groups: int, n_all: int, n_wrong: float = np.inf) -> None:
    """Warn if too few of all groups have the rarer outcome to estimate how much groups vary.

    Losses and differences pass ``n_wrong``, the effective number of groups with wrong predictions.
    """
    if n_all < FEW_GROUPS:  # fewer groups have their own warning
        return
    if n_groups < FEW_EVENTS:
        warn(
            f"Intervals need {FEW_EVENTS} independent groups or rows with the event and as many "
            f"without it, got {n_groups}: the interval may be too narrow. Collect more events.",
            FewGroupsWarning,
        )
    elif n_wrong < FEW_WRONG:
        warn(
            f"Intervals of losses and differences need {FEW_WRONG} groups with wrong predictions, "
            f"got about {n_wrong:.0f}, as a few groups with most of them count as few: the "
            "interval may be too narrow. Collect rows of more groups.",
            FewGroupsWarning,
        )


def warn_of_many_bins(n_bins: int, n_units: int) -> None:
    """Warn if there are fewer groups or rows than half the number of bins."""
    if 2 * n_units < n_bins:
        warn(
            "Intervals of binned errors need half as many independent groups or rows as bins, got "
            f"{n_units} for {n_bins} bins: the interval may be too narrow. Pass fewer n_bins.",
            FewGroupsWarning,
        )


def warn_of_many_columns(n_columns: int, n_units: int) -> None:
    """Warn if a difference of errors has as many columns as groups or rows, or more."""
    if FEW_GROUPS <= n_units <= n_columns:  # fewer groups have their own warning
        warn(
            "Intervals of differences of errors need more independent groups or rows than columns, "
            f"got {n_units} for {n_columns} columns: the interval may be too narrow. Collect rows "
            "of more groups.",
            FewGroupsWarning,
        )


def warn_of_equal_rows(Z: Floats) -> None:
    """Warn if more than 5 per cent of the rows equal another row of logits (n, K).

    Two columns are not checked. Rows with NaN, or with only the lowest logit, do not count:
    classifiers clip probabilities there. Scores with few values, as from nearest neighbors, do not
    count.
    """
    n_rows, n_columns = Z.shape
    if n_columns < 3:
        return
    most = 10_000
    if n_rows > most:
        # Take the rows with middle ranks in the first column, so that equal rows stay together.
        start = (n_rows - most) // 2
        Z = Z[np.argpartition(Z[:, 0], (start, start + most))[start : start + most]]
    n_checked = len(Z)
    lowest = np.min(Z, where=np.isfinite(Z), initial=np.inf)
    Z = Z[np.all((lowest != Z) & ~np.isnan(Z), axis=1)]
    hashes = np.array([hash(row.tobytes()) for row in Z])
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    share = counts[counts > 1].sum() / n_checked
    if share <= 0.05:
        return
    # Columns with few values have few combinations, which repeat by chance.
    n_values = max(len(np.unique(column)) for column in Z[first].T)
    if (n_columns - 1) * np.log(n_values) > 2 * np.log(len(first)) - np.log(2):
        warn(
            f"{share:.0%} of the rows have logits equal to the logits of another row, so the rows "
            "seem to be dependent and held-out losses too low: pass groups= to fit with one value "
            "for all rows of the same origin, or remove repeated rows."
        )

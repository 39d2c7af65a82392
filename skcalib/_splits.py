"""Splits of rows or groups into training and test rows, and classes in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit, check_cv
from sklearn.utils import check_random_state, column_or_1d

from skcalib._input.groups import warn_of_equal_rows
from skcalib._input.labels import as_labels, shown
from skcalib._input.logits import check_weights
from skcalib._rows import Rows, both_columns
from skcalib._typing import Array, Bools, Floats, Indices, Split
from skcalib._warnings import warn

# From MANY_ROWS on, folds are folds of FEWER_ROWS.
MANY_ROWS, FEWER_ROWS = 50_000, 25_000


def made_splits(cv: Any, X: Any, y: Array, **params: Any) -> list[Split]:
    """Return the splits for a splitter, a number of folds, or pairs of indices.

    Raise a ValueError for a split without training or test rows.
    """
    every, splits = np.arange(len(y)), []
    for i, pair in enumerate(check_cv(cv, y, classifier=True).split(X, y, **params)):
        # To NumPy, a tuple is one index in several dimensions.
        train, test = (every[list(rows) if isinstance(rows, tuple) else rows] for rows in pair)
        split = Split(train, test)
        if not all(rows.ndim == 1 and len(rows) for rows in split):
            raise ValueError(
                "Each split must have training rows and test rows, in one dimension, got shapes "
                f"{split.train.shape} and {split.test.shape} in split {i}. Leave it out of cv, or "
                "choose another cv."
            )
        splits.append(split)
    if not splits:
        raise ValueError("cv must give at least one split, got none.")
    return splits


def presence(
    splits: list[Split], y: Array, *, w_train: Floats | None = None, w_test: Floats | None = None
) -> tuple[Array, Bools, Bools]:
    """Return the classes, and whether the training and test rows in each split contain them.

    Raise a ValueError if training rows contain fewer than two classes.
    """
    labels, codes = np.unique(y, return_inverse=True)

    def classes_in(rows: Indices, w: Floats | None) -> Bools:
        rows = rows if w is None else rows[w[rows] > 0]
        return np.bincount(codes[rows], minlength=len(labels)) > 0

    train = np.array([classes_in(split.train, w_train) for split in splits])
    test = np.array([classes_in(split.test, w_test) for split in splits])
    for i, present in enumerate(train):
        if present.sum() < 2:
            raise ValueError(
                "The training rows of each split must hold at least two classes, got "
                f"[{shown(labels[present])}] in split {i}. Use stratified splits, or leave it out "
                "of cv."
            )
    return labels, train, test


def checked_splits(cv: Any, X: Any, y: Array, w: Floats | None, **params: Any) -> list[Split]:
    """Return splits with two classes in the training rows and positive weight in the test rows."""
    splits = made_splits(cv, X, y, **params)
    for i, present in enumerate(presence(splits, y, w_train=w, w_test=w)[2]):
        if not present.any():
            raise ValueError(
                "The test rows of each split must hold some weight, got weights of zero only in "
                f"split {i}. Leave it out of cv, or choose another cv."
            )
    return splits


def given_splits(cv: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> list[Split]:
    """Return checked splits for a splitter or pairs, with numbers of rows that have weight.

    The arguments are arguments of ``fit``.
    """
    labels = column_or_1d(as_labels(y))
    w = check_weights(sample_weight, len(labels))
    splits = checked_splits(cv, X, labels, w, groups=groups)
    if w is None:
        return splits
    number = np.cumsum(w > 0) - 1
    return [Split(*(number[part[w[part] > 0]] for part in split)) for split in splits]


def hold_two_classes(y: Array, splits: list[Split]) -> bool:
    """Return whether all training rows contain two classes."""
    return all((y[train] != y[train[0]]).any() for train, _ in splits)


def first_tests(splits: Sequence[Split]) -> tuple[Indices, Indices, Indices]:
    """Return the test rows, their first split, and their positions in all test sets: (n_test,)."""
    test = np.concatenate([split.test for split in splits])
    fold = np.repeat(np.arange(len(splits)), [len(split.test) for split in splits])
    rows, first = np.unique(test, return_index=True)
    return rows, fold[first], first


def random_splits(rows: Rows, n_folds: int, random_state: Any) -> list[Split]:
    """Return random folds of rows or groups; from MANY_ROWS rows on, a sample is divided.

    Folds are not stratified: otherwise classes would be as frequent in the test rows as in the
    training rows, unlike in new data, and intercepts for many classes would seem to help. If the
    training rows in a fold contain a single class, there are fewer, stratified folds, or none.
    """
    rng = check_random_state(0 if random_state is None else random_state)
    if rows.groups is not None:
        n_groups = len(np.unique(rows.groups))
        if n_groups < 2:
            raise ValueError(
                f"groups must hold at least two groups, since folds keep groups together, got "
                f"{n_groups}. Leave groups out if rows are independent."
            )
        numbers = np.arange(rows.n_rows)
        splits = [*GroupKFold(min(n_folds, n_groups)).split(rows.y, groups=rows.groups)]
    else:
        warn_of_equal_rows(rows.X)
        numbers = rows_to_split(rows)
        splits = [*KFold(min(n_folds, len(numbers)), shuffle=True, random_state=rng).split(numbers)]
    y = rows.y[numbers]
    splits = [Split(*split) for split in splits]
    if not hold_two_classes(y, splits):
        splits = _fewer_splits(y, n_folds, rng, grouped=rows.groups is not None)
    return [Split(numbers[train], numbers[test]) for train, test in splits]


def _fewer_splits(y: Indices, n_folds: int, rng: Any, *, grouped: bool) -> list[Split]:
    """Return as many stratified folds as rare classes allow, none for groups, and warn."""
    most_frequent = y == np.bincount(y).argmax()
    n_others = int((~most_frequent).sum())
    fewer = 0 if grouped else min(n_folds, n_others, int(most_frequent.sum()))
    splits = []
    if fewer >= 2:
        stratified = StratifiedKFold(fewer, shuffle=True, random_state=rng)
        splits = [Split(*split) for split in stratified.split(y, most_frequent)]
    if fewer < n_folds:
        outcome = (
            f"there are {fewer} folds" if splits else "the first candidate is used without any"
        )
        warn(
            f"The training rows of each of {n_folds} folds must hold two classes, got {n_others} "
            f"of {len(y)} rows that are not of the most frequent class: {outcome}. Calibrate on "
            f"more {'groups' if grouped else 'rows'}."
        )
    return splits


def rows_to_split(rows: Rows) -> Indices:
    """Return the numbers of the rows to divide among random folds.

    Rows with a single class that is not masked are left out, since all calibrators are certain of
    them. From MANY_ROWS rows on, the numbers are a random sample. It is large enough for 500 rows
    in the rarest class, up to a million logits.
    """
    numbers = np.arange(rows.n_rows)
    if rows.masked:
        n_possible = np.count_nonzero(both_columns(rows.X) > -np.inf, axis=1)
        uncertain = np.flatnonzero(n_possible > 1)
        numbers = uncertain if len(uncertain) > 1 else numbers
    n, counts = len(numbers), np.bincount(rows.y[numbers])
    if n < MANY_ROWS:
        return numbers
    enough = 500 * n // counts[counts > 0].min()
    n_sample = min(n, max(FEWER_ROWS, min(enough, 1_000_000 // len(counts))))
    return np.sort(np.random.default_rng(0).choice(numbers, n_sample, replace=False))


def forward_splits(rows: Rows) -> list[Split]:
    """Return five splits of rows in time order: training rows are earlier than test rows.

    A group's time is the position of its first row, so that no group is split.
    """
    time = np.arange(rows.n_rows)
    if rows.groups is not None:
        _, first, group = np.unique(rows.groups, return_index=True, return_inverse=True)
        time = np.argsort(np.argsort(first))[group]
    n_times = int(time.max()) + 1
    if n_times < 6:
        unit = "rows" if rows.groups is None else "groups"
        raise ValueError(f"cv='time' needs at least six {unit}, got {n_times}. Pass cv=2.")
    splits = [
        Split(
            np.flatnonzero(time < test[0]), np.flatnonzero((time >= test[0]) & (time <= test[-1]))
        )
        for _, test in TimeSeriesSplit(5).split(np.arange(n_times))
    ]
    if not hold_two_classes(rows.y, splits):
        raise ValueError(
            f"cv='time' needs two classes in the first training rows, got one class in "
            f"{len(splits[0].train)} rows. Pass more rows, or cv=5."
        )
    return splits

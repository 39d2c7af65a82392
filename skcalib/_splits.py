"""Splits of rows, or of groups of rows, into training and test rows, and their classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from skcalib._rows import Array, Bools, Floats, Indices, Rows, check_in_memory
from skcalib._validation.inputs import check_weights
from skcalib._validation.labels import as_labels, shown


class Split(NamedTuple):
    """Indices of the training rows and of the test rows."""

    train: Indices
    test: Indices


def made_splits(cv: Any, X: Any, y: Array, **params: Any) -> list[Split]:
    """The splits of a splitter, of a number of folds, or of an iterable of pairs of indices.

    Raises a ValueError for a split without training or test rows.
    """
    every, found = np.arange(len(y)), []
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
        found.append(split)
    if not found:
        raise ValueError("cv must give at least one split, got none.")
    return found


def presence(
    splits: list[Split], y: Array, *, w_train: Floats | None = None, w_test: Floats | None = None
) -> tuple[Array, Bools, Bools]:
    """The classes, and which ones the training and the test rows of each split hold.

    Raises a ValueError if the training rows of a split hold fewer than two.
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
    """Splits with two classes in the training rows and positive weight in the test rows."""
    splits = made_splits(cv, X, y, **params)
    for i, present in enumerate(presence(splits, y, w_train=w, w_test=w)[2]):
        if not present.any():
            raise ValueError(
                "The test rows of each split must hold some weight, got weights of zero only in "
                f"split {i}. Leave it out of cv, or choose another cv."
            )
    return splits


def hold_two_classes(y: Array, splits: list[Split]) -> bool:
    """Whether the training rows of each split do."""
    return all((y[train] != y[train[0]]).any() for train, _ in splits)


def in_groups(rows: Rows, X: Any, groups: Any, sample_weight: Any) -> Rows:
    """The rows of ``X`` of positive weight with the group of each, if there are groups."""
    if groups is None:
        return rows
    labels = checked_groups(X, groups)
    w = check_weights(sample_weight, len(labels))
    return rows.in_memory().grouped(labels if w is None else labels[w > 0])


def checked_groups(X: Any, groups: Any) -> Array:
    """The group of each row; a ValueError for those that are missing or too few."""
    check_in_memory([X, groups])
    if np.ndim(groups) == 0:
        raise ValueError(
            f"groups must have one entry per row, got {groups!r}. For rows of a single group pass "
            f"[{groups!r}] * len(X)."
        )
    labels = as_labels(groups, "groups")
    if len(labels) != X.shape[0]:
        raise ValueError(
            f"groups must have one entry per row, {X.shape[0]}, got {len(labels)}. Pass the groups "
            "of the same rows, in their order."
        )
    return labels

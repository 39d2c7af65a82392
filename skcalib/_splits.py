"""Splits of rows into training and test rows, and the classes that these hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from ._typing import Array, Bools, Floats, Indices


class Split(NamedTuple):
    """Indices of the training rows and of the test rows."""

    train: Indices
    test: Indices


def row_numbers(splits: Iterable[Any], n_rows: int) -> list[Split]:
    """Splits as indices of rows, from anything that indexes an array of that length.

    Raises a ValueError for an invalid split, and for one that lacks training or test rows.
    """
    every, found = np.arange(n_rows), []
    for i, split in enumerate(splits):
        try:
            train, test = split
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"cv must give pairs (training rows, test rows), got {split!r} as split {i}."
            ) from error
        found.append(Split(_row_numbers(every, train, i), _row_numbers(every, test, i)))
        if min(map(len, found[-1])) == 0:
            raise ValueError(
                f"Each split must have training rows and test rows, got {len(found[-1].train)} and "
                f"{len(found[-1].test)} in split {i}. Leave it out of cv, or choose another cv."
            )
    if not found:
        raise ValueError("cv must give at least one split, got none.")
    return found


def _row_numbers(every: Indices, rows: Any, i: int) -> Indices:
    index = rows if isinstance(rows, slice) else np.asarray(rows)
    if not isinstance(index, slice) and index.size == 0:
        return every[:0]  # an empty list makes an array of floats
    try:
        numbers = every[index]
    except IndexError as error:
        raise ValueError(
            f"Each split must hold numbers of the {len(every)} rows or a Boolean mask of them, got "
            f"an invalid index in split {i}: {error}."
        ) from error
    if numbers.ndim != 1:
        raise ValueError(
            "Each split must hold numbers of rows in one dimension, got an array of shape "
            f"{np.shape(rows)} in split {i}."
        )
    return numbers


class Presence(NamedTuple):
    """Which classes the training and the test rows of each split hold, by positive weights."""

    labels: list[Any]
    train: Bools  #: (n_splits, n_classes)
    test: Bools  #: (n_splits, n_classes)

    def of(self, present: Bools) -> str:
        """One class that is present, or none, in words."""
        found = [label for label, there in zip(self.labels, present, strict=True) if there]
        return f"class {found[0]!r} only" if found else "none"


def presence(
    splits: list[Split], y: Array, *, w_train: Floats | None = None, w_test: Floats | None = None
) -> Presence:
    """Which classes the training and the test rows of each split hold."""
    labels, codes = np.unique(y, return_inverse=True)

    def classes_in(rows: Indices, w: Floats | None) -> Bools:
        rows = rows if w is None else rows[w[rows] > 0]
        return np.bincount(codes[rows], minlength=len(labels)) > 0

    train = [classes_in(split.train, w_train) for split in splits]
    test = [classes_in(split.test, w_test) for split in splits]
    return Presence(labels.tolist(), np.array(train), np.array(test))


def check_training_rows(classes: Presence) -> None:
    """Raise a ValueError if the training rows of a split hold fewer than two classes."""
    for i, present in enumerate(classes.train):
        if present.sum() < 2:
            raise ValueError(
                "The training rows of each split must hold at least two classes, got "
                f"{classes.of(present)} in split {i}. Use stratified splits, or leave it out of cv."
            )


def check_test_rows(classes: Presence) -> None:
    """Raise a ValueError if the test rows of a split have no weight."""
    for i, present in enumerate(classes.test):
        if not present.any():
            raise ValueError(
                "The test rows of each split must hold some weight, got weights of zero only in "
                f"split {i}. Leave it out of cv, or choose another cv."
            )


def are_splits(cv: Any) -> bool:
    """Whether it is an iterable of splits, not a splitter, by the rule of ``check_cv``."""
    return isinstance(cv, Iterable) and not hasattr(cv, "split")


def made_splits(cv: Any, X: Any, y: Array, groups_remedy: str, **params: Any) -> list[Split]:
    """The splits of a splitter, of a number of folds, or of an iterable."""
    if are_splits(cv):
        return row_numbers(cv, len(y))
    splitter = check_cv(cv, y, classifier=True)
    try:
        splits = list(splitter.split(X, y, **params))
    except ValueError as error:
        if params.get("groups") is None and _takes_groups(splitter):
            raise ValueError(
                f"{type(splitter).__name__} needs groups, got none. {groups_remedy}"
            ) from error
        raise
    return row_numbers(splits, len(y))


def _takes_groups(splitter: Any) -> bool:
    routing = getattr(splitter, "get_metadata_routing", None)
    return routing is not None and bool(routing().consumes("split", ["groups"]))

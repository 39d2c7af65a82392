"""Scores of rows: checks of their columns and gaps, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from skcalib._input.arrays import as_array, check_in_memory, column_names
from skcalib._input.column_order import check_column_names, without_shared_ends
from skcalib._input.labels import shown
from skcalib._input.logits import check_finite, seem_probabilities, warn_of_probabilities
from skcalib._input.parameters import check_integer
from skcalib._typing import Array, Bools, Floats
from skcalib._warnings import warn


def as_matrix(X: Any, n_columns: int | None = None) -> Any:
    """Return ``X`` in memory in two dimensions, or raise a ValueError with the remedy."""
    check_in_memory([X])
    is_list = isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) > 1
    if is_list or getattr(X, "ndim", 2) > 2:
        raise ValueError(
            "X must have two dimensions with the scores side by side, got "
            f"{f'a list of {len(X)} matrices' if is_list else f'shape {tuple(X.shape)}'}. Pass "
            "np.hstack(X) for a list or the shape (n_scores, n_samples, n_classes), and "
            "X.reshape(len(X), -1) for the shape (n_samples, n_scores, n_classes)."
        )
    return as_array(X, n_columns=n_columns)


def check_column_order(X: Any, fusion: Any) -> None:
    """Raise a ValueError unless new scores have the columns of ``fit`` in the same order."""
    names, fitted = column_names(X), getattr(fusion, "feature_names_in_", [])
    if names and list(fitted) != names and set(fitted) == set(names):
        raise ValueError(
            f"Columns of X must be in the order of fit, got {shown(names)} after a fit to "
            f"{shown(fitted)}. Pass X[model.feature_names_in_]."
        )
    if not names and X.shape[1] != fusion.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(fusion).__name__} is expecting "
            f"{fusion.n_features_in_} features as input. Pass the columns of all scores in the "
            "order of fit, and NaN for missing scores."
        )


def name_scores(columns: Sequence[Any], n_scores: Any, n_columns: int) -> list[str]:
    """Return the names of the scores: shared starts of the names of columns, or numbers."""
    starts = [str(name).rpartition("__")[0] for name in columns]
    names = list(dict.fromkeys(starts)) if all(starts) else []
    if n_scores is None and not names:
        raise ValueError(
            "n_scores must be the number of scores, got None and columns that are not named "
            f"as 'score__class'. Pass n_scores= for the {n_columns} columns of X."
        )
    n_scores = len(names) if n_scores is None else n_scores
    check_integer("n_scores", n_scores)
    width, rest = divmod(n_columns, int(n_scores))
    if rest:
        raise ValueError(
            f"X must have as many columns for each of n_scores={n_scores} scores, got {n_columns} "
            "columns. Pass one column per score and class, or log-odds with a column per score."
        )
    if len(names) != n_scores:
        names = [str(name) for name in columns] if width == 1 else []
    return names or [f"score {m}" for m in range(int(n_scores))]


def check_class_names(columns: Sequence[Any], names: Sequence[str], classes: Array) -> None:
    """Raise a ValueError if columns say by their names that they are in another order.

    The columns of each score are side by side, in the order of the classes. ``names`` are the names
    of the scores.
    """
    n_scores, width = len(names), len(columns) // len(names)
    scores = [columns[m * width :][:width] for m in range(n_scores)]
    starts = [str(column).rpartition("__")[0] for column in columns]
    is_by_class = set(starts) == set(names) and starts != np.repeat(names, width).tolist()
    if all(isinstance(column, str) for column in columns):
        labels = without_shared_ends([str(label) for label in classes.tolist()])
        by_class = [without_shared_ends([*columns[m::n_scores]]) for m in range(n_scores)]
        if labels in by_class:  # scores may have the names of classes
            is_by_class |= labels not in [without_shared_ends([*score]) for score in scores]
    if is_by_class:
        raise ValueError(
            "The columns of a score must be side by side in X, got the columns "
            f"{shown(columns)}. Order the columns by score."
        )
    for score in scores:
        check_column_names(SimpleNamespace(columns=score), classes)


def check_widths(n_columns: int, n_scores: int, labels: Array) -> None:
    """Raise a ValueError unless each score has a column per class, or one for two classes.

    Warn if scores have several columns per class, but numeric labels may be column numbers.
    """
    width, n_classes = n_columns // n_scores, len(labels)
    has_absent_classes = width > n_classes and width % n_classes > 0
    if width == n_classes or (width, n_classes) == (1, 2) or has_absent_classes:
        return
    number, rest = divmod(n_columns, n_classes)
    remedy = "Check the columns of X" if rest else f"Pass n_scores={number}"
    message = (
        f"Each score must have one column for each of the {n_classes} classes, got n_scores="
        f"{n_scores} and {n_columns} columns. {remedy}, or name all classes in the order of the "
        "columns of a score with classes=."
    )
    if width < n_classes or labels.dtype.kind not in "iuf":
        raise ValueError(message)
    warn(message)


def check_scores(X: Floats, n_scores: int, *, fit: bool = True) -> bool:
    """Return whether some class is masked, or raise a ValueError for invalid scores.

    Warn of rows without any score. Without ``fit``, which warns itself, also warn of scores that
    seem to be probabilities.
    """
    Z = X.reshape(len(X), n_scores, X.shape[1] // n_scores)
    nan: Bools = np.isnan(Z)
    missing: Bools = np.all(nan, axis=2)
    partial = np.count_nonzero((nan.any(axis=2) != missing).any(axis=1))
    if partial:
        raise ValueError(
            f"All columns of a missing score must be NaN, got NaN in some columns in {partial} of "
            f"{len(Z)} rows. Set the other columns to NaN too, or fill the gaps by "
            "skcalib.judge.ScoreTransformer(missing='keep')."
        )
    present = Z[~missing]
    masked = len(present) > 0 and check_finite(present)
    impossible = np.count_nonzero(np.isneginf(Z).any(axis=1).all(axis=-1)) if masked else 0
    if impossible:
        raise ValueError(
            "Each row of X must have a class that no score masks by -inf, got "
            f"{impossible} of {len(Z)} rows without one. Mask a class in all scores or in none."
        )
    empty = np.count_nonzero(missing.all(axis=1))
    if empty:
        warn(f"{empty} of {len(Z)} rows have no score: their probabilities are the base rates.")
    if not fit and len(present) > n_scores and seem_probabilities(present, fit=False):
        warn_of_probabilities(present.shape[1], "predictions")
    return masked

"""The door for fits: check logits, labels and weights, and return rows of NumPy arrays.

Dask workers check collections chunk by chunk, by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skcalib._rows import Rows
from skcalib._typing import Array, Floats
from skcalib._warnings import warn

from .arrays import (
    as_array,
    as_numpy,
    is_dask,
)
from .classes import ordered_categories, resolve_classes, warn_of_absent_classes
from .column_order import check_column_names, check_column_order
from .dask import checked_chunks
from .labels import as_labels, distinct_labels, encode, exact, in_one_type, shown
from .logits import (
    CLIP_FIRST,
    as_floats,
    check_finite,
    check_probabilities,
    check_weights,
    refuse_masked,
    seem_probabilities,
    warn_of_probabilities,
    warn_of_small_weights,
    with_weight_only,
)


def check_fit(calibrator: Any, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Rows]:
    """Check the arguments of ``fit``, and return ``X`` as an array or a frame, and rows.

    The rows contain logits (n, K), class indices (n,), positive weights (n,) or None, and column
    classes. ``calibrator`` defines ``classes``, ``order`` and whether it supports masked classes.
    """
    if type(X) is not np.ndarray or X.ndim != 2:
        check_not_swapped(y=y, X=X)
    X = as_array(X)
    rows, statistics = labelled_rows(calibrator, X, y, sample_weight)
    rows = with_classes(rows, statistics, calibrator, rows.n_columns)
    if type(X) is not np.ndarray:
        check_column_names(X, rows.classes)
    check_column_order(rows, named=calibrator.classes is not None)
    if statistics.masked:
        refuse_masked(calibrator)
        check_labels_are_not_masked(rows)
    if statistics.like_probabilities:
        warn_of_probabilities(rows.n_columns)
    if sample_weight is not None:
        warn_of_small_weights(statistics.weight, statistics.n_rows)
    # Labels that are column numbers have a warning of their own.
    is_named = calibrator.classes is not None or statistics.categories is not None
    if is_named and calibrator._has_class_parameters:  # noqa: SLF001
        warn_of_absent_classes(rows, statistics.labels)
    return X, rows


def labelled_rows(
    calibrator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    check: Callable[[Floats], bool] = check_finite,
) -> tuple[Rows, RowStatistics]:
    """Check logits, labels of two classes or more, and weights; return rows and statistics.

    ``check`` raises an error if logits are invalid, and returns whether some class is masked.
    """
    checks = partial(check_rows, estimator=type(calibrator).__name__, check=check)
    rows, statistics = checked_rows(checks, X=X, y=y, sample_weight=sample_weight)
    if len(statistics.labels) == 1:
        only = shown(statistics.labels)
        raise ValueError(f"y must hold at least two classes, got one class only: {only}.")
    return rows, statistics


def with_classes(rows: Rows, statistics: RowStatistics, calibrator: Any, n_columns: int) -> Rows:
    """Return rows with class indices in place of labels, for ``n_columns`` columns of classes."""
    classes = resolve_classes(
        statistics.labels, n_columns, calibrator.classes, categories=statistics.categories
    )
    order = getattr(calibrator, "order", None)  # of ordered classes
    return rows.relabel(
        partial(encode, classes=classes),
        classes=classes,
        masked=statistics.masked,
        order=statistics.categories if order is None else order,
    )


def check_not_swapped(**labels_and_scores: Any) -> None:
    """Raise a ValueError if labels, the first argument, and scores seem to be swapped.

    Fractions are no labels, and scores without fractions are probably labels.
    """
    (y_name, y), (name, x) = labels_and_scores.items()
    if isinstance(y, np.ndarray) and y.dtype.kind != "f":
        return
    if _has_fractions(y, y_name) and not _has_fractions(x, name):
        raise ValueError(
            f"{y_name} and {name} are probably swapped: {y_name} holds fractions, which are "
            f"no labels, and {name} holds none. Pass labels as {y_name}."
        )


def _has_fractions(x: Any, name: str) -> bool:
    """Return whether an array in memory contains fractions."""
    values = as_numpy(x, name)
    if is_dask(values) or issparse(values):
        return False
    values = np.asarray(values) if hasattr(values, "columns") else values
    is_float = getattr(getattr(values, "dtype", None), "kind", "") == "f"
    return is_float and bool((values > np.floor(values)).any())


def check_labels_are_not_masked(rows: Rows) -> None:
    """Raise a ValueError if a label's class is masked in its row."""
    n = int(rows.sum(lambda Z, y, w: np.count_nonzero(np.isneginf(Z[np.arange(len(y)), y]))))
    if n:
        raise ValueError(
            f"The logit of the label of a row must be finite, got {n} of {rows.n_rows} rows in "
            "which it is -inf: a masked class is impossible. Check that the columns of X are in "
            f"the order of the classes. {CLIP_FIRST}"
        )


# --------------------------------------------------------------------------------------
# Checks of arrays, in memory or in a Dask chunk, and statistics of their rows.


@dataclass(frozen=True)
class RowStatistics:
    """Statistics of rows. Adding two statistics combines the rows."""

    labels: Array  #: distinct labels in rows with positive weight, sorted
    weight: float  #: total weight
    n_rows: int = 0  #: number of rows with positive weight
    like_probabilities: bool = False  #: whether the logits seem to be probabilities
    masked: bool = False  #: whether some logit is -inf
    categories: Array | None = None  #: ordered categories

    def __add__(self, other: RowStatistics) -> RowStatistics:
        return RowStatistics(
            np.unique(exact(np.concatenate(in_one_type(self.labels, other.labels)), "y")),
            self.weight + other.weight,
            self.n_rows + other.n_rows,
            self.like_probabilities and other.like_probabilities,
            self.masked or other.masked,
            other.categories if self.categories is None else self.categories,
        )


def check_rows(
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    proba: bool = False,
    estimator: str | None = None,
    check: Callable[[Floats], bool] = check_finite,
) -> tuple[Rows, RowStatistics]:
    """Check logits, labels and weights; return rows with positive weight and statistics.

    With ``proba``, they are a measure's ``y_proba`` (n, K) or (n,) and ``y_true`` (n,). ``check``
    is for logits, as in :func:`labelled_rows`.
    """
    name, y_name = ("y_proba", "y_true") if proba else ("X", "y")
    labels = as_labels(y, y_name, warns=not proba)
    are_whole = getattr(getattr(X, "dtype", None), "kind", "") in {"b", "i", "u"}
    X = as_floats(X, name, flat=proba, estimator=estimator)
    if len(labels) != len(X):
        raise ValueError(
            f"{y_name} and {name} must have the same rows, got inconsistent numbers of samples: "
            f"[{len(labels)}, {len(X)}]. Pass a row of {name} for each label."
        )
    masked = like_probabilities = False
    if proba:
        check_probabilities(X, labels)
        if are_whole:
            warn(
                "y_proba holds 0 and 1 as whole numbers, which are probably predicted labels. Pass "
                "predict_proba(X), or y_proba.astype(float) if they are probabilities."
            )
    else:
        masked, like_probabilities = check(X), seem_probabilities(X)
    w = None
    if sample_weight is not None:
        w = check_weights(sample_weight, len(labels), part=True)
        labels, X, w = with_weight_only(labels, X, w)
        masked = masked and bool(np.isneginf(X).any())
    statistics = RowStatistics(
        labels=distinct_labels(labels),
        weight=float(len(labels) if w is None else w.sum()),
        n_rows=len(labels),
        like_probabilities=like_probabilities,
        masked=masked,
        categories=None if isinstance(y, np.ndarray) else ordered_categories(y),
    )
    return Rows(X, labels, w), statistics


def checked_rows(
    check: Callable[..., tuple[Rows, RowStatistics]], **inputs: Any
) -> tuple[Rows, RowStatistics]:
    """Apply ``check`` to the inputs, and return rows and statistics.

    Dask workers check collections chunk by chunk, and the chunks' statistics are added: see
    :func:`~.dask.checked_chunks`.
    """
    if any(map(is_dask, inputs.values())):
        rows, statistics = checked_chunks(check, **inputs)
    else:
        rows, statistics = check(*inputs.values())
    if statistics.weight == 0:
        check_weights([0.0], 1)  # raises the error for weights that are all zero
    rows.weight = statistics.weight
    return rows, statistics

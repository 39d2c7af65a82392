"""Conversion of labels and probabilities to scores and events, for each kind of calibration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from skcalib._engine.array_api import (
    check_has_doubles,
    check_needs_no_gradients,
    is_tensor,
    like,
    namespace,
)
from skcalib._engine.blocks import of_labels
from skcalib._engine.inputs import as_array, check_in_memory, checked_rows
from skcalib._engine.memory import MemoryRows
from skcalib._engine.rows import Rows
from skcalib._scores.columns import Columns, Scored
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.classes import check_column_names, resolve_classes
from skcalib._validation.floats import as_floats
from skcalib._validation.indicator import (
    as_host_array,
    as_indicator,
    check_labels_of_columns,
    check_two_dimensions,
    has_columns,
    names_of_labels,
)
from skcalib._validation.labels import as_labels, distinct_labels, encode, exact, flat, shown
from skcalib._validation.parameters import check_option
from skcalib._validation.probabilities import check_probabilities
from skcalib._validation.rows import Found, with_weight_only
from skcalib._validation.weights import check_each_weight, check_total_weight

Kind = Literal["top-label", "classwise", "binary", "multilabel"]

# Kinds with a score for each column.
OF_EACH = ("classwise", "multilabel")

Average = Literal["macro", "micro"] | None

Events = tuple[Floats, NDArray[np.bool_]]


def columns_of(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
    average: Average = "macro",
) -> Columns:
    """Scores and events, one column, or one for every class or label.

    With ``average="micro"`` those of all labels are one column.
    """
    check_option("kind", kind, Kind)
    check_average(average, kind)
    rows, classes = rows_of(kind, y_true, y_proba, sample_weight, labels, pos_label)
    if average == "micro":
        return _pooled(rows)
    return scored(rows, classes, kind, pos_label)


def check_average(average: Any, kind: Kind) -> None:
    """Raise a ValueError for an average that there is not, or not for this kind."""
    if average is not None:
        check_option("average", average, ["macro", "micro"])
    if average == "micro" and kind != "multilabel":
        raise ValueError(
            f"average='micro' is for kind='multilabel', got kind={kind!r}. Leave it out."
        )
    if average is None and kind not in OF_EACH:
        raise ValueError(
            "average=None gives a value for each class or label, with kind='classwise' or "
            f"'multilabel', got kind={kind!r}. Leave it out."
        )


def rows_of(
    kind: Kind,
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> tuple[Rows, Array]:
    """Checked rows, and the labels in the order of columns; with several labels indicators."""
    if kind != "multilabel":
        return check_input(y_true, y_proba, sample_weight, labels, pos_label)
    if pos_label is not None:
        raise ValueError(
            f"pos_label is for kind='binary', got {pos_label!r} with kind='multilabel', where the "
            "event is that a row has the label. Leave it out."
        )
    return check_indicator_input(y_true, y_proba, sample_weight, labels)


def scored_rows(*args: Any) -> Iterator[Scored]:
    """Scores and events of all rows of :func:`columns_of`, column by column, in memory."""
    check_in_memory(args)
    return columns_of(*args).each()


def check_input(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> tuple[Rows, Array]:
    """Rows of probabilities, class indices and weights, and the labels in the order of columns.

    Checked rows may be passed as ``y_proba``, which saves a pass over the data.
    """
    if isinstance(y_proba, Rows):
        return y_proba, np.asarray(labels)
    y_proba = as_array(y_proba, "y_proba", flat=True)
    rows, found = checked_rows(
        _checked_arrays, y_proba=y_proba, y_true=y_true, sample_weight=sample_weight
    )
    check_total_weight(found.weight)
    n_columns = rows.n_columns if rows.X.ndim == 2 else 1
    classes = resolve_classes(found.labels, n_columns, labels, name="labels", proper=True)
    check_column_names(y_proba, classes, "y_proba", param="labels")
    if pos_label is not None and position(pos_label, classes) == 0 and rows.X.ndim == 1:
        classes = classes[::-1]
    return rows.relabelled(partial(encode, classes=classes)), classes


def check_indicator_input(
    y_true: Any, y_proba: Any, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> tuple[Rows, Array]:
    """Rows of probabilities (n, n_labels) and indicators, and the names of the labels."""
    check_in_memory((y_true, y_proba, sample_weight))
    found = as_host_array(y_proba, "y_proba")
    remedy = "np.stack([p[:, 1] for p in y_proba], axis=1)"
    check_two_dimensions(found, "y_proba", remedy)
    P, E = as_floats(found, "y_proba"), as_indicator(y_true, "y_true")
    if P.shape != E.shape:
        raise ValueError(
            "y_true and y_proba must be of the same shape (n_samples, n_labels), got "
            f"{E.shape} and {P.shape}."
        )
    check_probabilities(P.ravel())
    check_labels_of_columns(y_proba, y_true, "y_proba", "y_true")
    named = y_true if hasattr(y_true, "columns") else y_proba
    names = names_of_labels(named, P.shape[1]) if labels is None else _names(labels, P.shape[1])
    check_column_names(y_proba, names, "y_proba", param="labels")
    E, P, w = with_weight_only(E, P, check_each_weight(sample_weight, len(E)))
    check_total_weight(len(E) if w is None else float(w.sum()))
    return MemoryRows(P, E, w), names


def _names(labels: ArrayLike, n_labels: int) -> Array:
    names = np.asarray(exact(labels, "labels"))
    if names.ndim != 1 or len(names) != n_labels or len(set(names.tolist())) != n_labels:
        raise ValueError(
            f"labels must name each of the {n_labels} columns of y_proba, got {shown(names)}."
        )
    return names


def _pooled(rows: Rows) -> Columns:
    """Scores and events of all labels as those of a single one."""
    P, E, w = rows.arrays
    weights = None if w is None else np.repeat(w, P.shape[1])
    return scored(MemoryRows(P.ravel(), E.ravel(), weights), np.arange(2), "binary", None)


def position(pos_label: Any, classes: Array) -> int:
    """Index of the column of a class that the user named."""
    known = classes.tolist()
    if pos_label not in known:
        raise ValueError(f"pos_label must be one of [{shown(known)}], got {pos_label!r}.")
    return known.index(pos_label)


def _checked_arrays(
    y_proba: Any, y_true: Any, sample_weight: Any
) -> tuple[tuple[Floats, Array, Floats | None], Found]:
    """Probabilities, labels and weights of rows of positive weight, and statistics of them."""
    is_on_device = is_tensor(y_proba)
    if is_on_device:
        check_needs_no_gradients(y_proba, "y_proba")
        check_has_doubles(y_proba, "y_proba")
    # In place of a tensor an array of its shape, which takes no memory.
    like_it = np.broadcast_to(0.0, tuple(y_proba.shape)) if is_on_device else y_proba
    P = as_floats(like_it, "y_proba")
    P = y_proba if is_on_device else P
    if P.ndim == 2 and P.shape[1] == 1:
        raise ValueError(
            "y_proba must have one column per class, or one dimension for two classes, got "
            f"shape {tuple(P.shape)}."
        )
    if has_columns(y_true):
        as_labels(y_true, "y_true")  # refuses them, before rows that do not sum to one are
    check_probabilities(P)
    y = flat(as_labels(y_true, "y_true"))
    if len(y) != P.shape[0]:
        check_consistent_length(y, P)
    y, P, w = with_weight_only(y, P, check_each_weight(sample_weight, len(y)))
    if not len(y):
        return (P, y, w), Found(y, 0.0)
    return (P, y, w), Found(distinct_labels(y, w), MemoryRows(y, y, w).weight)


def scored(rows: Rows, classes: Array, kind: Kind, pos_label: Any) -> Columns:
    """Columns of rows of probabilities, class indices and weights."""
    if kind == "top-label":
        return Columns([None], _top_label if rows.X.ndim == 2 else _top_label_of_two, rows)
    if kind == "binary" and len(classes) != 2:
        raise ValueError(
            f"kind='binary' is for two classes, got {len(classes)}. Use kind='classwise', or "
            "pass y_true == label and the probabilities of that label."
        )
    if kind in OF_EACH:
        of_block = _every_class if kind == "classwise" else _every_label
        return Columns(list(classes), of_block, rows)
    named = pos_label is not None and rows.X.ndim == 2
    k = position(pos_label, classes) if named else 1
    return Columns([None], partial(_one_class, k), rows)


def _top_label(P: Floats, y: Indices) -> Events:
    best = namespace(P).argmax(P, axis=1)
    return of_labels(P, best)[:, None], (best == y)[:, None]


def _top_label_of_two(p: Floats, y: Indices) -> Events:
    return namespace(p).maximum(p, 1 - p)[:, None], ((p > 0.5) == (y == 1))[:, None]


def _every_class(P: Floats, y: Indices) -> Events:
    if P.ndim == 1:  # the probability of the other class is 1 - P
        P = namespace(P).stack([1 - P, P], axis=1)
    return P, y[:, None] == like(np.arange(P.shape[1]), P)


def _every_label(P: Floats, E: Any) -> Events:
    return P, E


def _one_class(k: int, P: Floats, y: Indices) -> Events:
    return (P[:, None] if P.ndim == 1 else P[:, k : k + 1]), (y == k)[:, None]

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
from skcalib._validation.labels import as_labels, distinct_labels, encode, flat, shown
from skcalib._validation.parameters import check_option
from skcalib._validation.probabilities import check_probabilities
from skcalib._validation.rows import Found, with_weight_only
from skcalib._validation.weights import check_each_weight, check_total_weight

Kind = Literal["top-label", "classwise", "binary"]

Events = tuple[Floats, NDArray[np.bool_]]


def columns_of(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> Columns:
    """Scores and events, one column, or with ``kind="classwise"`` one for every class."""
    check_option("kind", kind, Kind)
    rows, classes = check_input(y_true, y_proba, sample_weight, labels, pos_label)
    return scored(rows, classes, kind, pos_label)


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
    if pos_label is not None and _position(pos_label, classes) == 0 and rows.X.ndim == 1:
        classes = classes[::-1]
    return rows.relabelled(partial(encode, classes=classes)), classes


def _position(pos_label: Any, classes: Array) -> int:
    """Index of the column of a class."""
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
    if kind == "classwise":
        return Columns(list(classes), _every_class, rows)
    named = pos_label is not None and rows.X.ndim == 2
    k = _position(pos_label, classes) if named else 1
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


def _one_class(k: int, P: Floats, y: Indices) -> Events:
    return (P[:, None] if P.ndim == 1 else P[:, k : k + 1]), (y == k)[:, None]

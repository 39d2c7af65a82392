"""From labels and probabilities to scores and events, for each kind of calibration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from skcalib._engine.inputs import as_array, check_in_memory
from skcalib._engine.memory import checked_rows, is_far, total_weight
from skcalib._scores.columns import Columns, Scored
from skcalib._typing import Floats, Indices
from skcalib._validation.classes import check_column_names, resolve_classes
from skcalib._validation.labels import as_labels, distinct_labels, encode, shown
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
    y, P, w, classes = check_input(y_true, y_proba, sample_weight, labels, pos_label)
    return scored(y, P, w, classes, kind, pos_label)


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
) -> tuple[Any, Any, Any, NDArray[Any]]:
    """Class indices, probabilities, weights, and the labels in the order of the columns.

    Rows that it returned for Dask collections may be passed again, which takes no pass over them.
    """
    if is_far(y_true):
        return y_true, y_proba, sample_weight, np.asarray(labels)
    y_proba = as_array(y_proba, "y_proba", flat=True)
    (y, P, w), found = checked_rows(
        _check_rows, y_proba=y_proba, y_true=y_true, sample_weight=sample_weight
    )
    check_total_weight(found.weight)
    n_columns = P.shape[1] if P.ndim == 2 else 1
    classes = resolve_classes(found.labels, n_columns, labels, name="labels", proper=True)
    check_column_names(y_proba, classes, "y_proba", param="labels")
    if pos_label is not None and _position(pos_label, classes) == 0 and P.ndim == 1:
        classes = classes[::-1]
    return encode(y, classes), P, w, classes


def _position(pos_label: Any, classes: NDArray[Any]) -> int:
    """Number of the column of a class."""
    known = classes.tolist()
    if pos_label not in known:
        raise ValueError(f"pos_label must be one of [{shown(known)}], got {pos_label!r}.")
    return known.index(pos_label)


def _check_rows(
    y_proba: Any, y_true: Any, sample_weight: Any
) -> tuple[tuple[NDArray[Any], Floats, Floats | None], Found]:
    """Labels, probabilities and weights of the rows that have weight, and what is in them."""
    P = check_array(
        y_proba,
        dtype=[np.float64, np.float32],
        ensure_2d=False,
        ensure_all_finite=False,
        input_name="y_proba",
    )
    if P.ndim == 2 and P.shape[1] == 1:
        raise ValueError(
            "y_proba must have one column per class, or one dimension for two classes, got "
            f"shape {P.shape}."
        )
    check_probabilities(P)
    y = column_or_1d(as_labels(y_true, "y_true"))
    check_consistent_length(y, P)
    y, P, w = with_weight_only(y, P, check_each_weight(sample_weight, len(P)))
    if not len(y):
        return (y, P, w), Found(y, 0.0)
    return (y, P, w), Found(distinct_labels(y, w), total_weight(y, w))


def scored(y: Any, P: Any, w: Any, classes: NDArray[Any], kind: Kind, pos_label: Any) -> Columns:
    """Columns of rows of class indices, probabilities and weights."""
    if kind == "top-label":
        return Columns([None], _top_label if P.ndim == 2 else _top_label_of_two, y, P, w)
    if kind == "binary" and len(classes) != 2:
        raise ValueError(
            f"kind='binary' is for two classes, got {len(classes)}. Use kind='classwise', or "
            "pass y_true == label and the probabilities of that label."
        )
    if kind == "classwise":
        return Columns(list(classes), _every_class, y, P, w)
    named = pos_label is not None and P.ndim == 2
    k = _position(pos_label, classes) if named else 1
    return Columns([None], partial(_one_class, k), y, P, w)


def _top_label(y: Indices, P: Floats) -> Events:
    best = P.argmax(axis=1)
    return P[np.arange(len(P)), best][:, None], (best == y)[:, None]


def _top_label_of_two(y: Indices, p: Floats) -> Events:
    return np.maximum(p, 1 - p)[:, None], ((p > 0.5) == y)[:, None]


def _every_class(y: Indices, P: Floats) -> Events:
    if P.ndim == 1:  # the other class has what is missing to one
        P = np.stack([1 - P, P], axis=1)
    return P, y[:, None] == np.arange(P.shape[1])


def _one_class(k: int, y: Indices, P: Floats) -> Events:
    return (P[:, None] if P.ndim == 1 else P[:, k : k + 1]), (y == k)[:, None]

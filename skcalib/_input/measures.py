"""The door for measures: check labels and probabilities."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from skcalib._rows import Rows
from skcalib._typing import ArrayLike

from .arrays import as_array, check_in_memory
from .classes import (
    check_column_names,
    check_column_order,
    event_index,
    resolve_classes,
)
from .indicators import (
    as_columns,
    as_indicator,
    check_label_order,
    label_names,
)
from .labels import Labels, encode, exact, shown
from .logits import as_floats, check_probabilities, check_weights, with_weight_only
from .rows import check_not_swapped, check_rows, checked_rows


def check_measure(
    y_true: Any,
    y_proba: Any,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any = None,
    kind: str = "auto",
    *,
    order: ArrayLike | None = None,
    keep_classes: bool = False,
) -> Rows:
    """Check labels, probabilities and weights, and return rows with column classes.

    With ``kind="multilabel"`` indicators replace class indices. Checked rows may be passed as
    ``y_proba``, which saves a pass over the data.

    One column of probabilities belongs to the second class. If ``pos_label`` is the first class,
    the two classes are exchanged, or with ``keep_classes`` the probabilities become 1 - p.
    """
    if isinstance(y_proba, Rows):
        return y_proba if order is None else y_proba.replace(order=order)
    check_not_swapped(y_true=y_true, y_proba=y_proba)
    if kind == "multilabel":
        if pos_label is not None:
            raise ValueError(
                f"pos_label is for kind='binary', got {pos_label!r} with kind='multilabel', where "
                "the event is that a row has the label. Leave it out."
            )
        return _check_indicators(y_true, y_proba, sample_weight, labels)
    y_proba = as_array(y_proba, "y_proba", flat=True)
    check = partial(check_rows, proba=True)
    rows, statistics = checked_rows(
        check, y_proba=y_proba, y_true=y_true, sample_weight=sample_weight
    )
    n_columns = rows.n_columns if rows.X.ndim == 2 else 1
    if rows.X.ndim == 1 and labels is None:
        labels = order  # the second of two ordered classes is the event
    if rows.X.ndim == 1 and labels is None:
        labels = _two_labels(statistics.labels, pos_label)
    classes = resolve_classes(
        statistics.labels, n_columns, labels, y_proba, categories=statistics.categories, proba=True
    )
    is_fact = labels is not None or statistics.categories is not None or rows.X.ndim == 2
    if event_index(classes, pos_label, named=is_fact) == 0 and rows.X.ndim == 1:
        if keep_classes:
            rows = rows.map(lambda P, y, w: 1 - P)
        else:
            classes = classes[::-1]
    as_indices = partial(encode, classes=classes)
    order = statistics.categories if order is None else order
    rows = rows.relabel(as_indices, classes=classes, order=order)
    named = labels is not None or pos_label is not None
    check_column_order(rows, named=named, name="y_proba", param="labels")
    return rows


def _two_labels(present: Labels, pos_label: Any) -> list[Any] | None:
    """Return two labels if all rows have the event, whose complement then has no name."""
    if len(present) != 1 or np.ndim(pos_label) or present.tolist() != [pos_label]:
        return None
    is_text = isinstance(pos_label, str)
    return [f"not {pos_label}" if is_text else type(pos_label)(not pos_label), pos_label]


def check_probability_rows(y_proba: Any) -> Rows:
    """Check probabilities without labels. The classes are column numbers."""
    check_in_memory([y_proba])
    shape = np.shape(as_array(y_proba, "y_proba", flat=True))
    n_classes = shape[1] if len(shape) == 2 else 2
    return check_measure(np.zeros(shape[:1], dtype=int), y_proba, None, range(n_classes))


def _check_indicators(y_true: Any, y_proba: Any, sample_weight: Any, labels: Any) -> Rows:
    """Check probabilities and indicators (n, n_labels), and return rows with label names.

    ``sample_weight`` is (n,), ``labels`` are (n_labels,); both may be None.
    """
    check_in_memory((y_true, y_proba, sample_weight))
    P = as_columns(y_proba, "y_proba", "np.stack([p[:, 1] for p in y_proba], axis=1)")
    P, w = as_floats(P, "y_proba", flat=True), check_weights(sample_weight, len(P))
    E = as_indicator(y_true, "y_true", unknown=None if w is None else w[:, None] == 0)
    if P.shape != E.shape:
        raise ValueError(
            "y_true and y_proba must be of the same shape (n_samples, n_labels), got "
            f"{E.shape} and {P.shape}."
        )
    check_probabilities(P.ravel())
    check_label_order(y_proba, y_true, "y_proba", "y_true")
    names = label_names(y_true if hasattr(y_true, "columns") else y_proba, P.shape[1])
    if labels is not None:
        names = np.asarray(exact(labels, "labels"))
        if names.shape != P.shape[1:] or len(set(names.tolist())) != len(names):
            raise ValueError(
                f"labels must name each of the {P.shape[1]} columns of y_proba, got {shown(names)}."
            )
    check_column_names(y_proba, names, "y_proba", param="labels")
    E, P, w = with_weight_only(E, P, w)
    return Rows(P, E, w, classes=names)

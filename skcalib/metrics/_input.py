"""Checked rows of labels and probabilities, and their scores and events for each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skcalib._input.arrays import as_array, check_in_memory
from skcalib._input.classes import (
    check_column_names,
    check_column_order,
    columns_in_order,
    event_index,
    position,
    resolve_classes,
)
from skcalib._input.indicators import (
    as_columns,
    as_indicator,
    check_labels_of_columns,
    names_of_labels,
)
from skcalib._input.labels import SEVERAL_LABELS, encode, exact, shown
from skcalib._input.logits import as_floats, check_probabilities, check_weights, with_weight_only
from skcalib._input.parameters import check_option
from skcalib._input.rows import check_not_swapped, check_rows, checked_rows
from skcalib._rows import Floats, Indices, Rows
from skcalib._scores.columns import ScoreColumns, Scored

Kind = Literal["auto", "top-label", "classwise", "binary", "multilabel", "cumulative"]

# Kinds with several scores in a row.
OF_EACH = ("classwise", "multilabel", "cumulative")

Average = Literal["macro", "micro"] | None

Events = tuple[Floats, NDArray[np.bool_]]


def columns_of(
    y_true: ArrayLike | None,
    y_proba: ArrayLike | Rows,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
    average: Average = "macro",
    order: ArrayLike | None = None,
) -> ScoreColumns:
    """Return scores and events, in one column, or in a column for each class or label.

    With ``average="micro"`` all labels are one column. ``order`` is the order of the classes for
    cumulative events.
    """
    check_option("kind", kind, Kind)
    if average != "macro":
        if average is not None:
            check_option("average", average, ["macro", "micro"])
        known = OF_EACH if average is None else ("multilabel",)
        if kind not in known:
            raise ValueError(
                f"average={average!r} is for kind={' or '.join(map(repr, known))}, got "
                f"kind={kind!r}. Leave it out."
            )
    if order is not None and kind != "cumulative":
        raise ValueError(
            f"order is for kind='cumulative', got order={order!r} with kind={kind!r}. Leave it "
            "out; labels= is the order of the columns."
        )
    rows = check_input(y_true, y_proba, sample_weight, labels, pos_label, kind, order=order)
    kind = resolved(kind, rows.classes)
    if kind == "top-label":
        return ScoreColumns([None], _top_label, rows, kind)
    if average == "micro":
        P, E, w = rows.X, rows.y, rows.w
        w = None if w is None else np.repeat(w, P.shape[1])
        return ScoreColumns([None], partial(_one_class, 1), Rows(P.ravel(), E.ravel(), w), kind)
    if kind == "cumulative":
        columns = columns_in_order(rows.classes, rows.order)
        ordered = list(rows.classes[columns])
        return ScoreColumns(ordered[:-1], partial(_cumulative, columns), rows, kind)
    if kind in OF_EACH:
        return ScoreColumns(list(rows.classes), _each_class, rows, kind)
    if len(rows.classes) != 2:
        raise ValueError(
            f"kind='binary' is for two classes, got {len(rows.classes)}. Use kind='classwise', or "
            "pass y_true == label and the probabilities of that label."
        )
    named = pos_label is not None and rows.X.ndim == 2
    k = position(pos_label, rows.classes) if named else 1
    return ScoreColumns([None], partial(_one_class, k), rows, kind)


def check_kind(kind: Any, known: Any) -> None:
    """Raise a ValueError unless the kind is known, with advice for several labels per row."""
    if kind == "multilabel":
        names = ", ".join(map(repr, get_args(known) or known))
        raise ValueError(f"kind must be one of {names}, got 'multilabel'. {SEVERAL_LABELS}")
    check_option("kind", kind, known)


def check_draws_labels(kind: Kind, function: str) -> None:
    """Raise a ValueError for several events of a row, which cannot be drawn one by one."""
    if kind in ("multilabel", "cumulative"):
        columns = "y_true[:, j], y_proba[:, j]"
        if kind == "cumulative":
            columns = "y_true <= label, the sum of the probabilities of these labels"
        raise ValueError(
            f"{function} draws labels from their probabilities, and the events of a row may depend "
            f"on one another, got kind={kind!r}. Take each event by itself, with {columns} and "
            "kind='binary'."
        )


def resolved(kind: Kind, classes: Sized) -> Kind:
    """The kind, or for "auto" the event of two classes, and the top label of more."""
    if kind != "auto":
        return kind
    return "binary" if len(classes) == 2 else "top-label"


def scored_rows(*args: Any) -> tuple[Kind, Iterator[Scored]]:
    """The kind, and scores and events of all rows of :func:`columns_of`, column by column."""
    check_in_memory(args)
    columns = columns_of(*args)
    return columns.kind, columns.each()


def check_input(
    y_true: Any,
    y_proba: Any,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any = None,
    kind: Kind = "auto",
    *,
    order: ArrayLike | None = None,
    keep_classes: bool = False,
) -> Rows:
    """Return rows of probabilities, class indices and weights, with the classes of the columns.

    With ``kind="multilabel"`` indicators replace class indices. Checked rows may be passed as
    ``y_proba``, which saves a pass over the data.

    One column of probabilities belongs to the second class. If it belongs to the first class, the
    two classes are exchanged, or with ``keep_classes`` the probabilities become 1 - p.
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
        return _check_indicator_input(y_true, y_proba, sample_weight, labels)
    y_proba = as_array(y_proba, "y_proba", flat=True)
    check = partial(check_rows, proba=True)
    rows, statistics = checked_rows(
        check, y_proba=y_proba, y_true=y_true, sample_weight=sample_weight
    )
    n_columns = rows.n_columns if rows.X.ndim == 2 else 1
    if rows.X.ndim == 1 and labels is None:
        labels = order  # the second of two ordered classes is the event
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


def unlabelled(y_proba: Any) -> Rows:
    """Return rows of probabilities without labels; the classes are the indices of the columns."""
    check_in_memory([y_proba])
    shape = np.shape(y_proba)
    n_classes = shape[1] if len(shape) == 2 else 2
    return check_input(np.zeros(shape[:1], dtype=int), y_proba, None, range(n_classes))


def _check_indicator_input(y_true: Any, y_proba: Any, sample_weight: Any, labels: Any) -> Rows:
    """Rows of probabilities (n, n_labels) and indicators, with the names of the labels."""
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
    check_labels_of_columns(y_proba, y_true, "y_proba", "y_true")
    names = names_of_labels(y_true if hasattr(y_true, "columns") else y_proba, P.shape[1])
    if labels is not None:
        names = np.asarray(exact(labels, "labels"))
        if names.shape != P.shape[1:] or len(set(names.tolist())) != len(names):
            raise ValueError(
                f"labels must name each of the {P.shape[1]} columns of y_proba, got {shown(names)}."
            )
    check_column_names(y_proba, names, "y_proba", param="labels")
    E, P, w = with_weight_only(E, P, w)
    return Rows(P, E, w, classes=names)


def _top_label(P: Floats, y: Indices) -> Events:
    if P.ndim == 1:  # the probability of the other class is 1 - P
        return np.maximum(P, 1 - P)[:, None], ((P > 0.5) == (y == 1))[:, None]
    top = P.argmax(axis=1)
    return np.take_along_axis(P, top[:, None], axis=1), (top == y)[:, None]


def _each_class(P: Floats, y: Any) -> Events:
    """Scores and events of every class or, where ``y`` (m, K) is an indicator, of every label."""
    if P.ndim == 1:
        P = np.stack([1 - P, P], axis=1)
    return P, y if y.ndim == 2 else y[:, None] == np.arange(P.shape[1])


def _one_class(k: int, P: Floats, y: Indices) -> Events:
    return (P[:, None] if P.ndim == 1 else P[:, k : k + 1]), (y == k)[:, None]


def _cumulative(columns: Indices, P: Floats, y: Indices) -> Events:
    """Return the probability that the label is one of the k lowest, and whether it is: (m, K - 1).

    ``columns`` are the columns of the classes from the lowest to the highest.
    """
    if P.ndim == 1:
        P = np.stack([1 - P, P], axis=1)
    F = np.cumsum(P[:, columns[:-1]], axis=1, dtype=np.float64)
    # Sums such as 0.1 + 0.2 and 0.3 become ties, and none is above 1.
    return np.minimum(np.round(F, 12), 1), np.argsort(columns)[y][:, None] <= np.arange(F.shape[1])

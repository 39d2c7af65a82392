"""The door for measures by kind: check labels and probabilities, and return scores and events."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from skcalib._rows import Rows
from skcalib._rows.columns import ScoreColumns, Scored
from skcalib._typing import ArrayLike, Bools, Floats, Indices, Kind

from .arrays import check_in_memory
from .classes import columns_in_order, position
from .labels import SEVERAL_LABELS
from .measures import check_measure
from .parameters import check_option

# Kinds with several scores in a row.
OF_EACH = ("classwise", "multilabel", "cumulative")

Average = Literal["macro", "micro"] | None

Events = tuple[Floats, Bools]


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
    rows = check_measure(y_true, y_proba, sample_weight, labels, pos_label, kind, order=order)
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
    return columns.kind, columns.scored()


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

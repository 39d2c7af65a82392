"""From labels and probabilities to scores and events, for each kind of calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ._base import (
    Floats,
    Indices,
    check_weights,
    distinct_labels,
    encode,
    improper_rows,
    resolve_classes,
)

Kind = Literal["top-label", "classwise", "binary"]
Events = Callable[..., tuple[Floats, NDArray[np.bool_]]]

# A probability may exceed one by what normalising in single precision can add.
ROUNDING = 1e-6


class Scored(NamedTuple):
    """Scores of rows and whether their events happened: arrays of shape (n,)."""

    label: Any  #: the class that they are about, or None
    score: Floats
    event: NDArray[np.bool_]
    weight: Floats | None


def scored_rows(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    kind: Kind,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> Iterator[Scored]:
    """Scores and events of all rows, once, or with ``kind="classwise"`` for every column."""
    check_option("kind", kind, Kind)
    y, P, w, classes = check_input(y_true, y_proba, sample_weight, labels, pos_label)
    for label, events, scores in scored(P, classes, kind, pos_label):
        score, event = events(y, scores)
        yield Scored(label, score.astype(np.float64, copy=False), event, w)


def check_option(name: str, value: str, options: Any) -> None:
    """Raise a ValueError for a value that is none of the literals."""
    if value not in options.__args__:
        names = ", ".join(map(repr, options.__args__))
        raise ValueError(f"{name} must be one of {names}, got {value!r}.")


def check_input(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    pos_label: Any,
) -> tuple[Indices, Floats, Floats | None, NDArray[Any]]:
    """Class indices, probabilities, weights, and the labels in the order of the columns."""
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
    y = column_or_1d(y_true)
    check_consistent_length(y, P)
    w = check_weights(sample_weight, len(P))
    present = distinct_labels(y, w)
    n_columns = P.shape[1] if P.ndim == 2 else 1
    classes = resolve_classes(present, n_columns, labels, name="labels")
    if pos_label is not None:
        position = classes.tolist().index(pos_label) if pos_label in classes.tolist() else -1
        if position < 0:
            raise ValueError(f"pos_label must be one of {classes.tolist()!r}, got {pos_label!r}.")
        if P.ndim == 1 and position == 0:
            classes = classes[::-1]
    return encode(y, classes), P, w, classes


def check_probabilities(P: Floats) -> None:
    if P.ndim == 1:
        if not (P.min() >= 0 and P.max() <= 1 + ROUNDING):
            worst = P[np.argmax(~((P >= 0) & (P <= 1 + ROUNDING)))]
            raise ValueError(
                f"y_proba must hold probabilities between 0 and 1, got {worst:g}. Pass "
                "probabilities, not logits."
            )
        return
    if n_bad := improper_rows(P):
        row = next(row for row in P if improper_rows(row[None]))
        raise ValueError(
            "Each row of y_proba must hold probabilities between 0 and 1 that sum to one within "
            f"1e-3, got {n_bad} of {len(P)} rows that do not, the first with minimum "
            f"{row.min():g}, maximum {row.max():g} and sum {row.sum():g}. Pass probabilities, "
            "not logits."
        )


def scored(
    P: Floats, classes: NDArray[Any], kind: Kind, pos_label: Any
) -> Iterator[tuple[Any, Events, Floats]]:
    """Label, rule of score and event, and the probabilities that the rule looks at."""
    if kind == "top-label":
        yield None, _top_label if P.ndim == 2 else _top_label_of_two, P
        return
    if kind == "binary" and len(classes) != 2:
        raise ValueError(
            f"kind='binary' is for two classes, got {len(classes)}. Use kind='classwise', or "
            "pass y_true == label and the probabilities of that label."
        )
    columns = np.arange(len(classes))
    if kind == "binary":
        named = pos_label is not None and P.ndim == 2
        columns = np.flatnonzero(classes == pos_label) if named else columns[1:]
    for k in columns:
        # For one-dimensional probabilities the other class has what is missing to one.
        column = P[:, k] if P.ndim == 2 else P if k == 1 else 1 - P
        yield classes[k] if kind == "classwise" else None, _event_of_class(k), column


def _top_label(y: Indices, P: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    best = P.argmax(axis=1)
    return P[np.arange(len(P)), best], best == y


def _top_label_of_two(y: Indices, p: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    return np.maximum(p, 1 - p), (p > 0.5) == y


def _event_of_class(k: Any) -> Events:
    return lambda y, p: (p, y == k)

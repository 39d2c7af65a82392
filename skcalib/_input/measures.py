"""The doors for measures: check labels and probabilities, and return rows, or scores and events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from skcalib._rows import Ranked, Rows, map_blocks
from skcalib._rows.ranking import are_single, distinct_scores
from skcalib._typing import ArrayLike, Bools, Floats, Indices, Kind

from .arrays import as_array, check_in_memory
from .classes import columns_in_order, distinct, position, resolve_classes
from .column_order import check_column_names, check_column_order, check_label_order
from .labels import (
    SEVERAL_LABELS,
    as_columns,
    as_indicator,
    encode,
    is_text,
    label_names,
    shown,
)
from .logits import as_floats, check_probabilities, check_weights, with_weight_only
from .parameters import check_option
from .rows import check_not_swapped, check_rows, checked_rows

# Kinds with several scores in a row.
OF_EACH = ("classwise", "multilabel", "cumulative")

Average = Literal["macro", "micro"] | None

T = TypeVar("T")

Events = tuple[Floats, Bools]


class Scored(NamedTuple):
    """Scores of rows and indicators of their events: arrays of shape (n,)."""

    label: Any  #: the class of the scores, or None
    score: Floats
    event: Bools
    weight: Floats | None


@dataclass(frozen=True)
class ScoreColumns:
    """Scores and events of rows, one column for each of the labels.

    ``score_block`` computes scores and events (m, n_columns) for a block of rows with probabilities
    or logits (m, ...) and labels (m,).
    """

    labels: list[Any]  #: the class of each column, or None
    score_block: Callable[..., tuple[Floats, Bools]]
    rows: Rows
    kind: Any = "binary"  #: name of the score and the event, as in the measures

    def sums(
        self, f: Callable[[Floats, Bools, Floats | None], Floats], at_least: int = 1
    ) -> Floats:
        """Sum ``f(scores, events, weights)`` over blocks of rows."""
        score_block = self.score_block  # not self, which holds the rows
        return self.rows.sum(lambda P, y, w: f(*score_block(P, y), w), at_least=at_least)

    def ranked(self, then: Callable[[Ranked], T], *, events: bool = True) -> list[T]:
        """Apply ``then`` to the ranked scores of each column, with the events or without."""
        rows = self.rows.in_memory()
        S, E = map_blocks(self.score_block, rows.X, rows.y, order="F")
        pairs = zip(S.T, E.T if events else [None] * S.shape[1], strict=True)
        single = isinstance(rows.X, np.ndarray) and are_single(rows.X)
        return [then(distinct_scores(*pair, rows.w, single=single)) for pair in pairs]

    def scored(self) -> Iterator[Scored]:
        """Yield the scores and events of all rows, column by column, in memory."""
        rows = self.rows.in_memory()
        S, E = map_blocks(self.score_block, rows.X, rows.y)
        for k, label in enumerate(self.labels):
            score = np.ascontiguousarray(S[:, k], dtype=np.float64)
            yield Scored(label, score, E[:, k], rows.w)


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

    With ``average="micro"`` all labels are one column. ``order`` is the class order for
    cumulative events.
    """
    check_option("kind", kind, Kind)
    if average != "macro":
        if average is not None:
            check_option("average", average, ["macro", "micro"])
        kinds = OF_EACH if average is None else ("multilabel",)
        if kind not in kinds:
            raise ValueError(
                f"average={average!r} is for kind={' or '.join(map(repr, kinds))}, got "
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
    present, categories = statistics.labels, statistics.categories
    is_single = rows.X.ndim == 1
    if is_single and labels is None and order is not None:
        labels = order  # the second of two ordered classes is the event
    elif (
        is_single and labels is None and not np.ndim(pos_label) and present.tolist() == [pos_label]
    ):
        # All rows have the event, and its complement has no name.
        is_name = isinstance(pos_label, str)
        other = f"not {pos_label}" if is_name else type(pos_label)(not pos_label)
        labels = [other, pos_label]
    classes = resolve_classes(present, rows.n_columns, labels, categories=categories, proba=True)
    if not isinstance(y_proba, np.ndarray):
        check_column_names(y_proba, classes, "y_proba", param="labels")
    has_order = labels is not None or categories is not None
    if pos_label is None and is_single and not has_order and is_text(classes):
        raise ValueError(  # alphabetical order does not tell which label is the event
            f"pos_label is not specified: y_true holds the text labels [{shown(classes)}] and "
            "y_proba one column, the probabilities of one of them. Pass this label as pos_label=, "
            "or both labels as labels= with this label as the second, or one column per class."
        )
    event = 1 if pos_label is None else position(pos_label, classes)
    if is_single and event == 0 and keep_classes:
        rows = rows.map(lambda P, y, w: 1 - P)
    elif is_single and event == 0:
        classes = classes[::-1]
    order = categories if order is None else order
    rows = rows.relabel(partial(encode, classes=classes), classes=classes, order=order)
    is_named = labels is not None or pos_label is not None
    check_column_order(rows, named=is_named, name="y_proba", param="labels")
    return rows


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
        names = distinct(labels, "labels", P.shape[1], f" and {P.shape[1]} columns of y_proba")
        check_column_names(y_true, names, "y_true", param="labels")
    check_column_names(y_proba, names, "y_proba", param="labels")
    E, P, w = with_weight_only(E, P, w)
    return Rows(P, E, w, classes=names)


def check_kind(kind: Any, kinds: Any) -> None:
    """Raise a ValueError unless the kind is known, with advice for several labels per row."""
    check_option("kind", kind, kinds, SEVERAL_LABELS if kind == "multilabel" else "")


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
    """Return the kind, or for "auto" "binary" for two classes and "top-label" for more."""
    if kind != "auto":
        return kind
    return "binary" if len(classes) == 2 else "top-label"


def scored_rows(*args: Any) -> tuple[Kind, Iterator[Scored]]:
    """Return the kind, and scores and events for all rows, for each column."""
    check_in_memory(args)
    columns = columns_of(*args)
    return columns.kind, columns.scored()


def _top_label(P: Floats, y: Indices) -> Events:
    if P.ndim == 1:  # the probability of the other class is 1 - P
        return np.maximum(P, 1 - P)[:, None], ((P > 0.5) == (y == 1))[:, None]
    top = P.argmax(axis=1)
    return np.take_along_axis(P, top[:, None], axis=1), (top == y)[:, None]


def _each_class(P: Floats, y: Any) -> Events:
    """Return scores and events for each class or, if ``y`` (m, K) is an indicator, each label."""
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

"""Several labels per row as indicators: zeros and ones, one column per label."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import get_tags

from skcalib._typing import Array, Bools

from .arrays import (
    as_numpy,
    check_in_memory,
    check_needs_no_gradients,
    check_tensor,
    column_names,
    is_tensor,
    on_host,
)
from .classes import _first_moved
from .labels import are_missing, shown


def has_columns(y: Any) -> bool:
    """Return whether labels are sparse, or have more than one column."""
    shape: tuple[int, ...] = getattr(as_numpy(y, "y"), "shape", ())
    return issparse(y) or (len(shape) == 2 and shape[1] > 1)


def takes_indicator(estimator: Any) -> bool:
    """Return whether a classifier supports several labels per row, by its tags."""
    tags = get_tags(estimator)
    is_multilabel = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(tags.target_tags.multi_output or is_multilabel)


def as_indicator(y: Any, name: str = "y", *, unknown: Bools | None = None) -> Bools:
    """Convert an indicator matrix (n, n_labels) to booleans, or raise a ValueError.

    Entries that are ``unknown``, (n, 1) or (n, n_labels), may have any value, and become False.
    """
    if y is None:
        raise ValueError(f"This requires {name} to be passed, but the target {name} is None.")
    check_in_memory([y])
    E = y.toarray() if issparse(y) else as_numpy(y, name)
    got = f"shape {E.shape}" if hasattr(E, "shape") else f"a {type(E).__name__}"
    if len(getattr(E, "shape", ())) == 2:
        E = np.asarray(E)
        if E.dtype.kind == "O":  # pandas.NA compares with nothing
            E = np.where(are_missing(E), np.nan, E)
        are_numbers = E.dtype.kind in "biufO"  # old NumPy versions cannot compare text
        valid = (E == 0) | (E == 1) if are_numbers else np.zeros(E.shape, bool)
        if unknown is not None and np.broadcast_shapes(unknown.shape, E.shape) == E.shape:
            E, valid = np.where(unknown, 0, E), valid | unknown
        if valid.all():
            return E.astype(bool)
        got = repr(E[~valid].tolist()[0])
    advice = ""
    if name == "y":
        advice = (
            f"; give labels that are unknown in some rows a weight of 0, as in ~np.isnan({name})"
        )
    raise ValueError(
        f"{name} must be an indicator matrix of shape (n_samples, n_labels), of zeros and ones "
        f"only, got {got}. Convert sets of labels by MultiLabelBinarizer().fit_transform({name}), "
        f"and scores as in {name} > 0.5{advice}. One label per row is for other calibrators, such "
        "as TemperatureScaling, and kinds of measures."
    )


def label_names(y: Any, n_labels: int) -> Array:
    """Return the column names of a data frame, else column numbers."""
    names = column_names(y)
    return np.asarray(names) if names else np.arange(n_labels)


def check_label_order(X: Any, y: Any, name_X: str = "X", name_y: str = "y") -> None:
    """Raise a ValueError if two data frames have the same columns in another order.

    Prefixes and suffixes may differ between the data frames, as in "a" and "logit_a".
    """
    names_X, names_y = column_names(X), column_names(y)
    same_number = len(names_X) == len(names_y) > 0
    if same_number and _first_moved(names_X, names_y) is not None:
        raise ValueError(
            f"Columns of {name_X} must be in the order of the columns of {name_y}, got "
            f"{shown(names_X)} and {shown(names_y)}. Reorder them, as in "
            f"{name_X}[{name_y}.columns]."
        )


def as_columns(x: Any, name: str, remedy: str) -> Any:
    """Return an array on the host with one column per label, or raise a ValueError.

    Data frames are unchanged. ``remedy`` is code for the message.
    """
    if is_tensor(x):
        check_needs_no_gradients(check_tensor(x, name), name)
    x = as_numpy(x, name)
    if isinstance(x, list | tuple) or getattr(x, "ndim", 2) > 2:
        content = f"shape {x.shape}" if hasattr(x, "shape") else "a list of arrays"
        raise ValueError(
            f"{name} must have two dimensions, one column for each label, got {content}. If it has "
            "the probabilities of absence and presence of each label, as MultiOutputClassifier "
            f"gives them, pass {remedy}."
        )
    return x


def class_probabilities(P: Any, classes: Any) -> Any:
    """Convert a classifier's output to probabilities with one column per class or label.

    Parameters
    ----------
    P : object
        Output of ``predict_proba``. Classifiers for several labels per row may return a list of
        arrays. Neural networks with one sigmoid return one column, the second class's probability.
    classes : array-like or list of array-likes
        Attribute ``classes_``: column labels, or a list with column labels for each array.

    Returns
    -------
    object
        Probabilities of shape (n_samples, n_classes) or (n_samples, n_labels).
    """
    if not isinstance(P, list):
        is_column = getattr(P, "ndim", 2) == 1 or getattr(P, "shape", (0, 0))[1:] == (1,)
        if not is_column or isinstance(classes, list) or len(classes) != 2:
            return P
        p = np.asarray(on_host(P)).reshape(-1)
        return np.stack([1 - p, p], axis=1)
    columns = []
    for p, labels in zip(map(on_host, P), map(list, classes), strict=True):
        if not all(label in (0, 1) for label in labels):
            raise ValueError(
                "Each output of the classifier must be an indicator of a label, got one with "
                f"classes {shown(labels)}. Calibrate outputs of several classes one by one."
            )
        both = class_probabilities(p, np.array(labels))
        columns.append(both[:, labels.index(1)] if 1 in labels else np.zeros_like(p[:, 0]))
    return np.column_stack(columns)

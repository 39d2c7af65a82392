"""Labels: integers, strings, booleans, or other objects that can be sorted, or indicators.

Integer labels are exact up to 2^53: NumPy converts mixtures of large integers to floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, column_or_1d

from skcalib._typing import Array, Bools, Indices
from skcalib._warnings import warn

from .arrays import (
    as_numpy,
    check_in_memory,
    check_needs_no_gradients,
    check_tensor,
    column_names,
    distinct_names,
    is_ragged,
    is_tensor,
    n_dimensions,
    on_host,
)

Labels = Array

# Integer labels below this number are counted instead of sorted.
MANY_LABELS = 1 << 16


# Number of labels that messages name.
SHOWN_LABELS = 5

# Advice if a function accepts one label per row.
SEVERAL_LABELS = (
    "Several labels per row are calibrated by MultiLabelCalibrator, and measured by functions of "
    "skcalib.metrics and ReliabilityDisplay with kind='multilabel'; all else takes one label at a "
    "time: y[:, j], with logits[:, [j]] or y_proba[:, j]."
)


def as_labels(y: Any, name: str = "y", *, warns: bool = False) -> Labels:
    """Convert labels to an array in one dimension.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        Labels.
    name : str
        Name of the argument, for messages.
    warns : bool
        Whether to warn of a column (n_samples, 1), as in a fit.

    Returns
    -------
    ndarray of shape (n_samples,)
        Labels. Objects become integers or booleans if all of them are.

    Raises
    ------
    ValueError
        If a label is missing, if labels cannot be sorted, or if a row has several labels.
    """
    # scikit-learn's search for data frames of many kinds would be slower than some fits.
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuU":
        return np.ascontiguousarray(y)
    if y is None:
        raise ValueError(f"This requires {name} to be passed, but the target {name} is None.")
    labels = exact(y.toarray() if issparse(y) else y, name)
    if labels.ndim > 1 and labels.shape[1:] != (1,):
        raise ValueError(
            f"{name} must have one dimension, a label per row, got shape {labels.shape}. "
            f"For one-hot labels pass {name}.argmax(axis=1), and for a label of each pixel "
            f"{name}.ravel(). {SEVERAL_LABELS}"
        )
    if labels.ndim > 1 and warns:
        warn(
            "A column-vector y was passed when a 1d array was expected, a label per row. Its "
            "entries are taken; pass y.ravel().",
            DataConversionWarning,
        )
    assert_all_finite(labels, input_name=name)
    flat: Labels = column_or_1d(labels)  # refuses complex labels and scalars
    return flat


def exact(values: Any, name: str) -> Labels:
    """Convert labels to an array without changing them, or raise a ValueError."""
    array = as_numpy(values, name)
    if isinstance(array, list | tuple):  # parts differ in length
        raise ValueError(
            f"{name} must hold one label per row, got a {type(values).__name__} of {len(values)} "
            f"parts of different lengths. Concatenate batches, as in np.concatenate({name})."
        )
    labels = np.asarray(array)
    if labels.ndim == 0:
        raise ValueError(
            f"{name} must be a list or an array of labels, got {values!s:.100}. Pass a list, also "
            "for one label."
        )
    # NumPy converts numbers and NaN in a list of strings to strings.
    became_text = labels.dtype.kind == "U" and labels.ndim == 1 and type(values) in (list, tuple)
    if became_text and not all(isinstance(value, str) for value in values):
        labels = np.array(values, dtype=object)
    if labels.dtype.kind in "OfmM" and (missing := are_missing(labels).ravel()).any():
        index = int(missing.argmax())
        value = labels.ravel().tolist()[index]
        content = "NaN" if isinstance(value, float) else repr(value)
        if name in ("classes", "labels", "order"):
            rule, remedy = "no label may be missing", "Leave it out, and its rows."
        else:
            noun = "group" if name.startswith("groups") else "label"
            rule, remedy = f"each row must have a {noun}", "Leave out rows without one."
        raise ValueError(
            f"Input {name} contains {content}: {rule}, got {content} at position {index}. {remedy}"
        )
    return _without_objects(labels, name) if labels.dtype.kind == "O" else labels


def _without_objects(labels: Labels, name: str) -> Labels:
    """Convert objects to integers or booleans if all are, or raise a ValueError for mixed types."""
    flat = labels.ravel().tolist()
    try:
        sorted(set(flat))
    except TypeError as error:
        raise ValueError(
            f"{name} must hold labels of one type that can be sorted, got {shown(flat)}: {error}. "
            f"Make them all strings, as in [str(label) for label in {name}]."
        ) from error
    plain = np.array(flat).reshape(labels.shape)
    return plain if plain.dtype.kind in "biu" else labels


def are_missing(x: Array) -> Bools:
    """Return which values in an array are None, NaN, NaT or pandas.NA."""
    if x.dtype.kind != "O":
        return np.not_equal(x, x)  # only NaN and NaT differ from themselves
    return np.frompyfunc(is_missing, 1, 1)(x).astype(bool)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 (NaN is not equal to itself)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def shown(labels: Any) -> str:
    """Write the first labels and the number of other labels as text, for messages."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    first = [v.item() if isinstance(v, np.generic) else v for v in values[:SHOWN_LABELS]]
    more = len(values) - len(first)
    return ", ".join(map(repr, first)) + (f", ... ({more:,} more)" if more else "")


def in_one_type(a: Labels, b: Labels) -> tuple[Labels, Labels]:
    """Convert numbers and text to objects, since NumPy would make the numbers text."""
    if (a.dtype.kind == "U") != (b.dtype.kind == "U"):
        return a.astype(object), b.astype(object)
    return a, b


def not_among(labels: Labels, classes: Labels) -> Labels:
    """Return the sorted distinct labels that are not among the classes."""
    class_set = set(classes.tolist())
    distinct = np.unique(labels)
    return distinct[[label not in class_set for label in distinct.tolist()]]


def distinct_labels(labels: Labels) -> Labels:
    """Return the sorted distinct labels."""
    are_integers = labels.dtype.kind in "iu" and labels.size
    if are_integers and labels.min() >= 0 and labels.max() < MANY_LABELS:
        # Counting is several times faster than sorting.
        counts = np.bincount(labels.astype(np.intp, copy=False))
        return np.flatnonzero(counts).astype(labels.dtype)
    present = np.unique(labels)
    if present.dtype.kind == "f" and (present != np.floor(present)).any():
        example = present[present != np.floor(present)][0]
        raise ValueError(
            f"Unknown label type: continuous. y must hold class labels, got {example:g}. Pass "
            "labels such as 0 and 1, not probabilities."
        )
    return present


def encode(labels: Labels, classes: Labels) -> Indices:
    """Return the indices (n,) of labels (n,) in ``classes`` (K,), -1 for other labels."""
    last = len(classes) - 1
    are_integers = labels.dtype.kind in "iu" and classes.dtype.kind in "iu" and labels.size
    inside = are_integers and labels.min() >= 0 and labels.max() <= last
    if inside and (classes == np.arange(last + 1)).all():
        return labels.astype(np.intp, copy=False)
    kinds = {labels.dtype.kind, classes.dtype.kind}
    none = np.full(len(labels), -1)
    if "U" in kinds and kinds & set("biuf"):  # NumPy would compare numbers as text
        return none
    order = np.argsort(classes)
    try:
        index = order[np.minimum(np.searchsorted(classes, labels, sorter=order), last)]
    except TypeError:  # labels of another type, such as dates and numbers
        return none
    return np.where(classes[index] == labels, index, -1)


def is_text(labels: Labels) -> bool:
    """Return whether some label is text: alphabetical order means nothing."""
    if labels.dtype.kind != "O":
        return labels.dtype.kind in "US"
    return any(isinstance(label, str | bytes) for label in labels.tolist())


# --------------------------------------------------------------------------------------
# Several labels per row as indicators: zeros and ones, one column per label.


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


def as_columns(x: Any, name: str, remedy: str) -> Any:
    """Return an array on the host with one column per label, or raise a ValueError.

    Data frames are unchanged. ``remedy`` is code for the message.
    """
    if is_tensor(x):
        check_needs_no_gradients(check_tensor(x, name), name)
    distinct_names(x, name)
    x = as_numpy(x, name)
    if is_ragged(x) or n_dimensions(x, name) > 2:
        content = "a list of arrays" if is_ragged(x) else f"shape {x.shape}"
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

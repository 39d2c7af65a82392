"""Labels: the distinct ones, the classes of the columns, and the index of each label among them.

Labels are integers of any size, strings, booleans, or other things that can be sorted. NumPy
compares signed with unsigned integers, and integers with floats, as floats, where many large
integers are equal. Here all are compared exactly.
"""

from __future__ import annotations

from numbers import Integral
from operator import ne
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d

from skcalib._engine.inputs import as_numpy
from skcalib._engine.memory import MemoryRows
from skcalib._typing import Array, Floats, Indices
from skcalib._warnings import warn

Labels = Array

# Integer labels that span no more than this are counted, others sorted.
MANY_LABELS = 1 << 16

# Every integer up to this size is a float64.
LARGEST_EXACT_FLOAT = 1 << 53

# Messages show no more labels than this.
SHOWN_LABELS = 5


def as_labels(y: Any, name: str = "y") -> Any:
    """Labels of rows as an array that holds each of them exactly.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 1)
        Labels. None and objects that are not arrays are returned unchanged; scikit-learn's
        checks raise for them.
    name : str
        What the user calls it.

    Returns
    -------
    ndarray of the shape of ``y``
        Integers that fit into 64 bits are integers, of whatever type they were.

    Raises
    ------
    ValueError
        If a label is missing, if labels cannot be sorted, or if there are several in a row.
    """
    labels = exact(y, name)
    if getattr(labels, "ndim", 1) < 2 or (labels.ndim == 2 and labels.shape[1] == 1):
        return labels
    if labels.ndim == 2 and _is_one_hot(labels):
        raise ValueError(
            f"{name} must hold one label per row, got a one-hot array of shape {labels.shape}. "
            f"Pass {name}.argmax(axis=1)."
        )
    several = ""
    if labels.ndim == 2 and labels.dtype.kind in "biuf" and np.isin(labels, [0, 1]).all():
        several = (
            " For several labels per row use MultiLabelCalibrator, and kind='multilabel' in "
            "measures and diagrams."
        )
    raise ValueError(
        f"{name} must have one dimension, a label per row, got shape {labels.shape}. Pass one "
        f"column of it, or {name}.ravel() if there is a row of logits for each entry.{several}"
    )


def in_one_dimension(labels: Any) -> Any:
    """Labels in one dimension, with a warning of what was a column."""
    if getattr(labels, "ndim", 1) == 1:
        return labels
    warn(
        "A column-vector y was passed when a 1d array was expected, a label per row. Its entries "
        "are taken; pass y.ravel().",
        DataConversionWarning,
    )
    return labels.ravel()


def flat(labels: Any) -> Any:
    """Labels (n,) or (n, 1) as an array (n,), without a warning; a ValueError for others."""
    # scikit-learn's function looks for data frames of many kinds, which takes longer than the rest.
    if type(labels) is np.ndarray and labels.ndim == 1 and labels.dtype.kind in "biufUO":
        return np.ascontiguousarray(labels)
    return column_or_1d(labels)


def _is_one_hot(labels: Labels) -> bool:
    if labels.dtype.kind not in "biuf":
        return False
    return bool(np.isin(labels, [0, 1]).all() and (labels.sum(axis=1) == 1).all())


def exact(values: Any, name: str) -> Any:
    """Labels as an array of any shape, each unchanged; a ValueError for invalid labels."""
    labels = values if values is None else np.asarray(as_numpy(values, name))
    if labels is None or labels.ndim == 0:
        return values
    if isinstance(values, list | tuple) and _changed(values, labels):
        labels = np.array(values, dtype=object)
    if labels.dtype.kind in "fmM":
        missing = np.isnan(labels) if labels.dtype.kind == "f" else np.isnat(labels)
        if missing.any():
            _refuse_missing(labels.ravel().tolist(), int(missing.argmax()), name)
    return _exact_objects(labels, name) if labels.dtype.kind == "O" else labels


def _changed(values: list[Any] | tuple[Any, ...], labels: Labels) -> bool:
    """Whether NumPy converted integers to floats, or other objects to strings."""
    if labels.ndim > 1:
        return False
    if labels.dtype.kind == "f":
        return all(isinstance(value, Integral) for value in values)
    return labels.dtype.kind == "U" and not all(isinstance(value, str) for value in values)


def _exact_objects(labels: Labels, name: str) -> Labels:
    """Objects as integers or booleans if they all are; a ValueError if they cannot be sorted."""
    flat = labels.ravel().tolist()
    try:
        distinct = set(flat)
    except TypeError as error:
        raise ValueError(f"{name} must hold labels, got {flat[0]!r}.") from error
    if any(map(_is_missing, distinct)):
        place = next(k for k, label in enumerate(flat) if _is_missing(label))
        _refuse_missing(flat, place, name)
    try:
        in_order = sorted(distinct)
    except TypeError as error:
        _refuse_types(flat, name, error)
    if all(isinstance(label, bool | np.bool_) for label in distinct):
        return labels.astype(bool)
    if all(isinstance(label, Integral) for label in distinct):
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= in_order[0] and in_order[-1] <= np.iinfo(dtype).max:
                return labels.astype(dtype)
    return labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(ne(label, label))  # as only NaN and NaT do
    except TypeError:  # pandas.NA is neither true nor false
        return True


def _refuse_missing(flat: list[Any], place: int, name: str) -> NoReturn:
    found = "NaN" if isinstance(flat[place], float) else repr(flat[place])
    raise ValueError(
        f"Input {name} contains {found}: each row must have a label, got {found} at position "
        f"{place}. Leave out rows without one."
    )


def _refuse_types(flat: list[Any], name: str, error: Exception) -> NoReturn:
    first = {type(label): label for label in reversed(flat)}
    found = " and ".join(f"{label!r} of type {kind.__name__}" for kind, label in first.items())
    raise ValueError(
        f"{name} must hold labels of one type that can be sorted, got {found}. Make them all "
        f"strings, as in [str(label) for label in {name}]."
    ) from error


def shown(labels: Any) -> str:
    """The first labels, and how many more there are, for messages."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    first = [v.item() if isinstance(v, np.generic) else v for v in values[:SHOWN_LABELS]]
    more = len(values) - len(first)
    return ", ".join(map(repr, first)) + (f", ... ({more:,} more)" if more else "")


def in_one_type(*arrays: Labels) -> list[Labels]:
    """The arrays in one type, which holds the labels of all of them exactly."""
    dtype = np.result_type(*arrays)
    kinds = {a.dtype.kind in "SU" for a in arrays if a.size}
    inexact = dtype.kind == "f" and any(map(_exceeds_floats, arrays))
    if inexact or len(kinds) > 1:  # or numbers would become strings
        dtype = np.dtype(object)
    return [a.astype(dtype, copy=False) for a in arrays]


def _exceeds_floats(labels: Labels) -> bool:
    if labels.dtype.kind not in "iu" or labels.size == 0:
        return False
    return max(int(labels.max()), -int(labels.min())) > LARGEST_EXACT_FLOAT


def union(a: Labels, b: Labels) -> Labels:
    """Sorted labels that are in either array."""
    return np.unique(np.concatenate(in_one_type(a, b)))


def not_among(labels: Labels, classes: Labels) -> Labels:
    """Sorted distinct labels that are none of the classes, in the type of the labels."""
    known = set(classes.tolist())
    distinct = np.unique(labels)
    return distinct[[label not in known for label in distinct.tolist()]]


def is_among(labels: Labels, classes: Labels) -> NDArray[np.bool_]:
    """Whether each label is one of the classes."""
    a, b = in_one_type(labels, classes)
    return np.isin(a, b)


def distinct_labels(labels: Labels, w: Floats | None) -> Labels:
    """Sorted distinct labels of the rows of positive weight."""
    if labels.dtype.kind in "iu":
        span = int(labels.max()) - int(labels.min()) + 1
        if span <= MANY_LABELS:  # counting is several times faster than sorting
            least, unsigned = labels.min(), f"u{labels.dtype.itemsize}"

            def count(y: Labels, w: Floats | None) -> Any:
                # A difference too large for a signed type is right when taken for unsigned.
                return np.bincount((y - least).astype(unsigned).astype(np.intp), w, span)

            return np.flatnonzero(MemoryRows(labels, w).sum(count)).astype(labels.dtype) + least
    present = np.unique(labels if w is None else labels[w > 0])
    if present.dtype.kind == "f" and (present != np.floor(present)).any():
        example = present[present != np.floor(present)][0]
        raise ValueError(
            f"Unknown label type: continuous. y must hold class labels, got {example:g}."
        )
    return present


def encode(labels: Labels, classes: Labels) -> Indices:
    """Index of each label in ``classes``; an arbitrary one for other labels."""
    last = len(classes) - 1
    # Old versions of numpy warn where strings are compared with numbers.
    are_integers = labels.dtype.kind in "iu" and classes.dtype.kind in "iu"
    if are_integers and np.array_equal(classes, np.arange(last + 1)):
        inside = labels.min() >= 0 and labels.max() <= last
        highest = min(last, np.iinfo(labels.dtype).max)
        return (labels if inside else np.clip(labels, 0, highest)).astype(np.intp, copy=False)
    labels, classes = in_one_type(labels, classes)
    order = np.argsort(classes)
    found = np.searchsorted(classes, labels, sorter=order)
    return order[np.minimum(found, last)]

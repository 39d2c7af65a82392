"""Labels, one or several per row, and the order of the columns that belong to them.

Labels are integers, strings, booleans, or other objects that can be sorted. Integers of any size
are distinct labels, except where NumPy converts them to floats, which are exact up to 2^53: in
lists with small integers and integers of 2^63 or more, and in comparisons with floats. Several
labels per row are an indicator, a matrix of zeros and ones with a column for each label.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, column_or_1d, get_tags

from skcalib._rows import (
    Array,
    ArrayLike,
    Bools,
    Indices,
    Rows,
    arrays,
    as_numpy,
    check_in_memory,
)
from skcalib._rows.inputs import column_names
from skcalib._validation.column_order import (
    agreement_below_chance,
    largest_columns,
    numeric_order,
    suspect_columns,
    without_shared_ends,
)
from skcalib._warnings import ColumnOrderWarning, MissingClassesWarning, warn

Labels = Array

# Upper bound of integer labels that are counted rather than sorted.
MANY_LABELS = 1 << 16

# Columns are compared with the labels of at most this many rows, and for at most this many classes:
# more rows add nothing, and the assignment of more classes takes a second.
COMPARED_ROWS, COMPARED_CLASSES = 20_000, 2000

# Number of labels in messages.
SHOWN_LABELS = 5

# For functions of one label per row.
SEVERAL_LABELS = (
    "Several labels per row are calibrated by MultiLabelCalibrator, and measured by functions of "
    "skcalib.metrics and ReliabilityDisplay with kind='multilabel'; all else takes one label at a "
    "time: y[:, j], with logits[:, [j]] or y_proba[:, j]."
)


def as_labels(y: Any, name: str = "y", *, warns: bool = False) -> Labels:
    """Labels of rows as an array in one dimension.

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
    # scikit-learn looks for data frames of many kinds, which takes longer than some fits.
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuU":
        return np.ascontiguousarray(y)
    if y is None:
        raise ValueError(f"This requires {name} to be passed, but the target {name} is None.")
    labels = exact(y.toarray() if issparse(y) else y, name)
    if labels.ndim > 1 and labels.shape[1:] != (1,):
        raise ValueError(
            f"{name} must have one dimension, a label per row, got shape {labels.shape}. Pass one "
            f"column of it; of one-hot labels {name}.argmax(axis=1); {name}.ravel() if there is a "
            f"row of logits for each entry. {SEVERAL_LABELS}"
        )
    if labels.ndim > 1 and warns:
        warn(
            "A column-vector y was passed when a 1d array was expected, a label per row. Its "
            "entries are taken; pass y.ravel().",
            DataConversionWarning,
        )
    assert_all_finite(labels, input_name=name)
    flat: Labels = column_or_1d(labels)
    return flat


def exact(values: Any, name: str) -> Labels:
    """Labels as an array of any shape, each unchanged; a ValueError for invalid labels."""
    array = as_numpy(values, name)
    if isinstance(array, list | tuple):  # parts of different lengths, which are no array
        raise ValueError(
            f"{name} must hold one label per row, got a {type(values).__name__} of {len(values)} "
            f"parts of different lengths. Concatenate batches, as in np.concatenate({name})."
        )
    labels = np.asarray(array)
    if labels.ndim == 0:
        raise ValueError(f"{name} must be a list or an array of labels, got {values!s:.100}.")
    # NumPy converts numbers and NaN in a list of strings to strings.
    became_text = labels.dtype.kind == "U" and labels.ndim == 1 and type(values) in (list, tuple)
    if became_text and not all(isinstance(value, str) for value in values):
        labels = np.array(values, dtype=object)
    if labels.dtype.kind == "O":
        return _exact_objects(labels, name)
    if labels.dtype.kind in "fmM" and (missing := are_missing(labels)).any():
        _refuse_missing(labels.ravel().tolist(), int(missing.argmax()), name)
    return labels


def _exact_objects(labels: Labels, name: str) -> Labels:
    """Labels as integers or booleans if all are; a ValueError for labels that cannot be sorted."""
    flat = labels.ravel().tolist()
    try:
        distinct = set(flat)
        if any(map(_is_missing, distinct)):
            _refuse_missing(flat, [_is_missing(label) for label in flat].index(True), name)
        sorted(distinct)
    except TypeError as error:
        raise ValueError(
            f"{name} must hold labels of one type that can be sorted, got {shown(flat)}: {error}. "
            f"Make them all strings, as in [str(label) for label in {name}]."
        ) from error
    plain = np.array(flat).reshape(labels.shape)
    return plain if plain.dtype.kind in "biu" else labels


def are_missing(x: Array) -> Bools:
    """Which values are None, NaN, NaT or pandas.NA, for an array of any shape."""
    if x.dtype.kind != "O":
        return np.not_equal(x, x)  # only NaN and NaT are not themselves
    return np.frompyfunc(_is_missing, 1, 1)(x).astype(bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 (NaN is not equal to itself)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def _refuse_missing(flat: list[Any], place: int, name: str) -> NoReturn:
    content = "NaN" if isinstance(flat[place], float) else repr(flat[place])
    raise ValueError(
        f"Input {name} contains {content}: each row must have a label, got {content} at position "
        f"{place}. Leave out rows without one."
    )


def shown(labels: Any) -> str:
    """Text of the first labels and of the number of other labels, for messages."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    first = [v.item() if isinstance(v, np.generic) else v for v in values[:SHOWN_LABELS]]
    more = len(values) - len(first)
    return ", ".join(map(repr, first)) + (f", ... ({more:,} more)" if more else "")


def in_one_type(a: Labels, b: Labels) -> tuple[Labels, Labels]:
    """Both arrays; as objects if NumPy would convert integers to floats, or numbers to strings."""
    kinds = {a.dtype.kind, b.dtype.kind}
    kind = np.result_type(a, b).kind
    if (kind == "f" and kind not in kinds) or (kind == "U" and len(kinds) > 1):
        return a.astype(object), b.astype(object)
    return a, b


def not_among(labels: Labels, classes: Labels) -> Labels:
    """Sorted distinct labels that are not among the classes."""
    known = set(classes.tolist())
    distinct = np.unique(labels)
    return distinct[[label not in known for label in distinct.tolist()]]


def distinct_labels(labels: Labels) -> Labels:
    """Sorted distinct labels."""
    are_integers = labels.dtype.kind in "iu" and labels.size
    if are_integers and labels.min() >= 0 and labels.max() < MANY_LABELS:
        # Counting is several times faster than sorting.
        counts = np.bincount(labels.astype(np.intp, copy=False))
        return np.flatnonzero(counts).astype(labels.dtype)
    present = np.unique(labels)
    if present.dtype.kind == "f" and (present != np.floor(present)).any():
        example = present[present != np.floor(present)][0]
        raise ValueError(
            f"Unknown label type: continuous. y must hold class labels, got {example:g}."
        )
    return present


def encode(labels: Labels, classes: Labels) -> Indices:
    """Index of each label in ``classes``; -1 for other labels."""
    last = len(classes) - 1
    are_integers = labels.dtype.kind in "iu" and classes.dtype.kind in "iu" and labels.size
    inside = are_integers and labels.min() >= 0 and labels.max() <= last
    if inside and (classes == np.arange(last + 1)).all():
        return labels.astype(np.intp, copy=False)
    labels, classes = in_one_type(labels, classes)
    order = np.argsort(classes)
    place = order[np.minimum(np.searchsorted(classes, labels, sorter=order), last)]
    return np.where(classes[place] == labels, place, -1)


def ordered_categories(y: Any) -> Labels | None:
    """Categories in their order, if ``y`` is an ordered column of pandas or polars."""
    columns = column_names(y)
    dtype = getattr(y[columns[0]] if len(columns) == 1 else y, "dtype", None)
    if getattr(dtype, "ordered", False):  # pandas
        return exact(dtype.categories, "categories")  # type: ignore[union-attr]
    if type(dtype).__name__ == "Enum" and hasattr(dtype, "categories"):  # polars
        return exact(dtype.categories.to_list(), "categories")  # type: ignore[union-attr]
    return None


def resolve_classes(
    present: Labels,
    n_columns: int,
    classes: ArrayLike | None,
    X: Any = None,
    *,
    categories: Labels | None = None,
    proba: bool = False,
) -> Labels:
    """Labels in the order of the columns.

    Parameters
    ----------
    present : ndarray
        Sorted distinct labels of the rows of positive weight.
    n_columns : int
        Width of the logits or probabilities; 1 stands for two classes.
    classes : array-like or None
        All labels in the order of the columns, if the user named them.
    X : array-like, optional
        Logits or probabilities: a data frame may have names of columns.
    categories : ndarray, optional
        Ordered categories of the labels, from :func:`ordered_categories`.
    proba : bool
        Whether ``X`` is ``y_proba`` of a measure, and ``classes`` are its ``labels``.

    Returns
    -------
    ndarray of shape (max(n_columns, 2),)
        ``classes`` if they are not None; else the ordered categories, all or those present, if
        they are as many as columns; else the labels that are present if they are as many; else the
        column numbers if the labels are integers among them, with a MissingClassesWarning.
    """
    name, n_classes = "labels" if proba else "classes", max(n_columns, 2)
    columns = f"{n_columns} column{'s' if n_columns > 1 else ' (which stands for two classes)'}"
    if not len(present):
        raise ValueError("sample_weight must not be all zero, got no row of positive weight.")
    if classes is not None:
        resolved = _check_classes(exact(classes, name), present, n_classes, columns, name)
    elif categories is not None and len(categories) == n_classes:
        resolved = categories
    elif len(present) == n_classes:
        resolved = present
        if categories is not None:
            resolved = categories[np.isin(categories, present)]
    elif present.dtype.kind == "b" and n_classes == 2:
        resolved = np.array([False, True])
    elif present.dtype.kind in "iuf" and present[0] >= 0 and present[-1] < n_classes:
        resolved = np.arange(n_classes)
        missing = not_among(resolved, present)
        hint = "Name" if proba else "Features and row numbers are no logits; name"
        warn(
            f"No row has label {shown(missing)}: the labels are taken as column numbers. {hint} "
            f"all labels in column order with {name}= to avoid this warning.",
            MissingClassesWarning,
            missing.tolist(),
            n_columns,
        )
    else:
        raise ValueError(
            f"There must be one column for each of the {len(present)} classes in y, got {columns}. "
            f"If y lacks some, name all in column order with {name}=; leave out rows with labels "
            f"that mean no class, such as -100 or 255. The labels are [{shown(present)}]."
        )
    if hasattr(X, "columns"):
        check_column_names(X, resolved, "y_proba" if proba else "X", param=name)
    return resolved


def event_index(classes: Labels, pos_label: Any, *, named: bool) -> int:
    """Return the index of the event, the class that one column of probabilities belongs to.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The labels.
    pos_label : label or None
        The label of the probabilities, if the user named it.
    named : bool
        Whether the order of the labels is a fact: because there is a column for each of them, the
        user named them, or they are ordered categories.

    Returns
    -------
    int
        The index of ``pos_label``, or 1: the second label, which is the larger of two numbers.

    Raises
    ------
    ValueError
        If ``pos_label`` is not one of the labels, or the event is not named and the labels are
        text, whose alphabetical order does not say which of them is the event.
    """
    if pos_label is not None:
        return position(pos_label, classes)
    if not named and is_text(classes):
        raise ValueError(
            f"pos_label is not specified: y_true holds the text labels [{shown(classes)}] and "
            "y_proba one column, the probabilities of one of them. Pass this label as pos_label=, "
            "or both labels as labels= with this label as the second, or one column per class."
        )
    return 1


def position(pos_label: Any, classes: Labels) -> int:
    """Return the index of the column of a class that the user named."""
    known = classes.tolist()
    if pos_label not in known:
        raise ValueError(f"pos_label must be one of [{shown(known)}], got {pos_label!r}.")
    return known.index(pos_label)


def columns_in_order(classes: Labels, order: ArrayLike | None) -> Indices:
    """Return the columns of ordered classes, from the lowest class to the highest.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The labels in the order of the columns, which says nothing about the order of the classes.
    order : array-like or None
        The labels from the lowest to the highest. Labels that are no class are left out.

    Returns
    -------
    ndarray of shape (n_classes,)
        Numbers of the columns. Without ``order``, numbers ascend, and two classes keep their order,
        which has no effect.

    Raises
    ------
    ValueError
        If ``order`` lacks a class, or is None and the classes are text.
    """
    if order is None:
        if len(classes) == 2:
            return np.arange(2)
        if is_text(classes):
            raise ValueError(
                f"order is not specified: the classes are text, [{shown(classes)}], whose "
                "alphabetical order means nothing. Pass all labels from the lowest to the highest "
                "as order=, or y as ordered categories."
            )
        return np.argsort(classes)
    ordered = exact(order, "order")
    if ordered.ndim > 1 or len(set(ordered.tolist())) < len(ordered):
        raise ValueError(
            "order must be a list of distinct labels, from the lowest to the highest, got "
            f"[{shown(ordered.ravel())}]."
        )
    lacking = not_among(classes, ordered)
    if len(lacking):
        raise ValueError(
            f"order must name all classes, from the lowest to the highest, got [{shown(ordered)}], "
            f"which lacks {shown(lacking)}."
        )
    return encode(ordered[encode(ordered, classes) >= 0], classes)


def is_text(labels: Labels) -> bool:
    """Return whether some label is text, whose alphabetical order means nothing."""
    if labels.dtype.kind != "O":
        return labels.dtype.kind in "US"
    return any(isinstance(label, str | bytes) for label in labels.tolist())


def _check_classes(
    classes: Labels, present: Labels, n_classes: int, columns: str, name: str
) -> Labels:
    """The classes that the user named; a ValueError unless each column has one of its own."""
    if classes.shape != (n_classes,) or len(set(classes.tolist())) < n_classes:
        raise ValueError(
            f"{name} must be a list of distinct labels, one for each column, got {classes.size} "
            f"labels and {columns}: [{shown(classes.ravel())}]."
        )
    unknown = not_among(present, classes)
    if len(unknown):
        raise ValueError(
            f"y must hold only labels named in {name}, got {shown(unknown[:1])}, which is not one "
            f"of [{shown(classes)}]."
        )
    return classes


def check_column_names(X: Any, classes: Labels, name: str = "X", *, param: str = "classes") -> None:
    """Raise a ValueError for a data frame with columns named by the labels in another order.

    Names may share a prefix and a suffix, as "logit_a" and "logit_b", or the first levels of a
    MultiIndex. Names without the labels are ignored, and so are the numbers 0, 1, 2, ... of data
    frames without names.
    """
    names = [
        "_".join(map(_as_name, name)) if isinstance(name, tuple) else name
        for name in column_names(X)
    ]
    if len(names) != len(classes) or not all(isinstance(n, str | Real) for n in names):
        return
    numbered = all(isinstance(n, Integral) for n in names) and names == list(range(len(names)))
    first = None if numbered else _first_moved(names, classes.tolist())
    if first is None:
        return
    raise ValueError(
        f"Columns of {name} must be in the order of the classes, got columns "
        f"{shown(names[first:])} for classes {shown(classes[first:])}"
        f"{f' from column {first} on' * bool(first)}. Reorder the columns, as in "
        f"{name}[classes], or name the labels in their order with {param}=."
    )


def _first_moved(names: list[Any], labels: list[Any]) -> int | None:
    """Place of the first name that differs if names are the labels in another order, else None."""
    names, labels = list(map(_as_name, names)), list(map(_as_name, labels))
    if set(names) != set(labels):
        names, labels = without_shared_ends(names), without_shared_ends(labels)
    if names == labels or set(names) != set(labels):
        return None
    pairs = enumerate(zip(names, labels, strict=True))
    return next(k for k, (name, label) in pairs if name != label)


def _as_name(label: Any) -> str:
    """Label as text; a whole float without its decimal point."""
    return str(int(label) if isinstance(label, float) and label.is_integer() else label)


def in_class_order(values: Any, classes: Labels, name: str) -> Any:
    """Return numbers of classes in their order, if they are a Series or a dict with names.

    Other values are returned unchanged. Raise a ValueError if a class has no name, or two names.
    """
    if not hasattr(values, "items") or np.ndim(values) > 1:
        return values
    pairs, labels = list(values.items()), classes.tolist()
    by_name = dict(pairs)
    if len(by_name) < len(pairs) or not all(label in by_name for label in labels):
        raise ValueError(
            f"{name} must name each class once, got the names {shown([key for key, _ in pairs])} "
            f"for the classes {shown(labels)}. Name the classes as in y or in classes=, or pass a "
            "list in their order."
        )
    return [by_name[label] for label in labels]


def check_column_order(rows: Rows, *, named: bool, name: str = "X", param: str = "classes") -> None:
    """Warn if labels or rows show that the columns may belong to other classes.

    Parameters
    ----------
    rows : Rows
        Logits or probabilities with class indices, and with the classes of the columns.
    named : bool
        Whether the user named the classes in the order of the columns. If not, labels of text with
        numbers and ordered categories have two plausible orders, and a warning is given unless the
        rows agree better with the chosen order.
    name, param : str
        Names of the columns and of the parameter that names the classes, for messages.
    """
    classes = rows.classes
    y = top = np.zeros(0, np.intp)
    if rows.is_local and len(classes) <= COMPARED_CLASSES:
        step = -(-rows.n_rows // COMPARED_ROWS)
        compared = rows.take(slice(None, None, step)) if step > 1 else rows
        y, top = compared.y, largest_columns(compared.X)
    message, certainty = "", "may"
    if not named:
        message = _ignored_label(classes) or _other_order(classes, y, top)
    columns = None if message else suspect_columns(y, top, len(classes))
    if columns is not None:
        certainty = "probably"
        moved = np.flatnonzero(columns != np.arange(len(classes)))
        k = moved[np.bincount(y, minlength=len(classes))[moved].argmax()]
        own, other = (np.mean(top[y == k] == column) for column in (k, columns[k]))
        message = (
            f"in rows of class {shown([classes[k]])} column {columns[k]} is the largest in "
            f"{other:.0%}, and its own column {k} in {own:.0%}; {len(moved)} columns seem to be "
            "exchanged."
        )
    elif not message and (shares := agreement_below_chance(y, top, len(classes))):
        certainty = "probably"
        message = (
            f"the column of the label is the largest in {shares[0]:.1%} of the rows, and would be "
            f"in {shares[1]:.1%} by chance."
        )
    if message:
        warn(
            f"Columns of {name} {certainty} belong to other classes: {message} Reorder the "
            f"columns, or name the labels in their order with {param}=.",
            ColumnOrderWarning,
            "columns",
        )


def _ignored_label(classes: Labels) -> str:
    """Message for integers that are column numbers except one, which may mark rows to ignore.

    Consecutive integers are not suspect, such as 1, 2, 3 or -1, 0, 1, nor are two labels, such as 0
    and 255 of black and white pixels, unless one is -100, which torch ignores.
    """
    if classes.dtype.kind not in "iu":
        return ""
    n, values = len(classes), classes.tolist()
    outside = [label for label in values if not 0 <= label < n]
    if len(outside) != 1 or max(values) - min(values) == n - 1 or (n == 2 and outside != [-100]):
        return ""
    (absent,) = set(range(n)) - set(values)
    return (
        f"all labels are column numbers except {outside[0]}, and no row has label {absent}. If "
        f"{outside[0]} marks rows without a class, leave these rows out."
    )


def _other_order(classes: Labels, y: Indices, top: Indices) -> str:
    """Message if the rows do not agree best with the order of the classes.

    Another plausible order is the sorted order, or for text the order of the numbers in it.
    """
    names = classes.tolist()
    other = sorted(names)
    if other == names and all(isinstance(name, str) for name in names):
        other = numeric_order(names)
    if other == names:
        return ""
    place = np.array([other.index(name) for name in names])
    agree, agree_other = np.count_nonzero(y == top), np.count_nonzero(place[y] == top)
    if agree > agree_other:
        return ""
    message = (
        f"they are taken in the order [{shown(names)}] but may be in the order [{shown(other)}]"
    )
    if not len(y):  # of Dask
        return f"{message}."
    return (
        f"{message}; {agree} of {len(y)} rows agree with the first order, {agree_other} with the "
        "second."
    )


def has_columns(y: Any) -> bool:
    """Whether labels are sparse, or have more than one column."""
    shape: tuple[int, ...] = getattr(as_numpy(y, "y"), "shape", ())
    return issparse(y) or (len(shape) == 2 and shape[1] > 1)


def takes_indicator(estimator: Any) -> bool:
    """Whether a classifier takes several labels per row, by its tags."""
    tags = get_tags(estimator)
    is_multilabel = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(tags.target_tags.multi_output or is_multilabel)


def as_indicator(y: Any, name: str = "y", *, unknown: Bools | None = None) -> Bools:
    """Indicator matrix (n, n_labels) as booleans; a ValueError for other labels.

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
        are_numbers = E.dtype.kind in "biufO"  # old versions of NumPy do not compare text
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


def names_of_labels(y: Any, n_labels: int) -> Array:
    """Names of the columns of a data frame of indicators, or column numbers."""
    names = column_names(y)
    return np.asarray(names) if names else np.arange(n_labels)


def check_labels_of_columns(X: Any, y: Any, name_X: str = "X", name_y: str = "y") -> None:
    """Raise a ValueError for data frames with the same columns in another order.

    Names may have another prefix and suffix in each data frame, as "a" and "logit_a".
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
    """Array on the host with one column for each label; a ValueError for two columns for each.

    Data frames are unchanged.
    """
    if arrays.is_tensor(x):
        arrays.check_needs_no_gradients(arrays.check_tensor(x, name), name)
    x = as_numpy(x, name)
    if isinstance(x, list | tuple) or getattr(x, "ndim", 2) > 2:
        content = f"shape {x.shape}" if hasattr(x, "shape") else "a list of arrays"
        raise ValueError(
            f"{name} must have two dimensions, one column for each label, got {content}. If it has "
            "the probabilities of absence and presence of each label, as MultiOutputClassifier "
            f"gives them, pass {remedy}."
        )
    return x


def of_outputs(P: Any, classes: Any) -> Any:
    """Return the probabilities of a classifier with a column for each class or label.

    Parameters
    ----------
    P : object
        Output of ``predict_proba``. Classifiers of several labels per row may return a list of
        arrays. Neural networks with one sigmoid return one column, the probability of the second
        of two classes.
    classes : array-like or list of array-likes
        Attribute ``classes_``: the label of each column, or of each column of the arrays in a list.

    Returns
    -------
    object
        Probabilities of shape (n_samples, n_classes) or (n_samples, n_labels).
    """
    if not isinstance(P, list):
        is_column = getattr(P, "ndim", 2) == 1 or getattr(P, "shape", (0, 0))[1:] == (1,)
        if not is_column or isinstance(classes, list) or len(classes) != 2:
            return P
        p = np.asarray(arrays.on_host(P)).reshape(-1)
        return np.stack([1 - p, p], axis=1)
    columns = []
    for p, known in zip(map(arrays.on_host, P), map(list, classes), strict=True):
        if not all(label in (0, 1) for label in known):
            raise ValueError(
                "Each output of the classifier must be an indicator of a label, got one with "
                f"classes {shown(known)}. Calibrate outputs of several classes one by one."
            )
        both = of_outputs(p, np.array(known))
        columns.append(both[:, known.index(1)] if 1 in known else np.zeros_like(p[:, 0]))
    return np.column_stack(columns)

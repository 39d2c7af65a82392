"""Labels, one or several per row: the distinct ones, and the column of each of them.

Labels are integers, strings, booleans, or other things that can be sorted. Integers of any size
are told apart, with two limits: NumPy makes floats, exact up to 2^53, of lists that hold small
integers and some of 2^63 or more, and of integers that it compares with floats. Several labels
per row are an indicator, a matrix of zeros and ones with a column for each label.
"""

from numbers import Integral, Real
from operator import ne
from typing import Any, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, column_or_1d, get_tags

from skcalib._rows import Array, ArrayLike, Bools, Indices, arrays as xa, as_numpy, check_in_memory
from skcalib._warnings import MissingClassesWarning, warn

Labels = Array

# Integer labels from 0 to less than this are counted, others sorted.
MANY_LABELS = 1 << 16

# Messages show no more labels than this.
SHOWN_LABELS = 5

# Wherever several labels per row are given and one is taken.
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
        What the user calls it.
    warns : bool
        Whether a column (n_samples, 1) leads to a warning, as in a fit.

    Returns
    -------
    ndarray of shape (n_samples,)
        Objects that are all integers or booleans are in a type of these.

    Raises
    ------
    ValueError
        If a label is missing, if labels cannot be sorted, or if there are several in a row.
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
    labels = np.asarray(as_numpy(values, name))
    # NumPy makes strings of numbers, and of NaN, among strings.
    became_text = labels.dtype.kind == "U" and labels.ndim == 1 and type(values) in (list, tuple)
    if became_text and not all(isinstance(value, str) for value in values):
        labels = np.array(values, dtype=object)
    if labels.dtype.kind == "O":
        return _exact_objects(labels, name)
    if labels.dtype.kind in "fmM":
        missing = labels != labels  # noqa: PLR0124 - only NaN and NaT are not themselves
        if missing.any():
            _refuse_missing(labels.ravel().tolist(), int(missing.argmax()), name)
    return labels


def _exact_objects(labels: Labels, name: str) -> Labels:
    """Objects as integers or booleans if they all are; a ValueError if they cannot be sorted."""
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


def shown(labels: Any) -> str:
    """The first labels, and how many more there are, for messages."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    first = [v.item() if isinstance(v, np.generic) else v for v in values[:SHOWN_LABELS]]
    more = len(values) - len(first)
    return ", ".join(map(repr, first)) + (f", ... ({more:,} more)" if more else "")


def in_one_type(a: Labels, b: Labels) -> tuple[Labels, Labels]:
    """Both arrays, as objects where NumPy would make integers floats, or numbers strings."""
    kinds = {a.dtype.kind, b.dtype.kind}
    kind = np.result_type(a, b).kind
    if (kind == "f" and kind not in kinds) or (kind == "U" and len(kinds) > 1):
        return a.astype(object), b.astype(object)
    return a, b


def not_among(labels: Labels, classes: Labels) -> Labels:
    """Sorted distinct labels that are none of the classes, in the type of the labels."""
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


def resolve_classes(
    present: Labels,
    n_columns: int,
    classes: ArrayLike | None,
    X: Any = None,
    *,
    proba: bool = False,
) -> Labels:
    """Labels in the order of the columns.

    Parameters
    ----------
    present : ndarray
        The distinct labels of the rows of positive weight, sorted.
    n_columns : int
        Width of the logits or probabilities; 1 stands for two classes.
    classes : array-like or None
        All labels in the order of the columns, if the user named them.
    X : array-like, optional
        What has the columns: a data frame may name them.
    proba : bool
        Whether ``X`` is ``y_proba`` of a measure, and ``classes`` are its ``labels``.

    Returns
    -------
    ndarray of shape (max(n_columns, 2),)
        ``classes`` if given, else the labels that are present if they are as many, else the
        column numbers if the labels are integers among them, with a MissingClassesWarning.
    """
    name, n_classes = "labels" if proba else "classes", max(n_columns, 2)
    columns = f"{n_columns} column{'s' if n_columns > 1 else ' (which stands for two classes)'}"
    if not len(present):
        raise ValueError("sample_weight must not be all zero, got no row of positive weight.")
    if classes is not None:
        found = _check_classes(exact(classes, name), present, n_classes, columns, name)
    elif len(present) == n_classes:
        found = present
    elif present.dtype.kind == "b" and n_classes == 2:
        found = np.array([False, True])
    elif present.dtype.kind in "iuf" and present[0] >= 0 and present[-1] < n_classes:
        found = np.arange(n_classes)
        missing = not_among(found, present)
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
            "that mean no class, such as -100 or 255."
        )
    if hasattr(X, "columns"):
        check_column_names(X, found, "y_proba" if proba else "X", param=name)
    return found


def _check_classes(
    classes: Labels, present: Labels, n_classes: int, columns: str, name: str
) -> Labels:
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
    """Raise a ValueError for a data frame whose columns are the labels in another order.

    Names that are not the labels are ignored, and so are the numbers 0, 1, 2, ... of data frames
    without names.
    """
    names = list(getattr(X, "columns", ()))
    if len(names) != len(classes) or not all(isinstance(n, str | Real) for n in names):
        return
    found, wanted = list(map(_as_name, names)), list(map(_as_name, classes.tolist()))
    numbered = all(isinstance(n, Integral) for n in names) and names == list(range(len(names)))
    if numbered or found == wanted or set(found) != set(wanted):
        return
    first = next(k for k, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1])
    raise ValueError(
        f"Columns of {name} must be in the order of the classes, got columns "
        f"{shown(names[first:])} for classes {shown(classes[first:])}"
        f"{f' from column {first} on' * bool(first)}. Reorder the columns, as in "
        f"{name}[classes], or name the labels in their order with {param}=."
    )


def _as_name(label: Any) -> str:
    """As text; a whole number without the point of its type."""
    return str(int(label) if isinstance(label, float) and label.is_integer() else label)


def has_columns(y: Any) -> bool:
    """Whether labels are sparse, or have more than one column."""
    shape: tuple[int, ...] = getattr(as_numpy(y, "y"), "shape", ())
    return issparse(y) or (len(shape) == 2 and shape[1] > 1)


def takes_indicator(estimator: Any) -> bool:
    """Whether a classifier takes several labels per row, by its tags."""
    tags = get_tags(estimator)
    of_labels = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(tags.target_tags.multi_output or of_labels)


def as_indicator(y: Any, name: str = "y") -> Bools:
    """Which labels (n, n_labels) each row has; a ValueError for what is no indicator matrix."""
    if y is None:
        raise ValueError(f"This requires {name} to be passed, but the target {name} is None.")
    check_in_memory([y])
    E = y.toarray() if issparse(y) else as_numpy(y, name)
    got = f"shape {E.shape}" if hasattr(E, "shape") else f"a {type(E).__name__}"
    if len(getattr(E, "shape", ())) == 2:
        E = np.asarray(E)
        are_numbers = E.dtype.kind in "biufO"  # old versions of NumPy do not compare text
        valid = (E == 0) | (E == 1) if are_numbers else np.zeros(E.shape, bool)
        if valid.all():
            return E.astype(bool)
        got = repr(E[~valid].tolist()[0])
    raise ValueError(
        f"{name} must be an indicator matrix of shape (n_samples, n_labels), of zeros and ones "
        f"only, got {got}. Convert sets of labels by MultiLabelBinarizer().fit_transform({name}), "
        f"and scores as in {name} > 0.5; give labels that are unknown in some rows a weight of 0, "
        f"sample_weight=~np.isnan({name}). One label per row is for other calibrators, such as "
        "TemperatureScaling, and kinds of measures."
    )


def names_of_labels(y: Any, n_labels: int) -> Array:
    """Names of the columns of a data frame of indicators, or their numbers."""
    columns = getattr(y, "columns", None)
    return np.arange(n_labels) if columns is None else np.asarray(columns)


def check_labels_of_columns(X: Any, y: Any, name_X: str = "X", name_y: str = "y") -> None:
    """Raise a ValueError for data frames with the same columns in another order."""
    of_x, of_y = (list(getattr(frame, "columns", ())) for frame in (X, y))
    if of_x != of_y and len(of_x) == len(of_y) and set(of_x) == set(of_y):
        raise ValueError(
            f"Columns of {name_X} must be in the order of those of {name_y}, got columns "
            f"{shown(of_x)} and {shown(of_y)}. Reorder them, as in {name_X}[{name_y}.columns]."
        )


def as_columns(x: Any, name: str, remedy: str) -> Any:
    """An array, on the host, with one column for each label; a ValueError for one with two.

    Other objects, as data frames, are unchanged.
    """
    if xa.is_tensor(x):
        xa.check_needs_no_gradients(xa.check_tensor(x, name), name)
    x = as_numpy(x, name)
    if isinstance(x, list | tuple) or getattr(x, "ndim", 2) > 2:
        found = f"shape {x.shape}" if hasattr(x, "shape") else "a list of arrays"
        raise ValueError(
            f"{name} must have two dimensions, one column for each label, got {found}. If it has "
            "the probabilities of absence and presence of each label, as MultiOutputClassifier "
            f"gives them, pass {remedy}."
        )
    return x


def of_outputs(P: Any, classes: Any) -> Any:
    """Probabilities (n, n_labels) from those of a classifier, which may be a list over the labels.

    ``classes`` are its ``classes_``, which tell the label of the columns in a list.
    """
    if not isinstance(P, list):
        return P
    columns = []
    for p, known in zip(map(xa.on_host, P), map(list, classes), strict=True):
        if not all(label in (0, 1) for label in known):
            raise ValueError(
                "Each output of the classifier must be an indicator of a label, got one with "
                f"classes {shown(known)}. Calibrate outputs of several classes one by one."
            )
        columns.append(p[:, known.index(1)] if 1 in known else np.zeros_like(p[:, 0]))
    return np.column_stack(columns)

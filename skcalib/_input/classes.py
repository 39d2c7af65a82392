"""The class of each column, and the order of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._rows import Rows, arrays
from skcalib._typing import Array, ArrayLike, Floats, Indices
from skcalib._warnings import AbsentClassesWarning, MissingClassesWarning, warn

from .arrays import column_names
from .labels import SHOWN_LABELS, Labels, encode, exact, is_missing, is_text, not_among, shown

# Absent classes are reported if their uncalibrated probabilities sum to this number.
MIN_EXPECTED = 5.0


def ordered_categories(y: Any) -> Labels | None:
    """Return the ordered categories if ``y`` is an ordered pandas or polars column, else None."""
    if isinstance(y, np.ndarray):
        return None
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
    *,
    categories: Labels | None = None,
    proba: bool = False,
) -> Labels:
    """Return one label per column, in column order.

    Parameters
    ----------
    present : ndarray
        Sorted distinct labels in rows with positive weight.
    n_columns : int
        Number of logits or probabilities per row; 1 stands for two classes.
    classes : array-like or None
        All labels in column order, if the user named them.
    categories : ndarray, optional
        Ordered categories, from :func:`ordered_categories`.
    proba : bool
        Whether the columns are a measure's ``y_proba``, and ``classes`` are its ``labels``.

    Returns
    -------
    ndarray of shape (max(n_columns, 2),)
        ``classes`` if they are not None. Else the ordered categories, all or the present ones, if
        their number matches the columns. Else the present labels, if their number matches. Else
        column numbers, if they include all labels, with a MissingClassesWarning.
    """
    name, n_classes = "labels" if proba else "classes", max(n_columns, 2)
    columns = f"{n_columns} column{'s' if n_columns > 1 else ' (which stands for two classes)'}"
    if classes is not None:
        resolved = distinct(classes, name, n_classes, f" and {columns}")
        unknown = not_among(present, resolved)
        if len(unknown):
            raise ValueError(
                f"{'y_true' if proba else 'y'} must hold only labels named in {name}, got "
                f"{shown(unknown[:1])}, which is not one of [{shown(resolved)}]. Add the label to "
                f"{name}, or leave out its rows."
            )
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
    return resolved


def distinct(values: Any, name: str, n_labels: int | None = None, columns: str = "") -> Labels:
    """Convert labels that the user named to an array, or raise a ValueError unless they differ.

    With ``n_labels`` there is a label for each column, and ``columns`` is text for the message.
    Else labels are named from the lowest to the highest.
    """
    labels = exact(values, name)
    size = labels.size if n_labels is None else n_labels
    if labels.shape != (size,) or len(set(labels.tolist())) < size:
        which = "one for each column" if columns else "from the lowest to the highest"
        raise ValueError(
            f"{name} must be a list of distinct labels, {which}, got {labels.size} labels"
            f"{columns}: [{shown(labels.ravel())}]."
        )
    return labels


def warn_of_absent_classes(rows: Rows, present: Labels) -> None:
    """Warn of classes without rows if uncalibrated probabilities predict 5 rows or more."""
    if len(present) == len(rows.classes):
        return
    absent = np.flatnonzero(np.isin(rows.classes, not_among(rows.classes, present)))

    def sums(Z: Floats, y: Any, w: Floats | None) -> Floats:  # noqa: ARG001
        P = arrays.softmax(Z)[:, absent].astype(np.float64)
        return P.sum(axis=0) if w is None else w @ P

    expected = rows.sum(sums)
    frequent = np.flatnonzero(expected >= MIN_EXPECTED)
    if len(frequent):
        largest = frequent[np.argsort(-expected[frequent])][:SHOWN_LABELS]
        texts = [f"{shown(rows.classes[absent[[k]]])} in {expected[k]:.0f} rows" for k in largest]
        warn(
            f"Of {rows.weight:.0f} rows none has these classes, which several rows should have by "
            f"their uncalibrated probabilities: {', '.join(texts)}. It is unknown how to calibrate "
            "them. Pass rows of all classes, or use TemperatureScaling, which has no parameter for "
            "a single class.",
            AbsentClassesWarning,
            "absent classes",
        )


def position(pos_label: Any, classes: Labels) -> int:
    """Return the column index for a class that the user named."""
    labels = classes.tolist()
    if np.ndim(pos_label) or is_missing(pos_label) or pos_label not in labels:
        raise ValueError(f"pos_label must be one of [{shown(labels)}], got {pos_label!r}.")
    return labels.index(pos_label)


def columns_in_order(classes: Labels, order: ArrayLike | None) -> Indices:
    """Return column numbers from the lowest to the highest class.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The labels in column order, which says nothing about the class order.
    order : array-like or None
        The labels from the lowest to the highest. Labels without a column are left out.

    Returns
    -------
    ndarray of shape (n_classes,)
        Column numbers. Without ``order``, number labels ascend, and two classes keep their order,
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
    ordered = distinct(order, "order")
    lacking = not_among(classes, ordered)
    if len(lacking):
        raise ValueError(
            f"order must name all classes, from the lowest to the highest, got [{shown(ordered)}], "
            f"which lacks {shown(lacking)}."
        )
    return encode(ordered[encode(ordered, classes) >= 0], classes)


def in_class_order(values: Any, classes: Labels, name: str) -> Any:
    """Sort one number per class by ``classes`` (K,), if a Series or a dict names the classes.

    Return other values unchanged. Raise a ValueError if a class has no name, or two names.
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


def with_unknown_classes(P: Floats, fitted_classes: Array, classes: Array) -> Floats:
    """Return probabilities (m, K) for ``classes`` (K,), 0 for classes that were not fitted.

    ``P`` (m, ...) has one column for each of ``fitted_classes``.
    """
    if np.array_equal(fitted_classes, classes):
        return P
    if not isinstance(P, np.ndarray):
        return P @ (np.asarray(fitted_classes)[:, None] == classes).astype(np.float64)
    out = np.zeros((len(P), len(classes)), P.dtype)
    out[:, encode(fitted_classes, classes)] = P
    return out

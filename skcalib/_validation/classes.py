"""Classes: which label each column of logits belongs to."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skcalib._warnings import warn

from .labels import Labels, exact, not_among, shown


def resolve_classes(
    present: Labels,
    n_columns: int,
    classes: ArrayLike | None,
    *,
    name: str = "classes",
    proper: bool = False,
) -> Labels:
    """Labels in the order of the columns.

    Parameters
    ----------
    present : ndarray
        The distinct labels that were seen, sorted.
    n_columns : int
        Width of the logits or probabilities; 1 stands for two classes.
    classes : array-like or None
        All labels in the order of the columns, if the user named them.
    name : str
        What the user calls ``classes``, for messages.
    proper : bool
        Whether rows are known to sum to one, as those of features do not.

    Returns
    -------
    ndarray of shape (max(n_columns, 2),)
        ``classes`` if given, else the labels that are present if they are as many, else the
        column numbers if the labels are integers among them, with a UserWarning.
    """
    n_classes = max(n_columns, 2)
    columns = f"{n_columns} column{'s' if n_columns > 1 else ' (which stands for two classes)'}"
    if classes is not None:
        return _check_classes(exact(classes, name), present, n_classes, columns, name)
    if len(present) == n_classes:
        return present
    if present.dtype.kind == "b" and n_classes == 2:
        return np.array([False, True])
    if _are_integers(present) and int(present[0]) >= 0 and int(present[-1]) < n_classes:
        return _column_numbers(present, n_classes, name, proper=proper)
    remedy = (
        f"If y lacks classes, name all labels in column order with {name}=."
        if len(present) < n_classes
        else "Check that there is one for each class, and leave out rows whose label, such as -100 "
        "or 255, says that they are to be ignored."
    )
    raise ValueError(
        f"There must be one column for each of the {len(present)} classes in y, got {columns}. "
        + remedy
    )


def _are_integers(labels: Labels) -> bool:
    if labels.dtype.kind == "O":
        return all(isinstance(label, Integral) for label in labels)
    return labels.dtype.kind in "iu"


def _column_numbers(present: Labels, n_classes: int, name: str, *, proper: bool) -> Labels:
    """The column numbers, with a warning of those that are not the label of any row.

    A split may lack some classes. Columns that are not classes, such as features or an index,
    all come after those that labels name, or before them.
    """
    numbers = np.arange(n_classes)
    missing = not_among(numbers, present)
    n_outside = int(present[0]) + n_classes - 1 - int(present[-1])
    if n_outside and n_outside >= len(missing) - n_outside and not proper:
        raise ValueError(
            f"X must have one column of logits for each class, got {n_classes} columns, and labels "
            f"[{shown(present)}], of which none stands for column {shown(missing)}. Check that X "
            "holds logits, no features and no index; if y lacks these classes, pass "
            f"{name}=range({n_classes})."
        )
    warn(
        f"No row has label {shown(missing)}: the labels are taken as column numbers 0 to "
        f"{n_classes - 1}. Name all labels in column order with {name}= to avoid this warning."
    )
    return numbers


def _check_classes(
    classes: Labels, present: Labels, n_classes: int, columns: str, name: str
) -> Labels:
    if np.ndim(classes) != 1:
        found = f"{type(classes).__name__} of shape {np.shape(classes)}"
        raise ValueError(f"{name} must be a list of distinct labels, got {found}.")
    if len(set(classes.tolist())) != len(classes):
        raise ValueError(f"{name} must be a list of distinct labels, got [{shown(classes)}].")
    if len(classes) != n_classes:
        raise ValueError(
            f"{name} must name one label for each column, got {len(classes)} labels and {columns}."
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

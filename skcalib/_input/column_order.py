"""Evidence that columns and classes differ in order: from names, text, numbers and rows.

Wrong columns are the most harmful mistake, and no shape reveals them.
"""

from __future__ import annotations

import re
from numbers import Real
from os.path import commonprefix
from typing import Any

import numpy as np

from skcalib._rows import Rows
from skcalib._typing import Array, Floats, Indices
from skcalib._warnings import ColumnOrderWarning, warn

from .arrays import column_names
from .labels import Labels, exact, shown

# Columns are compared with the labels of this many rows, or this many rows per class, and for at
# most this many classes: more rows add nothing, and the assignment of more classes takes a second.
COMPARED_ROWS, COMPARED_PER_CLASS, COMPARED_CLASSES = 10_000, 20, 2000

# Thresholds in standard deviations. Exchanged classes must agree this far below chance with their
# own columns, and this far above chance with the other columns. The first is smaller, since among
# 100 classes chance is low.
MIN_BELOW, MIN_ABOVE = 2.0, 4.0

# How far below chance all rows must agree if no columns are suspect, in standard deviations.
MIN_BELOW_IN_ALL = 5.0


# --------------------------------------------------------------------------------------
# Names of columns.


def check_column_names(X: Any, classes: Labels, name: str = "X", *, param: str = "classes") -> None:
    """Raise a ValueError if a data frame's columns are named by the labels in another order.

    Names may share a prefix and a suffix, as "logit_a" and "logit_b", or the first levels of a
    MultiIndex. Names without labels are ignored, and so are default names 0, 1, 2, ...
    """
    columns = column_names(X)
    are_names = all(isinstance(column, str | Real | tuple) for column in columns)
    first = _first_moved(columns, classes.tolist())
    if first is None or not are_names or columns == [*range(len(columns))]:
        return
    raise ValueError(
        f"Columns of {name} must be in the order of the classes, got columns "
        f"{shown(columns[first:])} for classes {shown(classes[first:])}"
        f"{f' from column {first} on' if first else ''}. Reorder the columns, as in "
        f"{name}[classes], or name the labels in their order with {param}=."
    )


def check_label_order(X: Any, y: Any, name_X: str = "X", name_y: str = "y") -> None:
    """Raise a ValueError if two data frames have the same columns in another order.

    Prefixes and suffixes may differ between the data frames, as in "a" and "logit_a".
    """
    columns, labels = column_names(X), column_names(y)
    if _first_moved(columns, labels) is not None:
        raise ValueError(
            f"Columns of {name_X} must be in the order of the columns of {name_y}, got "
            f"{shown(columns)} and {shown(labels)}. Reorder the columns, as in "
            f"{name_X}[{name_y}.columns]."
        )


def _first_moved(columns: list[Any], labels: list[Any]) -> int | None:
    """Return the index of the first moved column if columns are labels in another order."""
    if len(columns) != len(labels):
        return None
    names, targets = list(map(_as_name, columns)), list(map(_as_name, labels))
    if set(names) != set(targets):
        names, targets = without_shared_ends(names), without_shared_ends(targets)
    pairs = enumerate(zip(names, targets, strict=True))
    first = next((k for k, (column, label) in pairs if column != label), None)
    return first if set(names) == set(targets) else None


def without_shared_ends(names: list[str]) -> list[str]:
    """Cut the common prefix and suffix from names, as "a" and "b" from "p(a)" and "p(b)"."""
    start = len(commonprefix(names))  # noqa: RUF071 (text, not paths)
    names = [name[start:] for name in names]
    end = len(commonprefix([name[::-1] for name in names]))  # noqa: RUF071
    return [name[: len(name) - end] for name in names]


def _as_name(label: Any) -> str:
    """Write a label as text, a whole float without its decimal point, and levels in one text."""
    if isinstance(label, tuple):
        return "_".join(map(_as_name, label))
    return str(int(label) if isinstance(label, float) and label.is_integer() else label)


# --------------------------------------------------------------------------------------
# Labels and rows.


def natural_order(names: list[str]) -> list[str]:
    """Sort names, and the numbers in them by size: "class 2" before "class 10"."""
    try:
        return sorted(names, key=float)
    except ValueError:
        pass
    parts = {name: re.split(r"(\d+)", name) for name in names}  # text and digits alternate
    return sorted(names, key=lambda name: [int(t) if t.isdigit() else t for t in parts[name]])


def largest_columns(X: Floats) -> Indices:
    """Return the columns (n,) with the largest values; log-odds (n, 1) stand for two columns."""
    if X.ndim == 1:
        return (X > 0.5).astype(np.intp)
    if X.shape[1] > 2:
        return X.argmax(axis=1)
    # Several times faster than argmax.
    return (X[:, -1] > (X[:, 0] if X.shape[1] == 2 else 0)).astype(np.intp)


def exchanged_columns(table: Indices) -> Indices:
    """Return the columns per class that agree best with the rows, where the evidence is strong.

    In each class some column is most often the largest. The rows test each cycle of classes that
    have exchanged these columns.

    Parameters
    ----------
    table : ndarray of shape (n_classes, n_classes)
        Numbers of rows by class and largest column.

    Returns
    -------
    ndarray of shape (n_classes,)
        Another column only if the classes in a cycle agree with their columns 2 standard deviations
        below chance, and with the exchanged columns 4 standard deviations above chance.
    """
    columns = np.arange(len(table))
    # Counts are whole, and this adds less than one: ties keep the present order.
    favorite = (table + np.eye(len(table)) / 2).argmax(axis=1)
    moved = columns
    while len(on_cycles := np.unique(favorite[moved])) < len(moved):
        moved = on_cycles
    remaining = set(moved[favorite[moved] != moved].tolist())
    while remaining:
        cycle = [remaining.pop()]
        while (column := int(favorite[cycle[-1]])) != cycle[0]:
            cycle.append(column)
        remaining -= set(cycle)
        part, present = table[np.ix_(cycle, cycle)], np.arange(len(cycle))
        below, above = -_excess(part, present), _excess(part, np.roll(present, -1))
        if below > MIN_BELOW and above > MIN_ABOVE:
            columns[cycle] = favorite[cycle]
    return columns


def _excess(table: Array, columns: Indices) -> float:
    """Return counts in chosen columns minus chance, in standard deviations.

    ``table`` are counts (K, K), ``columns`` are (K,). Chance permutes the labels, so a bias towards
    a class has no excess. One is added to the variance, so that a few rows are not significant.
    """
    n, r, c = table.sum(), table.sum(axis=1), table.sum(axis=0)[columns]
    expected = r * c / max(n, 1)
    single = (expected * (n - r) * (n - c)).sum() / max(n, 1)
    pairs = expected.sum() ** 2 - (expected**2).sum()
    variance = (single + pairs) / max(n - 1, 1)
    excess = table[np.arange(len(table)), columns].sum() - expected.sum()
    return float(excess / np.sqrt(variance + 1))


def check_column_order(rows: Rows, *, named: bool, name: str = "X", param: str = "classes") -> None:
    """Warn if labels or rows show that the columns may belong to other classes.

    Parameters
    ----------
    rows : Rows
        Logits or probabilities with class indices, and with column classes.
    named : bool
        Whether the user named the classes in column order. If not, text labels with numbers and
        ordered categories have two plausible orders. Warn unless the rows agree better with the
        chosen order.
    name, param : str
        Names for the columns and for the parameter with the classes, for messages.
    """
    classes, n_classes = rows.classes, len(rows.classes)
    y = top = np.zeros(0, np.intp)
    if rows.is_local and n_classes <= COMPARED_CLASSES:
        step = -(-rows.n_rows // max(COMPARED_ROWS, COMPARED_PER_CLASS * n_classes))
        rows = rows.take(slice(None, None, step)) if step > 1 else rows
        y, top = rows.y, largest_columns(rows.X)
    message = ""
    if not named and rows.order is None and classes.dtype.kind in "iu":  # sorted numbers
        message = _ignored_label(classes)
    elif not named:
        message = _other_order(classes, y, top, rows.order)
    if not message and len(y):
        table = np.bincount(y * n_classes + top, minlength=n_classes**2)
        table = table.reshape(n_classes, n_classes)
        by_chance = table.sum(axis=0) * table.sum(axis=1) / len(y)
        if (table.diagonal() >= by_chance).all():
            return  # each class agrees with its column as often as by chance: most fits end here
        if rows.n_columns == 1:
            _check_event(rows, table, name, param)
        else:
            message = _disagreement(classes, table)
    if message:
        is_single = name == "y_proba" and n_classes == 2
        single = f" For a single column pass 1 - {name}." if is_single else ""
        warn(
            f"Columns of {name} may belong to other classes: {message} Reorder the columns, or "
            f"name the labels in their order with {param}=.{single}",
            ColumnOrderWarning,
            "columns",
        )


def _ignored_label(classes: Labels) -> str:
    """Return a message if one of the sorted integers is no column number: it may mark other rows.

    Consecutive integers are not suspect, such as 1, 2, 3 or -1, 0, 1. Two labels are not suspect,
    such as 0 and 255 for black and white pixels, unless one is -100, which torch ignores.
    """
    n, labels = len(classes), classes.tolist()  # differences of small integers may overflow
    if labels[-1] - labels[0] == n - 1:
        return ""
    outside = [label for label in labels if not 0 <= label < n]
    if len(outside) != 1 or (n == 2 and outside != [-100]):
        return ""
    (absent,) = set(range(n)) - set(labels)
    return (
        f"all labels are column numbers except {outside[0]}, and no row has label {absent}. If "
        f"{outside[0]} marks rows without a class, leave these rows out."
    )


def _disagreement(classes: Labels, table: Indices) -> str:
    """Return a message if the rows agree best with another column order, else "".

    ``table`` are numbers of rows (K, K) by class and largest column.
    """
    agree, in_class, n_rows = table.diagonal(), table.sum(axis=1), table.sum()
    columns, present = exchanged_columns(table), np.arange(len(classes))
    moved = np.flatnonzero(columns != present)
    if len(moved):
        k = moved[in_class[moved].argmax()]
        return (
            f"in rows of class {shown([classes[k]])} column {columns[k]} is the largest in "
            f"{table[k, columns[k]] / in_class[k]:.0%}, and its own column {k} in "
            f"{agree[k] / in_class[k]:.0%}; {len(moved)} columns seem to be exchanged."
        )
    if _excess(table, present) < -MIN_BELOW_IN_ALL:
        # This finds columns in another order also if a class is never predicted.
        return (
            f"the column of the label is the largest in {agree.sum() / n_rows:.1%} of the "
            f"rows, and would be in {in_class @ table.sum(axis=0) / n_rows**2:.1%} by chance."
        )
    return ""


def _check_event(rows: Rows, table: Indices, name: str, param: str) -> None:
    """Warn if a single column of probabilities or log-odds seems to be of the other label.

    ``table`` are numbers of rows (2, 2) by class and sign of the log-odds.
    """
    if exchanged_columns(table)[0] == 0:
        return
    other, event = (float(np.mean(rows.X[rows.y == k])) for k in (0, 1))
    what, reverse = ("probability", f"1 - {name}") if rows.X.ndim == 1 else ("log-odds", f"-{name}")
    event_name = (
        "name the event with pos_label=" if param == "labels" else "name both labels in classes="
    )
    warn(
        f"{name} probably holds the {what} of the label {shown([rows.classes[0]])} instead of "
        f"{shown([rows.classes[1]])}: the means are {other:.2f} and {event:.2f} in rows with these "
        f"labels. Pass {reverse}, or {event_name}.",
        ColumnOrderWarning,
        "columns",
    )


def _other_order(classes: Labels, y: Indices, top: Indices, order: Any = None) -> str:
    """Return a message if rows agree better with another plausible order of the columns, else "".

    Class indices ``y`` and largest columns ``top`` are (n,). Plausible are the sorted order, for
    text the natural order, and ``order``. With ``order`` more rows must agree.
    """
    names = classes.tolist()
    other, agrees = sorted(names), np.count_nonzero(y == top)
    may_be_text = classes.dtype.kind in "OU"
    if other == names and may_be_text and all(isinstance(name, str) for name in names):
        other = natural_order(names)
    if other == names and order is not None:
        other = [label for label in exact(order, "order").tolist() if label in names]
        agrees += 1
    if other == names or len(other) != len(names):
        return ""
    ranks = np.array([other.index(name) for name in names])
    if agrees > np.count_nonzero(ranks[y] == top):
        return ""
    return f"they are taken in the order [{shown(names)}] but may be in the order [{shown(other)}]."

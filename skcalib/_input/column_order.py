"""Evidence that columns and classes differ in order: from names, text and rows.

Wrong columns are the most harmful mistake, and no shape reveals them.
"""

from __future__ import annotations

import re
from os.path import commonprefix

import numpy as np

from skcalib._typing import Array, Floats, Indices

# Thresholds in standard deviations. Exchanged classes must agree this far below chance with their
# own columns, and this far above chance with the other columns. The first is smaller, since among
# 100 classes chance is low.
MIN_BELOW, MIN_ABOVE = 2.0, 4.0

# How far below chance all rows must agree if no columns are suspect, in standard deviations.
MIN_BELOW_IN_ALL = 5.0


def without_shared_ends(names: list[str]) -> list[str]:
    """Cut the common prefix and suffix from names, as "a" and "b" from "p(a)" and "p(b)"."""
    start = len(commonprefix(names))  # noqa: RUF071 (text, not paths)
    names = [name[start:] for name in names]
    end = len(commonprefix([name[::-1] for name in names]))  # noqa: RUF071
    return [name[: len(name) - end] for name in names]


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


def agree_more_than_chance(y: Indices, top: Indices, n_classes: int) -> bool:
    """Return whether the rows in each class agree with their column at least as often as by chance.

    ``y`` are class indices, and ``top`` the columns with the largest logits, both (n,).
    """
    in_class, in_column = np.bincount(y, minlength=n_classes), np.bincount(top, minlength=n_classes)
    agree = np.bincount(y[y == top], minlength=n_classes)
    return bool((agree * len(y) >= in_class * in_column).all())


def suspect_columns(y: Indices, top: Indices, n_classes: int) -> Indices | None:
    """Return the columns per class if the rows agree best with another order, else None.

    In each class some column is most often the largest. The rows test each cycle of classes that
    have exchanged these columns.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Class indices.
    top : ndarray of shape (n_samples,)
        Columns with the largest logit.
    n_classes : int
        Number of classes and columns.

    Returns
    -------
    ndarray of shape (n_classes,) or None
        None unless the classes in a cycle agree with their columns 2 standard deviations below
        chance, and with the exchanged columns 4 standard deviations above chance.
    """
    table = np.bincount(y * n_classes + top, minlength=n_classes**2).reshape(n_classes, n_classes)
    # Counts are whole, and this adds less than one: ties keep the present order.
    favorite = (table + np.eye(n_classes) / 2).argmax(axis=1)
    moved = np.arange(n_classes)
    while len(on_cycles := np.unique(favorite[moved])) < len(moved):
        moved = on_cycles
    remaining = set(moved[favorite[moved] != moved].tolist())
    columns = np.arange(n_classes)
    while remaining:
        cycle = [remaining.pop()]
        while (column := int(favorite[cycle[-1]])) != cycle[0]:
            cycle.append(column)
        remaining -= set(cycle)
        part, present = table[np.ix_(cycle, cycle)], np.arange(len(cycle))
        below, above = -_excess(part, present), _excess(part, np.roll(present, -1))
        if below > MIN_BELOW and above > MIN_ABOVE:
            columns[cycle] = favorite[cycle]
    return columns if (columns != np.arange(n_classes)).any() else None


def agreement_below_chance(y: Indices, top: Indices, n_classes: int) -> tuple[float, float] | None:
    """Return the share of rows that agree with their labels, and the share by chance.

    Return None unless the shares differ by 5 standard deviations. This finds columns in another
    order also if a class has rows but is never predicted.
    """
    agreeing = np.count_nonzero(y == top) / max(len(y), 1)
    pairs = np.bincount(y, minlength=n_classes) @ np.bincount(top, minlength=n_classes)
    chance = float(pairs) / max(len(y), 1) ** 2
    if agreeing >= chance:
        return None
    table = np.bincount(y * n_classes + top, minlength=n_classes**2).reshape(n_classes, n_classes)
    if _excess(table, np.arange(n_classes)) > -MIN_BELOW_IN_ALL:
        return None
    return agreeing, chance


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

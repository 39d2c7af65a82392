"""Evidence that columns and classes differ in order: from names, text and rows.

Wrong columns are the most harmful mistake, and no shape reveals them.
"""

from __future__ import annotations

import re

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skcalib._typing import Array, Floats, Indices

# How far below chance classes must agree with their columns, and how far above chance with other
# columns, in standard deviations. The first is smaller, since among 100 classes chance is low.
MIN_BELOW, MIN_ABOVE = 2.0, 4.0

# How far below chance all rows must agree if no columns are suspect, in standard deviations.
MIN_BELOW_IN_ALL = 6.0

FEW_CLASSES, FEW_ROWS = 4, 5


def without_shared_ends(names: list[str]) -> list[str]:
    """Cut the common prefix and suffix from names, as "a" and "b" from "p(a)" and "p(b)"."""
    start = _shared_start(names)
    names = [name[start:] for name in names]
    end = _shared_start([name[::-1] for name in names])
    return [name[: len(name) - end] for name in names]


def _shared_start(names: list[str]) -> int:
    """Return the length of the common prefix."""
    letters = enumerate(zip(*names, strict=False))
    return next((k for k, ones in letters if len(set(ones)) > 1), min(map(len, names)))


def numeric_order(names: list[str]) -> list[str]:
    """Sort names by the numbers in them, unless a name lacks a number or letters differ.

    Alphabetical order would put "10" before "2", and "class 10" before "class 2".
    """
    are_integers = all(re.fullmatch(r"\s*[+-]?\d+\s*", name) for name in names)
    pattern = r"[+-]?\d+" if are_integers else r"\d+"
    numbers = {name: [int(n) for n in re.findall(pattern, name)] for name in names}
    letters = {re.sub(r"[\W\d_]", "", name) for name in names}
    if not all(numbers.values()) or len(letters) > 1:
        return names
    return sorted(names, key=lambda name: (numbers[name], name))


def largest_columns(X: Floats) -> Indices:
    """Return the columns (n,) with the largest values; log-odds (n, 1) stand for two columns."""
    if X.ndim == 1:
        return (X > 0.5).astype(np.intp)
    if X.shape[1] > 2:
        return X.argmax(axis=1)
    # Several times faster than argmax.
    return (X[:, -1] > (X[:, 0] if X.shape[1] == 2 else 0)).astype(np.intp)


def suspect_columns(y: Indices, top: Indices, n_classes: int) -> Indices | None:
    """Return the columns per class if the rows agree best with another order, else None.

    Every second row determines the best assignment of columns to classes, the other rows test it,
    separately for each cycle of exchanged columns. For up to four classes, all rows do both.

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
        chance, and with the assigned columns 4 standard deviations above chance. All classes in the
        cycle with 5 rows must agree more with the assigned column.
    """
    # Most fits end here, after a few microseconds.
    is_wrong = y != top
    in_class = np.bincount(y, minlength=n_classes)
    agree = in_class - np.bincount(y[is_wrong], minlength=n_classes)
    if (2 * agree > in_class).all():
        return None  # most rows agree, in all classes
    if (agree * len(y) >= in_class * np.bincount(top, minlength=n_classes)).all():
        return None  # all classes agree more than by chance
    cells = y * n_classes + top
    wrong = np.sort(cells[is_wrong])
    repeated = wrong[1:][wrong[1:] == wrong[:-1]] // n_classes
    if (np.bincount(repeated, minlength=n_classes) < np.maximum(agree, 1)).all():
        return None  # no class agrees more with another column
    # Shuffle, since labels may alternate.
    cells = np.random.default_rng(0).permutation(cells)
    # Among few assignments the best is seldom significant by chance, so all rows find and test it.
    halves = (cells, cells) if n_classes <= FEW_CLASSES else (cells[::2], cells[1::2])
    first, second = (
        np.bincount(half, minlength=n_classes**2).reshape(n_classes, n_classes) for half in halves
    )
    columns = np.arange(n_classes)
    # Frequent classes that agree best with their own columns are in no cycle that passes the test.
    may_move = second.max(axis=1) > second.diagonal()
    free = np.flatnonzero(may_move | (second.sum(axis=1) < FEW_ROWS))
    # Counts are whole, and this adds less than one: ties keep the present order.
    gains = first[np.ix_(free, free)] + np.eye(len(free)) / (n_classes + 1)
    assigned = columns.copy()
    assigned[free] = free[linear_sum_assignment(gains, maximize=True)[1]]
    exchanges = coo_array((np.ones(n_classes), (columns, assigned)))
    _, cycle_of = connected_components(exchanges)
    for number in np.flatnonzero(np.bincount(cycle_of) > 1):
        cycle = np.flatnonzero(cycle_of == number)
        table = second[np.ix_(cycle, cycle)]
        present, other = np.arange(len(cycle)), np.searchsorted(cycle, assigned[cycle])
        # A model that predicts one class too high has no rows in the column of the lowest class.
        frequent = second[cycle].sum(axis=1) >= FEW_ROWS
        if not (table[present, other] > table[present, present])[frequent].all():
            continue
        if -_excess(table, present) > MIN_BELOW and _excess(table, other) > MIN_ABOVE:
            columns[cycle] = assigned[cycle]
    return columns if (columns != np.arange(n_classes)).any() else None


def agreement_below_chance(y: Indices, top: Indices, n_classes: int) -> tuple[float, float] | None:
    """Return the share of rows that agree with their labels, and the share by chance.

    Return None unless the shares differ by 6 standard deviations. This finds columns in another
    order also if a class has rows but is never predicted.
    """
    in_class, in_column = (np.bincount(values, minlength=n_classes) for values in (y, top))
    chance = float(in_class @ in_column) / len(y) ** 2 if len(y) else 0.0
    agreeing = float(np.mean(y == top)) if chance else 0.0
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

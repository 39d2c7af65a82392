"""Feature columns with numbers or categories, and their levels.

A column of categories has a level for each frequent category. Rows with rare, new and missing
categories are in no level. A column of numbers has ten intervals with nearly equal numbers of rows
as levels, and a level for missing numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from skcalib._input.arrays import column_names, named_columns
from skcalib._input.labels import are_missing, encode, shown
from skcalib._typing import Array, Bools, Floats, Indices

# Smallest weight of a category with a level, and number of intervals for a column of numbers.
MIN_WEIGHT, N_INTERVALS = 5.0, 10


# Replacement for missing numbers in arrays without NaN, and the largest finite feature.
MISSING, LARGEST = -1e30, 1e29


class FeatureColumns(NamedTuple):
    """Names, levels and kinds of the feature columns in ``fit``."""

    names: list[str]  #: column names of a data frame, or "0", "1", ...
    levels: list[Array]  #: sorted categories of each column, or edges between its intervals
    is_categorical: Array  #: (d,)

    @property
    def first(self) -> Indices:
        """Indices of the first levels in all columns, and the number of levels: (d + 1,)."""
        # Numbers have one more interval than edges, and a level for missing numbers.
        n_levels = [
            len(levels) + (0 if categorical else 2)
            for levels, categorical in zip(self.levels, self.is_categorical, strict=True)
        ]
        return np.cumsum([0, *n_levels])

    def level_names(self) -> list[str]:
        """Return the names of all levels, such as "subject = law" or "length in (12, 30]"."""
        level_names = []
        for name, levels, categorical in zip(*self, strict=True):
            if categorical:
                level_names += [f"{name} = {level}" for level in levels]
                continue
            # Write only as many digits as distinguish the edges.
            texts = ([f"{edge:.{digits}g}" for edge in levels] for digits in (4, 6, 9, 17))
            edges = next(text for text in texts if len(set(text)) == len(levels))
            inner = [f"{name} in ({a}, {b}]" for a, b in pairwise(edges)]
            intervals = [name]
            if edges:
                intervals = [f"{name} <= {edges[0]}", *inner, f"{name} > {edges[-1]}"]
            level_names += [*intervals, f"{name} missing"]
        return level_names

    def numbers(self, features: Any, n_rows: int) -> Floats:
        """Return the columns as numbers (n, d), with NaN for missing numbers.

        Categories become level numbers, or -1 without a level.
        """
        names, values = named_columns(features, n_rows)
        if set(names) == set(self.names):  # the columns of a data frame may be in another order
            values = [values[names.index(name)] for name in self.names]
        elif len(names) != len(self.names) or [*map(str, range(len(names)))] not in (
            names,
            self.names,
        ):
            raise ValueError(
                f"features must have the same columns as in fit, [{shown(self.names)}], got "
                f"[{shown(names)}]. Pass these columns."
            )
        columns = zip(names, values, self.levels, self.is_categorical, strict=True)
        return np.column_stack(
            [
                _level_numbers(name, x, levels) if categorical else _floats(name, x)
                for name, x, levels, categorical in columns
            ]
        )

    def level_rows(self, numbers: Floats) -> Indices:
        """Return levels (n, d) as rows of a table of effects; the last row is for no level."""
        table_rows = np.empty(numbers.shape, np.intp)
        *first, last = self.first
        for j, levels in enumerate(self.levels):
            x = numbers[:, j]
            if self.is_categorical[j]:
                table_rows[:, j] = np.where(x < 0, last, first[j] + x)
            else:
                interval = np.searchsorted(levels, x)
                table_rows[:, j] = first[j] + np.where(np.isnan(x), len(levels) + 1, interval)
        return table_rows

    def are_known(self, numbers: Floats) -> Bools:
        """Return which rows (n,) are in a level of at least one column."""
        in_level: Bools = (self.level_rows(numbers) < self.first[-1]).any(axis=1)
        return in_level

    def for_trees(self, numbers: Floats, intercepts: Floats) -> Floats:
        """Return columns as finite numbers, with ``intercepts`` (n_levels + 1, k) for categories.

        ``numbers`` are (n, d).
        """
        levels, parts = self.level_rows(numbers), []
        for j, categorical in enumerate(self.is_categorical):
            x = numbers[:, j, None]
            finite = np.where(np.isnan(x), MISSING, x)
            parts.append(intercepts[levels[:, j]] if categorical else finite)
        return np.column_stack(parts)


def fitted_columns(
    features: Any, n_rows: int, w: Floats | None, categorical: Any
) -> tuple[FeatureColumns, Floats]:
    """Find the feature columns, and return them with numbers (n, d) of rows with positive weight.

    ``w`` are weights (n_rows,) or None.
    """
    names, values = named_columns(features, n_rows)
    counts = slice(None) if w is None else w > 0
    is_categorical = _which_are_categorical(categorical, names, values, features)
    w = w if w is None else w[counts]
    levels = [
        _categories(name, x[counts], w) if categories else _edges(name, x[counts])
        for name, x, categories in zip(names, values, is_categorical, strict=True)
    ]
    columns = FeatureColumns(names, levels, is_categorical)
    return columns, columns.numbers(features, n_rows)[counts]


def _which_are_categorical(
    categorical: Any, names: list[str], values: list[Array], features: Any
) -> Array:
    """Return which columns (d,) contain categories, by their type or by the user's choice."""
    if isinstance(categorical, str) and categorical == "from_dtype":
        columns = [features[name] for name in column_names(features)] or [features] * len(names)
        pairs = zip(columns, values, strict=True)
        return np.array([_has_categories(c) or not _holds_numbers(x) for c, x in pairs])
    d = len(names)
    is_list = isinstance(categorical, Sequence | np.ndarray) and not isinstance(categorical, str)
    chosen = [names.index(c) if c in names else c for c in categorical] if is_list else []
    if not is_list or not all(isinstance(c, int | np.integer) and -d <= c < d for c in chosen):
        raise ValueError(
            "categorical_features must be 'from_dtype' or a list of column names or numbers, got "
            f"{categorical!r}. Choose among [{shown(names)}]."
        )
    is_categorical = np.zeros(d, bool)
    is_categorical[np.array(chosen, np.intp)] = True
    return is_categorical


def _has_categories(column: Any) -> bool:
    """Return whether the type of a column is categorical, as in pandas and polars."""
    dtype = str(getattr(column, "dtype", None) or getattr(column, "type", ""))
    is_dictionary = dtype.startswith("dictionary<")  # the categorical type of pyarrow
    return is_dictionary or dtype.partition("(")[0].lower() in {"category", "categorical", "enum"}


def _holds_numbers(x: Array) -> bool:
    """Return whether all values that are not missing are numbers."""
    if x.dtype.kind != "O":
        return x.dtype.kind in "biuf"
    present = x[~are_missing(x)]
    return len(present) > 0 and all(isinstance(value, Real) for value in present)


def _categories(name: str, x: Array, w: Floats | None) -> Array:
    """Return the sorted categories in a column ``x`` (n,) that have at least MIN_WEIGHT rows.

    ``w`` are weights (n,) or None.
    """
    present = ~are_missing(x)
    try:
        set(x[present].tolist())  # a TypeError if a cell is a list
        categories, number = np.unique(x[present], return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"Categories in column {name!r} of features must be text or numbers of one type, got "
            f"{shown(x[present])}. Make them strings, as in column.astype(str)."
        ) from error
    if len(categories) == len(x) > MIN_WEIGHT:
        raise ValueError(
            f"Columns of features must have rows in common for each category, got {len(x)} "
            f"categories in the {len(x)} rows of column {name!r}. Leave it out, or pass numbers."
        )
    weight = np.bincount(number, None if w is None else w[present], len(categories))
    frequent = categories[weight >= MIN_WEIGHT]
    is_object = frequent.dtype.kind == "O" and len(frequent) > 0
    return np.array(frequent.tolist()) if is_object else frequent


def _edges(name: str, x: Array) -> Floats:
    """Return the edges between the intervals of a column of numbers (n,)."""
    numbers = _floats(name, x)
    present = numbers[~np.isnan(numbers)]
    if not len(present):
        return np.zeros(0)
    shares = np.arange(1, N_INTERVALS) / N_INTERVALS
    return np.unique(np.quantile(present, shares, method="lower"))


def _level_numbers(name: str, x: Array, levels: Array) -> Floats:
    """Return the index (n,) in ``levels`` for each category in a column ``x`` (n,), or -1."""
    present = ~are_missing(x)
    numbers = np.full(len(x), -1.0)
    if len(levels) and present.any():
        labels = x[present]
        labels = np.array(labels.tolist()) if labels.dtype.kind == "O" else labels
        if (labels.dtype.kind in "biuf") != (levels.dtype.kind in "biuf"):
            raise ValueError(
                f"Categories in column {name!r} of features must have the same type as in fit, "
                f"such as {levels.tolist()[0]!r}, got {labels.tolist()[0]!r}. Convert them."
            )
        numbers[present] = encode(labels, levels)
    return numbers


def _floats(name: str, x: Array) -> Floats:
    """Return a column of numbers (n,) in float64, with NaN for missing numbers."""
    try:
        numbers: Floats = np.where(are_missing(x), np.nan, x).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} of features must hold numbers, as in fit, got {shown(x)}. Convert "
            "them, or name the column in categorical_features."
        ) from error
    largest = np.nanmax(np.abs(numbers), initial=0)
    if largest > LARGEST:
        raise ValueError(
            f"Numbers of column {name!r} of features must be finite, up to {LARGEST:g}, or "
            f"missing, got {largest:g}. Replace it by NaN."
        )
    return numbers

"""Features: columns by name, and selected rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skcalib._typing import Array, Indices

from .arrays import as_numpy, column_names
from .labels import shown


def named_columns(features: Any, n_rows: int) -> tuple[list[str], list[Array]]:
    """Return column names, or column numbers, and a list of columns (n,)."""
    if isinstance(features, Mapping):
        raise ValueError(
            f"features must be a data frame or an array, got {type(features).__name__}. Pass "
            "pandas.DataFrame(features)."
        )
    if columns := column_names(features):
        names = [str(name) for name in columns]
        if len(set(names)) < len(names):
            raise ValueError(f"Columns of features must have distinct names, got {shown(names)}.")
        values = [np.asarray(features[name]) for name in columns]
    else:
        # Convert lists of mixed rows to objects, so that numbers do not become text.
        is_list = isinstance(features, list | tuple) and len(features) > 0
        if is_list and np.ndim(features[0]) == 1:
            array = np.array(features, object)
        else:
            array = np.asarray(as_numpy(features, "features"))
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(
                "features must have a row for each row of X and a column for each feature, got an "
                f"array of shape {array.shape}. Pass a data frame, or an array in two dimensions."
            )
        values = list(array.T)
        names = numbered(values)
    if not values or len(values[0]) != n_rows:
        raise ValueError(
            f"features must have one row for each of the {n_rows} rows of X, got "
            f"{len(values[0]) if values else 'no columns'}. Pass features of the same rows, in the "
            "same order."
        )
    return names, values


def numbered(names: Sequence[Any]) -> list[str]:
    """Return column numbers as names: "0", "1", ..."""
    return [str(j) for j in range(len(names))]


def taken(features: Any, rows: Indices) -> Any:
    """Select rows by number from a data frame, an array or a list of features."""
    if isinstance(features, list | tuple):
        return [features[k] for k in rows]
    if hasattr(features, "column_names"):  # pyarrow
        return features.take(rows)
    return features.iloc[rows] if hasattr(features, "iloc") else features[rows]

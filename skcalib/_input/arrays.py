"""Convert input to arrays, except data frames and Dask collections, and select its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn import get_config

from skcalib._rows.arrays import is_foreign, library_of, namespace, to_library
from skcalib._typing import Array, Indices


def is_dask(x: Any) -> bool:
    """Return whether an object is a Dask collection."""
    return hasattr(x, "__dask_graph__")


def is_tensor(x: Any) -> bool:
    """Return whether an object is a tensor that stays in its library."""
    return is_foreign(x) and get_config()["array_api_dispatch"]


def check_tensor(x: Any, name: str) -> Any:
    """Return the tensor, or raise a ValueError if it is neither float32 nor float64."""
    xp = namespace(x)
    # Not a set: JAX types equal types with another hash.
    if x.dtype not in (xp.float32, xp.float64):
        raise ValueError(
            f"{name} must be float32 or float64 to stay in {library_of(xp)}, got {x.dtype}. "
            f"Convert it, as by {name}.to(torch.float32)."
        )
    return x


def check_needs_no_gradients(x: Any, name: str) -> None:
    """Raise a ValueError if a tensor records gradients, which would be lost."""
    if getattr(x, "requires_grad", False):
        raise ValueError(
            f"{name} must not need gradients here, got a tensor with requires_grad=True, and the "
            f"result would have none. Pass {name}.detach()."
        )


def as_kind_of(value: Array, x: Any) -> Any:
    """Convert numbers to the library of a tensor ``x``; return other values unchanged."""
    return to_library(value, x) if is_tensor(x) and value.dtype.kind in "biuf" else value


def is_ragged(x: Any) -> bool:
    """Return whether rows differ in length: a list that is no array, or an array of arrays."""
    if isinstance(x, list | tuple):
        return True
    is_vector = isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind == "O"
    return is_vector and len(x) > 0 and np.ndim(x[0]) > 0


def as_array(
    x: Any,
    name: str = "X",
    *,
    n_columns: int | None = None,
    flat: bool = False,
    tensors: bool = False,
) -> Any:
    """Convert logits or probabilities to an array; return data frames and Dask collections.

    Parameters
    ----------
    x : array-like
        Input of the user.
    name : str
        Name of the argument, for messages.
    n_columns : int or None
        Required number of columns, or None for any.
    flat : bool
        Whether one dimension is allowed.
    tensors : bool
        Whether tensors stay tensors while scikit-learn's ``array_api_dispatch`` is on.

    Returns
    -------
    object
        Arrays with equal dtype for lists and tensors; other objects unchanged.

    Raises
    ------
    ValueError
        If an array cannot be converted to NumPy, or has an invalid number of dimensions.
    """
    if type(x) is np.ndarray and x.ndim == 2:
        return x
    distinct_names(x, name)
    x = check_tensor(x, name) if tensors and is_tensor(x) else as_numpy(x, name)
    if is_ragged(x):
        empty = "zeros" if name == "y_proba" else "-inf, the logit of an impossible class"
        raise ValueError(
            f"{name} must be one array with the same number of columns in each row, got a "
            f"{type(x).__name__} of {len(x)} parts. Stack rows by np.stack({name}), concatenate "
            f"batches by np.concatenate({name}), and pad rows to the longest row with {empty}."
        )
    ndim = n_dimensions(x, name)
    if ndim > 2:
        raise ValueError(
            f"{name} must have two dimensions, one row for each label and one column for each "
            f"class, got shape {tuple(x.shape)}. Concatenate a list of batches, as in "
            f"np.concatenate({name}); move the K classes to the last axis, by moveaxis, and pass "
            f"{name}.reshape(-1, K) and y.ravel()."
        )
    if ndim == 1 and not flat:
        if n_columns in {None, 1}:  # log-odds for two classes
            return x.to_frame() if hasattr(x, "to_frame") else x[:, None]
        raise ValueError(
            f"{name} must have two dimensions, got one. Reshape your data: a single row of logits "
            f"is np.reshape({name}, (1, -1))."
        )
    return x


def n_dimensions(x: Any, name: str) -> int:
    """Return the number of dimensions, or raise a ValueError for an object without rows."""
    ndim = getattr(x, "ndim", 2 if hasattr(x, "shape") or is_dask(x) else 0)
    if ndim == 0:
        raise ValueError(
            f"{name} must be an array, a data frame or a list of rows, got {type(x).__name__} "
            "without rows. Pass a list, also for one row."
        )
    return int(ndim)


def column_names(x: Any) -> list[Any]:
    """Return the column names of a data frame or a pyarrow table, else an empty list."""
    names = getattr(x, "column_names", None)
    return list(getattr(x, "columns", ()) if names is None else names)


def distinct_names(x: Any, name: str) -> list[Any]:
    """Return the column names of a data frame, or raise a ValueError if some are equal."""
    names = column_names(x)
    if len(set(names)) < len(names):
        raise ValueError(f"Columns of {name} must have distinct names, got {names!s:.200}.")
    return names


def on_host(x: Any) -> Any:
    """Convert a tensor to a NumPy array without gradients; return other objects unchanged."""
    if x is None or isinstance(x, np.ndarray) or not is_foreign(x):
        return x
    if hasattr(x, "detach"):  # torch
        return x.detach().cpu().numpy()
    if hasattr(x, "get"):  # CuPy
        return x.get()
    if hasattr(x, "to_device") and "array_api_strict" in type(x).__module__:
        x = x.to_device(namespace(x).Device("CPU_DEVICE"))
    return np.asarray(x)


def as_numpy(x: Any, name: str) -> Any:
    """Convert lists and tensors to arrays with equal dtype; return other objects unchanged.

    scikit-learn would convert objects without a NumPy dtype, such as tensors, to float64.
    """
    if isinstance(x, list | tuple):
        try:
            return np.asarray(x)
        except ValueError:  # parts differ in shape
            return x
    if isinstance(x, np.ma.MaskedArray):
        if np.ma.is_masked(x):
            raise ValueError(
                f"{name} must have no masked entries, got {np.count_nonzero(x.mask)}. Leave out "
                "their rows, or call X.filled(-np.inf) if they are impossible classes."
            )
        return x.data
    if isinstance(x, np.ndarray) or is_dask(x) or hasattr(x, "columns"):
        return x
    try:
        x = on_host(x)
        return np.asarray(x) if hasattr(x, "__array__") else x
    except (TypeError, RuntimeError) as error:  # such as bfloat16
        raise ValueError(
            f"{name} must be convertible to a NumPy array, got {type(x).__name__} of type "
            f"{getattr(x, 'dtype', 'unknown')}: {str(error).rstrip('.')}. Pass "
            f"{name}.detach().float().cpu().numpy() of a torch tensor."
        ) from error


def check_in_memory(inputs: Iterable[Any], message: str | None = None) -> None:
    """Raise a ValueError if an input is a Dask collection, where rows must be in memory."""
    if any(map(is_dask, inputs)):
        raise ValueError(
            message
            or "All rows must be in memory for this, got a Dask collection. Call compute() on a "
            "part of it that fits into memory."
        )


def if_in_memory(f: Callable[..., tuple[Any, ...]], *inputs: Any) -> tuple[Any, ...]:
    """Return ``f(*inputs)``, or the inputs if one is a Dask collection."""
    return inputs if any(map(is_dask, inputs)) else f(*inputs)


# --------------------------------------------------------------------------------------
# Features.


def named_columns(features: Any, n_rows: int) -> tuple[list[str], list[Array]]:
    """Return column names, or column numbers, and a list of columns (n,)."""
    if names := distinct_names(features, "features"):
        values = [np.asarray(features[name]) for name in names]
    else:
        # Convert lists of mixed rows to objects, so that numbers do not become text.
        is_list = isinstance(features, list | tuple) and len(features) > 0
        if is_list and np.ndim(features[0]) == 1:
            array = np.array(features, object)
        else:
            array = np.asarray(as_numpy(features, "features"))
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or array.dtype.names:
            got = f"an array of shape {array.shape}" if array.ndim else type(features).__name__
            raise ValueError(
                "features must have a row for each row of X and a column for each feature, got "
                f"{got}. Pass pandas.DataFrame(features), or an array in two dimensions."
            )
        values = list(array.T)
        names = [*range(len(values))]
    if not values or len(values[0]) != n_rows:
        raise ValueError(
            f"features must have one row for each of the {n_rows} rows of X, got "
            f"{len(values[0]) if values else 'no columns'}. Pass features of the same rows, in the "
            "same order."
        )
    return [str(name) for name in names], values


def taken(features: Any, rows: Indices) -> Any:
    """Select rows by number from a data frame, an array or a list of features."""
    if isinstance(features, list | tuple):
        return [features[k] for k in rows]
    if hasattr(features, "column_names"):  # pyarrow
        return features.take(rows)
    return features.iloc[rows] if hasattr(features, "iloc") else features[rows]

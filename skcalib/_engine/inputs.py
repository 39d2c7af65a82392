"""What users pass: arrays, data frames, tensors and Dask collections, as arrays and as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from skcalib._typing import Array

from .dask_inputs import checked_chunks, collection_row, is_dask, map_collection
from .memory import MemoryRows
from .rows import Rows


def as_array(x: Any, name: str = "X", *, n_columns: int | None = None, flat: bool = False) -> Any:
    """Logits or probabilities as an array, or as the data frame or Dask collection they are.

    Parameters
    ----------
    x : array-like
        What the user gave.
    name : str
        What the user calls it.
    n_columns : int or None
        Number of columns there must be, where that is known.
    flat : bool
        Whether one dimension will do.

    Returns
    -------
    object
        Lists and tensors become arrays of their own type; other objects are returned as they are.

    Raises
    ------
    ValueError
        For tensors that NumPy cannot read, and for more or fewer than two dimensions.
    """
    x = as_numpy(x, name)
    n_dimensions = getattr(x, "ndim", 2)
    if n_dimensions > 2:
        _refuse_dimensions(name, x.shape)
    if n_dimensions == 1 and not flat:
        shape = "a single row of logits, X.reshape(1, -1)"
        if n_columns in {None, 1}:
            shape = "log-odds of two classes make a single column, X.reshape(-1, 1)"
        raise ValueError(f"{name} must have two dimensions, got one. Reshape your data: {shape}.")
    return x


def _refuse_dimensions(name: str, shape: tuple[int, ...]) -> NoReturn:
    raise ValueError(
        f"{name} must have two dimensions, one row for each label and one column for each class, "
        f"got shape {shape}. With the K classes on axis 1 pass "
        f"np.moveaxis({name}, 1, -1).reshape(-1, K), with the classes on the last axis "
        f"{name}.reshape(-1, K), and the labels as y.ravel()."
    )


def as_numpy(x: Any, name: str) -> Any:
    """Lists and tensors as arrays of their own type, other objects as they are.

    scikit-learn takes what has no NumPy dtype, such as a tensor, for double precision.
    """
    if isinstance(x, list | tuple):
        try:
            return np.asarray(x)
        except ValueError:  # ragged, of which scikit-learn has its own to say
            return x
    if isinstance(x, np.ma.MaskedArray):
        if np.ma.is_masked(x):
            n_masked = int(np.ma.getmaskarray(x).sum())
            raise ValueError(
                f"{name} must have no masked entries, got {n_masked}. Leave out their "
                f"rows, or fill them in, as in {name}.filled(-np.inf) for logits of classes that "
                "are impossible."
            )
        return x.data
    held = isinstance(x, np.ndarray) or is_dask(x) or hasattr(x, "columns")
    if held or not hasattr(x, "__array__"):
        return x
    try:
        return np.asarray(x)
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be something that NumPy can read, got {_described(x)}: "
            f"{str(error).rstrip('.')}. {_remedy(x, name)}"
        ) from error


def _described(x: Any) -> str:
    return f"{type(x).__name__} of type {getattr(x, 'dtype', 'unknown')}"


def _remedy(x: Any, name: str) -> str:
    """How a tensor becomes readable."""
    calls = [
        ".detach()" * bool(getattr(x, "requires_grad", False)),
        ".float()" * ("bfloat16" in str(getattr(x, "dtype", "")).lower()),
        ".cpu()" * (not str(getattr(x, "device", "cpu")).lower().startswith("cpu")),
    ]
    if not any(calls):
        return "Pass it as a NumPy array."
    return f"Pass {name}{''.join(calls)}."


def check_in_memory(inputs: Iterable[Any]) -> None:
    """Raise a ValueError for a Dask collection, where rows are needed and not sums."""
    if any(map(is_dask, inputs)):
        raise ValueError(
            "This needs the rows themselves, got a Dask collection. Call compute() on a part of it "
            "that fits into memory; a diagram of all rows is "
            "ReliabilityDisplay(reliability_curve(...)).plot()."
        )


def checked_rows(
    check: Callable[..., tuple[tuple[Array | None, ...], Any]], **inputs: Any
) -> tuple[Rows, Any]:
    """Rows of the arrays that ``check`` makes of the inputs, and what it found.

    Of Dask collections it checks each chunk where it is, and what it finds is added up: see
    :func:`~.dask_inputs.checked_chunks`.
    """
    if any(map(is_dask, inputs.values())):
        return checked_chunks(check, **inputs)
    arrays, found = check(*inputs.values())
    return MemoryRows(*arrays), found


def map_outputs(f: Callable[[Any], Array], X: Any) -> Any:
    """``f(X)``; for a Dask array or data frame lazily and by chunk."""
    return map_collection(f, X) if is_dask(X) else f(X)


def row_like(X: Any) -> Any:
    """``X``, or for a Dask array or data frame a row of the same width, type and names."""
    return collection_row(X) if is_dask(X) else X


def is_lazy(x: Any) -> bool:
    """Whether its rows are computed when they are asked for, and cannot be taken out one by one."""
    return is_dask(x)

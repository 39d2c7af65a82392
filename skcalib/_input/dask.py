"""Dask collections as input: check chunks on the workers, and compute outputs lazily.

Dask is imported only when a Dask collection is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from skcalib._rows import Rows
from skcalib._rows.dask import DaskRows, calls, compute, persisted
from skcalib._typing import Array

from .arrays import is_dask


def checked_chunks(check: Callable[..., tuple[Rows, Any]], **inputs: Any) -> tuple[Rows, Any]:
    """Check and convert every chunk of rows, in one pass over the data.

    Parameters
    ----------
    check : callable
        Function from one block per input to rows with positive weight, and statistics that can be
        added, with the number ``n_rows`` of rows. It raises ValueError or TypeError if blocks are
        invalid.
    **inputs : Dask array, series or data frame, or None
        By the names of the user's arguments. Messages number the chunks of the first input.

    Returns
    -------
    rows : DaskRows
        Persisted in the workers' memory if there is a cluster, else recomputed in each pass.
    statistics : object
        Added statistics.

    Raises
    ------
    ValueError
        If a chunk is invalid, which the message names, or chunks do not match.
    """
    columns = {name: _chunks_of(name, x) for name, x in inputs.items() if x is not None}
    first, *others = columns
    for name in others:
        if len(columns[name]) != len(columns[first]):
            raise ValueError(
                f"{first} and {name} must have the same chunks of rows, got "
                f"{len(columns[first])} and {len(columns[name])} chunks. Use "
                f"{name}.rechunk(({first}.chunks[0],)), or take both from one data frame."
            )
    part = "partitions" if is_frame(inputs[first]) else "blocks"
    blocks = enumerate(zip(*columns.values(), strict=True))
    check_chunk = partial(_checked, check, list(inputs), list(columns))
    chunks = persisted(
        calls(check_chunk, ((f"In {first}.{part}[{k}]: ", *chunk) for k, chunk in blocks))
    )
    reports = compute([chunk[:2] for chunk in chunks])  # the rows stay on the workers
    pairs = [(report, chunk[2]) for report, chunk in zip(reports, chunks, strict=True) if report[1]]
    if not pairs:
        raise ValueError(f"{first} must hold rows, got none in any of its chunks.")
    statistics, empty = reduce(add, (report[0] for report, _ in pairs)), pairs[0][0][1]
    filled = persisted([rows for report, rows in pairs if report[0].n_rows])
    return DaskRows(filled, statistics.n_rows, empty.X, empty.y, empty.w), statistics


def _checked(
    check: Callable[..., Any], inputs: list[str], names: list[str], where: str, *blocks: Any
) -> tuple[Any, Rows, Rows] | tuple[None, None, None]:
    """Check a chunk, and return statistics, no rows with its dtypes and columns, and its rows.

    ``names`` are the inputs that are not None; ``where`` names the chunk in messages.
    """
    if not any(map(len, blocks)):  # as after filtering a data frame
        return None, None, None
    blocks_by_name = dict(zip(names, blocks, strict=True))
    rows, statistics = _located(where, check, *map(blocks_by_name.get, inputs))
    return statistics, rows.take(slice(0)), rows


def _located(where: str, f: Callable[..., Any], *blocks: Any) -> Any:
    """Return ``f(*blocks)``, or raise its error with the place of the blocks in the message."""
    try:
        return f(*blocks)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}{error}") from error


def _chunks_of(name: str, x: Any) -> list[Any]:
    """Return one task per chunk of rows, or raise a ValueError for other objects."""
    if not is_dask(x):
        raise ValueError(
            "Logits or probabilities, labels and weights must all be Dask collections or none of "
            f"them, got {name} of type {type(x).__name__}. Use dask.array.from_array with the row "
            "chunks of the others."
        )
    _check_whole_rows(name, x)
    return _partitions(x) if is_frame(x) else list(np.ravel(x.to_delayed()))


def is_frame(x: Any) -> bool:
    """Return whether ``x`` is a Dask data frame or series."""
    return hasattr(type(x), "map_partitions")


def _partitions(x: Any) -> list[Any]:
    """Return one task per partition of a data frame or series."""
    # Dask's further optimization fuses files when few columns are read: labels would then have
    # other partitions than logits from the same files.
    return list(x.simplify().to_delayed(optimize_graph=False))


def _check_whole_rows(name: str, x: Any) -> None:
    """Raise a ValueError if a collection has another kind, or chunks along its columns."""
    if not (hasattr(type(x), "to_delayed") and hasattr(type(x), "ndim")):
        raise ValueError(
            f"{name} must be a Dask array, series or data frame, got {type(x).__name__}."
        )
    blocks = getattr(x, "numblocks", ())
    if len(blocks) > 1 and max(blocks[1:]) > 1:
        raise ValueError(
            f"{name} must hold whole rows in each chunk, got chunks along its columns, "
            f"{x.chunks[1:]}. Use {name}.rechunk({{1: -1}})."
        )


def map_collection(f: Callable[[Any], Array], x: Any) -> Any:
    """Apply ``f`` to every chunk of a Dask array or data frame: a lazy Dask array."""
    _check_whole_rows("X", x)
    empty = f(collection_row(x))[:0]  # checks names and width before anything is computed
    if not is_frame(x):
        return x.map_blocks(
            partial(_mapped, f, empty, "blocks"),
            dtype=empty.dtype,
            chunks=(x.chunks[0], *((n,) for n in empty.shape[1:])),
            drop_axis=1 if empty.ndim == 1 else None,
            new_axis=2 if empty.ndim == 3 else None,
            meta=empty,
        )
    import dask.array as da

    parts = ((part, (k,)) for k, part in enumerate(_partitions(x)))
    tasks = calls(partial(_mapped, f, empty, "partitions"), parts)
    shape = (np.nan, *empty.shape[1:])
    blocks = [da.from_delayed(task, shape, meta=empty) for task in tasks]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _mapped(
    f: Callable[[Any], Array], empty: Array, name: str, block: Any, block_id: Any = None
) -> Array:
    """Apply ``f`` to a block, unless it has no rows. Errors name the block.

    ``empty`` is the result for no rows; ``name`` and ``block_id`` are for messages.
    """
    if len(block) == 0:
        return empty
    values: Array = _located(f"In X.{name}[{block_id[0]}]: ", f, block)
    return values


def collection_row(x: Any) -> Any:
    """Return one row with the width, dtypes and column names of a Dask array or data frame."""
    if not is_frame(x):
        return np.zeros((1, *x.shape[1:]), x.dtype)
    from dask.dataframe.utils import make_meta, meta_nonempty

    # The second of the two rows that Dask generates has missing values in nullable columns.
    return meta_nonempty(make_meta(x)).iloc[:1]

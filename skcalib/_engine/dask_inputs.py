"""Dask collections as input and output: checked chunk by chunk, mapped lazily."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from skcalib._typing import Array

from .dask import Chunked, DaskRows, computed, kept, tree


def is_dask(x: Any) -> bool:
    """Whether ``x`` is a Dask collection."""
    return hasattr(x, "__dask_graph__")


class _Checked(NamedTuple):
    """Result of checking a chunk; the arrays stay on the worker."""

    arrays: tuple[Array | None, ...]
    found: Any
    n_rows: int


class _Report(NamedTuple):
    """Summary of the checks of many chunks, which is sent to the client."""

    found: Any  #: sum of the statistics of chunks with rows, or None
    lengths: list[int]
    like: list[Array | None]  #: arrays with no rows
    fault: str | None  #: error message of the first invalid chunk


def checked_chunks(
    check: Callable[..., tuple[tuple[Array | None, ...], Any]], **inputs: Any
) -> tuple[DaskRows, Any]:
    """Check and convert every chunk of rows, in one pass over the data.

    Parameters
    ----------
    check : callable
        Called with a block of each input; returns arrays of equal length and statistics of the
        block, which are added up. It raises ValueError or TypeError for invalid blocks.
    **inputs : Dask array, series or data frame, or None
        By the names of the user's arguments. Messages refer to the chunks of the first.

    Returns
    -------
    rows : DaskRows
        Persisted in the memory of the workers if there is a cluster, else recomputed in each pass.
    found : object
        Sum of the statistics.

    Raises
    ------
    ValueError
        For the first invalid chunk, which the message names, and for chunks that do not match.
    """
    from dask import delayed

    columns = {name: _tasks_of(name, x) for name, x in inputs.items() if x is not None}
    _check_chunks_fit({name: inputs[name] for name in columns}, columns)
    first = next(iter(columns))
    part = "partitions" if is_frame(inputs[first]) else "blocks"
    names, check_chunk = list(columns), delayed(_checked, pure=False)
    shared = delayed(check, traverse=False)
    chunks = kept(
        [
            check_chunk(shared, f"In {first}.{part}[{k}]: ", list(inputs), names, *blocks)
            for k, blocks in enumerate(zip(*columns.values(), strict=True))
        ]
    )
    reports = [delayed(_report, pure=False)(c) for c in chunks]
    report = computed(tree(partial(reduce, _merged_reports), reports))
    if report.fault is not None:
        raise ValueError(report.fault)
    if report.found is None:
        raise ValueError(f"{first} must hold rows, got none in any of its chunks.")
    filled = [(c, n) for c, n in zip(chunks, report.lengths, strict=True) if n]
    lengths = tuple(n for _, n in filled)
    arrays = [
        None if like is None else Chunked(tuple(kept([c[0][k] for c, _ in filled])), lengths, like)
        for k, like in enumerate(report.like)
    ]
    return DaskRows(*arrays), report.found


def _tasks_of(name: str, x: Any) -> list[Any]:
    """Tasks of the chunks of rows."""
    if not is_dask(x):
        raise ValueError(
            "Logits or probabilities, labels and weights must all be Dask collections or none of "
            f"them, got {name} of type {type(x).__name__}. Use dask.array.from_array with the row "
            "chunks of the others."
        )
    _check_whole_rows(name, x)
    return _partitions(x) if is_frame(x) else list(np.ravel(x.to_delayed()))


def is_frame(x: Any) -> bool:
    """Whether ``x`` is a Dask data frame or series."""
    return hasattr(type(x), "map_partitions")


def _partitions(x: Any) -> list[Any]:
    """Tasks of the partitions of a data frame or series."""
    # Without Dask's further optimization, which fuses files of which few columns are read: labels
    # would then have other partitions than logits from the same files.
    return list(x.simplify().to_delayed(optimize_graph=False))


def _check_whole_rows(name: str, x: Any) -> None:
    """Raise a ValueError for another kind of collection, or one with chunks along its columns."""
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


def _check_chunks_fit(inputs: dict[str, Any], columns: dict[str, list[Any]]) -> None:
    """Raise a ValueError unless all have the same chunks of rows, as far as these are known."""
    first, *others = columns
    for name in others:
        a, b = (_row_chunks(inputs[k], columns[k]) for k in (first, name))
        lengths_known = not any(np.isnan(n) for n in (*a, *b))
        if len(a) != len(b) or (lengths_known and a != b):
            raise ValueError(
                f"{first} and {name} must have the same chunks of rows, got {_shown(a)} and "
                f"{_shown(b)}. Use {name}.rechunk(({first}.chunks[0],)), or take both from one "
                "data frame."
            )


def _row_chunks(x: Any, tasks: list[Any]) -> tuple[float, ...]:
    return tuple(x.chunks[0]) if hasattr(x, "chunks") else (np.nan,) * len(tasks)


def _shown(chunks: tuple[float, ...]) -> str:
    if any(np.isnan(n) for n in chunks):
        return f"{len(chunks)} of unknown length"
    more = ", ..." if len(chunks) > 4 else ""
    return f"{len(chunks)} of {', '.join(map(str, chunks[:4]))}{more} rows"


def _checked(
    check: Callable[..., Any], where: str, inputs: list[str], names: list[str], *blocks: Any
) -> _Checked | str:
    """The task of a chunk: the result of the check, or an error message."""
    lengths = list(map(len, blocks))
    if max(lengths) == 0:  # as after filtering a data frame
        return _Checked((), None, 0)
    if min(lengths) < max(lengths):
        return (
            f"{where}{' and '.join(names)} must have the same number of rows, got "
            f"{' and '.join(map(str, lengths))}. Filter them together, in one data frame."
        )
    given = dict(zip(names, blocks, strict=True))
    try:
        arrays, found = check(*(given.get(name) for name in inputs))
    except (ValueError, TypeError) as error:
        return where + str(error)
    # Length of the result: the check may drop rows of zero weight.
    return _Checked(arrays, found, next(len(a) for a in arrays if a is not None))


def _report(chunk: _Checked | str) -> _Report:
    if isinstance(chunk, str):
        return _Report(None, [], [], chunk)
    like = [None if a is None else a[:0] for a in chunk.arrays]
    return _Report(chunk.found, [chunk.n_rows], like, None)


def _merged_reports(a: _Report, b: _Report) -> _Report:
    if a.fault is not None or b.fault is not None:
        return _Report(None, [], [], a.fault if a.fault is not None else b.fault)
    found = b.found if a.found is None else a.found if b.found is None else a.found + b.found
    return _Report(found, a.lengths + b.lengths, a.like or b.like, None)


def map_collection(f: Callable[[Any], Array], x: Any) -> Any:
    """Lazy Dask array of ``f`` applied to every chunk of a Dask array or data frame."""
    _check_whole_rows("X", x)
    empty = f(collection_row(x))[:0]  # checks names and width before anything is computed
    if is_frame(x):
        return _array_of_partitions(f, x, empty)
    chunks = (x.chunks[0], *((n,) for n in empty.shape[1:]))
    return x.map_blocks(
        partial(_of_block, f, empty),
        dtype=empty.dtype,
        chunks=chunks,
        drop_axis=1 if empty.ndim == 1 else None,
        new_axis=2 if empty.ndim == 3 else None,
        meta=empty,
    )


def _of_block(f: Any, empty: Array, block: Any, block_id: Any = None) -> Array:
    return _named(f, empty, block, f"blocks[{block_id[0]}]")


def _array_of_partitions(f: Any, x: Any, empty: Array) -> Any:
    import dask.array as da
    from dask import delayed

    shared, task = delayed(f, traverse=False), delayed(_named, pure=False)
    shape = (np.nan, *empty.shape[1:])
    blocks = [
        da.from_delayed(task(shared, empty, part, f"partitions[{k}]"), shape, meta=empty)
        for k, part in enumerate(_partitions(x))
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _named(f: Callable[[Any], Array], empty: Array, block: Any, where: str) -> Array:
    """``f`` of a block that may have no rows; error messages begin with the name of the block."""
    if len(block) == 0:
        return empty
    try:
        return f(block)
    except (ValueError, TypeError) as error:
        raise ValueError(f"In X.{where}: {error}") from error


def collection_row(x: Any) -> Any:
    """A row with the width, dtypes and column names of a Dask array or data frame."""
    if not is_frame(x):
        return np.zeros((1, *x.shape[1:]), x.dtype)
    from dask.dataframe.utils import make_meta, meta_nonempty

    # The second of the two rows that Dask generates has missing values in nullable columns.
    return meta_nonempty(make_meta(x)).iloc[:1]

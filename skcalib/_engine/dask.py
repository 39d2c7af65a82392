"""Arrays whose chunks of rows are with Dask, and the same sums and maps over them.

Dask runs it all: a chunk is a task, a sum is a tree of tasks, and what comes to the process that
asks is the sum. Nothing here knows what is being added up, and Dask is imported only where
somebody came with a Dask collection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# So many sums are added by one task.
BRANCHES = 16


@dataclass(frozen=True)
class Chunked:
    """An array of shape (n, ...) with one Dask task for each chunk of consecutive rows."""

    tasks: tuple[Any, ...]
    lengths: tuple[int, ...]  #: rows of each chunk, none of which is empty
    like: Array  #: an array of no rows with the same type and other dimensions

    def __len__(self) -> int:
        return sum(self.lengths)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.like.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return len(self), *self.like.shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of an array."""
        return self.like.dtype


class ChunkError(RuntimeError):
    """Dask could not compute what was asked of a chunk."""


def is_dask(x: Any) -> bool:
    """Whether it is a Dask collection."""
    return hasattr(x, "__dask_graph__")


# Checks, by chunk.
class _Checked(NamedTuple):
    """What the check of a chunk has to say; the arrays stay where they are."""

    arrays: tuple[Array | None, ...]
    found: Any
    n_rows: int


class _Report(NamedTuple):
    """The same of many chunks."""

    found: Any  #: the sum of what was found in chunks with rows, or None
    lengths: list[int]
    like: list[Array | None]  #: arrays of no rows
    fault: str | None  #: what was wrong with the first chunk in which something was


def checked_chunks(
    check: Callable[..., tuple[tuple[Array | None, ...], Any]], **inputs: Any
) -> tuple[list[Chunked | None], Any]:
    """What ``check`` makes of every chunk of rows, in one pass.

    Parameters
    ----------
    check : callable
        Called with a block of each input; returns arrays with as many rows, and what it found,
        which is added up. It raises ValueError or TypeError for blocks that are no good.
    **inputs : Dask array, series or data frame, or None
        By the names that the user knows them by, the first of them decisive.

    Returns
    -------
    arrays : list of Chunked or None
        Kept in the memory of the workers if there is a cluster, else made again for each pass.
    found : object
        The sum of what was found.

    Raises
    ------
    ValueError
        For the first chunk that is no good, with its name, and for chunks that do not fit.
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
    report = computed(_tree(partial(reduce, _merged_reports), reports))
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
    return arrays, report.found


def _tasks_of(name: str, x: Any) -> list[Any]:
    """The tasks of the chunks of rows."""
    if not is_dask(x):
        raise ValueError(
            f"Logits or probabilities, labels and weights must all be with Dask or none of them, "
            f"got {name} of type {type(x).__name__}. Use dask.array.from_array with the row chunks "
            "of the others."
        )
    _check_whole_rows(name, x)
    return _partitions(x) if is_frame(x) else list(np.ravel(x.to_delayed()))


def is_frame(x: Any) -> bool:
    """Whether it is a Dask data frame or series."""
    return hasattr(type(x), "map_partitions")


def _partitions(x: Any) -> list[Any]:
    """The tasks of the partitions of a data frame or series."""
    # Without what Dask would do next: put files together of which few columns are read, so that
    # labels would have other partitions than logits from the same files.
    return list(x.simplify().to_delayed(optimize_graph=False))


def _check_whole_rows(name: str, x: Any) -> None:
    """Raise a ValueError for a collection of something else, or whose rows are torn apart."""
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
    """Raise a ValueError unless all have the same chunks of rows, as far as that is known."""
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
    """The task of a chunk: the outcome of the check, or what is wrong."""
    lengths = list(map(len, blocks))
    if max(lengths) == 0:  # as a filter on a data frame may leave behind
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
    # As many as are left: the check may drop rows that do not count.
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


# Sums and maps.
def reduce_chunks(
    merge: Callable[[list[Any]], Any], f: Callable[..., Any], arrays: tuple[Chunked | None, ...]
) -> Any:
    """``f`` of the chunks of each array, merged a few at a time in the order of the rows."""
    from dask import delayed

    shared, task = delayed(f, traverse=False), delayed(_called, pure=False)
    return computed(_tree(merge, [task(shared, *blocks) for blocks in _zipped(arrays)]))


def map_chunks(
    f: Callable[..., Array], arrays: tuple[Chunked | None, ...], like: Array | None = None
) -> Chunked:
    """``f`` of the chunks of each array, which keeps the number of rows.

    ``like`` is an array of the type that ``f`` returns, if that is not to be found out with zeros.
    """
    from dask import delayed

    shared, task = delayed(f, traverse=False), delayed(_called, pure=False)
    tasks = kept([task(shared, *blocks) for blocks in _zipped(arrays)])
    if like is None:
        row = (None if a is None else np.zeros((1, *a.shape[1:]), a.dtype) for a in arrays)
        like = f(*row)
    return Chunked(tuple(tasks), _first(arrays).lengths, like[:0])


def call_on_chunks(
    f: Callable[..., Any], arrays: tuple[Chunked | None, ...], part: Callable[[Array], Array]
) -> Any:
    """``f`` of a part of each chunk, put together on one worker: what it returns comes here."""
    from dask import delayed

    parts, shared = delayed(_parts, pure=False), delayed(part, traverse=False)
    pieces = [parts(shared, *blocks) for blocks in _zipped(arrays)]
    return computed(delayed(_called_on_all, pure=False)(delayed(f, traverse=False), pieces))


def map_collection(f: Callable[[Any], Array], x: Any) -> Any:
    """A lazy Dask array, ``f`` of every chunk of a Dask array or data frame."""
    _check_whole_rows("X", x)
    empty = f(collection_row(x))[:0]  # checks names and width before anything is computed
    if is_frame(x):
        return _array_of_partitions(f, x, empty)
    chunks = (x.chunks[0], *((n,) for n in empty.shape[1:]))
    return x.map_blocks(
        partial(_of_block, f, empty),
        dtype=empty.dtype,
        chunks=chunks,
        drop_axis=None if empty.ndim == 2 else 1,
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
    """``f`` of a block that may have no rows; what is wrong with it begins with its name."""
    if len(block) == 0:
        return empty
    try:
        return f(block)
    except (ValueError, TypeError) as error:
        raise ValueError(f"In X.{where}: {error}") from error


def collection_row(x: Any) -> Any:
    """A row of the width, the type and the names of a Dask array or data frame."""
    if not is_frame(x):
        return np.zeros((1, *x.shape[1:]), x.dtype)
    from dask.dataframe.utils import make_meta, meta_nonempty

    # Of the two rows that Dask makes up, the second lacks the values of nullable columns.
    return meta_nonempty(make_meta(x)).iloc[:1]


def _called(f: Callable[..., Any], *blocks: Array | None) -> Any:
    return f(*blocks)


def _parts(part: Callable[[Array], Array], *blocks: Array | None) -> tuple[Array | None, ...]:
    return tuple(None if block is None else part(block) for block in blocks)


def _called_on_all(f: Callable[..., Any], pieces: list[tuple[Array | None, ...]]) -> Any:
    columns = zip(*pieces, strict=True)
    return f(*(None if column[0] is None else np.concatenate(column) for column in columns))


def _zipped(arrays: tuple[Chunked | None, ...]) -> list[tuple[Any, ...]]:
    """The tasks of the blocks of the same rows, with None for arrays that are None."""
    n = len(_first(arrays).tasks)
    return list(zip(*((None,) * n if a is None else a.tasks for a in arrays), strict=True))


def _first(arrays: tuple[Chunked | None, ...]) -> Chunked:
    return next(a for a in arrays if a is not None)


def _tree(merge: Callable[[list[Any]], Any], tasks: list[Any]) -> Any:
    """The task that merges the outcomes of others, a few at a time and in their order."""
    from dask import delayed

    shared, merge_some = delayed(merge, traverse=False), delayed(_called, pure=False)
    while True:
        branches = [tasks[k : k + BRANCHES] for k in range(0, len(tasks), BRANCHES)]
        tasks = [merge_some(shared, branch) for branch in branches]
        if len(tasks) == 1:
            return tasks[0]


def kept(tasks: list[Any]) -> list[Any]:
    """Tasks or collections with their outcomes in the memory of a cluster, where there is one.

    Without a cluster that would be the memory of this process, which may be smaller than the data:
    there each pass makes them again.
    """
    import dask

    on_cluster = hasattr(getattr(dask.base.get_scheduler(), "__self__", None), "persist")
    return list(dask.persist(*tasks)) if on_cluster and tasks else tasks


def computed(task: Any) -> Any:
    """The outcome of a task; a ChunkError in one sentence if there is none."""
    try:
        return task.compute()
    except Exception as error:  # whatever reading a chunk may raise
        raise ChunkError(_reason(type(error).__name__, str(error))) from error


def _reason(kind: str, message: str) -> str:
    if kind == "KilledWorker":
        return (
            "Workers were lost again and again with the same chunk, which probably needs more "
            "memory than a worker has. Use smaller chunks, or workers with more memory."
        )
    if "Cancelled" in kind or message.startswith("Missing dependency"):
        return (
            "The rows were kept by a Dask client that is closed, or was restarted. Load them "
            "again with the client that is open, or call persist() on them there."
        )
    return f"Dask could not compute a chunk of rows: {kind}: {message}"

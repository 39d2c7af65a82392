"""Adapter of Dask collections: as input, as rows, and as output.

Rows are checked chunk by chunk, and stay where they are. A sum has a task for each chunk, and the
client adds the results. Outputs are lazy. Fits that need ranks or folds gather a random sample.
Dask is imported only when a Dask collection is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, is_dask
from .parallel import with_one_blas_thread
from .rows import BlockFunction, Reduction, Rows, block_slices, sum_blocks

# A sample has at most this many rows and numbers (1 GiB in double precision), and all rows of
# classes with fewer than RARE_ROWS rows.
MOST_SAMPLED_ROWS, MOST_NUMBERS, RARE_ROWS = 1_000_000, 1 << 27, 1000
# Results of a map with at most this many numbers are stored.
MOST_STORED = 1 << 24
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


class ChunkError(RuntimeError):
    """Dask could not compute a chunk."""


class DaskRows(Rows):
    """Rows with one Dask task for each chunk, which returns the :class:`Rows` of the chunk.

    ``X``, ``y`` and ``w`` are arrays without rows, which have the dtypes and the columns.
    """

    is_local = False

    def __init__(self, chunks: list[Any], n_rows: int, X: Any, *arrays: Any, **about: Any) -> None:
        super().__init__(X, *arrays, **about)
        self.chunks, self.n_rows = chunks, n_rows

    def _with(self, chunks: list[Any], **changes: Any) -> DaskRows:
        """Return rows with other chunks, with the arrays without rows by their names."""
        names = ("X", "y", "w", "classes", "masked", "order")
        rows = DaskRows(chunks, self.n_rows, **{n: getattr(self, n) for n in names} | changes)
        rows.weight = self.weight
        return rows

    def _tasks(self, f: Callable[[Rows], Any]) -> list[Any]:
        """Return tasks that apply ``f`` to the rows of each chunk."""
        return calls(f, ((chunk,) for chunk in self.chunks))

    def sum(self, f: BlockFunction, *, merge: Reduction = add, at_least: int = 1) -> Any:
        return reduce(merge, computed(self._tasks(partial(_sum_chunk, f, merge, at_least))))

    def map(self, f: BlockFunction) -> DaskRows:
        arrays = (self.X, self.y, self.w)
        one_row = (None if a is None else np.zeros((1, *a.shape[1:]), a.dtype) for a in arrays)
        first = f(*one_row)
        few = self.n_rows * first.size <= MOST_STORED
        return self._with(kept(self._tasks(lambda chunk: chunk.map(f)), few=few), X=first[:0])

    def relabel(self, f: Callable[[Any], Array], **changes: Any) -> DaskRows:
        chunks = kept(self._tasks(lambda chunk: chunk.relabel(f)))
        return self._with(chunks, y=np.zeros(0, np.intp), **changes)

    def take(self, index: Any) -> Rows:
        """Return the rows of a slice of each chunk, in the memory of this process."""
        return self._gathered(self._tasks(lambda chunk: chunk.take(index)))

    def in_memory(self) -> Rows:
        """Return all rows, or a random sample if they are too many to gather.

        The sample has all rows of rare classes. If there are any, the other rows have larger
        weights, so that the shares of the classes are their shares of all rows.
        """
        most = min(MOST_SAMPLED_ROWS, MOST_NUMBERS // self.n_columns)
        if self.n_rows <= most:
            return self._gathered(self.chunks)
        n_classes = 1 if self.classes is None else len(self.classes)
        counts = np.zeros(0)
        if self.y is not None:
            counts = self.sum(lambda X, y, w: np.bincount(y, minlength=n_classes).astype(float))
        rare = (counts > 0) & (counts < min(RARE_ROWS, most // (2 * n_classes)))
        n_rare = float(counts[rare].sum())
        sample = partial(_sample_chunk, (most - n_rare) / (self.n_rows - n_rare), rare)
        return self._gathered(calls(sample, enumerate(self.chunks)))

    def _gathered(self, chunks: list[Any]) -> Rows:
        """Return the rows of chunks in the memory of this process."""
        parts = computed(chunks)
        columns = zip(*((part.X, part.y, part.w) for part in parts), strict=True)
        arrays = (None if column[0] is None else np.concatenate(column) for column in columns)
        return Rows(*arrays, classes=self.classes, masked=self.masked, order=self.order)


def _sum_chunk(f: BlockFunction, merge: Reduction, at_least: int, chunk: Rows) -> Any:
    """Return the sum of ``f(X, y, w)`` over the blocks of a chunk.

    It runs in one thread: Dask runs one task per core, and the order of operations is fixed.
    """
    arrays = chunk.X, chunk.y, chunk.w
    return with_one_blas_thread(sum_blocks, f, merge, arrays, block_slices(arrays, at_least))


def _sample_chunk(share: float, rare: Array, k: int, chunk: Rows) -> Rows:
    """Return all rows of rare classes, and a share of the others, of the chunk k."""
    draws = np.random.default_rng(k).random(chunk.n_rows)
    if chunk.y is None or not rare.any():
        return chunk.take(draws < share)
    weights = np.where(rare[chunk.y], 1.0, 1 / share) * (1.0 if chunk.w is None else chunk.w)
    return chunk.replace(w=weights).take(rare[chunk.y] | (draws < share))


# --------------------------------------------------------------------------------------
# Tasks.


def calls(f: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Tasks that call ``f``, which is sent to a worker once, with each of the arguments."""
    from dask import delayed

    shared, task = delayed(f, traverse=False), delayed(_call, pure=False)
    return [task(shared, *values) for values in arguments]


def _call(f: Callable[..., Any], *arguments: Any) -> Any:
    return f(*arguments)


def kept(tasks: list[Any], *, few: bool = False) -> list[Any]:
    """Tasks, persisted in the memory of the workers if there is a cluster, or if they are ``few``.

    Without a cluster that is the memory of this process, which may be smaller than the data, so
    each pass recomputes large results.
    """
    import dask

    on_cluster = hasattr(getattr(dask.base.get_scheduler(), "__self__", None), "persist")
    # A classifier, which is sent to the workers once, may be larger than Dask expects of a graph.
    with dask.config.set({LARGE_GRAPH: "1GB"}):
        return list(dask.persist(*tasks)) if tasks and (on_cluster or few) else tasks


def computed(tasks: list[Any]) -> Sequence[Any]:
    """Results of tasks; raises a ChunkError if a task fails, except for invalid input."""
    import dask

    try:
        results: Sequence[Any] = dask.compute(*tasks)
    except ValueError as error:
        if "Missing dependency" not in str(error):  # chunks of a client that is closed
            raise
        raise ChunkError(
            "Dask could not compute a chunk of rows: its client is closed or was restarted. Load "
            f"the rows again, or persist them again. ({error})"
        ) from error
    except Exception as error:  # reading a chunk may raise anything
        kind = type(error).__name__
        raise ChunkError(f"Dask could not compute a chunk of rows: {kind}: {error}") from error
    return results


# --------------------------------------------------------------------------------------
# Input.


class _Report(NamedTuple):
    """Result of checking a chunk, which is sent to the client."""

    statistics: Any  #: statistics of the rows, or None for a chunk without rows
    n_rows: int
    empty: Rows | None  #: none of the rows, with the dtypes and the columns


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
    statistics : object
        Sum of the statistics.

    Raises
    ------
    ValueError
        For an invalid chunk, which the message names, and for chunks that do not match.
    """
    columns = {name: _tasks_of(name, x) for name, x in inputs.items() if x is not None}
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
    chunks = kept(
        calls(check_chunk, ((f"In {first}.{part}[{k}]: ", *chunk) for k, chunk in blocks))
    )
    reports = computed([chunk[0] for chunk in chunks])  # the arrays stay on the workers
    if all(report.statistics is None for report in reports):
        raise ValueError(f"{first} must hold rows, got none in any of its chunks.")
    statistics = reduce(
        add, (report.statistics for report in reports if report.statistics is not None)
    )
    filled = [(c[1], r) for c, r in zip(chunks, reports, strict=True) if r.n_rows]
    empty = (filled[0][1] if filled else reports[0]).empty
    n_rows = sum(report.n_rows for _, report in filled)
    rows = DaskRows(kept([chunk for chunk, _ in filled]), n_rows, empty.X, empty.y, empty.w)
    rows.weight = statistics.weight
    return rows, statistics


def _checked(
    check: Callable[..., Any], inputs: list[str], names: list[str], where: str, *blocks: Any
) -> tuple[_Report, Rows | None]:
    """Return the report of the check of a chunk, and its rows."""
    lengths = list(map(len, blocks))
    if max(lengths) == 0:  # as after filtering a data frame
        return _Report(None, 0, None), None
    if min(lengths) < max(lengths):
        raise ValueError(
            f"{where}{' and '.join(names)} must have the same number of rows, got "
            f"{' and '.join(map(str, lengths))}. Use the chunks of {names[0]} for all, or filter "
            "them together, in one data frame."
        )
    arrays_by_name = dict(zip(names, blocks, strict=True))
    try:
        arrays, statistics = check(*(arrays_by_name.get(name) for name in inputs))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}{error}") from error
    rows = Rows(*arrays)  # without rows of zero weight
    return _Report(statistics, rows.n_rows, rows.take(slice(0))), rows


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
    # Dask's further optimization fuses files when few columns are read: labels would then have
    # other partitions than logits from the same files.
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


# --------------------------------------------------------------------------------------
# Output.


def map_collection(f: Callable[[Any], Array], x: Any) -> Any:
    """Lazy Dask array of ``f`` applied to every chunk of a Dask array or data frame."""
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
    """``f`` of a block that may have no rows; error messages begin with the name of the block."""
    if len(block) == 0:
        return empty
    try:
        return f(block)
    except (ValueError, TypeError) as error:
        raise ValueError(f"In X.{name}[{block_id[0]}]: {error}") from error


def collection_row(x: Any) -> Any:
    """A row with the width, dtypes and column names of a Dask array or data frame."""
    if not is_frame(x):
        return np.zeros((1, *x.shape[1:]), x.dtype)
    from dask.dataframe.utils import make_meta, meta_nonempty

    # The second of the two rows that Dask generates has missing values in nullable columns.
    return meta_nonempty(make_meta(x)).iloc[:1]

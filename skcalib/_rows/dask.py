"""Rows in Dask collections: passes over chunks on the workers, and random samples.

A sum runs one task per chunk, and the client adds the results. Fits that need ranks or folds gather
a random sample. Dask is imported only when a Dask collection is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from skcalib._typing import Array

from .parallel import one_blas_thread
from .rows import BlockFunction, Reduction, Rows, block_slices, sum_blocks

# Limits for a sample (1 GiB in double precision). It includes all rows of classes with fewer than
# RARE_ROWS rows.
MOST_SAMPLED_ROWS, MOST_NUMBERS, RARE_ROWS = 1_000_000, 1 << 27, 1000
# A map stores results with at most this many numbers.
MOST_STORED = 1 << 24
LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


class ChunkError(RuntimeError):
    """Dask could not compute a chunk."""


class DaskRows(Rows):
    """Rows in chunks: one Dask task per chunk, which returns :class:`Rows`.

    ``X``, ``y`` and ``w`` are arrays without rows, with the dtypes and the columns.
    """

    is_local = False

    def __init__(
        self, chunks: list[Any], n_rows: int, X: Any, y: Any, w: Any, **attributes: Any
    ) -> None:
        super().__init__(X, y, w, **attributes)
        self.chunks, self.n_rows = chunks, n_rows

    def replace(self, **changes: Any) -> DaskRows:
        """Replace chunks, arrays without rows, or attributes, by name."""
        names = ("chunks", "n_rows", "X", "y", "w", "classes", "masked", "order")
        rows = DaskRows(**{name: getattr(self, name) for name in names} | changes)
        rows.weight = self.weight
        return rows

    def _tasks(self, f: Callable[[Rows], Any]) -> list[Any]:
        """Return tasks that apply ``f`` to each chunk."""
        return calls(f, ((chunk,) for chunk in self.chunks))

    def sum(self, f: BlockFunction, *, merge: Reduction = add, at_least: int = 1) -> Any:
        return reduce(merge, compute(self._tasks(partial(_sum_chunk, f, merge, at_least))))

    def map(self, f: BlockFunction) -> DaskRows:
        arrays = (self.X, self.y, self.w)
        one_row = (None if a is None else np.zeros((1, *a.shape[1:]), a.dtype) for a in arrays)
        first = f(*one_row)
        few = self.n_rows * first.size <= MOST_STORED
        chunks = persisted(self._tasks(lambda chunk: chunk.map(f)), few=few)
        return self.replace(chunks=chunks, X=first[:0])

    def relabel(self, f: Callable[[Any], Array], **changes: Any) -> DaskRows:
        chunks = persisted(self._tasks(lambda chunk: chunk.relabel(f)))
        return self.replace(chunks=chunks, y=np.zeros(0, np.intp), **changes)

    def take(self, index: Any) -> Rows:
        """Gather ``index``, a slice, from each chunk into the memory of this process."""
        return self._gathered(self._tasks(lambda chunk: chunk.take(index)))

    def in_memory(self) -> Rows:
        """Gather all rows, or a random sample if there are too many rows.

        The sample includes all rows of rare classes. If there are rare classes, the other rows get
        larger weights, so that the class frequencies do not change.
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
        """Concatenate chunks in the memory of this process."""
        parts = compute(chunks)
        columns = zip(*((part.X, part.y, part.w) for part in parts), strict=True)
        arrays = (None if column[0] is None else np.concatenate(column) for column in columns)
        return Rows(*arrays, classes=self.classes, masked=self.masked, order=self.order)


def _sum_chunk(f: BlockFunction, merge: Reduction, at_least: int, chunk: Rows) -> Any:
    """Sum ``f(X, y, w)`` over the blocks of a chunk in one thread.

    Dask runs one task per core, and one thread fixes the order of operations.
    """
    arrays = chunk.X, chunk.y, chunk.w
    with one_blas_thread:
        return sum_blocks(f, merge, arrays, block_slices(arrays, at_least))


def _sample_chunk(share: float, rare: Array, k: int, chunk: Rows) -> Rows:
    """Sample the rows of chunk k: all rows of rare classes, and a share of the others.

    ``rare`` (K,) marks the rare classes.
    """
    draws = np.random.default_rng(k).random(chunk.n_rows)
    if chunk.y is None or not rare.any():
        return chunk.take(draws < share)
    weights = np.where(rare[chunk.y], 1.0, 1 / share) * (1.0 if chunk.w is None else chunk.w)
    return chunk.replace(w=weights).take(rare[chunk.y] | (draws < share))


# --------------------------------------------------------------------------------------
# Tasks.


def calls(f: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return tasks that call ``f``, one per tuple of arguments. ``f`` is sent to workers once."""
    from dask import delayed

    shared, task = delayed(f, traverse=False), delayed(_call, pure=False)
    return [task(shared, *values) for values in arguments]


def _call(f: Callable[..., Any], *arguments: Any) -> Any:
    return f(*arguments)


def persisted(tasks: list[Any], *, few: bool = False) -> list[Any]:
    """Persist tasks in the workers' memory if there is a cluster, or if they are ``few``.

    Without a cluster this process would store the results, which may be larger than its memory, so
    each pass recomputes large results.
    """
    import dask

    on_cluster = hasattr(getattr(dask.base.get_scheduler(), "__self__", None), "persist")
    # A classifier, which is sent to the workers once, may exceed Dask's limit for a graph.
    with dask.config.set({LARGE_GRAPH: "1GB"}):
        return list(dask.persist(*tasks)) if tasks and (on_cluster or few) else tasks


def compute(tasks: list[Any]) -> Sequence[Any]:
    """Compute tasks. Raise a ChunkError if Dask fails, but the ValueError of invalid input."""
    import dask

    try:
        results: Sequence[Any] = dask.compute(*tasks)
    except ValueError as error:
        if "Missing dependency" not in str(error):  # the client of the chunks is closed
            raise
        raise ChunkError(
            "Dask could not compute a chunk of rows: its client is closed or was restarted. Load "
            f"the rows again, or persist them again. ({error})"
        ) from error
    except Exception as error:  # reading a chunk may raise anything
        kind = type(error).__name__
        raise ChunkError(f"Dask could not compute a chunk of rows: {kind}: {error}") from error
    return results

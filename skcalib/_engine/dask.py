"""Rows in row-chunked Dask collections: each pass over the data is one task graph.

A chunk is a task, a sum is a tree of tasks, and only the sum is sent to the client. Dask is
imported only when a Dask collection is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from skcalib._typing import Array

from .memory import MemoryRows, map_columns
from .ranking import Ranked, merged, summary
from .rows import PLAIN, SAMPLE_ELEMENTS, Merge, OfBlock, Plan, Rows

T = TypeVar("T")

# Number of sums that one task adds.
BRANCHES = 16
# Number of cells, over all columns, of the grid of log-odds to which many distributed scores are
# rounded: the summary of a chunk then takes at most 25 MB.
CELLS = 1 << 20


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
        """Shape of the array."""
        return len(self), *self.like.shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.like.dtype


class ChunkError(RuntimeError):
    """Dask could not compute a chunk."""


class DaskRows(Rows):
    """Rows whose chunks are Dask tasks: a pass is a round trip to the workers."""

    passes_are_cheap: ClassVar[bool] = False

    def reduce(self, merge: Merge, f: OfBlock, plan: Plan = PLAIN) -> Any:
        of_chunk = partial(_reduced_chunk, merge, f, plan)
        return computed(tree(partial(reduce, merge), self.tasks(of_chunk)))

    def tasks(self, f: Callable[..., Any]) -> list[Any]:
        """Tasks that call ``f`` with the chunks of the same rows of all arrays."""
        from dask import delayed

        shared, task = delayed(f, traverse=False), delayed(_called, pure=False)
        return [task(shared, *blocks) for blocks in self._chunks()]

    def _chunks(self) -> list[tuple[Any, ...]]:
        """Tasks of the chunks of the same rows, with None for arrays that are None."""
        n = len(self.X.tasks)
        return list(zip(*((None,) * n if a is None else a.tasks for a in self.arrays), strict=True))

    def map(self, f: OfBlock, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Chunked:
        row = (None if a is None else np.zeros((1, *a.shape[1:]), a.dtype) for a in self.arrays)
        return self._chunked(self.tasks(partial(_mapped_chunk, f, plan, order)), f(*row))

    def _chunked(self, tasks: list[Any], like: Array) -> Chunked:
        return Chunked(tuple(kept(tasks)), self.X.lengths, like[:0])

    def ranked(  # with the events, whether they are asked for or not
        self, of_block: OfBlock, n_columns: int, then: Callable[[Ranked], T], **_: bool
    ) -> list[T]:
        """As for rows in memory, at a resolution of :data:`CELLS` scores: see ``summary``."""
        n_cells = CELLS // n_columns
        of_chunk = partial(_summaries, of_block, n_cells)
        found: list[Ranked] = computed(tree(partial(_merged, n_cells), self.tasks(of_chunk)))
        return map_columns(lambda k: then(found[k]), len(found), len(found[0].scores))

    def relabelled(self, f: Callable[[Any], Array]) -> Self:
        y = self._chunked(DaskRows(self.y).tasks(f), np.zeros(0, np.intp))
        return type(self)(self.X, y, *self.arrays[2:], weight=self._weight)

    def in_memory(self) -> Rows:
        if self.n_rows * self._width > SAMPLE_ELEMENTS:
            raise ValueError(
                "All rows must be in memory for this fit, which gathers Dask collections of up to "
                f"{SAMPLE_ELEMENTS:,} numbers, got {self.n_rows:,} rows of {self._width} columns. "
                "Fit to a sample of the rows, as X[::k] or frame.sample(frac=...); outputs for all "
                "rows are lazy."
            )
        return self._call(_as_they_are, 1)

    def every(self, step: int) -> Self:  # noqa: ARG002
        return self

    def _call(self, f: Callable[[Rows], T], step: int) -> T:
        from dask import delayed

        parts, shared = delayed(_every, pure=False), delayed(f, traverse=False)
        pieces = [parts(step, *blocks) for blocks in self._chunks()]
        found: T = computed(delayed(_called_on_all, pure=False)(shared, pieces))
        return found


def _reduced_chunk(merge: Any, f: Any, plan: Plan, *arrays: Array | None) -> Any:
    """In one thread: Dask runs one task per core, and the order of operations stays fixed."""
    return MemoryRows(*arrays).reduce_in_one_thread(merge, f, plan)


def _mapped_chunk(f: Any, plan: Plan, order: Any, *arrays: Array | None) -> Any:
    return MemoryRows(*arrays).map(f, plan, order)


def _summaries(
    of_block: Any, n_cells: int, X: Array, y: Array, w: Array | None, *_: Any
) -> list[Ranked]:
    S, E = MemoryRows(X, y).stored(of_block)
    return [summary(s, e, w, n_cells) for s, e in zip(S, E, strict=True)]


def _merged(n_cells: int, chunks: list[list[Ranked]]) -> list[Ranked]:
    return [merged(list(column), n_cells) for column in zip(*chunks, strict=True)]


def _called(f: Callable[..., Any], *blocks: Array | None) -> Any:
    return f(*blocks)


def _every(step: int, *blocks: Array | None) -> tuple[Array | None, ...]:
    return tuple(None if block is None else block[::step] for block in blocks)


def _called_on_all(f: Callable[[Rows], T], pieces: list[tuple[Array | None, ...]]) -> T:
    columns = zip(*pieces, strict=True)
    arrays = (None if column[0] is None else np.concatenate(column) for column in columns)
    return f(MemoryRows(*arrays))


def _as_they_are(rows: Rows) -> Rows:
    return rows


def tree(merge: Callable[[list[Any]], Any], tasks: list[Any]) -> Any:
    """The task that merges the results of others, a few at a time and in their order."""
    from dask import delayed

    shared, merge_some = delayed(merge, traverse=False), delayed(_called, pure=False)
    while True:
        branches = [tasks[k : k + BRANCHES] for k in range(0, len(tasks), BRANCHES)]
        tasks = [merge_some(shared, branch) for branch in branches]
        if len(tasks) == 1:
            return tasks[0]


def kept(tasks: list[Any]) -> list[Any]:
    """Tasks or collections, persisted in the memory of the workers if there is a cluster.

    Without a cluster that would be the memory of this process, which may be smaller than the data,
    so each pass recomputes them.
    """
    import dask

    on_cluster = hasattr(getattr(dask.base.get_scheduler(), "__self__", None), "persist")
    return list(dask.persist(*tasks)) if on_cluster and tasks else tasks


def computed(task: Any) -> Any:
    """The result of a task; raises a ChunkError with a short message if the task fails."""
    try:
        return task.compute()
    except Exception as error:  # reading a chunk may raise anything
        raise ChunkError(_reason(type(error).__name__, str(error))) from error


def _reason(kind: str, message: str) -> str:
    if kind == "KilledWorker":
        return (
            "Several workers died while computing the same chunk, which probably needs more "
            "memory than a worker has. Use smaller chunks, or workers with more memory."
        )
    if "Cancelled" in kind or message.startswith("Missing dependency"):
        return (
            "The rows were persisted by a Dask client that is closed, or was restarted. Load them "
            "again with the client that is open, or call persist() on them there."
        )
    return f"Dask could not compute a chunk of rows: {kind}: {message}"

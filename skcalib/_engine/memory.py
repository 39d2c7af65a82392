"""Rows in memory, or in memory-mapped files: the only loop over blocks of rows.

A block is small enough that it and the temporaries of a function of it stay in the cache, so plain
array expressions run at the speed of a fused loop.
Memory-mapped arrays are read block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skcalib._typing import Array

from .blas import with_one_blas_thread
from .ranking import Ranked, ranked
from .rows import PLAIN, Merge, OfBlock, Plan, Rows
from .threads import max_threads, share

# 1 MiB of float32. With smaller blocks threads contend for the interpreter lock, larger ones do
# not fit into the cache.
BLOCK_ELEMENTS = 1 << 18
# 128 KiB of float64. Allocating larger arrays costs more than computing with them where malloc
# returns memory to the system at once, as Dask configures it for its worker processes.
SMALL_BLOCK_ELEMENTS = 1 << 14
# Reductions along short rows run several times faster when the columns are contiguous.
NARROW_COLUMNS = 128
# Up to so many columns are fastest written one at a time.
FEW_COLUMNS = 4
# Least number of elements per thread: for fewer, the overhead exceeds the gain.
THREAD_ELEMENTS = 1 << 17
# Largest number of scores stored at a time, by columns: more scores take more passes.
AT_A_TIME = 1 << 25

T = TypeVar("T")


class MemoryRows(Rows):
    """Rows in memory, which are divided among threads."""

    passes_are_cheap: ClassVar[bool] = True

    _all_rows: list[Array | None] | None = None

    def reduce(self, merge: Merge, f: OfBlock, plan: Plan = PLAIN) -> Any:
        if self._are_one_block(plan):
            spare = [_columns(self.X, self.n_rows, plan.dtype) for _ in range(plan.scratch)]
            return f(*self._one_block(), *spare)

        def total(start: int, stop: int) -> Any:
            return reduce(merge, (f(*block) for _, block in self._blocks(start, stop, plan)))

        return reduce(merge, self._in_threads(total))

    def reduce_in_one_thread(self, merge: Merge, f: OfBlock, plan: Plan) -> Any:
        """As :meth:`reduce`, with an order of operations that does not depend on the threads."""
        blocks = self._blocks(0, self.n_rows, plan)
        return with_one_blas_thread(reduce, merge, (f(*block) for _, block in blocks))

    def map(self, f: OfBlock, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Any:
        """``f`` of every block, concatenated into one array or a tuple of arrays.

        ``order`` is the memory layout of the arrays.
        """
        # The first tells the shape of the results: all rows, if they are few.
        n_rows, few = self.n_rows, self._are_one_block(plan)
        first = f(*self._first_block(n_rows if few else 1, plan))
        several = isinstance(first, tuple)
        out = tuple(
            np.empty((n_rows, *one.shape[1:]), one.dtype, order)
            for one in (first if several else (first,))
        )

        def write(rows: slice, values: Any) -> None:
            for target, value in zip(out, values if several else (values,), strict=True):
                _write(value, target[rows])

        def fill(start: int, stop: int) -> None:
            for rows, block in self._blocks(start, stop, plan):
                write(rows, f(*block))

        if few:
            write(slice(None), first)
        else:
            self._in_threads(fill)
        return out if several else out[0]

    def ranked(
        self, of_block: OfBlock, n_columns: int, then: Callable[[Ranked], T], *, events: bool = True
    ) -> list[T]:
        found: list[T] = []
        while len(found) < n_columns:
            some = slice(len(found), len(found) + max(1, AT_A_TIME // self.n_rows))
            S, E = self.stored(of_block, some)

            def of_column(k: int, S: Array = S, E: Array = E) -> T:
                return then(ranked(S[k], E[k] if events else None, self.w))

            found += map_columns(of_column, *S.shape)
        return found

    def stored(self, of_block: Any, some: slice = slice(None)) -> tuple[Array, Array]:
        """Scores and events of all rows for a slice of the columns: (n_columns, n)."""

        def of_some(X: Array, y: Any, *_: Any) -> tuple[Array, Array]:
            S, E = of_block(X, y)
            return S[:, some], E[:, some]

        S, E = self.map(of_some, order="F")
        return S.T, E.T

    def relabelled(self, f: Callable[[Any], Array]) -> Self:
        return type(self)(self.X, f(self.y), *self.arrays[2:], weight=self._weight)

    def in_memory(self) -> Self:
        return self

    def every(self, step: int) -> Self:
        return self._having(*(None if a is None else a[::step] for a in self.arrays))

    def _call(self, f: Callable[[Rows], T], step: int) -> T:
        return f(self.every(step))

    def _first_block(self, n_rows: int, plan: Plan) -> list[Array | None]:
        return next(self._blocks(0, n_rows, plan))[1]

    def _blocks(
        self, start: int, stop: int, plan: Plan
    ) -> Iterator[tuple[slice, list[Array | None]]]:
        """Slices of rows with the block of each array, and scratch arrays, which are reused."""
        step = min(self._rows_of_a_block(plan), stop - start)
        columns = [_columns(a, step) if _is_copied(a) else None for a in self.arrays]
        spare = [_columns(self.X, step, plan.dtype) for _ in range(plan.scratch)]
        for low in range(start, stop, step):
            rows = slice(low, min(low + step, stop))
            size = rows.stop - low
            blocks = [
                a if a is None else a[rows] if c is None else _copied(a[rows], c[:size])
                for a, c in zip(self.arrays, columns, strict=True)
            ]
            yield rows, [*blocks, *(s[:size] for s in spare)]

    def _are_one_block(self, plan: Plan) -> bool:
        """Whether all rows are one block."""
        return self.n_rows <= self._rows_of_a_block(plan) and self._n_threads() < 2

    def _one_block(self) -> list[Array | None]:
        """All rows as a block, which is kept for the next pass."""
        if self._all_rows is None:
            self._all_rows = [_by_columns(a) if _is_narrow(a) else a for a in self.arrays]
        return self._all_rows

    def _rows_of_a_block(self, plan: Plan) -> int:
        elements = SMALL_BLOCK_ELEMENTS if _gives_memory_back() else BLOCK_ELEMENTS
        return max(plan.at_least, elements // (self._width * plan.room))

    def _n_threads(self) -> int:
        n = min(self.n_rows, self.n_rows * self._width // THREAD_ELEMENTS)
        return min(max_threads(), n) if n > 1 else n

    def _in_threads(self, work: Callable[[int, int], Any]) -> list[Any]:
        """Results of ``work(start, stop)`` over spans that cover all rows, in row order."""
        n_rows, n_threads = self.n_rows, self._n_threads()
        if n_threads < 2:
            return [work(0, n_rows)]
        ends = np.linspace(0, n_rows, n_threads + 1).astype(int).tolist()
        return share(lambda span: work(*span), pairwise(ends), n_threads)


@cache
def _gives_memory_back() -> bool:
    """Whether the malloc of this process returns freed memory to the system at once."""
    # The environment at the start of the process; Dask's workers change os.environ afterwards.
    try:
        return b"MALLOC_TRIM_THRESHOLD_=" in Path("/proc/self/environ").read_bytes()
    except OSError:  # another system, where the setting has no effect
        return False


def _is_narrow(a: Array | None) -> bool:
    return a is not None and a.ndim == 2 and 1 < a.shape[1] <= NARROW_COLUMNS


def _is_copied(a: Array | None) -> bool:
    return a is not None and _is_narrow(a) and not a.flags.f_contiguous


def _columns(a: Any, n_rows: int, dtype: DTypeLike | None = None) -> Array:
    shape = (n_rows, *a.shape[1:])
    return np.empty(shape, dtype or a.dtype, order="F" if _is_narrow(a) else "C")


def _by_columns(a: Any) -> Array:
    copy = np.array(a, order="F")
    copy.flags.writeable = False  # functions of blocks are pure
    return copy


def _write(source: Array, target: Array) -> None:
    if source.ndim == 2 and source.shape[1] <= FEW_COLUMNS:
        for k in range(source.shape[1]):
            target[:, k] = source[:, k]
    else:
        target[:] = source


def _copied(source: Array, target: Array) -> Array:
    np.copyto(target, source)
    return target


def map_columns(f: Callable[[int], Any], n_columns: int, n_rows: int) -> list[Any]:
    """``f(k)`` for every column k, in threads if there are enough elements."""
    n_threads = min(max_threads(), n_columns, n_columns * n_rows // THREAD_ELEMENTS)
    return share(f, range(n_columns), n_threads)

"""Rows: arrays with one entry per row, and sums and maps over blocks of them.

Rows are in memory, in a memory-mapped file, or in the chunks of a Dask collection
(:class:`~.dask.DaskRows`). A block is small enough that the block and the temporaries of a function
of it stay in the cache, so plain array expressions run at the speed of a fused loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property, partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, Literal, Self

import numpy as np

from .arrays import Array
from .parallel import max_threads, share

# Functions of a block of each array, and operations that put their results together.
BlockFunction = Callable[..., Any]
Reduction = Callable[[Any, Any], Any]

# 512 KiB of float64: temporaries of kernels stay in the cache, and malloc does not map each of them
# into memory anew, which costs more than the arithmetic.
BLOCK_ELEMENTS = 1 << 16
# Rows of a block, at least, and elements per thread: with fewer, the overhead exceeds the gain.
BLOCK_ROWS, THREAD_ELEMENTS = 256, 1 << 17
# Largest number of mapped logits that are stored; otherwise each pass computes them.
MOST_STORED = 1 << 22


class Rows:
    """Logits or probabilities ``X`` (n, ...), labels ``y`` (n,) and weights ``w`` (n,) or None.

    ``classes`` are the labels of the columns, if ``y`` contains class indices. ``groups`` (n,) has
    the group of each row. ``masked`` says whether some logits are -inf, which masks the class in
    the row. Functions of blocks are pure, can be pickled and must not hold the rows.
    """

    #: Whether the rows are in this process, so that a pass needs no round trip to workers.
    is_local = True

    def __init__(
        self,
        X: Any,
        y: Any = None,
        w: Any = None,
        *,
        classes: Any = None,
        groups: Any = None,
        masked: bool = False,
    ) -> None:
        self.X, self.y, self.w = X, y, w
        self.classes, self.groups, self.masked = classes, groups, masked
        self.n_rows, self.dtype = len(X), X.dtype
        self.n_columns = X.shape[1] if X.ndim > 1 else 1

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        if self.w is None:
            return float(self.n_rows)
        with np.errstate(over="ignore"):
            return float(self.sum(lambda X, y, w: w.sum()))

    @property
    def least_weight(self) -> float:
        """Smallest positive weight."""
        if self.w is None:
            return 1.0
        smallest = self.sum(lambda X, y, w: w[w > 0].min(initial=np.inf), merge=np.minimum)
        return float(smallest)

    def sum(self, f: BlockFunction, *, merge: Reduction = add, at_least: int = 1) -> Any:
        """Return the sum of ``f(X, y, w)`` over blocks of rows, added in row order.

        ``f`` returns a float64 array for rows of any dtype, with a shape that does not depend on
        the block. The number of threads and the block size change the sum by rounding only.
        ``merge`` is another associative operation in place of addition, such as ``np.maximum``.
        ``at_least`` is the smallest number of rows of a block, for a result as large as many rows.
        """
        arrays = self.X, self.y, self.w
        work = partial(sum_blocks, f, arrays, merge, at_least)
        return reduce(merge, share(work, _spans(arrays)))

    def map(self, f: BlockFunction) -> Rows:
        """Return the rows with ``f(X, y, w)`` in place of the logits.

        Few results are stored. Many are computed in each pass over the returned rows.
        """
        if self.n_rows * self.n_columns > MOST_STORED:
            return self.replace(X=Computed(self, f))
        return self.replace(X=map_blocks(f, self.X, self.y, self.w, order="F"))

    def take(self, index: Any) -> Rows:
        """Return some of the rows in memory, by their numbers or a slice."""
        arrays = (self.X, self.y, self.w, self.groups)
        X, y, w, groups = (a if a is None else a[index] for a in arrays)
        return Rows(X, y, w, classes=self.classes, groups=groups, masked=self.masked)

    def replace(self, **changes: Any) -> Self:
        """Return the rows with other arrays or attributes, by their names."""
        names = ("X", "y", "w", "classes", "groups", "masked")
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def relabel(self, f: Callable[[Any], Array], **changes: Any) -> Self:
        """Return the rows with labels ``f(y)``, and with other attributes by their names."""
        return self.replace(y=f(self.y), **changes)

    def in_memory(self) -> Rows:
        """Return the rows in the memory of this process; for many rows of Dask, a random sample."""
        return self


class Computed:
    """Array of ``f(X, y, w)`` of rows, which is computed for the rows that are asked for."""

    def __init__(self, rows: Rows, f: BlockFunction) -> None:
        self.rows, self.f = rows, f
        first = self[:1]
        self.shape, self.ndim = (rows.n_rows, *first.shape[1:]), first.ndim
        self.dtype = first.dtype

    def __len__(self) -> int:
        return self.rows.n_rows

    def __getitem__(self, index: Any) -> Array:
        part = self.rows.take(index)
        return np.asarray(self.f(_by_columns(part.X), part.y, part.w))


def thin(rows: Rows, at_least: int = 512) -> Rows | None:
    """Return every k-th row in memory, or None if the rows are too few or too wide to thin.

    k is 64, but smaller if ``at_least`` rows would not remain, and larger if the sample had more
    than 16 million numbers.
    """
    most = 1 << 24
    step = min(max(64, rows.n_rows * rows.n_columns // most), rows.n_rows // at_least)
    if step < 2 or at_least * rows.n_columns > most:
        return None
    return rows.take(slice(None, None, step))


def map_blocks(f: BlockFunction, *arrays: Any, order: Literal["C", "F"] = "C") -> Any:
    """Return ``f(*block)`` of all blocks in one array, or in a tuple if ``f`` returns a tuple.

    ``arrays`` have one entry per row, or are None. ``order`` is the memory layout of the result.
    """
    n_rows = len(arrays[0])
    if n_rows <= _block_rows(arrays):
        values = f(*map(_by_columns, arrays))
        if isinstance(values, tuple):
            return tuple(np.array(value, order=order) for value in values)
        return np.array(values, order=order)
    first = f(*(a if a is None else _by_columns(a[:1]) for a in arrays))  # has shapes and dtypes
    is_tuple = isinstance(first, tuple)
    out = tuple(
        np.empty((n_rows, *a.shape[1:]), a.dtype, order) for a in (first if is_tuple else (first,))
    )

    def fill(start: int, stop: int) -> None:
        for rows, block in _blocks(arrays, start, stop):
            values = f(*block)
            for target, value in zip(out, values if is_tuple else (values,), strict=True):
                target[rows] = value

    share(fill, _spans(arrays))
    return out if is_tuple else out[0]


def sum_blocks(
    f: BlockFunction, arrays: Any, merge: Reduction, at_least: int, start: int, stop: int
) -> Any:
    """Return the sum of ``f(*block)`` over the rows from ``start`` to ``stop``, in this thread."""
    return reduce(merge, (f(*block) for _, block in _blocks(arrays, start, stop, at_least)))


def _blocks(
    arrays: Any, start: int, stop: int, at_least: int = 1
) -> Iterator[tuple[slice, list[Array | None]]]:
    """Yield slices of rows with the block of each array."""
    step = max(at_least, _block_rows(arrays))
    for low in range(start, stop, step):
        rows = slice(low, min(low + step, stop))
        yield rows, [a if a is None else _by_columns(a[rows]) for a in arrays]


def _block_rows(arrays: Any) -> int:
    """Return the number of rows of a block."""
    return max(BLOCK_ROWS, BLOCK_ELEMENTS // _width(arrays))


def _width(arrays: Any) -> int:
    """Return the number of elements in a row of the widest array."""
    return max(1, *(math.prod(a.shape[1:]) for a in arrays if a is not None))


def _by_columns(block: Any) -> Any:
    """Return a block with contiguous columns: reductions along short rows are then faster."""
    if block is None or block.ndim != 2 or not 1 < block.shape[1] <= 128:
        return block
    return block if block.strides[0] == block.itemsize else np.asfortranarray(block)


def _spans(arrays: Any) -> list[tuple[int, int]]:
    """Return the first row and the end of the rows of each thread."""
    n_rows = len(arrays[0])
    n = n_rows * _width(arrays) // THREAD_ELEMENTS
    if n < 2:
        return [(0, n_rows)]
    ends = np.linspace(0, n_rows, min(max_threads(), n) + 1).astype(int).tolist()
    return list(pairwise(ends))

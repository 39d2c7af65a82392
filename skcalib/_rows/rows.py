"""Rows: arrays with one entry per row, and sums and maps over blocks.

Rows are in memory, in a memory-mapped file, or in Dask chunks (:class:`~.dask.DaskRows`). Blocks
are so small that they stay in the cache, with all temporary arrays. Plain array expressions then
run at the speed of a fused loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, Literal, Self

import numpy as np

from skcalib._typing import Array

from .parallel import share

# Functions ``f(X, y, w)`` of a block, and operations that merge two results.
BlockFunction = Callable[..., Any]
Reduction = Callable[[Any, Any], Any]

# 512 KiB of float64: temporary arrays stay in the cache, and malloc does not map each into memory
# anew, which costs more than the arithmetic.
BLOCK_ELEMENTS = 1 << 16
# Smallest block: with fewer rows, the overhead exceeds the gain.
BLOCK_ROWS = 256
# Blocks with up to this number of columns are made contiguous.
NARROW_COLUMNS = 128
# ``map`` stores up to this number of logits; otherwise each pass computes them.
MOST_STORED = 1 << 22


class Rows:
    """Logits or probabilities ``X`` (n, ...), labels ``y`` (n,) and weights ``w`` (n,) or None.

    ``classes`` are the column labels if ``y`` contains class indices. ``groups`` (n,) names groups.
    ``masked`` says whether some logits are -inf, which masks the class in the row. ``order`` are
    the labels from the lowest to the highest, if the categories of ``y`` or the user define an
    order. Functions of blocks are pure, can be pickled and do not refer to the rows.
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
        order: Any = None,
    ) -> None:
        self.X, self.y, self.w = X, y, w
        self.classes, self.groups, self.masked, self.order = classes, groups, masked, order
        self.n_rows, self.dtype = len(X), X.dtype
        self.n_columns = X.shape[1] if X.ndim > 1 else 1

    @cached_property
    def weight(self) -> float:
        """Total weight."""
        if self.w is None:
            return float(self.n_rows)
        with np.errstate(over="ignore"):
            return float(self.sum(lambda X, y, w: w.sum()))

    @cached_property
    def sample(self) -> Rows:
        """Every k-th row, in memory: at least 1024 rows, and four per column, for rough means.

        All rows if they have weights, since a sample may miss the rows that matter.
        """
        step = self.n_rows // max(4 * self.n_columns, 1024)
        if self.w is not None or step < 2:
            return self
        return self.take(slice(None, None, step)).map(lambda X, y, w: X)  # contiguous

    @property
    def smallest_weight(self) -> float:
        """Smallest positive weight."""
        if self.w is None:
            return 1.0
        smallest = self.sum(lambda X, y, w: w[w > 0].min(initial=np.inf), merge=np.minimum)
        return float(smallest)

    def sum(self, f: BlockFunction, *, merge: Reduction = add, at_least: int = 1) -> Any:
        """Sum ``f(X, y, w)`` over blocks in row order.

        ``f`` returns a float64 array, with a shape that does not depend on the block. Threads and
        block sizes change the sum by rounding only. ``merge`` replaces addition by another
        associative operation, such as ``np.maximum``. Blocks have ``at_least`` rows: raise it if
        the result is as large as many rows.
        """
        arrays = self.X, self.y, self.w
        blocks = block_slices(arrays, at_least)
        if len(blocks) == 1:
            return f(*block_of(arrays, blocks[0]))
        return reduce(merge, share(partial(sum_blocks, f, merge, arrays), blocks))

    def map(self, f: BlockFunction) -> Rows:
        """Replace the logits by ``f(X, y, w)``.

        Few results are stored. Many results are computed in each pass over the returned rows.
        """
        if self.n_rows * self.n_columns > MOST_STORED:
            return self.replace(X=Computed(self, f))
        return self.replace(X=map_blocks(f, self.X, self.y, self.w, order="F"))

    def take(self, index: Any) -> Rows:
        """Select rows by their numbers or a slice, in memory."""
        arrays = (self.X, self.y, self.w, self.groups)
        X, y, w, groups = (a if a is None else a[index] for a in arrays)
        return self.replace(X=X, y=y, w=w, groups=groups)

    def replace(self, **changes: Any) -> Self:
        """Replace arrays or attributes, by name."""
        names = ("X", "y", "w", "classes", "groups", "masked", "order")
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def relabel(self, f: Callable[[Any], Array], **changes: Any) -> Self:
        """Replace the labels by ``f(y)``, and attributes that are no arrays by name."""
        rows = copy(self)
        vars(rows).update(y=f(self.y), **changes)
        return rows

    def in_memory(self) -> Rows:
        """Return the rows in the memory of this process, a random sample if Dask has many rows."""
        return self


class Computed:
    """Array ``f(X, y, w)``, computed only for the rows that are indexed."""

    def __init__(self, rows: Rows, f: BlockFunction) -> None:
        self.rows, self.f = rows, f
        first = self[:1]
        self.shape, self.ndim = (rows.n_rows, *first.shape[1:]), first.ndim
        self.dtype = first.dtype

    def __len__(self) -> int:
        return self.rows.n_rows

    def __getitem__(self, index: Any) -> Array:
        part = self.rows.take(index)
        return np.asarray(self.f(*block_of((part.X, part.y, part.w), slice(None))))


def thin(rows: Rows, at_least: int = 512) -> Rows | None:
    """Return every k-th row in memory, or None if the rows are too few or too wide to thin.

    k is 64. It is smaller if fewer than ``at_least`` rows would remain, and larger if the sample
    had more than 16 million numbers.
    """
    most = 1 << 24
    step = min(max(64, rows.n_rows * rows.n_columns // most), rows.n_rows // at_least)
    if step < 2 or at_least * rows.n_columns > most:
        return None
    return rows.take(slice(None, None, step))


def map_blocks(f: BlockFunction, *arrays: Any, order: Literal["C", "F"] = "C") -> Any:
    """Concatenate ``f(*block)`` over all blocks, or tuples if ``f`` returns a tuple.

    ``arrays`` have one entry per row, or are None. ``order`` is the memory layout of the result.
    """
    blocks = block_slices(arrays)
    if len(blocks) == 1:
        values = f(*block_of(arrays, blocks[0]))
        if isinstance(values, tuple):
            return tuple(np.array(value, order=order) for value in values)
        return np.array(values, order=order)
    first = f(*block_of(arrays, slice(1)))  # for the shapes and dtypes
    is_tuple = isinstance(first, tuple)
    out = tuple(
        np.empty((len(arrays[0]), *a.shape[1:]), a.dtype, order)
        for a in (first if is_tuple else (first,))
    )

    def fill(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            values = f(*block_of(arrays, rows))
            for target, value in zip(out, values if is_tuple else (values,), strict=True):
                target[rows] = value

    share(fill, blocks)
    return out if is_tuple else out[0]


def sum_blocks(f: BlockFunction, merge: Reduction, arrays: Any, blocks: Sequence[slice]) -> Any:
    """Sum ``f(*block)`` over blocks of rows in this thread."""
    total = f(*block_of(arrays, blocks[0]))
    for rows in blocks[1:]:
        total = merge(total, f(*block_of(arrays, rows)))
    return total


def block_slices(arrays: Any, at_least: int = 1) -> list[slice]:
    """Divide arrays with equal lengths, or None, into blocks: a slice of rows per block."""
    width, n_rows = 1, len(arrays[0])
    for a in arrays:
        if a is not None:
            width = max(width, math.prod(a.shape[1:]))
    step = max(at_least, BLOCK_ROWS, BLOCK_ELEMENTS // width)
    if n_rows <= step:
        return [slice(None)]
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def block_of(arrays: Any, rows: slice) -> list[Any]:
    """Select rows in all arrays, and make few columns contiguous.

    Reductions along short rows are two to eight times as fast on contiguous columns.
    """
    block = []
    for a in arrays:
        part: Any = a if a is None else a[rows]
        is_narrow = part is not None and part.ndim == 2 and 1 < part.shape[1] <= NARROW_COLUMNS
        if is_narrow and part.strides[0] != part.itemsize:
            part = np.asfortranarray(part)
        block.append(part)
    return block

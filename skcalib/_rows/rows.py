"""Rows: arrays with one entry per row, and passes over them.

The interface has three implementations: rows in memory or in memory-mapped files, row-chunked Dask
collections (:class:`~.dask.DaskRows`), and rows of either kind with a function of their logits that
each pass computes. Modules outside this package use the interface only.

Rows in memory are passed block by block. A block is small enough that it and the temporaries of a
function of it stay in the cache, so plain array expressions run at the speed of a fused loop.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, Literal, Self, TypeVar

import numpy as np

from .arrays import Array
from .parallel import max_threads, share
from .ranking import Ranked, are_single, distinct_scores

T = TypeVar("T")

# Functions of a block of each array, and operations that put their results together.
BlockFunction = Callable[..., Any]
Reduction = Callable[[Any, Any], Any]

# A sample has every 64th row; more rows if these were fewer than the second number, and fewer if
# these had more elements than the third.
SAMPLE_EVERY, SAMPLE_ROWS, SAMPLE_ELEMENTS = 64, 512, 1 << 24
# 512 KiB of float64: temporaries of kernels stay in the cache, and malloc does not map each of them
# into memory anew, which costs more than the arithmetic.
BLOCK_ELEMENTS = 1 << 16
# Reductions along short rows run two to eight times as fast when the columns are contiguous.
NARROW_COLUMNS = 128
# Least number of elements per thread: for fewer, the overhead exceeds the gain.
THREAD_ELEMENTS = 1 << 17
# Largest number of logits for which a function of them is stored; otherwise each pass computes it.
MOST_STORED = 1 << 22
# Largest number of scores stored at a time, by columns: more scores take more passes.
AT_A_TIME = 1 << 25


@dataclass(frozen=True)
class Plan:
    """Size of the blocks of a pass.

    Blocks have ``at_least`` this many rows if there are as many, for functions that loop over
    columns or return large arrays. ``room`` is the size of the largest temporary array relative to
    the block; blocks are smaller by this factor.
    """

    at_least: int = 1
    room: int = 1


PLAIN = Plan()


class Rows(ABC):
    """Arrays with one entry for each row: ``X``, ``y`` and ``w``, and others.

    ``classes`` are the labels of the columns, if ``y`` holds class indices. ``groups`` (n,) has the
    group of each row. ``masked`` says whether some logits are -inf, which masks the class in the
    row. Derived rows keep all three. Passes do not hand them to functions of blocks.

    The functions that a pass applies to blocks are pure, can be pickled and must not hold the rows.
    """

    # Whether a pass costs no more than its arithmetic: no round trip to workers.
    is_local: bool

    X: Any  #: logits or probabilities (n, ...)
    y: Any  #: labels or class indices (n,)
    w: Any  #: weights (n,), or None for ones

    def __init__(
        self,
        *arrays: Any,
        n_rows: int | None = None,
        weight: float | None = None,
        classes: Any = None,
        groups: Any = None,
        masked: bool = False,
    ) -> None:
        self.arrays = arrays
        self.X, self.y, self.w, *_ = *arrays, None, None  # missing arrays are None
        self.classes, self.groups, self.masked = classes, groups, masked
        self.n_rows = len(self.X) if n_rows is None else n_rows
        self.n_columns = self.X.shape[1] if self.X.ndim > 1 else 1
        self.dtype = self.X.dtype
        # Facts that hold for derived rows as well.
        self.about = {"weight": weight, "classes": classes, "groups": groups, "masked": masked}
        #: number of elements in a row of the widest array
        self._width = max(math.prod(a.shape[1:]) for a in arrays if a is not None)

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        if self.about["weight"] is None:
            with np.errstate(over="ignore"):
                total = self.n_rows if self.w is None else self.sum(lambda _, __, w, *___: w.sum())
            self.about["weight"] = float(total)
        return float(self.about["weight"])

    @property
    def least_weight(self) -> float:
        """The smallest positive weight."""
        if self.w is None:
            return 1.0
        least = self.sum(lambda _, __, w, *___: w[w > 0].min(initial=np.inf), merge=np.minimum)
        return float(least)

    @abstractmethod
    def sum(self, f: BlockFunction, plan: Plan = PLAIN, merge: Reduction = add) -> Any:
        """Sum over the blocks of ``f(*block)``, added in row order.

        ``f`` returns a float64 array for rows of any dtype, with a shape that does not depend on
        the block. The number of threads and the block size change the sum by rounding only.
        ``merge`` is another associative operation in place of addition, such as ``np.maximum``.
        """

    @abstractmethod
    def map(self, f: BlockFunction, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Any:
        """``f(*block)`` of all blocks, concatenated into one array, for :meth:`with_logits`.

        In memory ``f`` may also return a tuple of arrays, for a tuple of arrays in ``order``, their
        memory layout.
        """

    @abstractmethod
    def with_logits(self, X: Any) -> Rows:
        """The rows with other logits, a result of :meth:`map`."""

    @abstractmethod
    def relabelled(self, f: Callable[[Any], Array], **about: Any) -> Self:
        """The rows with class indices ``f(y)`` in place of labels ``y``.

        ``about`` are arguments of the rows by their names, such as ``classes``.
        """

    @abstractmethod
    def in_memory(self) -> MemoryRows:
        """The rows in the memory of this process; for many rows of Dask a random sample."""

    @abstractmethod
    def thinned(self, step: int) -> MemoryRows:
        """Every k-th row, in the memory of this process."""

    def mapped(self, f: BlockFunction) -> Rows:
        """The rows with ``f(*block)`` in place of the logits, stored unless there are too many."""
        if self.n_rows * self.n_columns > MOST_STORED:
            return LazyRows(self, f)
        return self.with_logits(self.map(f, order="F"))

    def ranked(
        self, f: BlockFunction, n_columns: int, then: Callable[[Ranked], T], *, events: bool = True
    ) -> list[T]:
        """``then`` applied to the distinct scores of each column, with their weight and hits.

        ``f(X, y)`` returns the scores and events of a block, both (m, n_columns).
        """
        return self.in_memory().ranked(f, n_columns, then, events=events)

    def sample(self, f: Callable[[Rows], T], at_least: int = SAMPLE_ROWS) -> T | None:
        """``f`` of every k-th row, at least ``at_least`` rows.

        None if a sample would have all rows, or too many elements.
        """
        step = max(SAMPLE_EVERY, self.n_rows * self._width // SAMPLE_ELEMENTS)
        step = max(min(step, self.n_rows // at_least), 1)
        few = step > 1 and at_least * self._width <= SAMPLE_ELEMENTS
        return f(self.thinned(step)) if few else None


class MemoryRows(Rows):
    """Rows in memory, which are divided among threads."""

    is_local = True

    _only_block: list[Any] | None = None  # kept for the next pass

    def sum(self, f: BlockFunction, plan: Plan = PLAIN, merge: Reduction = add) -> Any:
        if block := self._one_block(plan):
            return f(*block)
        return reduce(merge, self._in_threads(partial(self.reduced, merge, f, plan)))

    def reduced(self, merge: Reduction, f: BlockFunction, plan: Plan, start: int, stop: int) -> Any:
        """:meth:`sum` over some of the rows, in this thread."""
        return reduce(merge, (f(*block) for _, block in self._blocks(start, stop, plan)))

    def map(self, f: BlockFunction, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Any:
        if block := self._one_block(plan):
            values = f(*block)
            if isinstance(values, tuple):
                return tuple(np.array(value, order=order) for value in values)
            return np.array(values, order=order)
        _, first_row = next(self._blocks(0, 1, plan))
        like = f(*first_row)  # shapes and dtypes of the results
        is_tuple = isinstance(like, tuple)
        out = tuple(
            np.empty((self.n_rows, *one.shape[1:]), one.dtype, order)
            for one in (like if is_tuple else (like,))
        )

        def fill(start: int, stop: int) -> None:
            for rows, block in self._blocks(start, stop, plan):
                values = f(*block)
                for target, value in zip(out, values if is_tuple else (values,), strict=True):
                    target[rows] = value

        self._in_threads(fill)
        return out if is_tuple else out[0]

    def ranked(
        self, f: BlockFunction, n_columns: int, then: Callable[[Ranked], T], *, events: bool = True
    ) -> list[T]:
        results: list[T] = []
        single = are_single(self.X)
        while len(results) < n_columns:
            columns = slice(len(results), len(results) + max(1, AT_A_TIME // self.n_rows))

            def scores(X: Array, y: Any, *_: Any, columns: slice = columns) -> tuple[Array, Array]:
                S, E = f(X, y)
                return S[:, columns], E[:, columns]

            S, E = self.map(scores, order="F")

            def ranked_column(k: int, S: Array = S, E: Array = E) -> T:
                hits = E[:, k] if events else None
                return then(distinct_scores(S[:, k], hits, self.w, single=single))

            results += share(ranked_column, range(S.shape[1]), _n_threads(S.shape[1], S.size))
        return results

    def with_logits(self, X: Any) -> Self:
        return type(self)(X, *self.arrays[1:], **self.about)

    def extended(self, array: Any) -> Self:
        """The rows with another array."""
        return type(self)(*self.arrays, array, **self.about)

    def grouped(self, groups: Array) -> Self:
        """The rows with the group of each row."""
        return type(self)(*self.arrays, **self.about | {"groups": groups})

    def relabelled(self, f: Callable[[Any], Array], **about: Any) -> Self:
        return type(self)(self.X, f(self.y), *self.arrays[2:], **self.about | about)

    def in_memory(self) -> Self:
        return self

    def thinned(self, step: int) -> Self:
        return self if step == 1 else self.taken(slice(None, None, step))

    def taken(self, numbers: Any) -> Self:
        """Some of the rows, by their numbers."""
        *arrays, groups = (a if a is None else a[numbers] for a in (*self.arrays, self.groups))
        return type(self)(*arrays, classes=self.classes, groups=groups, masked=self.masked)

    def _one_block(self, plan: Plan) -> list[Array | None] | None:
        """All rows, if they are one block."""
        if self.n_rows * self._width >= 2 * THREAD_ELEMENTS:  # for threads
            return None
        if self._step(self.n_rows, plan) < self.n_rows:
            return None
        if self._only_block is None:
            block = list(self.arrays)
            for k, a in enumerate(block):
                if _is_narrow(a):
                    block[k] = np.array(a, order="F")
                    block[k].flags.writeable = False  # functions of blocks are pure
            self._only_block = block  # set last: other threads must not see a part of it
        return self._only_block

    def _blocks(
        self, start: int, stop: int, plan: Plan
    ) -> Iterator[tuple[slice, list[Array | None]]]:
        """Slices of rows with the block of each array."""
        step = self._step(stop - start, plan)
        # Narrow arrays are copied to have contiguous columns. All blocks share the memory.
        copies = {
            k: np.empty((step, a.shape[1]), a.dtype, order="F")
            for k, a in enumerate(self.arrays)
            if _is_narrow(a) and not a.flags.f_contiguous
        }
        for low in range(start, stop, step):
            rows = slice(low, min(low + step, stop))
            size = rows.stop - low
            blocks: list[Any] = [a if a is None else a[rows] for a in self.arrays]
            for k, copy in copies.items():
                np.copyto(copy[:size], blocks[k])
                blocks[k] = copy[:size]
            yield rows, blocks

    def _step(self, n_rows: int, plan: Plan) -> int:
        """Number of rows of a block, for a number of rows."""
        return min(n_rows, max(plan.at_least, BLOCK_ELEMENTS // (self._width * plan.room)))

    def _in_threads(self, work: Callable[[int, int], Any]) -> list[Any]:
        """Results of ``work(start, stop)`` over spans that cover all rows, in row order."""
        n_threads = _n_threads(self.n_rows, self.n_rows * self._width)
        ends = np.linspace(0, self.n_rows, n_threads + 1).astype(int).tolist()
        return share(lambda span: work(*span), pairwise(ends), n_threads)


class LazyRows(Rows):
    """Rows with a function of their blocks in place of the logits, which each pass computes."""

    def __init__(self, rows: Rows, f: BlockFunction) -> None:
        one_row = (None if a is None else np.zeros((1, *a.shape[1:]), a.dtype) for a in rows.arrays)
        like = f(*one_row)[:0]  # has the dtype and the columns
        super().__init__(like, *rows.arrays[1:], n_rows=rows.n_rows, **rows.about)
        self.is_local = rows.is_local
        self._rows, self._f = rows, f

    def sum(self, f: BlockFunction, plan: Plan = PLAIN, merge: Reduction = add) -> Any:
        return self._rows.sum(partial(_after, self._f, f), plan, merge)

    def map(self, f: BlockFunction, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Any:
        return self._rows.map(partial(_after, self._f, f), plan, order)

    def mapped(self, f: BlockFunction) -> LazyRows:
        return LazyRows(self, f)

    def with_logits(self, X: Any) -> Rows:
        return self._rows.with_logits(X)

    def relabelled(self, f: Callable[[Any], Array], **about: Any) -> Self:
        return type(self)(self._rows.relabelled(f, **about), self._f)

    def in_memory(self) -> MemoryRows:
        return self._stored(self._rows.in_memory())

    def thinned(self, step: int) -> MemoryRows:
        return self._stored(self._rows.thinned(step))

    def _stored(self, rows: MemoryRows) -> MemoryRows:
        return rows.with_logits(rows.map(self._f, order="F"))


def _after(first: BlockFunction, then: BlockFunction, *arrays: Any) -> Any:
    """``then`` of a block with the result of ``first`` in place of its logits."""
    return then(first(*arrays), *arrays[1:])


def _is_narrow(a: Any) -> bool:
    return a is not None and a.ndim == 2 and 1 < a.shape[1] <= NARROW_COLUMNS


def _n_threads(n_parts: int, n_elements: int) -> int:
    n = min(n_parts, n_elements // THREAD_ELEMENTS)
    return min(max_threads(), n) if n > 1 else 1

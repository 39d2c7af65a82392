"""Sums and maps over blocks of consecutive rows: the only place that walks through data.

A block is small enough that it and the temporaries made from it stay in the cache, so a
pure function of arrays can be written plainly and still runs at the speed of a fused loop.
Nothing here knows what is being added up. Memory-mapped arrays are read block by block.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, reduce
from itertools import pairwise
from operator import add
from typing import Any

import joblib
import numpy as np
from numpy.typing import DTypeLike, NDArray
from threadpoolctl import ThreadpoolController

# 1 MiB of float32. Smaller blocks spend their time handing the interpreter lock from thread to
# thread, larger ones leave the cache.
BLOCK_ELEMENTS = 1 << 18
# Reductions along short rows run several times faster when the columns are contiguous.
NARROW_COLUMNS = 128
# Fewer elements than this for a thread cost more to hand over than they save.
THREAD_ELEMENTS = 1 << 17

Array = NDArray[Any]
Rows = Array | None


def sum_rows(
    f: Callable[..., Array], *arrays: Rows, scratch: int = 0, dtype: DTypeLike | None = None
) -> Array:
    """Sum of ``f`` over blocks of consecutive rows of ``arrays``, added in row order.

    Parameters
    ----------
    f : callable
        Pure function of one block of each array; returns an array of a shape that does not
        depend on the block, in float64 whatever the dtype of the rows.
    *arrays : ndarray of shape (n_samples, ...) or None
        Blocks of the same rows of each are handed over together; None is handed over as None.
    scratch : int
        How many arrays like the block of the first array, of undefined content, to hand over
        behind the blocks. Fresh memory for large temporaries costs more than the arithmetic
        that fills them.
    dtype : dtype
        Of the scratch arrays, if not that of the first array.

    Returns
    -------
    ndarray
        The sum. Threads and block size change it by rounding only.
    """

    def total(start: int, stop: int) -> Array:
        blocks = _blocks(arrays, start, stop, scratch, dtype)
        return reduce(add, (f(*block) for _, block in blocks))

    return reduce(add, _in_threads(total, arrays))


def map_rows(f: Callable[..., Array], *arrays: Rows, at_least: int = 1) -> Array:
    """``f`` of every block of consecutive rows, put together into one array.

    Parameters
    ----------
    f : callable
        Pure function of one block of each array; returns an array with as many rows.
    *arrays : ndarray of shape (n_samples, ...) or None
        As for :func:`sum_rows`.
    at_least : int
        Rows per block where there are as many, for functions that loop over columns.

    Returns
    -------
    ndarray of shape (n_samples, ...)
        In C order, of the dtype that ``f`` returns.
    """
    first = f(*next(_blocks(arrays, 0, 1))[1])
    out = np.empty((_n_rows(arrays), *first.shape[1:]), dtype=first.dtype)

    def fill(start: int, stop: int) -> None:
        for rows, block in _blocks(arrays, start, stop, at_least=at_least):
            out[rows] = f(*block)

    _in_threads(fill, arrays)
    return out


def both_columns(Z: Array) -> Array:
    """Logits with one column per class: one column ``z`` stands for ``(0, z)``."""
    if Z.shape[1] > 1:
        return Z
    both = np.zeros((len(Z), 2), Z.dtype, order="F")
    both[:, 1] = Z[:, 0]
    return both


def _n_rows(arrays: tuple[Rows, ...]) -> int:
    return next(len(a) for a in arrays if a is not None)


def _width(arrays: tuple[Rows, ...]) -> int:
    return max(1, *(int(np.prod(a.shape[1:])) for a in arrays if a is not None))


def _blocks(
    arrays: tuple[Rows, ...],
    start: int,
    stop: int,
    scratch: int = 0,
    dtype: DTypeLike | None = None,
    at_least: int = 1,
) -> Iterator[tuple[slice, list[Rows]]]:
    """Slices of rows with the block of each array, and scratch arrays that stay the same."""
    step = min(max(at_least, BLOCK_ELEMENTS // _width(arrays)), stop - start)
    columns = [_columns(a, step) if a is not None and _is_narrow(a) else None for a in arrays]
    spare = [_columns(arrays[0], step, dtype) for _ in range(scratch)]
    for low in range(start, stop, step):
        rows = slice(low, min(low + step, stop))
        size = rows.stop - low
        blocks = [
            a if a is None else a[rows] if c is None else _copied(a[rows], c[:size])
            for a, c in zip(arrays, columns, strict=True)
        ]
        yield rows, [*blocks, *(s[:size] for s in spare)]


def _is_narrow(a: Array) -> bool:
    return a.ndim == 2 and 1 < a.shape[1] <= NARROW_COLUMNS


def _columns(a: Rows, n_rows: int, dtype: DTypeLike | None = None) -> Array:
    assert a is not None
    shape = (n_rows, *a.shape[1:])
    return np.empty(shape, dtype or a.dtype, order="F" if _is_narrow(a) else "C")


def _copied(source: Array, target: Array) -> Array:
    np.copyto(target, source)
    return target


def _in_threads(work: Callable[[int, int], Any], arrays: tuple[Rows, ...]) -> list[Any]:
    """Results of ``work(start, stop)`` over spans that cover all rows, in row order."""
    n_rows = _n_rows(arrays)
    n_threads = min(_max_threads(), n_rows, n_rows * _width(arrays) // THREAD_ELEMENTS)
    if n_threads < 2:
        return [work(0, n_rows)]
    ends = np.linspace(0, n_rows, n_threads + 1).astype(int).tolist()
    with single_threaded_blas:
        return list(_threads(n_threads).map(lambda span: work(*span), pairwise(ends)))


def map_columns(f: Callable[[int], Any], n_columns: int, n_rows: int) -> list[Any]:
    """``f(k)`` for every column k, in threads where columns of so many rows are worth it."""
    n_threads = min(_max_threads(), n_columns, n_columns * n_rows // THREAD_ELEMENTS)
    if n_threads < 2:
        return [f(k) for k in range(n_columns)]
    with single_threaded_blas:
        return list(_threads(n_threads).map(f, range(n_columns)))


@cache
def _threads(n: int) -> ThreadPoolExecutor:
    """Threads that are kept: new ones often start on the core of the one that made them."""
    return ThreadPoolExecutor(n, thread_name_prefix="skcalib")


# A forked process has none of the threads of its parent, and would wait for them for ever.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_threads.cache_clear)


class _SingleThreadedBlas:
    """Keeps BLAS to one thread for as long as somebody is inside.

    Threads that start threads of their own for every matrix product make it several times
    slower, and so do the idle threads of one BLAS, which spin, where numpy and scipy each bring
    theirs. The number of threads of BLAS is a property of the process, so those who are inside
    are counted for the process: with a count of its own, each of two fits in two threads would
    take the other's one thread for the number to go back to.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.restore = ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.restore.enter_context(_thread_pools().limit(limits=1, user_api="blas"))
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.restore.close()


single_threaded_blas = _SingleThreadedBlas()


@cache
def _thread_pools() -> ThreadpoolController:
    """The libraries with threads that are loaded; finding them takes a millisecond."""
    return ThreadpoolController()


def _max_threads() -> int:
    """Number of threads that may be used: the usable cores, or fewer by ``OMP_NUM_THREADS``.

    The variable is what users of numerical libraries set, and what joblib sets in its worker
    processes, so that a parallel grid search does not start more threads than there are cores.
    """
    cores = _cores()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


@cache
def _cores() -> int:
    """Cores that this process may use; finding out reads files."""
    return int(joblib.cpu_count())

"""Sums and maps over blocks of consecutive rows: the only place that walks through data.

A block is small enough that it and the temporaries made from it stay in the cache, so a
pure function of arrays can be written plainly and still runs at the speed of a fused loop.
Nothing here knows what is being added up. Memory-mapped arrays are read block by block. Arrays
with Dask (:class:`Chunked`) are told from others here, and by no calibrator and no measure: each
chunk is walked through where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial, reduce
from itertools import pairwise
from operator import add, itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .blas import with_one_blas_thread
from .dask import (
    Chunked,
    call_on_chunks,
    checked_chunks,
    collection_row,
    is_dask,
    map_chunks,
    map_collection,
    reduce_chunks,
)
from .threads import max_threads, share

# 1 MiB of float32. Smaller blocks spend their time handing the interpreter lock from thread to
# thread, larger ones leave the cache.
BLOCK_ELEMENTS = 1 << 18

# 128 KiB of float64. Larger arrays cost more than what is done with them where malloc is told to
# give memory back at once, and Dask starts the processes of its workers so.
SMALL_BLOCK_ELEMENTS = 1 << 14

# Reductions along short rows run several times faster when the columns are contiguous.
NARROW_COLUMNS = 128

# Fewer elements than this for a thread cost more to hand over than they save.
THREAD_ELEMENTS = 1 << 17

# A first guess comes from one row in so many, or from more rows where these would be fewer than the
# second number, or from fewer where these would hold more numbers than the third.
SAMPLE_EVERY, SAMPLE_ROWS, SAMPLE_ELEMENTS = 64, 512, 1 << 24

Array = NDArray[Any]

Rows = Any  # an array or Chunked, or None


def sum_rows(
    f: Callable[..., Array],
    *arrays: Rows,
    scratch: int = 0,
    dtype: DTypeLike | None = None,
    at_least: int = 1,
    room: int = 1,
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
    at_least : int
        Rows per block where there are as many, for functions that return more than they are given.
    room : int
        How many times as large as a block the largest array is that ``f`` makes of it. Blocks
        are smaller by that.

    Returns
    -------
    ndarray
        The sum. Threads and block size change it by rounding only.
    """
    blocks = {"scratch": scratch, "dtype": dtype, "at_least": at_least, "room": room}
    return reduce_rows(add, f, *arrays, **blocks)


def reduce_rows(
    merge: Callable[[Any, Any], Any], f: Callable[..., Any], *arrays: Rows, **blocks: Any
) -> Any:
    """As :func:`sum_rows`, with another operation than addition."""
    if isinstance(arrays[0], Chunked):
        of_chunk = partial(_reduced_chunk, merge, f, blocks)
        return reduce_chunks(partial(reduce, merge), of_chunk, arrays)

    def total(start: int, stop: int) -> Any:
        return reduce(merge, (f(*b) for _, b in _blocks(arrays, start, stop, **blocks)))

    return reduce(merge, _in_threads(total, arrays))


def _reduced_chunk(merge: Any, f: Any, blocks: dict[str, Any], *arrays: Rows) -> Any:
    """In one thread: Dask has as many tasks as there are cores, and the order never changes."""
    each = _blocks(arrays, 0, _n_rows(arrays), **blocks)
    return with_one_blas_thread(reduce, merge, (f(*block) for _, block in each))


def map_rows(
    f: Callable[..., Any], *arrays: Rows, at_least: int = 1, order: Literal["C", "F"] = "C"
) -> Any:
    """``f`` of every block of consecutive rows, put together into one array.

    Parameters
    ----------
    f : callable
        Pure function of one block of each array; returns an array with as many rows, or a tuple
        of them.
    *arrays : ndarray of shape (n_samples, ...) or None
        As for :func:`sum_rows`.
    at_least : int
        Rows per block where there are as many, for functions that loop over columns.
    order : {"C", "F"}
        Of what is returned, in memory.

    Returns
    -------
    ndarray of shape (n_samples, ...), or tuple of them
        Of the dtype that ``f`` returns.
    """
    if isinstance(arrays[0], Chunked):
        return map_chunks(partial(map_rows, f, at_least=at_least, order=order), arrays)
    first = f(*next(_blocks(arrays, 0, 1))[1])
    several = isinstance(first, tuple)
    out = tuple(
        np.empty((_n_rows(arrays), *one.shape[1:]), one.dtype, order)
        for one in (first if several else (first,))
    )

    def fill(start: int, stop: int) -> None:
        for rows, block in _blocks(arrays, start, stop, at_least=at_least):
            values = f(*block)
            for target, value in zip(out, values if several else (values,), strict=True):
                target[rows] = value

    _in_threads(fill, arrays)
    return out if several else out[0]


def checked_rows(
    check: Callable[..., tuple[tuple[Rows, ...], Any]], **inputs: Any
) -> tuple[Sequence[Any], Any]:
    """What ``check`` makes of the inputs, and what it found: for Dask collections, by chunk.

    See :func:`checked_chunks`.
    """
    if any(map(is_dask, inputs.values())):
        return checked_chunks(check, **inputs)
    return check(*inputs.values())


def call_on_sample(
    f: Callable[..., Any], *arrays: Rows, at_least: int = SAMPLE_ROWS, or_all: bool = False
) -> Any:
    """``f`` of every k-th row, of ``at_least`` so many.

    None if that would be all rows, or too many to gather, unless it is to be called all the same.
    """
    n_rows, width = _n_rows(arrays), _width(arrays)
    every = max(SAMPLE_EVERY, n_rows * width // SAMPLE_ELEMENTS)
    every = max(min(every, n_rows // at_least), 1)
    if not or_all and (every == 1 or at_least * width > SAMPLE_ELEMENTS):
        return None
    if isinstance(arrays[0], Chunked):
        return call_on_chunks(f, arrays, itemgetter(slice(None, None, every)))
    return f(*(None if a is None else a[::every] for a in arrays))


def map_whole(f: Callable[..., Array], *arrays: Rows, like: Array) -> Any:
    """As :func:`map_rows`, for a function that needs no blocks to be quick and returns ``like``."""
    return map_chunks(f, arrays, like) if isinstance(arrays[0], Chunked) else f(*arrays)


def reduce_whole(merge: Callable[[list[Any]], Any], f: Callable[..., Any], *arrays: Rows) -> Any:
    """``f`` of the arrays, or ``merge`` of a list of what it returns for each chunk of them."""
    return reduce_chunks(merge, f, arrays) if isinstance(arrays[0], Chunked) else f(*arrays)


def map_outputs(f: Callable[[Any], Array], X: Any) -> Any:
    """``f(X)``; for a Dask array or data frame lazily and by chunk."""
    return map_collection(f, X) if is_dask(X) else f(X)


def row_like(X: Any) -> Any:
    """``X``, or for a Dask array or data frame a row of the same width, type and names."""
    return collection_row(X) if is_dask(X) else X


def is_far(rows: Rows) -> bool:
    """Whether a pass over the rows is a round of messages."""
    return isinstance(rows, Chunked)


def total_weight(y: Rows, w: Rows) -> float:
    """Sum of the weights of rows with labels ``y``: what turns sums over rows into means."""
    if w is None:
        return float(len(y))
    with np.errstate(over="ignore"):
        return float(sum_rows(np.sum, w))


def both_columns(Z: Array) -> Array:
    """Logits with one column per class: one column ``z`` stands for ``(0, z)``."""
    if Z.shape[1] > 1:
        return Z
    both = np.zeros((len(Z), 2), Z.dtype, order="F")
    both[:, 1] = Z[:, 0]
    return both


def with_both_columns(Z: Array, *scratch: Rows) -> tuple[Any, ...]:
    """Logits with one column per class, and the scratch arrays if they are still like them."""
    both = both_columns(Z)
    return both, *(scratch if both is Z else [None] * len(scratch))


def weighted_sum(values: Array, w: Rows) -> Any:
    """Sum in float64 of one value per row."""
    return values.sum(dtype=np.float64) if w is None else w @ values


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
    room: int = 1,
) -> Iterator[tuple[slice, list[Rows]]]:
    """Slices of rows with the block of each array, and scratch arrays that stay the same."""
    elements = SMALL_BLOCK_ELEMENTS if _gives_memory_back() else BLOCK_ELEMENTS
    step = min(max(at_least, elements // (_width(arrays) * room)), stop - start)
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


@cache
def _gives_memory_back() -> bool:
    """Whether this process was started with a malloc that keeps nothing."""
    # os.environ may have been changed since, as by the process that starts Dask's workers.
    try:
        return b"MALLOC_TRIM_THRESHOLD_=" in Path("/proc/self/environ").read_bytes()
    except OSError:  # another system, where the setting has no meaning
        return False


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
    n_threads = min(max_threads(), n_rows, n_rows * _width(arrays) // THREAD_ELEMENTS)
    if n_threads < 2:
        return [work(0, n_rows)]
    ends = np.linspace(0, n_rows, n_threads + 1).astype(int).tolist()
    return share(lambda span: work(*span), pairwise(ends), n_threads)


def map_columns(f: Callable[[int], Any], n_columns: int, n_rows: int) -> list[Any]:
    """``f(k)`` for every column k, in threads where columns of so many rows are worth it."""
    n_threads = min(max_threads(), n_columns, n_columns * n_rows // THREAD_ELEMENTS)
    return share(f, range(n_columns), n_threads)

"""Work divided among threads, while BLAS is limited to one thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")


def max_threads() -> int:
    """Return the number of usable cores, or ``OMP_NUM_THREADS`` if it is smaller.

    joblib sets this variable in its worker processes.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()


@cache
def _cores() -> int:
    """Count the cores of this process; cached, since joblib reads files."""
    return int(joblib.cpu_count())


@cache
def _controller() -> ThreadpoolController:
    """Return the thread controller; cached, since a search for libraries takes a millisecond."""
    return ThreadpoolController()


class _OneBlasThread:
    """Context that limits BLAS to one thread.

    Contexts in several threads may overlap: the first sets the limit, and the last restores it.
    With threadpoolctl alone, overlapping contexts would restore each other's limits.
    """

    def __init__(self) -> None:
        self.lock, self.n_open = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.n_open == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.n_open += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.n_open -= 1
            if self.n_open == 0:
                self.limit.restore_original_limits()


# If several threads start BLAS threads for every matrix product, products are several times slower.
one_blas_thread = _OneBlasThread()


def with_one_openmp_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with OpenMP limited to one thread, as for scikit-learn's trees.

    Threads wait for each other after every node. For a few thousand rows two threads gain little on
    idle cores, and may be a hundred times as slow on busy cores.
    """
    with _controller().limit(limits=1, user_api="openmp"):
        return f(*args)


def share(work: Callable[[Sequence[slice]], Result], blocks: Sequence[slice]) -> list[Result]:
    """Divide blocks of rows among threads, and return the results of ``work(blocks)`` in order.

    BLAS uses one thread. Each call starts new threads, so calls may be nested. A thread gets two
    blocks or more, since starting a thread takes longer than computing a block.
    """
    n_threads = min(max_threads(), len(blocks) // 2)
    if n_threads < 2:
        return [work(blocks)]
    ends = [len(blocks) * k // n_threads for k in range(n_threads + 1)]
    parts = [blocks[start:stop] for start, stop in pairwise(ends)]
    with one_blas_thread, ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, parts))

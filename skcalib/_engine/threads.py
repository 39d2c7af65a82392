"""Work divided among threads.

This is safe under Ctrl-C at any bytecode, a fork while other threads work, nested calls, and lack
of memory or permission for more threads.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from queue import SimpleQueue
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

from .blas import with_one_blas_thread

Result = TypeVar("Result")


def max_threads() -> int:
    """Number of threads that may be used: the usable cores, or fewer by ``OMP_NUM_THREADS``.

    Numerical libraries read this variable, and joblib sets it in its worker processes, so that a
    parallel grid search does not start more threads than there are cores.
    """
    cores = _cores()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores


@cache
def _cores() -> int:
    """Number of cores that this process may use; cached, since joblib reads files."""
    return int(joblib.cpu_count())


def with_one_openmp_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with one OpenMP thread, as the trees of scikit-learn otherwise use all.

    They meet after every node: for a few thousand rows two threads gain little on idle cores, and
    take up to a hundred times as long where other processes use the cores as well.
    """
    with _openmp(len(sys.modules)).limit(limits=1):
        return f(*args)


@lru_cache(maxsize=1)
def _openmp(n_modules: int) -> Any:  # noqa: ARG001
    """OpenMP libraries that are loaded.

    The search takes a millisecond, and is repeated after imports, which may load more of them.
    """
    return ThreadpoolController().select(user_api="openmp")


def share(work: Callable[[Any], Result], parts: Iterable[Any], n_threads: int) -> list[Result]:
    """``work`` of each part, in their order, with BLAS limited to one thread.

    The calling thread works as well, and waits only for parts that other threads have begun. So
    there is no deadlock if no thread can be started, or if all are busy with an enclosing call.
    """
    parts = list(parts)
    if n_threads < 2:
        return [work(part) for part in parts]
    return with_one_blas_thread(_share, work, parts, n_threads)


def _share(work: Callable[[Any], Result], parts: list[Any], n_threads: int) -> list[Result]:
    todo, results = deque(enumerate(parts)), dict[int, Result]()
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    def help_out() -> None:
        for k, part in _taken(todo):
            value, failure = None, None
            try:
                value = work(part)
            except BaseException as error:  # the caller raises it
                failure = error
            done.put((k, value, failure))

    try:
        _helpers.call(help_out, n_threads - 1)
        for k, part in _taken(todo):
            results[k] = work(part)
        while len(results) < len(parts):
            k, results[k], error = done.get()
            if error is not None:
                raise error
    finally:
        todo.clear()  # after an error or Ctrl-C helpers finish their current part and stop
    return [results[k] for k in range(len(parts))]


def _taken(todo: deque[Any]) -> Iterator[Any]:
    """Parts that this thread takes from the queue, until it is empty."""
    while True:
        try:
            yield todo.popleft()
        except IndexError:  # empty, perhaps since another thread was faster
            return


class _Helpers:
    """A pool of persistent threads: new threads often start on the core of their parent.

    Futures, and everything built on ``threading.Condition``, can leave a lock acquired if Ctrl-C
    arrives at the wrong bytecode: the worker thread would wait for it, and the interpreter, at
    exit, for the thread. So the pool uses queues implemented in C, and threads that are never
    joined.
    """

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.n_threads = 0

    def call(self, task: Callable[[], None], n: int) -> None:
        """Queue the task for up to n threads, as many as can be started."""
        # Errors mean no more threads, or interpreter shutdown: existing threads do the work.
        with suppress(RuntimeError, MemoryError):
            while self.n_threads < n:
                _thread.start_new_thread(_serve, (self.tasks,))
                self.n_threads += 1
        for _ in range(min(n, self.n_threads)):
            self.tasks.put(task)


def _serve(tasks: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        with suppress(Exception):  # from the BLAS limit: the caller does the remaining parts
            with_one_blas_thread(tasks.get())  # without a variable, which would keep arrays alive


_helpers = _Helpers()

# A forked process has none of its parent's threads, and would wait for them for ever.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_helpers.__init__)  # type: ignore[misc]

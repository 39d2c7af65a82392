"""Work shared among threads.

What is here holds whatever comes in between: Ctrl-C at any bytecode, a fork while other threads
work, calls from inside of what is being worked on, and no memory or no permission for more threads.
"""

from __future__ import annotations

import _thread
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

import joblib

from .blas import with_one_blas_thread

Result = TypeVar("Result")


def max_threads() -> int:
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


def share(work: Callable[[Any], Result], parts: Iterable[Any], n_threads: int) -> list[Result]:
    """``work`` of each part, in their order; BLAS has one thread meanwhile.

    The calling thread works as well, and waits only for what another thread has begun. So it does
    not matter whether threads can be started, or are all busy with a call that this one is part of.
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
        todo.clear()  # after an error or Ctrl-C helpers end with the part they are at
    return [results[k] for k in range(len(parts))]


def _taken(todo: deque[Any]) -> Iterator[Any]:
    """What this thread takes, until nothing is left."""
    while True:
        try:
            yield todo.popleft()
        except IndexError:  # maybe since another thread was quicker
            return


class _Helpers:
    """Threads that are kept: new ones often start on the core of the one that made them.

    Futures, and all else that is made of ``threading.Condition``, keep a lock for ever if Ctrl-C
    comes at the wrong bytecode: the thread that works would wait for it, and the interpreter, at
    its end, for the thread. So there are queues, which are written in C, and threads that nobody
    joins.
    """

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.n_threads = 0

    def call(self, task: Callable[[], None], n: int) -> None:
        """Have as many threads call the task as can be started, up to n, as soon as they can."""
        # No more threads, or the interpreter shuts down: those that are there do the work.
        with suppress(RuntimeError, MemoryError):
            while self.n_threads < n:
                _thread.start_new_thread(_serve, (self.tasks,))
                self.n_threads += 1
        for _ in range(min(n, self.n_threads)):
            self.tasks.put(task)


def _serve(tasks: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        with suppress(Exception):  # of the limit: the caller does what is not taken
            with_one_blas_thread(tasks.get())  # in no variable, which would keep arrays alive


_helpers = _Helpers()

# A forked process has none of the threads of its parent, and would wait for ever for them.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_helpers.__init__)  # type: ignore[misc]

"""Work shared among threads, and one thread for BLAS as long as they work.

What is here holds whatever comes in between: Ctrl-C at any bytecode, a fork while other threads
work, calls from inside of what is being worked on, and no memory or no permission for more threads.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")
Library = Any  # a controller of threadpoolctl


# --------------------------------------------------------------------------------------
# Threads.


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


# --------------------------------------------------------------------------------------
# BLAS.


def with_one_blas_thread(f: Callable[..., Result], *args: Any) -> Result:
    """``f(*args)`` with one thread for BLAS.

    Threads that start threads of their own for every matrix product make it several times
    slower, and so do the idle threads of one BLAS, which spin, where numpy and scipy each bring
    theirs.
    """
    place = object()
    # Twice, since Ctrl-C may come when leave() is called and before its first instruction. A with
    # statement has no place for a second time, and so would leave one thread for good.
    try:
        try:
            _blas.enter(place)
            return f(*args)
        finally:
            _blas.leave(place)
    finally:
        _blas.leave(place)


class _Blas:
    """Who needs one thread, and the numbers of threads of BLAS libraries when nobody did.

    In most libraries the number is a property of the process, in some of the thread that sets it.
    There is no count of those inside and no order of steps that an interruption could spoil:
    :meth:`adjust` compares what is with what has to be, and may be called whenever and as often
    as one likes.
    """

    def __init__(self) -> None:
        # Of a kind that the thread that has it may take again, as a signal handler that fits does.
        self.lock = threading.RLock()
        self.inside: dict[object, int] = {}  #: each place, with its thread
        self.numbers: dict[tuple[Library, int | None], int] = {}  #: where the limit is set
        self.libraries: list[Library] | None = None

    def enter(self, place: object) -> None:
        self.inside[place] = threading.get_ident()
        self.adjust()

    def leave(self, place: object) -> None:
        self.inside.pop(place, None)
        self.adjust()

    def adjust(self) -> None:
        """Limit the libraries if somebody is inside, else give them their numbers back."""
        me = threading.get_ident()
        with self.lock:
            for library in self._found():
                thread = None if _is_of_process(library) else me
                needed = self.inside if thread is None else me in self.inside.values()
                (self._limit if needed else self._restore)(library, thread)

    def _found(self) -> list[Library]:
        """The libraries that are loaded; finding them takes a millisecond."""
        if self.libraries is None:
            found = ThreadpoolController().lib_controllers
            self.libraries = [library for library in found if library.user_api == "blas"]
        return self.libraries

    def _limit(self, library: Library, thread: int | None) -> None:
        n = library.get_num_threads() or 1
        if n > 1:
            self.numbers[library, thread] = n  # before it is lost
            _set_threads(library, 1)

    def _restore(self, library: Library, thread: int | None) -> None:
        n = self.numbers.get((library, thread))
        if n is not None:
            if library.get_num_threads() == 1:  # else somebody else has set it meanwhile
                _set_threads(library, n)
            self.numbers.pop((library, thread), None)

    def after_fork(self) -> None:
        """In a forked process nobody is inside."""
        self.lock = threading.RLock()
        self.inside = {}
        if self.numbers:
            self.adjust()
        self.numbers = {}


def _is_of_process(library: Library) -> bool:
    return library.internal_api == "openblas" and library.threading_layer != "openmp"


def _set_threads(library: Library, n: int) -> None:
    # threadpoolctl from 3.7 on lets one thread change OpenBLAS until it has left its limit, and
    # ignores others. Those who are inside leave in any order.
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is None:
        library.set_num_threads(n)
        return
    clear(force=True)
    library.set_num_threads(n)
    clear(force=True)


_blas = _Blas()


def _hold() -> None:
    _blas.lock.acquire()


def _let_go() -> None:
    with suppress(RuntimeError):  # an interrupted _hold
        _blas.lock.release()


def _start_anew() -> None:
    """A forked process has none of the threads of its parent, and would wait for ever for them."""
    _helpers.__init__()  # type: ignore[misc]
    _blas.after_fork()


# While the lock is held no thread is in the middle of changing BLAS, whose own locks a forked
# process would find taken.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_start_anew)

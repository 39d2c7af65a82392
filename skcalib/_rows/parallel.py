"""Work divided among threads, while BLAS and OpenMP are limited to one.

Nothing hangs or lasts under Ctrl-C at any bytecode, forks while other threads work, calls that
overlap or are nested, and lack of memory or permission for more threads. Libraries cannot promise
that: limits of threadpoolctl that overlap restore one another's, and ThreadPoolExecutor is built on
``threading.Condition``, whose lock stays acquired if Ctrl-C arrives at the wrong bytecode. So our
threads take their work from a queue implemented in C, and the limit is a state that is adjusted.
"""

import _thread
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")


def max_threads() -> int:
    """Number of threads that may be used: the usable cores, or fewer by ``OMP_NUM_THREADS``.

    Numerical libraries read this variable, and joblib sets it in its worker processes, so that a
    parallel grid search does not start more threads than there are cores.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(_cores(), int(limit)) if limit.isdigit() and int(limit) > 0 else _cores()


@cache
def _cores() -> int:
    """Number of cores that this process may use; cached, since joblib reads files."""
    return int(joblib.cpu_count())


@lru_cache(maxsize=2)
def _loaded(user_api: str, n_modules: int) -> Any:  # noqa: ARG001
    """Controller of the libraries for BLAS or OpenMP that are loaded.

    The search takes a millisecond, and is repeated after imports, which may load more of them.
    """
    return ThreadpoolController().select(user_api=user_api)


def with_one_openmp_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with one OpenMP thread, as the trees of scikit-learn otherwise use all.

    They meet after every node: for a few thousand rows two threads gain little on idle cores, and
    take up to a hundred times as long where other processes use the cores as well.
    """
    libraries = _loaded("openmp", len(sys.modules)).lib_controllers
    numbers = [library.get_num_threads() for library in libraries]  # of this thread alone

    def set_numbers(numbers: list[int]) -> None:
        for library, n in zip(libraries, numbers, strict=True):
            library.set_num_threads(n)

    # Not by a limit of threadpoolctl, which lasts if Ctrl-C arrives before its with statement; and
    # twice, since it may arrive while the numbers are restored.
    try:
        try:
            set_numbers([1] * len(libraries))
            return f(*args)
        finally:
            set_numbers(numbers)
    finally:
        set_numbers(numbers)


def with_one_blas_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with BLAS limited to one thread.

    Oversubscription, threads that each start BLAS threads for every matrix product, makes the
    product several times slower. So do the spinning idle threads of a second BLAS where numpy and
    scipy each bring their own.
    """
    call = object()
    # Twice, since Ctrl-C may arrive between the first call of adjust_blas() and its first
    # instruction. A with statement calls it once, and could leave the limit set for ever.
    try:
        try:
            _threads.calls[call] = threading.get_ident()
            _threads.adjust_blas()
            return f(*args)
        finally:
            _threads.adjust_blas(ended=call)
    finally:
        _threads.adjust_blas(ended=call)


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
    numbers, todo, results = count(), parts.copy(), dict[int, Result]()
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    def work_on() -> None:
        while (k := next(numbers)) < len(todo):
            try:
                done.put((k, work(todo[k]), None))
            except BaseException as error:  # the caller raises it
                done.put((k, None, error))
                todo.clear()

    try:
        _threads.call(work_on, n_threads - 1)
        work_on()
        while len(results) < len(parts):
            k, results[k], error = done.get()
            if error is not None:
                raise error
    finally:
        todo.clear()  # after Ctrl-C the others finish their current part and stop
    return [results[k] for k in range(len(parts))]


class _Threads:
    """Threads that help with shared work, and the calls that limit BLAS.

    There is no sequence of steps that an interruption could leave inconsistent, and no counter:
    :meth:`adjust_blas` compares the current state with the required one, and may be called at any
    time. Threads are never joined, and stay, as new ones often start on the core of their parent.
    """

    def __init__(self) -> None:
        # Reentrant, since a signal handler that fits a calibrator may interrupt the holder.
        self.lock = threading.RLock()
        self.calls: dict[object, int] = {}  #: the thread of each running call that limits BLAS
        self.limited: dict[tuple[str, int], int] = {}  #: original numbers of BLAS threads
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.n_started = 0

    def call(self, task: Callable[[], None], n: int) -> None:
        """Have up to n threads, as many as can be started, call the task."""
        # Errors mean no more threads, or interpreter shutdown: existing threads do the work.
        with suppress(RuntimeError, MemoryError):
            while self.n_started < n:
                _thread.start_new_thread(_serve, (self.tasks,))
                self.n_started += 1
        for _ in range(min(n, self.n_started)):
            self.tasks.put(task)

    def adjust_blas(self, ended: object = None) -> None:
        """Limit BLAS if a call is running but the one that has ended, else restore its threads.

        OpenBLAS has one number for the process, unless its threads are those of OpenMP. Others may
        have one for each thread that sets it.
        """
        self.calls.pop(ended, None)
        with self.lock:
            for library in _loaded("blas", len(sys.modules)).lib_controllers:
                is_openblas = library.internal_api == "openblas"
                is_global = is_openblas and library.threading_layer != "openmp"
                thread = 0 if is_global else threading.get_ident()
                is_needed = bool(self.calls) if is_global else thread in self.calls.values()
                n, place = library.get_num_threads() or 1, (library.filepath, thread)
                wanted = n
                if is_needed and n > 1:
                    self.limited[place] = n  # stored before it is overwritten
                    wanted = 1
                elif not is_needed and n == 1:  # else other code has changed it meanwhile
                    wanted = self.limited.get(place, n)
                if wanted != n:
                    # threadpoolctl >= 3.7 lets only the controlling thread change OpenBLAS until
                    # its limit ends, and ignores other threads. Here calls end in any order.
                    name, nothing = "clear_controlling_thread", lambda *, force: None  # noqa: ARG005
                    release = getattr(library, name, nothing)
                    release(force=True)
                    library.set_num_threads(wanted)
                    release(force=True)
                if not is_needed:
                    self.limited.pop(place, None)

    def after_fork(self) -> None:
        """In the child no call is running, and there are no other threads to wait for."""
        limited = self.limited
        self.__init__()  # type: ignore[misc]
        if limited:
            self.limited = limited
            self.adjust_blas()
            self.limited = {}


def _serve(tasks: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        with suppress(Exception):  # from the BLAS limit: the caller does the remaining parts
            with_one_blas_thread(tasks.get())  # without a variable, which would keep arrays alive


def _release_lock() -> None:
    with suppress(RuntimeError):  # it was not acquired, if that was interrupted
        _threads.lock.release()


_threads = _Threads()

# The lock is held during a fork, so that no thread is inside a call to BLAS, whose own locks would
# stay locked in the child.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(
        before=lambda: _threads.lock.acquire(),  # noqa: PLW0108  # the lock of the moment
        after_in_parent=_release_lock,
        after_in_child=_threads.after_fork,
    )

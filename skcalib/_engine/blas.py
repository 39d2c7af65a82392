"""Limit BLAS to one thread while skcalib's own threads are at work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")
Library = Any  # a controller of threadpoolctl


def with_one_blas_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with BLAS limited to one thread.

    Oversubscription, threads that each start BLAS threads for every matrix product, makes the
    product several times slower. So do the spinning idle threads of a second BLAS where numpy and
    scipy each bring their own.
    """
    place = object()
    # leave() is called twice, since Ctrl-C may arrive between the first call and its first
    # instruction. A with statement calls it once, and could leave the limit set for ever.
    try:
        try:
            _blas.enter(place)
            return f(*args)
        finally:
            _blas.leave(place)
    finally:
        _blas.leave(place)


class _Blas:
    """Calls that need BLAS limited to one thread, and the original numbers of threads.

    In most libraries the number is a property of the process, in some of the thread that sets it.
    There is no counter and no sequence of steps that an interruption could leave inconsistent:
    :meth:`adjust` compares the current state with the required one, is idempotent and may be
    called at any time.
    """

    def __init__(self) -> None:
        # Reentrant, since a signal handler that fits a calibrator may interrupt the holder.
        self.lock = threading.RLock()
        self.inside: dict[object, int] = {}  #: the thread of each running call
        self.numbers: dict[tuple[Library, int | None], int] = {}  #: original numbers of threads
        self.libraries: list[Library] | None = None

    def enter(self, place: object) -> None:
        self.inside[place] = threading.get_ident()
        self.adjust()

    def leave(self, place: object) -> None:
        self.inside.pop(place, None)
        self.adjust()

    def adjust(self) -> None:
        """Limit the libraries if a call is running, else restore their numbers of threads."""
        me = threading.get_ident()
        with self.lock:
            for library in self._found():
                thread = None if _is_of_process(library) else me
                needed = self.inside if thread is None else me in self.inside.values()
                (self._limit if needed else self._restore)(library, thread)

    def _found(self) -> list[Library]:
        """BLAS libraries that are loaded, found once since the search takes a millisecond."""
        if self.libraries is None:
            found = ThreadpoolController().lib_controllers
            self.libraries = [library for library in found if library.user_api == "blas"]
        return self.libraries

    def _limit(self, library: Library, thread: int | None) -> None:
        n = library.get_num_threads() or 1
        if n > 1:
            self.numbers[library, thread] = n  # stored before it is overwritten
            _set_threads(library, 1)

    def _restore(self, library: Library, thread: int | None) -> None:
        n = self.numbers.get((library, thread))
        if n is not None:
            if library.get_num_threads() == 1:  # else other code has changed it meanwhile
                _set_threads(library, n)
            self.numbers.pop((library, thread), None)

    def after_fork(self) -> None:
        """Reset a forked process, in which no call is running."""
        self.lock = threading.RLock()
        self.inside = {}
        if self.numbers:
            self.adjust()
        self.numbers = {}


def _is_of_process(library: Library) -> bool:
    return library.internal_api == "openblas" and library.threading_layer != "openmp"


def _set_threads(library: Library, n: int) -> None:
    # threadpoolctl >= 3.7 lets only the controlling thread change OpenBLAS until its limit ends,
    # and ignores other threads. Here calls end in any order.
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


# The lock is held during a fork, so that no thread is inside a call to BLAS, whose own locks would
# stay locked in the child.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_blas.after_fork)

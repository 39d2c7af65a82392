"""One thread for BLAS as long as threads of our own work."""

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


# While the lock is held no thread is in the middle of changing BLAS, whose own locks a forked
# process would find taken.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(
        before=_hold,
        after_in_parent=_let_go,
        after_in_child=_blas.after_fork,
    )

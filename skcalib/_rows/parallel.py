"""Work divided among threads, while BLAS and OpenMP are limited to one."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
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


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads that stay, as new ones often start on the core of their parent."""
    return ThreadPoolExecutor(_cores())


@lru_cache(maxsize=2)
def _loaded(user_api: str, n_modules: int) -> ThreadpoolController:  # noqa: ARG001
    """Controller of the libraries for BLAS or OpenMP that are loaded.

    The search takes a millisecond, and is repeated after imports, which may load more of them.
    """
    return ThreadpoolController().select(user_api=user_api)


def with_one_openmp_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with one OpenMP thread, as the trees of scikit-learn otherwise use all.

    They meet after every node: for a few thousand rows two threads gain little on idle cores, and
    take up to a hundred times as long where other processes use the cores as well.
    """
    with _loaded("openmp", len(sys.modules)).limit(limits=1):  # of this thread alone
        return f(*args)


def with_one_blas_thread(f: Callable[..., Result], *args: Any) -> Result:
    """Call ``f(*args)`` with BLAS limited to one thread.

    Oversubscription, threads that each start BLAS threads for every matrix product, makes the
    product several times slower. So do the spinning idle threads of a second BLAS where numpy and
    scipy each bring their own.
    """
    libraries = _loaded("blas", len(sys.modules)).lib_controllers
    try:
        for library in libraries:
            _limit(library, 1)
        return f(*args)
    finally:
        for library in libraries:
            _limit(library, -1)


def share(work: Callable[[Any], Result], parts: Iterable[Any], n_threads: int) -> list[Result]:
    """``work`` of each part, in their order, with BLAS limited to one thread.

    The calling thread works as well, and waits only for what other threads have begun: calls from
    within the work do not wait for threads that wait for them.
    """
    parts = list(parts)
    if n_threads < 2:
        return [work(part) for part in parts]
    call = partial(with_one_blas_thread, lambda some: list(map(work, some)))
    first, *others = [parts[k::n_threads] for k in range(n_threads)]
    begun = [(_threads().submit(call, some), some) for some in others]
    found = [call(first)]
    found += [call(some) if future.cancel() else future.result() for future, some in begun]
    results: list[Any] = [None] * len(parts)
    for k, of_thread in enumerate(found):
        results[k::n_threads] = of_thread
    return results


# Libraries that are limited, with their original numbers of threads and the number of calls that
# need the limit. Those overlap, and end in any order: limits of threadpoolctl would restore one
# another's. The lock is reentrant, since a signal handler that fits may interrupt its holder.
_calls: dict[tuple[str, int], tuple[Any, int, int]] = {}
_lock = threading.RLock()


def _limit(library: Any, more: int) -> None:
    """Limit a library for a call that begins, or restore its threads where the last call ends.

    OpenBLAS has one number of threads for the process, unless these are those of OpenMP. Others may
    have one for each thread that sets it. What other code sets meanwhile stays.
    """
    is_openblas = library.internal_api == "openblas"
    is_global = is_openblas and library.threading_layer != "openmp"
    place = library.filepath, 0 if is_global else threading.get_ident()
    with _lock:
        before = library, library.get_num_threads() or 1, 0
        _, n_threads, n_calls = _calls.pop(place, before)
        if n_calls + more > 0:
            _calls[place] = library, n_threads, n_calls + more
            if n_calls == 0:
                _set_number(library, 1)
        elif n_calls > 0 and library.get_num_threads() == 1:
            _set_number(library, n_threads)


def _set_number(library: Any, n_threads: int) -> None:
    """Set the number of threads, also where another thread has set it before.

    threadpoolctl >= 3.7 lets only the controlling thread change OpenBLAS until its limit ends.
    """
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(n_threads)
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


def _after_fork() -> None:
    """In the child no call is running, and there are no other threads."""
    for library, n_threads, _ in _calls.values():
        _set_number(library, n_threads)
    _calls.clear()
    _threads.cache_clear()
    _lock.release()


# The lock is held during a fork, so that no thread is inside a call to BLAS, whose own locks would
# stay locked in the child.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork
    )

"""Threads and the limit of BLAS: nothing hangs and nothing lasts, whatever comes in between."""

import dis
import gc
import os
import sys
import threading
import time
from contextlib import contextmanager
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest
from test_faults import blas_threads, check_limit_is_gone
from threadpoolctl import threadpool_limits

from skcalib import TemperatureScaling, VectorScaling
from skcalib._rows import parallel, rows as _rows
from skcalib._rows.parallel import share, with_one_blas_thread, with_one_openmp_thread
from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
DEADLINE = 60.0  # seconds; of what takes milliseconds


class Library:
    """A BLAS library with a number of threads of the process, or of each thread."""

    def __init__(self, *, of_process):
        self.internal_api = "openblas"
        self.filepath = "libopenblas.so"
        self.threading_layer = "pthreads" if of_process else "openmp"
        self.of_process = of_process
        self.numbers = {}

    def thread(self):
        return 0 if self.of_process else threading.get_ident()

    def get_num_threads(self):
        return self.numbers.get(self.thread(), 4)

    def set_num_threads(self, n):
        self.numbers[self.thread()] = n


@pytest.fixture(params=[True, False], ids=["of the process", "of each thread"])
def library(request, monkeypatch):
    wait_for_helpers()  # of the test before, which would set the number of threads back
    library = Library(of_process=request.param)
    controller = SimpleNamespace(lib_controllers=[library])
    monkeypatch.setattr(parallel, "_loaded", lambda *_: controller)
    return library


def in_time(f):
    """What ``f`` returns; an error where it would never return."""
    found = []
    thread = threading.Thread(target=lambda: found.append(f()), daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive(), "hangs"
    return found[0]


def wait_for_helpers():
    """Until those that were at work when the caller left have ended, too."""
    deadline = time.monotonic() + DEADLINE
    while parallel._threads.calls and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not parallel._threads.calls


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(_rows, "THREAD_ELEMENTS", 5)
    monkeypatch.setattr(_rows, "max_threads", lambda: 2)


# --------------------------------------------------------------------------------------
# The limit.


def test_an_error_ends_it(library):
    with pytest.raises(ZeroDivisionError):
        with_one_blas_thread(lambda: 1 / 0)
    assert library.get_num_threads() == 4


@pytest.mark.parametrize("first_out", [0, 1])
def test_fits_in_two_threads_overlap(library, first_out):
    """In whatever order they come and go, each sees one thread, and in the end all are back."""
    come, go = [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]
    seen, after = [], []

    def stay(k):
        come[k].set()
        go[k].wait(DEADLINE)
        seen.append(library.get_num_threads())

    def work(k):
        with_one_blas_thread(stay, k)
        after.append(library.get_num_threads())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for k, thread in enumerate(threads):
        thread.start()
        come[k].wait(DEADLINE)
    for k in (first_out, 1 - first_out):
        go[k].set()
        threads[k].join(DEADLINE)
    assert seen == [1, 1]
    assert after[-1] == 4
    assert library.get_num_threads() == 4


def test_openmp_libraries_of_later_imports_are_limited(monkeypatch):
    libraries = [Library(of_process=False)]

    class Controller:
        def select(self, user_api):
            assert user_api == "openmp"
            return SimpleNamespace(lib_controllers=list(libraries))

    def seen():
        return [library.get_num_threads() for library in libraries]

    parallel._loaded.cache_clear()
    monkeypatch.setattr(parallel, "ThreadpoolController", Controller)
    monkeypatch.setitem(sys.modules, "imported", None)
    assert with_one_openmp_thread(seen) == [1]
    libraries.append(Library(of_process=False))
    monkeypatch.setitem(sys.modules, "imported_later", None)
    assert with_one_openmp_thread(seen) == [1, 1]
    assert seen() == [4, 4]
    parallel._loaded.cache_clear()


def test_real_libraries_when_fits_in_two_threads_overlap():
    """Newer versions of threadpoolctl let one thread at a time change OpenBLAS."""
    entered, leave = threading.Event(), threading.Event()
    stay = lambda: (entered.set(), leave.wait(DEADLINE))  # noqa: E731
    other = threading.Thread(target=with_one_blas_thread, args=(stay,))
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with_one_blas_thread(lambda: (other.start(), entered.wait(DEADLINE)))
        assert set(blas_threads()) <= {1}
        leave.set()
        other.join(DEADLINE)
        assert blas_threads() == before


def test_limits_of_the_user_stay():
    before = blas_threads()
    with threadpool_limits(1, "blas"):
        with_one_blas_thread(int)
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


def test_numbers_that_somebody_sets_meanwhile_stay(library):
    def fit_after(n):
        library.set_num_threads(n)
        with_one_blas_thread(int)

    with_one_blas_thread(library.set_num_threads, 3)
    assert library.get_num_threads() == 3
    with_one_blas_thread(fit_after, 2)
    assert library.get_num_threads() == 2


@cache
def instructions(code):
    return {i.offset: i.opname for i in dis.get_instructions(code)}


def interrupted_at(step, f):
    """Call ``f`` with KeyboardInterrupt at some bytecode in it; whether there are so many.

    Python looks for signals where a function begins, behind calls, and where a loop goes back.
    """
    left, last = [step], {}

    def trace(frame, event, _):
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes = True
        name = instructions(frame.f_code).get(frame.f_lasti, "")
        behind = last.get(frame, "") if event == "opcode" else ""
        if event == "opcode":
            last[frame] = name
        if event == "call" or behind.startswith("CALL") or name.startswith("JUMP_BACKWARD"):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    tracer = sys.gettrace()
    gc.disable()  # what others have it call is not meant
    sys.settrace(trace)
    try:
        f()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracer)
        gc.enable()
    return left[0] <= 0


@pytest.mark.parametrize(
    ("with_one_thread", "n_steps"), [(with_one_blas_thread, 40), (with_one_openmp_thread, 10)]
)
def test_ctrl_c_at_any_bytecode_leaves_no_limit(library, with_one_thread, n_steps):
    step = 1
    while interrupted_at(step, partial(with_one_thread, int)):
        assert library.get_num_threads() == 4, step
        assert not parallel._threads.calls, step
        step += 1
    assert step > n_steps


def test_ctrl_c_at_any_bytecode_of_shared_work(library):
    """Those who help end with what they are at, and the next call finds all in order."""
    f = partial(share, abs, range(-5, 0), 2)
    step = 1
    while interrupted_at(step, f):
        assert f() == [5, 4, 3, 2, 1], step
        wait_for_helpers()
        assert library.get_num_threads() == 4, step
        step += 1
    assert step > 40


def test_a_signal_handler_may_fit_while_the_limit_is_set(library):
    set_num_threads = library.set_num_threads

    def interrupted(n):
        library.set_num_threads = set_num_threads
        with_one_blas_thread(int)
        set_num_threads(n)

    library.set_num_threads = interrupted
    assert in_time(partial(with_one_blas_thread, library.get_num_threads)) == 1
    assert library.get_num_threads() == 4


# --------------------------------------------------------------------------------------
# Shared work.


def test_parts_are_in_order_and_each_is_worked_on_once():
    calls = []
    assert share(lambda k: calls.append(k) or k**2, range(100), 3) == [k**2 for k in range(100)]
    assert sorted(calls) == list(range(100))


def test_several_threads_work(two_threads):
    meet = threading.Barrier(2)
    assert MemoryRows(np.arange(100)).sum(lambda a: meet.wait(DEADLINE) * 0 + a.sum()) == 4950


def test_calls_from_inside_of_what_is_worked_on(two_threads):
    """They would wait for threads that wait for them."""

    def f(block):
        inner = MemoryRows(np.arange(100)).map(np.negative)
        columns = _rows.map_columns(lambda k: MemoryRows(inner).sum(np.sum), 10, 10)
        return np.float64(block.sum() + sum(columns) / 10)

    blocks = 2
    assert in_time(lambda: MemoryRows(np.arange(100)).sum(f)) == 4950 - blocks * 4950


def test_errors_of_a_helper_reach_the_caller_and_end_the_work():
    caller, calls, both = threading.get_ident(), [], threading.Barrier(2)

    def fail(k):
        calls.append(k)
        both.wait(DEADLINE)
        if threading.get_ident() != caller:
            raise RuntimeError("inside")
        time.sleep(0.01)

    with pytest.raises(RuntimeError, match="inside"):
        share(fail, range(2), 2)
    assert len(calls) == 2


def test_after_an_error_of_the_caller_no_part_is_begun():
    caller, calls, failed = threading.get_ident(), [], threading.Event()

    def fail(k):
        calls.append(k)
        if threading.get_ident() == caller:
            raise RuntimeError("inside")
        failed.wait(DEADLINE)

    with pytest.raises(RuntimeError, match="inside"):
        share(fail, range(100), 2)
    failed.set()
    wait_for_helpers()
    assert len(calls) <= 2


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_without_more_threads_the_caller_works_alone(monkeypatch, two_threads, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr(parallel, "_threads", parallel._Threads())
    monkeypatch.setattr(parallel._thread, "start_new_thread", refuse)
    assert MemoryRows(np.arange(100)).sum(np.sum) == 4950
    assert share(abs, range(-3, 0), 3) == [3, 2, 1]


# --------------------------------------------------------------------------------------
# Forks.


@contextmanager
def forked():
    """The number of the child in the parent; in the child 0, and it ends with the block."""
    pid = os.fork()
    if pid:
        yield pid
        return
    status = 1
    try:
        yield 0
        status = 0
    finally:
        os._exit(status)


def outcome(pid):
    """How the child ended: 0, another status, or None if it hangs."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


@needs_fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_while_another_thread_fits(two_threads):
    """The child has all threads of BLAS, and fits."""
    entered, leave = threading.Event(), threading.Event()
    other = threading.Thread(
        target=with_one_blas_thread, args=(lambda: (entered.set(), leave.wait(DEADLINE)),)
    )
    Z, y = make_logits(200, 3, random_state=0)
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        other.start()
        entered.wait(DEADLINE)
        with forked() as child:
            if not child:
                assert blas_threads() == before
                TemperatureScaling().fit(Z, y)
                VectorScaling().fit(Z, y)
                check_limit_is_gone(before)
        status = outcome(child)
        assert set(blas_threads()) <= {1}
        leave.set()
        other.join(DEADLINE)
        assert blas_threads() == before
    assert status == 0


@needs_fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_while_another_thread_changes_blas(library):
    """Only then, since a child would find the locks of BLAS taken."""
    changing, slept = threading.Event(), threading.Event()
    set_num_threads = library.set_num_threads

    def slow(n):
        changing.set()
        time.sleep(0.2)
        slept.set()
        set_num_threads(n)

    library.set_num_threads = slow
    other = threading.Thread(target=with_one_blas_thread, args=(int,))
    other.start()
    changing.wait(DEADLINE)
    with forked() as child:
        if not child:
            assert slept.is_set()
            library.set_num_threads = set_num_threads
            with_one_blas_thread(int)
    assert outcome(child) == 0
    other.join(DEADLINE)
    assert library.get_num_threads() == 4


@needs_fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_from_inside(library):
    """What goes on in the child does so without the limit, and ends without an error."""

    def fork():
        pid = os.fork()
        return pid, library.get_num_threads()

    child, n = with_one_blas_thread(fork)
    if not child:
        os._exit(0 if n == 4 and library.get_num_threads() == 4 else 1)
    assert n == 1
    assert outcome(child) == 0

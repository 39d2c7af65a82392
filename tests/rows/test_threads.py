"""Threads and the limit of BLAS: fits end, and BLAS has all its threads again."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from skcalib import PlattScaling, TemperatureScaling, VectorScaling
from skcalib._rows import rows as _rows
from skcalib._rows.parallel import share, with_one_blas_thread
from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits

DEADLINE = 60.0  # seconds; of what takes milliseconds
LARGE = 60_000  # rows, which are divided among threads


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _limit_is_gone():
    """BLAS has as many threads after a test as before, which are more than one."""
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        yield
        assert blas_threads() == before


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(_rows, "max_threads", lambda: 2)


@pytest.fixture(scope="module")
def rows():
    return make_logits(LARGE, 6, temperature=2.0, random_state=0)


def test_an_error_ends_the_limit():
    with pytest.raises(ZeroDivisionError):
        with_one_blas_thread(lambda: 1 / 0)


PROGRAM = """
import threading
from threadpoolctl import threadpool_info
from skcalib._rows.parallel import with_one_blas_thread

def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

def stay(k):
    entered[k].set()
    leave[k].wait(60)
    seen.append(blas_threads())

for first_out in (0, 1):
    before, seen = blas_threads(), []
    entered, leave = ([threading.Event() for _ in range(2)] for _ in range(2))
    threads = [threading.Thread(target=with_one_blas_thread, args=(stay, k)) for k in range(2)]
    for thread, event in zip(threads, entered):
        thread.start()
        event.wait(60)
    for k in (first_out, 1 - first_out):
        leave[k].set()
        threads[k].join(60)
    assert seen == [{1}, {1}], seen
    assert blas_threads() == before, before
"""


def test_limits_of_two_threads_may_overlap():
    """In a process of its own, where no fixture limits BLAS."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_parts_are_in_order_and_each_is_worked_on_once():
    calls = []
    assert share(lambda k: calls.append(k) or k**2, range(100), 3) == [k**2 for k in range(100)]
    assert sorted(calls) == list(range(100))


def test_several_threads_work(two_threads, monkeypatch):
    monkeypatch.setattr(_rows, "THREAD_ELEMENTS", 5)
    meet = threading.Barrier(2)
    assert MemoryRows(np.arange(100)).sum(lambda a: meet.wait(DEADLINE) * 0 + a.sum()) == 4950


def test_calls_may_be_nested(two_threads, monkeypatch):
    monkeypatch.setattr(_rows, "THREAD_ELEMENTS", 5)

    def f(block):
        inner = MemoryRows(np.arange(100)).map(np.negative)
        columns = _rows.map_columns(lambda k: MemoryRows(inner).sum(np.sum), 10, 10)
        return np.float64(block.sum() + sum(columns) / 10)

    blocks = 2
    assert MemoryRows(np.arange(100)).sum(f) == 4950 - blocks * 4950


def test_errors_of_a_thread_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        share(lambda k: 1 / k, range(3), 2)


@pytest.mark.skipif(sys.platform != "linux", reason="signals as on Linux")
@pytest.mark.parametrize("kind", [TemperatureScaling, VectorScaling, PlattScaling])
def test_ctrl_c_ends_a_fit_and_the_next_fit_works(kind, rows, two_threads):
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        with pytest.raises(KeyboardInterrupt):
            kind().fit(*rows)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    kind().fit(*rows)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_fits_in_processes_and_in_threads(backend, rows, two_threads):
    fits = Parallel(n_jobs=2, backend=backend)(
        delayed(TemperatureScaling().fit)(*rows) for _ in range(4)
    )
    assert len({fit.temperature_ for fit in fits}) == 1


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_searches_may_be_nested(backend, rows, two_threads):
    Z, y = rows[0][:2000], rows[1][:2000]
    inner = GridSearchCV(VectorScaling(), {"alpha": [1.0, 2.0]}, cv=2, n_jobs=2)
    outer = GridSearchCV(
        inner, {"param_grid": [{"alpha": [1.0]}, {"alpha": [3.0]}]}, cv=2, n_jobs=2
    )
    with Parallel(n_jobs=2, backend=backend) as parallel:
        fits = parallel(delayed(outer.fit)(Z, y) for _ in range(2))
    assert fits[0].best_score_ == fits[1].best_score_

"""Threads and the limit of BLAS: fits end, and BLAS has all its threads again."""

import os
import signal
import subprocess
import sys

import pytest
from joblib import Parallel, delayed
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info, threadpool_limits

from skcalib import PlattScaling, TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits

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
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


@pytest.fixture(scope="module")
def rows():
    return make_logits(LARGE, 6, temperature=2.0, random_state=0)


PROGRAM = """
import threading
from threadpoolctl import threadpool_info
from skcalib._rows.parallel import one_blas_thread

def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

def stay(k):
    with one_blas_thread:
        entered[k].set()
        leave[k].wait(60)
        seen.append(blas_threads())

for first_out in (0, 1):
    before, seen = blas_threads(), []
    entered, leave = ([threading.Event() for _ in range(2)] for _ in range(2))
    threads = [threading.Thread(target=stay, args=(k,)) for k in range(2)]
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


class Failing(TemperatureScaling):
    """Calibrator with an error in one of its blocks of rows."""

    def _calibrate(self, Z):
        if (Z == 7.0).all(axis=1).any():
            raise ZeroDivisionError
        return super()._calibrate(Z)


def test_errors_in_a_thread_reach_the_caller(rows, two_threads):
    calibrator, X = Failing().fit(*rows), rows[0].copy()
    assert calibrator.predict_proba(X).shape == X.shape
    X[-1] = 7.0
    with pytest.raises(ZeroDivisionError):
        calibrator.predict_proba(X)


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

"""Threads and the limit of BLAS: fits end, and BLAS has all its threads again."""

import signal
import sys
import threading

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


def test_limits_of_fits_in_two_threads_may_overlap(rows):
    """The fixture checks the limit of BLAS when both have ended."""
    few = rows[0][:2000], rows[1][:2000]
    threads = [
        threading.Thread(target=lambda: [VectorScaling().fit(*few) for _ in range(10)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


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


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
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

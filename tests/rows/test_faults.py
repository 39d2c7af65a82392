"""Real fits that are interrupted at a random time, forked under, and short of memory.

Each fault is in a process of its own, in which nothing may hang and BLAS has all its threads again.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from skcalib import PlattScaling, TemperatureScaling, VectorScaling
from skcalib._rows.parallel import _threads
from skcalib.datasets import make_logits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as on Linux"),
]
KINDS = [TemperatureScaling, VectorScaling, PlattScaling]
SHORT, LARGE = 2000, 60_000  # rows; only the larger number is divided among threads


def fit(rows, kind, n):
    kind().fit(rows[0][:n], rows[1][:n])


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def check_limit_is_gone(before):
    """Within two seconds, in which helper threads may finish their work."""
    end = time.monotonic() + 2
    while blas_threads() != before and time.monotonic() < end:
        time.sleep(0.001)
    assert blas_threads() == before


def interrupted(rows, rng, before):
    """Ctrl-C by a timer; the same process continues with the next fit."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    for k in range(12):
        kind, n = KINDS[k % 3], (SHORT, LARGE)[k % 2]
        start = time.perf_counter()
        fit(rows, kind, n)
        seconds = time.perf_counter() - start
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, seconds))
            fit(rows, kind, n)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        check_limit_is_gone(before)


def all_fits(rows, before):
    check_limit_is_gone(before)
    for kind in KINDS:
        fit(rows, kind, SHORT)
    fit(rows, VectorScaling, LARGE)
    check_limit_is_gone(before)


def forked(rows, rng, before):
    """While two other threads fit: plain forks, and then a pool of processes."""
    stop = threading.Event()

    def fit_on(kind):
        while not stop.is_set():
            fit(rows, kind, LARGE)

    threads = [threading.Thread(target=fit_on, args=(kind,)) for kind in KINDS[1:]]
    for thread in threads:
        thread.start()
    for _ in range(5):
        time.sleep(rng.uniform(0, 0.02))
        child = os.fork()
        if not child:
            signal.alarm(60)  # ends a child that hangs
            all_fits(rows, before)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.starmap_async(all_fits, [(rows, before)] * 2).get(60)
    stop.set()
    for thread in threads:
        thread.join()
    check_limit_is_gone(before)


def short_of_memory(rows, rng, before):
    """A limit of up to 20 MiB above the memory in use, also before threads are started."""
    # Blocks with gaps between them, which only small requests can use. Without them NumPy may end
    # the process: where a ufunc cannot allocate its buffers the error is set without the lock.
    blocks = [bytes(72_000) for _ in range(400)]
    del blocks[::2]
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for k in range(12):
        if k % 6 == 0:
            _threads.__init__()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = size + int(rng.uniform(0, 20) * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            fit(rows, VectorScaling, LARGE)
        except MemoryError:
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        check_limit_is_gone(before)
        fit(rows, VectorScaling, LARGE)


FAULTS = {f.__name__: f for f in (interrupted, forked, short_of_memory)}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_hangs_and_no_limit_persists(fault):
    here = Path(__file__)
    run = subprocess.run(
        [sys.executable, here, fault], env={**os.environ, "PYTHONPATH": str(here.parents[2])},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    data = make_logits(LARGE, 6, temperature=2.0, random_state=0)
    threads_before = blas_threads()
    all_fits(data, threads_before)  # OpenBLAS ends the process if it has no first buffers
    FAULTS[sys.argv[1]](data, np.random.default_rng(0), threads_before)

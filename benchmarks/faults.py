"""Stress test of fits under interrupts, forks and lack of memory.

Ctrl-C at a random moment of a fit; forks while other threads fit, after which the child fits, by
itself and in a pool of processes; fits with little more memory than the process has. Afterwards
BLAS must have its original number of threads, and another fit must finish. The exit status is 1 if
a process hangs or dies or the limit of BLAS persists. Linux only. Run::

    python benchmarks/faults.py [--fits 300] [--seed 0]
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from skcalib import PlattScaling, TemperatureScaling, VectorScaling
from skcalib._rows.parallel import _threads
from skcalib.datasets import make_logits

KINDS = [TemperatureScaling, VectorScaling, PlattScaling]
SHORT, LARGE = 2000, 60_000  # rows; only the larger number is divided among threads
DEADLINE = 30.0
OUTCOMES = ["passed", "hangs", "limit persists", "dies"]

Z, y = make_logits(LARGE, 6, temperature=2.0, random_state=0)


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def fit(kind: type, n: int) -> None:
    kind().fit(Z[:n], y[:n])


def fit_all() -> None:
    for kind in KINDS:
        fit(kind, SHORT)
    fit(VectorScaling, LARGE)


def limit_persists(before: list[int]) -> bool:
    """Whether BLAS stays limited for two seconds, in which helper threads may finish their work."""
    end = time.monotonic() + 2
    while blas_threads() != before and time.monotonic() < end:
        time.sleep(0.001)
    return blas_threads() != before


def outcome_of_child(task: Callable[[], bool]) -> str:
    """Outcome of a task in a forked process; the task returns whether a limit persists."""
    pid = os.fork()
    if not pid:
        faulthandler.dump_traceback_later(DEADLINE - 5)
        status = 3
        try:
            status = 2 if task() else 0
        finally:
            os._exit(status)
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return {0: OUTCOMES[0], 2: OUTCOMES[2]}.get(code, OUTCOMES[3])
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return OUTCOMES[1]


# --------------------------------------------------------------------------------------
# The three faults. Each is run in a process of its own.


def interrupted(n: int, random: np.random.Generator, before: list[int]) -> Counter[str]:
    """Ctrl-C by a timer; the same process continues with the next fit."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    counts: Counter[str] = Counter()
    for k in range(n):
        kind, rows = KINDS[k % 3], (SHORT, LARGE)[k % 2]
        start = time.perf_counter()
        fit(kind, rows)
        seconds = time.perf_counter() - start
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, seconds))
            fit(kind, rows)
            signal.setitimer(signal.ITIMER_REAL, 0)
            what = "not reached"
        except KeyboardInterrupt:
            what = "interrupted"
        counts[what] += 1
        counts[OUTCOMES[2] if limit_persists(before) else OUTCOMES[0]] += 1
    return counts


def forked(n: int, random: np.random.Generator, before: list[int]) -> Counter[str]:
    """While two other threads fit: plain forks, and every 20th time a pool of processes."""
    stop, counts = threading.Event(), Counter[str]()

    def fit_on(kind: type) -> None:
        while not stop.is_set():
            fit(kind, LARGE)

    def in_child() -> bool:
        persists = limit_persists(before)
        fit_all()
        return persists or limit_persists(before)

    threads = [threading.Thread(target=fit_on, args=(kind,)) for kind in KINDS[1:]]
    for thread in threads:
        thread.start()
    for k in range(n):
        time.sleep(random.uniform(0, 0.02))
        counts[outcome_of_child(in_pool if k % 20 == 19 else in_child)] += 1
    stop.set()
    for thread in threads:
        thread.join()
    counts["limit persists in the parent"] = int(limit_persists(before))
    return counts


def in_pool() -> bool:
    """A pool of processes, forked while threads of this process fit."""
    before = blas_threads()
    thread = threading.Thread(target=lambda: [fit(VectorScaling, LARGE) for _ in range(3)])
    thread.start()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        persists = pool.map(_fit_in_pool, [before] * 4)
    thread.join()
    return any(persists) or limit_persists(before)


def _fit_in_pool(before: list[int]) -> bool:
    fit_all()
    return limit_persists(before)


def short_of_memory(n: int, random: np.random.Generator, before: list[int]) -> Counter[str]:
    """A limit of up to 20 MiB above the memory in use, also before threads are started."""
    counts: Counter[str] = Counter()
    _reserve = _small_gaps()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for k in range(n):
        if k % 10 == 0:
            _threads.__init__()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        more = int(random.uniform(0, 20) * 2**20)
        resource.setrlimit(resource.RLIMIT_AS, (size + more, hard))
        try:
            fit(VectorScaling, LARGE)
            counts["fitted"] += 1
        except MemoryError:
            counts["MemoryError"] += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        counts[OUTCOMES[2] if limit_persists(before) else OUTCOMES[0]] += 1
        fit(VectorScaling, LARGE)
    return counts


def _small_gaps() -> list[bytes]:
    """Blocks of memory with gaps between them, which only small requests can use.

    Without them numpy may end the process: where a ufunc cannot allocate its buffers of 64 KiB, the
    error is set without the global interpreter lock (``NpyIter_Reset`` in numpy 2.4).
    """
    blocks = [bytes(72_000) for _ in range(400)]
    del blocks[::2]
    return blocks


FAULTS = {"interrupted": interrupted, "forked": forked, "short of memory": short_of_memory}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--fits", type=int, default=300, help="fits per fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=FAULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bad = 0
    print(f"{'':18}" + "".join(f"{name:>16}" for name in OUTCOMES), flush=True)
    for name in [args.only] if args.only else FAULTS:
        counts = in_process(name, args.fits, args.seed)
        more = ", ".join(f"{n} {what}" for what, n in counts.items() if what not in OUTCOMES)
        print(f"{name:18}" + "".join(f"{counts[k]:16}" for k in OUTCOMES), more, flush=True)
        bad += sum(counts[k] for k in (*OUTCOMES[1:], "limit persists in the parent"))
    return min(bad, 1)


def in_process(name: str, n: int, seed: int) -> Counter[str]:
    """Counts of the outcomes of a fault in a new process, which hangs if it exceeds its time."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_run, args=(name, n, seed, queue))
    process.start()
    process.join(60 + 3 * n)
    if process.is_alive():
        process.kill()
        return Counter({OUTCOMES[1]: n})
    if process.exitcode:
        return Counter({OUTCOMES[3]: n, f"exit status {process.exitcode}": 1})
    return queue.get()


def _run(name: str, n: int, seed: int, queue: multiprocessing.Queue) -> None:
    warnings.simplefilter("ignore")
    faulthandler.enable()  # says where a process dies
    before = blas_threads()
    fit_all()  # OpenBLAS ends the process if it cannot allocate its first buffers
    queue.put(FAULTS[name](n, np.random.default_rng(seed), before))


if __name__ == "__main__":
    sys.exit(main())

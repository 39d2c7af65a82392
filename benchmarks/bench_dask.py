"""Fits of rows in Parquet files on the workers of a cluster, compared with fits in memory.

``python benchmarks/bench_dask.py --rows 50_000_000`` writes logits of 10 classes in single
precision to a temporary folder, a million rows per file, and fits each calibrator on a new cluster
of two workers with 2 GB each. Printed are the seconds from opening the files to the fitted
calibrator, the round trips, the peak memory of a worker and the data received by the client.
``--kill`` repeats each fit with a worker killed on the way, and ``--kill SECONDS`` kills one after
so many seconds of the only fit, where two would take hours. ``--simulate`` makes the rows on the
workers, a quarter of a million per chunk, in place of reading them; ``--methods AutoCalibrator`` is
the default. ``--scaling`` fits the cost model of the guide to 10 000 000 rows and one worker,
compares it with other sizes, and prints its predictions for more rows and workers.
"""

import argparse
import os
import pickle
import resource
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster, wait
from sklearn.base import clone
from timing import medians

from skcalib import (
    BBQ,
    AutoCalibrator,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib._rows import dask
from skcalib.datasets import make_logits

METHODS = [
    TemperatureScaling(),
    VectorScaling(),
    PlattScaling(),
    HistogramBinning(),
    IsotonicCalibration(),
    BBQ(),
    AutoCalibrator(),
]
FILE_ROWS, CHUNK_ROWS = 1_000_000, 250_000
CLASSES = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2GB", help="memory of each worker")
    parser.add_argument("--files", type=Path, help="folder where the files are kept")
    parser.add_argument("--methods", nargs="+", help="names of calibrators")
    parser.add_argument("--kill", nargs="?", const=0, type=float, metavar="SECONDS")
    parser.add_argument("--simulate", action="store_true", help="make rows in place of reading")
    parser.add_argument("--scaling", action="store_true")
    args = parser.parse_args()
    methods = [m for m in METHODS if not args.methods or type(m).__name__ in args.methods]
    if args.scaling:
        scaling(methods)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.files or Path(temporary)
        if not args.simulate:
            write_files(folder, args.rows)
        print(f"{args.rows:,} x {CLASSES}, {args.workers} workers with {args.memory} each")
        print(f"{'':22}{'time':>8}{'rounds':>8}{'peak':>9}{'client':>9}{'received':>11}")
        for method in methods:
            report(method, folder, args)


def write_files(folder, rows):
    """Files of a million rows each; existing files are reused."""
    folder.mkdir(exist_ok=True)
    for k in range(rows // FILE_ROWS):
        file = folder / f"{k:05d}.parquet"
        if not file.exists():
            write_file(file, k)


def write_file(file, k):
    made(k, FILE_ROWS).astype({"y": np.int8}).to_parquet(file)


def made(k, n):
    """The k-th block of n rows: over-confident logits with an offset of each class."""
    Z, y = make_logits(
        n, CLASSES, temperature=2.0, offset=np.linspace(0, 1, CLASSES), random_state=k
    )
    names = [f"z{i}" for i in range(CLASSES)]
    return pd.DataFrame(Z.astype(np.float32), columns=names).assign(y=y)


def simulated(n):
    """Logits and labels that are made where they are used."""
    shape, chunks = (n, CLASSES + 1), (CHUNK_ROWS, CLASSES + 1)

    def of_chunk(_, block_id):
        return made(block_id[0], CHUNK_ROWS).to_numpy(np.float32)

    meta = np.empty((0, CLASSES + 1), np.float32)
    both = da.zeros(shape, np.float32, chunks=chunks).map_blocks(of_chunk, meta=meta)
    return both[:, :CLASSES], both[:, CLASSES].astype(int)


def columns_of(frame):
    return frame[[name for name in frame.columns if name != "y"]], frame["y"]


def report(method, folder, args):
    sizes = count_rounds()
    seconds, peak, fitted = fit(method, folder, args, kill_after=args.kill or None)
    line = f"{type(method).__name__:22}{seconds:7.1f}s{len(sizes):8}{peak / 1e9:7.2f}GB"
    line += f"{peak_memory() / 1e9:7.2f}GB{sum(sizes) / 1e6:9.3f}MB  "
    if args.kill == 0:
        Z = made(-1 % 2**32, 10_000).to_numpy(np.float32)[:, :CLASSES]
        P = fitted.predict_proba(Z)
        seconds, _, fitted = fit(method, folder, args, kill_after=0.4 * seconds)
        change = np.abs(fitted.predict_proba(Z) - P).max()
        line += f"{seconds:.1f}s with a worker killed, change {change:.1g}"
    elif args.kill:
        line += f"a worker killed after {args.kill:.0f}s"
    print(line, flush=True)


def fit(method, folder, args, *, kill_after=None):
    """Seconds, the peak memory of a worker, and the fitted calibrator."""
    files = [str(folder / f"{k:05d}.parquet") for k in range(args.rows // FILE_ROWS)]
    with (
        LocalCluster(
            n_workers=args.workers,
            threads_per_worker=1,
            memory_limit=args.memory,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm)
        if kill_after is not None:
            threading.Thread(target=kill_one, args=(cluster, kill_after)).start()
        start = time.perf_counter()
        X, y = simulated(args.rows) if args.simulate else columns_of(dd.read_parquet(files))
        fitted = clone(method).fit(X, y)
        return time.perf_counter() - start, max(client.run(peak_memory).values()), fitted


def warm():
    """Import skcalib, which takes a worker a second or two."""
    import skcalib  # noqa: F401


def peak_memory():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def kill_one(cluster, after):
    time.sleep(after)
    os.kill(next(iter(cluster.workers.values())).pid, 9)


def count_rounds():
    """A list to which the bytes that the client receives in each round trip are appended."""
    computed, sizes = getattr(dask.computed, "plain", dask.computed), []

    def counting(task):
        outcome = computed(task)
        sizes.append(len(pickle.dumps(outcome)))
        return outcome

    counting.plain = computed
    dask.computed = counting
    return sizes


def local_cluster(n_workers):
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")


def empty_round(n_chunks):
    """Seconds of a round trip with empty tasks."""
    few = da.zeros((n_chunks, CLASSES), chunks=(1, CLASSES)).persist()
    wait(few)
    like = np.zeros((0, CLASSES))
    rows = dask.DaskRows([list(np.ravel(few.to_delayed()))], (1,) * n_chunks, [like])
    return medians({"": partial(rows.sum, len)}, 9)[""]


def made_rows(n_chunks):
    """Equal chunks of a million rows, persisted in the memory of the workers."""
    Z, y = make_logits(FILE_ROWS, CLASSES, temperature=2.0, random_state=0)
    Z = Z.astype(np.float32)
    shape = n_chunks * FILE_ROWS, CLASSES
    X = da.zeros(shape, chunks=(FILE_ROWS, CLASSES)).map_blocks(lambda _: Z.copy(), meta=Z[:0])
    Y = da.zeros(shape[0], chunks=FILE_ROWS).map_blocks(lambda _: y, meta=y[:0])
    X, Y = X.persist(), Y.persist()
    wait([X, Y])
    return X, Y


def scaling(methods):
    measured, rounds = {}, {}
    for n_workers in (1, 2):
        with local_cluster(n_workers) as cluster, Client(cluster) as client:
            client.run(warm)
            if n_workers == 1:
                latency = empty_round(1)
                task = (empty_round(201) - latency) / 200
            for n_chunks in (1, 10, 100):
                X, Y = made_rows(n_chunks)
                for method in methods:
                    sizes = count_rounds()
                    start = time.perf_counter()
                    method.fit(X, Y)
                    name = type(method).__name__
                    measured[name, n_chunks, n_workers] = time.perf_counter() - start
                    rounds[name] = len(sizes)
                del X, Y
    print(f"latency {1000 * latency:.0f} ms, task {1000 * task:.2f} ms")
    for name, n_rounds in rounds.items():
        base = measured[name, 10, 1]
        work = (base - n_rounds * (latency + 10 * task)) / (10 * FILE_ROWS)

        def predicted(rows, n_workers, chunk=FILE_ROWS, work=work, n_rounds=n_rounds):
            return n_rounds * (latency + rows / chunk * task) + rows * work / n_workers

        print(f"{name}: {n_rounds} rounds, work {1e9 * work:.0f} ns a row in all")
        for (other, n_chunks, n_workers), seconds in measured.items():
            if other == name:
                model = predicted(n_chunks * FILE_ROWS, n_workers)
                print(
                    f"  {n_chunks:4} million rows, {n_workers} workers: {seconds:7.2f} s, "
                    f"model {model:7.2f} s"
                )
        for rows, chunk in ((1e9, 1e6), (1e9, 1e7), (1e11, 1e7)):
            times = [predicted(rows, n, chunk) for n in (10, 100, 1000)]
            shown = ", ".join(f"{seconds:,.0f} s" for seconds in times)
            print(f"  {rows:.0e} rows in chunks of {chunk:.0e}, 10, 100, 1000 workers: {shown}")


if __name__ == "__main__":
    main()

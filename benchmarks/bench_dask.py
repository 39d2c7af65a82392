"""Times of fits to chunks of rows with Dask, for one and for two workers.

Logits of ten classes are in chunks of a million rows, which the workers hold in memory. Run::

    python benchmarks/bench_dask.py [--rows 1000000 10000000] [--methods TemperatureScaling]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
from command_line import run
from distributed import Client, LocalCluster, wait
from timing import medians

import skcalib
from skcalib.datasets import make_logits

CHUNK_ROWS, N_CLASSES = 1_000_000, 10


def rows_of(n_rows: int) -> tuple[da.Array, da.Array]:
    """Logits and labels, drawn chunk by chunk on the workers and kept there."""
    n_chunks = -(-n_rows // CHUNK_ROWS)
    size = n_rows // n_chunks
    draw = dask.delayed(make_logits, nout=2)
    chunks = [draw(size, N_CLASSES, temperature=1.5, random_state=i) for i in range(n_chunks)]
    logits = [da.from_delayed(Z, (size, N_CLASSES), np.float64) for Z, _ in chunks]
    labels = [da.from_delayed(y, (size,), np.int64) for _, y in chunks]
    rows = dask.persist(da.concatenate(logits), da.concatenate(labels))
    wait(rows)
    return rows


def times(
    rows: tuple[int, ...] = (1_000_000, 10_000_000),
    methods: tuple[str, ...] = ("TemperatureScaling",),
) -> Iterator[tuple[Any, ...]]:
    """Seconds to fit chunks of rows, for one and for two workers."""
    yield "method", "rows", "workers", "seconds"
    for workers in (1, 2):
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster):
            for n_rows in rows:
                X, y = rows_of(n_rows)
                for name in methods:
                    calibrator = getattr(skcalib, name)()
                    tasks = {"fit": lambda c=calibrator, X=X, y=y: c.fit(X, y)}
                    yield name, n_rows, workers, f"{medians(tasks, 3)['fit']:.2f}"


if __name__ == "__main__":
    run(times)

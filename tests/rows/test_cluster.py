"""Dask with a real cluster of two processes."""

import os
import threading
import time
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pytest

from skcalib import BBQ, PlattScaling, TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

pytestmark = pytest.mark.slow

N, CHUNK = 20_000, 2500


@contextmanager
def two_processes():
    """A cluster of two processes that spill to disk above 30 MB."""
    import distributed  # long

    with (
        dask.config.set({"distributed.worker.memory.target": 0.03}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def cluster():
    with two_processes() as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with cluster.get_client() as client:
        yield client


@pytest.fixture
def client_of_its_own():
    """For tests that kill a worker, which Dask does not always start again."""
    with two_processes() as cluster, cluster.get_client() as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return make_logits(N, 4, temperature=2.0, offset=[0, 1, 0, 0], random_state=0)


def with_dask(Z, y):
    return da.from_array(Z, chunks=(CHUNK, Z.shape[1])), da.from_array(y, chunks=CHUNK)


def late(block, block_id=(0, 0), seconds=0.0, of=range(99)):
    time.sleep(seconds if block_id[0] in of else 0)
    return block


def slow(X, **how):
    return X.map_blocks(late, dtype=X.dtype, meta=np.empty((0, X.shape[1])), **how)


@pytest.mark.parametrize(
    "form", [VectorScaling(alpha=1, tol=1e-11), PlattScaling(), BBQ()], ids=repr
)
def test_fits_on_workers_match_fits_in_memory(form, rows, client):
    Z, y = rows
    P = type(form)(**form.get_params()).fit(Z, y).predict_proba(Z)
    X, Y = with_dask(Z, y)
    far = form.fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(far.compute(), P, rtol=1e-9)
    assert expected_calibration_error(Y, far) == pytest.approx(expected_calibration_error(y, P))


def test_lost_workers_do_not_change_the_fit(rows, client_of_its_own):
    X, Y = with_dask(*rows)
    expected = VectorScaling().fit(X, Y)
    first, fit = threading.Event(), {}

    def work():
        first.set()
        fit["far"] = VectorScaling().fit(slow(X, seconds=0.15), Y)

    thread = threading.Thread(target=work)
    thread.start()
    first.wait()
    time.sleep(0.4)  # some chunks are there, others not
    victim = next(iter(client_of_its_own.run(os.getpid).values()))
    os.kill(victim, 9)
    thread.join()
    assert victim not in client_of_its_own.run(os.getpid).values()
    assert np.array_equal(fit["far"].coef_, expected.coef_)
    assert np.array_equal(fit["far"].intercept_, expected.intercept_)


def test_slow_chunks_do_not_change_the_fit(rows, client):
    X, Y = with_dask(*rows)
    far = PlattScaling().fit(slow(X, seconds=0.5, of=[2]), Y)
    assert np.array_equal(far.coef_, PlattScaling().fit(X, Y).coef_)


def noted(block, block_id=(0, 0), file=None):
    with file.open("a") as notes:
        notes.write(f"{block_id[0]}\n")
    return block


def test_rows_are_kept_by_the_workers(rows, client, tmp_path):
    """Chunks are made once, not in every pass."""
    X, Y = with_dask(*rows)
    file = tmp_path / "chunks"
    X = X.map_blocks(noted, file=file, dtype=X.dtype, meta=np.empty((0, 4)))
    TemperatureScaling().fit(X, Y)
    assert sorted(map(int, file.read_text().split())) == list(range(N // CHUNK))


def test_more_rows_than_memory(rows, client):
    """100 MB of logits, while the workers hold about 60 MB at a time."""
    Z, y = (np.concatenate([a] * 5) for a in rows)
    n, times = len(y), 30
    X = da.zeros((times * n, 4), chunks=(n, 4)).map_blocks(lambda _: Z.copy(), meta=Z[:0])
    Y = da.zeros(times * n, chunks=n, dtype=int).map_blocks(lambda _: y, meta=y[:0])
    X = X.persist()
    far = TemperatureScaling().fit(X, Y)
    on_disk = client.run(lambda dask_worker: len(dask_worker.data.disk))
    assert sum(on_disk.values()) > times / 4
    assert far.temperature_ == pytest.approx(TemperatureScaling().fit(Z, y).temperature_, rel=1e-9)


def test_closed_client(rows, cluster):
    with cluster.get_client():
        X, Y = (a.persist() for a in with_dask(*rows))
    with pytest.raises(RuntimeError, match="chunk"):
        TemperatureScaling().fit(X, Y)

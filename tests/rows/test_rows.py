"""Sums and maps over blocks: the same whatever the blocks and threads."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import cloudpickle
import numpy as np
import pytest
import scipy.special

import skcalib
from skcalib import binning, scaling
from skcalib._rows import parallel, rows as _rows
from skcalib._rows.arrays import both_columns, softmax
from skcalib._rows.rows import MemoryRows, Plan
from skcalib.datasets import make_logits


@pytest.fixture(params=["one block", "many blocks", "threads"])
def blocking(request, monkeypatch):
    if request.param != "one block":
        monkeypatch.setattr(_rows, "BLOCK_ELEMENTS", 20)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if request.param == "threads":
        monkeypatch.setattr(_rows, "THREAD_ELEMENTS", 20)
        monkeypatch.setattr(_rows, "max_threads", lambda: 3)
    return request.param


@pytest.mark.parametrize("width", [1, 3, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sum_is_that_of_one_block(blocking, rng, width, dtype):
    X = rng.normal(size=(101, width)).astype(dtype)
    w = rng.uniform(size=101)
    total = MemoryRows(X, w).sum(lambda X, w: w @ X.astype(float))
    np.testing.assert_allclose(total, w @ X.astype(float), rtol=1e-13)


def test_rows_of_several_arrays_stay_together(blocking):
    a, b = np.arange(101), 2 * np.arange(101)
    seen = []

    def check(a, nothing, b):
        assert nothing is None
        assert np.array_equal(2 * a, b)
        seen.append(len(a))
        return np.zeros(1)

    MemoryRows(a, None, b).sum(check)
    assert sum(seen) == 101
    assert (len(seen) > 1) == (blocking != "one block")


@pytest.mark.parametrize("width", [3, 200])
def test_scratch_is_like_the_block(blocking, rng, width):
    X = rng.normal(size=(101, width)).astype(np.float32)

    def f(X, U, V):
        assert U.shape == V.shape == X.shape
        assert U.dtype == V.dtype == X.dtype
        assert not np.shares_memory(U, V)
        assert not np.shares_memory(U, X)
        np.multiply(X, 2, out=U)
        return U.sum(axis=0, dtype=float)

    np.testing.assert_allclose(
        MemoryRows(X).sum(f, Plan(scratch=2)), 2 * X.sum(axis=0, dtype=float)
    )


@pytest.mark.parametrize("width", [1, 3, 200])
def test_map_is_that_of_one_block(blocking, rng, width):
    X = rng.normal(size=(101, width)).astype(np.float32)
    out = MemoryRows(X).map(np.exp)
    assert out.dtype == np.float32
    assert out.flags.c_contiguous
    assert np.array_equal(out, np.exp(X))


@pytest.mark.parametrize("n", [1, 5, 101])
@pytest.mark.parametrize("order", ["C", "F"])
def test_map_to_several_arrays(blocking, rng, n, order):
    X, y = rng.normal(size=(n, 3)), np.arange(n)
    out, sums = MemoryRows(X, y).map(lambda X, y: (-X, X.sum(axis=1) + y), order=order)
    assert out.flags[f"{order}_CONTIGUOUS"]
    assert np.array_equal(out, -X)
    np.testing.assert_allclose(sums, X.sum(axis=1) + y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 9])
def test_softmax_is_that_of_scipy(rng, width, dtype):
    Z = (100 * rng.normal(size=(50, width))).astype(dtype)
    if width > 1:
        Z[::3, 0] = -np.inf
    P = softmax(Z)
    assert P.dtype == dtype
    np.testing.assert_allclose(P, scipy.special.softmax(both_columns(Z), axis=1), rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("1000", 8), ("", 8), ("0", 8), ("many", 8)]
)
def test_threads_are_limited_by_the_usual_variable(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    monkeypatch.setattr(parallel, "_cores", lambda: 8)
    assert parallel.max_threads() == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_makes_threads_of_its_own(monkeypatch):
    """It has none of those of its parent, and would wait for them for ever."""
    monkeypatch.setattr(_rows, "THREAD_ELEMENTS", 5)
    monkeypatch.setattr(_rows, "max_threads", lambda: 2)
    assert MemoryRows(np.arange(100)).sum(np.sum) == 4950
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(MemoryRows(np.arange(100)).sum, np.sum).result(timeout=60) == 4950


def test_memmap_is_read_in_blocks(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(_rows, "BLOCK_ELEMENTS", 40)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=float, shape=(100, 4))
    X[:] = rng.normal(size=X.shape)
    X.flush()
    on_disk = np.load(tmp_path / "x.npy", mmap_mode="r")
    sizes = []
    total = MemoryRows(on_disk).sum(lambda X: (sizes.append(len(X)), X.sum(axis=0))[1])
    np.testing.assert_allclose(total, X.sum(axis=0))
    assert max(sizes) == 10


def test_one_column_is_the_log_odds_of_the_second_class():
    Z = np.array([[1.5], [-2.0]], dtype=np.float32)
    both = both_columns(Z)
    assert both.dtype == np.float32
    assert both.tolist() == [[0.0, 1.5], [0.0, -2.0]]
    assert both_columns(both) is both


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
@pytest.mark.parametrize("setting", [{}, {"MALLOC_TRIM_THRESHOLD_": "65536"}])
def test_how_malloc_was_set_is_found_out(setting):
    code = "from skcalib._rows.rows import _gives_memory_back; print(_gives_memory_back())"
    environment = {k: v for k, v in os.environ.items() if k != "MALLOC_TRIM_THRESHOLD_"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **setting},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(bool(setting))


@pytest.mark.parametrize(("n", "at_least", "expected"), [
    (64 * 600, 512, 600),  # every 64th row
    (6400, 512, 534),  # every twelfth, for these to be at least so many
    (600, 512, None),  # all rows are no sample
    (640_000, 512, 1000),  # not more than a tenth of the 10 000 elements in rows of ten
    (64 * 3000, 1100, None),  # too many to gather
])  # fmt: skip
def test_samples(n, at_least, expected, monkeypatch):
    monkeypatch.setattr("skcalib._rows.rows.SAMPLE_ELEMENTS", 10_000)
    rows = MemoryRows(np.broadcast_to(np.arange(n)[:, None], (n, 10)), np.arange(n), None)
    found = rows.sample(lambda some: (some.n_rows, some.w, np.diff(some.y).tolist()), at_least)
    if expected is None:
        assert found is None
    else:
        n_rows, w, steps = found
        assert n_rows == expected
        assert w is None
        assert len(set(steps)) == 1


def test_rows_that_differ_in_other_arrays_weigh_the_same(rng, monkeypatch):
    w = rng.uniform(size=10)
    rows = MemoryRows(np.zeros((10, 2)), np.arange(10), w)
    assert rows.weight == pytest.approx(w.sum())
    monkeypatch.setattr(MemoryRows, "sum", None)  # known without another pass
    assert rows.relabelled(np.negative, classes=np.arange(-9, 1)).extended(w).weight == rows.weight


@pytest.mark.parametrize("derive", [
    lambda rows: rows.with_logits(rows.X + 1),
    lambda rows: rows.extended(rows.y),
    lambda rows: rows.relabelled(np.negative, weight=10.0),
    lambda rows: rows.thinned(2),
    lambda rows: rows.taken(np.array([4, 0])),
    lambda rows: rows.in_memory(),
    lambda rows: rows.on_host(),
    lambda rows: rows.sample(lambda some: some, 1, or_all=True),
])  # fmt: skip
def test_derived_rows_have_their_classes_and_groups(derive):
    """A group of each row, that of the label here, and the labels of the columns."""
    y, names = np.arange(10) % 2, np.array(["a", "b"])
    rows = MemoryRows(np.zeros((10, 2)), y, None, classes=names, masked=True)
    found = derive(rows.grouped(names[y]))
    assert found.masked
    assert np.array_equal(found.classes, names)
    assert np.array_equal(found.groups, names[abs(found.y)])


@pytest.mark.parametrize("width", [1, 3, 200])
def test_one_block_is_kept_and_not_written_to(rng, width):
    """Passes over few rows share a block, by columns where that is faster, which stays as it is."""
    X = rng.normal(size=(7, width))
    blocks, rows = [], MemoryRows(X.copy())
    rows.sum(lambda X: blocks.append(X) or np.zeros(1))
    rows.sum(lambda X, scratch: blocks.append(X) or scratch.sum(), Plan(scratch=1, at_least=5))
    assert blocks[0] is blocks[1]
    assert blocks[0].flags.f_contiguous == (width != 200)
    if width == 3:
        with pytest.raises(ValueError, match="read-only"):
            rows.sum(lambda X: np.multiply(X, 2, out=X))
    np.testing.assert_array_equal(rows.sum(lambda X: X), X)


KINDS = [getattr(skcalib, name) for name in sorted(scaling.__all__ + binning.__all__)]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_blocks_do_not_hold_the_rows(kind, monkeypatch):
    """With Dask they travel to the workers in every pass."""
    sizes, sum_of = {}, MemoryRows.sum

    def recorded(rows, f, *plan, **merge):
        sizes[n] = max(sizes[n], len(cloudpickle.dumps(f)))
        return sum_of(rows, f, *plan, **merge)

    monkeypatch.setattr(MemoryRows, "sum", recorded)
    for n in (1000, 6000):
        sizes[n] = 0
        kind().fit(*make_logits(n, 3, temperature=2.0, random_state=0))
    assert sizes[6000] < sizes[1000] + 2000

"""Sums and maps over blocks do not depend on the blocks and the threads."""

import cloudpickle
import numpy as np
import pytest
import scipy.special

import skcalib
from skcalib import binning, scaling
from skcalib._rows import Rows, map_blocks, parallel, thin
from skcalib._rows.arrays import both_columns, softmax
from skcalib.datasets import make_logits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 9])
def test_softmax_matches_scipy(rng, width, dtype):
    Z = (100 * rng.normal(size=(50, width))).astype(dtype)
    if width > 1:
        Z[::3, 0] = -np.inf
    P = softmax(Z)
    assert P.dtype == dtype
    np.testing.assert_allclose(P, scipy.special.softmax(both_columns(Z), axis=1), rtol=1e-6)


def test_a_thin_sample_has_enough_rows():
    assert thin(Rows(np.zeros((1000, 2)))) is None
    for n_rows in (1024, 5000, 100_000):
        sample = thin(Rows(np.zeros((n_rows, 2))))
        assert 512 <= sample.n_rows <= max(1024, n_rows / 64 + 1)


def test_the_smallest_weight_is_positive():
    X, w = np.zeros((4, 2)), np.array([3.0, 0.0, 0.5, 1.0])
    assert Rows(X, None, w).smallest_weight == 0.5
    assert Rows(X).smallest_weight == 1


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("1000", 8), ("", 8), ("0", 8), ("many", 8)]
)
def test_threads_are_limited_by_the_usual_variable(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    monkeypatch.setattr(parallel, "_cores", lambda: 8)
    assert parallel.max_threads() == expected


@pytest.mark.parametrize("derive", [
    lambda rows: rows.replace(X=rows.X + 1),
    lambda rows: rows.relabel(np.negative),
    lambda rows: rows.take(slice(None, None, 2)),
    lambda rows: rows.take(np.array([4, 0])),
    lambda rows: rows.map(lambda X, y, w: X + 1),
    lambda rows: rows.map(lambda X, y, w: X + 1).take(slice(None, None, 2)),
    lambda rows: thin(rows, 5),
])  # fmt: skip
@pytest.mark.parametrize("width", [2, 1 << 19])  # the maps of wide rows are not stored
def test_derived_rows_have_their_classes_and_groups(derive, width):
    """The group of a row is the name of its label here."""
    y, names = np.arange(10) % 2, np.array(["a", "b"])
    X = np.broadcast_to(np.zeros(1), (10, width))
    found = derive(Rows(X, y, classes=names, groups=names[y], masked=True))
    assert found.masked
    assert np.array_equal(found.classes, names)
    assert np.array_equal(found.groups, names[abs(found.y)])
    assert found.n_columns == width


def test_sums_and_maps_of_many_rows_are_those_of_numpy(rng):
    X, w = rng.normal(size=(100_000, 3)), rng.random(100_000)
    rows = Rows(X, None, w)
    np.testing.assert_allclose(rows.sum(lambda X, y, w: w @ X), w @ X)
    assert np.array_equal(rows.sum(lambda X, y, w: X.max(axis=0), merge=np.maximum), X.max(axis=0))
    assert np.array_equal(rows.map(lambda X, y, w: X[:, :2] + w[:, None]).X, X[:, :2] + w[:, None])
    total, sign = map_blocks(lambda X, w: (X.sum(axis=1) + w, X > 0), X, w)
    np.testing.assert_allclose(total, X.sum(axis=1) + w)
    assert np.array_equal(sign, X > 0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["PlattScaling", "VectorScaling", "MatrixScaling"])
def test_many_logits_are_mapped_in_each_pass_with_the_same_result(kind, weighted, monkeypatch, rng):
    Z, y = make_logits(2000, 3, temperature=2.0, random_state=0)
    w = rng.integers(0, 3, 2000) if weighted else None
    stored = getattr(skcalib, kind)().fit(Z, y, w)
    monkeypatch.setattr("skcalib._rows.rows.MOST_STORED", 0)
    computed = getattr(skcalib, kind)().fit(Z, y, w)
    np.testing.assert_allclose(computed.predict_proba(Z), stored.predict_proba(Z), rtol=1e-9)


KINDS = [getattr(skcalib, name) for name in sorted(scaling.__all__ + binning.__all__)]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_blocks_do_not_hold_the_rows(kind, monkeypatch):
    """With Dask they travel to the workers in every pass."""
    sizes, sum_of = {}, Rows.sum

    def recorded(rows, f, **options):
        sizes[n] = max(sizes[n], len(cloudpickle.dumps(f)))
        return sum_of(rows, f, **options)

    monkeypatch.setattr(Rows, "sum", recorded)
    for n in (1000, 6000):
        sizes[n] = 0
        kind().fit(*make_logits(n, 3, temperature=2.0, random_state=0))
    assert sizes[6000] < sizes[1000] + 2000


def test_samples_are_evenly_spread_unless_rows_have_weights(rng):
    X, y = rng.normal(size=(5000, 3)), rng.integers(3, size=5000)
    np.testing.assert_array_equal(Rows(X, y).sample.X, X[::4])
    np.testing.assert_array_equal(Rows(X, y).sample.y, y[::4])
    wide = Rows(rng.normal(size=(5000, 500)), y)  # four rows per column
    assert wide.sample.n_rows == 2500
    for rows in (Rows(X[:2047], y[:2047]), Rows(X, y, rng.uniform(size=5000))):
        assert rows.sample is rows

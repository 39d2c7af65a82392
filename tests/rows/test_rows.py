"""Sums and maps over blocks do not depend on the blocks and the threads."""

import cloudpickle
import numpy as np
import pytest
import scipy.special

import skcalib
from skcalib import binning, scaling
from skcalib._rows import parallel, rows as rows_module
from skcalib._rows.arrays import both_columns, softmax
from skcalib._rows.rows import LazyRows, MemoryRows
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


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("1000", 8), ("", 8), ("0", 8), ("many", 8)]
)
def test_threads_are_limited_by_the_usual_variable(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    monkeypatch.setattr(parallel, "_cores", lambda: 8)
    assert parallel.max_threads() == expected


@pytest.mark.parametrize("derive", [
    lambda rows: rows.with_logits(rows.X + 1),
    lambda rows: rows.extended(rows.y),
    lambda rows: rows.relabelled(np.negative, weight=10.0),
    lambda rows: rows.thinned(2),
    lambda rows: rows.taken(np.array([4, 0])),
    lambda rows: rows.in_memory(),
    lambda rows: rows.mapped(lambda X, *_: X + 1),
    lambda rows: LazyRows(rows, lambda X, *_: X + 1),
    lambda rows: LazyRows(rows, lambda X, *_: X + 1).thinned(2),
    lambda rows: rows.sample(lambda some: some, 5),
])  # fmt: skip
def test_derived_rows_have_their_classes_and_groups(derive):
    """The group of a row is the name of its label here."""
    y, names = np.arange(10) % 2, np.array(["a", "b"])
    rows = MemoryRows(np.zeros((10, 2)), y, None, classes=names, masked=True)
    found = derive(rows.grouped(names[y]))
    assert found.masked
    assert np.array_equal(found.classes, names)
    assert np.array_equal(found.groups, names[abs(found.y)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["PlattScaling", "VectorScaling", "MatrixScaling"])
def test_many_logits_are_mapped_in_each_pass_with_the_same_result(kind, weighted, monkeypatch, rng):
    Z, y = make_logits(2000, 3, temperature=2.0, random_state=0)
    w = rng.integers(0, 3, 2000) if weighted else None
    stored = getattr(skcalib, kind)().fit(Z, y, w)
    monkeypatch.setattr(rows_module, "MOST_STORED", 0)
    computed = getattr(skcalib, kind)().fit(Z, y, w)
    np.testing.assert_allclose(computed.predict_proba(Z), stored.predict_proba(Z), rtol=1e-9)


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

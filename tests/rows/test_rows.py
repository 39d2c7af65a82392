"""Sums and maps over blocks do not depend on the blocks and the threads."""

import cloudpickle
import numpy as np
import pytest
import scipy.special
from families import both_columns, rows_of

import skcalib
from skcalib import binning, scaling
from skcalib.datasets import make_logits


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 9])
def test_probabilities_of_uncalibrated_logits_are_the_softmax_of_scipy(rng, width, dtype):
    Z = (100 * rng.normal(size=(50, width))).astype(dtype)
    y = both_columns(Z).argmax(axis=1)
    if width > 1:
        Z[np.arange(50), (y + 1) % width] = -np.inf
    P = skcalib.Uncalibrated(classes=range(max(width, 2))).fit(Z, y).predict_proba(Z)
    assert P.dtype == dtype
    np.testing.assert_allclose(P, scipy.special.softmax(both_columns(Z), axis=1), rtol=1e-6)


@pytest.mark.parametrize("derive", [
    lambda rows: rows.replace(X=rows.X + 1),
    lambda rows: rows.relabel(np.negative),
    lambda rows: rows.take(slice(None, None, 2)),
    lambda rows: rows.take(np.array([4, 0])),
    lambda rows: rows.map(lambda X, y, w: X + 1),
    lambda rows: rows.map(lambda X, y, w: X + 1).take(slice(None, None, 2)),
])  # fmt: skip
def test_derived_rows_have_their_classes_and_groups(derive):
    """The group of a row is the name of its label here."""
    names = np.array(["a", "b"])
    y = names[np.arange(10) % 2]
    X = np.where(np.eye(2, dtype=bool)[[1, 0] * 5], -np.inf, 1.0)
    found = derive(rows_of(X, y).replace(groups=y))
    assert found.masked
    assert np.array_equal(found.classes, names)
    assert np.array_equal(found.groups, names[abs(found.y)])
    assert found.n_columns == 2


def test_sums_and_maps_of_many_rows_are_those_of_numpy(rng):
    X, w = rng.normal(size=(100_000, 3)), rng.random(100_000)
    rows = rows_of(X, rng.integers(3, size=100_000), w)
    np.testing.assert_allclose(rows.sum(lambda X, y, w: w @ X), w @ X)
    assert np.array_equal(rows.sum(lambda X, y, w: X.max(axis=0), merge=np.maximum), X.max(axis=0))
    assert np.array_equal(rows.map(lambda X, y, w: X[:, :2] + w[:, None]).X, X[:, :2] + w[:, None])
    assert rows.smallest_weight == w.min()


KINDS = [getattr(skcalib, name) for name in sorted(scaling.__all__ + binning.__all__)]


@pytest.mark.parametrize("kind", KINDS)
def test_functions_of_blocks_do_not_hold_the_rows(kind, monkeypatch):
    """With Dask they travel to the workers in every pass."""
    rows = type(rows_of(*make_logits(10, 2, random_state=0)))
    sizes, sum_of = {}, rows.sum

    def recorded(rows, f, **options):
        sizes[n] = max(sizes[n], len(cloudpickle.dumps(f)))
        return sum_of(rows, f, **options)

    monkeypatch.setattr(rows, "sum", recorded)
    for n in (1000, 6000):
        sizes[n] = 0
        kind().fit(*make_logits(n, 3, temperature=2.0, random_state=0))
    assert sizes[6000] < sizes[1000] + 2000


def test_maps_of_more_than_four_million_numbers_are_those_of_numpy(rng):
    """They are not stored, but computed in each pass."""
    X = rng.normal(size=(110_000, 40))
    mapped = rows_of(X, np.arange(len(X)) % 40).map(lambda X, y, w: 2 * X[:, :39])
    assert mapped.n_columns == 39
    np.testing.assert_allclose(mapped.sum(lambda X, y, w: X.sum(axis=0)), 2 * X[:, :39].sum(axis=0))
    few = mapped.take(np.array([4, 0]))
    assert np.array_equal(few.map(lambda X, y, w: X + 1).X, 2 * X[[4, 0], :39] + 1)

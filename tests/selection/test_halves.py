"""The default calibrator of more rows than are gathered: two halves, fitted on the workers."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
from families import refuse
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

from skcalib import (
    AutoCalibrator,
    IsotonicCalibration,
    MatrixScaling,
    OrderPreservingScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib._rows import dask as _dask
from skcalib._rows.dask import DaskRows, part_of
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration

N, SOME = 3000, 500
CANDIDATES = {
    "temperature": TemperatureScaling(smoothing="auto"),
    "order-preserving": OrderPreservingScaling(),
    "vector": VectorScaling(alpha=1.0, tol=1e-9),
    "matrix": MatrixScaling(alpha=1.0, tol=1e-9),
    "isotonic": IsotonicCalibration(),
}


@pytest.fixture(autouse=True)
def _few_are_gathered(monkeypatch):
    monkeypatch.setattr(_dask, "SOME_ROWS", SOME)
    with dask.config.set(scheduler="synchronous"):
        yield


def problem(n=N, n_classes=3):
    """Logits that no linear map repairs, labels, and weights of which some are zero."""
    Z, y = make_logits(n, n_classes, temperature=2.0, random_state=0)
    Z = Z * np.linspace(1, 2, n_classes) + np.linspace(0, 2, n_classes)
    Z[Z.argmax(axis=1) == 0] *= 2
    return Z, y, np.random.default_rng(1).integers(0, 3, n) * 1.0


def chunked(*arrays, chunk=700):
    return [da.from_array(a, chunks=(chunk, *a.shape[1:])) for a in arrays]


def of(calibrator):
    """Everything that cross-validation says."""
    found = calibrator.weights_, calibrator.cv_log_loss_, calibrator.cv_log_loss_error_
    return np.array([[*of_each.values()] for of_each in found])


def halves(w=None, seed=0):
    """The splits, by numbers of all rows."""
    kept = np.arange(N) if w is None else np.flatnonzero(w)
    seed = np.random.RandomState(seed).randint(2**31)
    first = part_of(0, 2, seed, 0, len(kept))
    return [(kept[first], kept[~first]), (kept[~first], kept[first])]


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("random_state", "n_classes"), [(7, 3), (0, 2)])
def test_weights_are_those_of_the_same_folds_in_memory(weighted, random_state, n_classes):
    Z, y, w = problem(n_classes=n_classes)
    Z = Z[:, 1:] - Z[:, :1] if n_classes == 2 else Z
    w = w if weighted else None
    splits = halves(w, random_state)
    here = AutoCalibrator(CANDIDATES, cv=splits).fit(Z, y, w)
    X, Y, W = chunked(Z, y, np.ones(N) if w is None else w)
    far = AutoCalibrator(CANDIDATES, random_state=random_state)
    far.fit(X, Y, W if weighted else None)
    assert_allclose(of(far)[0], of(here)[0], atol=2e-4)
    assert_allclose(of(far)[1:], of(here)[1:], rtol=1e-6)
    assert_allclose(far.predict_proba(Z), here.predict_proba(Z), atol=2e-4)
    assert np.count_nonzero(of(far)[0]) > 1


@pytest.mark.slow
def test_chunks_change_nothing():
    Z, y, w = problem()
    fits = [AutoCalibrator(CANDIDATES).fit(*chunked(Z, y, w, chunk=n)) for n in (N, 700)]
    assert_allclose(of(fits[1]), of(fits[0]), rtol=1e-5, atol=2e-4)
    assert_allclose(fits[1].predict_proba(Z), fits[0].predict_proba(Z), atol=2e-4)


@pytest.mark.slow
def test_default_candidates_are_screened_on_a_sample(capsys, monkeypatch):
    monkeypatch.setattr(_dask, "SOME_ROWS", N)
    Z, y, _ = problem(3 * N)
    X, Y = chunked(Z[N:], y[N:])
    c = AutoCalibrator(verbose=True).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    (left_out,) = [line for line in lines if line.startswith("Left out after a sample: ")]
    names = left_out.split(": ")[1].split(", ")
    assert "uncalibrated" in names
    assert not any(c.weights_[name] for name in names)
    assert not any(name in line for line in lines if line[:4] == "Half" for name in names)
    assert c.cv_log_loss_.keys() == c.cv_log_loss_error_.keys() == c.weights_.keys()
    losses = [
        log_loss(y[:N], a.predict_proba(Z[:N])) for a in (c, VectorScaling().fit(Z[N:], y[N:]))
    ]
    assert losses[0] < losses[1]


def test_nothing_is_gathered(monkeypatch):
    """But sums over the rows, of a few kB."""

    found, computed = [], _dask.computed

    def counted(task):
        outcome = computed(task)
        found.append(len(pickle.dumps(outcome)))
        return outcome

    monkeypatch.setattr(_dask, "computed", counted)
    monkeypatch.setattr(DaskRows, "in_memory", refuse)
    monkeypatch.setattr(DaskRows, "sample", lambda *_, **__: None)
    Z, y, _ = problem()
    few = {name: CANDIDATES[name] for name in ("temperature", "vector")}
    AutoCalibrator(few).fit(*chunked(Z, y))
    assert max(found) < 5000
    assert len(found) < 60


def test_trees_are_fitted_to_a_sample():
    Z, y, w = problem()
    kept = np.flatnonzero(w)
    some = kept[part_of(0, -(-len(kept) // SOME), 0, 0, len(kept))]
    X, Y, W = chunked(Z, y, w)
    for weights, rows in ((W, some), (None, part_of(0, N // SOME, 0, 0, N))):
        far = EstimatorCalibration(GaussianNB()).fit(X, Y, weights)
        here = EstimatorCalibration(GaussianNB())
        here.fit(Z[rows], y[rows], None if weights is None else w[rows])
        assert_allclose(far.predict_proba(Z), here.predict_proba(Z), rtol=1e-6)


def test_trees_are_left_out_if_their_sample_holds_one_class():
    Z, *_ = problem(n_classes=2)
    data = chunked(Z, (np.arange(N) == 5).astype(int))
    with pytest.raises(ValueError, match=r"one class only in .* of 3,000 rows"):
        EstimatorCalibration().fit(*data)
    candidates = {"vector": VectorScaling(alpha=1.0), "trees": EstimatorCalibration()}
    with pytest.warns(UserWarning, match="'trees' failed on a fold and is left out"):
        found = AutoCalibrator(candidates).fit(*data)
    assert list(found.calibrators_) == ["vector"]


def test_a_candidate_that_fails_on_a_half_is_left_out():
    Z, y, _ = problem()
    few = {"temperature": TemperatureScaling(), "no": EstimatorCalibration(Failing())}
    with pytest.warns(UserWarning, match="Candidate 'no' failed on a fold and is left out: no"):
        c = AutoCalibrator(few).fit(*chunked(Z, y))
    assert c.weights_ == {"temperature": 1.0}
    with pytest.raises(RuntimeError, match="no"):
        AutoCalibrator({"a": few["no"], "b": few["no"]}).fit(*chunked(Z, y))


class Failing(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("no")


# --------------------------------------------------------------------------------------
# Parts of rows.


@pytest.mark.parametrize("chunk", [N, 700, 130])
@pytest.mark.parametrize("weights", [None, "some"])
def test_parts_are_the_same_whatever_the_chunks(chunk, weights):
    numbers, w = np.arange(N), None if weights is None else np.arange(N) % 7 + 1.0
    arrays = [None if a is None else as_chunks(a, chunk) for a in (numbers, numbers % 3, w)]
    rows = DaskRows(*arrays, classes=np.arange(3))
    found = []
    for k in range(3):
        part, kept = rows.part(k, 3, seed=5), part_of(k, 3, 5, 0, N)
        assert part.n_rows == np.count_nonzero(kept)
        assert abs(part.n_rows - N / 3) < 4 * np.sqrt(N * 2 / 9)
        assert part.weight == (part.n_rows if w is None else w[kept].sum())
        X, y, weight = part.in_memory().arrays
        assert np.array_equal(X, numbers[kept])
        assert np.array_equal(y, X % 3)
        assert w is None or np.array_equal(weight, w[X])
        found.append(part)
    joined = found[0].joined(found[1]).joined(found[2]).in_memory()
    assert np.array_equal(np.sort(joined.X), numbers)
    assert np.array_equal(joined.y, joined.X % 3)


def as_chunks(a, chunk):
    blocks = [a[k : k + chunk] for k in range(0, len(a), chunk)]
    tasks = [dask.delayed(block) for block in blocks]
    return _dask.Chunked(tasks, tuple(map(len, blocks)), a[:0])

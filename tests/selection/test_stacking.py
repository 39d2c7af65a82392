"""Weights of mixtures: minima of the out-of-fold log loss; and averages of linear maps."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax

from skcalib import MatrixScaling, TemperatureScaling, VectorScaling
from skcalib._optimize.mixture import mixture
from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits
from skcalib.scaling._matrix import _averaged
from skcalib.selection import _stacking
from skcalib.selection._stacking import (
    ROWS_TO_AVERAGE,
    ROWS_TO_SCREEN_ON,
    Fits,
    Fold,
    components,
    log_of_labels,
    promising,
    pruned_weights,
    pseudo_rows,
    stacking_weights,
    weighed,
)


@st.composite
def problems(draw):
    """Log-probabilities of labels, weights of rows or None, and pseudo-rows."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    n, M = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0, 300.0]))
    L = -scale * rng.exponential(size=(n, M))
    w = rng.integers(1, 4, n) * 1.0 if draw(st.booleans()) else None
    pseudo_rows = rng.permutation(np.eye(M)[0] * draw(st.sampled_from([0.0, 0.5, 1.0, 5.0])))
    return L, w, pseudo_rows


def weights_of(L, w, prior):
    return stacking_weights(MemoryRows(L, None, w), prior)


def weighed_in(fold, simple, smoothing=1e-3):
    names = list(fold.L)
    return weighed([fold.of(names)], names, "stack", smoothing, simple)


# --------------------------------------------------------------------------------------
# Weights.


@given(problems())
def test_no_direction_lowers_the_objective(problem):
    """The objective is at most ``max_m slope_m - 1`` times the total above its minimum."""
    L, w, pseudo_rows = problem
    x = weights_of(*problem)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1)
    w = np.ones(len(L)) if w is None else w
    Q = np.exp(L - L.max(axis=1, keepdims=True))
    slopes = (w / (Q @ x)) @ Q
    prior = pseudo_rows > 0
    slopes[prior] += pseudo_rows[prior] / x[prior]
    assert slopes.max() <= (w.sum() + pseudo_rows.sum()) * (1 + 1e-5)


def test_a_pseudo_row_is_a_row_that_only_one_candidate_gives_probability():
    L = np.log(np.random.default_rng(0).beta(2, 1, size=(30, 3)))
    row = np.array([[0.0, -800.0, -800.0]])
    two_rows = weights_of(np.r_[L, row, row], None, np.zeros(3))
    assert_allclose(weights_of(L, None, np.array([2.0, 0, 0])), two_rows, atol=1e-4)


def test_a_weight_is_a_number_of_rows():
    rng = np.random.default_rng(0)
    L, w, prior = (
        np.log(rng.beta(2, 1, size=(20, 3))),
        rng.integers(1, 5, 20),
        np.array([1.0, 0, 0]),
    )
    repeated = weights_of(np.repeat(L, w, axis=0), None, prior)
    assert_allclose(weights_of(L, w * 1.0, prior), repeated, atol=1e-5)


# --------------------------------------------------------------------------------------
# Mixtures.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mixture_is_the_formula(dtype, rng):
    L = log_softmax(3 * rng.normal(size=(3, 20, 4)), axis=2)
    L[:, ::3, 1] = -np.inf
    weights = np.array([0.2, 0.5, 0.3])
    found = mixture(L.astype(dtype), weights)
    assert found.dtype == dtype
    expected = np.einsum("m,mnk->nk", weights, np.exp(L))
    assert_allclose(np.exp(found), expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
    assert_array_equal(np.isneginf(found), np.isneginf(L[0]))


# --------------------------------------------------------------------------------------
# Averages of linear maps.


def of_candidates(Z, y, candidates):
    """Candidates fitted to one half of the rows, and their log-probabilities for the other."""
    half = len(y) // 2
    fitted = {name: c.fit(Z[:half], y[:half]) for name, c in candidates.items()}
    test = MemoryRows(Z[half:], y[half:], None, classes=np.arange(Z.shape[1]))
    L = {name: c.predict_log_proba(test.X)[np.arange(half), test.y] for name, c in fitted.items()}
    return [Fold(Fits(fitted, {}, {}), test, L)]


def bent(n=2000):
    Z, y = make_logits(n, 3, temperature=2.0, random_state=0)
    return Z * [1, 2, 3] + [1, 2, 0], y


@pytest.mark.parametrize("n_rows", [ROWS_TO_AVERAGE - 1, ROWS_TO_AVERAGE])
def test_linear_maps_of_many_rows_are_averaged_wherever_they_stand(n_rows):
    """Those that share the features that most of them have; the same ones in fit and folds."""
    Z, y = bent(2 * n_rows)
    other = TemperatureScaling(smoothing=0.3)
    candidates = {"other": other, "vector": VectorScaling(), "matrix": MatrixScaling(alpha=0.1)}
    (fold,) = of_candidates(Z, y, candidates)
    best = np.arange(n_rows) % 3  # so that each has some weight
    L = {name: np.where(best == k, of_one, -3.0) for k, (name, of_one) in enumerate(fold.L.items())}
    found = weighed_in(fold._replace(L=L), ["other"])
    assert found.linear == (["vector", "matrix"] if n_rows == ROWS_TO_AVERAGE else [])
    if not found.linear:
        return
    everything = found._replace(weights={"other": 0.5, "vector": 0.2, "matrix": 0.3})
    parts, weights = components(candidates, everything)
    assert_allclose(weights, [0.5, 0.5])
    assert parts[1] is other
    average = _averaged(list(candidates.values())[1:], np.array([0.2, 0.3]))
    assert_array_equal(parts[0].coef_, average.coef_)


def test_the_average_has_the_weight_that_minimises_the_loss_of_the_mixture(monkeypatch):
    """Its members share this weight as they do in the mixture of all candidates."""
    monkeypatch.setattr(_stacking, "GAIN", -1.0)  # so that nothing is left out
    Z, y = bent(2 * ROWS_TO_AVERAGE)
    candidates = {
        "other": TemperatureScaling(smoothing=0.1),
        "vector": VectorScaling(),
        "matrix": MatrixScaling(alpha=0.1),
    }
    (fold,) = of_candidates(Z, y, candidates)
    eps = 1e-3
    L = {name: np.log((1 - eps) * np.exp(L) + eps / 3) for name, L in fold.L.items()}
    # Rows at random, so that each of the candidates has some weight.
    chance = np.random.default_rng(0).choice(3, len(fold.L["vector"]), p=[0.3, 0.3, 0.4])
    L = {name: np.where(chance == k, of_one, -3.0) for k, (name, of_one) in enumerate(L.items())}
    L["other"] = np.where(chance == 0, 0.0, -3.0)
    found = weighed_in(fold._replace(L=L), ["other"], eps).weights
    prior = np.array([2.1, 0.1, 0.1])
    _, vector, matrix = weights_of(np.column_stack(list(L.values())), None, prior)
    assert found["vector"] / found["matrix"] == pytest.approx(vector / matrix)
    assert vector != pytest.approx(matrix, rel=0.05)
    average = _averaged(list(candidates.values())[1:], np.array([vector, matrix]))
    of_average = log_of_labels(average, fold.test, eps)
    expected = weights_of(np.column_stack([L["other"], of_average]), None, np.array([2.1, 0.2]))
    assert_allclose([found["other"], found["vector"] + found["matrix"]], expected, atol=1e-6)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_pseudo_rows_are_shared_by_the_likelihoods_of_simple_candidates(n_columns, weighted, rng):
    """One for two classes, two for more, and a tenth for each candidate."""
    names, L = ["a", "better", "b", "uniform"], np.log(rng.uniform(0.3, 0.6, size=(20, 4)))
    L[:, 1] += 0.5
    w = rng.uniform(0.5, 2, size=20) if weighted else None
    sums = np.average(L, axis=0, weights=w) * (20 if w is None else w.sum())
    found, likelihoods = pseudo_rows(names, sums, ["a", "b", "left out"], n_columns), np.exp(sums)
    assert found.sum() == pytest.approx(0.3 + (1 if n_columns < 3 else 2))
    assert_array_equal(found[[1, 3]], [0.1, 0])
    of_simple = found[[0, 2]] - 0.1
    assert of_simple[0] / of_simple[1] == pytest.approx(likelihoods[0] / likelihoods[2])
    assert_array_equal(pseudo_rows(names, sums, ["left out"], n_columns), [0.1, 0.1, 0.1, 0])


@pytest.mark.parametrize(("n_rows", "kept"), [(5, False), (50, True)])
def test_a_weight_below_one_percent_is_set_to_zero(n_rows, kept):
    """The second candidate is right in a share of the rows, in which the first one is wrong."""
    right = np.arange(1000) < n_rows
    L = {"first": np.where(right, -9.0, 0.0), "second": np.where(right, 0.0, -9.0)}
    fits = Fits({"first": None, "second": None}, {}, {})
    fold = Fold(fits, MemoryRows(np.zeros((1000, 2)), right * 1, None), L)
    weights = weighed_in(fold, ["first"]).weights
    assert weights["second"] == pytest.approx(n_rows / 1001 if kept else 0, rel=0.02)
    assert sum(weights.values()) == pytest.approx(1)


def loss_of(L, weights, w):
    mixed = np.exp(L) @ weights
    return -(w @ np.log(mixed)) / w.sum()


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), n_candidates=st.integers(1, 6))
def test_candidates_are_left_out_whose_gain_is_small(seed, n_candidates):
    """And no others; the last one stays in any case."""
    random = np.random.default_rng(seed)
    L = np.log(random.uniform(0.05, 1, size=(300, n_candidates)))
    L[:, 0] -= 2.0  # of no use
    w, none = random.uniform(0.5, 2, size=300), np.zeros(n_candidates)
    everything = loss_of(L, weights_of(L, w, none), w)
    for gain in (0.0, 0.01, 0.5):
        weights = pruned_weights(MemoryRows(L, None, w), none, gain)
        assert weights.sum() == pytest.approx(1)
        loss = loss_of(L, weights, w)
        assert loss <= (1 + gain) * everything + 1e-6
        kept = np.flatnonzero(weights)
        for m in set(kept.tolist()) - {n_candidates - 1}:
            others = [k for k in kept if k != m]
            if others and gain > 0:
                without = loss_of(L[:, others], weights_of(L[:, others], w, none[others]), w)
                assert without > everything
    only_last = pruned_weights(MemoryRows(L, None, w), none, 10.0)
    assert only_last[-1] == 1


@pytest.mark.parametrize("n_rows", [ROWS_TO_SCREEN_ON - 1, 10 * ROWS_TO_SCREEN_ON])
def test_linear_maps_of_little_weight_are_hopeless_on_many_rows(n_rows):
    """Each candidate is right in a share of the rows, in which the others are wrong."""
    shares = {"first": 0.0, "tiny": 0.005, "other": 0.03, "linear": 0.03, "map": 0.1, "last": 0.835}
    ends = np.cumsum([*shares.values()]) * n_rows
    who = np.searchsorted(ends, np.arange(n_rows), side="right")
    L = {name: np.where(who == k, 0.0, -9.0) for k, name in enumerate(shares)}
    Z, y = make_logits(100, 2, random_state=0)
    fitted = dict.fromkeys(shares) | dict.fromkeys(["linear", "map"], VectorScaling().fit(Z, y))
    test = MemoryRows(np.zeros((n_rows, 2)), np.zeros(n_rows, int), None)
    kept = promising(fitted, Fold(Fits(fitted, {}, {}), test, L), "")
    out = set() if n_rows < ROWS_TO_SCREEN_ON else {"tiny", "linear"}
    assert set(kept) == set(shares) - out

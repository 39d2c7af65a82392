"""Weights of mixtures: minima of the out-of-fold log loss; and averages of linear maps."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skcalib import MatrixScaling, TemperatureScaling, VectorScaling
from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits
from skcalib.scaling._matrix import _averaged
from skcalib.selection import _stacking
from skcalib.selection._stacking import (
    ROWS_TO_AVERAGE,
    ROWS_TO_SCREEN_ON,
    Fits,
    Fold,
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


@pytest.mark.parametrize(
    ("n_columns", "n_rows", "total"),
    [(1, 20, 1), (2, 20, 1), (3, 5, 2), (20, 1000, 2), (20, 50, 6), (20, 10, 19)],
)
def test_pseudo_rows_are_shared_by_the_likelihoods_of_simple_candidates(
    n_columns, n_rows, total, rng
):
    """Few, more with few rows per class, and a tenth for each candidate."""
    names, evidence = ["a", "better", "b", "uniform"], rng.uniform(-2, 2, size=4)
    found = pseudo_rows(names, evidence, n_rows, ["a", "b", "left out"], n_columns)
    assert found.sum() == pytest.approx(0.3 + total)
    assert_array_equal(found[[1, 3]], [0.1, 0])
    of_simple = found[[0, 2]] - 0.1
    assert of_simple[0] / of_simple[1] == pytest.approx(np.exp(evidence[0] - evidence[2]))
    alone = pseudo_rows(names, evidence, n_rows, ["left out"], n_columns)
    assert_array_equal(alone, [0.1, 0.1, 0.1, 0])


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


def test_candidates_are_left_out_whose_gain_is_small(rng):
    """As many as the share of the loss allows; the last one stays in any case."""
    L, none = np.log(rng.uniform(0.05, 1, size=(300, 5))), np.zeros(5)
    L[:, 0] -= 2.0  # of no use
    rows = MemoryRows(L, None, None)

    def loss(weights):
        return -np.log(np.exp(L) @ weights).mean()

    least, n_kept = loss(stacking_weights(rows, none)), []
    for gain in (0.0, 0.02, 0.1, 10.0):
        weights = pruned_weights(rows, none, gain)
        assert weights.sum() == pytest.approx(1)
        assert loss(weights) <= (1 + gain) * least + 1e-6
        n_kept.append(np.count_nonzero(weights))
    assert n_kept == sorted(n_kept, reverse=True)
    assert (n_kept[0], n_kept[-1]) == (4, 1)
    assert weights[-1] == 1

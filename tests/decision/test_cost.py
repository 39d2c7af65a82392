"""Bayes decisions and their costs: literal sums, ties, shapes, weights, bad input."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.isotonic import IsotonicRegression

from skcalib.clinical import net_benefit_curve
from skcalib.decision import bayes_decision, calibration_decision_loss, expected_cost

FRAUD = [[0, 3, 10], [100, 3, 0]]


def literal(P, cost):
    """The decision of the definition, row by row."""
    found = []
    for i, p in enumerate(P):
        C = cost if np.ndim(cost) == 2 else cost[i]
        sums = [sum(p[k] * C[k][j] for k in range(len(p))) for j in range(np.shape(C)[1])]
        found.append(int(np.argmin(sums)))
    return found


@given(seed=st.integers(0, 10**6), per_row=st.booleans(), weighted=st.booleans())
def test_decisions_and_costs_are_literal_sums(seed, per_row, weighted):
    rng = np.random.default_rng(seed)
    n, n_classes, n_decisions = rng.integers(1, 30), rng.integers(2, 5), rng.integers(1, 5)
    P = rng.dirichlet(np.ones(n_classes), size=n)
    cost = rng.normal(size=(n,) * per_row + (n_classes, n_decisions))
    y = rng.integers(n_classes, size=n)
    decided = literal(P, cost)
    assert bayes_decision(P, cost).tolist() == decided
    w = np.append(rng.choice([0, 0.5, 2], size=n - 1), 1.0) if weighted else None
    costs = [(cost[i] if per_row else cost)[y[i], decided[i]] for i in range(n)]
    found = expected_cost(y, P, cost, sample_weight=w, labels=range(n_classes))
    assert type(found) is float
    assert found == pytest.approx(np.average(costs, weights=w))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_rows_are_decided_in_blocks(dtype, rng):
    n = 30_000
    P = rng.dirichlet([1, 1, 1], size=n).astype(dtype)
    y, cost = rng.integers(3, size=n), rng.normal(size=(n, 3, 7))
    parts = [slice(k, k + 1000) for k in range(0, n, 1000)]
    for C in (cost, cost[0]):
        costs = [C[part] if C.ndim == 3 else C for part in parts]
        decided = [bayes_decision(P[part], c) for part, c in zip(parts, costs, strict=True)]
        assert np.array_equal(bayes_decision(P, C), np.concatenate(decided))
        totals = [expected_cost(y[part], P[part], c) for part, c in zip(parts, costs, strict=True)]
        assert expected_cost(y, P, C) == pytest.approx(np.mean(totals))


def test_the_threshold_of_two_classes():
    """Elkan, equation (2), with his indices in the other order."""
    C = np.array([[1.0, 9.0], [12.0, 2.0]])
    threshold = (C[0, 1] - C[0, 0]) / (C[0, 1] - C[0, 0] + C[1, 0] - C[1, 1])
    p = threshold + np.array([-1e-9, 0, 1e-9])
    assert bayes_decision(p, C).tolist() == [0, 0, 1]
    both = np.column_stack([1 - p, p])
    assert bayes_decision(both, C).tolist() == [0, 0, 1]


@pytest.mark.parametrize("p", [0.1, 0.3, 0.7, 0.15])
def test_the_first_of_several_best_decisions_is_taken(p):
    """Rounding errors of sums must not decide."""
    cost = 1e6 * np.array([[0, p], [1 - p, 0]])
    assert bayes_decision([p], cost).tolist() == [0]
    assert bayes_decision([p], cost[:, ::-1]).tolist() == [0]
    assert bayes_decision([p, p], [cost, cost[:, ::-1]]).tolist() == [0, 0]
    assert bayes_decision([0.3], [[0, 3], [7, 0]]).tolist() == [0]  # 0.3 * 7 > 0.7 * 3
    # A matrix of one row says nothing about the ties of another one.
    small = np.array([[0, 1e-9], [2e-9, 0]])
    assert bayes_decision([p, 0.5], [cost, small]).tolist() == [0, 1]


def test_a_prohibitive_cost_does_not_make_others_equal():
    p = np.array([1e-13, 0.1, 0.5, 0.9])
    for most in (1e9, 1e15, 1e300):
        cost = np.array([[0, 1, most], [5, 1, most]])
        assert bayes_decision(p, cost).tolist() == [0, 0, 1, 1]
        assert bayes_decision(p, -cost[:, ::-1] + [[2 * most, 0, 0]]).tolist() == [1, 1, 2, 2]
        assert bayes_decision(p, np.tile(cost, (4, 1, 1))).tolist() == [0, 0, 1, 1]
        assert expected_cost([0, 0, 0, 1], p, cost) == 0.5
    # A cost may be prohibitive for one class only.
    assert bayes_decision(p[:2], [[0, 1], [1e15, 1]]).tolist() == [1, 1]


def test_one_dimension_and_pos_label():
    y, p = ["no", "yes", "yes"], np.array([0.1, 0.2, 0.95])
    per_row = [FRAUD, FRAUD, np.multiply(FRAUD, 2)]
    for cost in (FRAUD, per_row):
        both = expected_cost(y, np.column_stack([1 - p, p]), cost)
        assert expected_cost(y, p, cost, pos_label="yes") == both
        assert expected_cost(y, 1 - p, cost, pos_label="no") == pytest.approx(both)
        assert expected_cost(y, np.column_stack([1 - p, p]), cost, pos_label="no") == both
        other = np.asarray(cost)[..., ::-1, :]
        assert expected_cost(y, p, other, labels=["yes", "no"], pos_label="yes") == both
        assert expected_cost(y, 1 - p, other, labels=["yes", "no"]) == pytest.approx(both)


def test_names_that_hold_the_names_of_the_classes_must_be_in_their_order():
    P = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], columns=["no", "yes"])
    cost = pd.DataFrame(FRAUD[::-1], index=["true yes", "true no"])
    with pytest.raises(ValueError, match=r"cost\.T .*order"):
        bayes_decision(P, cost)
    numbered = pd.DataFrame(FRAUD, index=["case 1", "case 0"])  # the array has no names
    np.testing.assert_array_equal(bayes_decision(P.to_numpy(), numbered), bayes_decision(P, FRAUD))
    with pytest.raises(ValueError, match=r"cost\.T .*order"):
        expected_cost(["no", "yes"], P.to_numpy(), cost)


BAD = {
    "other classes": ({"cost": np.ones((3, 2))}, "2 true classes"),
    "no decision": ({"cost": np.ones((2, 0))}, "shape"),
    "one dimension": ({"cost": [1, 2]}, "shape"),
    "too large": ({"cost": [[0, 1], [-1.7e308, 0]]}, "cost"),
    "words": ({"cost": [["a", "b"], ["c", "d"]]}, "cost"),
    "complex": ({"cost": np.ones((2, 2)) * 1j}, "cost"),
    "nothing": ({"cost": None}, "cost"),
    "scalar": ({"y_true": [1], "y_proba": 0.5}, "y_proba"),
    "logits": ({"y_proba": [2.0, -1, 0]}, "Pass probabilities"),
    "sums": ({"y_proba": np.full((3, 2), 0.3)}, "sum to one"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_costs_and_probabilities_are_refused(case):
    change, message = BAD[case]
    given = {"y_true": [0, 1, 1], "y_proba": [0.2, 0.4, 0.9], "cost": FRAUD} | change
    with pytest.raises(ValueError, match=message):
        expected_cost(**given)
    with pytest.raises(ValueError, match=message):
        bayes_decision(given["y_proba"], given["cost"])


@given(seed=st.integers(0, 10**6), per_row=st.booleans())
def test_capacity_gives_the_second_decision_to_the_largest_gains(seed, per_row):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 40)
    P, y = rng.dirichlet(np.ones(3), size=n), rng.integers(3, size=n)
    cost = rng.normal(size=(n,) * per_row + (3, 2))
    capacity = int(rng.integers(0, n + 2))
    C = np.broadcast_to(cost, (n, 3, 2))
    gains = np.einsum("ik,ik->i", P, C[:, :, 0] - C[:, :, 1])
    decided = np.zeros(n, dtype=int)
    for row in np.argsort(-gains)[:capacity]:
        decided[row] = gains[row] > 0
    expected = C[np.arange(n), y, decided].mean()
    found = expected_cost(y, P, cost, capacity=capacity, labels=range(3))
    assert found == pytest.approx(expected)
    everything = expected_cost(y, P, cost, labels=range(3))
    assert expected_cost(y, P, cost, capacity=n, labels=range(3)) == pytest.approx(everything)


def test_capacity_counts_weights_as_rows_and_ties_share_it(rng):
    cost = [[0, 3], [100, 3]]
    assert expected_cost([0, 1], [0.5, 0.5], cost, capacity=1) == pytest.approx((3 + 50 + 0) / 2)
    p, y, w = rng.uniform(size=30).round(1), rng.integers(2, size=30), rng.integers(0, 3, size=30)
    for capacity in (0, 3, 12):
        weighted = expected_cost(y, p, cost, capacity=capacity, sample_weight=w, labels=[0, 1])
        repeated = expected_cost(
            np.repeat(y, w), np.repeat(p, w), cost, capacity=capacity, labels=[0, 1]
        )
        order = rng.permutation(30)
        shuffled = expected_cost(
            y[order], p[order], cost, capacity=capacity, sample_weight=w[order], labels=[0, 1]
        )
        assert weighted == pytest.approx(repeated)
        assert weighted == pytest.approx(shuffled)


@pytest.mark.parametrize(
    ("capacity", "cost"), [(-1, FRAUD), ("all", np.eye(2)), (1, FRAUD)], ids=str
)
def test_wrong_capacities_are_named(capacity, cost):
    """A capacity is for two decisions; fraud has three."""
    with pytest.raises(ValueError, match="capacity"):
        expected_cost([0, 1], [0.1, 0.7], cost, capacity=capacity)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), digits=st.sampled_from([1, 8]))
def test_decision_loss_is_the_largest_gain_of_isotonic_recalibration(seed, n, digits):
    """By net benefits at many thresholds, before and after scikit-learn's isotonic regression."""
    rng = np.random.default_rng(seed)
    p, w = rng.uniform(size=n).round(digits), rng.uniform(0.1, 2, size=n)
    y = np.append([0, 1], rng.integers(0, 2, size=n - 2))
    q = IsotonicRegression().fit(p, y, sample_weight=w).predict(p)
    near = np.concatenate([p, p + 2e-6, rng.uniform(size=50)])
    thresholds = near[(near > 0) & (near < 1)]
    before, after = (
        net_benefit_curve(y, r, thresholds=thresholds, sample_weight=w) for r in (p, q)
    )
    gain = (1 - after.threshold) * (after.net_benefit - before.net_benefit)
    found = calibration_decision_loss(y, p, sample_weight=w)
    assert found == pytest.approx(max(gain.max(), 0), abs=1e-5)
    assert calibration_decision_loss(y, q, sample_weight=w) == pytest.approx(0, abs=1e-9)


def test_decision_loss_of_more_classes_is_refused():
    with pytest.raises(ValueError, match="two classes, got 3"):
        calibration_decision_loss([0, 1, 2], np.eye(3))

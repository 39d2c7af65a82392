"""Formulas of the default: its candidates, the rows that it samples, and the weights."""

import numpy as np
import pytest
from families import Certain
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit

from skcalib import AutoCalibrator, TemperatureScaling, VectorScaling
from skcalib._optimize.mixture import fit_intercept
from skcalib._rows import Rows
from skcalib._splits import rows_to_split
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration
from skcalib.selection._candidates import default_candidates
from skcalib.selection._stacking import Fold, lowest_loss, pseudo_rows, without_useless_trees


@st.composite
def problems(draw):
    """Probabilities of labels, weights of rows or None, and pseudo-rows."""
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    n, M = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0, 100.0]))
    Q = np.exp(-scale * rng.exponential(size=(n, M)))
    w = rng.integers(1, 4, n) * 1.0 if draw(st.booleans()) else None
    prior = rng.permutation(np.eye(M)[0] * draw(st.sampled_from([0.0, 0.5, 1.0, 5.0])))
    return Q, w, prior


@given(problems())
def test_no_direction_lowers_the_objective(problem):
    """The objective is at most ``max_m slope_m - 1`` times the total above its minimum."""
    Q, w, prior = problem
    x = lowest_loss(Q, w, prior)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1)
    w = np.ones(len(Q)) if w is None else w
    slopes = (w / (Q @ x)) @ Q
    favored = prior > 0
    slopes[favored] += prior[favored] / x[favored]
    assert slopes.max() <= (w.sum() + prior.sum()) * (1 + 1e-5)


@pytest.mark.parametrize(
    ("n_classes", "n_rows", "total"),
    [(3, 5, 1), (20, 1000, 1), (20, 50, 6), (20, 10, 18)],
)
def test_simple_candidates_share_pseudo_rows_by_their_likelihoods(n_classes, n_rows, total, rng):
    """The number grows if there are few rows per class, and each candidate has 0.2 more."""
    names, Q = ["a", "better", "b", "uniform"], rng.uniform(0.5, 1, size=(n_rows, 4))
    prior = pseudo_rows(Q, None, names, ["a", "b", "left out"], n_classes)
    assert prior.sum() == pytest.approx(0.6 + total)
    assert_array_equal(prior[[1, 3]], [0.2, 0])
    a, b = prior[[0, 2]] - 0.2
    assert a / b == pytest.approx(np.prod(Q[:, 0] / Q[:, 2]))
    alone = pseudo_rows(Q, None, names, ["left out"], n_classes)
    assert_array_equal(alone, [0.2, 0.2, 0.2, 0])
    assert_array_equal(pseudo_rows(Q, None, names, ["a", "b"], 2), [0.3, 0.3, 0.3, 0])


@pytest.mark.parametrize(("n_classes", "n_rows", "total"), [(2, 20, 1), (20, 1000, 2), (20, 50, 6)])
def test_the_first_of_given_candidates_is_favored(n_classes, n_rows, total, rng):
    names, Q = ["a", "b", "uniform"], rng.uniform(0.5, 1, size=(n_rows, 3))
    prior = pseudo_rows(Q, None, names, [], n_classes)
    assert_array_equal(prior, [0.1 + total, 0.1, 0])


@pytest.mark.parametrize(("n_rows", "kept"), [(20, False), (50, True)])
def test_a_weight_below_four_percent_is_set_to_zero(n_rows, kept):
    """Each candidate predicts the label of a share of the rows with certainty."""
    y = np.arange(1000) % 3 % 2
    y[:n_rows] = 2
    c = AutoCalibrator([Certain(0), Certain(1), Certain(2)]).fit(np.zeros((1000, 3)), y)
    *_, weight = c.weights_.values()
    assert weight == pytest.approx(n_rows / 1000 if kept else 0, rel=0.05)
    assert sum(c.weights_.values()) == pytest.approx(1)
    # The uniform distribution, which takes no pass, may have a smaller weight.
    uniform = {"a": Certain(0), "b": Certain(1), "uniform": Certain(2)}
    assert AutoCalibrator(uniform).fit(np.zeros((1000, 3)), y).weights_["uniform"] > 0.01


@pytest.mark.parametrize(("n_better", "kept"), [(5050, False), (5500, True)])
def test_trees_are_kept_after_the_first_fold_if_they_lower_the_loss(n_better, kept):
    """The trees predict more than the map for some of the rows, and less for the others."""
    candidates = {"map": None, "trees": EstimatorCalibration()}
    trees = np.where(np.arange(10_000) < n_better, 0.65, 0.55)
    fold = Fold(np.arange(10_000), {}, {"map": np.full(10_000, 0.6), "trees": trees}, {})
    useful = without_useless_trees(candidates, fold, None)
    assert set(useful) == {"map", *(["trees"] if kept else [])}
    # Few rows are no evidence, and candidates that are no trees stay.
    few = Fold(np.arange(499), {}, {name: q[:499] for name, q in fold.Q.items()}, {})
    assert set(without_useless_trees(candidates, few, None)) == {"map", "trees"}
    maps = {"map": None, "trees": None}
    assert set(without_useless_trees(maps, fold, None)) == {"map", "trees"}


@pytest.mark.parametrize("weighted", [False, True])
def test_the_intercept_makes_probabilities_sum_to_the_events(weighted, rng):
    """It counts 20 rows with the predicted rate as well."""
    log_odds, y = rng.normal(-2, 2, size=500), rng.binomial(1, 0.5, size=500)
    w = rng.integers(1, 4, 500) * 1.0 if weighted else None
    b = fit_intercept(log_odds, y, w)
    w = np.ones(500) if w is None else w
    rate = w @ expit(log_odds) / w.sum()
    pseudo_events = 20 * expit(logit(rate) + b)
    assert w @ expit(log_odds + b) + pseudo_events == pytest.approx(w @ y + 20 * rate)
    assert b > 1


# --------------------------------------------------------------------------------------
# Candidates by the number of rows and classes.


def candidates(n_rows, n_classes, *, masked=False, ordered=False):
    rows = Rows(np.zeros(n_rows), classes=range(n_classes), masked=masked)
    found = default_candidates(rows, ordered=ordered)
    assert next(iter(found)) == "temperature"
    return set(found)


def test_ordinal_calibration_is_a_candidate_of_many_ordered_classes():
    for n_classes in (2, 3, 20):
        assert candidates(1000, n_classes, ordered=True) == candidates(1000, n_classes)
    assert "ordinal" not in candidates(1000, 21)
    shared = {"temperature", "uncalibrated", "uniform", "order-preserving", "ordinal"}
    assert candidates(2099, 21, ordered=True) == shared
    assert candidates(2100, 21, ordered=True) == candidates(2100, 21) | {"ordinal"}


def test_default_candidates_depend_on_classes_and_rows():
    two, three = candidates(1000, 2), candidates(1000, 3)
    assert two - three == {"spline", "Venn-Abers"}
    assert {"gradient boosting", "extra trees"} == three - candidates(1000, 21)
    assert not any(name.startswith("matrix") for name in two | candidates(1000, 3, masked=True))
    # A fit of matrix scaling takes minutes if rows and classes are many.
    many, more = candidates(2000, 200), candidates(2000, 1000)
    assert many - more == {name for name in three if "matrix" in name}
    assert more - many == candidates(1000, 3, masked=True) - three == {"vector alpha=0.03"}
    # With fewer than two rows per class there are only maps that all classes share.
    shared = {"temperature", "uncalibrated", "uniform", "order-preserving"}
    assert candidates(40, 1000) == shared


# --------------------------------------------------------------------------------------
# A sample of many rows.


@pytest.mark.parametrize(
    ("share", "expected"), [(0.1, 25_000), (0.005, 100_000), (0.0005, 500_000)]
)
def test_the_sample_holds_rows_of_a_rare_class(share, expected):
    """Five hundred of them, as far as a million logits hold these."""
    y = (np.arange(600_000) % round(1 / share) == 0).astype(int)
    some = rows_to_split(Rows(np.zeros((len(y), 1)), y, None))
    assert len(some) == pytest.approx(expected, rel=0.01)


@pytest.mark.slow
def test_weights_of_many_rows_come_from_a_sample():
    X, y = make_logits(50_000, 3, temperature=2.0, random_state=0)
    X = X * [1, 1.5, 2] + [0, 1, 2]
    auto = AutoCalibrator([TemperatureScaling(smoothing="auto"), VectorScaling()])
    every, some = auto.fit(X, y), rows_to_split(Rows(X, y, None))
    weights, losses = ([*d.values()] for d in (every.weights_, every.cv_log_loss_))
    coef = every.calibrators_["VectorScaling"].coef_
    sample = auto.fit(X[some], y[some])
    assert_allclose([*sample.weights_.values()], weights, atol=1e-2)
    assert_allclose([*sample.cv_log_loss_.values()], losses, rtol=1e-4)
    assert_array_equal(coef, VectorScaling().fit(X, y).coef_)

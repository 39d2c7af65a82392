"""Venn-Abers predictors: two refits per test row by brute force, intervals, pairs of classes."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from scipy.special import logit

from skcalib import VennAbersCalibration
from skcalib.datasets import make_logits


def refitted(scores, hits, weight, test, label):
    """The isotonic fit to rows and a test row of weight 1, at the score of the test row."""
    _, inverse = np.unique(np.append(scores, test), return_inverse=True)
    w = np.bincount(inverse, np.append(weight, 1.0))
    h = np.bincount(inverse, np.append(hits * weight, label))
    return isotonic_regression(h / w, weights=w).x[inverse[-1]]


def merged(interval):
    """The probability between both ends that minimizes the larger regret of the log loss."""
    low, high = interval[..., 0], interval[..., 1]
    return high / (1 - low + high)


def coupled(interval, pairs):
    """Probabilities of classes from the intervals of the second class of each pair."""
    n_classes = 1 + pairs.max()
    total = np.full((len(interval), n_classes), 2.0 - n_classes)
    for (j, k), r in zip(pairs, merged(interval).T, strict=True):
        total[:, k] += 1 / r
        total[:, j] += 1 / (1 - r)
    return 1 / total / (1 / total).sum(axis=1, keepdims=True)


def intervals_of_second(calibrator, scores):
    return calibrator.predict_interval(logit(scores)[:, None])[:, 1]


def of_two(p, y, w=None, **params):
    return VennAbersCalibration(**params).fit(logit(p)[:, None], y, sample_weight=w)


@pytest.mark.parametrize("weighted", [False, True])
def test_two_refits_per_test_row(weighted):
    """1000 rows with ties; test scores that are equal, in between, below and above."""
    rng = np.random.default_rng(0)
    p = np.round(rng.beta(0.8, 1.5, size=1000), 2).clip(0.02, 0.97)
    y = (rng.uniform(size=1000) < p**2).astype(int)
    w = rng.choice([0.25, 1.0, 2.0, 7.5], size=1000) if weighted else np.ones(1000)
    c = of_two(p, y, w if weighted else None)
    tests = np.concatenate([np.unique(p), np.unique(p) + 0.004, [0.001, 0.99]])
    expected = [[refitted(p, y, w, t, label) for label in (0, 1)] for t in tests]
    np.testing.assert_allclose(intervals_of_second(c, tests), expected, atol=1e-12)


def test_numbers_known_by_hand():
    """One row of each class: below, at and between the two, and above."""
    c = of_two(np.array([0.25, 0.75]), [0, 1])
    tests = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    expected = [[0, 1 / 2], [0, 1 / 2], [0, 1], [1 / 2, 1], [1 / 2, 1]]
    np.testing.assert_allclose(intervals_of_second(c, tests), expected)
    P = c.predict_proba(logit(tests)[:, None])[:, 1]
    np.testing.assert_allclose(P, [1 / 3, 1 / 3, 1 / 2, 2 / 3, 2 / 3])
    brier = of_two(np.array([0.25, 0.75]), [0, 1], merge="brier")
    P = brier.predict_proba(logit(tests)[:, None])[:, 1]
    np.testing.assert_allclose(P, [3 / 8, 3 / 8, 1 / 2, 5 / 8, 5 / 8])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_inside_the_interval(n_classes, dtype):
    Z, y = make_logits(500, n_classes, dtype=dtype, random_state=0)
    c = VennAbersCalibration().fit(Z, y)
    interval = c.predict_interval(Z)
    assert interval.shape == (500, n_classes, 2)
    assert interval.dtype == dtype
    P = merged(interval).astype(float)
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(P, c.predict_proba(Z), rtol=1e-5)
    if n_classes == 2:
        np.testing.assert_allclose(interval[:, 0], 1 - interval[:, 1, ::-1])
        one = VennAbersCalibration().fit(Z[:, 1:] - Z[:, :1], y)
        np.testing.assert_allclose(one.predict_interval(Z[:, 1:] - Z[:, :1]), interval)


@pytest.mark.parametrize("n_trees", [5, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_votes_are_ties_in_another_precision(dtype, n_trees):
    """A forest that is exported to single precision after the fit, or the other way round."""
    rng = np.random.default_rng(0)
    votes = rng.integers(1, n_trees, size=1000) / n_trees
    y = (rng.uniform(size=1000) < votes).astype(int)
    Z = np.log(np.c_[1 - votes, votes])
    c = VennAbersCalibration().fit(Z.astype(dtype), y)
    expected = [[refitted(votes, y, np.ones(1000), t, k) for k in (0, 1)] for t in votes[:99]]
    for other in (np.float32, np.float64):
        found = c.predict_interval(Z[:99].astype(other))[:, 1]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_intervals_of_masked_classes():
    Z, y = make_logits(300, 3, random_state=0)
    Z[(y != 2) & (np.arange(300) % 2 == 0), 2] = -np.inf
    c = VennAbersCalibration().fit(Z, y)
    one, others = c.predict_interval([[-np.inf, 0.2, -np.inf], [0.3, 0.1, -np.inf]])
    assert one.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert (others[:, 0] < others[:, 1]).tolist() == [True, True, False]
    assert others[2].tolist() == [0, 0]


# --------------------------------------------------------------------------------------
# One-vs-one.


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_a_copy_is_the_predictor_before_later_parameters(multi_class):
    Z, y = make_logits(90, 3, random_state=0)
    c = VennAbersCalibration(multi_class=multi_class).fit(Z, y)
    expected = c.predict_proba(Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(c)).predict_proba(Z), expected)
    c.set_params(merge="brier")  # for the next fit
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(c)).predict_proba(Z), expected)


@pytest.mark.parametrize("n_classes", [3, 13])
def test_one_vs_one_is_a_predictor_of_each_pair(n_classes):
    Z, y = make_logits(130 * n_classes, n_classes, random_state=0)
    c = VennAbersCalibration(multi_class="ovo").fit(Z, y)
    assert c.pairs_.tolist() == list(map(list, combinations(range(n_classes), 2)))
    interval = c.predict_interval(Z)
    for i, (j, k) in enumerate(c.pairs_):
        rows_of_pair = (y == j) | (y == k)
        pair = VennAbersCalibration().fit(Z[rows_of_pair][:, [j, k]], (y == k)[rows_of_pair])
        np.testing.assert_allclose(interval[:, i], pair.predict_interval(Z[:, [j, k]])[:, 1])
    np.testing.assert_allclose(c.predict_proba(Z), coupled(interval, c.pairs_))


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_pairs_without_rows_are_known_nothing_about():
    Z, y = make_logits(300, 4, random_state=0)
    rows = Z[y < 2], y[y < 2]
    c = VennAbersCalibration(multi_class="ovo", classes=range(4)).fit(*rows)
    np.testing.assert_array_equal(c.predict_interval(Z)[:, 5], [[0.0, 1.0]] * 300)
    assert c.predict_proba(Z)[:, 2:].max() < 0.5
    two = VennAbersCalibration(multi_class="ovo").fit(Z[y < 2, :2], y[y < 2])
    assert two.pairs_.shape == (0, 2)


@pytest.mark.parametrize("gone", range(4))
def test_a_masked_class_is_no_class_of_a_pair(gone):
    Z, y = make_logits(300, 4, random_state=0)
    c = VennAbersCalibration(multi_class="ovo").fit(Z, y)
    rows, rest = Z[:20].copy(), np.delete(np.arange(4), gone)
    rows[:, gone] = -np.inf
    P, interval = c.predict_proba(rows), c.predict_interval(rows)
    some = (c.pairs_ != gone).all(axis=1)
    expected = coupled(c.predict_interval(Z[:20])[:, some], np.searchsorted(rest, c.pairs_[some]))
    np.testing.assert_allclose(P[:, rest], expected)
    assert (P[:, gone] == 0).all()
    assert (interval[:, c.pairs_[:, 1] == gone] == 0).all()
    assert (interval[:, c.pairs_[:, 0] == gone] == 1).all()


# --------------------------------------------------------------------------------------
# The values of venn-abers 1.5.4, which agree to 2e-16 on scores that are no ties.


def test_published_implementation():
    margin = np.array([-2.1, -1.3, -0.7, -0.2, 0.1, 0.4, 0.9, 1.6, 2.2, 3.0])[:, None]
    y = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1])
    tests = np.array([[-3.0], [-0.7], [0.0], [0.5], [1.6], [4.0]])
    c = VennAbersCalibration().fit(margin, y)
    between = [[1 / 4, 1 / 2]] * 2 + [[1 / 2, 3 / 4]] * 2
    np.testing.assert_allclose(
        c.predict_interval(tests)[:, 1], [[0, 1 / 3], *between, [2 / 3, 1]], atol=1e-12
    )

"""Ranked probability score: its formula, its relation to other scores, and propriety."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.isotonic import IsotonicRegression

from skcalib.metrics import ranked_probability_score, score_decomposition


@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 8))
def test_score_is_the_sum_over_cumulative_events(seed, n_classes):
    rng = np.random.default_rng(seed)
    P, w = rng.dirichlet(np.ones(n_classes), size=9), rng.integers(1, 4, size=9)
    y = rng.integers(0, n_classes, size=9)
    labels = np.arange(n_classes)
    literal = 0.0
    for i in range(9):
        for k in range(n_classes):
            literal += w[i] * (P[i, : k + 1].sum() - (y[i] <= k)) ** 2
    literal /= w.sum()
    score = ranked_probability_score(y, P, sample_weight=w, labels=labels)
    np.testing.assert_allclose(score, literal)
    normalized = ranked_probability_score(y, P, sample_weight=w, labels=labels, normalize=True)
    np.testing.assert_allclose(normalized, literal / (n_classes - 1))


def test_published_example():
    """Three categories with probabilities 0.2, 0.5, 0.3; the third is true."""
    score = ranked_probability_score([2], [[0.2, 0.5, 0.3]], labels=[0, 1, 2])
    assert score == pytest.approx(0.2**2 + 0.7**2)


def test_near_mistakes_cost_less_than_far_ones():
    near, far = [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]
    scores = [ranked_probability_score([0], P, labels=[0, 1, 2]) for P in (near, far)]
    assert scores == [1, 2]


def test_the_order_of_the_labels_is_not_the_order_of_the_classes():
    names, P = ["high", "low", "middle"], [[0.1, 0.7, 0.2]]
    order = ["low", "middle", "high"]
    score = ranked_probability_score(["low"], P, labels=names, order=order)
    assert score == pytest.approx(0.3**2 + 0.1**2)


# --------------------------------------------------------------------------------------
# Decomposition.


RANKED = {"score": "ranked_probability_score"}


@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 6), weighted=st.booleans())
def test_parts_are_sums_over_cumulative_events(seed, n_classes, weighted):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_classes), size=30)
    y, labels = rng.integers(n_classes, size=30), np.arange(n_classes)
    w = rng.integers(1, 4, size=30) if weighted else None
    expected = np.zeros(4)
    for k in range(n_classes - 1):
        F, event = P[:, : k + 1].sum(axis=1), y <= k
        recalibrated = IsotonicRegression().fit(F, event, sample_weight=w).predict(F)
        rate = np.full(30, np.average(event, weights=w))
        own, best, constant = (
            np.average((q - event) ** 2, weights=w) for q in (F, recalibrated, rate)
        )
        expected += own, own - best, constant - best, constant
    parts = score_decomposition(y, P, sample_weight=w, labels=labels, **RANKED)
    values = parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty
    np.testing.assert_allclose(values, expected, atol=1e-8)
    assert all(isinstance(value, float) for value in values)
    assert parts.label is None
    total = ranked_probability_score(y, P, sample_weight=w, labels=labels)
    assert parts.score == pytest.approx(total)


def test_equal_cumulative_probabilities_are_ties():
    """0.1 + 0.2 is not 0.3 in floating point, so an order of these rows would be arbitrary."""
    P = [[0.1, 0.2, 0.7], [0.3, 0.0, 0.7]] * 2
    parts = score_decomposition([1, 2, 1, 2], P, labels=[0, 1, 2], **RANKED)
    assert parts.discrimination == pytest.approx(0)


def test_a_kind_with_the_ranked_probability_score_is_refused():
    with pytest.raises(ValueError, match="got kind='classwise'"):
        score_decomposition([0, 1, 2], np.eye(3), kind="classwise", **RANKED)

"""Bins: edges, the rule which bin a score is in, sums."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax

from skcalib._rows.ranking import distinct_scores
from skcalib._scores import bins
from skcalib._scores.bins import bin_index, quantile_edges, uniform_edges

# Scores with many ties, and on the edges of common numbers of bins.
scores_ = hnp.arrays(
    float,
    st.integers(1, 60),
    elements=st.one_of(st.floats(0, 1), st.integers(0, 20).map(lambda i: i / 20)),
)


def literal_bin(score, edges):
    """The rule as the documentation has it: (a_m, a_{m+1}], the first bin also holds 0."""
    for m in range(len(edges) - 1):
        if edges[m] < score <= edges[m + 1] or (m == 0 and score == edges[0]):
            return m
    raise AssertionError(score)


@given(scores=scores_, n_bins=st.integers(1, 100))
def test_bin_of_a_score(scores, n_bins):
    edges = uniform_edges(n_bins)
    expected = [literal_bin(s, edges) for s in scores]
    assert bin_index(scores, edges).tolist() == expected


@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 63, 64, 200])
def test_both_ways_of_finding_a_bin_agree(n_bins, monkeypatch):
    edges = uniform_edges(n_bins)
    scores = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    scores = np.concatenate([scores, scores.astype(np.float32)])
    found = bin_index(scores, edges)
    assert found.tolist() == [literal_bin(min(float(s), 1), edges) for s in scores]
    monkeypatch.setattr(bins, "FEW_SCORES", -1)
    monkeypatch.setattr(bins, "FEW_EDGES", -1)
    assert np.array_equal(found, bin_index(scores, edges))
    monkeypatch.setattr(bins, "FEW_EDGES", 10**6)
    if n_bins < 64:  # int8
        assert np.array_equal(found, bin_index(scores, edges))


@given(scores=scores_, n_bins=st.integers(1, 20))
def test_quantile_bins_hold_equal_weight_as_far_as_ties_allow(scores, n_bins):
    edges = quantile_edges(distinct_scores(scores), n_bins)
    assert edges[0] == 0
    assert edges[-1] == 1
    # Only the first bin, of scores of 0, and the last, of none, may have no width.
    assert (np.diff(edges) >= 0).all()
    assert (np.diff(edges)[1:-1] > 0).all()
    in_order = np.sort(scores)
    for m in range(1, n_bins):
        # The literal definition: the first score with at least m / n_bins of the rows up to it.
        first = in_order[int(np.ceil(m * len(in_order) / n_bins - 1e-9)) - 1]
        larger = in_order[in_order > first + 1e-14]  # scores that differ by rounding are equal
        if len(larger):
            assert ((edges >= first) & (edges < larger[0])).any()


def test_full_bins_do_not_depend_on_the_unit_of_weights(rng):
    scores = rng.permutation(np.linspace(0.01, 0.99, 60))
    for n_bins in range(1, 61):
        expected = quantile_edges(distinct_scores(scores), n_bins)
        for unit in (0.1, 1 / 3, 1e-9, 7e11):
            assert np.array_equal(
                quantile_edges(distinct_scores(scores, None, np.full(60, unit)), n_bins), expected
            )


@pytest.mark.parametrize("floor", [np.finfo(float).tiny, np.finfo(float).eps, 1e-3])
def test_votes_stay_equal_through_logarithm_and_exponential(floor, rng):
    """Ties that a softmax leaves a few roundings apart are still ties."""
    votes = rng.multinomial(20, [0.6, 0.3, 0.1], size=2000) / 20
    P = softmax(np.log(np.maximum(votes, floor)), axis=1)
    for k in range(3):
        assert len(np.unique(P[:, k])) > len(np.unique(votes[:, k]))
        rows = distinct_scores(P[:, k], votes[:, 0] > 0.5)
        assert len(rows.scores) <= len(np.unique(np.round(P[:, k], 10)))
        assert rows.weight.sum() == 2000
        assert rows.hits.sum() == (votes[:, 0] > 0.5).sum()


def test_scores_that_agree_to_twelve_digits_are_ties():
    close = 1 - np.arange(1000) * np.finfo(float).eps
    assert distinct_scores(close).scores.tolist() == [close[-1]]
    assert distinct_scores(close).weight.tolist() == [1000]
    single = 1 - np.arange(1000, dtype=np.float32) * np.finfo(np.float32).eps
    assert len(distinct_scores(single).scores) == 1000
    far = np.array([1e-300, 1e-16, 0.5, 1 - 1e-11, 1.0])
    assert distinct_scores(far).scores.tolist() == far.tolist()
    assert len(distinct_scores(np.append(far, far * (1 - 1e-16))).scores) == 5

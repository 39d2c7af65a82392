"""Weights of censored rows: oracle, unbiased rates, ties and input."""

import numpy as np
import pytest

from skcalib.clinical import censoring_weights


def kaplan_meier(time, event, u):
    """Probability that censoring comes at u or later, by the product over single times."""
    G = 1.0
    for t in np.unique(time[(event == 0) & (time < u)]):
        at_risk = np.sum(time > t) + np.sum((time == t) & (event == 0))
        G *= 1 - np.sum((time == t) & (event == 0)) / at_risk
    return G


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_inverse_kaplan_meier_estimate(seed):
    rng = np.random.default_rng(seed)
    time, event = rng.integers(1, 12, size=40), rng.integers(2, size=40)  # with ties
    expected = [
        1 / kaplan_meier(time, event, min(t, 6)) if e or t >= 6 else 0
        for t, e in zip(time, event, strict=True)
    ]
    np.testing.assert_allclose(censoring_weights(time, event, 6), expected)


def test_weighted_rate_is_unbiased():
    rng = np.random.default_rng(0)
    relapse, lost = rng.exponential(5, 200_000), rng.exponential(8, 200_000)
    time, event = np.minimum(relapse, lost), relapse <= lost
    weights = censoring_weights(time, event, 4)
    assert np.average(event & (time <= 4), weights=weights) == pytest.approx(
        1 - np.exp(-0.8), abs=0.01
    )
    assert weights.sum() == pytest.approx(200_000, rel=0.01)


def test_without_censoring_all_weights_are_one():
    np.testing.assert_array_equal(censoring_weights([1, 2, 3], [True, True, True], 2), [1, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([-1, 2], [0, 1], 1), "negative"),
        (([1, np.nan], [0, 1], 1), "NaN"),
        (([1, 2], [0, 2], 1), "censored"),
        (([1, 2], [0, 1, 1], 1), "inconsistent"),
        (([1, 2], [0, 1], 0), "horizon"),
    ],
)
def test_invalid_input_is_named(arguments, word):
    with pytest.raises(ValueError, match=word):
        censoring_weights(*arguments)

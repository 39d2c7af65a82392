"""Log-odds of one class against the others, and logits from them."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logsumexp, softmax

from skcalib._scores.columns import joined, joined_probabilities, margins
from skcalib.experimental._top_label import top_and_rest

ROWS = {
    "usual": [1.0, 0.3, -2.0],
    "two equal": [2.0, 2.0, 0.0],
    "all equal": [0.5, 0.5, 0.5],
    "far above": [700.0, 1.0, 0.0],
    "underflow": [5000.0, 10.0, 7.0],
    "large": [1e30, 0.0, -1e30],
    "masked": [-np.inf, 1.0, 0.5],
    "two masked": [-np.inf, 3.0, -np.inf],
}


def literal_margins(z):
    return np.array([z[k] - logsumexp(np.delete(z, k)) for k in range(len(z))])


@pytest.mark.parametrize("z", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_margins_are_the_log_odds_of_each_class(z, dtype):
    Z = np.array([z, z[::-1]], dtype)
    M, expected = margins(Z), literal_margins(Z[0].astype(float))
    assert M.dtype == dtype
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(M, [expected, expected[::-1]], rtol=rtol)


@pytest.mark.parametrize("z", ROWS.values(), ids=ROWS)
def test_top_label_has_its_margin_and_the_others_their_probabilities_without_it(z):
    z = np.array(z)
    top, margin, rest = top_and_rest(z[None])
    others = np.delete(z, np.argmax(z))
    assert top[0] == np.argmax(z)
    np.testing.assert_allclose(margin[0], literal_margins(z)[top[0]])
    assert rest[0, top[0]] == -np.inf
    if np.isfinite(others).any():
        np.testing.assert_allclose(np.delete(rest[0], top[0]), log_softmax(others), rtol=1e-12)


def test_joined_logits_are_of_the_normalized_probabilities():
    S = np.random.default_rng(0).normal(size=(20, 4))
    P = expit(S) / expit(S).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax(joined(S, 4), axis=1), P)
    np.testing.assert_allclose(softmax(joined_probabilities(expit(S), 4), axis=1), P)
    one = S[:, :1]
    np.testing.assert_array_equal(joined(one, 1), one)
    for f, scores in ((joined, one), (joined_probabilities, expit(one))):
        L = f(scores, 2)
        np.testing.assert_allclose(L[:, 1] - L[:, 0], one[:, 0])
    np.testing.assert_allclose(joined_probabilities(expit(one), 1), one)

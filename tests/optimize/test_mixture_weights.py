"""Weights of mixtures: against other solvers, by hand, and where they are hard to find."""

import numpy as np
import pytest
from families import rows_of
from scipy.special import expit

from skcalib._optimize.mixture import MixtureLoss, mixture_from_log_odds, mixture_weights


def loss_of(Q, w=None, pseudo_rows=None):
    pseudo_rows = np.zeros(Q.shape[1]) if pseudo_rows is None else pseudo_rows
    return MixtureLoss(rows_of(Q, np.arange(len(Q)) % 2, w), pseudo_rows)


def best(Q, w=None, pseudo_rows=None):
    M = Q.shape[1]
    return mixture_weights(loss_of(Q, w, pseudo_rows), np.full(M, 1 / M))


def problem(seed, *, scale=1.0, weights=False):
    random = np.random.default_rng(seed)
    n = random.integers(2, 300)
    L = -np.abs(random.normal(size=(n, 3))) * scale * random.choice([1, 0.1, 0.001], size=3)
    w = 10 ** random.uniform(-5, 5, size=n) if weights else None
    return np.exp(L - L.max(axis=1, keepdims=True)), w


@pytest.mark.parametrize("scale", [0.1, 1, 30, 200])
def test_few_passes_are_enough(scale):
    """One row in hundreds needs a member that all other rows are better without."""
    passes = []
    for seed in range(20):
        Q, w = problem(seed, scale=scale, weights=seed % 4 > 1)
        if seed % 2:
            Q[0] = [0, 0, 1]
        found = best(Q, w)
        assert found.success
        passes.append(found.nfev)
        if seed % 2 and w is None:
            assert found.x[2] > 0
    assert np.mean(passes) < 12
    assert max(passes) < 25


@pytest.mark.parametrize("seed", [*range(10), 794, 814])
def test_searches_reach_the_minimum(seed):
    """L-BFGS-B ends where two values are equal, as for the last two."""
    random = np.random.default_rng(seed)
    M, n = int(random.choice([5, 12, 20])), int(random.choice([30, 300, 1000]))
    L = -np.abs(random.normal(0, random.choice([0.01, 0.3, 3.0]), size=(n, M)))
    Q, prior = np.exp(L - L.max(axis=1, keepdims=True)), 2.0 * (np.arange(M) == 0)
    w = random.exponential(size=n)
    found = best(Q, w, prior)
    slope = loss_of(Q, w, prior).second_order(np.maximum(found.x, 1e-12))[1]
    assert found.success
    assert slope @ found.x - slope.min() <= 2e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mixtures_of_log_odds(dtype):
    S = np.array([[-300, -3, 0, 800], [-200, 1, 2, 900]], dtype)[:, :, None]
    weights, shares = np.array([0.3, 0.7]), np.array([0.1, 0.2])
    L = mixture_from_log_odds(S, weights, shares)
    assert L.dtype == dtype
    P = ((1 - shares[:, None]) * expit(S[:, :, 0].astype(float)) + shares[:, None] / 2).T @ weights
    np.testing.assert_allclose(np.exp(L), np.column_stack([1 - P, P]), rtol=1e-6)
    # Without a share, logarithms are finite.
    assert np.isfinite(mixture_from_log_odds(S, weights, np.zeros(2))).all()

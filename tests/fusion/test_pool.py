"""Formulas of the fusion: imputed scores, their covariance, and the penalized log loss."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from test_fusion import make_scores

from skcalib.fusion._pool import (
    Evidence,
    fill_gaps,
    fit_pool,
    penalized_loss,
    prior_of,
    within_covariance,
)


def evidence_with_gaps(n=200, n_scores=3, n_classes=3, gaps=0.3):
    """Evidence of random scores, labels and weights."""
    X, y = make_scores(n, n_scores, n_classes, gaps=gaps)
    E = log_softmax(X.reshape(n, n_scores, n_classes), axis=2) + np.log(n_classes)
    w = np.random.default_rng(1).integers(1, 3, n).astype(float)
    return E, y, w


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_gradient_of_the_penalized_loss(gaps):
    rng = np.random.default_rng(0)
    n, M, K = 50, 3, 4
    X, missing = rng.normal(size=(n, K, 2 * M)), rng.random((n, 1 + M)) < gaps
    F = np.hstack([missing, rng.normal(size=(n, M * K))])
    evidence = Evidence(X, F, np.zeros((n, K)), np.eye(M))
    y, w = rng.integers(K, size=n), rng.random(n)
    theta = 0.3 * rng.normal(size=2 * M + F.shape[1] * K)
    prior = prior_of(evidence, y, w)
    gradient = penalized_loss(theta, evidence, y, w, prior)[1]
    for i, step in enumerate(1e-5 * np.eye(len(theta))):
        up, down = (penalized_loss(theta + s * step, evidence, y, w, prior)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-5, abs=1e-5)


def test_weights_minimize_the_documented_loss():
    """Against a minimum of the formula in the documentation by finite differences."""
    E, y, w = evidence_with_gaps(100, 2, 2, gaps=0)
    base = np.full((100, 2), np.log(0.5))
    P = softmax(base[:, None] + E, axis=2)
    D = (P - P.mean(axis=1, keepdims=True)).reshape(100, 4)

    def mean_loss(L):
        return -np.average(log_softmax(base + L, axis=1)[np.arange(100), y], weights=w)

    alone = np.array([mean_loss(E[:, 0]), mean_loss(E[:, 1])])
    gains = w.sum() * np.maximum(mean_loss(0) - alone, 0)
    useful = (gains + 0.02) / (gains + 2) / alone
    u = useful / useful.sum()

    def loss(theta):
        b, c, e = theta[:2], theta[2:4], theta[4:].reshape(4, 2)
        t = u @ b / (u @ u)
        d = b - t * u
        ridge = (
            3 * 2 * d @ d + ((t - 1) / (1 / (u @ u) - 0.7)) ** 2 + 100 * c @ c + 5 * np.sum(e**2)
        )
        return ridge + w.sum() * mean_loss(c + np.einsum("nmk,m->nk", E, b) + D @ e)

    weights, effects = fit_pool(fill_gaps(E, base, np.eye(2)), y, w)
    best = minimize(loss, np.append([0.5, 0.5], np.zeros(10)))
    fitted = np.concatenate([weights[:2], effects[0], effects[3:].ravel()])
    assert loss(fitted) <= best.fun + 1e-7
    np.testing.assert_allclose(fitted, best.x, atol=1e-3)
    assert not effects[1:3].any()


def test_imputation_is_optimal_under_linear_discriminant_analysis():
    """The pool of imputed scores is the discriminant of the scores that are present."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    C, delta = A @ A.T + np.eye(4), rng.normal(size=4)
    E = rng.normal(size=(1, 4))
    E[0, 2:] = np.nan
    both = np.stack([np.zeros((1, 4)), E], axis=2) + 0 * E[:, :, None]
    filled = fill_gaps(both, np.zeros((1, 2)), C).X[0, 1, :4]
    best = np.linalg.solve(C[:2, :2], delta[:2]) @ E[0, :2]
    assert np.linalg.solve(C, delta) @ filled == pytest.approx(best)


def test_covariance_ignores_rows_of_zero_weight_and_gaps():
    E, y, w = evidence_with_gaps()
    full, few = within_covariance(E, y, w), w * (np.arange(len(y)) < 100)
    np.testing.assert_allclose(
        within_covariance(E, y, few), within_covariance(E[:100], y[:100], w[:100]), rtol=1e-10
    )
    assert (np.linalg.eigvalsh(full) > 0).all()
    copies = within_covariance(E[:, [0, 0]], y, w)
    assert copies[0, 1] == pytest.approx(0.9 * copies[0, 0])


def test_without_gaps_the_covariance_is_of_residuals():
    E, y, w = evidence_with_gaps(gaps=0)
    R = E - np.stack([np.average(E[y == k], axis=0, weights=w[y == k]) for k in range(3)])[y]
    R -= R.mean(axis=2, keepdims=True)
    C = np.einsum("nmk,n,njk->mj", R, w, R) / (3 * w.sum())
    expected = 0.9 * C + 0.1 * np.diag(np.diag(C))
    np.testing.assert_allclose(within_covariance(E, y, w), expected, rtol=1e-10)

"""One-vs-rest logistic regression on several features per class."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_expit

from skcalib._engine.memory import MemoryRows
from skcalib._linear.logistic import Logistic, _newton_step, fit_logistic
from skcalib._scores.one_vs_rest import margins
from skcalib.datasets import make_logits


def quadratic(Z, _):
    """Margins and their squares, as quadratic scaling has them."""
    M = margins(Z)
    return [M, M**2], None


def three(Z, _):
    """Features in three very different units, and rows that do not count."""
    M = margins(Z)
    return [M, 1e6 * np.abs(M), 1e-6 * np.exp(M / 10)], np.abs(M) < 3


@pytest.fixture(params=[2, 3])
def logits(request):
    offset = np.arange(request.param) / 2
    return make_logits(500, request.param, temperature=1.5, offset=offset, random_state=0)


def problem_of(features, Z, y, w=None, *, smooth=True):
    F, _ = features(Z, y)
    spread = np.array([np.median(np.abs(f), axis=0) for f in F])
    return Logistic.of(MemoryRows(Z, y, w), features, spread, 1e-12 * spread, smooth=smooth)


def literal_loss(theta, k, features, Z, y, w, high, low):
    """Mean log loss of the sigmoid of class k."""
    F, counts = features(Z, y)
    K = F[0].shape[1]
    S = sum(t * f[:, k] for t, f in zip(theta, F, strict=False)) + theta[-1]
    target = np.where(y == (k if K > 1 else 1), high[k], low[k])
    w = np.ones(len(y)) if w is None else w
    w = w if counts is None else w * counts[:, k]
    return -np.average(target * log_expit(S) + (1 - target) * log_expit(-S), weights=w)


@pytest.mark.parametrize("features", [quadratic, three])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_those_of_the_literal_loss(features, weighted, logits, rng):
    Z, y = logits
    w = rng.uniform(0, 2, size=len(y)) if weighted else None
    problem = problem_of(features, Z, y, w)
    d, K = 1 + len(problem.spread), problem.spread.shape[1]
    size = np.append(problem.spread.max(axis=1), 1)
    theta = rng.normal(size=(K, d)) / size
    gradient, hessian = problem.derivatives(theta)
    arguments = features, Z, y, w, problem.high, problem.low
    for k in range(K):
        numeric = approx_fprime(theta[k], literal_loss, 1e-6 / size, k, *arguments)
        np.testing.assert_allclose(gradient[k] / size, numeric / size, rtol=1e-4, atol=1e-5)
    for i in range(d):
        step = 1e-5 * np.eye(d)[i] / size
        ahead, behind = (problem.derivatives(theta + s * step)[0] for s in (1, -1))
        slope = (ahead - behind) / 2e-5 / size
        np.testing.assert_allclose(hessian[:, i] / size / size[i], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("features", [quadratic, three])
def test_fit_is_the_minimum_of_each_class(features, logits):
    Z, y = logits
    problem = problem_of(features, Z, y)
    theta, n_passes, converged = fit_logistic(problem)
    assert converged
    assert n_passes < 15
    size = np.column_stack([problem.spread.T, np.ones(len(theta))])
    np.testing.assert_allclose(problem.derivatives(theta)[0] / size, 0, atol=1e-9)
    arguments = features, Z, y, None, problem.high, problem.low
    for k, found in enumerate(theta):
        best = minimize(lambda u, k=k: literal_loss(u / size[k], k, *arguments), found * size[k])
        assert literal_loss(found, k, *arguments) <= best.fun + 1e-9


def test_targets_are_smoothed_by_the_rows_that_count(logits):
    Z, y = logits
    plain, smooth = (problem_of(three, Z, y, smooth=smooth) for smooth in (False, True))
    _, counts = three(Z, y)
    event = (y[:, None] == np.arange(counts.shape[1])) if counts.shape[1] > 1 else y[:, None] == 1
    hits, weight = (event & counts).sum(axis=0), counts.sum(axis=0)
    assert (plain.high.tolist(), plain.low.tolist()) == ([1] * len(hits), [0] * len(hits))
    np.testing.assert_allclose(plain.rate, hits / weight)
    np.testing.assert_allclose(smooth.high, (hits + 1) / (hits + 2))
    np.testing.assert_allclose(smooth.low, 1 / (weight - hits + 2))


def test_a_feature_that_does_not_vary_has_no_slope(logits):
    Z, y = logits

    def constant(Z, y):
        (M, _), counts = quadratic(Z, y)
        return [M, 0 * M], counts

    theta = fit_logistic(problem_of(constant, Z, y))[0]
    assert (theta[:, 1] == 0).all()
    one = fit_logistic(problem_of(lambda Z, y: ([margins(Z)], None), Z, y))[0]
    np.testing.assert_allclose(theta[:, [0, 2]], one, rtol=1e-9)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_newton_steps_solve_the_equations_of_each_class(d, rng):
    gradient, roots = rng.normal(size=(5, d)), rng.normal(size=(5, d, d))
    matrices = roots @ roots.transpose(0, 2, 1) + np.eye(d)
    step = _newton_step(gradient, matrices, np.full((5, d), 1e-9))
    wanted = [-np.linalg.solve(A, g) for A, g in zip(matrices, gradient, strict=True)]
    np.testing.assert_allclose(step, wanted, rtol=1e-6)
    least = np.zeros((5, d))
    least[:, -1] = 1e-9
    still = _newton_step(gradient, matrices, least)
    assert (still[:, :-1] == 0).all()
    np.testing.assert_allclose(still[:, -1], -gradient[:, -1] / matrices[:, -1, -1])

"""One-vs-rest logistic regression on several features per class."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_expit

from skcalib._optimize.logistic import Prior, RowSigmoids, fit_sigmoids
from skcalib._optimize.newton import newton, parts_of
from skcalib._rows.rows import MemoryRows
from skcalib._scores.columns import margins
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


def problem_of(features, Z, y, w=None, *, smooth=True, prior=None):
    K = features(Z, y)[0][0].shape[1]
    return RowSigmoids.of(MemoryRows(Z, y, w), features, K, prior, smooth=smooth)


def sizes(features, Z, y):
    """Medians of the features, and 1 for the constant one: (d,)."""
    return np.array([*(np.median(np.abs(f)) for f in features(Z, y)[0]), 1])


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
    size = sizes(features, Z, y)
    d, K = len(size), len(problem.rate)
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
    size = sizes(features, Z, y)
    problem = problem_of(features, Z, y)
    K = len(problem.rate)
    found = fit_sigmoids(problem, np.zeros((K, len(size))))
    assert found.success
    assert found.nfev < 15
    np.testing.assert_allclose(problem.derivatives(found.x)[0] / size, 0, atol=1e-9)
    arguments = features, Z, y, None, problem.high, problem.low
    for k, theta in enumerate(found.x):
        best = minimize(lambda u, k=k: literal_loss(u / size, k, *arguments), theta * size)
        assert literal_loss(theta, k, *arguments) <= best.fun + 1e-9


def test_a_prior_shrinks_towards_its_mean(logits):
    Z, y = logits
    K = 1 if Z.shape[1] == 2 else Z.shape[1]
    mean, root = np.array([0.5, 0.1, 0]), np.array([[1.0, 1, 0], [0, 2, 1], [0, 0, 1]])
    prior = Prior(mean, 100 * root.T @ root)
    problem = problem_of(quadratic, Z, y, prior=prior)
    found = fit_sigmoids(problem, np.zeros((K, 3)))
    arguments = quadratic, Z, y, None, problem.high, problem.low

    def objective(theta, k):
        off = root @ (theta - mean)
        return literal_loss(theta, k, *arguments) + 50 * off @ off / len(y)

    for k, theta in enumerate(found.x):
        oracle = minimize(objective, mean, k, tol=1e-9)
        np.testing.assert_allclose(theta, oracle.x, atol=1e-6)


def test_bounds_are_those_of_a_bounded_search(logits, rng):
    Z, y = logits
    problem = problem_of(quadratic, Z, y)
    K, low = len(problem.rate), np.array([0.8, -0.01, 0.2])
    found = fit_sigmoids(problem, np.tile(low, (K, 1)), np.tile(low, (K, 1)))
    assert found.success
    assert (found.x >= low).all()
    assert (found.x == low).any()
    arguments = quadratic, Z, y, None, problem.high, problem.low
    for k, theta in enumerate(found.x):
        oracle = minimize(
            literal_loss, low, (k, *arguments), bounds=list(zip(low, [None] * 3, strict=True)),
            options={"ftol": 1e-14, "gtol": 1e-9},
        )  # fmt: skip
        assert literal_loss(theta, k, *arguments) <= oracle.fun + 1e-10


def test_it_is_a_method_of_scipy():
    """As fast as trust-exact on a textbook function, and with several such functions at once."""
    centres = np.array([[0.3, -2.0], [1.0, 4.0], [-1.0, 0.0]])

    def derivatives(x):
        u = x - centres
        hessian = np.zeros((3, 2, 2))
        hessian[:, [0, 1], [0, 1]] = np.cosh(u)
        return np.sinh(u), hessian

    gradient, hessian = parts_of(derivatives, 2, (3, 2))
    found = minimize(
        lambda x: np.cosh(x - centres.ravel()).sum(), np.zeros(6),
        jac=lambda x: gradient(x).ravel(), hess=hessian, method=newton, options={"tol": 1e-12},
    )  # fmt: skip
    assert found.success
    assert found.nfev < 12
    np.testing.assert_allclose(found.x, centres.ravel(), atol=1e-9)
    stopped = minimize(
        lambda x: 0, np.zeros(6), jac=lambda x: gradient(x).ravel(), hess=hessian, method=newton,
        options={"maxiter": 2},
    )  # fmt: skip
    assert not stopped.success
    assert stopped.nfev == 2


def test_parameters_without_curvature_stay():
    """As where all rows are sure: a slope alone does not tell how long a step may be."""
    found = minimize(
        lambda x: 0, [3.0, 5.0], jac=lambda x: np.array([2 * (x[0] - 1), 1.0]),
        hess=lambda x: np.diag([2.0, 0.0]), method=newton,
    )  # fmt: skip
    assert found.success
    np.testing.assert_allclose(found.x, [1, 5])

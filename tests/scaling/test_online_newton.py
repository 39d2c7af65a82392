"""PlattScaling in a stream: its regret against fixed sigmoids, whatever the order of the rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

from skcalib import PlattScaling
from skcalib.datasets import make_logits

T = 50


def orders(rng, scale):
    """Margins and events by the name of what makes them hard."""
    m = rng.normal(0, scale, T)
    drawn = rng.random(T)
    y = drawn < expit(0.5 * m + 1)
    by_label, half = np.argsort(y, kind="stable"), np.arange(T) < T / 2
    return {
        "random": (m, y),
        "sorted by label": (m[by_label], y[by_label]),
        "sorted by margin": (np.sort(m), y[np.argsort(m)]),
        "alternating": (m, np.arange(T) % 2 == 0),
        "reversed in the middle": (m, drawn < expit(np.where(half, m, -m))),
        "all wrong": (m, m < 0),
        "all equal": (m, np.ones(T, bool)),
        "the same margin": (np.full(T, scale), y),
        "wrong and certain, then right": (m, np.where(np.arange(T) < 5, m < 0, m > 0)),
    }


def losses(theta, m, y):
    z = theta[..., 0] * m + theta[..., 1]
    return np.logaddexp(0, np.where(y, -z, z))


def followed(c, m, y):
    """Slopes and offsets before each row, and half of the sum of its r^2 x' A^-1 x."""
    thetas, half = [], 0.0
    for margin, event in zip(m, y, strict=True):
        known = hasattr(c, "coef_")
        theta = np.array([c.coef_[0], c.intercept_[0]] if known else [1.0, 0.0])
        c.partial_fit([[margin]], [int(event)], classes=[0, 1])
        x, A = np.array([margin, 1.0]), np.eye(2) + c.information_[0]
        half += (expit(theta @ x) - event) ** 2 * (x @ np.linalg.solve(A, x)) / 2
        thetas.append(theta)
    return np.array(thetas), half


def best_fixed(m, y, bounds):
    least, largest = bounds[:, 0]
    total = lambda theta: losses(theta, m, y).sum()  # noqa: E731
    middle = np.clip([0.5, 0.0], least, largest)
    return minimize(total, middle, bounds=list(zip(least, largest, strict=True)), tol=1e-12).x


@pytest.mark.parametrize(("scale", "is_fitted"), [(1.0, False), (4.0, True)])
@pytest.mark.parametrize("order", list(orders(np.random.default_rng(0), 1.0)))
def test_regret_is_at_most_the_bounds(order, scale, is_fitted, rng):
    m, y = orders(rng, scale)[order]
    start, A = np.array([1.0, 0.0]), np.eye(2)
    c = PlattScaling()
    if is_fitted:
        other = rng.normal(0, 3, 50)
        c.fit(other[:, None], (rng.random(50) < expit(2 * other)).astype(int))
        start, A = np.array([c.coef_[0], c.intercept_[0]]), A + c.information_[0]
    thetas, half = followed(c, m, y)
    theta = best_fixed(m, y, c.bounds_)
    regret = losses(thetas, m, y).sum() - losses(theta, m, y).sum()
    distance = (theta - start) @ A @ (theta - start) / 2
    assert regret <= distance + half + 1e-6
    largest = np.abs(c.bounds_[:, 0]).max(axis=0)
    B, squares = largest[0] * np.abs(m).max() + largest[1], np.abs(m).max() ** 2 + 1
    assert half <= np.exp(B) * np.log1p(T * squares / 8)
    assert ((c.bounds_[0, 0] <= thetas) & (thetas <= c.bounds_[1, 0])).all()


def test_information_of_a_fit_is_the_hessian():
    Z, y = make_logits(500, 4, random_state=0)
    w = np.linspace(0.5, 2, 500)
    c = PlattScaling().fit(Z, y, w)
    for k in range(4):
        m = Z[:, k] - np.log(np.exp(np.delete(Z, k, axis=1)).sum(axis=1))
        p = expit(c.coef_[k] * m + c.intercept_[k])
        x = np.stack([m, np.ones(500)])
        assert_allclose(c.information_[k], x * (w * p * (1 - p)) @ x.T, rtol=1e-4)


def test_a_slope_may_stay_negative(rng):
    m = rng.normal(0, 2, (600, 1))
    y = (rng.random(600) < expit(-1.5 * m[:, 0])).astype(int)
    with pytest.warns(UserWarning, match="slope of 1 of 1 sigmoids is negative"):
        c = PlattScaling().fit(m[:300], y[:300])
    assert_allclose(c.bounds_[:, 0, 0], [2 * c.coef_[0], -2 * c.coef_[0]])
    assert c.partial_fit(m[300:], y[300:]).coef_ < -1


def test_each_class_is_a_stream_of_its_own():
    Z, y = make_logits(300, 3, temperature=2.0, random_state=0)
    c = PlattScaling().partial_fit(Z, y)
    for k in range(3):
        m = Z[:, k] - np.log(np.exp(np.delete(Z, k, axis=1)).sum(axis=1))
        alone = PlattScaling().partial_fit(m[:, None], (y == k).astype(int))
        assert_allclose([c.coef_[k], c.intercept_[k]], [alone.coef_[0], alone.intercept_[0]])


def test_margins_without_end_do_not_count():
    Z, y = make_logits(200, 3, temperature=2.0, random_state=0)
    c = PlattScaling().fit(Z, y)
    before = c.coef_.copy(), c.intercept_.copy()
    c.partial_fit([[0.0, -np.inf, -np.inf]], [0])
    assert_allclose([c.coef_, c.intercept_], before)
    c.partial_fit([[-1e30, 0.0, 0.0]], [0])  # wrong and certain
    assert np.isfinite(c.predict_proba(Z)).all()


def curvature(z, low, high):
    """The largest one of a parabola that touches the log loss at ``z`` and is nowhere above it."""
    other = np.linspace(low, high, 4001)
    other = other[np.abs(other - z) > 1e-4]
    gap = np.logaddexp(0, other) - np.logaddexp(0, z) - expit(z) * (other - z)
    return min((2 * gap / (other - z) ** 2).min(), expit(z) * expit(-z))


@pytest.mark.parametrize("order", ["sorted by margin", "all wrong"])
def test_steps_are_the_literal_ones(order, rng):
    """Newton's, of the sum of such parabolas, to the nearest point within the bounds."""
    m, y = orders(rng, 4.0)[order]
    theta, A, c = np.array([1.0, 0.0]), np.eye(2), PlattScaling()
    for margin, event in zip(m[:30], y[:30], strict=True):
        c.partial_fit([[margin]], [int(event)], classes=[0, 1])
        x, (least, largest) = np.array([margin, 1.0]), c.bounds_[:, 0]
        ends = [slope * margin for slope in (least[0], largest[0])]
        low, high = min(ends) + least[1], max(ends) + largest[1]
        A = A + curvature(theta @ x, low, high) * np.outer(x, x)
        free = theta - np.linalg.solve(A, (expit(theta @ x) - event) * x)
        nearest = minimize(
            lambda t, A=A, free=free: (t - free) @ A @ (t - free), np.clip(free, least, largest),
            bounds=list(zip(least, largest, strict=True)), tol=1e-14,
        )  # fmt: skip
        theta = np.array([c.coef_[0], c.intercept_[0]])
        assert_allclose(c.information_[0] + np.eye(2), A, rtol=1e-3, atol=1e-6)
        assert_allclose(theta, nearest.x, atol=1e-3)
        A = c.information_[0] + np.eye(2)

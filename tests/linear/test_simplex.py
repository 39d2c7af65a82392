"""Weights on the simplex against other solvers, by hand, and where they are hard to find."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from skcalib._engine.memory import MemoryRows
from skcalib._linear import simplex
from skcalib._linear.simplex import (
    GAP,
    Weights,
    _least_of_all_faces,
    _stationary,
    least_log_loss,
    least_quadratic,
)


def rows_of(Q, w=None):
    return MemoryRows(Q, np.zeros(len(Q), int), w)


def loss(x, Q, w=None):
    return -np.average(np.log(Q @ x), weights=w)


def problem(seed, *, scale=1.0, weights=False):
    random = np.random.default_rng(seed)
    n = random.integers(2, 300)
    L = -np.abs(random.normal(size=(n, 3))) * scale * random.choice([1, 0.1, 0.001], size=3)
    w = 10 ** random.uniform(-5, 5, size=n) if weights else None
    return np.exp(L - L.max(axis=1, keepdims=True)), w


GRID = np.array([x for x in product(np.linspace(0, 1, 101), repeat=3) if abs(sum(x) - 1) < 1e-9])


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_least_quadratic_is_no_worse_than_a_grid(seed, rank):
    random = np.random.default_rng(seed)
    B, g = random.normal(size=(rank, 3)), random.normal(size=3)
    H = B.T @ B
    x = least_quadratic(H, g)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1, abs=1e-15)

    def value(x):
        return 0.5 * np.einsum("...i,ij,...j->...", x, H, x) + x @ g

    assert value(x) <= value(GRID).min() + 1e-12
    # At the minimum no vertex lies downhill.
    slope = H @ x + g
    assert slope.min() >= slope @ x - 1e-12


def test_least_quadratic_by_hand():
    assert_allclose(least_quadratic(np.eye(3), np.zeros(3)), [1 / 3, 1 / 3, 1 / 3])
    assert_allclose(
        least_quadratic(np.diag([1.0, 2.0, 1.0]), np.array([0, 0, 5.0])), [2 / 3, 1 / 3, 0]
    )
    assert least_quadratic(np.eye(3), np.array([5.0, 0, 5.0])).tolist() == [0, 1, 0]
    assert least_quadratic(np.zeros((3, 3)), np.array([2.0, 1, 3])).tolist() == [0, 1, 0]


def test_least_log_loss_by_hand():
    # Labels to which one member gives 1 and the others 0: weights are the shares of these rows.
    Q = np.repeat(np.eye(3), [2, 5, 3], axis=0)
    assert_allclose(least_log_loss(rows_of(Q))[0], [0.2, 0.5, 0.3], atol=1e-9)
    assert_allclose(
        least_log_loss(rows_of(np.eye(3), np.array([2.0, 5, 3])))[0], [0.2, 0.5, 0.3], atol=1e-9
    )
    # (3 log(w + (1 - w) / 2) + log(1 - w)) has its maximum at w = 1/2.
    Q = np.array([[1, 0.5], [1, 0.5], [1, 0.5], [0, 1]])
    assert_allclose(least_log_loss(rows_of(Q))[0], [0.5, 0.5], atol=1e-9)
    # One member is better in all rows.
    assert least_log_loss(rows_of(np.array([[0.5, 1, 0.1]] * 4)))[0].tolist() == [0, 1, 0]


# What an old version of scipy's SLSQP says of its own steps.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1, 30])
@pytest.mark.parametrize("seed", range(5))
def test_least_log_loss_is_that_of_another_solver(seed, scale, weights):
    Q, w = problem(seed, scale=scale, weights=weights)
    x, converged = least_log_loss(rows_of(Q, w))
    assert converged
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1, abs=1e-12)
    w = None if w is None else w / w.mean()
    oracle = minimize(
        loss, np.full(3, 1 / 3), (Q, w), method="SLSQP", bounds=[(1e-12, 1)] * 3, tol=1e-14,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    )  # fmt: skip
    assert loss(x, Q, w) <= oracle.fun + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_gap_bounds_the_distance_from_the_minimum(seed):
    Q, w = problem(seed, weights=seed % 2 == 0)
    best, _ = least_log_loss(rows_of(Q, w))
    x = np.random.default_rng(seed).dirichlet(np.ones(3))
    at = Weights.of(x, rows_of(Q, w))
    assert loss(x, Q, w) - loss(best, Q, w) <= at.gap + 1e-12
    assert at.descent @ x == pytest.approx(1)
    step = 1e-6 * (np.eye(3)[0] - x)
    rise = loss(x + step, Q, w) - loss(x - step, Q, w)
    assert rise / 2 == pytest.approx(-at.descent @ step, rel=1e-4, abs=1e-13)
    change = (
        Weights.of(x + step, rows_of(Q, w)).descent - Weights.of(x - step, rows_of(Q, w)).descent
    )
    assert_allclose(change / 2, -at.hessian @ step, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("scale", [0.1, 1, 30, 200])
def test_few_passes_are_enough(scale, weights, monkeypatch):
    """Also where one row in hundreds needs a member that all others are better without."""
    passes, of = [], Weights.of
    monkeypatch.setattr(Weights, "of", lambda *args: passes.append(1) or of(*args))
    for seed in range(20):
        Q, w = problem(seed, scale=scale, weights=weights)
        if seed % 2:
            Q[0] = [0, 0, 1]
        passes.clear()
        x, converged = least_log_loss(rows_of(Q, w))
        assert converged
        assert len(passes) <= 25
        if seed % 2:
            assert x[2] > 0


@pytest.mark.parametrize("share", [1e-9, 1e-10, 1e-11])
def test_rows_of_next_to_no_weight_have_a_member_of_next_to_no_weight(share):
    """Whose rounding errors leave a gap that no step narrows."""
    random = np.random.default_rng(0)
    Q = np.exp(np.column_stack([np.full(200, -0.001), -0.1 * random.random(200), np.full(200, -3)]))
    Q[0] = [0, 0, 1]
    w = 10 ** random.uniform(-3, 3, size=200)
    w[0] = share * w[1:].sum()
    x, converged = least_log_loss(rows_of(Q, w))
    assert converged
    assert x[2] == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize("seed", [36, 116, 172, 195])
def test_it_ends_where_rounding_hides_how_to_narrow_the_gap(seed):
    Q, w = problem(seed, scale=200, weights=True)
    x, converged = least_log_loss(rows_of(Q, w))
    assert converged
    assert Weights.of(x, rows_of(Q, w)).gap < 1e-6


def test_equal_members_are_no_obstacle():
    Q, _ = problem(3)
    Q[:, 1] = Q[:, 0]
    x, converged = least_log_loss(rows_of(Q))
    assert converged
    assert Weights.of(x, rows_of(Q)).gap <= GAP
    x, converged = least_log_loss(rows_of(np.ones((5, 3))))
    assert converged
    assert x.sum() == pytest.approx(1)


def test_it_says_when_it_did_not_converge(monkeypatch):
    monkeypatch.setattr(simplex, "MAX_PASSES", 4)
    assert not least_log_loss(rows_of(problem(1, scale=30)[0]))[1]


@pytest.mark.parametrize("M", [1, 2, 3, 5])
def test_least_quadratic_is_that_of_all_faces(M):
    """Also where several points are the least, and where leaving out coordinates goes astray."""
    random = np.random.default_rng(M)
    for rank in range(M + 1):
        for scale in (0, 0.3, 3):
            B, g = random.normal(size=(rank, M)), scale * random.normal(size=M)
            H = B.T @ B
            values = [
                x @ H @ x / 2 + g @ x for x in (least_quadratic(H, g), _least_of_all_faces(H, g))
            ]
            assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_least_quadratic_where_leaving_out_coordinates_goes_astray():
    """The coordinate that is negative first is positive at the minimum."""
    random, astray = np.random.default_rng(0), 0
    for _ in range(200):
        B, g = random.normal(size=(3, 3)) * [1, 3, 0.3], random.normal(size=3)
        H = B.T @ B
        first, x = _stationary(H, g), least_quadratic(H, g)
        astray += bool(first.min() < 0 < x[first.argmin()])
        assert (H @ x + g).min() >= (H @ x + g) @ x - 1e-9
    assert astray

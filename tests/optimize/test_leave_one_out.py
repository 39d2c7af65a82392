"""The approximate leave-one-out loss against refits, and the path of strengths."""

from functools import partial

import numpy as np
import pytest
from families import log_prior, rows_of
from scipy.special import logsumexp

from skcalib._optimize.linear import LinearLoss
from skcalib._optimize.maps import MatrixMap, Regularization, VectorMap
from skcalib._optimize.strength import (
    WholeHessian,
    choose_strength,
    diagonal_score_change,
    optimism,
    score_change,
)
from skcalib.datasets import make_logits

MAPS = [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()]


def problem(n, K, *, weights=False, **params):
    """Over-confident logits with an over-predicted class and a dependence between classes."""
    Z, y = make_logits(n, K, random_state=0, **{"temperature": 2, **params})
    Z[:, 0] += 1
    Z[:, 1] += 0.5 * Z[:, -1]
    w = np.random.default_rng(0).uniform(0.5, 2, size=n) if weights else None
    return Z, y, w


def objective_of(map_, Z, y, w, alpha):
    N = len(y) if w is None else w.sum()
    return LinearLoss(map_, rows_of(Z, y, w), Regularization.rule(Z.shape[1], N, alpha))


def losses_of(map_, theta, Z, y):
    S = map_.scores(theta, Z)
    return logsumexp(S, axis=1) - S[np.arange(len(y)), y]


def exact(map_, Z, y, w, alpha, folds, start=None):
    """Mean loss of the rows of each fold under a fit without them, or one of weights above 1.

    Fits start from somewhere near.
    """
    total, weights = 0.0, np.ones(len(y)) if w is None else w
    for out in folds:
        rest = weights.copy()
        rest[out] -= np.minimum(rest[out], 1)
        some = rest > 0
        # The penalty of the summed loss is the same.
        objective = objective_of(map_, Z[some], y[some], rest[some], alpha)
        theta = objective.minimize(1e-7, 300, start).x
        total += weights[out] @ losses_of(map_, theta, Z[out], y[out])
    return total / weights.sum()


@pytest.mark.slow
@pytest.mark.parametrize("map_", MAPS, ids=repr)
@pytest.mark.parametrize(("K", "weights"), [(2, True), (4, False)])
def test_estimate_is_within_one_percent_of_refits_without_each_row(map_, K, weights):
    n, alpha = 150, 1.0
    Z, y, w = problem(n, K, weights=weights)
    objective = objective_of(map_, Z, y, w, alpha)
    theta = objective.minimize(1e-7, 300).x
    wanted = exact(map_, Z, y, w, alpha, np.arange(n)[:, None], theta)
    loss = np.average(losses_of(map_, theta, Z, y), weights=w)
    difference = optimism(objective, theta, WholeHessian.of(objective, theta))
    assert loss + difference == pytest.approx(wanted, rel=0.01)
    # The difference to the training loss is also close to the exact difference.
    assert difference == pytest.approx(wanted - loss, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
def test_estimate_by_blocks_is_close_to_that_of_ten_folds(map_):
    K, n, alpha = 25, 600, 3.0
    Z, y, w = problem(n, K, temperature=1.5)
    objective = objective_of(map_, Z, y, w, alpha)
    theta = objective.minimize(1e-6, 300).x
    wanted = exact(map_, Z, y, w, alpha, np.array_split(np.arange(n), 20))
    loss = losses_of(map_, theta, Z, y).mean()
    difference = optimism(objective, theta, objective.blocks(objective.moments(theta)))
    assert loss + difference == pytest.approx(wanted, rel=0.01)
    assert difference == pytest.approx(wanted - loss, rel=0.3)


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
def test_estimate_by_blocks_is_close_to_that_of_the_whole_hessian(map_):
    K, n = 12, 600
    objective = objective_of(map_, *problem(n, K, temperature=1.5), 3.0)
    theta = objective.minimize(1e-6, 300).x
    blocks = objective.blocks(objective.moments(theta))
    by_blocks = optimism(objective, theta, blocks)
    assert by_blocks == pytest.approx(
        optimism(objective, theta, WholeHessian.of(objective, theta)), rel=0.15
    )


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
@pytest.mark.parametrize("K", [3, 12])
def test_optimism_in_a_sample_is_close_to_that_of_all_rows(map_, K):
    Z, y, _ = problem(9000, K)
    sampled, complete = (objective_of(map_, Z, y, w, 1.0) for w in (None, np.ones(len(y))))
    theta = sampled.minimize(1e-6, 300).x
    few, all_rows = (
        optimism(o, theta, WholeHessian.of(o, theta) if K == 3 else o.blocks(o.moments(theta)))
        for o in (sampled, complete)
    )
    assert few == pytest.approx(all_rows, rel=0.15)


@pytest.mark.parametrize("K", [2, 3])
def test_changes_of_scores_solve_the_equations_of_each_row(K, rng):
    P = rng.dirichlet(np.ones(K), size=5)
    R = P - np.eye(K)[rng.integers(K, size=5)]
    J = rng.normal(size=(5, K, 4))
    A = J @ J.transpose(0, 2, 1)
    D = P[:, :, None] * (np.eye(K) - P[:, None, :])
    solved = [a @ np.linalg.solve(np.eye(K) - d @ a, r) for a, d, r in zip(A, D, R, strict=True)]
    np.testing.assert_allclose(score_change(A, P, R), solved, rtol=1e-6)
    # With diagonal leverages the curvature of a row counts by half.
    A = np.stack([np.diag(a) for a in rng.uniform(0.1, 1.5, size=(5, K))])
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    solved = [
        a @ np.linalg.solve(np.eye(K) - d @ a / 2, r) for a, d, r in zip(A, D, R, strict=True)
    ]
    np.testing.assert_allclose(diagonal_score_change(diagonal, P, R), solved, rtol=1e-9)


def test_path_leads_to_the_solution_of_a_separate_fit():
    Z, y, _ = problem(300, 4)
    objective = objective_of(MatrixMap(), Z, y, None, 1)
    best, fits = choose_strength(objective, partial(Regularization.rule, 4, 300), 1e-8, 200)
    alone = objective_of(MatrixMap(), Z, y, None, best.alpha).minimize(1e-8, 200)
    assert best.alpha < fits[0].alpha
    np.testing.assert_allclose(best.theta, alone.x, atol=1e-2)
    each = [objective_of(MatrixMap(), Z, y, None, f.alpha).minimize(1e-3, 200).nit for f in fits]
    assert sum(fit.n_iter for fit in fits) <= sum(each)


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
@pytest.mark.parametrize("K", [2, 4, 8])
@pytest.mark.parametrize("unit", [0.001, 1, 100])
def test_strength_is_a_minimum_of_the_sum_of_losses_and_the_prior(map_, K, unit):
    """The rows want a weaker strength, about the first one, and a stronger one."""
    for n in (60, 300):
        Z, y, _ = problem(n, K)
        rule = lambda alpha, n=n: Regularization.rule(K, n, unit * alpha)  # noqa: E731
        best, fits = choose_strength(objective_of(map_, Z, y, None, 1), rule, 1e-8, 200)
        alphas = np.array([fit.alpha for fit in fits])
        totals = n * np.array([fit.estimate for fit in fits]) - log_prior(alphas)
        assert best.alpha == alphas[totals.argmin()]
        neighbours = np.abs(np.log(alphas / best.alpha)) < 1.3
        assert neighbours.sum() == 3 or best.alpha in (10, 0.003)

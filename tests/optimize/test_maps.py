"""Laws of the linear maps, and of their preconditioners."""

from dataclasses import replace

import numpy as np
import pytest
from families import TemperatureMap, log_probabilities_of

from skcalib._optimize.loss import Objective, Regularization
from skcalib._optimize.maps import MatrixMap, VectorMap
from skcalib._optimize.minimize import lbfgs
from skcalib.datasets import make_logits

K = 4
SEARCHED = [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()]


@pytest.fixture(params=[None, "weights"])
def features(request, rng):
    Z, y = make_logits(300, K, offset=[0, 1, -1, 2], random_state=1)
    w = None if request.param is None else rng.uniform(0, 2, size=len(y))
    return log_probabilities_of(Z, y, w, 0.5)


def objective_of(map_, features, alpha):
    return Objective(map_, features, Regularization.rule(K, features.n_rows, alpha))


def inverse_hessian(objective, theta):
    """What the preconditioner takes for the inverse of the Hessian, column by column."""
    blocks = objective.map_.blocks(objective, theta)
    return np.array([blocks.solve(g) for g in np.eye(len(theta))]).T


@pytest.mark.parametrize("map_", [TemperatureMap(), *SEARCHED], ids=repr)
def test_adjoint_is_the_adjoint_of_the_scores(map_, rng):
    Z, R = rng.normal(size=(2, 9, K))
    theta = rng.normal(size=len(map_.adjoint(R, Z)))
    np.testing.assert_allclose(np.vdot(R, map_.scores(theta, Z)), map_.adjoint(R, Z) @ theta)


@pytest.mark.parametrize("map_", SEARCHED, ids=repr)
@pytest.mark.parametrize("alpha", [0, 1])
def test_objective_falls_with_every_iteration(map_, features, alpha):
    objective = objective_of(map_, features, alpha)
    values = [
        lbfgs(objective, objective.identity, tol=1e-12, max_iter=max_iter).fun
        for max_iter in range(8)
    ]
    assert np.all(np.diff(values) <= 0)
    assert values[3] < values[0]


@pytest.mark.parametrize("map_", SEARCHED, ids=repr)
@pytest.mark.parametrize("alpha", [0, 1e-3, 1])
def test_preconditioners_are_symmetric_and_positive(map_, features, alpha):
    objective = objective_of(map_, features, alpha)
    inverse = inverse_hessian(objective, objective.identity)
    scale = np.abs(inverse).max()
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-10 * scale)
    assert np.linalg.eigvalsh((inverse + inverse.T) / 2).min() > -1e-10 * scale


@pytest.mark.parametrize("map_", SEARCHED[:2], ids=repr)
@pytest.mark.parametrize("alpha", [0, 1])
def test_preconditioner_of_a_vector_map_inverts_blocks_of_the_hessian(map_, features, alpha, rng):
    objective = objective_of(map_, features, alpha)
    n_kinds = len(objective.identity) // K
    theta = objective.identity + rng.uniform(-0.3, 0.3, size=len(objective.identity))
    H = replace(objective, double=True).second_order(theta)[2].reshape(n_kinds, K, n_kinds, K)
    G = rng.normal(size=(n_kinds, K))
    G[1:] -= G[1:].mean(axis=1, keepdims=True)
    steps = np.array([np.linalg.solve(H[:, k, :, k], G[:, k]) for k in range(K)]).T
    steps[1:] -= steps[1:].mean(axis=1, keepdims=True)
    found = map_.blocks(objective, theta).solve(G.ravel())
    np.testing.assert_allclose(found, steps.ravel(), rtol=1e-3, atol=1e-3 * np.abs(steps).max())


def test_preconditioner_of_a_matrix_map_is_near_the_inverse_of_the_hessian(features):
    objective = objective_of(MatrixMap(), features, 0)
    H = objective.second_order(objective.identity)[2]

    def condition(values):
        moving = np.sort(values.real)[K + 1 :]  # one row added to all features changes nothing
        assert np.all(values.real[values.real < moving[0]] < 1e-6 * moving[-1])
        return moving[-1] / moving[0]

    assert condition(np.linalg.eigvalsh(H)) > 1000
    inverse = inverse_hessian(objective, objective.identity)
    assert condition(np.linalg.eigvals(inverse @ H)) < 40


def test_balanced_parameters_let_a_fit_with_other_strengths_converge(features, rng):
    """Preconditioners do not see what all classes share, to which the strengths give a place."""
    map_, strengths = MatrixMap(), Regularization(0.01, 0.3, 0.1)
    K = features.n_columns
    objective = Objective(map_, features, strengths)
    start = objective.identity + 0.1 * rng.normal(size=K * K + K)
    start[K * K :] -= start[K * K :].mean()
    near = map_.balanced(start, strengths, K)
    losses = [Objective(map_, features).value_gradient(theta)[0] for theta in (start, near)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    common = objective.value_gradient(near)[1][: K * K].reshape(K, K).sum(axis=0)
    np.testing.assert_allclose(common, 0, atol=1e-12)
    assert lbfgs(objective, near, 1e-9, 200).success

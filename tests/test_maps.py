"""Laws of the linear maps, and of the coordinates that their parameters are searched in."""

import numpy as np
import pytest
from families import MAPS, TemperatureMap, features_of, log_probabilities_of
from sklearn.exceptions import ConvergenceWarning

from skcalib import MatrixScaling
from skcalib._linear.loss import Objective
from skcalib._linear.maps import MatrixMap, VectorMap, _ClassBlocks, _pooled_moments
from skcalib._linear.solver import minimise
from skcalib.datasets import make_logits

K = 4
SEARCHED = [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()]


@pytest.fixture(params=[None, "weights"])
def rows(request, rng):
    Z, y = make_logits(300, K, offset=[0, 1, -1, 2], random_state=1)
    w = None if request.param is None else rng.uniform(0, 2, size=len(y))
    return log_probabilities_of(Z, y, w, 0.5)


def objective_of(map_, rows, alpha):
    return Objective(map_, rows, map_.identity(K), alpha / rows.rows.n_rows * map_.ridge(K))


def hessian_in(change, objective, theta):
    """The Hessian in coordinates, column by column."""
    return np.array(
        [
            change.transposed(objective.hessian_product(theta, change.forward(u)))
            for u in np.eye(len(theta))
        ]
    )


@pytest.mark.parametrize("map_", [TemperatureMap(), *SEARCHED], ids=repr)
def test_adjoint_is_the_adjoint_of_the_scores(map_, rng):
    Z, R = rng.normal(size=(2, 9, K))
    theta = rng.normal(size=len(map_.adjoint(R, Z)))
    np.testing.assert_allclose(np.vdot(R, map_.scores(theta, Z)), map_.adjoint(R, Z) @ theta)


@pytest.mark.parametrize("map_", [m() for m in MAPS if m is not TemperatureMap], ids=repr)
def test_identity_changes_nothing(map_, rng):
    Z = rng.normal(size=(9, K))
    np.testing.assert_array_equal(map_.scores(map_.identity(K), Z), Z)
    coef, intercept = map_.coefficients(map_.identity(K), K)
    assert np.array_equal(coef, np.eye(K)) or coef.tolist() == [1] * K
    assert intercept.tolist() == [0] * K


def test_each_map_holds_the_simpler_one(rng):
    """Vector scaling with tied slopes is temperature scaling, matrix with a diagonal is vector."""
    Z, R = rng.normal(size=(2, 9, K))
    slopes, offsets = rng.normal(size=(2, K))
    b, temperature, vector, matrix = 0.7, TemperatureMap(), VectorMap(), MatrixMap()
    tied, diagonal = np.append(np.full(K, b), np.zeros(K)), np.append(np.diag(slopes), offsets)
    np.testing.assert_allclose(vector.scores(tied, Z), temperature.scores([b], Z))
    np.testing.assert_allclose(vector.adjoint(R, Z)[:K].sum(), temperature.adjoint(R, Z)[0])
    both = np.append(slopes, offsets)
    np.testing.assert_allclose(matrix.scores(diagonal, Z), vector.scores(both, Z))
    A, c = matrix.coefficients(matrix.adjoint(R, Z), K)
    np.testing.assert_allclose(np.append(np.diag(A), c), vector.adjoint(R, Z))


@pytest.mark.parametrize("map_", SEARCHED, ids=repr)
@pytest.mark.parametrize("alpha", [0, 1])
def test_objective_falls_with_every_iteration(map_, rows, alpha):
    objective = objective_of(map_, rows, alpha)
    values = [objective.value_gradient(objective.centre)[0]]
    for max_iter in range(1, 8):
        found = minimise(
            objective,
            objective.centre,
            coordinates=lambda x: map_.coordinates(objective, x),
            tol=1e-12,
            max_iter=max_iter,
        )
        values.append(found.fun)
    assert np.all(np.diff(values) <= 0)
    assert values[3] < values[0]


@pytest.mark.parametrize("map_", SEARCHED, ids=repr)
@pytest.mark.parametrize("alpha", [0, 1])
def test_transposed_is_the_transpose_of_forward(map_, rows, alpha, rng):
    objective = objective_of(map_, rows, alpha)
    change = map_.coordinates(objective, objective.centre)
    u, g = rng.normal(size=(2, len(objective.centre)))
    np.testing.assert_allclose(change.forward(u) @ g, u @ change.transposed(g))
    np.testing.assert_allclose(change.forward(2 * u), 2 * change.forward(u))


@pytest.mark.parametrize("map_", SEARCHED[:2], ids=repr)
def test_classes_of_a_vector_map_have_unit_blocks(map_, rows, rng):
    objective = objective_of(map_, rows, 0)
    theta = objective.centre + rng.uniform(-0.3, 0.3, size=len(objective.centre))
    H = hessian_in(map_.coordinates(objective, theta), objective, theta)
    H = H.reshape(-1, K, len(theta) // K, K)
    for k in range(K):
        np.testing.assert_allclose(H[:, k, :, k], np.eye(len(theta) // K), atol=1e-4)


@pytest.mark.parametrize("alpha", [0, 1e-3, 1, 1e3])
def test_blocks_of_a_matrix_map_are_the_model_in_the_docstring(rows, alpha):
    """The roots undo exactly a Hessian with a covariance that all classes share."""
    objective = objective_of(MatrixMap(), rows, alpha)
    b, m, covariance = _pooled_moments(objective, objective.centre)
    ridge = np.broadcast_to(objective.ridge, K * K + K)
    blocks = _ClassBlocks.of(objective, objective.centre, ridge)
    slopes, offsets = MatrixMap().coefficients(2 * ridge, K)
    for k in range(K):
        mean = np.append(m[k], 1)
        second = np.outer(mean, mean)
        second[:K, :K] += covariance
        model = b[k] * second + np.diag(np.append(slopes[k], offsets[k]))
        columns = []
        for j in range(K + 1):
            U, d = np.zeros((K, K)), np.zeros(K)
            (U if j < K else d[None])[k if j < K else 0, j if j < K else k] = 1
            A, c = blocks.forward(U, d)
            columns.append(np.append(A[k], c[k]))
        L = np.array(columns).T
        np.testing.assert_allclose(L.T @ model @ L, np.eye(K + 1), atol=1e-4)


def test_pooled_moments_are_those_of_discriminant_analysis(rows):
    """Every row belongs to class k with weight p (1 - p)."""
    Z, _, w, shift = rows.rows.arrays
    P = np.exp(0.5 * Z - shift[:, None])
    F = 0.5 * Z - shift[:, None]
    Q = P * (1 - P) * (1 if w is None else w[:, None])
    b, m, covariance = _pooled_moments(objective_of(MatrixMap(), rows, 0), MatrixMap().identity(K))
    N = len(P) if w is None else w.sum()
    np.testing.assert_allclose(b, Q.sum(axis=0) / N)
    within = np.zeros((K, K))
    for k in range(K):
        np.testing.assert_allclose(m[k], np.average(F, axis=0, weights=Q[:, k]))
        within += (Q[:, k, None] * (F - m[k])).T @ (F - m[k])
    np.testing.assert_allclose(covariance, within / Q.sum())


def test_hessian_of_a_matrix_map_is_near_the_identity_in_its_coordinates(rows):
    map_ = MatrixMap()
    objective = objective_of(map_, rows, 0)
    change = map_.coordinates(objective, objective.centre)

    def condition(H):
        values = np.linalg.eigvalsh(H)
        moving = values[values > 1e-6 * values[-1]]
        assert len(moving) == len(values) - K - 1  # one row added to all rows changes nothing
        return moving[-1] / moving[0]

    plain = np.array([objective.hessian_product(objective.centre, v) for v in np.eye(K * K + K)])
    assert condition(plain) > 1000
    assert condition(hessian_in(change, objective, objective.centre)) < 40


@pytest.mark.parametrize("alpha", [0, 1])
def test_what_changes_no_probability_stays_where_the_ridge_is_least(rows, alpha):
    map_ = MatrixMap()
    objective = objective_of(map_, rows, alpha)
    found = minimise(
        objective, objective.centre, coordinates=lambda x: map_.coordinates(objective, x), tol=1e-9
    )
    assert found.success
    A, c = map_.coefficients(found.x - objective.centre, K)
    R, _ = map_.coefficients(map_.ridge(K), K)
    assert abs(c.sum()) < 1e-10
    np.testing.assert_allclose(((R if alpha else 1) * A).sum(axis=0), 0, atol=1e-9)


def test_few_rows_are_enough_for_the_coordinates_of_many():
    """They come from a sample, and the search needs no more gradients for it."""
    Z, y = make_logits(40_000, K, offset=[0, 1, -1, 2], random_state=1)
    rows = log_probabilities_of(Z, y, None, 0.5)
    objective = objective_of(MatrixMap(), rows, 1)
    b, _, _ = _pooled_moments(objective, objective.centre)
    few, _, _ = _pooled_moments(objective_of(MatrixMap(), rows.every(19), 1), objective.centre)
    assert np.array_equal(b, few)
    found = minimise(
        objective,
        objective.centre,
        coordinates=lambda x: MatrixMap().coordinates(objective, x),
        tol=1e-6,
    )
    assert found.success
    assert found.nit < 20


def test_weights_are_never_left_to_a_sample():
    """All of it may lie on rows that a sample leaves out."""
    Z, y = make_logits(40_000, K, random_state=1)
    w = (np.arange(len(y)) % 19 > 0).astype(float)
    heavy = features_of(Z[w > 0], y[w > 0], np.ones(int(w.sum())))
    for a, b in zip(
        _pooled_moments(
            objective_of(MatrixMap(), features_of(Z, y, w), 0), MatrixMap().identity(K)
        ),
        _pooled_moments(objective_of(MatrixMap(), heavy, 0), MatrixMap().identity(K)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b)


def test_new_coordinates_on_the_way_save_iterations(monkeypatch):
    """Far from the identity, where nearly no ridge lets the search go, those of the start fail."""
    Z, y = make_logits(1000, 40, random_state=1)
    counts = []
    for steps in (30, 10_000):
        monkeypatch.setattr("skcalib._linear.solver.ROUND", steps)
        counts.append(MatrixScaling(alpha=1e-4, max_iter=1000).fit(Z, y).n_iter_)
    assert counts[0] < 0.9 * counts[1]
    monkeypatch.setattr("skcalib._linear.solver.ROUND", 30)
    with pytest.warns(ConvergenceWarning, match="stopped after 40 iterations"):
        assert MatrixScaling(alpha=1e-4, max_iter=40).fit(Z, y).n_iter_ == 40

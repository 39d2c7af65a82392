"""Laws of the joint family: linear maps of logits, softmax, log loss."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from families import MAPS, TemperatureMap, features_of, log_probabilities_of
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, softmax

from skcalib import VectorScaling
from skcalib._optimize.loss import Objective, Regularization
from skcalib._optimize.maps import MatrixMap, VectorMap
from skcalib._optimize.minimize import lbfgs, newton
from skcalib._optimize.temperature import fit_inverse_temperature, scale_derivatives
from skcalib._rows.arrays import both_columns
from skcalib._rows.rows import MemoryRows, Plan
from skcalib.datasets import make_logits

K = 4


@pytest.fixture(params=[None, "weights"])
def rows(request):
    Z, y = make_logits(60, K, temperature=1.5, spread=1.0, random_state=3)
    w = None
    if request.param:
        w = np.random.default_rng(0).uniform(0, 2, size=60)
    return Z, y, w


@pytest.fixture(params=MAPS, ids=lambda m: m.__name__)
def model(request, rng):
    map_ = request.param()
    return map_, rng.normal(size=map_.prior(STRENGTHS, K)[0].shape)


def loss_gradient(theta, map_, features):
    """Without a ridge the objective is the loss."""
    return Objective(map_, features).value_gradient(theta)


def literal_loss(theta, map_, Z, y, w):
    logs = log_softmax(map_.scores(theta, Z), axis=1)[np.arange(len(y)), y]
    return -np.average(logs, weights=w)


def test_loss_is_the_literal_one(model, rows):
    map_, theta = model
    loss, _ = loss_gradient(theta, map_, features_of(*rows))
    np.testing.assert_allclose(loss, literal_loss(theta, map_, *rows))


@pytest.mark.parametrize("map_", [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()])
def test_hessian_is_the_slope_of_the_gradient(map_, rows, rng):
    theta = rng.normal(size=map_.prior(STRENGTHS, K)[0].shape)
    loss, gradient, hessian = Objective(map_, features_of(*rows)).second_order(theta)
    expected = loss_gradient(theta, map_, features_of(*rows))
    assert loss == pytest.approx(expected[0])
    np.testing.assert_allclose(gradient, expected[1], atol=1e-14)
    numeric = approx_fprime(theta, lambda t: loss_gradient(t, map_, features_of(*rows))[1], 1e-6)
    np.testing.assert_allclose(hessian, numeric, atol=1e-5)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
    assert np.linalg.eigvalsh(hessian).min() > -1e-12


def test_features_are_made_in_each_pass_or_stored(model, rows):
    map_, theta = model
    Z, y, w = rows
    stored = Objective(map_, log_probabilities_of(Z, y, w, 0.3))
    made = Objective(
        map_, MemoryRows(Z, y, w), make_features=lambda Z: log_softmax(0.3 * Z, axis=1)
    )
    for a, b in zip(*(o.value_gradient(theta) for o in (stored, made)), strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("width", [1, 3, 200])
def test_double_rows_are_worked_with_in_double_precision(width, rng):
    Z = rng.normal(size=(50, width)).astype(np.float32)
    rows = MemoryRows(Z, np.zeros(50, int), None)
    for double in (False, True):
        dtype = np.float64 if double else np.float32

        def block(F, y, w, S, dtype=dtype):
            assert F.dtype == dtype
            assert S is None or (S.dtype == dtype and S.shape == F.shape)
            return F.sum(axis=0, dtype=np.float64)

        made = Objective(VectorMap(), rows, make_features=log_features, double=double)
        mean = made.mean(block, Plan(scratch=1, dtype=dtype))
        exact = np.log(softmax(0.3 * both_columns(Z).astype(float), axis=1)).mean(axis=0)
        np.testing.assert_allclose(mean, exact, rtol=1e-5)


def log_features(Z):
    return log_softmax(0.3 * both_columns(Z), axis=1)


def solve(map_, rows, ridge=0.0, method=lbfgs, tol=1e-8, max_iter=100):
    """The minimum next to the identity, and the objective."""
    objective = Objective(map_(), features_of(*rows), Regularization(ridge, ridge, ridge))
    return method(objective, objective.identity, tol, max_iter), objective


@pytest.mark.parametrize("map_", MAPS, ids=lambda m: m.__name__)
def test_no_nudge_lowers_the_objective(map_, rows):
    ridge = 0.05
    found, objective = solve(map_, rows, ridge, tol=1e-9)

    def literal(theta):
        away = theta - objective.identity
        return literal_loss(theta, map_(), *rows) + ridge * np.sum(away**2)

    best = literal(found.x)
    for j in range(len(found.x)):
        for step in (1e-4, -1e-4):
            nudged = found.x.copy()
            nudged[j] += step
            assert literal(nudged) > best


@pytest.mark.parametrize("map_", [VectorMap, MatrixMap])
@pytest.mark.parametrize("method", [lbfgs, newton])
def test_where_the_loss_is_nearly_linear_steps_are_bounded(map_, method):
    """Rows so certain, some of them wrongly, that the Hessian vanishes and the gradient does not.

    A step of the quotient of the two would be many orders of magnitude too long.
    """
    y = np.arange(60) % 3
    Z = np.eye(3)[y]
    y[:12] = (y[:12] + 1) % 3
    losses = [solve(map_, (c * Z, y), method=method, tol=1e-6)[0] for c in (1, 25)]
    assert [found.success for found in losses] == [True, True]
    assert losses[1].fun == pytest.approx(losses[0].fun, rel=1e-4)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_hardly_any_row_of_most_classes():
    """The loss is nearly linear, with kinks: steps must not be cut to a tenth again and again."""
    rng = np.random.default_rng(1)
    Z, y = make_logits(3000, 60, temperature=2.0, random_state=1)
    y[rng.random(3000) < 0.999] = 0
    calibrator = VectorScaling(alpha=1.0, classes=range(60)).fit(Z, y)
    assert calibrator.n_iter_ <= 15


@dataclass
class Worse:
    """An objective that falls nowhere, whatever its gradient says."""

    double: bool = False
    rows = MemoryRows(np.zeros((1, 2)), np.zeros(1, int), None)
    map_, n_classes, few, dtype, separated = TemperatureMap(), 2, True, np.dtype(float), -np.inf
    ridge, identity = np.ones(2), np.zeros(2)

    def value_gradient(self, theta):
        return (1.0 if not theta.any() else 2.0), np.ones(2)

    def second_order(self, theta):
        return *self.value_gradient(theta), np.eye(2)


@pytest.mark.parametrize("method", [lbfgs, newton])
def test_a_search_that_only_gets_worse_keeps_its_start(method):
    found = method(Worse(), np.zeros(2), tol=1e-8, max_iter=100)
    assert (found.fun, found.success) == (1.0, False)
    assert found.x.tolist() == [0, 0]


def test_a_loss_below_that_of_one_wrong_row_ends_the_search(rng):
    """Without a ridge it could only go on for ever."""
    Z = rng.normal(size=(30, 3))
    y, w = Z.argmax(axis=1), rng.integers(0, 3, size=30).astype(float)
    for weights, lightest in ((None, 1), (w, 1), (0.1 * w, 0.1)):
        found, objective = solve(MatrixMap, (Z, y, weights), tol=1e-12, max_iter=1000)
        total = 30 if weights is None else weights.sum()
        assert objective.separated == pytest.approx(lightest * np.log(2) / total)
        assert 0 < found.fun < objective.separated
        assert not found.success
        assert found.nit < 50
    assert Objective(MatrixMap(), features_of(Z, y), Regularization(0.1)).separated == -np.inf


@pytest.mark.parametrize("tol", [1e-2, 1e-7])
def test_gradient_norm_is_in_double_precision(tol):
    """Where single precision is enough, and where it is not."""
    Z, y = make_logits(500, K, dtype=np.float32, random_state=0)
    found, objective = solve(MatrixMap, (Z, y), 0.05, tol=tol)
    fun, jac = replace(objective, double=True).value_gradient(found.x)
    assert found.success
    assert found.fun == pytest.approx(fun, rel=1e-14)
    np.testing.assert_allclose(found.jac, jac, rtol=1e-9, atol=1e-15)


# --------------------------------------------------------------------------------------
# One parameter.


def test_the_derivatives_are_those_of_the_loss(rows):
    Z, y, w = rows
    N = len(y) if w is None else w.sum()
    theta = np.array([0.7])
    slope, curvature, third = scale_derivatives(0.7, Z, y, w) / N
    gradient = loss_gradient(theta, TemperatureMap(), features_of(*rows))[1]
    np.testing.assert_allclose(slope, 0.7 * gradient[0])
    ahead, behind = (
        loss_gradient(theta + h, TemperatureMap(), features_of(*rows))[1] for h in (1e-5, -1e-5)
    )
    np.testing.assert_allclose(curvature, 0.7**2 * (ahead - behind)[0] / 2e-5, rtol=1e-7)
    ahead, behind = (scale_derivatives(b, Z, y, w)[1] / b**2 for b in (0.7 + 1e-5, 0.7 - 1e-5))
    np.testing.assert_allclose(third * N, 0.7**3 * (ahead - behind) / 2e-5, rtol=1e-6)


def test_scale_is_the_minimum_that_the_general_routine_finds(rows):
    scale = fit_inverse_temperature(MemoryRows(*rows))
    found = solve(TemperatureMap, rows, tol=1e-12)[0]
    assert scale.outcome == "minimum"
    np.testing.assert_allclose(scale.value, found.x[0], rtol=1e-8)


STRENGTHS = Regularization(diagonal=0.3, off_diagonal=0.2, intercept=0.1)


def test_each_kind_of_parameter_has_a_strength_of_its_own():
    A, c = MatrixMap().coefficients(MatrixMap().prior(STRENGTHS, K)[1], K)
    assert np.array_equal(A, np.where(np.eye(K), 0.3, 0.2))
    assert c.tolist() == [0.1] * K
    assert VectorMap().prior(STRENGTHS, K)[1].tolist() == [0.3] * K + [0.1] * K
    assert VectorMap(fit_intercept=False).prior(STRENGTHS, K)[1].tolist() == [0.3] * K


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
def test_the_objective_has_one_gradient_and_its_hessian_the_ridge(map_, rows, rng):
    objective = Objective(map_, features_of(*rows), STRENGTHS)
    theta, v = rng.normal(size=(2, len(objective.identity)))
    value, gradient, hessian = objective.second_order(theta)
    expected = objective.value_gradient(theta)
    assert value == pytest.approx(expected[0])
    np.testing.assert_allclose(gradient, expected[1])
    ahead, behind = (objective.value_gradient(theta + h * v)[1] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(hessian @ v, (ahead - behind) / 2e-5, rtol=1e-5, atol=1e-7)

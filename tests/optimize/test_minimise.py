"""Laws of the joint family: linear maps of logits, softmax, log loss."""

from types import SimpleNamespace

import numpy as np
import pytest
from families import features_of
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax, softmax

from skcalib import VectorScaling
from skcalib._optimize.linear import Objective
from skcalib._optimize.maps import MatrixMap, Regularization, VectorMap
from skcalib._optimize.minimize import PreconditionedLBFGS
from skcalib._optimize.temperature import scale_derivatives
from skcalib.datasets import make_logits

K = 4


@pytest.fixture(params=[None, "weights"])
def rows(request):
    Z, y = make_logits(60, K, temperature=1.5, spread=1.0, random_state=3)
    w = None
    if request.param:
        w = np.random.default_rng(0).uniform(0, 2, size=60)
    return Z, y, w


def literal(map_, theta, Z, y, w, ridge=0.0, identity=0.0):
    logs = log_softmax(map_.scores(theta, Z), axis=1)[np.arange(len(y)), y]
    return -np.average(logs, weights=w) + np.sum(ridge * (theta - identity) ** 2)


@pytest.mark.parametrize("map_", [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()])
def test_derivatives_match_the_literal_objective(map_, rows, rng):
    strengths = Regularization(diagonal=0.3, off_diagonal=0.2, intercept=0.1)
    objective = Objective(map_, features_of(*rows), strengths)
    identity, ridge = map_.prior(strengths, K)
    theta = rng.normal(size=identity.shape)
    value, gradient, hessian = objective.second_order(theta)
    assert value == pytest.approx(literal(map_, theta, *rows, ridge, identity))
    assert objective.value_gradient(theta)[0] == pytest.approx(value)
    np.testing.assert_allclose(objective.value_gradient(theta)[1], gradient, atol=1e-14)
    numeric = approx_fprime(theta, lambda t: literal(map_, t, *rows, ridge, identity), 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    numeric = approx_fprime(theta, lambda t: objective.value_gradient(t)[1], 1e-6)
    np.testing.assert_allclose(hessian, numeric, atol=1e-5)


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()])
def test_steps_are_bounded_if_the_loss_is_nearly_linear(map_):
    """Rows so certain, some of them wrongly, that the Hessian vanishes and the gradient does not.

    A step of the quotient of the two would be many orders of magnitude too long.
    """
    y = np.arange(60) % 3
    Z = np.eye(3)[y]
    y[:12] = (y[:12] + 1) % 3
    losses = [Objective(map_, features_of(c * Z, y)).minimize(1e-6, 100) for c in (1, 25)]
    assert [found.success for found in losses] == [True, True]
    assert losses[1].fun == pytest.approx(losses[0].fun, rel=1e-4)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_few_rows_of_most_classes_converge_fast():
    """The loss is nearly linear, with kinks: steps must not be cut to a tenth again and again."""
    rng = np.random.default_rng(1)
    Z, y = make_logits(3000, 60, temperature=2.0, random_state=1)
    y[rng.random(3000) < 0.999] = 0
    calibrator = VectorScaling(alpha=1.0, classes=range(60)).fit(Z, y)
    assert calibrator.n_iter_ <= 15


def test_a_search_that_only_gets_worse_keeps_its_start():
    """The gradient promises a descent that the function does not have."""
    method = PreconditionedLBFGS(lambda _: SimpleNamespace(solve=np.asarray))
    found = minimize(
        lambda x: (2.0 if x.any() else 1.0, np.ones(2)), np.zeros(2), jac=True, method=method
    )
    assert (found.fun, found.success) == (1.0, False)
    assert found.x.tolist() == [0, 0]


def test_search_ends_if_all_rows_are_right(rng):
    """Without a ridge it could only go on for ever."""
    Z = rng.normal(size=(30, 3))
    y, w = Z.argmax(axis=1), rng.integers(0, 3, size=30).astype(float)
    for weights, lightest in ((None, 1), (w, 1), (0.1 * w, 0.1)):
        objective = Objective(MatrixMap(), features_of(Z, y, weights))
        found = objective.minimize(1e-12, 1000)
        total = 30 if weights is None else weights.sum()
        assert objective.separated == pytest.approx(lightest * np.log(2) / total)
        assert 0 < found.fun < objective.separated
        assert not found.success
        assert found.nit < 50
    assert Objective(MatrixMap(), features_of(Z, y), Regularization(0.1)).separated == -np.inf


# --------------------------------------------------------------------------------------
# One parameter.


def test_the_derivatives_match_the_loss(rows):
    """Derivatives with respect to the logarithm of the scale, times the total weight."""
    Z, y, w = rows

    def slope(b):
        P = softmax(b * Z, axis=1)
        return np.average(((P - np.eye(K)[y]) * Z).sum(axis=1), weights=w)

    found = scale_derivatives(0.7, Z, y, w) / (len(y) if w is None else w.sum())
    second = (slope(0.7 + 1e-4) - slope(0.7 - 1e-4)) / 2e-4
    third = (slope(0.7 + 1e-3) - 2 * slope(0.7) + slope(0.7 - 1e-3)) / 1e-6
    wanted = [0.7 * slope(0.7), 0.7**2 * second, 0.7**3 * third]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)

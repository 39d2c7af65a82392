"""Laws of the joint family: linear maps of logits, softmax, log loss."""

import numpy as np
import pytest
from families import rows_of
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from skcalib import VectorScaling
from skcalib._optimize.linear import LinearLoss, loss_gradient
from skcalib._optimize.maps import MatrixMap, Regularization, VectorMap
from skcalib._optimize.minimize import preconditioned_lbfgs
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


MAPS = [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()]


@pytest.mark.parametrize("map_", MAPS, ids=repr)
def test_derivatives_match_the_literal_objective(map_, rows, rng):
    Z, y, w = rows
    theta = rng.normal(size=len(map_.identity(K)))
    weight = len(y) if w is None else w.sum()
    loss, *gradient = loss_gradient(theta, Z, y, w, map_) / weight
    assert loss == pytest.approx(literal(map_, theta, *rows))
    numeric = approx_fprime(theta, lambda t: literal(map_, t, *rows), 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    strengths = Regularization(diagonal=0.3, off_diagonal=0.2, intercept=0.1)
    identity, ridge = map_.identity(K), map_.ridge(strengths, K)
    value, gradient = LinearLoss(map_, rows_of(*rows), strengths).value_gradient(theta)
    assert value == pytest.approx(literal(map_, theta, *rows, ridge, identity))
    numeric = approx_fprime(theta, lambda t: literal(map_, t, *rows, ridge, identity), 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


@pytest.mark.parametrize("map_", MAPS, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_blocks_are_inverses_of_the_blocks_of_the_hessian(map_, n_classes, rng):
    """Features are the same for all rows, so that the common covariance is exact."""
    f, q = rng.normal(size=n_classes), rng.uniform(0.1, 0.2, size=n_classes)
    strengths = Regularization(diagonal=0.3, off_diagonal=0.2, intercept=0.1)
    blocks = map_.blocks(map_.moments(f[None], q[None]), strengths)
    ridge = 2 * map_.ridge(strengths, n_classes)
    leverages = blocks.leverages(f[None])[0]
    caution = 1 if isinstance(map_, MatrixMap) else 1.1
    for k in range(n_classes):
        x = np.append(f, 1) if isinstance(map_, MatrixMap) else np.array([f[k], 1])
        own = [*(n_classes * k + np.arange(n_classes)), n_classes**2 + k]
        if isinstance(map_, VectorMap):
            x, own = (x, [k, n_classes + k]) if map_.fit_intercept else (x[:1], [k])
        hessian = q[k] * np.outer(x, x) + np.diag(ridge[own])
        wanted = caution * x @ np.linalg.solve(hessian, x)
        assert leverages[k] == pytest.approx(wanted, rel=1e-4)
    # A gradient without a common part is solved block by block, up to a common part.
    gradient = np.zeros(len(ridge))
    gradient[[0, 1]] = [1, -1] if isinstance(map_, VectorMap) else [1, 0]
    if isinstance(map_, MatrixMap):
        gradient[n_classes] = -1
    step = blocks.solve(gradient)
    assert step @ gradient > 0
    scores = map_.scores(step, rng.normal(size=(3, n_classes)))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()])
def test_steps_are_bounded_if_the_loss_is_nearly_linear(map_):
    """Rows so certain, some of them wrongly, that the Hessian vanishes and the gradient does not.

    A step of the quotient of the two would be many orders of magnitude too long.
    """
    y = np.arange(60) % 3
    Z = np.eye(3)[y]
    y[:12] = (y[:12] + 1) % 3
    losses = [LinearLoss(map_, rows_of(c * Z, y)).minimize(1e-6, 100) for c in (1, 25)]
    assert [found.success for found in losses] == [True, True]
    assert losses[1].fun == pytest.approx(losses[0].fun, rel=1e-4)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_few_rows_of_most_classes_converge_fast():
    """The loss is nearly linear, with kinks: steps must not be cut to a tenth again and again."""
    rng = np.random.default_rng(1)
    Z, y = make_logits(3000, 60, temperature=2.0, random_state=1)
    y[rng.random(3000) < 0.999] = 0
    calibrator = VectorScaling(alpha=1.0, classes=range(60)).fit(Z, y)
    assert calibrator.n_iter_ <= 15


def test_a_search_that_only_gets_worse_keeps_its_start():
    """The gradient promises a descent that the function does not have."""
    found = minimize(
        lambda x: (2.0 if x.any() else 1.0, np.ones(2)),
        np.zeros(2),
        jac=True,
        method=preconditioned_lbfgs,
        options={"preconditioner": lambda _: np.asarray},
    )
    assert (found.fun, found.success) == (1.0, False)
    assert found.x.tolist() == [0, 0]


@pytest.mark.parametrize("weight", [None, 1, 0.1])
def test_search_ends_if_all_rows_are_right(weight, rng):
    """Without a ridge it could only go on for ever."""
    Z = rng.normal(size=(30, 3))
    y, w = Z.argmax(axis=1), rng.integers(0, 3, size=30).astype(float)
    loss = LinearLoss(MatrixMap(), rows_of(Z, y, None if weight is None else weight * w))
    found = loss.minimize(1e-12, 1000)
    assert loss.has_no_errors(found.x)
    assert 0 < found.fun < np.log(2) / (30 if weight is None else w.sum())
    assert not found.success
    assert found.nit < 50

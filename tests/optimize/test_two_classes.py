"""Linear maps of two classes: the minimum, masked classes, and limits of the search."""

from dataclasses import replace

import numpy as np
import pytest
from families import features_of, log_probabilities_of
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from skcalib import MatrixScaling, VectorScaling
from skcalib._optimize.linear import LinearLoss
from skcalib._optimize.maps import MASKED_FEATURE, MatrixMap, Regularization, VectorMap
from skcalib.datasets import make_logits

MAPS = [VectorMap(), VectorMap(fit_intercept=False), MatrixMap()]
RIDGES = [Regularization(), Regularization(0.01, 0.03, 0.02), Regularization(0, 0.3, 0.1)]


@pytest.fixture(params=["two columns", "log-odds", "raw log-odds", "weights"])
def features(request, rng):
    Z, y = make_logits(300, 2, temperature=2.0, offset=[0, 1], random_state=0)
    if "odds" in request.param:
        Z = Z[:, 1:] - Z[:, :1]
    w = rng.uniform(0, 2, size=len(y)) if request.param == "weights" else None
    return (features_of if "raw" in request.param else log_probabilities_of)(Z, y, w, 0.5)


def oracle(objective, tol=1e-10):
    """The minimum by a method of SciPy."""
    return minimize(
        objective.value_gradient, objective.identity, jac=True, method="BFGS", options={"gtol": tol}
    )


@pytest.mark.parametrize("map_", MAPS, ids=repr)
@pytest.mark.parametrize("ridge", RIDGES, ids=["none", "all", "part"])
def test_the_minimum_is_the_one_that_scipy_finds(map_, ridge, features):
    objective = LinearLoss(map_, features, ridge)
    found = objective.minimize(1e-10, 200)
    assert found.success
    value, jac = objective.value_gradient(found.x)
    assert np.linalg.norm(jac) <= 1e-10
    np.testing.assert_allclose(found.jac, jac, atol=1e-13)
    assert found.fun == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found.x, oracle(objective).x, atol=1e-6)


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
def test_rows_with_a_masked_class_are_certain(map_):
    features = log_probabilities_of(*make_logits(300, 2, offset=[0, 1], random_state=0), None, 0.5)
    masked = np.arange(len(features.X)) % 3 == 0
    F = features.X.copy()
    F[masked, 0] = MASKED_FEATURE
    # Slopes of reversed labels are negative, and would take the masked class for certain.
    y = np.where(masked, 1, 1 - features.y)
    rows = features.replace(X=F, y=y)
    found = LinearLoss(replace(map_, masked=True), rows, RIDGES[1]).minimize(1e-10, 200)
    # The masked rows add nothing to the sum of the losses.
    share = 1 - masked.mean()
    alone = LinearLoss(map_, rows.take(~masked), Regularization(*(r / share for r in RIDGES[1])))
    np.testing.assert_allclose(found.x, alone.minimize(1e-10, 200).x, atol=1e-8)


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()], ids=repr)
def test_the_search_ends_by_its_limits(map_, features):
    objective = LinearLoss(map_, features, RIDGES[1])
    found = objective.minimize(1e-10, 1)
    assert found.nit == 1
    assert not found.success
    assert objective.minimize(1e-10, 200).success


def test_separable_rows_without_a_ridge_end_the_search():
    """Only an offset separates the rows."""
    Z, y = np.concatenate([np.linspace(1, 2, 20), np.linspace(3, 4, 20)]), np.repeat([0, 1], 20)
    for kind in (VectorScaling, MatrixScaling):
        with pytest.warns(ConvergenceWarning, match="every row correctly"):
            found = kind(alpha=0, normalize=False).fit(Z[:, None], y)
        assert found.n_iter_ < 30
        assert found.loss_ < np.log(2) / len(y)

"""The optimisers themselves: their equations, and how many passes they need."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from skcalib import PlattScaling, QuadraticScaling, SplineCalibration
from skcalib._optimize.minimize import PreconditionedLBFGS
from skcalib._optimize.newton import newton, parts_of
from skcalib.datasets import make_logits


def problem(K, n=500):
    return make_logits(n, K, temperature=2.0, offset=np.arange(K) / K, random_state=0)


def plain(_):
    """No preconditioner."""
    return SimpleNamespace(solve=lambda gradient: 1.0 * gradient)


@pytest.mark.parametrize("p", [2, 5, 20])
def test_lbfgs_is_a_method_of_scipy_for_any_function(p):
    x0 = np.full(p, -0.5)
    method, options = PreconditionedLBFGS(plain), {"gtol": 1e-8, "maxiter": 1000}
    solution = minimize(rosen, x0, jac=rosen_der, method=method, options=options)
    assert solution.success
    np.testing.assert_allclose(solution.x, 1, atol=1e-6)
    assert solution.nit <= 3 * minimize(rosen, x0, jac=rosen_der, method="L-BFGS-B").nit
    assert not minimize(rosen, x0, jac=rosen_der, method=method, options={"maxiter": 3}).success


def test_newtons_method_is_one_of_scipy():
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


@pytest.mark.parametrize(
    "form", [PlattScaling(), QuadraticScaling(), SplineCalibration(alpha=1.0)], ids=repr
)
def test_sigmoids_found_by_another_method_of_scipy_are_the_same(form, monkeypatch):
    """With the loss, which Newton's method does without."""
    Z, y = problem(3)
    expected = form.fit(Z, y).predict_proba(Z)

    def bfgs(fun, x0, jac, hess, **_):
        found = minimize(fun, x0, jac=jac, method="BFGS", tol=1e-7)
        # Rounding may end the search above the tolerance.
        found.success, found.hess = True, hess(found.x)
        return found

    monkeypatch.setattr("skcalib._optimize.logistic.newton", bfgs)
    np.testing.assert_allclose(form.fit(Z, y).predict_proba(Z), expected, atol=1e-3)

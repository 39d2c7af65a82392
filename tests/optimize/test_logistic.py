"""One-vs-rest logistic regression on several features per class."""

import numpy as np
from scipy.optimize import minimize

from skcalib._optimize.newton import newton, parts_of


def test_it_is_a_method_of_scipy():
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

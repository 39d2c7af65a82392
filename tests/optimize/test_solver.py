"""The optimisers themselves: their equations, and how many passes they need."""

from types import SimpleNamespace

import numpy as np
import pytest
from families import features_of
from scipy.optimize import minimize, rosen, rosen_der

from skcalib._optimize import minimize as solver, temperature
from skcalib._optimize.loss import Objective, Regularization
from skcalib._optimize.maps import MatrixMap
from skcalib._optimize.minimize import PreconditionedLBFGS
from skcalib._rows.rows import MemoryRows
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


@pytest.mark.parametrize(("n", "most"), [(200, 6), (64 * 1000, 2)])
def test_passes_of_the_temperature_are_few(n, most, monkeypatch):
    """From a sample of many rows, two steps of Halley's method on all of them at most."""
    passes, derivatives = set(), temperature.scale_derivatives

    def counted(b, Z, *args):
        if len(Z) > n // 64:  # more than the sample has
            passes.add(b)
        return derivatives(b, Z, *args)

    monkeypatch.setattr(temperature, "scale_derivatives", counted)
    Z, y = problem(5, n)
    temperature.fit_inverse_temperature(MemoryRows(Z, y, None))
    assert 1 <= len(passes) <= most


def test_slow_problems_with_a_small_hessian_are_left_to_newtons_method(monkeypatch):
    used = []
    for name in ("lbfgs", "newton"):
        method = getattr(solver, name)
        monkeypatch.setattr(
            solver, name, lambda *a, f=method, name=name: used.append((name, a[3])) or f(*a)
        )
    monkeypatch.setattr(solver, "PATIENCE", 2)
    objective = Objective(MatrixMap(), features_of(*problem(4)), Regularization())
    found = solver.best_parameters(objective, 1e-9, 50)
    assert found.success
    # L-BFGS for two iterations, then Newton's method from there with what is left of the 50.
    assert used == [("lbfgs", 2), ("newton", 48)]

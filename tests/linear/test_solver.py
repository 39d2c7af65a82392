"""The optimisers themselves: their equations, and how many passes they need."""

import numpy as np
import pytest
from families import features_of, log_probabilities_of

from skcalib import MatrixScaling, VectorScaling
from skcalib._engine.memory import MemoryRows
from skcalib._linear import solver, temperature
from skcalib._linear.loss import Objective, Regularization
from skcalib._linear.maps import MatrixMap, VectorMap
from skcalib._linear.solver import Solution, _line_search, _QuasiNewton
from skcalib.datasets import make_logits


def problem(K, n=500):
    return make_logits(n, K, temperature=2.0, offset=np.arange(K) / K, random_state=0)


@pytest.mark.parametrize("map_", [VectorMap(), MatrixMap()])
def test_approximate_inverse_hessian_obeys_the_secant_equation(map_, rng):
    """The inverse Hessian of L-BFGS maps the last change of the gradient to the last step."""
    objective = Objective(map_, log_probabilities_of(*problem(4), None, 0.5))
    direction = _QuasiNewton(objective)
    for n_steps in range(6):
        x = objective.identity + 0.1 * rng.normal(size=objective.identity.shape)
        direction(Solution(x, *objective.value_gradient(x)))
        assert len(direction.pairs) == n_steps
        if n_steps:
            s, y, sy = direction.pairs[-1]
            assert sy == pytest.approx(s @ y)
            np.testing.assert_allclose(direction._two_loops(y), s, rtol=1e-9, atol=1e-12)


def test_without_steps_the_direction_is_the_preconditioned_gradient():
    objective = Objective(VectorMap(), log_probabilities_of(*problem(4), None, 0.5))
    x = objective.identity
    found = Solution(x, *objective.value_gradient(x))
    expected = -VectorMap().preconditioner(objective, x)(found.jac)
    np.testing.assert_allclose(_QuasiNewton(objective)(found), expected)


def parabola(x):
    return Solution(x, float(x @ x), 2 * x)


def test_line_search_accepts_the_whole_step_where_it_lowers_the_objective():
    ahead = _line_search(parabola, parabola(np.array([1.0])), np.array([-1.0]), "d")
    assert ahead.x == 0


def test_line_search_finds_the_minimum_of_a_parabola_behind_a_step_that_is_too_long():
    ahead = _line_search(parabola, parabola(np.array([1.0])), np.array([-3.0]), "d")
    assert ahead.x == pytest.approx(0, abs=0.5)
    assert ahead.fun < 0.3


def test_no_share_of_a_step_uphill_is_accepted():
    assert _line_search(parabola, parabola(np.array([1.0])), np.array([1.0]), "d") is None


def test_a_step_that_only_rounding_raises_is_judged_by_its_gradient():
    """The objective seems to rise by less than its rounding error, and the gradient shrinks."""
    start = Solution(np.array([1.0]), 1.0, np.array([1e-7]))
    for rise, length, accepted in ((1e-14, 1e-9, True), (1e-6, 1e-9, False), (1e-14, 1e-7, False)):
        ahead = Solution(np.array([0.0]), 1.0 + rise, np.array([length]))
        found = _line_search(lambda _, ahead=ahead: ahead, start, np.array([-1.0]), "d")
        assert (found is not None) == accepted


@pytest.mark.parametrize(("kind", "K", "most"), [
    (VectorScaling, 3, 8), (VectorScaling, 30, 10), (MatrixScaling, 3, 12), (MatrixScaling, 30, 16),
])  # fmt: skip
def test_iterations_are_few(kind, K, most):
    assert kind().fit(*problem(K, 2000)).n_iter_ <= most


@pytest.mark.parametrize(("n", "most"), [(200, 8), (64 * 1000, 3)])
def test_passes_of_the_temperature_are_few(n, most, monkeypatch):
    """From a sample of many rows, three Newton steps on all of them at most."""
    passes, summed = [], temperature._summed_slope

    def counted(b, rows):
        passes.append(rows.n_rows)
        return summed(b, rows)

    monkeypatch.setattr(temperature, "_summed_slope", counted)
    Z, y = problem(5, n)
    temperature.fit_scale(MemoryRows(Z, y, None))
    assert 1 <= passes.count(n) <= most


def test_slow_problems_with_a_small_hessian_are_left_to_newtons_method(monkeypatch):
    used = []
    for name in ("lbfgs", "newton"):
        method = getattr(solver, name)
        monkeypatch.setattr(
            solver, name, lambda *a, f=method, name=name: used.append((name, *a[3:])) or f(*a)
        )
    monkeypatch.setattr(solver, "PATIENCE", 2)
    objective = Objective(MatrixMap(), features_of(*problem(4)), Regularization())
    found = solver.best_parameters(objective, 1e-9, 50)
    assert found.success
    # L-BFGS for two iterations, then Newton's method from there with what is left of the 50.
    assert used == [("lbfgs", 2, 0), ("newton", 50, 2)]

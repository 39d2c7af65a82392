"""OrderPreservingScaling: its optimum, its order, its limits, and recovered functions."""

import numpy as np
import pytest
from families import mixed_log_probabilities
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skcalib import OrderPreservingScaling, TemperatureScaling
from skcalib.datasets import make_logits

LEAST = 0.05


def truncated(n=600, K=4, lowest=0.05, seed=0):
    """Log-probabilities of a classifier that rounds small ones up to a number, with labels."""
    Z, y = make_logits(n, K, random_state=seed)
    return np.log(np.maximum(softmax(Z, axis=1), lowest)), y


def literal(b, knots, L):
    """The function from the slope at each point: integrated from the first knot."""
    values = np.concatenate([[0], np.cumsum(np.diff(knots) * b[1:-1])])
    S = np.interp(L, knots, values)
    S += b[0] * np.minimum(L - knots[0], 0)
    return S + b[-1] * np.maximum(L - knots[-1], 0)


def objective(b, knots, L, y, w, alpha):
    """The objective as the docstring has it."""
    logs = log_softmax(literal(b, knots, L), axis=1)[np.arange(len(y)), y]
    N = len(y) if w is None else w.sum()
    return -np.average(logs, weights=w) + 2 * alpha / N * np.sum((b - 1) ** 2)


# --------------------------------------------------------------------------------------
# The optimum.


@pytest.mark.parametrize("alpha", [1.0, 0.01, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_are_the_minimum_of_the_literal_objective(rng, alpha, weighted):
    Z, y = truncated()
    w = rng.uniform(0, 2, size=len(y)) if weighted else None
    c = OrderPreservingScaling(n_knots=4, alpha=alpha).fit(Z, y, w)
    args = c.knots_, mixed_log_probabilities(c, Z), y, w, c.alpha_
    bounds = {"method": "L-BFGS-B", "bounds": [(LEAST, None)] * 5}
    oracle = minimize(objective, np.ones(5), args, tol=1e-15, options={"ftol": 0}, **bounds)
    assert objective(c.slopes_, *args) <= oracle.fun + 1e-13
    np.testing.assert_allclose(c.slopes_, oracle.x, atol=2e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")  # SciPy 1.12
def test_a_slope_at_its_bound_is_the_bound():
    """Scores in the opposite order of the probabilities get nearly the same value."""
    Z, y = make_logits(4000, 5, random_state=0)
    L = log_softmax(Z, axis=1)
    reversed_ = np.where((L > -5) & (L < -2), -7 - L, L)
    c = OrderPreservingScaling(alpha=0.01).fit(reversed_, y)
    assert c.slopes_.min() == LEAST
    args = c.knots_, mixed_log_probabilities(c, reversed_), y, None, 0.01
    oracle = minimize(objective, np.ones(7), args, method="SLSQP", bounds=[(LEAST, None)] * 7)
    assert objective(c.slopes_, *args) <= oracle.fun + 1e-9


def test_probabilities_are_the_literal_formula():
    Z, y = truncated()
    c = OrderPreservingScaling().fit(Z, y)
    expected = softmax(literal(c.slopes_, c.knots_, mixed_log_probabilities(c, Z)), axis=1)
    np.testing.assert_allclose(c.predict_proba(Z), expected)
    assert c.smoothing_ == 1 / (len(y) + 1)
    assert c.alpha_ == 1


# --------------------------------------------------------------------------------------
# The function.


@pytest.mark.parametrize("K", [2, 10])
def test_bent_logits_get_nearly_the_true_log_loss(K):
    Z, y = make_logits(20_000, K, temperature=1.0, random_state=0)
    L = log_softmax(Z, axis=1)
    bent = np.where(L < -2, -2 + 0.3 * (L + 2), L)
    fitted, test = slice(0, 10_000), slice(10_000, None)
    losses = [
        log_loss(y[test], c.fit(bent[fitted], y[fitted]).predict_proba(bent[test]))
        for c in (TemperatureScaling(), OrderPreservingScaling())
    ]
    true = log_loss(y[test], softmax(Z[test], axis=1))
    assert losses[1] < losses[0] - 0.003
    assert losses[1] < true + 0.2 * (losses[0] - true)


def test_beyond_the_knots_it_goes_on_with_the_last_slopes():
    c = OrderPreservingScaling(smoothing=0).fit(*truncated())
    c.temperature_, c.smoothing_ = 1.0, 0.0
    c.knots_, c.slopes_ = np.array([-2.0, -1.0]), np.array([3.0, 1.0, 0.5])
    L = log_softmax([[-9.0, -8.0, -0.5, -0.1]], axis=1)
    steps = np.diff(c.transform(L))[0]
    np.testing.assert_allclose(steps[[0, 2]], [3.0 * 1.0, 0.5 * 0.4])


# --------------------------------------------------------------------------------------
# Knots, and the limits.


@pytest.mark.parametrize("low", [-1e4, -1e30, -np.inf])
@pytest.mark.parametrize("smoothing", ["auto", 0])
def test_masked_and_impossible_classes_set_no_knot(low, smoothing):
    Z, y = make_logits(1000, 4, random_state=0)
    wide = np.column_stack([Z, np.full(1000, low)])
    c, other = (
        OrderPreservingScaling(smoothing=smoothing, classes=range(X.shape[1])).fit(X, y)
        for X in (Z, wide)
    )
    # The mixture gives an impossible class a probability of its own.
    atol = 0.2 if smoothing and np.isfinite(low) else 0.01
    np.testing.assert_allclose(other.knots_, c.knots_, atol=atol)


def test_separable_rows_without_regularization_keep_temperature_scaling():
    Z, _ = make_logits(300, 3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="separable"):
        c = OrderPreservingScaling(alpha=0).fit(Z, Z.argmax(axis=1))
    assert (c.slopes_ == 1).all()


def test_a_weight_moves_knots_as_equal_rows_do():
    L, y = truncated()
    w = np.arange(len(y)) % 4
    weighted = OrderPreservingScaling().fit(L, y, w)
    repeated = OrderPreservingScaling().fit(np.repeat(L, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted.knots_, repeated.knots_, rtol=1e-9)

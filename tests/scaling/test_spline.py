"""SplineCalibration: a natural cubic spline, its optimum, its strength, and recovered curves."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit, softmax

from skcalib import PlattScaling, SplineCalibration, TemperatureScaling
from skcalib.datasets import make_logits


def bent(n=800, seed=0):
    """Log-odds that are over-confident far from zero, of shape (n, 1), with labels."""
    Z, y = make_logits(n, 2, temperature=1.0, random_state=seed)
    return bend(Z[:, 1:] - Z[:, :1]), y


def bend(d):
    """An increasing, odd function that is steeper far from zero."""
    return d + d * np.abs(d) / 2


def log_odds(c, Z):
    """The log-odds that the splines are applied to: (n, 1) or (n, K)."""
    Z = np.hstack([np.zeros_like(Z), Z]) if Z.shape[1] == 1 else Z
    K = Z.shape[1]
    q = (1 - c.smoothing_) * softmax(Z / c.temperature_, axis=1) + c.smoothing_ / K
    x = np.log(q) - np.log1p(-q)
    return x[:, 1:] if K == 2 else x


def literal(knots, values, x):
    """The natural cubic spline of SciPy, with lines beyond the outer knots."""
    s = CubicSpline(knots, values, bc_type="natural")
    low, high = knots[[0, -1]]
    beyond = np.minimum(x - low, 0) * s(low, 1) + np.maximum(x - high, 0) * s(high, 1)
    return s(np.clip(x, low, high)) + beyond


def objective(values, knots, x, event, w, alpha):
    """The objective as the docstring has it."""
    w = np.ones(len(x)) if w is None else w
    N = w.sum()
    share = 0.2 / (N + 1)
    target = (1 - share) * event + share / 2
    S = literal(knots, values, x)
    second = CubicSpline(knots, values, bc_type="natural").derivative(2)
    rough = quad(lambda t: second(t) ** 2, knots[0], knots[-1], points=knots[1:-1])[0]
    loss = -w @ (target * log_expit(S) + (1 - target) * log_expit(-S)) / N
    return loss + 2 * alpha / N * (knots[-1] - knots[0]) * rough


# --------------------------------------------------------------------------------------
# The optimum.


@pytest.mark.parametrize(
    ("alpha", "weighted"),
    [(0.01, True), *(pytest.param(a, a > 0, marks=pytest.mark.slow) for a in (1.0, 0.0))],
)
def test_values_are_the_minimum_of_the_literal_objective(rng, alpha, weighted):
    Z, y = bent(400)
    w = rng.uniform(0, 2, size=len(y)) if weighted else None
    c = SplineCalibration(n_knots=4, alpha=alpha).fit(Z, y, w)
    args = c.knots_[0], log_odds(c, Z)[:, 0], y == 1, w, c.alpha_
    start = c.knots_[0]
    oracle = minimize(objective, start, args, method="BFGS", options={"gtol": 1e-8})
    assert objective(c.values_[0], *args) <= oracle.fun + 1e-12
    np.testing.assert_allclose(c.values_[0], oracle.x, atol=2e-4)


def test_each_of_several_classes_has_a_spline_of_its_own():
    Z, y = make_logits(500, 3, random_state=0)
    Z *= [1, 2, 0.5]
    c = SplineCalibration(n_knots=4, alpha=0.3).fit(Z, y)
    x, S = log_odds(c, Z), []
    for k in range(3):
        args = c.knots_[k], x[:, k], y == k, None, 0.3
        oracle = minimize(objective, c.values_[k], args, method="BFGS", options={"gtol": 1e-8})
        assert objective(c.values_[k], *args) <= oracle.fun + 1e-12
        S.append(literal(c.knots_[k], c.values_[k], x[:, k]))
    P = expit(np.column_stack(S))
    P = (1 - c.smoothing_) * P / P.sum(axis=1, keepdims=True) + c.smoothing_ / 3
    np.testing.assert_allclose(c.predict_proba(Z), P, rtol=1e-9)
    assert c.temperature_ == TemperatureScaling().fit(Z, y).temperature_
    assert c.smoothing_ == 1 / 501


def test_one_knot_is_refused():
    with pytest.raises(ValueError, match="n_knots"):
        SplineCalibration(n_knots=1).fit(*bent(50))


def test_strong_penalties_give_platt_scaling_of_the_mixture():
    Z, y = bent()
    c = SplineCalibration(alpha=1e9).fit(Z, y)
    x = log_odds(c, Z)
    lines = SplineCalibration(n_knots=2, alpha=0).fit(Z, y)
    np.testing.assert_allclose(c.predict_proba(Z), lines.predict_proba(Z), atol=1e-7)
    platt = PlattScaling(smooth_targets=False).fit(x, y)  # targets differ by 0.1 / N
    slope = np.diff(lines.values_[0]) / np.diff(lines.knots_[0])
    np.testing.assert_allclose(slope, platt.coef_, rtol=2e-2)


def test_knots_are_equally_spaced_where_the_information_is():
    Z, y = bent(5000)
    c = SplineCalibration().fit(Z, y)
    x = np.sort(log_odds(c, Z)[:, 0])
    shares = np.cumsum(expit(x) * expit(-x))
    low, high = np.interp([0.02, 0.98], shares / shares[-1], x)
    np.testing.assert_allclose(c.knots_[0], np.linspace(low, high, 10), atol=0.02)


# --------------------------------------------------------------------------------------
# The strength.


@pytest.mark.slow
def test_leave_one_out_losses_are_near_those_of_refits():
    """The estimated optimism is within a quarter of refits with their own knots and temperature."""
    Z, y = bent(150)
    c = SplineCalibration(n_knots=5, alpha="loo").fit(Z / 5, y)
    for k in (2, 5):
        params = {"n_knots": 5, "alpha": c.alphas_[k]}
        whole = SplineCalibration(**params).fit(Z / 5, y)
        fitted = -whole.predict_log_proba(Z / 5)[np.arange(150), y].mean()
        refitted = 0.0
        for i in range(150):
            kept = np.arange(150) != i
            without = SplineCalibration(**params).fit(Z[kept] / 5, y[kept])
            refitted -= without.predict_log_proba(Z[i : i + 1] / 5)[0, y[i]] / 150
        assert c.loo_losses_[k] - fitted == pytest.approx(refitted - fitted, rel=0.25)


def test_the_strength_is_the_most_probable_one():
    Z, y = bent()
    c = SplineCalibration().fit(Z, y)
    assert c.alphas_.tolist() == [30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003]
    score = len(y) * c.loo_losses_ + np.log(c.alphas_) ** 2 / (2 * np.log(3) ** 2)
    assert c.alpha_ == c.alphas_[score.argmin()]
    again = SplineCalibration(alpha=c.alpha_).fit(Z, y)
    np.testing.assert_allclose(again.values_, c.values_, atol=1e-5)
    assert again.alphas_.size == again.loo_losses_.size == 0


# --------------------------------------------------------------------------------------
# Increasing splines.


def wavy(n=3000, seed=0):
    """Log-odds and labels with a frequency that falls in the middle of the range."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, size=(n, 1))
    return x, (rng.uniform(size=n) < expit(x[:, 0] / 2 + 2 * np.sin(2 * x[:, 0]))).astype(int)


@pytest.mark.slow
def test_increasing_splines_are_the_best_of_their_kind():
    Z, y = wavy(500)
    c = SplineCalibration(n_knots=5, alpha=0.01, increasing=True).fit(Z, y)
    free = SplineCalibration(n_knots=5, alpha=0.01).fit(Z, y)
    knots = np.linspace(0, 1, 5)
    basis = [CubicSpline(knots, values, bc_type="natural") for values in np.eye(5)]
    # Coefficients of the slope in quadratic B-splines, which are positive and sum to 1.
    to_slopes = np.stack([s(knots[:-1], 1) + s(knots[:-1], 2) / 8 for s in basis], axis=1)
    assert (to_slopes @ free.values_[0]).min() < -0.1
    assert (to_slopes @ c.values_[0]).min() > -1e-9
    args = c.knots_[0], log_odds(c, Z)[:, 0], y == 1, None, 0.01
    whole = np.linalg.inv(np.vstack([to_slopes, np.eye(5)[0]]))
    bounds, options = [(0, None)] * 4 + [(None, None)], {"ftol": 0, "gtol": 1e-9}

    def of_slopes(beta):
        return objective(whole @ beta, *args)

    oracle = minimize(of_slopes, [1, 1, 1, 1, 0], method="L-BFGS-B", bounds=bounds, options=options)
    assert objective(c.values_[0], *args) <= oracle.fun + 1e-10


def test_only_increasing_splines_must_increase():
    Z, y = wavy()
    grid = np.linspace(-10, 10, 2001)[:, None]
    free, bound = (
        SplineCalibration(n_knots=10, increasing=bound).fit(Z, y).transform(grid)[:, 0]
        for bound in (False, True)
    )
    assert np.diff(free).min() < -1e-3
    assert np.diff(bound).min() > -1e-12


# --------------------------------------------------------------------------------------
# Recovered curves, and data without a solution.


def test_masked_classes_do_not_count_for_their_spline(rng):
    w = rng.uniform(0.5, 2, size=600)
    Z, y = make_logits(600, 3, random_state=0)
    masked = (np.arange(600) % 3 == 0) & (y != 0)
    Z[masked, 0] = -np.inf
    c = SplineCalibration().fit(Z, y, w)
    K = np.isfinite(Z).sum(axis=1, keepdims=True)
    q = (1 - c.smoothing_) * softmax(Z / c.temperature_, axis=1) + c.smoothing_ / K
    x = logit(q[~masked, 0])
    P, share = expit(literal(c.knots_[0], c.values_[0], x)), 0.2 / (w.sum() + 1)
    targets = (1 - share) * (y[~masked] == 0) + share / 2
    assert w[~masked] @ (P - targets) == pytest.approx(0, abs=1e-4)
    assert c.knots_[0, 0] >= x.min()


@pytest.mark.parametrize("params", [{}, {"n_knots": 2}, {"alpha": 0}, {"increasing": True}])
@pytest.mark.parametrize("alone", [False, True])
def test_a_class_without_log_odds_keeps_them_as_they_are(rng, params, alone):
    """The class is masked in all rows, or is the only unmasked class of its rows."""
    Z, y = make_logits(300, 4, temperature=1.5, random_state=0)
    Z, y = Z[y < 3], y[y < 3]
    Z[:, 3] = -np.inf
    if alone:
        Z[0], y[0] = [-np.inf] * 3 + [0], 3
    c = SplineCalibration(classes=range(4), **params).fit(Z, y)
    np.testing.assert_allclose(c.values_[3], c.knots_[3], atol=1e-12)
    assert np.isfinite(c.predict_proba(rng.normal(size=(10, 4)))).all()


def test_separable_rows_have_an_optimum():
    Z = make_logits(200, 2, random_state=0)[0]
    Z = Z[:, 1:] - Z[:, :1]
    for alpha in ("loo", 0.0):
        c = SplineCalibration(alpha=alpha).fit(Z, (Z[:, 0] > 0).astype(int))  # else it warns
        P = c.predict_proba(Z)[:, 1]
        assert (P[Z[:, 0] > 1] > 0.95).all()
        assert (P[Z[:, 0] < -1] < 0.05).all()
        assert P.min() >= c.smoothing_ / 2

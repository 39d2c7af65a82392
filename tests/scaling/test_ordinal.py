"""OrdinalCalibration: its formula, its optimum, its symmetry, and the data it is made for."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn.metrics import log_loss

from skcalib import OrdinalCalibration, TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json


def ordered(n=400, K=6, shift=0.7, seed=0):
    """Over-confident forecasts of ordered classes that are too low, with labels."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(0, K - 1, size=n)
    y = np.clip(np.round(mean + shift + rng.standard_t(4, size=n)), 0, K - 1).astype(int)
    return -1.5 * (np.arange(K) - mean[:, None]) ** 2, y


def literal(parameters, Z):
    """Probabilities by the formula of the docstring."""
    T, a, b = parameters
    F = np.minimum(np.cumsum(softmax(Z / T, axis=1), axis=1)[:, :-1], 1)
    Q = expit(a * logit(F) + b)
    edges = np.ones((len(Z), 1))
    return np.diff(np.hstack([0 * edges, Q, edges]), axis=1)


def parameters_of(c):
    return c.temperature_, c.slope_, c.intercept_


def test_probabilities_follow_the_formula():
    Z, y = ordered()
    c = OrdinalCalibration(smoothing=0).fit(Z, y)
    np.testing.assert_allclose(c.predict_proba(Z), literal(parameters_of(c), Z), atol=1e-12)
    mixed = OrdinalCalibration(smoothing=0.1).fit(Z, y)
    P = 0.9 * literal(parameters_of(mixed), Z) + 0.1 / 6
    np.testing.assert_allclose(mixed.predict_proba(Z), P, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.05])
@pytest.mark.parametrize("weighted", [False, True])
def test_parameters_minimize_the_literal_objective(rng, smoothing, weighted):
    Z, y = ordered(200)
    w = rng.uniform(0.5, 2, size=200) if weighted else np.ones(200)
    c = OrdinalCalibration(alpha=2.0, smoothing=smoothing).fit(Z, y, w)
    T0 = TemperatureScaling(smoothing=smoothing).fit(Z, y, w).temperature_

    def objective(x):
        P = literal((np.exp(x[0]), np.exp(x[1]), x[2]), Z)[np.arange(200), y]
        loss = -np.average(np.log((1 - smoothing) * P + smoothing / 6), weights=w)
        return loss + 2.0 / w.sum() * np.sum((x - [np.log(T0), 0, 0]) ** 2)

    x = np.array([np.log(c.temperature_), np.log(c.slope_), c.intercept_])
    oracle = minimize(objective, x + 0.1, method="Nelder-Mead", options={"xatol": 1e-8})
    assert objective(x) <= oracle.fun + 1e-9
    np.testing.assert_allclose(x, oracle.x, atol=1e-3)


def test_reversed_order_has_the_same_probabilities():
    Z, y = ordered()
    c, reverse = OrdinalCalibration().fit(Z, y), OrdinalCalibration().fit(Z[:, ::-1], 5 - y)
    np.testing.assert_allclose(reverse.intercept_, -c.intercept_, rtol=1e-4)
    np.testing.assert_allclose(
        reverse.predict_proba(Z[:, ::-1])[:, ::-1], c.predict_proba(Z), atol=1e-5
    )


def test_shifted_forecasts_are_repaired_where_a_temperature_cannot():
    Z, y = ordered(3000)
    halves = (Z[:1500], y[:1500]), (Z[1500:], y[1500:])
    losses = [
        log_loss(halves[1][1], kind().fit(*halves[0]).predict_proba(halves[1][0]))
        for kind in (OrdinalCalibration, TemperatureScaling)
    ]
    assert losses[0] < losses[1] - 0.1


def test_scaled_logits_have_the_same_probabilities():
    Z, y = ordered()
    one, other = OrdinalCalibration().fit(Z, y), OrdinalCalibration().fit(1000 * Z, y)
    np.testing.assert_allclose(other.temperature_, 1000 * one.temperature_, rtol=1e-4)
    np.testing.assert_allclose(other.predict_proba(1000 * Z), one.predict_proba(Z), atol=1e-5)


def test_small_probabilities_are_accurate():
    """Differences of cumulative probabilities would be zero here."""
    Z, y = ordered()
    c = OrdinalCalibration(smoothing=0).fit(Z, y)
    c.temperature_, c.slope_, c.intercept_ = 1.0, 2.0, 0.0
    P = c.predict_proba([[0.0, -50.0, -60.0, -70.0, -80.0, -90.0]])[0]
    # Far above the median, 1 - Q_k is the square of the sum of the probabilities above.
    tails = np.exp([-50.0, -60.0, -70.0, -80.0, -90.0])
    above = np.cumsum(tails[::-1])[::-1] ** 2
    np.testing.assert_allclose(P[1:], above - np.append(above[1:], 0), rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.05])
def test_masked_classes_have_probability_zero_and_no_share_of_the_uniform_distribution(smoothing):
    """Classes are masked at both ends and in the middle, in rows with other labels."""
    Z, y = ordered(300)
    for k in (0, 3, 5):
        Z[(np.arange(300) % 6 == k) & (y != k), k] = -np.inf
    c = OrdinalCalibration(smoothing=smoothing).fit(Z, y)
    possible = np.isfinite(Z)
    uniform = possible / possible.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):  # F is 0 or 1 next to masked classes
        P = (1 - smoothing) * literal(parameters_of(c), Z) + smoothing * uniform
    np.testing.assert_allclose(c.predict_proba(Z), P, atol=1e-8)
    assert not c.predict_proba(Z)[~possible].any()


def test_files_older_than_the_parameter_order_predict_the_same():
    Z, y = make_logits(100, 4, random_state=0)
    calibrator = OrdinalCalibration().fit(Z, y)
    text = json.loads(to_json(calibrator))
    del text["calibrator"]["fitted"]["column_order_"]
    older = from_json(json.dumps(text))
    np.testing.assert_array_equal(older.predict_proba(Z), calibrator.predict_proba(Z))

"""EnsembleTemperatureScaling: its weights, its mixture, its order, rows without a temperature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import EnsembleTemperatureScaling
from skcalib.datasets import make_logits

LOSSES = ["log_loss", "brier"]
both = pytest.mark.parametrize("loss", LOSSES)


def noisy(n=1500, K=4, seed=0, **params):
    """Over-confident logits, and labels with a share of random ones."""
    Z, y = make_logits(n, K, temperature=2.0, random_state=seed, **params)
    random = np.random.default_rng(seed)
    return Z, np.where(random.random(n) < 0.1, random.integers(0, K, size=n), y)


def members(Z, T):
    """The three probabilities (3, n, K) of the mixture."""
    masked = np.isneginf(Z)
    uniform = np.where(masked, 0, 1) / (~masked).sum(axis=1, keepdims=True)
    return np.stack([softmax(Z / T, axis=1), softmax(Z, axis=1), uniform])


def score(weights, P, y, w, loss):
    mixed = np.tensordot(weights, P, 1)
    if loss == "log_loss":
        return -np.average(np.log(mixed[np.arange(len(y)), y]), weights=w)
    squares = (mixed - np.eye(mixed.shape[1])[y]) ** 2
    return np.average(squares.sum(axis=1), weights=w)


@both
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_weights_match_a_constrained_solver(loss, weighted, masked, rng):
    Z, y = noisy()
    w = rng.uniform(0, 3, size=len(y)) if weighted else None
    if masked:
        Z[(y != 3) & (np.arange(len(y)) % 2 == 0), 3] = -np.inf
    c = EnsembleTemperatureScaling(loss=loss, smoothing=0.0).fit(Z, y, w)
    P = members(Z, c.temperature_)
    simplex = {"type": "eq", "fun": lambda x: x.sum() - 1}
    oracle = minimize(
        score, np.full(3, 1 / 3), (P, y, w, loss), method="SLSQP", bounds=[(0, 1)] * 3,
        constraints=simplex, options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert score(c.weights_, P, y, w, loss) <= oracle.fun + 1e-10
    assert_allclose(c.weights_, oracle.x, atol=3e-5)
    assert_allclose(c.predict_proba(Z), np.tensordot(c.weights_, P, 1), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("smoothing", "share"), [("auto", 1 / 1501), (0.2, 0.2), (0.0, 0.0)])
def test_smoothing_goes_from_the_first_two_weights_to_the_third(smoothing, share):
    Z, y = noisy()
    plain = EnsembleTemperatureScaling(smoothing=0.0).fit(Z, y).weights_
    c = EnsembleTemperatureScaling(smoothing=smoothing).fit(Z, y)
    assert c.smoothing_ == pytest.approx(share)
    assert_allclose(c.weights_, (1 - share) * plain + share * np.eye(3)[2], rtol=1e-12)
    assert c.predict_proba(1e4 * Z).min() >= share / 4 * (1 - 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_probabilities_are_exact_far_below_one(dtype):
    """Without a uniform member, where probabilities round to zero."""
    c = EnsembleTemperatureScaling(smoothing=0.0).fit(*noisy())
    c.weights_ = np.array([0.75, 0.25, 0.0])
    Z = np.array([[0.0, -3000, -1e6, -20]], dtype)
    wanted = np.log(0.75) + Z / c.temperature_
    logs = c.predict_log_proba(Z)
    assert logs.dtype == dtype
    assert_allclose(logs[:, 1:3], wanted[:, 1:3], rtol=1e-6)
    z = np.array([[1e-9], [-800.0], [1e5]], dtype)
    one = EnsembleTemperatureScaling(smoothing=0.0).fit(*noisy(K=2))
    one.n_features_in_, one.weights_ = 1, np.array([0.5, 0.5, 0.0])
    slope = (1 / one.temperature_ + 1) / 2
    odds = one.transform(z)[:, 0]
    assert odds[0] == pytest.approx(1e-9 * slope, rel=1e-3, abs=1e-15)
    assert odds[1] == pytest.approx(-800 / max(one.temperature_, 1) + np.log(0.5), rel=1e-5)


@pytest.mark.parametrize("weights", [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0, 0.5], [0, 0.5, 0.5]])
@pytest.mark.parametrize("n_columns", [1, 4])
def test_members_without_weight_are_left_out(weights, n_columns):
    Z, y = noisy(K=max(n_columns, 2))
    X = Z[:, 1:] - Z[:, :1] if n_columns == 1 else Z
    c = EnsembleTemperatureScaling().fit(X, y)
    c.weights_ = np.array(weights, float)
    wanted = np.tensordot(weights, members(Z, c.temperature_), 1)
    assert_allclose(c.predict_proba(X), wanted, rtol=1e-9)


@both
@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.parametrize("smoothing", [0.0, "auto"])
def test_rows_without_a_best_temperature(loss, smoothing):
    """Separable, no better than chance, and constant logits."""
    Z = np.random.default_rng(0).normal(size=(60, 3))
    cases = {
        "separable": (Z, Z.argmax(axis=1)),
        "chance": (Z, Z.argmin(axis=1)),
        "equal": (0 * Z, np.arange(60) % 3),
    }
    for message, (X, y) in cases.items():
        with pytest.warns(ConvergenceWarning, match=message):
            c = EnsembleTemperatureScaling(loss=loss, smoothing=smoothing).fit(X, y)
        assert np.isfinite(c.predict_proba(X)).all()
        assert c.weights_.sum() == pytest.approx(1)
        if message == "chance":  # nothing is better than the uniform distribution
            assert_allclose(c.predict_proba(X), 1 / 3, atol=1e-5)

"""QuadraticScaling and BetaCalibration: their optimum by other means, and rows that have none."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcalib import BetaCalibration, PlattScaling, QuadraticScaling, TemperatureScaling
from skcalib.datasets import make_logits

BOTH = [QuadraticScaling, BetaCalibration]
every = pytest.mark.parametrize("kind", BOTH)
PLAIN = {"alpha": 0, "smoothing": 0}


def literal_odds(Z, temperature=1.0, smoothing=0.0):
    """Log-odds of each class, or of the second of two, of a mixture, by the definition."""
    P = softmax(Z / temperature, axis=1)
    Q = (1 - smoothing) * P + smoothing / Z.shape[1]
    return logit(Q if Z.shape[1] > 2 else Q[:, 1:])


def literal_quadratic(c, Z):
    x = literal_odds(Z, c.temperature_, c.smoothing_)
    return c.intercept_ + c.coef_ * x + c.quadratic_ * x**2


def literal_beta(c, Z):
    x = c.temperature_ * literal_odds(Z, c.temperature_, c.smoothing_)
    return c.intercept_ + c.a_ * log_expit(x) - c.b_ * log_expit(-x) + (c.a_ - c.b_) * np.log(2)


LITERAL = {QuadraticScaling: literal_quadratic, BetaCalibration: literal_beta}


def where_informative(x, w):
    """Mean of log-odds by their information, and standard deviation, within bounds."""
    information = w * expit(x) * expit(-x)
    centre = np.average(x, weights=information)
    spread = np.sqrt(np.average((x - centre) ** 2, weights=information))
    return centre, min(1, max(0.1, spread))


def natural(c):
    """Parameters (K, 3) that determine the maps."""
    if isinstance(c, QuadraticScaling):
        change = c.quadratic_ * 2 * np.log(2 / c.smoothing_ - 1)
        return np.stack([c.intercept_, c.coef_, change], axis=1)
    a, b = c.temperature_ * c.a_, c.temperature_ * c.b_
    return np.stack([c.intercept_, (a + b) / 2, b - a], axis=1)


def objective(c, theta, k, Z, y, w):
    """Summed log loss of the map of class k, and minus the log-density of the priors."""
    T = c.temperature_
    x = literal_odds(Z, T, c.smoothing_)[:, k]
    deviations = theta - [0, 1, 0]
    if isinstance(c, QuadraticScaling):
        quadratic = theta[2] / (2 * np.log(2 / c.smoothing_ - 1))
        s = theta[0] + theta[1] * x + quadratic * x**2
        m, d = where_informative(x, w)
        at_centre = theta[0] + theta[1] * m + quadratic * m**2
        slope = theta[1] + 2 * quadratic * m
        deviations = np.array([at_centre - m, d * (slope - 1), d**2 * theta[2]])
    else:
        a, b = (theta[1] - theta[2] / 2) / T, (theta[1] + theta[2] / 2) / T
        p = expit(T * x)
        s = theta[0] + a * np.log(2 * p) - b * np.log(2 * (1 - p))
    event = y == (k if Z.shape[1] > 2 else 1)
    loss = -(w @ (event * log_expit(s) + ~event * log_expit(-s)))
    return loss + c.alpha_ / 2 * np.sum(deviations**2)


@every
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_parameters_are_the_minimum_of_the_literal_objective(kind, n_classes, alpha, rng):
    offset = np.eye(n_classes)[0]
    Z, y = make_logits(400, n_classes, temperature=1.7, offset=offset, random_state=0)
    w = rng.uniform(0, 3, size=len(y))
    c = kind(alpha=alpha).fit(Z, y, w)
    assert c.smoothing_ == pytest.approx(1 / (w.sum() + 1))
    assert c.alpha_ == alpha
    assert c.temperature_ == TemperatureScaling().fit(Z, y, w).temperature_
    for k, theta in enumerate(natural(c)):
        value = partial(objective, c, k=k, Z=Z, y=y, w=w)
        oracle = minimize(value, [0, 1, 0], method="BFGS", tol=1e-9)
        assert value(theta) <= oracle.fun + 1e-8
        np.testing.assert_allclose(theta, oracle.x, atol=1e-4)


@every
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_the_literal_formula(kind, n_classes):
    Z, y = make_logits(500, n_classes, temperature=0.6, random_state=0)
    c = kind().fit(Z, y)
    S = LITERAL[kind](c, Z)
    P = expit(S if n_classes > 2 else np.c_[-S, S])
    P /= P.sum(axis=1, keepdims=True)
    mixed = (1 - c.smoothing_) * P + c.smoothing_ / n_classes
    np.testing.assert_allclose(c.predict_proba(Z), mixed, rtol=1e-9)
    assert c.predict_proba(1e6 * Z).min() >= c.smoothing_ / n_classes * (1 - 1e-9)


@every
def test_plain_forms_are_logistic_regressions(kind):
    """The peers betacal and probmetrics fit the same form and stop earlier."""
    Z, y = make_logits(2000, 2, temperature=2.0, offset=[0, 1], random_state=0)
    c = kind(**PLAIN).fit(Z, y)
    x = Z[:, 1] - Z[:, 0]
    quadratic = kind is QuadraticScaling
    F = np.c_[x, x**2] if quadratic else np.c_[log_expit(x), -log_expit(-x)]
    peer = LogisticRegression(C=1e12, solver="newton-cholesky", tol=1e-12).fit(F, y)
    np.testing.assert_allclose(c.predict_proba(Z), peer.predict_proba(F), atol=1e-8)
    if quadratic:
        T = c.temperature_
        found = [c.coef_ / T, c.quadratic_ / T**2]
    else:
        found = [c.a_, c.b_]
    np.testing.assert_allclose(np.ravel(found), peer.coef_[0], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum. on these rows")
@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_beta_calibration_match_a_bounded_search(seed):
    """With both coefficients negative, or one that would be if the other is zero."""
    rng = np.random.default_rng(seed)
    Z, y = make_logits(40, 4, temperature=3.0, random_state=seed)
    y = np.where(rng.uniform(size=40) < 0.9, rng.integers(4, size=40), y)
    c = BetaCalibration(alpha=0.01, classes=range(4)).fit(Z, y)
    slopes = c.temperature_ * np.stack([c.a_, c.b_], axis=1)
    assert (slopes >= 0).all()
    for k in range(4):
        value = partial(objective, c, k=k, Z=Z, y=y, w=np.ones(40))

        def of_slopes(u, value=value):
            return value(np.array([u[0], (u[1] + u[2]) / 2, u[2] - u[1]]))

        bounds = [(None, None), (0, None), (0, None)]
        oracle = minimize(of_slopes, [0, 1, 1], bounds=bounds, tol=1e-12)
        assert of_slopes(np.array([c.intercept_[k], *slopes[k]])) <= oracle.fun + 1e-6


@every
def test_scores_without_an_origin_are_brought_to_the_base_rate(kind):
    """Slope and offset are fitted although no temperature improves the log loss."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, size=(2000, 1))
    y = (rng.uniform(size=2000) < expit(x[:, 0] - 8)).astype(int)
    with pytest.warns(ConvergenceWarning, match="no better than chance"):
        c = kind().fit(x, y)
    with np.errstate(all="raise"):
        assert np.abs(c.predict_proba(x)[:, 1] - expit(x[:, 0] - 8)).mean() < 0.03


def test_beyond_the_calibration_rows_a_parabola_goes_on_as_its_tangents():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 2, size=2000)
    y = (rng.uniform(size=2000) < expit(x - 0.4 * x**2)).astype(int)
    c = QuadraticScaling(**PLAIN).fit(x[:, None], y)
    T = c.temperature_
    np.testing.assert_allclose(c.limits_ * T, [[x.min()], [x.max()]])
    far = c.transform(np.array([[2.0], [10.0], [100.0], [1e5]]))[:, 0]
    top = c.limits_[1, 0]
    slope = (c.coef_ + 2 * c.quadratic_ * top)[0]
    at_top = (c.intercept_ + c.coef_ * top + c.quadratic_ * top**2)[0]
    beyond = np.array([10.0, 100.0, 1e3 * T]) / T - top
    np.testing.assert_allclose(far[1:], at_top + slope * beyond, rtol=1e-9)


@every
def test_separable_rows_have_an_optimum_unless_it_is_plain(kind):
    Z = np.array([[0.0, 3], [0, 2], [2, 0], [3, 0]])
    y = [1, 1, 0, 0]
    c = kind().fit(Z, y)  # else it warns
    assert c.predict_proba(Z)[:, 1] == pytest.approx([0.8, 0.8, 0.2, 0.2], abs=0.15)
    with pytest.warns(ConvergenceWarning, match="separates .*alpha=1.0"):
        plain = kind(alpha=0).fit(Z, y)
    assert np.isfinite(natural(plain)).all()
    Z, y = make_logits(400, 3, random_state=0)
    Z[:, 2] = np.where(y == 2, 50.0, -50.0)
    with pytest.warns(ConvergenceWarning, match="in column 2 of X"):
        kind(alpha=0).fit(Z, y)


@every
def test_rows_in_which_a_class_is_masked_do_not_count_for_it(kind):
    Z, y = make_logits(600, 3, temperature=0.7, random_state=0)
    half = np.arange(600) < 300
    masked = np.where((half & (y != 2))[:, None] & [False, False, True], -np.inf, Z)
    c = kind(**PLAIN).fit(masked, y)
    counts = np.isfinite(masked[:, 2])
    x = literal_odds(masked[counts], c.temperature_)[:, 2]
    if kind is QuadraticScaling:
        F, found = np.c_[x, x**2], (c.coef_, c.quadratic_)
    else:
        odds = c.temperature_ * x
        F, found = np.c_[log_expit(odds), -log_expit(-odds)], (c.a_, c.b_)
    peer = LogisticRegression(C=1e12, solver="newton-cholesky", tol=1e-12)
    peer.fit(F, y[counts] == 2)
    np.testing.assert_allclose([f[2] for f in found], peer.coef_[0], rtol=1e-5)
    assert (c.predict_proba(masked)[~counts, 2] == 0).all()


@pytest.mark.filterwarnings("ignore:The log loss has no minimum. on these rows")
@pytest.mark.parametrize("centre", [-4.0, 0.0, 3.0])
def test_small_range_of_log_odds_is_not_over_regularized(centre):
    """With nearly equal confidences, where a line is right, the curved map is as good as a line."""
    rng = np.random.default_rng(0)
    x = centre + 0.2 * rng.normal(size=6000)
    y = (rng.uniform(size=len(x)) < expit(8 * (x - centre) - 1)).astype(int)
    X, X_test, y, y_test = x[:1000, None], x[1000:, None], y[:1000], y[1000:]
    fitted = [kind().fit(X, y).predict_proba(X_test) for kind in (QuadraticScaling, PlattScaling)]
    losses = [log_loss(y_test, P) for P in fitted]
    assert losses[0] < losses[1] + 0.002

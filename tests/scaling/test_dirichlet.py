"""DirichletCalibration: its objective and strengths; two classes, and many with few rows."""

import numpy as np
import pytest
from families import log_prior, mixed, mixed_log_probabilities
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skcalib import DirichletCalibration, MatrixScaling, TemperatureScaling
from skcalib.datasets import make_logits

K = 3


@pytest.fixture(params=[None, "weights"])
def problem(request, rng):
    Z, y = make_logits(300, K, offset=[0, 1, -1], temperature=2.0, random_state=1)
    Z[:, 1] += 0.5 * Z[:, 2]
    return Z, y, None if request.param is None else rng.uniform(0, 2, size=300)


def literal(theta, F, y, w, alpha, alpha_intercept, diagonal):
    """The objective as the docstring has it, on features F."""
    k = F.shape[1]
    W, b = theta[: k * k].reshape(k, k), theta[k * k :]
    logs = log_softmax(F @ W.T + b, axis=1)[np.arange(len(y)), y]
    odir = alpha / (k * (k - 1)) * np.sum(W[~np.eye(k, dtype=bool)] ** 2)
    odir += alpha_intercept / k * np.sum(b**2)
    return -np.average(logs, weights=w) + odir + diagonal * np.sum((np.diag(W) - 1) ** 2)


def total(y, w):
    return len(y) if w is None else w.sum()


def parameters(c):
    return np.concatenate([c.coef_.ravel(), c.intercept_])


@pytest.mark.parametrize(("alpha", "alpha_intercept"), [(0.01, 0.1), (30.0, 30.0)])
def test_parameters_are_the_minimum_of_the_literal_objective(problem, alpha, alpha_intercept):
    Z, y, w = problem
    c = DirichletCalibration(alpha=alpha, alpha_intercept=alpha_intercept, tol=1e-9).fit(Z, y, w)
    args = mixed_log_probabilities(c, Z), y, w, alpha, alpha_intercept, K / (10 * total(y, w))
    start = np.append(np.eye(K).ravel(), np.zeros(K))
    oracle = minimize(literal, start, args, method="BFGS", tol=1e-9)
    assert_allclose(parameters(c), oracle.x, atol=1e-4)
    assert literal(parameters(c), *args) <= oracle.fun + 1e-12
    assert (c.alpha_, c.alpha_intercept_) == pytest.approx((alpha, alpha_intercept))
    assert c.alphas_.shape == (0, 2)
    fitted = softmax(args[0] @ c.coef_.T + c.intercept_, axis=1)
    assert_allclose(c.predict_proba(Z), mixed(fitted, c), rtol=1e-9)
    assert c.loss_ == pytest.approx(log_loss(y, fitted, sample_weight=w))


@pytest.mark.slow
def test_published_form_at_temperature_one(problem):
    """Without smoothing and with a temperature of one, the published form is fitted.

    Only the penalty on the diagonal differs, and its effect on the optimum is negligible.
    """
    Z, y, w = problem
    Z = Z / TemperatureScaling().fit(Z, y, w).temperature_
    c = DirichletCalibration(alpha=0.3, alpha_intercept=0.3, smoothing=0, tol=1e-10).fit(Z, y, w)
    assert c.temperature_ == pytest.approx(1)
    L = log_softmax(Z, axis=1)
    args = L, y, w, 0.3, 0.3
    start = np.append(np.eye(K).ravel(), np.zeros(K))
    free = minimize(literal, start, (*args, 0.0), method="BFGS", tol=1e-9)
    assert literal(parameters(c), *args, 0.0) == pytest.approx(free.fun, abs=2e-4)
    ours = minimize(literal, start, (*args, K / (10 * total(y, w))), method="BFGS", tol=1e-9)
    predicted = softmax(L @ ours.x[: K * K].reshape(K, K).T + ours.x[K * K :], axis=1)
    assert_allclose(c.predict_proba(Z), predicted, atol=1e-6)


def test_without_strengths_it_is_the_plain_form_of_matrix_scaling():
    Z, y = make_logits(300, 4, offset=[1, 0, 0, 0], random_state=0)
    plain = DirichletCalibration(alpha=0, alpha_intercept=0, smoothing=0, tol=1e-8).fit(Z, y)
    matrix = MatrixScaling(alpha=0, smoothing=0, tol=1e-8).fit(Z, y)
    assert (plain.alpha_, plain.alpha_intercept_) == (0, 0)
    assert_allclose(plain.predict_proba(Z), matrix.predict_proba(Z), rtol=1e-5)
    assert_allclose(plain.coef_, matrix.coef_, atol=1e-6)


@pytest.mark.parametrize("columns", [1, 2])
def test_two_classes_are_beta_calibration(columns):
    """A slope for log p, one for log(1 - p), and an intercept: the best without penalty."""
    random = np.random.default_rng(0)
    p = random.beta(0.6, 0.8, size=4000)
    y = (random.random(4000) < expit(0.7 * np.log(p) - 1.6 * np.log1p(-p) - 0.4)).astype(int)
    X = logit(p)[:, None]
    X = X if columns == 1 else np.column_stack([0 * X, X])
    c = DirichletCalibration(alpha_intercept=1e-9, smoothing=0, tol=1e-9).fit(X, y)
    l0, l1 = log_softmax(np.column_stack([0 * p, logit(p)]) / c.temperature_, axis=1).T

    def loss(t):
        return np.logaddexp(0, (1 - 2 * y) * (t[0] * l1 - t[1] * l0 + t[2])).mean()

    beta = minimize(loss, [1, 1, 0], tol=1e-12)
    found = c.coef_[1, 1] - c.coef_[0, 1], c.coef_[0, 0] - c.coef_[1, 0], np.diff(c.intercept_)[0]
    assert_allclose(found, beta.x, atol=0.01)
    wanted = expit(beta.x[0] * l1 - beta.x[1] * l0 + beta.x[2])
    assert_allclose(c.predict_proba(X)[:, 1], wanted, atol=1e-3)
    # One entry of each column is redundant: the penalty keeps it small.
    assert np.abs(c.coef_[~np.eye(2, dtype=bool)]).max() < 0.1


@pytest.mark.parametrize(
    "params", [{}, {"alpha_intercept": "loo"}, {"alpha": 2.0, "alpha_intercept": "loo"}]
)
def test_strengths_are_the_most_probable_pair(problem, params):
    Z, y, w = problem
    c = DirichletCalibration(tol=1e-8, **params).fit(Z, y, w)
    N = total(y, w)
    rule = K**2 * (K - 1) ** 2 / N, K**2 / N
    of_rule = int("alpha" in params)
    tried = c.alphas_[:, of_rule] / rule[of_rule]
    assert np.isin(tried.round(12), [10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003]).all()
    best = (N * c.loo_losses_ - log_prior(tried)).argmin()
    assert [c.alpha_, c.alpha_intercept_] == pytest.approx(c.alphas_[best].tolist())
    for column, (name, default) in enumerate([("alpha", "loo"), ("alpha_intercept", "auto")]):
        chosen = params.get(name, default)
        if chosen == "loo":
            assert_allclose(c.alphas_[:, column], tried * rule[column])
        else:
            fixed = rule[column] if chosen == "auto" else chosen
            assert_allclose(c.alphas_[:, column], fixed)
    pair = {"alpha": c.alpha_, "alpha_intercept": c.alpha_intercept_}
    same = DirichletCalibration(tol=1e-8, **pair).fit(Z, y, w)
    assert_allclose(same.coef_, c.coef_, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_overconfident_classifiers(dtype):
    """Log-probabilities down to -700, as of naive Bayes."""
    Z, y = make_logits(2000, 4, temperature=40.0, random_state=0)
    Z = log_softmax(Z, axis=1).astype(dtype)
    assert Z.min() < -150
    c = DirichletCalibration().fit(Z[:400], y[:400])
    t = TemperatureScaling(smoothing="auto").fit(Z[:400], y[:400])
    logs = [m.predict_log_proba(Z[400:])[np.arange(1600), y[400:]] for m in (c, t)]
    losses = [-log_p.mean() for log_p in logs]
    assert losses[0] < losses[1] + 0.02


@pytest.mark.parametrize("params", [{"alpha": 0}, {"alpha": 0, "alpha_intercept": 0}])
def test_separable_rows_without_regularization_warn(params):
    Z = 5 * np.random.default_rng(0).normal(size=(20, 4))
    y = np.append(Z[:-4].argmax(axis=1), [0, 1, 2, 3])
    with pytest.warns(ConvergenceWarning, match="minimum|stopped"):
        DirichletCalibration(smoothing=0, classes=range(4), **params).fit(Z, y)


def test_the_fit_of_a_chosen_strength_is_the_fit_with_this_number():
    """Also the part of the matrix that only the penalty determines."""
    Z, y = make_logits(400, 10, offset=np.linspace(-1, 1, 10), temperature=2.0, random_state=1)
    Z[:, 1] += 0.5 * Z[:, 2]
    chosen = DirichletCalibration(tol=1e-8).fit(Z, y)
    alone = DirichletCalibration(alpha=chosen.alpha_, tol=1e-8).fit(Z, y)
    assert_allclose(chosen.coef_, alone.coef_, atol=1e-6)
    assert_allclose(chosen.intercept_, alone.intercept_, atol=1e-6)

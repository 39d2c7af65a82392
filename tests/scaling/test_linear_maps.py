"""VectorScaling and MatrixScaling: the minimum of the formula, its limits, rows that have none."""

import numpy as np
import pytest
from families import mixed, mixed_log_probabilities, warnings_of
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skcalib import MatrixScaling, TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits

both = pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling])


@pytest.fixture(params=[(3, False), (3, True), (2, True)], ids=["3", "3, weights", "2, weights"])
def problem(request, rng):
    K, weighted = request.param
    Z, y = make_logits(250, K, offset=[0, 1, -1][:K], random_state=1)
    Z[:, 1] += 0.5 * Z[:, -1]
    return Z, y, rng.uniform(0, 2, size=250) if weighted else None


def matrix_of(coef):
    """The matrix, or a diagonal one of the vector."""
    return coef if coef.ndim == 2 else np.diag(coef)


def literal(theta, shape, F, y, w, alpha):
    """The objective as the docstrings have it, on features F."""
    K = F.shape[1]
    A, c = matrix_of(theta[:-K].reshape(shape)), theta[-K:]
    logs = log_softmax(F @ A.T + c, axis=1)[np.arange(len(y)), y]
    N = len(y) if w is None else w.sum()
    on, off = np.diag(A), A[~np.eye(K, dtype=bool)]
    ridge = np.sum((on - 1) ** 2) + np.sum(c**2) + (K - 1) * np.sum(off**2)
    return -np.average(logs, weights=w) + alpha * K / N * ridge


def scores(c, F):
    return F @ matrix_of(c.coef_).T + c.intercept_


@both
@pytest.mark.parametrize("alpha", [1.0, 10.0])
def test_parameters_are_the_minimum_of_the_literal_objective(problem, alpha, kind):
    Z, y, w = problem
    c = kind(alpha=alpha, tol=1e-9).fit(Z, y, w)
    args = c.coef_.shape, mixed_log_probabilities(c, Z), y, w, alpha
    found, K = np.append(c.coef_, c.intercept_), Z.shape[1]
    start = np.append(np.ones(K) if kind is VectorScaling else np.eye(K), np.zeros(K))
    oracle = minimize(literal, start, args, method="BFGS", tol=1e-9)
    np.testing.assert_allclose(found, oracle.x, atol=1e-4)
    assert literal(found, *args) <= oracle.fun + 1e-12


@both
def test_probabilities_are_the_literal_formula(problem, kind):
    Z, y, w = problem
    c = kind().fit(Z, y, w)
    expected = softmax(scores(c, mixed_log_probabilities(c, Z)), axis=1)
    assert c.smoothing_ == 1 / (1 + (len(y) if w is None else w.sum()))
    np.testing.assert_allclose(c.predict_proba(Z), mixed(expected, c))
    assert c.loss_ == pytest.approx(log_loss(y, expected, sample_weight=w), rel=1e-10)
    assert c.n_iter_ >= 1
    assert c.temperature_ == TemperatureScaling().fit(Z, y, w).temperature_


def test_plain_vector_form_is_the_papers(problem):
    """With alpha=0 and normalize=False: softmax(a * z + c) on raw logits."""
    Z, y, w = problem
    c = VectorScaling(alpha=0, smoothing=0, normalize=False, tol=1e-9).fit(Z, y, w)
    K = Z.shape[1]
    args = (K,), Z, y, w, 0.0
    oracle = minimize(literal, np.repeat([1.0, 0.0], K), args, method="BFGS", tol=1e-9)
    assert c.temperature_ == 1
    assert c.loss_ == pytest.approx(oracle.fun, abs=1e-10)
    np.testing.assert_allclose(c.coef_, oracle.x[:K], atol=1e-4)
    offsets = c.intercept_ - oracle.x[K:]  # a constant in all of them changes nothing
    np.testing.assert_allclose(offsets, offsets[0], atol=1e-4)
    np.testing.assert_allclose(c.predict_proba(Z), softmax(scores(c, Z), axis=1))


def test_plain_matrix_form_is_multinomial_logistic_regression(problem):
    """With alpha=0 and normalize=False: softmax(W z + b) on raw logits, as in the paper."""
    Z, y, w = problem
    c = MatrixScaling(alpha=0, smoothing=0, normalize=False, tol=1e-9).fit(Z, y, w)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(Z, y, w)
    assert c.temperature_ == 1
    np.testing.assert_allclose(c.predict_proba(Z), oracle.predict_proba(Z), atol=1e-6)
    np.testing.assert_allclose(c.predict_proba(Z), softmax(Z @ c.coef_.T + c.intercept_, axis=1))


@both
@pytest.mark.parametrize("normalize", [True, False])
def test_strong_ridge_is_temperature_scaling(problem, normalize, kind):
    Z, y, w = problem
    strong = kind(alpha=1e9, smoothing=0, normalize=normalize).fit(Z, y, w)
    plain = TemperatureScaling(smoothing=0).fit(Z, y, w)
    np.testing.assert_allclose(strong.predict_proba(Z), plain.predict_proba(Z), rtol=1e-6)


def test_constants_in_rows_matter_only_to_the_literal_form(problem, rng):
    Z, y, w = problem
    shift = rng.normal(scale=5, size=(len(y), 1))
    for normalize in (True, False):
        one, other = (
            MatrixScaling(normalize=normalize, tol=1e-8).fit(A, y, w).predict_proba(A)
            for A in (Z, Z + shift)
        )
        assert np.allclose(one, other, atol=1e-5) == normalize


@both
@pytest.mark.parametrize("n_classes", [2, 3])
def test_large_constants_in_rows_cost_no_digits_in_single_precision(n_classes, kind):
    """The largest logit of a row is subtracted before the division by the temperature."""
    Z, y = make_logits(300, n_classes, temperature=2.0, random_state=0)
    Z = (np.round(Z * 64) / 64).astype(np.float32)  # sums with the constant are exact
    calibrator = kind(alpha=1.0).fit(Z, y)
    P = calibrator.predict_proba(Z + np.float32(2.0**17))
    np.testing.assert_array_equal(P, calibrator.predict_proba(Z))


@pytest.mark.parametrize("alpha", [1.0, 0.01])
@pytest.mark.parametrize("n_classes", [3, 80])
def test_single_precision_has_the_certificate_of_double(alpha, n_classes):
    """The gradient, worked out plainly in double precision, is below tol."""
    Z, y = make_logits(3000, n_classes, dtype=np.float32, random_state=0)
    c = MatrixScaling(alpha=alpha, tol=1e-6).fit(Z, y)
    F = mixed_log_probabilities(c, Z.astype(float))
    R = softmax(F @ c.coef_.T + c.intercept_, axis=1)
    R[np.arange(len(y)), y] -= 1
    strength = 2 * n_classes / len(y) * alpha
    off = (n_classes - 1) * max(1, n_classes * (n_classes - 1) / (2 * len(y)))
    ridge = np.where(np.eye(n_classes, dtype=bool), strength, strength * off)
    by_matrix = R.T @ F / len(y) + ridge * (c.coef_ - np.eye(n_classes))
    by_offset = R.mean(axis=0) + strength * c.intercept_
    # The features are rounded to single precision, which the gradient shows a little.
    assert np.sqrt(np.sum(by_matrix**2) + np.sum(by_offset**2)) < 3e-6
    double = MatrixScaling(alpha=alpha, tol=1e-8).fit(Z.astype(float), y)
    assert c.loss_ == pytest.approx(double.loss_, abs=2e-7)
    assert c.coef_.dtype == np.float64


def test_float32_fits_with_small_penalties_end_in_float64():
    """Many more parameters than rows and next to no ridge: the search ends in double precision."""
    Z, y = make_logits(300, 20, dtype=np.float32, random_state=1)
    c = MatrixScaling(alpha=1e-4, classes=range(20)).fit(Z, y)  # else it warns
    double = MatrixScaling(alpha=1e-4, classes=range(20), tol=1e-8, max_iter=1000)
    assert c.loss_ == pytest.approx(double.fit(Z.astype(float), y).loss_, rel=1e-3)


# --------------------------------------------------------------------------------------
# No optimum, or none found.


def test_separable_rows_warn_about_no_optimum():
    """Fewer rows than parameters: some matrix gets any labels right, though no vector does."""
    Z, _ = make_logits(60, 20, random_state=0)
    y = np.arange(60) % 20
    Z[np.arange(60), y] += 2
    with pytest.warns(ConvergenceWarning, match="alpha=1.0"):
        c = MatrixScaling(alpha=0).fit(Z, y)
    assert np.isfinite(c.coef_).all()
    assert np.array_equal(c.predict(Z), y)
    assert c.loss_ < np.log(2) / 60  # the least with one row wrong
    # With a ridge there is an optimum, even if all rows are right.
    held = MatrixScaling(alpha=1e-4).fit(Z, y)
    assert np.array_equal(held.predict(Z), y)
    assert held.loss_ > c.loss_


@pytest.mark.parametrize("alpha", [0, 1.0])
def test_a_search_that_stops_early_is_not_worse_than_temperature(alpha):
    Z, y = make_logits(300, 5, offset=[0, 1, 2, 3, 4], random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        c = MatrixScaling(alpha=alpha, max_iter=1).fit(Z, y)
    temperature = TemperatureScaling().fit(Z, y)
    assert c.loss_ <= log_loss(y, temperature.predict_proba(Z)) + 1e-12


def plain(Z, y, **params):
    """A plain fit, with its warnings."""
    calibrator = VectorScaling(alpha=0, smoothing=0, **params)
    caught = warnings_of(calibrator.fit, Z, y)
    P = calibrator.predict_proba(Z)
    assert np.isfinite(calibrator.coef_).all()
    assert np.isfinite(calibrator.intercept_).all()
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    return calibrator, [str(w.message) for w in caught]


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4])
def test_separable_rows_warn_and_keep_the_identity(scale):
    Z, _ = make_logits(200, 3, random_state=0)
    c, said = plain(scale * Z, Z.argmax(axis=1))
    assert len(said) == 1
    assert "every row is classified correctly" in said[0]
    assert c.coef_.tolist() == [1, 1, 1]  # nothing to learn
    assert c.intercept_.tolist() == [0, 0, 0]
    assert np.array_equal(c.predict(scale * Z), Z.argmax(axis=1))


def test_ties_among_right_rows_are_separable():
    """Offsets that break ties would run off to where all probabilities are 0 or 1."""
    Z = np.round(make_logits(700, 5, random_state=0)[0])
    c, said = plain(Z, Z.argmax(axis=1))
    assert len(said) == 1
    assert "separable rows" in said[0]
    assert c.coef_.tolist() == [1] * 5
    assert c.intercept_.tolist() == [0] * 5
    assert c.n_iter_ == 0


def test_a_vector_map_without_offsets_has_none():
    Z, y = make_logits(500, 3, offset=[0, 1, 2], random_state=0)
    found = VectorScaling(fit_intercept=False).fit(Z, y)
    assert not found.intercept_.any()
    assert found.loss_ > VectorScaling().fit(Z, y).loss_


def test_log_probabilities_are_clipped_at_the_lowest_feature():
    Z, y = make_logits(300, 3, temperature=2.0, random_state=0)
    far = np.flatnonzero(y > 0)[:20]
    outputs = []
    for low in (-1e5, -1e7):
        Z[far, 0] = low
        found = VectorScaling(smoothing=0).fit(Z, y)
        outputs.append([*found.coef_, *found.intercept_, *found.transform(Z)[far, 0]])
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-6)


def test_with_fewer_rows_than_pairs_of_classes_the_penalty_is_larger():
    """The documented factor m = K (K - 1) / 2N, here 2.25."""
    K, N = 10, 20
    Z, y = make_logits(N, K, temperature=0.5, random_state=0)
    y = np.append(np.arange(K), y[K:])
    c = MatrixScaling(alpha=1.0, tol=1e-9).fit(Z, y)
    F = mixed_log_probabilities(c, Z)
    R = softmax(scores(c, F), axis=1) - np.eye(K)[y]
    strength = np.where(np.eye(K) > 0, 1, (K - 1) * 2.25) * 2 * K / N
    gradient = R.T @ F / N + strength * (c.coef_ - np.eye(K))
    np.testing.assert_allclose(gradient, 0, atol=1e-7)


@pytest.mark.filterwarnings("ignore::families.SmallWeightsWarning")
def test_small_weights_do_not_end_a_search_without_penalty(problem):
    Z, y, _ = problem
    plain = VectorScaling(alpha=0, smoothing=0)
    expected = plain.fit(Z, y).coef_
    found = plain.fit(Z, y, np.full(len(y), 1e-3)).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-4)

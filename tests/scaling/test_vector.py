"""VectorScaling: its optimum, its limits, and data that have none."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss

from skcalib import TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits

K = 4


@pytest.fixture(params=[None, "weights"])
def problem(request, rng):
    Z, y = make_logits(250, K, offset=[0, 1, -1, 0.5], random_state=1)
    return Z, y, None if request.param is None else rng.uniform(0, 2, size=250)


def literal(theta, F, y, w, alpha):
    """The objective as the docstring has it, on features F."""
    a, c = theta[:K], theta[K:]
    logs = log_softmax(a * F + c, axis=1)[np.arange(len(y)), y]
    N = len(y) if w is None else w.sum()
    ridge = alpha * K / N * (np.sum((a - 1) ** 2) + np.sum(c**2))
    return -np.average(logs, weights=w) + ridge


def features(calibrator, Z):
    """Logarithms of the mixture that temperature scaling gives."""
    return np.log(mixed(softmax(Z / calibrator.temperature_, axis=1), calibrator))


def mixed(P, calibrator):
    return (1 - calibrator.smoothing_) * P + calibrator.smoothing_ / P.shape[1]


@pytest.mark.parametrize("alpha", ["auto", 0.1, 10.0])
def test_parameters_are_the_minimum_of_the_literal_objective(problem, alpha):
    Z, y, w = problem
    calibrator = VectorScaling(alpha=alpha, tol=1e-8).fit(Z, y, w)
    F = features(calibrator, Z)
    args = F, y, w, 1.0 if alpha == "auto" else alpha
    found = np.concatenate([calibrator.coef_, calibrator.intercept_])
    oracle = minimize(literal, np.repeat([1.0, 0.0], K), args, method="BFGS", tol=1e-9)
    np.testing.assert_allclose(found, oracle.x, atol=1e-4)
    best = literal(found, *args)
    assert best <= oracle.fun + 1e-12
    for j in range(2 * K):
        for step in (1e-4, -1e-4):
            nudged = found.copy()
            nudged[j] += step
            assert literal(nudged, *args) > best


def test_probabilities_are_the_literal_formula(problem):
    Z, y, w = problem
    c = VectorScaling().fit(Z, y, w)
    expected = softmax(c.coef_ * features(c, Z) + c.intercept_, axis=1)
    assert c.smoothing_ == 1 / (1 + (len(y) if w is None else w.sum()))
    np.testing.assert_allclose(c.predict_proba(Z), mixed(expected, c))
    assert c.loss_ == pytest.approx(log_loss(y, expected, sample_weight=w))
    assert c.n_iter_ >= 1


def test_plain_form_is_the_papers(problem):
    """With alpha=0 and normalize=False: softmax(a * z + c) on raw logits."""
    Z, y, w = problem
    c = VectorScaling(alpha=0, smoothing=0, normalize=False, tol=1e-9).fit(Z, y, w)
    oracle = minimize(literal, np.repeat([1.0, 0.0], K), (Z, y, w, 0.0), method="BFGS", tol=1e-9)
    assert c.temperature_ == 1
    assert c.loss_ == pytest.approx(oracle.fun, abs=1e-10)
    np.testing.assert_allclose(c.coef_, oracle.x[:K], atol=1e-4)
    offsets = c.intercept_ - oracle.x[K:]  # a constant in all of them changes nothing
    np.testing.assert_allclose(offsets, offsets[0], atol=1e-4)
    np.testing.assert_allclose(c.predict_proba(Z), softmax(c.coef_ * Z + c.intercept_, axis=1))


# --------------------------------------------------------------------------------------
# Hard data.


def plain(Z, y, **params):
    """A plain fit, with its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = VectorScaling(alpha=0, smoothing=0, **params).fit(Z, y)
    P = calibrator.predict_proba(Z)
    assert np.isfinite(calibrator.coef_).all()
    assert np.isfinite(calibrator.intercept_).all()
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    return calibrator, [str(w.message) for w in caught]


def test_one_separable_class():
    """No optimum in its parameters; a gradient that vanishes on the way is as good as one."""
    Z, y = make_logits(400, 3, random_state=0)
    Z[:, 2] = np.where(y == 2, 50.0, -50.0)
    c, _ = plain(Z, y)
    worse = TemperatureScaling().fit(Z, y)
    assert c.loss_ <= log_loss(y, worse.predict_proba(Z)) + 1e-9
    assert (c.predict(Z) == 2).tolist() == (y == 2).tolist()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4])
def test_separable_rows(scale):
    Z, _ = make_logits(200, 3, random_state=0)
    c, said = plain(scale * Z, Z.argmax(axis=1))
    assert len(said) == 1
    assert "every row is classified correctly" in said[0]
    assert c.coef_.tolist() == [1, 1, 1]  # nothing to learn
    assert c.intercept_.tolist() == [0, 0, 0]
    assert np.array_equal(c.predict(scale * Z), Z.argmax(axis=1))


def test_ties_among_rows_that_are_right_leave_nothing_to_learn():
    """Offsets that break ties would run off to where all probabilities are 0 or 1."""
    Z = np.round(make_logits(700, 5, random_state=0)[0])
    c, said = plain(Z, Z.argmax(axis=1))
    assert len(said) == 1
    assert "classified correctly, or tied" in said[0]
    assert c.coef_.tolist() == [1] * 5
    assert c.intercept_.tolist() == [0] * 5
    assert c.n_iter_ == 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": -1}, "alpha must be 'auto', 'loo' or a finite number of at least 0, got -1"),
        (
            {"alpha": np.nan},
            "alpha must be 'auto', 'loo' or a finite number of at least 0, got nan",
        ),
        (
            {"alpha": "none"},
            "alpha must be 'auto', 'loo' or a finite number of at least 0, got 'none'",
        ),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1, got 0"),
        ({"max_iter": 2.5}, "max_iter must be an integer of at least 1, got 2.5"),
        ({"tol": 0}, "tol must be a finite number above 0, got 0"),
        ({"tol": np.inf}, "tol must be a finite number above 0, got inf"),
        ({"tol": True}, "tol must be a finite number above 0, got True"),
    ],
)
def test_bad_parameters(params, message):
    Z, y = make_logits(50, 3, random_state=0)
    calibrator = VectorScaling(**params)
    before = dict(vars(calibrator))
    with pytest.raises(ValueError, match=message):
        calibrator.fit(Z, y)
    assert vars(calibrator) == before

"""PlattScaling: its optimum, scikit-learn as the oracle, and rows that have none."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

from skcalib import PlattScaling
from skcalib.datasets import make_logits


@pytest.fixture(params=[None, "weights"])
def weights(request, rng):
    return None if request.param is None else rng.uniform(0, 3, size=500)


def literal_margins(Z):
    """Log-odds of each class of softmax(Z), by the definition; of the second of two."""
    columns = range(Z.shape[1]) if Z.shape[1] > 2 else [1]
    return np.stack([Z[:, k] - logsumexp(np.delete(Z, k, axis=1), axis=1) for k in columns], axis=1)


def literal_loss(theta, m, event, w, smooth):
    """Log loss of sigmoid(a m + c), with Platt's targets."""
    w = np.ones(len(m)) if w is None else w
    n1, n0 = w[event].sum(), w[~event].sum()
    target = np.where(event, (n1 + 1) / (n1 + 2), 1 / (n0 + 2)) if smooth else event
    s = theta[0] * m + theta[1]
    return -np.average(target * log_expit(s) + (1 - target) * log_expit(-s), weights=w)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("smooth", [True, False])
def test_parameters_are_the_minimum_of_the_literal_loss(n_classes, smooth, weights):
    Z, y = make_logits(500, n_classes, random_state=0)
    c = PlattScaling(smooth_targets=smooth).fit(Z, y, weights)
    M = literal_margins(Z)
    assert c.coef_.shape == c.intercept_.shape == (M.shape[1],)
    for k, theta in enumerate(np.stack([c.coef_, c.intercept_], axis=1)):
        args = M[:, k], (y == k if n_classes > 2 else y == 1), weights, smooth
        oracle = minimize(literal_loss, [1.0, 0.0], args, method="BFGS", tol=1e-10)
        assert literal_loss(theta, *args) <= oracle.fun + 1e-13
        np.testing.assert_allclose(theta, oracle.x, atol=1e-5)


def test_probabilities_are_the_literal_formula():
    Z, y = make_logits(500, 4, random_state=0)
    c = PlattScaling().fit(Z, y)
    P = expit(c.coef_ * literal_margins(Z) + c.intercept_)
    np.testing.assert_allclose(c.predict_proba(Z), P / P.sum(axis=1, keepdims=True))
    two = PlattScaling().fit(Z[:, :2], y % 2)
    p = expit(two.coef_ * (Z[:, 1] - Z[:, 0]) + two.intercept_)
    np.testing.assert_allclose(two.predict_proba(Z[:, :2]), np.stack([1 - p, p], axis=1))


# --------------------------------------------------------------------------------------
# Margins.


@pytest.mark.parametrize("n_levels", [1, 2, 3, 10])
@pytest.mark.parametrize("misses", [1, 2, 5])
def test_rare_misses_in_single_precision_converge(misses, n_levels):
    """One minus a probability next to 1 has to be exact, of either class."""
    rng = np.random.default_rng(0)
    margin = rng.choice(np.linspace(2, 6, n_levels), 3000).astype(np.float32)[:, None]
    y = (np.arange(3000) >= misses).astype(int)
    first, second = PlattScaling().fit(margin, y), PlattScaling().fit(-margin, 1 - y)
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=1e-4, atol=1e-6)
    assert first.n_iter_ == second.n_iter_ < 20


# --------------------------------------------------------------------------------------
# Hard data.


def test_separable_classes_with_and_without_smoothed_targets():
    Z = np.array([[0.0, 3], [0, 2], [2, 0], [3, 0]])
    y = [1, 1, 0, 0]
    for X in (Z[:, 1:] - Z[:, :1], Z):  # of two classes there is no second column to name
        with pytest.warns(ConvergenceWarning, match="separates .*smooth_targets"):
            plain = PlattScaling(smooth_targets=False).fit(X, y)
    assert 1 < plain.coef_[0] < 1e3
    smooth = PlattScaling().fit(Z, y)
    assert smooth.predict_proba(Z)[:, 1] == pytest.approx([0.75, 0.75, 0.25, 0.25], abs=0.1)


def test_classes_that_are_separable_are_named():
    Z, y = make_logits(400, 3, random_state=0)
    Z[:, 2] = np.where(y == 2, 50.0, -50.0)
    with pytest.warns(ConvergenceWarning, match="in column 2 of X"):
        c = PlattScaling(smooth_targets=False).fit(Z, y)
    assert np.isfinite(c.coef_).all()
    assert np.array_equal(c.predict(Z) == 2, y == 2)


@pytest.mark.parametrize("logits", [[0.0, 0, 0], [5.0, 1, -2], [1e-3, 1e3, 1e5]])
def test_margins_that_do_not_vary_get_the_rate_of_the_class(logits):
    Z, y = np.tile(logits, (60, 1)), np.repeat([0, 1, 2], [10, 20, 30])
    c = PlattScaling(smooth_targets=False).fit(Z, y)
    assert c.coef_.tolist() == [0, 0, 0]
    np.testing.assert_allclose(c.predict_proba(Z[:1]), [[1 / 6, 1 / 3, 1 / 2]])


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_scores_that_point_the_wrong_way_get_a_negative_slope():
    Z, y = make_logits(500, 2, random_state=0)
    with pytest.warns(UserWarning, match="1 of 1 sigmoids"):
        c = PlattScaling().fit(-Z, y)
    assert c.coef_[0] < 0
    np.testing.assert_allclose(
        c.predict_proba(-Z), PlattScaling().fit(Z, y).predict_proba(Z), rtol=1e-6
    )


def test_the_first_class_of_negative_slope_is_named():
    Z, y = make_logits(900, 3, random_state=0)
    with pytest.warns(UserWarning, match="1 of 3 .*column 2"):
        PlattScaling().fit(Z * [1, 1, -1], y)


def test_classes_with_little_overlap_are_not_reported_as_separable():
    m = np.linspace(-3, 3, 400)
    y = (m > 0).astype(int)
    y[[190, 210]] = [1, 0]
    c = PlattScaling(smooth_targets=False).fit(m[:, None], y)  # else it warns
    assert np.isfinite(c.coef_).all()


def test_columns_with_one_unmasked_row():
    Z = np.where(np.eye(3, dtype=bool)[[0, 1, 2, 0, 1, 2]], 5.0, -np.inf)
    Z[:, 0] = 1
    constant = PlattScaling().fit(Z, [0, 1, 2, 0, 1, 2])
    np.testing.assert_allclose(constant.intercept_, np.log([0.2, 3, 3]))

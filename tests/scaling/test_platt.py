"""PlattScaling: its optimum, scikit-learn as the oracle, and rows that have none."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from skcalib import PlattScaling
from skcalib._optimize import logistic
from skcalib._optimize.logistic import RowSigmoids
from skcalib._rows.rows import MemoryRows
from skcalib._scores.columns import margins
from skcalib.datasets import make_logits
from skcalib.scaling._platt import _in_units, _units


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
        best = literal_loss(theta, *args)
        oracle = minimize(literal_loss, [1.0, 0.0], args, method="BFGS", tol=1e-10)
        assert best <= oracle.fun + 1e-13
        np.testing.assert_allclose(theta, oracle.x, atol=1e-5)
        for step in ([1e-4, 0], [-1e-4, 0], [0, 1e-4], [0, -1e-4]):
            assert literal_loss(theta + step, *args) > best


def test_probabilities_are_the_literal_formula():
    Z, y = make_logits(500, 4, random_state=0)
    c = PlattScaling().fit(Z, y)
    P = expit(c.coef_ * literal_margins(Z) + c.intercept_)
    np.testing.assert_allclose(c.predict_proba(Z), P / P.sum(axis=1, keepdims=True))
    two = PlattScaling().fit(Z[:, :2], y % 2)
    p = expit(two.coef_ * (Z[:, 1] - Z[:, 0]) + two.intercept_)
    np.testing.assert_allclose(two.predict_proba(Z[:, :2]), np.stack([1 - p, p], axis=1))


class Margins(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are logits: its decision function is their margins."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        M = literal_margins(X)
        return M if M.shape[1] > 1 else M[:, 0]

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


# It says that the base model does not take weights, which it need not.
@pytest.mark.filterwarnings("ignore:Since FrozenEstimator:UserWarning")
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_same_as_scikit_learn(n_classes, weights):
    Z, y = make_logits(500, n_classes, random_state=0)
    peer = CalibratedClassifierCV(FrozenEstimator(Margins().fit(Z, y)), method="sigmoid")
    peer.fit(Z, y, sample_weight=weights)
    ours = PlattScaling().fit(Z, y, weights)
    np.testing.assert_allclose(ours.predict_proba(Z), peer.predict_proba(Z), atol=1e-4)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_margins_of_sure_and_of_tied_rows(dtype):
    """1 - p of a row that is sure is lost if it is computed from p."""
    Z = np.array([[0, -1e4, -2e4], [0, -50, -50], [7, 7, -40], [7, 7, 7], [1e-8, 0, 0]], dtype)
    expected = literal_margins(Z.astype(np.float64))
    assert margins(Z).dtype == dtype
    np.testing.assert_allclose(margins(Z), expected, rtol=4 * np.finfo(dtype).eps, atol=1e-15)


# --------------------------------------------------------------------------------------
# Hard data.


def test_separable_classes_with_and_without_smoothed_targets():
    Z = np.array([[0.0, 3], [0, 2], [2, 0], [3, 0]])
    y = [1, 1, 0, 0]
    for X in (Z[:, 1:] - Z[:, :1], Z):  # of two classes there is no second column to name
        with pytest.warns(ConvergenceWarning, match="minimum: in X .* separates .* smooth_targets"):
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


def test_margins_that_do_not_vary_get_the_rate_of_the_class():
    Z, y = np.zeros((60, 3)), np.repeat([0, 1, 2], [10, 20, 30])
    c = PlattScaling(smooth_targets=False).fit(Z, y)
    assert c.coef_.tolist() == [0, 0, 0]
    np.testing.assert_allclose(c.predict_proba(Z[:1]), [[1 / 6, 1 / 3, 1 / 2]])


def test_scores_that_point_the_wrong_way_get_a_negative_slope():
    Z, y = make_logits(500, 2, random_state=0)
    with pytest.warns(UserWarning, match="1 of 1 sigmoids is negative.*of the rows: on"):
        c = PlattScaling().fit(-Z, y)
    assert c.coef_[0] < 0
    np.testing.assert_allclose(
        c.predict_proba(-Z), PlattScaling().fit(Z, y).predict_proba(Z), rtol=1e-6
    )


def test_the_first_class_of_negative_slope_is_named():
    Z, y = make_logits(900, 3, random_state=0)
    with pytest.warns(UserWarning, match="1 of 3 sigmoids .* the first for column 2 of X: on"):
        PlattScaling().fit(Z * [1, 1, -1], y)


def test_a_class_with_hardly_any_overlap_is_not_called_separable():
    m = np.linspace(-3, 3, 400)
    y = (m > 0).astype(int)
    y[[190, 210]] = [1, 0]
    c = PlattScaling(smooth_targets=False).fit(m[:, None], y)  # else it warns
    assert np.isfinite(c.coef_).all()


def test_passes_are_counted_and_limited(monkeypatch):
    Z, y = make_logits(200, 3, random_state=0)
    assert 4 < PlattScaling().fit(Z, y).n_iter_ < 15
    monkeypatch.setattr(logistic, "MAX_PASSES", 3)
    separable = np.array([[-3.0], [-2], [2], [3]]), [0, 0, 1, 1]  # but smoothed
    for rows in ((Z, y), separable):
        with pytest.warns(ConvergenceWarning, match=r"in 3 passes .* that hardly vary\.$"):
            assert PlattScaling().fit(*rows).n_iter_ == 3
    with pytest.warns(ConvergenceWarning, match=r"hardly vary, and use smooth_targets=True\.$"):
        PlattScaling(smooth_targets=False).fit(Z, y)


@pytest.mark.parametrize("weighted", [False, True])
def test_share_on_the_wrong_side_is_counted(weighted, rng):
    Z, y = make_logits(300, 3, offset=[4, 0, -2], random_state=0)
    w = rng.uniform(size=300) if weighted else None
    rows = MemoryRows(Z, y, w)
    units = _units(rows)
    of_margins = rows.with_logits(margins(Z))
    problem = RowSigmoids.of(of_margins, _in_units(units), 3, smooth=False)
    theta = rng.normal(size=(3, 2))
    S = theta[:, 0] * (literal_margins(Z) - units[0]) / units[1] + theta[:, 1]
    event = y[:, None] == np.arange(3)
    wrong = np.where(event, S <= 0, S >= 0)
    np.testing.assert_allclose(problem.share_wrong(theta), np.average(wrong, axis=0, weights=w))
    np.testing.assert_allclose(problem.share_wrong(np.zeros((3, 2))), 1)  # on the threshold


@pytest.mark.filterwarnings("ignore::skcalib._warnings.ProbabilitiesWarning")
@pytest.mark.parametrize("centre", [1, 1e3, -1e4])
@pytest.mark.parametrize("scale", [1e-30, 1, 1e30])
def test_margins_that_differ_by_rounding_have_no_slope(centre, scale, rng):
    margin = (scale * centre * (1 + 1e-7 * rng.normal(size=(200, 1)))).astype(np.float32)
    y = rng.integers(2, size=200)
    calibrator = PlattScaling().fit(margin, y)
    assert calibrator.coef_ == 0
    target = (y.sum() + 1) / (y.sum() + 2) * y.mean() + (1 - y.mean()) / ((1 - y).sum() + 2)
    np.testing.assert_allclose(calibrator.predict_proba(margin)[:, 1], target, rtol=1e-5)


def test_all_classes_have_to_converge(monkeypatch):
    Z, y = make_logits(300, 3, temperature=2.0, random_state=0)
    rows = MemoryRows(Z, y, None)
    problem = RowSigmoids.of(rows, _in_units(_units(rows)), 3, smooth=True)
    found = logistic.fit_sigmoids(problem, problem.constant)
    assert found.success
    monkeypatch.setattr(logistic, "MAX_PASSES", 2)
    found.x[1:] += 1
    assert not logistic.fit_sigmoids(problem, found.x).success


def test_masked_classes_without_limits_of_margins():
    """Columns of one finite value, and outliers where no temperature is best."""
    Z = np.where(np.eye(3, dtype=bool)[[0, 1, 2, 0, 1, 2]], 5.0, -np.inf)
    Z[:, 0] = 1
    constant = PlattScaling().fit(Z, [0, 1, 2, 0, 1, 2])
    np.testing.assert_allclose(constant.intercept_, np.log([0.2, 3, 3]))
    random = np.random.default_rng(1)
    y = np.r_[0:3, random.integers(3, size=57)]
    Z = random.normal(size=(60, 3))
    Z[range(60), y] += 30
    Z[5] *= 1e9
    masked = random.random((60, 3)) < 0.15
    masked[range(60), y] = False
    Z[masked] = -np.inf
    outlier = PlattScaling().fit(Z, y)
    np.testing.assert_allclose(outlier.coef_[0], 0.1118, rtol=1e-3)
    np.testing.assert_allclose(outlier.intercept_, [-0.0829, -0.8989, -0.3077], rtol=1e-3)

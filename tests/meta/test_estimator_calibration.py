"""Any classifier as a calibrator: its features, its smoothing, and bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skcalib import MatrixScaling, TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration

N = 300


class Recorder(ClassifierMixin, BaseEstimator):
    """Classifier that records its input and is certain of one class after the other."""

    def fit(self, X, y, sample_weight=None):
        self.seen_, self.labels_, self.weights_ = X, y, sample_weight
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        self.asked_ = X
        P = np.zeros((len(X), len(self.classes_)))
        P[np.arange(len(X)), np.arange(len(X)) % len(self.classes_)] = 1
        return P


def uneven(n, random_state=0):
    """Logits that are too large where the first class is predicted, and labels."""
    Z, y = make_logits(n, 3, random_state=random_state)
    Z[Z.argmax(axis=1) == 0] *= 3
    return Z, y


def mixed(P, eps):
    return (1 - eps) * P + eps / P.shape[1]


# --------------------------------------------------------------------------------------
# Features.


@pytest.mark.parametrize("smoothing", ["auto", 0.2, 0.0])
@pytest.mark.parametrize("n_classes", [3, 7])
def test_features_are_mixed_log_probabilities_and_these_less_their_mean(n_classes, smoothing):
    Z, y = make_logits(N, n_classes, temperature=2.0, random_state=0)
    c = EstimatorCalibration(Recorder(), smoothing=smoothing).fit(Z, y)
    T, eps = TemperatureScaling().fit(Z, y).temperature_, c.smoothing_
    assert c.temperature_ == pytest.approx(T)
    assert eps == (1 / (N + 1) if smoothing == "auto" else smoothing)
    L = np.log(mixed(softmax(Z / T, axis=1), eps))
    assert_array_equal(c.order_, L.mean(axis=0).argsort())
    L = L[:, c.order_]
    c.predict_proba(Z)
    F = c.estimator_.asked_
    assert_allclose(F[:, :n_classes], L)
    assert_allclose(F[:, n_classes:], L - L.mean(axis=1, keepdims=True))
    rows = (c.estimator_.seen_[:, None, 0] == F[:, 0]).argmax(axis=1)
    assert_array_equal(np.sort(rows), np.arange(N))
    assert_array_equal(c.estimator_.seen_, F[rows])
    assert_array_equal(c.order_[c.estimator_.labels_], y[rows])
    assert c.estimator_.weights_ is None


@pytest.mark.parametrize("smoothing", ["auto", 0.0])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("low", [-np.inf, -1e99])
def test_features_are_finite(n_classes, smoothing, low):
    """Masked classes have the lowest feature, in fit and in predict."""
    Z, y = make_logits(N, n_classes, random_state=0)
    Z[::3, 0] = np.where(y[::3] == 0, Z[::3, 0], low)
    c = EstimatorCalibration(Recorder(), smoothing=smoothing).fit(Z, y)
    c.predict_proba(Z)
    F = c.estimator_.asked_
    lowest = np.log(c.smoothing_ / n_classes) if smoothing == "auto" else -1e3
    assert np.isfinite(F).all()
    hidden = Z[:, 0] == low
    sign = -1 if n_classes == 2 and c.order_[0] == 0 else 1
    feature = sign * F[:, 0 if n_classes == 2 else c.order_.tolist().index(0)]
    assert_allclose(feature[hidden], lowest, rtol=0.06 if n_classes > 2 else 0.01)
    assert (feature[~hidden] >= feature[hidden].max()).all()
    tree = DecisionTreeClassifier(random_state=0)
    grown = EstimatorCalibration(tree, smoothing=smoothing).fit(Z, y)
    assert_array_equal(grown.predict(Z), y)  # so predict computes the same features as fit


# --------------------------------------------------------------------------------------
# Probabilities.


@pytest.mark.parametrize("smoothing", ["auto", 0.3])
def test_probabilities_of_the_classifier_are_mixed(smoothing):
    Z, y = uneven(N)
    forest = ExtraTreesClassifier(20, min_samples_leaf=10, random_state=0)
    c = EstimatorCalibration(forest, smoothing=smoothing).fit(Z, y)
    L = np.log(mixed(softmax(Z / c.temperature_, axis=1), c.smoothing_))[:, c.order_]
    F = np.hstack([L, L - L.mean(axis=1, keepdims=True)])
    P = clone(forest).fit(F, np.argsort(c.order_)[y]).predict_proba(F)
    assert_allclose(c.predict_proba(Z)[:, c.order_], mixed(P, c.smoothing_))
    assert not hasattr(forest, "classes_")


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_a_class_without_rows_has_the_probability_of_the_mixture():
    Z, y = make_logits(N, 4, random_state=0)
    some = y != 1
    c = EstimatorCalibration(GaussianNB(), classes=range(4)).fit(Z[some], y[some])
    assert sorted(c.order_[c.estimator_.classes_]) == [0, 2, 3]
    assert_allclose(c.predict_proba(Z)[:, 1], c.smoothing_ / 4)


def test_probabilities_of_zero_without_a_mixture():
    Z, y = make_logits(N, 3, random_state=0)
    c = EstimatorCalibration(Recorder(), smoothing=0).fit(Z, y)
    assert np.isfinite(c.transform(Z)).all()
    assert_allclose(c.predict_proba(Z[:2])[:, c.order_], [[1, 0, 0], [0, 1, 0]], atol=1e-300)


def test_unmasked_classes_share_the_smoothing_if_the_classifier_rules_them_out():
    Z, y = make_logits(N, 3, random_state=0)
    c = EstimatorCalibration(Recorder()).fit(Z, y)
    row = np.where(np.arange(3) == c.order_[0], -np.inf, [[0.0, 0, 0]])  # certain of this class
    assert_allclose(c.predict_proba(row)[:, c.order_], [[0, 0.5, 0.5]])


# --------------------------------------------------------------------------------------
# Weights, threads, parameters.


def test_weights_are_passed_on_in_the_order_of_the_rows():
    Z, y = make_logits(N, 3, random_state=0)
    w = np.arange(N) % 4.0
    c = EstimatorCalibration(Recorder()).fit(Z, y, w)
    assert_array_equal(np.sort(c.estimator_.weights_), np.sort(w[w > 0]))
    assert c.smoothing_ == 1 / (w.sum() + 1)
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    inside = EstimatorCalibration(pipeline).fit(Z, y, w).predict_proba(Z)
    some = np.repeat(np.arange(N), w.astype(int))
    twice = EstimatorCalibration(pipeline).fit(Z[some], y[some]).predict_proba(Z)
    assert_allclose(inside, twice, rtol=1e-6)


# --------------------------------------------------------------------------------------
# The default.


@pytest.mark.slow
def test_default_is_boosting_that_does_not_depend_on_chance():
    Z, y = uneven(1000)
    one, two = EstimatorCalibration().fit(Z, y), EstimatorCalibration().fit(Z, y)
    assert isinstance(one.estimator_, HistGradientBoostingClassifier)
    assert one.estimator is None
    assert_array_equal(one.predict_proba(Z), two.predict_proba(Z))
    order = np.random.default_rng(0).permutation(len(y))
    other = EstimatorCalibration().fit(Z[order], y[order])
    assert_allclose(other.predict_proba(Z), one.predict_proba(Z), atol=1e-3)


def test_default_beats_linear_maps_on_uneven_logits():
    (Z, y), (Z_test, y_test) = uneven(4000), uneven(4000, random_state=1)
    of_trees, of_matrix = (
        log_loss(y_test, c.fit(Z, y).predict_proba(Z_test))
        for c in (EstimatorCalibration(), MatrixScaling())
    )
    assert of_trees < of_matrix - 0.01


# --------------------------------------------------------------------------------------
# Bad input.


class Failing(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("out of order")


@pytest.mark.parametrize(
    ("estimator", "w", "error", "word"),
    [
        *((e, None, ValueError, "classifier") for e in (LinearRegression(), GaussianNB, "auto")),
        (LinearSVC(), None, ValueError, r"CalibratedClassifier\(estimator\)"),
        (KNeighborsClassifier(), np.ones(N), ValueError, "sample_weight"),
        (Failing(), None, RuntimeError, "out of order"),
    ],
)
def test_failed_fits_leave_the_calibrator_unchanged(estimator, w, error, word):
    Z, y = make_logits(N, 3, random_state=0)
    c = EstimatorCalibration(GaussianNB()).fit(Z, y).set_params(estimator=estimator)
    before = dict(vars(c))
    with pytest.raises(error, match=word):
        c.fit(Z[::-1], y[::-1], w)
    assert vars(c) == before


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
@pytest.mark.parametrize("K", [2, 4])
def test_forests_and_their_subclasses_have_the_same_probabilities(kind, K):
    """Forests of scikit-learn have a faster way to predict."""

    class Forest(kind):
        pass

    Z, y = make_logits(300, K, random_state=0)
    w = np.random.default_rng(0).uniform(0.5, 2, 300)
    forests = (cls(10, min_samples_leaf=3, random_state=0) for cls in (kind, Forest))
    fast, slow = (EstimatorCalibration(forest).fit(Z, y, w) for forest in forests)
    np.testing.assert_allclose(fast.predict_proba(Z), slow.predict_proba(Z), rtol=1e-12)

"""LogitTransformer and CalibratedClassifier: held-out logits, peers, real classifiers, routing."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from families import CALIBRATORS, Unfittable, Weighable, of_case, order_of, quick
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax
from scipy.stats import gmean
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    HistogramBinning,
    IsotonicCalibration,
    LogitTransformer,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.conditional import ConditionalCalibrator
from skcalib.experimental import EstimatorCalibration

TINY, LEAST = np.finfo(float).tiny, 1e-15

# Every kind of classifier that scikit-learn has for users of this library.
BASES = {
    "LogisticRegression": LogisticRegression(),
    "LinearSVC": LinearSVC(),
    "SVC": SVC(),
    "RandomForest": RandomForestClassifier(20, random_state=0),
    "HistGradientBoosting": HistGradientBoostingClassifier(max_iter=10),
    "GaussianNB": GaussianNB(),
    "KNeighbors": KNeighborsClassifier(),
    "MLP": MLPClassifier((10,), solver="lbfgs", max_iter=30, random_state=0),
    "SGD": SGDClassifier(random_state=0),
    "Pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "GridSearchCV": GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-2]}, cv=2),
}


def problem(n_classes=3, n_samples=240, random_state=0):
    return make_classification(
        n_samples, n_informative=8, n_redundant=2, n_classes=n_classes, random_state=random_state
    )


X, y = problem()
NAMES = np.array(["a", "b", "c"])[y]


def of_naive_bayes(**params):
    """With temperature scaling, where another classifier or calibrator would do as well."""
    return CalibratedClassifier(GaussianNB(), TemperatureScaling(), **params)


class Given(ClassifierMixin, BaseEstimator):
    """Classifier with the features as predicted probabilities of classes or labels."""

    def fit(self, X, y):
        self.classes_ = np.unique(y) if np.ndim(y) == 1 else np.arange(y.shape[1])
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, X):
        return np.asarray(X)


class Certain(Given):
    """A calibrator that says 0 and 1."""

    def predict_proba(self, Z):
        return np.eye(len(self.classes_), dtype=Z.dtype)[Z.argmax(axis=1)]


# --------------------------------------------------------------------------------------
# Real classifiers.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("name", BASES)
def test_every_kind_of_classifier(name, ensemble):
    labels, params = np.array(["b", "c", "a"])[y], {"ensemble": ensemble, "min_proba": 0.01}
    c = CalibratedClassifier(BASES[name], TemperatureScaling(), cv=3, **params)
    P = c.fit(X[:160], labels[:160]).predict_proba(X[160:])
    assert c.classes_.tolist() == ["a", "b", "c"]
    assert_allclose(P.sum(axis=1), 1)
    assert log_loss(labels[160:], P) < 0.95 * np.log(3)
    assert_array_equal(c.predict(X), c.classes_[c.predict_proba(X).argmax(axis=1)])
    assert_allclose(c.predict_log_proba(X), np.log(c.predict_proba(X)))


LABELS = [["x", "y", "zz"], [1, 2, 3], [10, 11, 12], [-5, -3, 7], [0.0, 1.0, 2.0], [2, 0, 1]]


@pytest.mark.parametrize("ensemble", [False, True])
def test_labels_of_any_type(ensemble):
    """Labels 1, 2, 3 must not be used as column numbers, as in scikit-learn's temperature."""
    c = CalibratedClassifier(GaussianNB(), VectorScaling(), cv=3, ensemble=ensemble)
    plain = clone(c).fit(X, y).predict_proba(X)
    for labels in LABELS:
        with of_case(labels):
            named = c.fit(X, np.array(labels)[y])
            assert_array_equal(named.classes_, np.unique(labels))
            columns = np.argsort(np.argsort(labels))
            assert_allclose(named.predict_proba(X)[:, columns], plain, atol=1e-6)


# --------------------------------------------------------------------------------------
# Peers.


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("method", "calibrator", "base", "n_classes"),
    [
        ("temperature", TemperatureScaling(smoothing=0), LogisticRegression(C=100), 2),
        ("temperature", TemperatureScaling(smoothing=0), LogisticRegression(C=100), 3),
        ("sigmoid", PlattScaling(), LinearSVC(), 2),
        ("isotonic", IsotonicCalibration(interpolation="linear", pseudo_rows=0), GaussianNB(), 2),
        ("isotonic", IsotonicCalibration(interpolation="linear", pseudo_rows=0), GaussianNB(), 3),
    ],
)
def test_three_methods_match_scikit_learn(ensemble, weighted, method, calibrator, base, n_classes):
    if method == "temperature":
        pytest.importorskip("sklearn", minversion="1.8", reason="which has it since 1.8")
    X, y = problem(n_classes)
    w = np.random.default_rng(0).integers(1, 4, len(y)).astype(float) if weighted else None
    ours = CalibratedClassifier(base, calibrator, ensemble=ensemble, n_jobs=2)
    ours = ours.fit(X, y, sample_weight=w)
    theirs = CalibratedClassifierCV(base, method=method, ensemble=ensemble)
    theirs = theirs.fit(X, y, sample_weight=w)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


# --------------------------------------------------------------------------------------
# The classifiers of all splits, with one calibrator.


def gmean_of(members):
    """Normalized geometric mean of positive probabilities."""
    G = gmean(members, axis=0)
    return G / G.sum(axis=1, keepdims=True)


def test_a_single_classifier_cannot_exclude_a_class():
    """A class has the probability 0 only where the classifiers of all splits say so."""
    c = CalibratedClassifier(GaussianNB(), Certain(), cv=3).fit(X, y)
    members = [c.calibrator_.predict_proba(e.predict_proba(X)) for e in c.estimators_]
    P = c.predict_proba(X)
    assert_allclose(P.sum(axis=1), 1)
    somewhere = np.max(members, axis=0) == 1
    assert (somewhere.sum(axis=1) > 1).any()
    assert (P[somewhere] > 1e-9).all()
    assert_array_equal(P[~somewhere], 0)


def test_the_geometric_mean_is_less_under_confident():
    """The arithmetic mean is less sure than each classifier, although it is more accurate."""
    X, y = make_classification(4000, 15, n_informative=8, n_classes=3, random_state=0)
    base = DecisionTreeClassifier(min_samples_leaf=20, random_state=0)
    c = CalibratedClassifier(base, TemperatureScaling()).fit(X[:2000], y[:2000])
    P = [c.calibrator_.predict_proba(c._logits(e, X[2000:])) for e in c.estimators_]
    geometric, arithmetic = c.predict_proba(X[2000:]), np.mean(P, axis=0)
    assert_allclose(geometric, gmean_of(P))
    gaps = [
        Q.max(axis=1).mean() - (Q.argmax(axis=1) == y[2000:]).mean()
        for Q in (geometric, arithmetic)
    ]
    assert gaps[1] < gaps[0] < 0
    assert log_loss(y[2000:], geometric) < log_loss(y[2000:], arithmetic)


@pytest.mark.parametrize("base", [GaussianNB(), LinearSVC(), KNeighborsClassifier()], ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_average_over_the_classifiers_of_all_splits(base, n_classes):
    X, y = problem(n_classes)
    c = CalibratedClassifier(base, PlattScaling(), cv=3).fit(X[:200], y[:200])
    one = CalibratedClassifier(base, PlattScaling(), cv=3, ensemble=False).fit(X[:200], y[:200])
    assert_array_equal(c.calibrator_.coef_, one.calibrator_.coef_)
    assert (len(c.estimators_), len(c.calibrators_)) == (3, 1)
    P = []
    for train, _ in StratifiedKFold(3).split(X[:200], y[:200]):
        fitted = FrozenEstimator(clone(base).fit(X[train], y[train]))
        t = LogitTransformer(fitted, min_proba=c.min_proba_).fit(X[train], y[train])
        P.append(c.calibrator_.predict_proba(t.transform(X[200:])))
    assert_allclose(c.predict_proba(X[200:]), gmean_of(P), rtol=1e-12)
    with pytest.raises(AttributeError, match="estimators_"):
        c.estimator_  # noqa: B018


@pytest.mark.filterwarnings("ignore:The training rows of 1 of 3 splits")
@pytest.mark.filterwarnings("ignore:No row has label")
def test_one_classifier_if_outputs_of_splits_cannot_be_averaged():
    """Classifiers of splits know fewer classes or labels, or take kernels of their own rows."""
    fold = np.where(y == 2, 0, np.arange(len(y)) % 3)
    Y = np.column_stack([y == 0, fold == 0])
    for base, rows, labels in (
        (GaussianNB(), X, y),
        (KNeighborsClassifier(), X, Y),
        (SVC(kernel="precomputed"), X @ X.T, y),
        (FrozenEstimator(GaussianNB().fit(X, y)), X, y),
    ):
        cv = StratifiedKFold(3) if rows is not X else PredefinedSplit(fold)
        with of_case(base):
            c = CalibratedClassifier(base, TemperatureScaling(), cv=cv).fit(rows, labels)
            one = clone(c).set_params(ensemble=False).fit(rows, labels)
            assert len(c.estimators_) == 1
            assert_array_equal(c.predict_proba(rows), one.predict_proba(rows))


# --------------------------------------------------------------------------------------
# Held-out logits.


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("base", "method"), [(GaussianNB(), "predict_proba"), (LinearSVC(), "decision_function")]
)
def test_held_out_logits_match_a_loop(base, method, n_classes):
    X, y = problem(n_classes)

    def logits(output):
        return np.log(np.maximum(output, LEAST)) if method == "predict_proba" else output

    t = LogitTransformer(base, cv=4)
    expected = logits(cross_val_predict(base, X, y, cv=4, method=method))
    assert_allclose(t.fit_transform(X, y), expected.reshape(len(y), -1))
    everything = getattr(clone(base).fit(X, y), method)(X)
    assert_allclose(t.transform(X), logits(everything).reshape(len(y), -1))


def test_overfitted_classifiers_are_calibrated_on_held_out_rows():
    """Calibration on the training rows of a classifier would keep its over-confidence."""
    X, y = make_classification(600, flip_y=0.3, random_state=0)
    half = slice(0, 300), slice(300, None)
    tree = DecisionTreeClassifier(random_state=0)
    frozen = FrozenEstimator(clone(tree).fit(X[half[0]], y[half[0]]))
    leak = LogitTransformer(frozen, min_proba=LEAST)
    Z = leak.fit_transform(X[half[0]], y[half[0]])
    assert softmax(Z, axis=1).max(axis=1).mean() > 0.999
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        P = TemperatureScaling().fit(Z, y[half[0]]).predict_proba(leak.transform(X[half[1]]))
    for c in (
        CalibratedClassifier(tree, TemperatureScaling()),
        make_pipeline(LogitTransformer(tree), TemperatureScaling()),
        make_pipeline(LogitTransformer(tree, cv=None), TemperatureScaling()),
    ):
        honest = c.fit(X[half[0]], y[half[0]]).predict_proba(X[half[1]])
        assert log_loss(y[half[1]], honest) < 0.7 < 1.5 < log_loss(y[half[1]], P)


@pytest.mark.parametrize("kind", quick(CALIBRATORS))
def test_pipeline_and_calibrated_classifier_are_the_same(kind):
    for base in (GaussianNB(), LinearSVC()):
        one = CalibratedClassifier(base, kind(), ensemble=False).fit(X, y)
        two = make_pipeline(LogitTransformer(base), kind()).fit(X, y)
        assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize(("min_proba", "least"), [(LEAST, LEAST), (0.01, 0.01), (1e-320, TINY)])
def test_min_proba_bounds_zero_probabilities(min_proba, least):
    t = LogitTransformer(KNeighborsClassifier(3), cv=3, min_proba=min_proba)
    assert t.fit_transform(X, y).min() == np.log(least)
    P = t.estimator_.predict_proba(X)
    assert_array_equal(np.exp(t.transform(X)) > 1.5 * least, P > 0)


@pytest.mark.parametrize(
    ("rare", "least"),
    [
        ([0.2, 0.8, 0], 0.1),
        ([1e-3, 0.999, 0], 5e-4),
        ([1e-3, 0.998, 1e-3], 1e-15),  # no zero
        ([1e-300, 1, 0], 1e-15),  # zeros of naive Bayes, which counts no votes
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_min_proba_is_half_the_smallest_positive_probability(rare, least, frozen):
    y = np.arange(60) % 3
    P = np.full((60, 3), 0.2) + 0.4 * np.eye(3)[y]
    P[7], y[::10] = rare, 0
    base = FrozenEstimator(Given().fit(P, y)) if frozen else Given()
    for kind in (LogitTransformer(base), CalibratedClassifier(base, TemperatureScaling())):
        assert kind.fit(P, y).min_proba_ == least
    # Only the row without weight has a zero.
    w = (np.arange(60) != 7).astype(float)
    c = CalibratedClassifier(base, TemperatureScaling())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a classifier that takes no weights
        assert c.fit(P, y, sample_weight=w).min_proba_ == LEAST


@pytest.mark.parametrize(
    ("rare", "least"),
    [
        ([0, 0.4, 0.4], 0.1),
        ([1, 0.4, 0.4], 0.1),  # the probability of not having the label is zero
        ([0, 0.04, 0.4], 0.02),
        ([0, 0.96, 0.4], 0.02),
        ([0, np.nextafter(1, 0), 0.4], 0.1),  # all votes, rounded
        ([0.2, 0.8, 0.4], 1e-15),
    ],
)
def test_min_proba_is_set_for_each_label_and_its_complement(rare, least):
    """Lower bounds exist for the probability of a label and of its complement."""
    rng = np.random.default_rng(0)
    Y = rng.random((60, 3)) < 0.5
    P = np.where(rng.random((60, 3)) < 0.5, 0.2, 0.8)
    P[7] = rare
    for kind in (LogitTransformer(Given()), CalibratedClassifier(Given())):
        assert kind.fit(P, Y).min_proba_ == pytest.approx(least, rel=1e-9)
    # Zeros of labels missing in training rows do not count as zeros of the classifier.
    Y[:, 0] = np.arange(60) < 12
    if least == 1e-15:
        with pytest.warns(UserWarning, match="label 0"):
            assert LogitTransformer(Given()).fit(P, Y).min_proba_ == least


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ensemble", [False, True])
def test_log_of_probabilities_is_finite(dtype, ensemble):
    """A probability of zero is replaced by the smallest positive number of the dtype."""
    base = LinearDiscriminantAnalysis()  # which keeps the precision
    c = CalibratedClassifier(base, Certain(), cv=2, ensemble=ensemble).fit(X.astype(dtype), y)
    P, log_P = c.predict_proba(X.astype(dtype)), c.predict_log_proba(X.astype(dtype))
    assert (P == 0).any()
    assert_allclose(log_P[P > 0], np.log(P[P > 0]))
    assert_allclose(log_P[P == 0], np.log(np.finfo(P.dtype).tiny))
    assert log_P.dtype == P.dtype == dtype


def test_rows_in_several_test_sets():
    """scikit-learn #19150: repeated splits and ensemble=False."""
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    Z = LogitTransformer(GaussianNB(), cv=cv).fit_transform(X, y)
    splits = list(cv.split(X, y))
    halves = [
        LogitTransformer(GaussianNB(), cv=s).fit_transform(X, y) for s in (splits[:3], splits[3:])
    ]
    assert_allclose(Z, np.mean(halves, axis=0))
    # The calibrator sees each row twice with half its weight, not the mean of its logits.
    c = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=cv).fit(X, y)
    weights = np.full(2 * len(y), 0.5)
    direct = PlattScaling().fit(np.vstack(halves), np.tile(y, 2), sample_weight=weights)
    assert_allclose(c.calibrator_.coef_, direct.coef_, rtol=1e-6)


@pytest.mark.parametrize("cv", [TimeSeriesSplit(4), ShuffleSplit(2, random_state=0)], ids=repr)
def test_splits_that_leave_rows_out(cv):
    splits = list(cv.split(X, y))
    c = of_naive_bayes(cv=cv).fit(X, y)
    Z = [GaussianNB().fit(X[a], y[a]).predict_log_proba(X[b]) for a, b in splits]
    rows = np.concatenate([b for _, b in splits])
    w = 1 / np.bincount(rows)[rows]
    direct = TemperatureScaling().fit(np.vstack(Z), y[rows], sample_weight=w)
    assert c.calibrator_.temperature_ == pytest.approx(direct.temperature_, rel=1e-6)
    with pytest.raises(ValueError, match="every row"):
        LogitTransformer(Unfittable(), cv=cv).fit_transform(X, y)


@pytest.mark.parametrize("base", [GaussianNB(), LinearSVC()], ids=repr)
def test_classes_missing_in_a_split(base):
    """Its rows there say nothing about the classifier that knows the class."""
    groups = np.where(y == 2, 0, 1 + np.arange(len(y)) % 3)
    cv = PredefinedSplit(groups)
    with pytest.warns(UserWarning, match="1 of 4 splits"):
        Z = LogitTransformer(base, cv=cv).fit_transform(X, y)
    probability = Z[:, 2] - logsumexp(Z, axis=1)
    assert_allclose(probability[y == 2], np.log(LEAST))
    with pytest.warns(UserWarning, match="lack class 2"):
        c = CalibratedClassifier(base, TemperatureScaling(), cv=cv).fit(X, y)
    known = y != 2
    direct = TemperatureScaling(classes=range(3)).fit(Z[known], y[known])
    assert c.calibrator_.temperature_ == pytest.approx(direct.temperature_, rel=1e-6)
    assert c.calibrator_.classes_.tolist() == [0, 1, 2]


def test_a_class_that_a_split_lacks_in_an_ensemble():
    fold = np.arange(len(y)) % 3
    splits = [((fold != k) & ((k > 0) | (y < 2)), fold == k) for k in range(3)]
    c = CalibratedClassifier(GaussianNB(), VectorScaling(), cv=splits, ensemble=True)
    with pytest.warns(UserWarning, match="lack class 'c'"):
        c.fit(X, NAMES)
    assert [len(pair.classes_) for pair in c.calibrators_] == [2, 3, 3]
    parts = [
        pair.predict_proba(np.log(np.maximum(e.predict_proba(X), LEAST)))
        for e, pair in zip(c.estimators_, c.calibrators_, strict=True)
    ]
    parts[0] = np.column_stack([parts[0], np.zeros(len(y))])
    assert_allclose(c.predict_proba(X), np.mean(parts, axis=0))


SORTED = np.repeat([0, 1, 2], 80)


ALL, LAST = np.arange(240), np.arange(160, 240)


@pytest.mark.parametrize(
    ("cv", "ensemble", "message"),
    [
        ([(np.delete(ALL, np.s_[60:80]), ALL[60:80])], True, r"\[0\] in split 0"),
        (  # a class that the training rows lack
            [(ALL[:160], ALL[60:100]), (ALL[:160], ALL[150:])], True, r"\[1\] in split 1"
        ),
        ([(ALL[:160], LAST)], False, r"got \[\]"),
        ([(ALL[:160], LAST), (ALL[80:], ALL[:90])], False, r"\[1\]"),
        (PredefinedSplit(SORTED), True, r"\[\] in split 0"),
        # The error on training rows with one class comes before the error on test rows.
        ([(ALL[80:150], ALL)], False, r"training rows .*\[1\] in split 0"),
        ([(ALL, ALL), (ALL[:9], [0])], True, r"\[0\] in split 1"),
    ],
)  # fmt: skip
def test_splits_with_one_class_are_refused_before_any_fit(cv, ensemble, message):
    X = np.zeros((240, 2))
    c = CalibratedClassifier(Unfittable(), TemperatureScaling(), cv=cv, ensemble=ensemble)
    with pytest.raises(ValueError, match=message):
        c.fit(X, SORTED)


def test_rows_without_weight_are_no_rows_to_fit_a_calibrator_to():
    splits = list(StratifiedKFold(3).split(X, y))
    w, c = np.ones(len(y)), CalibratedClassifier(Weighable(), TemperatureScaling(), cv=splits)
    w[splits[1][1][y[splits[1][1]] != 2]] = 0
    with pytest.raises(ValueError, match="split 1"):
        clone(c).set_params(ensemble=True).fit(X, y, sample_weight=w)
    of_naive_bayes(cv=splits).fit(X, y, sample_weight=w)
    with pytest.raises(ValueError, match="one class"):
        c.fit(X, y, sample_weight=w * (y == 2))


def test_classes_with_fewer_rows_than_folds_are_held_out():
    rows = np.r_[np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:3]]
    with pytest.warns(UserWarning, match="n_splits=5"):
        LogitTransformer(GaussianNB()).fit(X[rows], y[rows])


def test_fit_does_not_modify_the_passed_estimator():
    """Other libraries fit or refit the estimator that the user passed."""
    base, calibrator = make_pipeline(StandardScaler(), GaussianNB()), PlattScaling()
    for kind in (CalibratedClassifier(base, calibrator), LogitTransformer(base, cv=3)):
        kind.fit(X, y)
        for part in (base[0], base[1], calibrator):
            with pytest.raises(NotFittedError):
                check_is_fitted(part)


# --------------------------------------------------------------------------------------
# Frozen classifiers.


@pytest.mark.parametrize("ensemble", [False, True])
def test_frozen_classifiers_are_not_refitted(ensemble):
    fitted = LogisticRegression().fit(X[:120], y[:120])
    before = fitted.coef_.copy()
    frozen = FrozenEstimator(fitted)
    c = CalibratedClassifier(frozen, TemperatureScaling(), ensemble=ensemble)
    c.fit(X[120:], y[120:], np.ones(120))
    pipe = make_pipeline(LogitTransformer(frozen), TemperatureScaling()).fit(X[120:], y[120:])
    direct = TemperatureScaling().fit(fitted.decision_function(X[120:]), y[120:])
    assert c.calibrator_.temperature_ == pytest.approx(direct.temperature_, rel=1e-9)
    assert_allclose(c.predict_proba(X), pipe.predict_proba(X))
    t = LogitTransformer(frozen, cv=[(np.arange(9), np.arange(9))])  # no splits are needed
    assert_array_equal(t.fit_transform(X, y), t.transform(X))
    assert_array_equal(fitted.coef_, before)


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
@pytest.mark.parametrize("kind", quick(CALIBRATORS))
def test_frozen_classifier_that_knows_more_classes(kind):
    """A class that the calibration rows lack causes IndexError, a lost column or NaN elsewhere."""
    frozen = FrozenEstimator(GaussianNB().fit(X, NAMES))
    for missing in (0, 2):
        rows = y != missing
        c = CalibratedClassifier(frozen, kind(**order_of(kind, ["a", "b", "c"])))
        c = c.fit(X[rows], NAMES[rows])
        assert c.classes_.tolist() == ["a", "b", "c"]
        assert c.predict_proba(X).shape == (len(y), 3)


# --------------------------------------------------------------------------------------
# Classifiers that have their methods only once they are fitted.


def test_response_methods_that_exist_after_fit_are_used():
    stacking = StackingClassifier([("a", GaussianNB())], cv=2)
    for base in (stacking, make_pipeline(StandardScaler(), stacking)):
        c = CalibratedClassifier(base, TemperatureScaling(), cv=2).fit(X, y)
        t = LogitTransformer(base, cv=2, response_method="predict_proba").fit(X, y)
        assert (c.response_method_, t.response_method_) == ("decision_function", "predict_proba")
        assert log_loss(y, c.predict_proba(X)) < 0.9
        assert_allclose(softmax(t.transform(X), axis=1), t.estimator_.predict_proba(X))
    for calibrator in (stacking, EstimatorCalibration(stacking)):
        c = CalibratedClassifier(GaussianNB(), calibrator, cv=2).fit(X, y)
        assert log_loss(y, c.predict_proba(X)) < 0.9


# --------------------------------------------------------------------------------------
# Calibrators of the user.


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_pipeline_of_calibrators_gets_weights_and_classes():
    w = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    frozen = FrozenEstimator(GaussianNB().fit(X, NAMES))
    rows = y != 1
    chain = make_pipeline(TemperatureScaling(), HistogramBinning())
    c = CalibratedClassifier(frozen, chain).fit(X[rows], NAMES[rows], sample_weight=w[rows])
    twice = np.repeat(np.flatnonzero(rows), w[rows].astype(int))
    again = CalibratedClassifier(frozen, chain).fit(X[twice], NAMES[twice])
    assert_allclose(c.predict_proba(X), again.predict_proba(X), rtol=1e-6)


def test_weights_of_a_classifier_that_takes_none():
    w = np.arange(len(y)) % 3 + 1.0
    c = CalibratedClassifier(KNeighborsClassifier(), PlattScaling())
    with pytest.warns(UserWarning, match="sample_weight"):
        c.fit(X, y, sample_weight=w)
    Z = LogitTransformer(KNeighborsClassifier(), cv=5).fit_transform(X, y)
    assert_allclose(c.calibrator_.coef_, PlattScaling().fit(Z, y, w).coef_)


def test_the_only_group_of_a_test_set():
    """A calibrator that splits rows by groups is fitted without them."""
    auto = AutoCalibrator([TemperatureScaling(), VectorScaling()])
    c = CalibratedClassifier(GaussianNB(), auto, cv=LeaveOneGroupOut(), ensemble=True)
    c.fit(X, y, groups=np.arange(len(y)) % 3)
    alone = clone(auto).fit(c._logits(c.estimators_[0], X[::3]), y[::3])
    assert c.calibrators_[0].weights_ == alone.weights_


# --------------------------------------------------------------------------------------
# Metadata routing.


@pytest.mark.slow
def test_weights_and_groups_are_routed():
    given = {"sample_weight": np.arange(len(y)) % 3 + 1.0, "groups": np.arange(len(y)) // 10}
    one = {"cv": GroupKFold(4), "ensemble": False}
    expected = of_naive_bayes(**one).fit(X, y, **given).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        base = GaussianNB().set_fit_request(sample_weight=True)
        temperature = TemperatureScaling().set_fit_request(sample_weight=True)
        c = CalibratedClassifier(base, TemperatureScaling(), **one)
        c.set_fit_request(sample_weight=True).fit(X, y, **given)
        assert_allclose(c.predict_proba(X), expected)
        scaled = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), c)
        assert_allclose(scaled.fit(X, y, **given).predict_proba(X), expected, rtol=1e-4)
        pipe = make_pipeline(LogitTransformer(base, cv=GroupKFold(4)), temperature)
        assert_allclose(pipe.fit(X, y, **given).predict_proba(X), expected)
        LogitTransformer(base, cv=GroupKFold(4)).fit(X, y, **given)
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
            of_naive_bayes(cv=GroupKFold(4)).fit(X, y, **given)


# --------------------------------------------------------------------------------------
# Features that are no arrays, and their columns.


FEATURES = {
    "sparse": (LogisticRegression(), LogisticRegression(), csr_array),
    "kernel": (SVC(kernel="linear"), SVC(kernel="precomputed"), lambda X: X @ X.T),
}


@pytest.mark.parametrize("form", FEATURES)
def test_other_features_match_arrays(form):
    (X, y), (plain, base, features) = problem(), FEATURES[form]
    c = CalibratedClassifier(base, TemperatureScaling(), ensemble=False).fit(features(X), y)
    expected = clone(c).set_params(estimator=plain).fit(X, y).predict_proba(X)
    assert_allclose(c.predict_proba(features(X)), expected, rtol=0.01)


@pytest.mark.parametrize("kind", [LogitTransformer, CalibratedClassifier])
def test_tags_match_the_classifier(kind):
    for base in (LogisticRegression(), SVC(kernel="precomputed"), HistGradientBoostingClassifier()):
        assert get_tags(kind(base)).input_tags == get_tags(base).input_tags
    assert not get_tags(kind("svm")).input_tags.sparse


def test_names_of_logits():
    t = LogitTransformer(GaussianNB(), cv=3).set_output(transform="pandas")
    frame = t.fit_transform(pd.DataFrame(X).add_prefix("x"), NAMES)
    assert list(frame.columns) == ["logit_a", "logit_b", "logit_c"]
    c = TemperatureScaling().fit(frame, y)
    assert c.feature_names_in_.tolist() == list(frame.columns)
    t = LogitTransformer(LinearSVC(), cv=3).fit(X, y == 1)
    assert t.get_feature_names_out().tolist() == ["logit_True"]
    assert t.transform(X).shape == (len(y), 1)
    t = LogitTransformer(LinearSVC(), cv=3).fit(X, y)
    assert t.get_feature_names_out().tolist() == ["logit_0", "logit_1", "logit_2"]
    pipe = make_pipeline(LogitTransformer(GaussianNB(), cv=3), TemperatureScaling()).fit(X, y)
    assert pipe.get_feature_names_out().tolist() == ["logit_0", "logit_1", "logit_2"]


# --------------------------------------------------------------------------------------
# Bad input.

PAIRS = SVC(decision_function_shape="ovo")


@pytest.mark.parametrize("kind", [LogitTransformer, CalibratedClassifier])
@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        *((e, "classifier") for e in (Ridge(), GaussianNB, StandardScaler(), "svm")),
        (FrozenEstimator(GaussianNB()), "cv=5"),
        (PAIRS, "decision_function_shape='ovr'"),
        (make_pipeline(StandardScaler(), PAIRS), "decision_function_shape='ovr'"),
        (sklearn.ensemble.VotingClassifier([("a", GaussianNB())]), "predict_proba"),
    ],
    ids=repr,
)
def test_what_is_no_classifier_is_refused(kind, estimator, word):
    with pytest.raises(ValueError, match=word):
        kind(estimator, cv=3).fit(X, y)


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"response_method": "predict"}, "'auto'"),
        ({"response_method": "decision_function"}, "Unfittable"),
        ({"min_proba": 0}, "got 0"),
        ({"min_proba": "eps"}, "'eps'"),
        ({"cv": 90}, "smaller cv"),
        ({"cv": StratifiedKFold(90)}, "smaller cv"),
        ({"cv": "prefit"}, "FrozenEstimator"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [LogitTransformer, CalibratedClassifier])
def test_wrong_parameters_are_refused_before_any_fit(kind, params, word):
    """All before anything is fitted."""
    rows = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:40]])
    with pytest.raises(ValueError, match=word):
        kind(Unfittable(), **{"cv": 3, **params}).fit(X[rows], NAMES[rows].astype(object))
    if kind is CalibratedClassifier:
        with pytest.raises(ValueError, match="ensemble"):
            kind(Unfittable(), ensemble="pairs").fit(X, y)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"y": None}, "y to be passed"),
        ({"y": np.zeros(240)}, "one class"),
        ({"y": np.linspace(0, 1, 240)}, "continuous"),
        ({"y": np.zeros(7)}, "inconsistent"),
        ({"X": np.empty((0, 3)), "y": []}, "0 samples"),
        ({"sample_weight": np.full(240, -1)}, "negative"),
        ({"sample_weight": np.ones(3)}, "shape"),
    ],
)
def test_wrong_rows_are_refused_before_any_fit(change, word):
    with pytest.raises(ValueError, match=word):
        CalibratedClassifier(Unfittable(), TemperatureScaling()).fit(**{"X": X, "y": y, **change})


def test_margins_of_pairs_of_classes_are_refused():
    X, y = problem(5)
    t = LogitTransformer(PAIRS, response_method="decision_function")
    with pytest.raises(ValueError, match="10 columns"):
        t.fit(X, y).transform(X)


def test_labels_that_a_frozen_classifier_does_not_know():
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.raises(ValueError, match="got 3"):
        CalibratedClassifier(frozen).fit(X, y + 1)


def test_failed_fit_leaves_the_estimator_unchanged():
    c = of_naive_bayes().fit(X, y)
    before = c.predict_proba(X)
    with pytest.raises(ValueError, match="one class"):
        c.fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="NaN"):
        c.fit(np.full_like(X, np.nan), y)
    assert_array_equal(c.predict_proba(X), before)


@pytest.mark.parametrize(
    "ensemble", ["auto", *(pytest.param(e, marks=pytest.mark.slow) for e in (True, False))]
)
def test_features_reach_the_calibrator(ensemble):
    """In any form, for the rows of each split, and at prediction."""
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(600, 3)), rng.integers(2, size=600)
    y = (X[:, 0] + 3 * sex + rng.logistic(size=600) > 1.5).astype(int)
    words = np.array(["woman", "man"])[sex]
    frame = pd.DataFrame({"sex": words})
    calibrator = ConditionalCalibrator([PlattScaling()], cv=2)
    classifier = CalibratedClassifier(GaussianNB(), calibrator, cv=2, ensemble=ensemble)
    losses = {}
    for name, features in {"frame": frame, "array": words, "list": [[w] for w in words]}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the features are better than the logits
            classifier.fit(X, y, features=features)
        losses[name] = log_loss(y, classifier.predict_proba(X, features=features))
    assert losses["frame"] == losses["array"] == losses["list"]
    plain = CalibratedClassifier(GaussianNB(), PlattScaling(), ensemble=ensemble).fit(X, y)
    assert losses["frame"] < 0.9 * log_loss(y, plain.predict_proba(X))
    assert (classifier.predict(X, features=words) != plain.predict(X)).any()
    with pytest.warns(UserWarning, match="got none"):
        classifier.predict_log_proba(X)
    with pytest.raises(ValueError, match="600 rows"):
        clone(classifier).fit(X, y, features=words[1:])
    with pytest.raises(ValueError, match="PlattScaling"):
        CalibratedClassifier(GaussianNB(), PlattScaling()).fit(X, y, features=words)


@pytest.mark.slow
def test_features_change_the_default_calibrator():
    X, y = make_classification(300, random_state=0)
    classifier = CalibratedClassifier(GaussianNB()).fit(X, y, features=y[::-1].astype(str))
    assert isinstance(classifier.calibrator_, ConditionalCalibrator)


@pytest.mark.parametrize(("n_classes", "min_proba"), [(2, 0.5), (2, 0.7), (3, 0.4), (10, 0.1)])
@pytest.mark.parametrize("kind", [CalibratedClassifier, LogitTransformer])
def test_min_proba_is_below_the_uniform_probability(kind, n_classes, min_proba):
    y = np.arange(200) % n_classes
    Z = np.eye(n_classes)[y]
    with pytest.raises(ValueError, match="min_proba"):
        kind(LogisticRegression(), min_proba=min_proba).fit(Z, y)


@pytest.mark.slow
def test_parameters_of_calibrator_and_classifier_are_searched_for():
    classifier = CalibratedClassifier(LogisticRegression(), MatrixScaling(), cv=3)
    grid = {"calibrator__alpha": [1e-3, 1.0, 1e3], "estimator__C": [1e-3, 1.0]}
    found = GridSearchCV(classifier, grid, scoring="neg_log_loss", cv=3).fit(X, y)
    assert found.cv_results_["mean_test_score"].shape == (6,)
    assert np.ptp(found.cv_results_["mean_test_score"]) > 1e-3
    assert found.best_estimator_.estimators_[-1].C == found.best_params_["estimator__C"]
    assert found.best_estimator_.calibrator_.alpha == found.best_params_["calibrator__alpha"]

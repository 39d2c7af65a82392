"""Classifiers of several labels per row, with their logits and with a calibrator."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    CalibratedClassifier,
    LogitTransformer,
    MultiLabelCalibrator,
    PlattScaling,
    TemperatureScaling,
)
from skcalib.metrics import calibration_scorer

X, Y = make_multilabel_classification(400, 10, n_classes=4, length=40, random_state=0)
X, Y, X_TEST, Y_TEST = X[:250], Y[:250], X[250:], Y[250:]
LINEAR = LinearDiscriminantAnalysis()
NAIVE = OneVsRestClassifier(GaussianNB())
CLASSIFIERS = {
    "one versus rest": OneVsRestClassifier(LINEAR),
    "probabilities of one versus rest": NAIVE,
    "a list of outputs": MultiOutputClassifier(LINEAR),
    "chain": ClassifierChain(LINEAR, random_state=0),
    "network": MLPClassifier([4], max_iter=10, random_state=0),
    "forest": RandomForestClassifier(5, random_state=0),
    "neighbours": KNeighborsClassifier(),
    "pipeline": make_pipeline(StandardScaler(), OneVsRestClassifier(LINEAR)),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Label .*is present:UserWarning"
)


def log_odds_of(classifier, X, least=1e-15):
    """Literal log-odds from decision_function or else from predict_proba."""
    if hasattr(classifier, "decision_function"):
        return classifier.decision_function(X)
    P = classifier.predict_proba(X)
    P = np.column_stack([p[:, 1] for p in P]) if isinstance(P, list) else P
    return np.log(np.maximum(P, least)) - np.log(np.maximum(1 - P, least))


@pytest.mark.slow
@pytest.mark.parametrize("classifier", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_logits_and_their_calibrator(classifier):
    transformer = LogitTransformer(classifier, cv=2)
    held_out = transformer.fit_transform(X, Y)
    least = transformer.min_proba_
    all_rows = clone(classifier).fit(X, Y)
    assert_allclose(transformer.transform(X), log_odds_of(all_rows, X, least), atol=0.1)
    for train, test in KFold(2).split(X):
        fitted = clone(classifier).fit(X[train], Y[train])
        assert_allclose(held_out[test], log_odds_of(fitted, X[test], least), atol=0.1)
    assert_array_equal(transformer.classes_, np.arange(4))
    assert list(transformer.get_feature_names_out()) == [f"logit_{j}" for j in range(4)]
    one = make_pipeline(clone(transformer), MultiLabelCalibrator()).fit(X, Y)
    other = CalibratedClassifier(classifier, MultiLabelCalibrator(), cv=2, ensemble=False)
    other.fit(X, Y)
    assert_allclose(one.predict_proba(X_TEST), other.predict_proba(X_TEST), rtol=1e-9)
    assert_array_equal(other.predict(X_TEST), other.predict_proba(X_TEST) > 0.5)
    assert other.predict_proba(X_TEST).shape == other.predict_log_proba(X_TEST).shape == (150, 4)
    assert other.score(X_TEST, sp.csr_array(Y_TEST)) == other.score(X_TEST, Y_TEST)
    assert other.multilabel_


@pytest.mark.parametrize(
    "calibrator", [None, PlattScaling(), make_pipeline(MultiLabelCalibrator(PlattScaling()))]
)
def test_calibrators_of_two_classes_are_fitted_to_each_label(calibrator):
    expected = CalibratedClassifier(NAIVE, MultiLabelCalibrator(), cv=2).fit(X, Y)
    fitted = CalibratedClassifier(NAIVE, calibrator, cv=2).fit(X, Y)
    assert_array_equal(fitted.predict_proba(X_TEST), expected.predict_proba(X_TEST))


def test_frozen_classifiers_and_ensembles_are_calibrated_per_label():
    frozen = FrozenEstimator(clone(NAIVE).fit(X[:100], Y[:100]))
    fitted = CalibratedClassifier(frozen, TemperatureScaling()).fit(X[100:], Y[100:])
    Z = log_odds_of(frozen, X[100:])
    alone = MultiLabelCalibrator(TemperatureScaling()).fit(Z, Y[100:])
    expected = alone.predict_proba(log_odds_of(frozen, X_TEST))
    assert_allclose(fitted.predict_proba(X_TEST), expected, rtol=1e-5)
    pairs = CalibratedClassifier(NAIVE, cv=3, ensemble=True).fit(X, Y)
    each = [
        c.predict_proba(log_odds_of(e, X_TEST))
        for e, c in zip(pairs.estimators_, pairs.calibrators_, strict=True)
    ]
    assert_allclose(pairs.predict_proba(X_TEST), np.mean(each, axis=0))


# ------------------------------------------------------------------------------------------
# Labels that training rows lack.

RARE = Y.copy()
RARE[:, 1] = 0
RARE[:2, 1] = 1  # in the test rows of the first split only
RARE[:, 3] = 0


def test_log_odds_of_constant_training_labels_are_clipped():
    lacking, having = RARE[:, :2], np.abs(RARE[:, :2] - [0, 1])
    for E, sign in ((lacking, 1), (having, -1)):
        t = LogitTransformer(OneVsRestClassifier(LINEAR), cv=5)
        with pytest.warns(UserWarning, match="label 1"):
            Z = t.fit_transform(X, E)
        assert_allclose(Z[:50, 1], sign * logit(1e-15), rtol=0.01)
        assert (sign * Z[50:, 1] > logit(1e-14)).all()
    assert t.get_feature_names_out().tolist() == ["logit_0", "logit_1"]  # which are no classes


@pytest.mark.filterwarnings("ignore:No row has label")
def test_rows_of_splits_without_a_label_do_not_count_for_it():
    """The classifier that is fitted without a label says nothing about the others."""
    with pytest.warns(UserWarning, match="1 of 5 splits"):
        fitted = CalibratedClassifier(OneVsRestClassifier(LINEAR)).fit(X, RARE)
    shifted = fitted.calibrator_.calibrators_[1]
    assert shifted.coef_ == [1]
    splits = list(KFold(5).split(X))[1:]
    models = [(clone(LINEAR).fit(X[train], RARE[train, 1]), test) for train, test in splits]
    held_out = np.concatenate([one.decision_function(X[test]) for one, test in models])
    mean = expit(held_out + shifted.intercept_).mean()
    assert mean == pytest.approx(min(0.5 / 201, expit(held_out).mean()))
    P = fitted.predict_proba(X_TEST)
    assert_allclose(P[:, 3], 0.5 / 251)
    assert np.isfinite(P).all()


# ------------------------------------------------------------------------------------------
# Searches, and bad input.


@pytest.mark.slow
def test_searches_choose_the_calibrator():
    search = GridSearchCV(
        CalibratedClassifier(NAIVE, cv=2),
        {"calibrator": [TemperatureScaling(), PlattScaling()]},
        scoring=calibration_scorer("neg_multilabel_log_loss"),
        cv=2,
    ).fit(X, Y)
    results = search.cv_results_["mean_test_score"]
    assert search.best_score_ == results.max() < results.min() + 0.1 < 0
    assert search.predict(X_TEST).shape == (150, 4)


SEVERAL = CalibratedClassifier(NAIVE)
OF_THREE = FrozenEstimator(clone(NAIVE).fit(X, Y[:, :3]))
BAD = {
    "one label per row": (CalibratedClassifier(LINEAR), Y, "OneVsRestClassifier"),
    "sparse": (LogitTransformer(LINEAR), sp.csr_array(Y), "one label per row"),
    "one hot": (CalibratedClassifier(LINEAR), np.eye(4)[Y.argmax(1)], r"y.argmax\(axis=1\)"),
    "counts": (SEVERAL, 2 * Y, "got 2"),
    "length": (SEVERAL, Y[:9], "inconsistent"),
    "frozen to others": (CalibratedClassifier(OF_THREE), Y, "4 labels"),
    "stratified": (CalibratedClassifier(NAIVE, cv=StratifiedKFold(3)), Y, "multilabel"),
    "order of classes": (
        CalibratedClassifier(NAIVE, PlattScaling(classes=[1, 0])), Y, r"got \[1, 0\]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_wrong_labels_are_refused_and_change_nothing(case):
    estimator, y, message = BAD[case]
    estimator = clone(estimator)
    before = vars(estimator).copy()
    with pytest.raises(ValueError, match=f"(?s){message}"):
        estimator.fit(X, y)
    assert vars(estimator) == before


def test_outputs_of_several_classes_are_refused():
    y = np.column_stack([Y[:, 0], Y[:, 0] + Y[:, 1]])
    frozen = FrozenEstimator(MultiOutputClassifier(GaussianNB()).fit(X, y))
    with pytest.raises(ValueError, match="0, 1, 2"):
        CalibratedClassifier(frozen).fit(X, Y[:, :2])

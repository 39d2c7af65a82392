"""Scorers inside scikit-learn's model selection."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skcalib import TemperatureScaling, metrics
from skcalib.metrics._scorers import _miscalibration

OWN = {
    **{
        f"neg_{measure.__name__}": (measure, {})
        for measure in (
            metrics.overconfidence_error,
            metrics.underconfidence_error,
            metrics.debiased_expected_calibration_error,
            metrics.debiased_root_mean_squared_calibration_error,
            metrics.smooth_calibration_error,
        )
    },
    "neg_log_loss_miscalibration": (_miscalibration, {"score": "log_loss"}),
    "neg_brier_score_miscalibration": (_miscalibration, {"score": "brier_score"}),
    "neg_expected_calibration_error": (metrics.expected_calibration_error, {}),
    "neg_maximum_calibration_error": (metrics.maximum_calibration_error, {}),
    "neg_root_mean_squared_calibration_error": (metrics.root_mean_squared_calibration_error, {}),
    "neg_classwise_calibration_error": (metrics.expected_calibration_error, {"kind": "classwise"}),
}
every = pytest.mark.parametrize("name", OWN)
X, y = load_iris(return_X_y=True)


@pytest.fixture(params=["binary", "multi-class"])
def problem(request):
    if request.param == "binary":
        X, y = make_classification(200, random_state=0)
        return X, np.array(["no", "yes"])[y]
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@every
def test_score_with_weights(name, problem):
    X, y = problem
    measure, params = OWN[name]
    w = np.random.default_rng(0).uniform(size=len(y))
    classifier = GaussianNB().fit(X, y)
    expected = -measure(y, classifier.predict_proba(X), sample_weight=w, **params)
    assert metrics.calibration_scorer(name)(classifier, X, y, sample_weight=w) == pytest.approx(expected)


def test_arguments_of_the_measure():
    classifier = GaussianNB().fit(X, y)
    scorer = metrics.calibration_scorer("neg_classwise_calibration_error", n_bins=4, strategy="quantile")
    assert scorer(classifier, X, y) == -metrics.expected_calibration_error(
        y, classifier.predict_proba(X), n_bins=4, strategy="quantile", kind="classwise"
    )


@every
def test_column_order_is_that_of_the_classes(name):
    logits = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
    y = np.array([0, 1, 2, 1])
    names = np.array(["zebra", "ant", "bee"])
    calibrator = TemperatureScaling(classes=names).fit(logits, names[y])
    plain = TemperatureScaling().fit(logits, y)
    scorer = metrics.calibration_scorer(name)
    assert scorer(calibrator, logits, names[y]) == pytest.approx(scorer(plain, logits, y))


@every
def test_fold_that_lacks_a_class(name, recwarn):
    classifier = GaussianNB().fit(X, y)
    seen = y != 1
    measure, params = OWN[name]
    expected = -measure(y[seen], classifier.predict_proba(X[seen]), labels=[0, 1, 2], **params)
    assert metrics.calibration_scorer(name)(classifier, X[seen], y[seen]) == pytest.approx(expected)
    assert metrics.calibration_scorer(name)(classifier, X[y == 1], y[y == 1]) <= 0
    assert not recwarn


@every
def test_class_that_the_classifier_never_saw(name):
    """It has been given no probability, so rows of it count as wrong."""
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    classifier = GaussianNB().fit(X[y != 1], names[y != 1])
    measure, params = OWN[name]
    P = np.insert(classifier.predict_proba(X), 1, 0, axis=1)
    expected = -measure(names, P, **params)
    assert metrics.calibration_scorer(name)(classifier, X, names) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in OWN if "expected" in name])
def test_metadata_routing_brings_weights(name):
    w = np.random.default_rng(0).uniform(size=len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = {
            str(asked): metrics.calibration_scorer(name).set_score_request(sample_weight=asked)
            for asked in (True, False)
        }
        model = GaussianNB().set_fit_request(sample_weight=False)
        params = {"sample_weight": w}
        results = cross_validate(model, X, y, scoring=scoring, params=params, error_score="raise")
    plain = cross_val_score(GaussianNB(), X, y, scoring=metrics.calibration_scorer(name))
    np.testing.assert_allclose(results["test_False"], plain)
    assert (results["test_True"] != plain).any()


def test_scorers_are_plain_objects():
    scorer = metrics.calibration_scorer("neg_expected_calibration_error", n_bins=7)
    assert "n_bins" in repr(scorer)
    classifier = GaussianNB().fit(X, y)
    for copy in (pickle.loads(pickle.dumps(scorer)), clone(scorer)):
        assert copy(classifier, X, y) == scorer(classifier, X, y)


def test_names():
    names = metrics.get_scorer_names()
    assert names == sorted(set(names))
    of_labels = {name for name in names if name.startswith("neg_multilabel_")}
    of_features = {"neg_multicalibration_error"}
    assert {*OWN, *of_labels, *of_features, *sklearn.metrics.get_scorer_names()} == set(names)
    for name in names:
        assert callable(metrics.calibration_scorer(name))


def test_bad_names_and_arguments():
    with pytest.raises(ValueError, match=r"no scorer named 'ece'.*get_scorer_names"):
        metrics.calibration_scorer("ece")
    with pytest.raises(ValueError, match=r"'accuracy' is scikit-learn's scorer .* got n_bins"):
        metrics.calibration_scorer("accuracy", n_bins=3)


@every
def test_unknown_arguments_are_named_at_once(name):
    with pytest.raises(ValueError, match=rf"'{name}' takes the arguments .*, got nbins, x\."):
        metrics.calibration_scorer(name, nbins=3, x=1)
    # What the scorer brings itself, or what makes it the one of its name, is no argument.
    for brought in ("labels", "sample_weight", "y_true", *OWN[name][1]):
        with pytest.raises(ValueError, match=rf"arguments .*pos_label(, average)?, got {brought}"):
            metrics.calibration_scorer(name, **{brought: "binary"})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kind": "multilabel", "pos_label": 1}, "pos_label is for kind='binary', got 1"),
        ({"n_bins": 0}, "n_bins must be an integer of at least 1, got 0"),
        ({"strategy": "width"}, "strategy must be one of .* got 'width'"),
        ({"kind": "top"}, "kind must be one of .* got 'top'"),
    ],
)
def test_wrong_values_are_found_at_once(params, message):
    with pytest.raises(ValueError, match=message):
        metrics.calibration_scorer("neg_expected_calibration_error", **params)


@every
def test_right_values_are_accepted(name, problem, recwarn):
    X, y = problem
    names = np.unique(y)
    classifier = GaussianNB().fit(X, y)
    measure, fixed = OWN[name]
    of_each = ["classwise"]
    kinds = ["top-label", *of_each, *(["binary"] * (len(names) == 2))]
    for kind in [None] if "kind" in fixed else kinds:
        given = {} if kind is None else {"kind": kind}
        if kind == "binary":
            given["pos_label"] = names[0]
        expected = -measure(y, classifier.predict_proba(X), **fixed, **given)
        assert metrics.calibration_scorer(name, **given)(classifier, X, y) == pytest.approx(expected)
    assert not recwarn


def test_estimator_without_probabilities():
    with pytest.raises(TypeError, match="needs an estimator with predict_proba, got LinearSVC"):
        metrics.calibration_scorer("neg_expected_calibration_error")(LinearSVC().fit(X, y), X, y)

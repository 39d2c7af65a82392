"""Scorers inside scikit-learn's model selection."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skcalib import TemperatureScaling, compare_calibrators, metrics
from skcalib.clinical import calibration_slope
from skcalib.conditional import multicalibration_error
from skcalib.decision import area_under_risk_coverage, expected_cost


def miscalibration(y, P, **params):
    return np.mean(metrics.score_decomposition(y, P, **params).miscalibration)


OWN = {
    **{
        f"neg_{measure.__name__}": (measure, {})
        for measure in (
            metrics.overconfidence_error,
            metrics.underconfidence_error,
            metrics.debiased_expected_calibration_error,
            metrics.debiased_root_mean_squared_calibration_error,
            metrics.smooth_calibration_error,
            metrics.averaged_two_bin_calibration_error,
        )
    },
    "neg_log_loss_miscalibration": (miscalibration, {"score": "log_loss"}),
    "neg_brier_score_miscalibration": (miscalibration, {"score": "brier_score"}),
    "neg_expected_calibration_error": (metrics.expected_calibration_error, {}),
    "neg_maximum_calibration_error": (metrics.maximum_calibration_error, {}),
    "neg_root_mean_squared_calibration_error": (metrics.root_mean_squared_calibration_error, {}),
    "neg_classwise_calibration_error": (metrics.expected_calibration_error, {"kind": "classwise"}),
}
ECE = "neg_expected_calibration_error"
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
def test_scores_are_negative_measures_of_the_classifier(name, problem, recwarn):
    """With weights, and for each kind of calibration that the measure has."""
    X, y = problem
    measure, fixed = OWN[name]
    w, names = np.random.default_rng(0).uniform(size=len(y)), np.unique(y)
    classifier = GaussianNB().fit(X, y)
    P, kinds = classifier.predict_proba(X), [{}]
    if "kind" not in fixed:
        kinds += [{"kind": "top-label"}, {"kind": "classwise"}]
        kinds += [{"kind": "binary", "pos_label": names[0]}] * (len(names) == 2)
    for given in kinds:
        expected = -measure(y, P, sample_weight=w, **fixed, **given)
        score = metrics.calibration_scorer(name, **given)
        assert score(classifier, X, y, sample_weight=w) == pytest.approx(expected)
    assert not recwarn


@every
def test_column_order_matches_the_classes(name):
    logits = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
    y = np.array([0, 1, 2, 1])
    names = np.array(["zebra", "ant", "bee"])
    calibrator = TemperatureScaling(classes=names).fit(logits, names[y])
    plain = TemperatureScaling().fit(logits, y)
    scorer = metrics.calibration_scorer(name)
    assert scorer(calibrator, logits, names[y]) == pytest.approx(scorer(plain, logits, y))


@every
def test_classes_missing_in_a_fold(name, recwarn):
    classifier = GaussianNB().fit(X, y)
    seen = y != 1
    measure, params = OWN[name]
    expected = -measure(y[seen], classifier.predict_proba(X[seen]), labels=[0, 1, 2], **params)
    assert metrics.calibration_scorer(name)(classifier, X[seen], y[seen]) == pytest.approx(expected)
    assert metrics.calibration_scorer(name)(classifier, X[y == 1], y[y == 1]) <= 0
    assert not recwarn


@every
def test_class_that_the_classifier_never_saw(name):
    """The unseen class has no probability, so its rows count as wrong."""
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


def test_scorers_and_their_copies_pass_arguments_to_the_measure():
    given, classifier = {"n_bins": 4, "strategy": "quantile"}, GaussianNB().fit(X, y)
    scorer = metrics.calibration_scorer("neg_classwise_calibration_error", **given)
    assert "n_bins" in repr(scorer)
    P = classifier.predict_proba(X)
    expected = -metrics.expected_calibration_error(y, P, kind="classwise", **given)
    for copy in (scorer, pickle.loads(pickle.dumps(scorer)), clone(scorer)):
        assert copy(classifier, X, y) == expected


def test_names():
    names = metrics.get_scorer_names()
    assert names == sorted(set(names))
    of_labels = {name for name in names if name.startswith("neg_multilabel_")}
    ordered = "neg_ranked_probability_score"
    assert {*OWN, *of_labels, ordered, *sklearn.metrics.get_scorer_names()} == set(names)
    for name in names:
        assert callable(metrics.calibration_scorer(name))


@every
def test_unknown_arguments_are_named_at_once(name):
    # Arguments that the scorer fills in or that define its name are refused, too.
    for unknown in ("nbins", "labels", "sample_weight", "y_true", *OWN[name][1]):
        with pytest.raises(ValueError, match=f"got {unknown}"):
            metrics.calibration_scorer(name, **{unknown: "binary"})


@pytest.mark.parametrize(
    ("measure", "params", "word"),
    [
        ("ece", {}, "get_scorer_names"),
        (3, {}, "measure"),
        ("accuracy", {"n_bins": 3}, "n_bins"),
        ("accuracy", {"greater_is_better": True}, "greater_is_better"),
        (ECE, {"kind": "multilabel", "pos_label": 1}, "pos_label"),
        (ECE, {"n_bins": 0}, "n_bins"),
        (ECE, {"strategy": "width"}, "strategy"),
        (ECE, {"kind": "top"}, "kind"),
        (ECE, {"norm": "l1"}, "neg_expected_calib"),
        (area_under_risk_coverage, {"bins": 3}, "bins"),
    ],
)
def test_invalid_scorers_are_refused_when_they_are_made(measure, params, word):
    with pytest.raises(ValueError, match=word):
        metrics.calibration_scorer(measure, **params)


def test_estimator_without_probabilities():
    with pytest.raises(TypeError, match="predict_proba"):
        metrics.calibration_scorer("neg_expected_calibration_error")(LinearSVC().fit(X, y), X, y)


# --------------------------------------------------------------------------------------
# Functions.


@pytest.mark.parametrize(
    ("function", "params", "sign"),
    [
        (area_under_risk_coverage, {"excess": True}, -1),
        (metrics.maximum_calibration_error, {"n_bins": "cube_root"}, -1),
        (log_loss, {}, -1),
        (expected_cost, {"cost": 1 - np.eye(3)}, -1),
        (metrics.smooth_calibration_error, {}, 1),
    ],
)
def test_functions_as_scorers(function, params, sign):
    """In searches and pipelines, with weights by routing."""
    scorer = metrics.calibration_scorer(function, greater_is_better=sign > 0, **params)
    classifier = GaussianNB().fit(X, y)
    P, w = classifier.predict_proba(X), np.random.default_rng(0).uniform(size=len(y))
    expected = sign * function(y, P, sample_weight=w, **params)
    assert scorer(classifier, X, y, sample_weight=w) == pytest.approx(expected)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1]}
    search = GridSearchCV(model, grid, scoring=scorer, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_estimates_of_results_are_scored():
    X, y = make_classification(300, random_state=0)
    classifier = GaussianNB().fit(X, y)
    P = classifier.predict_proba(X)
    slope = metrics.calibration_scorer(calibration_slope, greater_is_better=True)
    assert slope(classifier, X, y) == pytest.approx(calibration_slope(y, P).estimate)
    segments = metrics.calibration_scorer(multicalibration_error)
    expected = multicalibration_error(y, P, X, n_resamples=1).statistic
    assert segments(classifier, X, y) == pytest.approx(-expected)
    with sklearn.config_context(enable_metadata_routing=True):
        side = (X[:, 0] > 0).astype(str)
        scoring = segments.set_score_request(features=True)
        results = cross_validate(
            GaussianNB(), X, y, scoring=scoring, params={"features": side}, error_score="raise"
        )
    assert np.isfinite(results["test_score"]).all()


def test_proper_scores_of_folds_that_lack_a_class():
    """The classes of the model count, other than in scikit-learn's scorers of these names."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.repeat([0, 1, 2], 30)
    names = ["neg_log_loss", "neg_brier_score", "neg_expected_calibration_error"]
    scoring = {name: metrics.calibration_scorer(name) for name in names}
    for cv in (KFold(3), KFold(9)):  # classes lack in training rows, or in test rows
        results = cross_validate(GaussianNB(), X, y, scoring=scoring, cv=cv, error_score="raise")
        for name in names:
            assert np.isfinite(results[f"test_{name}"]).all()
    classifier = GaussianNB().fit(X, y)
    P, seen = classifier.predict_proba(X), y < 2
    loss = scoring["neg_log_loss"](classifier, X[seen], y[seen])
    assert loss == pytest.approx(np.log(P[seen, y[seen]]).mean())
    brier = scoring["neg_brier_score"](classifier, X[seen], y[seen])
    assert brier == pytest.approx(-np.mean(np.sum((P[seen] - np.eye(3)[y[seen]]) ** 2, axis=1)))


def test_labels_of_another_type_than_the_classes():
    classifier = GaussianNB().fit(X, y)
    for name in ("neg_log_loss", "neg_expected_calibration_error"):
        with pytest.raises(ValueError, match="astype"):
            metrics.calibration_scorer(name)(classifier, X, y.astype(str))


def test_functions_in_a_comparison():
    """Names share one check of the rows, functions take labels and probabilities."""
    classifier = GaussianNB().fit(X, y)
    Z = np.log(np.clip(classifier.predict_proba(X), 1e-6, 1))
    scoring = {
        "area": metrics.calibration_scorer(area_under_risk_coverage),
        "segments": metrics.calibration_scorer(multicalibration_error),
        "loss": metrics.calibration_scorer(log_loss),
        "log loss": metrics.calibration_scorer("neg_log_loss"),
    }
    found = compare_calibrators(Z, y, calibrators=[TemperatureScaling()], cv=3, scoring=scoring)
    assert all(np.isfinite(values).all() for values in found.scores.values())
    np.testing.assert_allclose(found.scores["loss"], -found.scores["log loss"])

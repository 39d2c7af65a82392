"""Swapped arguments and argument names of other libraries raise messages with a remedy."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS
from public import LABELS, PROBABILITIES, REGISTRY
from scipy.special import expit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib import decision, judge, metrics, monitor

rng = np.random.default_rng(0)
Y = np.arange(40) % 3
Z = rng.normal(size=(40, 3)) + np.eye(3)[Y]
P, E = softmax(Z, axis=1), (rng.uniform(size=(40, 3)) < expit(Z)).astype(int)
FITTED = skcalib.TemperatureScaling().fit(Z, Y)


FITS = {
    "fit": lambda y, z: skcalib.VectorScaling().fit(z, y),
    "comparison": lambda y, z: skcalib.compare_calibrators(z, y, cv=2),
    "report": lambda y, z: skcalib.calibration_report(FITTED, z, y),
}
MEASURES = {
    name: lambda y, p, call=call: call(y_true=y, y_proba=p)
    for name, call in REGISTRY.items()
    if {"y_true", "y_proba"} <= call.parameters
}
TAKERS = [(f, Y, Z) for f in FITS.values()]
TAKERS += [(f, LABELS, PROBABILITIES) for f in MEASURES.values()]
every = pytest.mark.parametrize(("f", "labels", "scores"), TAKERS, ids=[*FITS, *MEASURES])


@every
def test_swapped_labels_and_scores_are_refused(f, labels, scores):
    for y in (labels, labels.astype(float), np.array(list("abc"))[labels], labels.tolist()):
        with pytest.raises(ValueError, match="swapped"):
            f(scores, y)
    with pytest.raises(ValueError, match=r"continuous|one dimension"):  # and others are not
        f(scores, scores)


@every
def test_refusal_of_indicators_names_functions_for_several_labels(f, labels, scores):
    several = np.stack([labels == labels.max(), np.arange(len(labels)) % 2], axis=1).astype(int)
    with pytest.raises(ValueError, match="MultiLabelCalibrator"):
        f(several, scores)


def test_the_sentence_where_one_label_is_taken():
    calibrator = skcalib.MultiLabelCalibrator().fit(Z, E)
    kind = {"kind": "multilabel"}
    for call in (
        lambda: skcalib.calibration_report(calibrator, Z, E),
        lambda: skcalib.calibration_report(FITTED, Z, Y, **kind),
        lambda: skcalib.compare_calibrators(Z, E, **kind),
        lambda: skcalib.ConfidenceDisplay.from_predictions(E, expit(Z), **kind),
        lambda: monitor.CalibrationMonitor(labels=range(3), **kind),
        lambda: decision.risk_coverage_curve(E, expit(Z), **kind),
    ):
        with pytest.raises(ValueError, match=r"y\[:, j\]"):
            call()
    # The remedy in the message works.
    one, z, e = calibrator.calibrators_[1], Z[:, [1]], E[:, 1]
    assert skcalib.calibration_report(one, z, e).kind == "binary"
    assert skcalib.compare_calibrators(z, e, calibrators=[one], cv=2).names
    watch = monitor.CalibrationMonitor(labels=[0, 1])
    assert watch.update(e, calibrator.predict_proba(Z)[:, 1]).n_samples_ == 40


@pytest.mark.parametrize("kind", [*CALIBRATORS, skcalib.MultiLabelCalibrator])
def test_a_calibrator_is_no_classifier_of_features(kind):
    for over in (skcalib.CalibratedClassifier, skcalib.LogitTransformer):
        for estimator in (kind(), FrozenEstimator(kind())):
            with pytest.raises(ValueError, match="classifier of features"):
                over(estimator).fit(Z, Y)


def test_the_second_probabilities_are_called_by_their_name():
    compare = metrics.calibration_difference
    for other, message in (
        (2 * P, "other_proba"),
        (P[:5], r"other_proba .*\(5, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(Y, P, other)
    with pytest.raises(ValueError, match=r"^y_proba must hold"):
        compare(Y, 2 * P, P)


NAMES = {"sigmoid": "Platt", "isotonic": "IsotonicCalib", "temperature": "TemperatureScal"}


@pytest.mark.parametrize("name", NAMES)
def test_methods_of_scikit_learn_have_a_calibrator(name):
    classifier = skcalib.CalibratedClassifier(LogisticRegression(), name)
    with pytest.raises(ValueError, match=f"Write {NAMES[name]}") as error:
        classifier.fit(Z, Y)
    with pytest.raises(ValueError, match=f"Write {NAMES[name]}"):
        skcalib.CalibratedClassifier(LogisticRegression(), method=name).fit(Z, Y)
    code = str(error.value).split("Write ")[1].split(",")[0]
    classifier.set_params(calibrator=eval(code, vars(skcalib)), cv=2).fit(Z, Y)


@pytest.mark.parametrize("name", ["ece", "log loss", "foo"])
def test_unknown_names_of_measures_lead_to_the_known_names(name):
    with pytest.raises(ValueError, match="get_scorer_names"):
        metrics.calibration_scorer(name)
    with pytest.raises(ValueError, match="expected_calibration_error"):
        metrics.calibration_error_interval(Y, P, measure=name)


def takers_of_logits():
    """Everything that takes logits with labels, as functions of both."""
    yield "fit", lambda z, y: skcalib.VectorScaling().fit(z, y)
    yield "predict", lambda z, _: FITTED.predict_proba(z)
    yield "comparison", lambda z, y: skcalib.compare_calibrators(z, y, calibrators=[FITTED], cv=2)
    test = lambda z, y: skcalib.compare_calibrators(Z, Y, calibrators=[FITTED], test=(z, y))  # noqa: E731
    yield "test set", test
    yield "report", lambda z, y: skcalib.calibration_report(FITTED, z, y)
    yield "sweep", skcalib.TemperatureSweepDisplay.from_logits
    yield "sweep of a calibrator", partial(skcalib.TemperatureSweepDisplay.from_estimator, FITTED)
    yield "measure", lambda z, y: metrics.expected_calibration_error(y, z)
    yield "display", lambda z, y: skcalib.ReliabilityDisplay.from_predictions(y, z)


LOGIT_TAKERS = dict(takers_of_logits())


@pytest.mark.parametrize("name", LOGIT_TAKERS)
def test_a_list_of_batches_is_to_be_concatenated(name):
    scores = P if name in {"measure", "display"} else Z
    for batches in ([scores[:20], scores[20:]], [scores[:30], scores[30:]]):
        with pytest.raises(ValueError, match=r"np.concatenate\("):
            LOGIT_TAKERS[name](batches, Y)


def test_an_array_of_rows_that_differ_in_length_is_refused():
    ragged = np.empty(2, object)
    ragged[:] = [[1.0, 2.0], [3.0]]
    for fit, word in {
        skcalib.VectorScaling().fit: "pad rows",
        judge.ScoreTransformer((0, 10)).fit: "pad rows",
        skcalib.MultiLabelCalibrator().fit: "one column for each label",
    }.items():
        with pytest.raises(ValueError, match=word):
            fit(ragged, [[0, 1], [1, 0]])


@pytest.mark.parametrize("name", LOGIT_TAKERS)
def test_columns_with_one_name_are_refused(name):
    scores = pd.DataFrame(P if name in {"measure", "display"} else Z, columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="distinct names"):
        LOGIT_TAKERS[name](scores, Y)


def test_a_row_of_logits_and_a_column_of_probabilities_lead_to_the_call_to_write():
    for row in (Z[0], pd.Series(Z[0])):
        with pytest.raises(ValueError, match=r"np.reshape\(X"):
            FITTED.predict_proba(row)
    with pytest.raises(ValueError, match=r"y_proba\[:, 0\]"):
        metrics.expected_calibration_error(Y % 2, P[:, :1])


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, list, pd.Series])
def test_log_odds_may_have_one_dimension_or_one_column(form):
    y = Y % 2
    column = Z[:, :1] + y[:, None]
    log_odds = form(column.ravel())
    calibrator = skcalib.PlattScaling().fit(log_odds, y)
    compare, params = skcalib.compare_calibrators, {"calibrators": [calibrator], "cv": 2}
    want = compare(column, y, **params).mean("log loss")
    np.testing.assert_array_equal(compare(log_odds, y, **params).mean("log loss"), want)
    tested = [compare(z, y, calibrators=[calibrator], test=(z, y)) for z in (log_odds, column)]
    np.testing.assert_equal(tested[0].scores, tested[1].scores)
    reports = [skcalib.calibration_report(calibrator, z, y) for z in (log_odds, column)]
    np.testing.assert_array_equal(*(report.evaluation.P for report in reports))
    sweep = skcalib.TemperatureSweepDisplay
    sweeps = [sweep.from_logits(z, y) for z in (log_odds, column)]
    sweeps += [sweep.from_estimator(calibrator, z, y) for z in (log_odds, column)]
    for found in sweeps:
        np.testing.assert_array_equal(found.log_loss, sweeps[0].log_loss)

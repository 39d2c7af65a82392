"""One list of names of measures, for scorers, intervals, tests, comparisons and monitors."""

from functools import partial
from inspect import signature

import numpy as np
import pytest
import sklearn.metrics
from public import LABELS, LOGITS, PROBABILITIES, Known, calls

import skcalib
from skcalib import metrics
from skcalib.metrics import calibration_scorer, get_scorer_names

OWN = [
    name.removeprefix("neg_")
    for name in get_scorer_names()
    if name not in sklearn.metrics.get_scorer_names() or name in ("neg_log_loss", "neg_brier_score")
]
ONE_LABEL = [name for name in OWN if not name.startswith("multilabel")]
BY_MEASURE = calls("y_true", "y_proba", "measure", skip={"metrics.calibration_difference": "below"})
MODEL = Known().fit(PROBABILITIES, LABELS)


def data(name):
    if name.startswith("multilabel"):
        return np.stack([1 - LABELS, LABELS], axis=1), PROBABILITIES
    return LABELS, PROBABILITIES


@pytest.mark.parametrize("name", OWN)
def test_scorers_have_names_with_and_without_neg(name):
    y, P = data(name)
    model = Known().fit(P, np.arange(2) if y.ndim == 2 else y)
    scores = [calibration_scorer(one)(model, P, y) for one in (name, f"neg_{name}")]
    assert scores[0] == scores[1] <= 0


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("call", BY_MEASURE)
def test_measures_have_the_names_of_scorers(call, name):
    y, P = data(name)
    results = [call(y_true=y, y_proba=P, measure=one) for one in (name, f"neg_{name}")]
    assert results[0] == results[1]
    model = Known().fit(P, np.arange(2) if y.ndim == 2 else y)
    value = getattr(results[0], "estimate", getattr(results[0], "statistic", None))
    assert value == pytest.approx(-calibration_scorer(name)(model, P, y))


def test_a_difference_has_the_names_of_scorers():
    for name in ("log_loss", "neg_log_loss"):
        found = metrics.calibration_difference(
            LABELS, PROBABILITIES, PROBABILITIES[:, ::-1], measure=name, n_resamples=20
        )
        assert found.estimate > 0


@pytest.mark.parametrize("call", BY_MEASURE)
def test_functions_of_the_package_are_their_names(call):
    functions = [name for name in ONE_LABEL if hasattr(metrics, name)]
    assert len(functions) >= 10
    for name in functions:
        function = getattr(metrics, name)
        named = call(measure=name)
        assert call(measure=function) == named, name
        assert call(measure=partial(function)) == named, name
        if "n_bins" in signature(function).parameters:
            assert call(measure=partial(function, n_bins=5)) == call(measure=name, n_bins=5)


def test_comparisons_have_the_names_of_scorers():
    names = ["expected_calibration_error", "ranked_probability_score", "log_loss", "brier_score"]
    rows = LOGITS, LABELS
    plain, negative = (
        skcalib.compare_calibrators(
            *rows, calibrators=[skcalib.PlattScaling()], cv=2, scoring=scoring
        )
        for scoring in (names, [f"neg_{name}" for name in names])
    )
    assert plain.scores.keys() == negative.scores.keys() == {*names, "log loss"} - {"log_loss"}
    for name, values in plain.scores.items():
        np.testing.assert_array_equal(values, negative.scores[name])
        assert (values > 0).all()
    for name in names:
        np.testing.assert_array_equal(plain.mean(name), plain.mean(f"neg_{name}"))
    default = skcalib.compare_calibrators(*rows, calibrators=[skcalib.PlattScaling()], cv=2)
    np.testing.assert_array_equal(default.mean("neg_brier_score"), default.mean("Brier"))
    corrected = skcalib.clinical.optimism_corrected(
        MODEL, PROBABILITIES, LABELS, scoring="brier_score", n_resamples=5, random_state=0
    )
    assert corrected["brier_score"].apparent > 0


def test_monitors_have_the_names_of_scorers():
    monitor = skcalib.monitor.CalibrationMonitor([0, 1]).update(LABELS, PROBABILITIES)
    values = [monitor.measure(f"{neg}overconfidence_error") for neg in ("", "neg_")]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("neg_expected_calibration_errors", "neg_expected_calibration_error"),
        ("Expected Calibration Error", "neg_expected_calibration_error"),
        ("ECE", "neg_expected_calibration_error"),
        ("nll", "neg_log_loss"),
        ("l2", "neg_root_mean_squared_calibration_error"),
        ("roc_acu", "roc_auc"),
    ],
)
def test_an_unknown_name_leads_to_a_question(name, meant):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'"):
        calibration_scorer(name)
    if meant != "roc_auc":
        for call in (param.values[0] for param in BY_MEASURE):
            with pytest.raises(ValueError, match=f"Did you mean '{meant.removeprefix('neg_')}'"):
                call(measure=name.removeprefix("neg_"))


@pytest.mark.parametrize("wrong", [3, None, ["log_loss"], str, {"log_loss": 1}])
def test_other_types_are_refused(wrong):
    with pytest.raises(ValueError, match="measure must be"):
        calibration_scorer(wrong)
    for call in (param.values[0] for param in BY_MEASURE):
        with pytest.raises(ValueError, match="measure must be"):
            call(measure=wrong)


@pytest.mark.parametrize("norm", ["l1", max, 2, None, ["l1"]])
def test_a_norm_of_any_type_is_a_measure_of_its_own(norm):
    for measure in ("expected_calibration_error", metrics.expected_calibration_error):
        with pytest.raises(ValueError, match="norm"):
            calibration_scorer(measure, norm=norm)


def test_a_kind_in_a_name_contradicts_another_kind():
    with pytest.raises(ValueError, match="kind='classwise'"):
        metrics.calibration_test(
            LABELS, PROBABILITIES, measure="classwise_calibration_error", kind="binary"
        )

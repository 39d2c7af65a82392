"""Laws of the event: which label one column of probabilities belongs to, in all functions."""

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from public import LABELS, PROBABILITIES, Known, calls, numbers, pl
from sklearn.metrics import brier_score_loss

from skcalib.metrics import (
    calibration_scorer,
    expected_calibration_error,
    get_scorer_names,
    score_decomposition,
)

P = PROBABILITIES[:, 1]
# The event comes first in the alphabet.
OUTCOME = np.array(["survived", "died"])[LABELS]
ORDER = ["survived", "died"]

TEXT = {
    "array": OUTCOME,
    "list": OUTCOME.tolist(),
    "objects": OUTCOME.astype(object),
    "bytes": OUTCOME.astype("S"),
    "Series": pd.Series(OUTCOME, index=range(7, 7 + len(P))),
    "strings of pandas": pd.Series(OUTCOME, dtype="string"),
    "categories": pd.Series(pd.Categorical(OUTCOME)),
    "digits": LABELS.astype(str),
}
NAMED = {
    "1 and 2": LABELS + 1,
    "-1 and 1": 2.0 * LABELS - 1,
    "booleans": LABELS == 1,
    "objects": LABELS.astype(object),
    "nullable": pd.Series(LABELS, dtype="Int64"),
    "ordered categories": pd.Series(pd.Categorical(OUTCOME, ORDER, ordered=True)),
}
if pl is not None:
    TEXT["polars"] = pl.Series(OUTCOME)
    NAMED["enumeration of polars"] = pl.Series(OUTCOME, dtype=pl.Enum(ORDER))

ONE_COLUMN = calls(
    "y_true",
    "y_proba",
    skip={"CalibrationMonitor.update": "the labels are an argument of the monitor"},
)


def kinds_for(call, kinds):
    """The kinds of labels, or the last one for reports and displays, which draw with each."""
    draws = call.name.startswith("report.") or "Display" in call.name
    return kinds[-1:] if draws else kinds


def event_of(call, label, other):
    """Arguments that name the event."""
    named = {"pos_label": label} if "pos_label" in call.parameters else {}
    return named or {"labels": [other, label]}


@pytest.mark.parametrize("call", ONE_COLUMN)
def test_text_with_one_column_needs_the_event(call):
    expected = numbers(call(y_true=LABELS, y_proba=P))
    assert expected
    for name, y in TEXT.items():
        other, event = np.asarray(y)[[LABELS.argmin(), LABELS.argmax()]].tolist()
        with pytest.raises(ValueError, match="pos_label"):
            call(y_true=y, y_proba=P)
        if name not in kinds_for(call, ["array", "strings of pandas"]):
            continue
        named = call(y_true=y, y_proba=P, **event_of(call, event, other))
        assert numbers(named) == pytest.approx(expected, nan_ok=True), name
        in_order = call(y_true=y, y_proba=P, labels=[other, event])
        assert numbers(in_order) == pytest.approx(expected, nan_ok=True), name


@pytest.mark.parametrize("call", ONE_COLUMN)
def test_the_larger_number_and_the_second_ordered_category_are_the_event(call):
    expected = numbers(call(y_true=LABELS, y_proba=P))
    for name in kinds_for(call, [*NAMED]):
        found = numbers(call(y_true=NAMED[name], y_proba=P))
        assert found == pytest.approx(expected, nan_ok=True), name


@pytest.mark.parametrize("call", ONE_COLUMN)
def test_two_columns_need_no_event(call):
    expected = numbers(call(y_true=1 - LABELS, y_proba=PROBABILITIES[:, ::-1]))
    for name in kinds_for(call, ["array", "Series", "strings of pandas"]):
        found = numbers(call(y_true=TEXT[name], y_proba=PROBABILITIES[:, ::-1]))
        assert found == pytest.approx(expected, nan_ok=True), name


@pytest.mark.parametrize("columns", [lambda p: p[:, 1:], lambda p: p[:, 1]], ids=["2-D", "1-D"])
@pytest.mark.parametrize("call", calls("estimator", "X", "y"))
def test_classifiers_may_have_one_sigmoid(call, columns):
    X, y = columns(PROBABILITIES), OUTCOME
    given = {"features": PROBABILITIES} if "features" in call.parameters else {}
    both, one = Known(ORDER).fit(PROBABILITIES, y), Known(ORDER).fit(X, y)
    expected = numbers(call(estimator=both, X=PROBABILITIES, y=y, **given))
    assert expected
    assert numbers(call(estimator=one, X=X, y=y, **given)) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("classes", [ORDER, ORDER[::-1]])
def test_scorers_of_classifiers_with_one_sigmoid(classes):
    own = set(get_scorer_names()) - set(sklearn.metrics.get_scorer_names())
    own = {name for name in own if "multilabel" not in name} | {"neg_log_loss", "neg_brier_score"}
    p = PROBABILITIES[:, int(classes == ORDER)]
    both, one = np.stack([1 - p, p], axis=1), p[:, None]
    for name in own:
        scorer = calibration_scorer(name)
        expected = scorer(Known(classes).fit(both, OUTCOME), both, OUTCOME)
        assert scorer(Known(classes).fit(one, OUTCOME), one, OUTCOME) == pytest.approx(
            expected, nan_ok=True
        )


@pytest.mark.filterwarnings("ignore:Intervals need 10")  # rows without the event
@pytest.mark.parametrize("call", ONE_COLUMN)
def test_all_rows_may_have_the_event(call):
    """A slice of the rows may have a single label, which pos_label names."""
    if "pos_label" not in call.parameters:
        return
    wanted = outcome(lambda: call(y_true=np.ones(len(P), int), y_proba=P, labels=[0, 1]))
    for label in kinds_for(call, [1, 2.0, True, "died"]):
        named = outcome(
            lambda label=label: call(y_true=[label] * len(P), y_proba=P, pos_label=label)
        )
        assert named == (wanted if isinstance(wanted, type) else pytest.approx(wanted, nan_ok=True))
    with pytest.raises(ValueError, match="labels="):
        call(y_true=["survived"] * len(P), y_proba=P, pos_label="died")


def outcome(call):
    """Numbers in the result of a call, or the type of its error: some need both classes."""
    try:
        return numbers(call())
    except ValueError as error:
        return type(error)


@pytest.mark.parametrize("call", calls("y_true", "y_proba", "measure"))
def test_measures_by_name_take_one_column(call):
    for name in ("log_loss", "brier_score"):
        wanted = numbers(call(y_true=LABELS, y_proba=PROBABILITIES, measure=name))
        found = numbers(call(y_true=OUTCOME, y_proba=P, pos_label="died", measure=name))
        assert found[:1] == pytest.approx(wanted[:1])


def test_several_labels_may_have_one_sigmoid_each():
    class Outputs(Known):
        def predict_proba(self, X):
            return [X[:, :1], X[:, 1:]]

    model = Outputs([[0, 1], [0, 1]])
    model.classes_ = [np.array([0, 1]), np.array([0, 1])]
    y = np.stack([LABELS, 1 - LABELS], axis=1)
    scorer = calibration_scorer("neg_expected_calibration_error", kind="multilabel")
    expected = -expected_calibration_error(y, PROBABILITIES, kind="multilabel")
    assert scorer(model, PROBABILITIES, y) == pytest.approx(expected, nan_ok=True)


def test_one_column_of_text_is_refused_as_by_scikit_learn():
    for label in (None, "died"):
        scores = []
        for function in (brier_score_loss, lambda *rows, **named: score_decomposition(
            *rows, score="brier_score", **named
        ).score):  # fmt: skip
            try:
                scores.append(function(OUTCOME, P, pos_label=label))
            except ValueError as error:
                scores.append("pos_label is not specified" in str(error))
        assert scores[0] == pytest.approx(scores[1])

"""Numbers that are no probabilities: each mistake has its remedy, in every function."""

import numpy as np
import pandas as pd
import pytest
from public import Known, calls
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib.datasets import make_logits

_, Y, P = make_logits(90, 3, return_proba=True, random_state=0)
BINARY = (Y == 1).astype(int)
p = P[:, 1]
EVERY = calls(
    "y_true", "y_proba", skip={"CalibrationMonitor.update": "its labels name three columns"}
)


SIGMOIDS = np.clip(P * [0.9, 1.2, 0.7] + 0.1, 0, 1)
ROUNDED = P.copy()
ROUNDED[::7] = [-1e-17, 1.0, 0.0]
COLUMN = p.copy()
COLUMN[::7] = -1e-17
WRONG = {
    "rounding": (Y, ROUNDED, "np.clip"),
    "rounding of one column": (BINARY, COLUMN, "np.clip"),
    "percent": (Y, 100 * P, "Divide percentages by 100"),
    "percent of one column": (BINARY, 100 * p, "Divide percentages by 100"),
    "predictions": (BINARY, Y, "not logits or predicted labels"),
    "text": (np.array(list("abc"))[Y], np.array(list("abc"))[Y], "must hold numbers, got the text"),
    "one column too many": (Y, np.column_stack([P, Y]), "4 columns for 3 classes"),
    "a first column too many": (Y, np.column_stack([P.max(axis=1), P]), "4 columns for 3 classes"),
    "names in a column": (
        Y, pd.DataFrame(P).assign(prediction=np.array(list("abc"))[Y]), "numbers, got the text 'a'"
    ),
    "numbers as text": (Y, pd.DataFrame(P).astype(str), "must hold numbers, got the text '0."),
    "a sigmoid per label": (Y, SIGMOIDS, "kind='multilabel'"),
}  # fmt: skip


@pytest.mark.parametrize("call", EVERY)
def test_numbers_that_are_no_probabilities_have_a_remedy(call):
    for case, (y, proba, message) in WRONG.items():
        with pytest.raises(ValueError, match=message) as caught:
            call(y_true=y, y_proba=proba)
        assert "\n" not in str(caught.value), case


@pytest.mark.filterwarnings("ignore:y_proba probably holds:UserWarning")  # of the other label
@pytest.mark.parametrize("call", EVERY)
def test_predicted_labels_in_place_of_probabilities_have_a_warning(call):
    with pytest.warns(UserWarning, match=r"predicted labels. Pass predict_proba"):
        call(y_true=BINARY, y_proba=np.where(np.arange(90) % 9, BINARY, 1 - BINARY))


@pytest.mark.parametrize("calibrated", [skcalib.CalibratedClassifier, skcalib.LogitTransformer])
def test_negative_probabilities_of_a_classifier_are_refused(calibrated):
    class Negative(LogisticRegression):
        error = 0.05

        def predict_proba(self, X):
            proba = super().predict_proba(X)
            proba[::5] = [-self.error, 1 + self.error, 0]
            return proba

    X = np.log(P)
    with pytest.raises(ValueError, match=r"got a minimum of -0.05"):
        calibrated(Negative(), cv=2, response_method="predict_proba").fit(X, Y)
    Negative.error = 1e-17
    calibrated(Negative(), cv=2, response_method="predict_proba").fit(X, Y)


@pytest.mark.parametrize("call", calls("groups", "y_true"))
def test_groups_have_messages_of_their_own(call):
    proba = np.column_stack([1 - p, p])
    level = {"confidence_level": 0.95} if "confidence_level" in call.parameters else {}
    for groups, message in (
        (np.where(np.arange(90) == 3, np.nan, 1.0), "each row must have a group"),
        ([None, *range(89)], "each row must have a group"),
        ("patient", r"X\['patient'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            call(y_true=BINARY, y_proba=proba, groups=groups, **level)


def test_the_remedies_work():
    error = skcalib.metrics.expected_calibration_error
    assert error(Y, np.clip(ROUNDED, 0, 1)) >= 0
    assert error(np.eye(3)[Y], SIGMOIDS, kind="multilabel") >= 0
    assert Known().fit(P, Y).predict(P).shape == (90,)

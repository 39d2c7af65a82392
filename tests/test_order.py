"""Laws of the order of classes, with the columns of a classifier that sorts text."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from families import ColumnOrderWarning
from public import Known, calls, numbers, pl
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json
from skcalib.metrics import calibration_scorer, ranked_probability_score

# In the order of the classes, and in the order of the columns: draw, loss, win.
ORDER = ["loss", "draw", "win"]
COLUMNS = [1, 0, 2]
NAMES = [ORDER[k] for k in COLUMNS]

rng = np.random.default_rng(0)
MEAN = rng.normal(0.3, 1.0, 240)
CODES = np.clip(np.round(MEAN + rng.normal(0, 0.8, 240)), -1, 1).astype(int) + 1
LOGITS = -1.5 * (np.arange(3) - 1 - MEAN[:, None]) ** 2
P = np.exp(LOGITS)
P /= P.sum(axis=1, keepdims=True)
TEXT = np.array(ORDER)[CODES]
CATEGORIES = pd.Series(pd.Categorical(TEXT, ORDER, ordered=True))

MEASURES = calls("y_true", "y_proba", "order")


def of_order(call):
    return {"kind": "cumulative"} if "kind" in call.parameters else {}


@pytest.mark.parametrize("call", MEASURES)
def test_measures_permute_the_columns_into_the_order(call):
    kind = of_order(call)
    expected = numbers(call(y_true=CODES, y_proba=P, **kind))
    assert expected
    for y, named in (
        (TEXT, {"order": ORDER}),
        (TEXT.astype(object), {"order": ORDER, "labels": NAMES}),
        (pd.Series(TEXT, dtype="string"), {"order": np.array(ORDER)}),
        (CATEGORIES, {"labels": NAMES}),
        (pl and pl.Series(TEXT, dtype=pl.Enum(ORDER)), {"labels": NAMES}),
        (CODES, {"labels": COLUMNS}),  # numbers ascend
    ):
        if y is None:  # polars is optional
            continue
        found = numbers(call(y_true=y, y_proba=P[:, COLUMNS], **kind, **named))
        assert found == pytest.approx(expected)
    # Ordered categories are in the order of their columns, unless labels= says otherwise.
    found = numbers(call(y_true=CATEGORIES, y_proba=P, **kind))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("call", MEASURES)
def test_text_of_three_classes_needs_the_order(call):
    for given, message in (
        ({}, "order is not specified"),
        ({"labels": ORDER}, "order is not specified"),
        ({"order": ["loss", "win"]}, "lacks 'draw'"),
        ({"order": ["loss", "draw", "draw", "win"]}, "distinct"),
    ):
        with pytest.raises(ValueError, match=message):
            call(y_true=TEXT, y_proba=P[:, COLUMNS], **of_order(call), **given)
    if "kind" in call.parameters:
        with pytest.raises(ValueError, match="cumulative"):
            call(y_true=TEXT, y_proba=P[:, COLUMNS], order=ORDER, kind="classwise")


@pytest.mark.parametrize("call", calls("estimator", "order"))
def test_displays_of_classifiers_pass_the_order_on(call):
    expected = call(estimator=Known().fit(P, CODES), X=P, y=CODES, kind="cumulative")
    found = call(
        estimator=Known().fit(P, TEXT), X=P[:, COLUMNS], y=TEXT, kind="cumulative", order=ORDER
    )
    assert numbers(found) == pytest.approx(numbers(expected))


# --------------------------------------------------------------------------------------
# Calibrators.

# Many grades, for which the default has ordinal calibration among its candidates.
GRADES, GRADE = 24, np.random.default_rng(1).integers(0, 24, 400)
NAMES_OF_GRADES = np.array([f"grade {k}" for k in range(GRADES)])
SORTED = np.argsort(NAMES_OF_GRADES)
MANY = -0.3 * (np.arange(GRADES) - GRADE[:, None] - rng.normal(0, 2, (400, 1))) ** 2


def calibrators(**order):
    return {
        "OrdinalCalibration": skcalib.OrdinalCalibration(**order),
        "AutoCalibrator": skcalib.AutoCalibrator(cv=2, ordered=True, **order),
        "ConditionalCalibrator": skcalib.conditional.ConditionalCalibrator(
            cv=2, ordered=True, **order
        ),
    }


def test_every_calibrator_with_an_order_is_tested():
    assert {param.id for param in calls("order", "classes")} == set(calibrators())


@pytest.mark.parametrize("name", calibrators())
@pytest.mark.filterwarnings("ignore:.*least populated class:UserWarning")
def test_calibrators_permute_the_columns_into_the_order(name):
    codes, names = GRADE, NAMES_OF_GRADES[GRADE]
    columns, order = MANY[:, SORTED], NAMES_OF_GRADES.tolist()
    expected = calibrators()[name].fit(MANY, codes).predict_proba(MANY)[:, SORTED]
    found = calibrators(order=order)[name].fit(columns, names).predict_proba(columns)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    with pytest.raises(ValueError, match="order is not specified"):
        calibrators()[name].fit(columns, names)


def test_text_without_an_order_is_refused_and_ordered_categories_are_taken():
    expected = skcalib.OrdinalCalibration().fit(LOGITS, CODES)
    with pytest.raises(ValueError, match="order is not specified"):
        skcalib.OrdinalCalibration().fit(LOGITS[:, COLUMNS], TEXT)
    with pytest.raises(ValueError, match="ordered=True"):
        skcalib.AutoCalibrator(order=ORDER).fit(LOGITS[:, COLUMNS], TEXT)
    named = skcalib.OrdinalCalibration(classes=NAMES).fit(LOGITS[:, COLUMNS], CATEGORIES)
    assert named.intercept_ == pytest.approx(expected.intercept_)
    assert named.classes_[named.column_order_].tolist() == ORDER
    numbers_of_columns = skcalib.OrdinalCalibration(classes=COLUMNS)
    permuted = numbers_of_columns.fit(LOGITS[:, COLUMNS], CODES)
    assert permuted.slope_ == pytest.approx(expected.slope_)


def test_columns_in_the_order_of_the_classes_lead_to_a_warning():
    """Without labels= or classes= the columns of text are taken to be sorted."""
    with pytest.warns(ColumnOrderWarning, match="'loss', 'draw', 'win'"):
        ranked_probability_score(TEXT, P, order=ORDER)
    with pytest.warns(ColumnOrderWarning, match="classes="):
        skcalib.OrdinalCalibration(order=ORDER).fit(LOGITS, TEXT)
    skcalib.OrdinalCalibration(order=ORDER, classes=ORDER).fit(LOGITS, TEXT)


def test_classifiers_pass_the_order_on():
    X = MEAN[:, None]
    model = LogisticRegression(C=100.0)
    expected = skcalib.CalibratedClassifier(model, skcalib.OrdinalCalibration(), cv=3)
    expected = expected.fit(X, CODES).predict_proba(X)[:, COLUMNS]
    ordinal = skcalib.OrdinalCalibration(order=ORDER)
    members = {
        "classifier": skcalib.CalibratedClassifier(model, ordinal, cv=3),
        "pipeline of calibrators": skcalib.CalibratedClassifier(
            model, make_pipeline(skcalib.Uncalibrated(), ordinal), cv=3
        ),
        "mixture": skcalib.CalibratedClassifier(
            model, skcalib.AutoCalibrator({"ordinal": ordinal}), cv=3
        ),
        "logits": make_pipeline(skcalib.LogitTransformer(model, cv=3), ordinal),
    }
    for name, member in members.items():
        found = member.fit(X, TEXT).predict_proba(X)
        tolerance = 1e-4 if name in ("classifier", "pipeline of calibrators") else 0.02
        np.testing.assert_allclose(found, expected, atol=tolerance, err_msg=name)
    # Categories are known to the calibrator without order=.
    plain = skcalib.CalibratedClassifier(model, skcalib.OrdinalCalibration(), cv=3)
    found = plain.fit(X, CATEGORIES).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_scorers_and_comparisons_pass_the_order_on():
    X = MEAN[:, None]
    model = LogisticRegression(C=100.0)
    classifier = skcalib.CalibratedClassifier(model, skcalib.OrdinalCalibration(order=ORDER), cv=3)
    scorer = calibration_scorer("neg_ranked_probability_score", order=ORDER)
    search = GridSearchCV(classifier, {"cv": [2, 3]}, scoring=scorer, cv=2, error_score="raise")
    found = search.fit(X, TEXT).score(X, TEXT)
    of_codes = calibration_scorer("neg_ranked_probability_score")
    fitted = search.best_estimator_.predict_proba(X)[:, np.argsort(COLUMNS)]
    assert found == pytest.approx(-ranked_probability_score(CODES, fitted))
    assert of_codes(Known().fit(fitted, CODES), fitted, CODES) == pytest.approx(found)
    with pytest.raises(ValueError, match="order is not specified"):
        of_codes(search, X, TEXT)
    compared = {
        name: skcalib.compare_calibrators(
            Z, y, calibrators=[skcalib.OrdinalCalibration()], cv=2, labels=labels,
            scoring="neg_ranked_probability_score",
        )
        for name, Z, y, labels in (
            ("codes", LOGITS, CODES, None), ("text", LOGITS[:, COLUMNS], CATEGORIES, NAMES)
        )
    }  # fmt: skip
    scores = [one.scores["ranked_probability_score"] for one in compared.values()]
    np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exports_permute_the_columns(dtype):
    onnxruntime, torch = map(pytest.importorskip, ("onnxruntime", "torch"))
    Z = LOGITS[:, COLUMNS].astype(dtype)
    calibrator = skcalib.OrdinalCalibration(order=ORDER).fit(Z, TEXT)
    expected = calibrator.predict_proba(Z)
    copy = from_json(json.loads(json.dumps(to_json(calibrator))))
    np.testing.assert_allclose(copy.predict_proba(Z), expected)
    module = skcalib.export.to_torch(calibrator, dtype=np.dtype(dtype).name)
    outputs = module(torch.as_tensor(Z))
    np.testing.assert_allclose(outputs.softmax(1).numpy(), expected, rtol=1e-4, atol=1e-6)
    model = io.BytesIO(skcalib.export.to_onnx(calibrator, dtype=np.float32).SerializeToString())
    session = onnxruntime.InferenceSession(model.getvalue())
    feed = {session.get_inputs()[0].name: Z.astype(np.float32)}
    found = session.run(["probabilities"], feed)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_two_classes_may_have_any_order():
    Z, y = make_logits(300, 2, temperature=2.0, offset=[0, 0.5], random_state=0)
    log_odds, names = Z[:, 1:] - Z[:, :1], np.array(["no", "yes"])[y]
    first = skcalib.OrdinalCalibration().fit(log_odds, names).predict_proba(log_odds)
    for order in (["no", "yes"], ["yes", "no"]):
        other = skcalib.OrdinalCalibration(order=order).fit(log_odds, names)
        np.testing.assert_allclose(other.predict_proba(log_odds), first, rtol=1e-5)
    p = first[:, 1]
    assert ranked_probability_score(names, p, order=["no", "yes"]) == pytest.approx(
        ranked_probability_score(y, p)
    )


def test_every_function_with_an_order_has_a_law():
    laws = [calls("y_true", "y_proba", "order"), calls("estimator", "order")]
    laws.append(calls("order", "classes"))
    covered = {param.id for law in laws for param in law}
    assert {param.id for param in calls("order")} <= covered

"""JSON: round trips bit for bit, and text that is damaged, newer or claims too much."""

import copy
import json
import pickle
import warnings
from datetime import date
from functools import reduce
from operator import getitem

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, FORMS, fitted_state, of_case
from hypothesis import given, settings, strategies as st
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import skcalib
from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    MultiLabelCalibrator,
    PriorShift,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
)
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration, TopLabelCalibration
from skcalib.export import from_json, to_json
from skcalib.export._json import CALIBRATORS as CLASSES, DEEPEST
from skcalib.monitor import CalibrationMonitor, DriftMonitor

DELETED = object()
OUTPUTS = ("predict_proba", "predict_log_proba", "transform", "predict")
Z, Y = make_logits(240, 3, temperature=2.0, random_state=0)
FEW = {
    "temperature": TemperatureScaling(smoothing="auto"),
    "matrix": MatrixScaling(),
    "trees": EstimatorCalibration(ExtraTreesClassifier(3, max_depth=3, random_state=0)),
    "histogram": HistogramBinning(n_bins=5),
}


def real(form):
    """The calibrator that a stand-in of the tests stands for."""
    if isinstance(form, AutoCalibrator):
        return AutoCalibrator(FEW, cv=2)
    return getattr(skcalib, type(form).__name__)(**form.get_params(deep=False))


def assert_same(loaded, calibrator, X):
    """Equal classes, parameters, fitted attributes and predictions, to the last bit."""
    assert type(loaded) is type(calibrator)
    assert repr(loaded) == repr(calibrator)
    for name in OUTPUTS:
        for rows in (X, X[:1], X.astype(np.float32), 1e4 * X):
            found, wanted = (getattr(c, name)(rows) for c in (loaded, calibrator))
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
    found, wanted = plain_state(loaded), plain_state(calibrator)
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert type(found[name]) is type(wanted[name]), name
        assert str(found[name]) == str(wanted[name])


def plain_state(calibrator):
    """Fitted attributes, without those of classifiers, which are trees once they are loaded.

    A pipeline has none.
    """
    state = fitted_state(calibrator)
    return {name: value for name, value in state.items() if "estimator_" not in name}


class Texts(dict):
    """With a short repr, which hypothesis shows."""

    def __repr__(self):
        return "texts"


@pytest.fixture(scope="module")
def texts():
    """A text of each kind of calibrator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {kind.__name__: real(kind()).fit(Z, Y) for kind in CALIBRATORS}
        found["ovo"] = VennAbersCalibration(multi_class="ovo").fit(Z[:60], Y[:60])
        found["chain"] = make_pipeline(TemperatureScaling(), HistogramBinning(n_bins=3)).fit(Z, Y)
        found["labels"] = MultiLabelCalibrator(VectorScaling()).fit(Z, np.eye(3, dtype=int)[Y])
        found["shift"] = make_pipeline(TemperatureScaling(), PriorShift()).fit(Z, Y)
        found["shift"][-1].adapt(Z[Y > 0])
        features = np.array([["a", 0.5], ["b", None]], object)[(Y > 0) * 1]
        found["features"] = ConditionalCalibrator(FEW, cv=2).fit(Z, Y, features=features)
    return Texts({name: to_json(calibrator) for name, calibrator in found.items()})


def _monitors():
    """Monitors before and after rows, with an alarm, and with rows that are not bet on yet."""
    P = softmax(Z, axis=1)
    words = np.array(["a", "b", "c"])
    found = {
        "new": CalibrationMonitor(labels=range(3)),
        "text": CalibrationMonitor(labels=words, kind="classwise").update(words[Y], P),
        "few": CalibrationMonitor(labels=[0, 1], n_bins=4, pos_label=0).update(Y[:7] > 0, P[:7, 0]),
        "alarm": CalibrationMonitor(labels=range(3)).update(Y, softmax(9 * Z, axis=1), 1.0 + Y),
        "drift": DriftMonitor(P[:99]).update(P[99:]),
        "drift alarm": DriftMonitor(P[:99], kind="classwise").update(softmax(9 * Z, axis=1)),
        "new drift": DriftMonitor(P[:, 0], random_state=3, alarm_level=0.01),
    }
    assert found["alarm"].alarm
    assert found["drift alarm"].alarm
    return found


MONITORS = _monitors()


# Monitors.
@pytest.mark.parametrize("name", MONITORS)
def test_monitors_go_on_after_a_round_trip(name):
    monitor = copy.deepcopy(MONITORS[name])
    loaded = from_json(to_json(monitor))
    assert to_json(loaded) == to_json(monitor)
    two, P = name in {"few", "new drift"}, softmax(Z[:50], axis=1)
    rows = () if "drift" in name else (monitor.labels[Y[:50] // (2 if two else 1)],)
    for _ in range(2):
        for each in (monitor, loaded):
            each.update(*rows, P[:, 0] if two else P)
        assert to_json(loaded) == to_json(monitor)
        assert repr(loaded) == repr(monitor)
        assert (loaded.e_value, loaded.p_value) == (monitor.e_value, monitor.p_value)
        loaded = pickle.loads(pickle.dumps(loaded))
    loaded.reset()
    assert to_json(loaded) == to_json(monitor.reset())


STATE = ("calibrator", "state")
BROKEN_MONITORS = [
    ("new", ("calibrator", "class"), "TemperatureScaling", "of a class, and of attributes, that"),
    ("new", ("calibrator", "class"), [], "unhashable"),
    ("new", ("calibrator", "class"), "DriftMonitor", "got TypeError"),
    ("new", STATE, 3, "must be an object"),
    ("new", (*STATE, "update"), 3, "of a class, and of attributes, that"),
    ("new", (*STATE, "__class__"), 3, "of a class, and of attributes, that"),
    ("new", (*STATE, "_sums"), DELETED, "got AttributeError"),
    ("new", (*STATE, "n_bins"), 10**12, "of no more bins and classes than the text"),
    ("new", (*STATE, "n_bins"), 7, "monitor"),
    ("new", (*STATE, "_reserve"), "a", "got TypeError"),
    ("new", (*STATE, "_capital", "values", 0), "nan", "updated as monitors are"),
    ("new", (*STATE, "_capital", "values", 0), -1e9, "updated as monitors are"),
    ("new", (*STATE, "_sums"), {"dtype": "float64", "shape": [], "values": [0.0]}, "monitor"),
    ("drift", (*STATE, "n_classes"), 10**12, "of no more bins and classes than the text"),
    ("drift", (*STATE, "_counts", "shape"), [2, 501], "monitor"),
    ("drift", (*STATE, "n_samples"), "a", "monitor"),
]


@pytest.mark.parametrize("case", BROKEN_MONITORS, ids=[f"{k}" for k in range(len(BROKEN_MONITORS))])
def test_broken_monitors(case):
    name, path, value, words = case
    says(changed(to_json(MONITORS[name]), path, value), words)


# Round trips.
def test_every_calibrator_is_found():
    assert {real(kind()).__class__ for kind in CALIBRATORS} <= set(CLASSES.values())
    assert {"MultiLabelCalibrator", "Uncalibrated", "Uniform"} <= CLASSES.keys()
    assert "BaseCalibrator" not in CLASSES


@pytest.mark.parametrize("form", [kind() for kind in CALIBRATORS], ids=repr)
@pytest.mark.parametrize("width", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.filterwarnings("ignore")
def test_calibrators_are_the_same_after_a_round_trip(form, width):
    X, y = (Z, Y) if width == 3 else make_logits(200, 2, random_state=1)
    X = X[:, 1:] - X[:, :1] if width == 1 else X
    calibrator = real(form).fit(X, y)
    text = to_json(calibrator)
    loaded = from_json(text)
    assert_same(loaded, calibrator, X)
    assert to_json(loaded) == text
    assert text.isascii()
    assert_same(pickle.loads(pickle.dumps(loaded)), loaded, X[:9])
    assert clone(loaded).get_params().keys() == clone(calibrator).get_params().keys()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.filterwarnings("ignore")
def test_all_forms_are_the_same_after_a_round_trip(form):
    for dtype in (np.float32, np.float64):
        calibrator = real(form).fit(Z.astype(dtype), Y)
        assert_same(from_json(to_json(calibrator)), calibrator, Z)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 4])
def test_the_default_calibrator_is_the_same_after_a_round_trip(K):
    X, y = make_logits(600, K, random_state=0)
    X[:, 0] = np.sinh(X[:, 0])
    calibrator = AutoCalibrator().fit(X, y)
    assert_same(from_json(to_json(calibrator)), calibrator, X)


LABELS = {
    "integers": [3, 5, 8],
    "small": np.array([3, 5, 200], np.uint8),
    "floats": [-1.0, 0.0, 1.0],
    "single": np.array([1, 2, 3], np.float32),
    "strings": ["ant", "bee", "größer"],
    "wide": np.array(["ant", "bee", "cat"], "U12"),
    "objects": np.array(["ant", "bee", "cat"], object),
    "hostile": ["nan", "inf", '"}]'],
    "large": np.array([1, 2, 2**63], np.uint64),
    "half": np.array([1, 2, 3], np.float16),
    "of NumPy": np.array([np.str_("ant"), "bee", "cat"], object),
    "booleans": [False, True],
}


@pytest.mark.parametrize("classes", LABELS.values(), ids=LABELS)
def test_labels_keep_their_type(classes):
    labels, X = np.asarray(classes), Z[:, : len(classes)]
    calibrator = TemperatureScaling(classes=classes).fit(X, labels[Y % len(labels)])
    loaded = from_json(to_json(calibrator))
    assert type(loaded.classes) is type(classes)
    for found in (loaded.classes_, np.asarray(loaded.classes)):
        assert found.dtype == labels.dtype
        assert found.tolist() == labels.tolist()
    assert loaded.predict(X).dtype == calibrator.predict(X).dtype


def test_names_of_columns():
    X = pd.DataFrame(Z, columns=["0", "1", "2"])
    loaded = from_json(to_json(VectorScaling().fit(X, Y.astype(str))))
    assert loaded.feature_names_in_.tolist() == ["0", "1", "2"]
    assert loaded.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict_proba(X.rename(columns={"0": "9"}))


def test_numbers_that_are_not_finite():
    calibrator = TopLabelCalibration().fit(Z, Y)
    calibrator.extra_, calibrator.shares_ = np.inf, np.array([np.nan, -np.inf, 0.0])
    loaded = from_json(to_json(calibrator))
    assert loaded.extra_ == np.inf
    assert type(loaded.extra_) is float
    np.testing.assert_array_equal(loaded.shares_, calibrator.shares_)


def test_an_array_is_a_line(texts):
    text = texts["MatrixScaling"]
    assert len(text.splitlines()) == 30
    assert '\n      "coef_": {"dtype": "float64", "shape": [3, 3], "values": [' in text


def test_pipelines_keep_their_steps():
    steps = {"first": VectorScaling(), "no": "passthrough", "then": IsotonicCalibration()}
    pipeline = Pipeline([*steps.items()]).fit(Z, Y)
    loaded = from_json(to_json(pipeline))
    assert list(loaded.named_steps) == [*steps]
    assert_same(loaded, pipeline, Z)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_labels", [1, 3])
def test_several_labels(n_labels):
    several = np.eye(3, dtype=int)[Y][:, :n_labels]
    calibrator = MultiLabelCalibrator(HistogramBinning(n_bins=3)).fit(Z[:, :n_labels], several)
    assert_same(from_json(to_json(calibrator)), calibrator, Z[:, :n_labels])


@pytest.mark.filterwarnings("ignore")
def test_prior_shift_can_be_adapted_again():
    shift = PriorShift().fit(Z, Y).adapt(Z[Y > 0])
    loaded = from_json(to_json(shift))
    assert_same(loaded, shift, Z)
    np.testing.assert_array_equal(loaded.adapt(Z[Y < 2]).priors_, shift.adapt(Z[Y < 2]).priors_)


def test_other_parameters_are_kept():
    forest = RandomForestClassifier(2, max_depth=np.int64(3), random_state=0)
    calibrator = EstimatorCalibration(forest, smoothing=np.float64(0.1)).fit(Z, Y)
    loaded = from_json(to_json(calibrator))
    assert repr(loaded.estimator) == repr(forest).replace("np.int64(3)", "3")
    assert loaded.get_params(deep=False).keys() == calibrator.get_params(deep=False).keys()


# What cannot be written.
DATES = np.array([date(2020, month, 1) for month in (1, 2, 3)])
OBJECTS = np.array([1.0, 1.0, np.inf], object)
CLASSIFIER = CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=2)
MINE = type("TemperatureScaling", (TemperatureScaling,), {})


def with_classes(factor):
    calibrator = TemperatureScaling().fit(Z, Y)
    calibrator.classes_ = (calibrator.classes_ + 1) * factor
    return calibrator


@pytest.mark.parametrize("wrong", [TemperatureScaling(), make_pipeline(TemperatureScaling())])
def test_what_is_not_fitted_is_refused(wrong):
    with pytest.raises(NotFittedError, match="not fitted"):
        to_json(wrong)


def test_what_is_no_calibrator_of_plain_parts_is_refused():
    for wrong, words in [
        (LogisticRegression().fit(Z, Y), "to_json takes a fitted calibrator"),
        (CLASSIFIER.fit(Z, Y), "as a whole by skops.*pass its calibrator_ alone"),
        (make_pipeline(StandardScaler(), TemperatureScaling()), "standardscaler"),
        (EstimatorCalibration(LogisticRegression()).fit(Z, Y), "estimator.*skops"),
        (TopLabelCalibration(LogisticRegression()).fit(Z, Y), "calibrator.calibrator can"),
        (TemperatureScaling(smoothing=1e-3).fit(Z, Y).set_params(smoothing=1j), "1j"),
        (TemperatureScaling().fit(Z, DATES[Y]), "classes.*datetime.date"),
        (with_classes(OBJECTS), "classes_ cannot"),
        (with_classes(1j), "classes_ cannot.*ndarray"),
        (TemperatureScaling, "got the class TemperatureScaling"),
        (AutoCalibrator(FEW, cv=KFold(2)).fit(Z, Y), "calibrator.cv cannot.* KFold"),
        (MINE().fit(Z, Y), "calibrator cannot be written.*TemperatureScaling"),
    ]:
        with of_case(words), pytest.raises(TypeError, match=words):
            to_json(wrong)


# Text from elsewhere.
def changed(text, path, value):
    raw = json.loads(text)
    *above, key = path
    part = reduce(getitem, above, raw)
    if value is DELETED:
        del part[key]
    else:
        part[key] = value
    return json.dumps(raw)


def says(text, words):
    """That the text raises a sentence with these words, and a remedy."""
    with pytest.raises(ValueError, match=words) as error:
        from_json(text)
    assert_is_sentence(str(error.value))


def assert_is_sentence(message):
    assert message.startswith(("The text must be ", "The format must be ")), message
    assert message.endswith("."), message
    assert "\n" not in message
    assert len(message) < 600


FITTED = ("calibrator", "fitted")
HEAD = '{"format": "skcalib calibrator", "version": 2, "skcalib": "0.1.0", "calibrator": '
PIPELINE = HEAD + '{"class": "Pipeline", "parameters": {"steps": '
WRONG = {
    "": "must be JSON",
    "calibrator.json": "not the name of a file",
    "3": "must be an object whose format",
    "[]": "must be an object whose format",
    '{"format": "skcalib calibrator", "version": 3, "skcalib": "9.9"}': "version 2.*got.*3.*9.9",
    '{"format": "skcalib calibrator", "version": 1, "skcalib": "0.1"}': "version 2.*got.*1.*0.1",
    '{"format": "skcalib calibrator", "version": 2, "skcalib": "0.1"}': "hold a calibrator",
    '{"format": "skcalib calibrator", "version": true, "skcalib": "9.9"}': "versions of the format",
    '{"format": "skcalib calibrator", "version": 2, "skcalib": 1}': "versions of the format",
    HEAD.replace("2", "1", 1) + "{}}": "version 2.*got version 1",
    HEAD + "{}}": "of a class that",
    HEAD + "[]}": "got TypeError: from_json takes a fitted calibrator",
    HEAD + '{"class": "os.system", "parameters": {}}}': "of a class that",
    HEAD + '{"class": ["TemperatureScaling"], "parameters": {}}}': "of a class that",
    HEAD + '{"class": "BaseCalibrator", "parameters": {}}}': "of a class that",
    HEAD + '{"class": "RandomForestClassifier", "parameters": {}}}': "takes a fitted calibrator",
    HEAD + '{"class": "TemperatureScaling", "parameters": {}}}': "NotFittedError",
    HEAD + '{"class": "TemperatureScaling", "parameters": {"some": 1}}}': "argument 'some'",
    HEAD + '{"class": "TemperatureScaling", "parameters": {"a\\n b": 1}}}': "argument 'a b'",
    PIPELINE + "[]}}}": "predicts",
    PIPELINE + '[["a", null]]}}}': "predicts",
    PIPELINE + "3}}}": "predicts",
    HEAD + '{"class": 1e400}}': "of a class that",
    HEAD + '{"class": ' + "9" * 5000 + "}}": "must be JSON",
    HEAD + '{"class": "TemperatureScaling", "parameters": {}, "n": Infinity}}': "must be JSON",
    HEAD + '{"class": "TemperatureScaling", "parameters": {}, "n": NaN}}': "must be JSON",
    HEAD + "[" * 100_000: "must be JSON.*too deep",
    HEAD + '{"a":' * 100_000: "must be JSON",
    "[" * 900 + "]" * 900: "The text must be",
    HEAD + "[" * 500 + "]" * 500 + "}": f"nested at most {DEEPEST} deep",
    HEAD + '{"entries": {"a": ' * 99 + "1" + "}}" * 99 + "}": f"nested at most {DEEPEST} deep",
    HEAD + '"' + "\\": "must be JSON",
}


@pytest.mark.parametrize(("text", "words"), WRONG.items(), ids=[f"{k}" for k in range(len(WRONG))])
def test_text_that_is_no_calibrator(text, words):
    says(text, words)


@pytest.mark.parametrize("text", [b"{}", None, {}, 3])
def test_what_is_no_text(text):
    with pytest.raises(TypeError, match="from_json takes text"):
        from_json(text)


def test_no_other_parameters_of_pipelines(texts):
    """Their memory names a folder, which a fit would write to."""
    text = changed(texts["chain"], ("calibrator", "parameters", "memory"), "folder")
    assert from_json(text).memory is None


def test_calibrators_without_probabilities(texts, monkeypatch):
    values = json.loads(texts["SplineCalibration"])["calibrator"]["fitted"]["values_"]
    huge = values | {"values": [(-1) ** k * 1e308 for k in range(len(values["values"]))]}
    text = changed(texts["SplineCalibration"], (*FITTED, "values_"), huge)
    says(text, "outputs must be probabilities")
    path = (*FITTED, "calibrators_", 1, "fitted", "coef_", "values", 0)
    says(changed(texts["labels"], path, "nan"), "outputs must be probabilities")
    monkeypatch.setattr(TemperatureScaling, "_calibrate", None)
    says(texts["TemperatureScaling"], "got TypeError: 'NoneType'")


def array(values, dtype="float64", shape=None):
    return {"dtype": dtype, "shape": [len(values)] if shape is None else shape, "values": values}


BROKEN = [
    ("temperature_", "2.0", "predicts"),
    ("temperature_", None, "predicts"),
    ("temperature_", DELETED, "temperature_"),
    ("temperature_", 10**400, "predicts"),
    ("temperature_", array(["nan"], shape=[]), "outputs must be probabilities"),
    ("temperature_", array(["Infinity"], shape=[]), "values of the type float64"),
    ("__class__", "x", "names that end in an underscore"),
    ("predict_proba", "x", "names that end in an underscore"),
    ("n_features_in_", 4, "outputs must be probabilities"),
    ("n_features_in_", -1, "no more columns than"),
    ("n_features_in_", 10**12, "no more columns than"),
    ("n_features_in_", 3.0, "no more columns than"),
    ("n_features_in_", DELETED, "predicts"),
    ("classes_", [0, 1, 2], "predicts"),
    ("classes_", "abc", "predicts"),
    ("smoothing_", 30.0, "outputs must be probabilities"),
    ("classes_", array([0], "int64"), "outputs must be probabilities"),
    ("classes_", array([0, 1, None], "int64"), "sizes and values"),
    ("classes_", array([0, 1, [2]], "object"), "sizes and values"),
    ("classes_", array([0, 1, 300], "uint8"), "predicts"),
    ("classes_", array([0, 1, 1.5], "int64"), "values of the type int64"),
    ("classes_", array([0, 1, 2], "M8[s]"), "of a dtype such as"),
    ("classes_", array([0, 1, 2], "f8,(1000000000,)f8"), "of a dtype such as"),
    ("classes_", array([0, 1, 2], "U3"), "text of about equal lengths"),
    ("classes_", array(["a", "a\0", "b"], "U2"), "values of the type U2"),
    ("classes_", array(["a", "bc", "d"], "U1"), "values of the type U1"),
    ("classes_", array(["a", "b", "c"], "U999999"), "text of about equal lengths"),
    ("classes_", array([1.0, 2.0, 1e300], "float32"), "values of the type float32"),
    ("classes_", array([1.0, 2.0, 1 + 1e-12], "float32"), "values of the type float32"),
    ("classes_", array([1, 2, 3], shape=[4]), "predicts"),
    ("classes_", array([1, 2, 3], shape=[-1]), "in that shape"),
    ("classes_", array([1, 2, 3], shape=[True]), "sizes and values"),
    ("classes_", array([], shape=[0, 10**9]), "sizes and values"),
    ("classes_", array(3, shape=[3]), "sizes and values"),
    ("classes_", {"entries": [3]}, "must be an object"),
    ("classes_", {"some": "thing"}, "of a class that"),
]


@pytest.mark.parametrize(("key", "value", "words"), BROKEN)
def test_broken_attributes(texts, key, value, words):
    says(changed(texts["TemperatureScaling"], (*FITTED, key), value), words)


def test_calibrators_inside_must_fit(texts):
    wide = VectorScaling().fit(*make_logits(60, 4, random_state=0))
    of_four = json.loads(to_json(wide))["calibrator"]
    for name, path in [
        ("features", (*FITTED, "components_", 0)),
        ("TopLabelCalibration", (*FITTED, "pooled_calibrator_")),
        ("TopLabelCalibration", (*FITTED, "calibrators_", 2)),
        ("labels", (*FITTED, "calibrators_", 2)),
        ("AutoCalibrator", (*FITTED, "components_", 0)),
        ("chain", ("calibrator", "parameters", "steps", 0, 1)),
    ]:
        for inside in (of_four, "text", 3, {}):
            with of_case((name, inside)):
                says(changed(texts[name], path, inside), "predicts")


def test_labels_that_fill_the_memory(texts):
    classes = ["x" * 10_000, *map(str, range(100_000))]
    text = texts["TemperatureScaling"]
    for path in (("calibrator", "parameters", "classes"), (*FITTED, "classes_")):
        says(changed(text, path, array(classes, "U10000")), "text of about equal lengths")


TREE_FAULTS = {
    "left_": (0, 0),
    "right_": (0, 10**9),
    "feature_": (0, 99),
    "root_": (1, -1),
    "threshold_": (0, "text"),
    "value_": (0, "nan"),
    "baseline_": (0, "nan"),
    "link_": (None, "sigmoid"),
    "n_features_in_": (None, 7),
}


@pytest.mark.parametrize("key", TREE_FAULTS)
def test_broken_trees(key):
    text = to_json(FEW["trees"].fit(Z, Y))
    k, value = TREE_FAULTS[key]
    path = (*FITTED, "estimator_", "fitted", key)
    says(changed(text, path if k is None else (*path, "values", k), value), "predicts")


def test_parameters_have_defaults(texts):
    text = changed(texts["VectorScaling"], ("calibrator", "parameters"), {})
    assert repr(from_json(text)) == "VectorScaling()"


def test_integers_stand_for_floats(texts):
    """Other languages write 2.0 as 2."""
    text, path = texts["TemperatureScaling"], (*FITTED, "temperature_")
    found, expected = (from_json(changed(text, path, t)).predict_proba(Z) for t in (2, 2.0))
    np.testing.assert_array_equal(found, expected)


def test_another_version_warns_once(texts):
    text = texts["AutoCalibrator"].replace(skcalib.__version__, "0.0.1", 1)
    words = "AutoCalibrator from version 0.0.1"
    with pytest.warns(InconsistentVersionWarning, match=words) as caught:
        from_json(text)
    assert len(caught) == 1


# Damage by chance: an error that is a sentence, or a calibrator that predicts.
NASTY = [
    *(None, True, False, 0, -1, 1, 3, 2**63, 10**6, 10**29, 1e308, 1e-300, -1e-320, 0.5),
    *("", "nan", "inf", "1", "a", [], {}, [[]], [0], [1.0, "inf"], [[["a"]]]),
    *(array([1], "float32"), array([], "object"), array(["a"], "U1"), array([2.5], shape=[])),
    *({"class": "Pipeline"}, {"entries": {"a": 1}}, {"class": "Uniform", "parameters": {}}),
]


def paths_of(value, path=()):
    found = [path] if path else []
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        is_part = isinstance(member, dict | list)
        found += paths_of(member, (*path, key)) if is_part else [(*path, key)]
    return found


def assert_says(text):
    """That the text raises a sentence, or makes a calibrator that predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        try:
            loaded = from_json(text)
        except ValueError as error:
            assert_is_sentence(str(error))
            return
    last = loaded[-1] if isinstance(loaded, Pipeline) else loaded
    for name in OUTPUTS:
        with np.errstate(all="ignore"):
            found = getattr(loaded, name)(Z[:, : last.n_features_in_])
        assert len(found) == len(Z)
    assert from_json(to_json(loaded)).__class__ is loaded.__class__


CHANGES = st.tuples(
    st.sampled_from(["delete", "replace", "twice", "wrap"]), st.integers(0, 2**20), st.integers(0)
)


@pytest.mark.filterwarnings("ignore:The calibrator was fitted with features")
@pytest.mark.slow
@settings(max_examples=500)
@given(which=st.integers(0, 10**6), changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_changed_members(texts, which, changes):
    raw = json.loads(sorted(texts.values(), key=len)[which % len(texts)])
    for change, number, nasty in changes:
        paths = paths_of(raw)
        *path, last = paths[number % len(paths)]
        part = reduce(getitem, path, raw)
        if change == "delete":
            del part[last]
        elif change == "replace":
            part[last] = copy.deepcopy(NASTY[nasty % len(NASTY)])
        elif change == "wrap":
            part[last] = [part[last]]
        elif isinstance(part, list):
            part.append(copy.deepcopy(part[last]))
    assert_says(json.dumps(raw))


@pytest.mark.parametrize("name", ["TemperatureScaling", "chain", "TopLabelCalibration"])
def test_some_damage(texts, name):
    text, rng = texts[name], np.random.default_rng(0)
    for start in rng.integers(0, len(text), 25):
        assert_says(text[:start] + text[start + 1 :])
        assert_says(text[:start] + "7" + text[start:])
        assert_says(text[:start])
    paths = paths_of(json.loads(text)["calibrator"])
    for k, value in enumerate(NASTY * 2):
        assert_says(changed(text, ("calibrator", *paths[k * 7 % len(paths)]), value))

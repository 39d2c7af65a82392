"""JSON: round trips bit for bit, metadata, refused calibrators, and damaged text."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from datetime import date, datetime
from functools import reduce
from operator import getitem

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, fitted_state, of_case
from scipy.special import logit, softmax
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
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
    LogitTransformer,
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
from skcalib.monitor import CalibrationMonitor

DELETED = object()
OUTPUTS = ("predict_proba", "predict_log_proba", "transform", "predict")
Z, Y = make_logits(240, 3, temperature=2.0, random_state=0)
FEW = {
    "temperature": TemperatureScaling(smoothing="auto"),
    "matrix": MatrixScaling(),
    "histogram": HistogramBinning(n_bins=5),
}
# Levels of features without information on the class, so that trees get no weight.
LEVELS = np.array(["a", "b", "c"])
MAPS = [kind for kind in CALIBRATORS if "EstimatorCalibration" not in kind.__name__]


def real(form):
    """The calibrator of skcalib for a stand-in of the tests."""
    if isinstance(form, AutoCalibrator):
        return AutoCalibrator(FEW, cv=2)
    for module in (skcalib, skcalib.conditional, skcalib.experimental):
        if hasattr(module, type(form).__name__):
            return getattr(module, type(form).__name__)(**form.get_params(deep=False))
    raise LookupError(type(form).__name__)


def assert_same(loaded, calibrator, X):
    """Equal classes, parameters, fitted attributes and predictions, to the last bit."""
    assert type(loaded) is type(calibrator)
    assert repr(loaded) == repr(calibrator)
    for name in OUTPUTS:
        for rows in (X, X[:1], X.astype(np.float32), 1e4 * X):
            found, wanted = (getattr(c, name)(rows) for c in (loaded, calibrator))
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
    found, wanted = fitted_state(loaded), fitted_state(calibrator)
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert type(found[name]) is type(wanted[name]), name
        assert str(found[name]) == str(wanted[name])


@pytest.fixture(scope="module")
def texts():
    """A text of each kind of calibrator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {kind.__name__: real(kind()).fit(Z, Y) for kind in MAPS}
        found["ovo"] = VennAbersCalibration(multi_class="ovo").fit(Z[:60], Y[:60])
        found["chain"] = make_pipeline(TemperatureScaling(), HistogramBinning(n_bins=3)).fit(Z, Y)
        found["labels"] = MultiLabelCalibrator(VectorScaling()).fit(Z, np.eye(3, dtype=int)[Y])
        features = LEVELS[np.random.default_rng(0).integers(0, 3, 240)]
        found["features"] = ConditionalCalibrator(FEW, cv=2).fit(Z, Y, features=features)
    return {name: to_json(calibrator) for name, calibrator in found.items()}


def test_monitors_go_on_after_a_round_trip():
    P, words = softmax(Z, axis=1), np.array(["a", "b", "c"])
    for monitor, labels in [
        (CalibrationMonitor(labels=range(3)), Y),
        (CalibrationMonitor(labels=words, kind="classwise").update(words[Y], P), words[Y]),
    ]:
        loaded = from_json(to_json(monitor))
        for each in (monitor, loaded):
            each.update(labels[:50], P[:50])
        assert to_json(loaded) == to_json(monitor)
        assert repr(loaded) == repr(monitor)


# --------------------------------------------------------------------------------------
# Round trips.


def test_default_of_two_classes_is_a_small_text_with_equal_predictions():
    X, y = make_logits(5000, 2, temperature=2.0, random_state=0)
    calibrator = AutoCalibrator().fit(X, y)
    assert calibrator.weights_["Venn-Abers"] > 0
    text = to_json(calibrator)
    assert len(text) < 40_000
    assert_same(from_json(text), calibrator, X)
    steps, loaded = (c.calibrators_["Venn-Abers"][-1] for c in (calibrator, from_json(text)))
    np.testing.assert_array_equal(loaded.bin_values_, steps.bin_values_)
    np.testing.assert_array_equal(loaded.predict_interval(X), steps.predict_interval(X))


@pytest.mark.parametrize("form", [kind() for kind in MAPS], ids=repr)
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


DATES = np.array([date(2020, month, 1) for month in (1, 2, 3)])
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
    "of NumPy": np.array([np.str_("ant"), "bee", "cat"], object),
    "booleans": [False, True],
    "dates": DATES,
    "times": np.array([datetime(2020, 1, 1, hour) for hour in (1, 2, 3)]),
    "bytes": np.array([b"ant", b"\xff", b"z"], object),
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "levels",
    [
        DATES,
        DATES.astype("M8[ns]"),
        np.array([b"a", b"b", b"c"]),
        np.array([b"a", b"b", b"c"], object),
        np.array([pd.Timestamp(2020, 1, day, 10) for day in (1, 2, 3)], object),
    ],
    ids=["dates", "datetime64", "bytes", "bytes as objects", "timestamps"],
)
def test_categories_may_be_dates_or_bytes(levels):
    of_row = levels[np.random.default_rng(0).integers(0, 3, 240)]
    features = pd.DataFrame({"of row": pd.Series(of_row).astype("category")})
    calibrator = ConditionalCalibrator(FEW, cv=2).fit(Z, Y, features=features)
    loaded = from_json(to_json(calibrator))
    wanted = calibrator.predict_proba(Z, features=features)
    np.testing.assert_array_equal(loaded.predict_proba(Z, features=features), wanted)


def test_feature_names_survive_a_round_trip():
    X = pd.DataFrame(Z, columns=["0", "1", "2"])
    loaded = from_json(to_json(VectorScaling().fit(X, Y.astype(str))))
    assert loaded.feature_names_in_.tolist() == ["0", "1", "2"]
    assert loaded.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict_proba(X.rename(columns={"0": "9"}))


def test_numbers_that_are_not_finite():
    calibrator = TopLabelCalibration().fit(Z, Y)
    calibrator.extra_, calibrator.shares_ = np.inf, np.array([np.nan, -np.inf, 0.0])
    calibrator.objects_ = np.array(["nan", np.nan], object)
    loaded = from_json(to_json(calibrator))
    assert loaded.extra_ == np.inf
    assert type(loaded.extra_) is float
    np.testing.assert_array_equal(loaded.shares_, calibrator.shares_)
    assert [type(x) for x in loaded.objects_] == [str, float]


def test_an_array_is_a_line(texts):
    text = texts["MatrixScaling"]
    assert len(text.splitlines()) < 40
    assert '\n      "coef_": {"dtype": "float64", "shape": [3, 3], "values": [' in text


def test_pipelines_keep_their_steps():
    steps = {"first": VectorScaling(), "no": "passthrough", "then": IsotonicCalibration()}
    pipeline = Pipeline([*steps.items()]).fit(Z, Y)
    loaded = from_json(to_json(pipeline))
    assert list(loaded.named_steps) == [*steps]
    assert_same(loaded, pipeline, Z)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_labels", [1, 3])
def test_several_labels_survive_a_round_trip(n_labels):
    several = np.eye(3, dtype=int)[Y][:, :n_labels]
    calibrator = MultiLabelCalibrator(HistogramBinning(n_bins=3)).fit(Z[:, :n_labels], several)
    assert_same(from_json(to_json(calibrator)), calibrator, Z[:, :n_labels])


@pytest.mark.filterwarnings("ignore")
def test_prior_shift_can_be_adapted_again():
    shift = PriorShift().fit(Z, Y).adapt(Z[Y > 0])
    loaded = from_json(to_json(shift))
    assert_same(loaded, shift, Z)
    np.testing.assert_array_equal(loaded.adapt(Z[Y < 2]).priors_, shift.adapt(Z[Y < 2]).priors_)


# --------------------------------------------------------------------------------------
# Metadata.


def test_metadata_survive_a_round_trip():
    calibrator = TemperatureScaling().fit(Z, Y)
    metadata = {"data": "validation", "day": date(2026, 1, 2), "n": np.int64(5), "of": {"a": [1.5]}}
    loaded, found = from_json(to_json(calibrator, metadata=metadata), return_metadata=True)
    assert found == {"data": "validation", "day": "2026-01-02", "n": 5, "of": {"a": [1.5]}}
    assert_same(loaded, calibrator, Z)
    assert from_json(to_json(calibrator), return_metadata=True)[1] == {}


@pytest.mark.parametrize(
    "wrong",
    ["text", {1: "a"}, {"a": np.nan}, {"a": object()}, ["a"], False],
    ids=["text", "number as key", "NaN", "object", "list", "bool"],
)
def test_metadata_must_be_plain_json(wrong):
    with pytest.raises(TypeError, match="metadata"):
        to_json(TemperatureScaling().fit(Z, Y), metadata=wrong)


# --------------------------------------------------------------------------------------
# Calibrators that cannot be written.


CLASSIFIER = CalibratedClassifier(LogisticRegression(), TemperatureScaling(), cv=2)
TREES = EstimatorCalibration(ExtraTreesClassifier(3, max_depth=3, random_state=0))
MINE = type("TemperatureScaling", (TemperatureScaling,), {})


def with_classes(factor):
    calibrator = TemperatureScaling().fit(Z, Y)
    calibrator.classes_ = (calibrator.classes_ + 1) * factor
    return calibrator


@pytest.mark.parametrize("wrong", [TemperatureScaling(), make_pipeline(TemperatureScaling())])
def test_calibrators_that_are_not_fitted_are_refused(wrong):
    with pytest.raises(NotFittedError, match="not fitted"):
        to_json(wrong)


def test_the_remedy_for_a_pipeline_works():
    steps = StandardScaler(), LogitTransformer(LogisticRegression()), TemperatureScaling()
    pipeline = make_pipeline(*steps, TemperatureScaling()).fit(Z, Y)
    with pytest.raises(TypeError, match=r"as in pipeline\[2:\]\.$"):
        to_json(pipeline)
    to_json(pipeline[2:])
    with pytest.raises(TypeError, match="'logittransformer'"):
        to_json(pipeline[:2])
    whole = make_pipeline(StandardScaler(), CLASSIFIER).fit(Z, Y)
    with pytest.raises(TypeError, match="'calibratedclassifier'"):
        to_json(whole)


def test_calibrators_with_other_parts_are_refused():
    trees = "Classifier .*skops"
    for wrong, words in [
        (LogisticRegression().fit(Z, Y), "fitted calibrator"),
        (CLASSIFIER.fit(Z, Y), "skops.*calibrator_"),
        (make_pipeline(StandardScaler(), TemperatureScaling()), "standardscaler"),
        (EstimatorCalibration().fit(Z, Y), trees),
        (TREES.fit(Z, Y), trees),
        (AutoCalibrator([TREES], cv=2).fit(Z, Y), trees),
        (TopLabelCalibration(LogisticRegression()).fit(Z, Y), "calibrator.calibrator"),
        (TemperatureScaling(smoothing=1e-3).fit(Z, Y).set_params(smoothing=1j), "1j"),
        (with_classes(1j), "calibrator.classes_"),
        (TemperatureScaling, "class TemperatureScaling"),
        (AutoCalibrator(FEW, cv=KFold(2)).fit(Z, Y), "KFold .*calibrator.cv"),
        (MINE().fit(Z, Y), "type TemperatureScaling"),
    ]:
        with of_case(words), pytest.raises(TypeError, match=words):
            to_json(wrong)


# --------------------------------------------------------------------------------------
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


def assert_is_sentence(message):
    assert message.startswith(("The text must ", "The format must be ")), message
    assert message.endswith("."), message
    assert "\n" not in message
    assert len(message) < 600


def says(text, words):
    """Check that the text raises a sentence with these words and a remedy."""
    with pytest.raises(ValueError, match=words) as error:
        from_json(text)
    assert_is_sentence(str(error.value))


FITTED = ("calibrator", "fitted")
HEAD = '{"format": "skcalib calibrator", "version": 2, "skcalib": "0.1.0", "calibrator": '
OTHER_CLASS = "a calibrator of this skcalib"
WRONG = {
    "": "JSON",
    "calibrator.json": "file",
    "3": "object",
    "[]": "object",
    '{"format": "skcalib calibrator", "version": 3, "skcalib": "9.9"}': "version 2.*3.*9.9",
    '{"format": "skcalib calibrator", "version": 2, "skcalib": "0.1"}': "calibrator",
    '{"format": "skcalib calibrator", "version": true, "skcalib": "9.9"}': "version",
    HEAD + "{}}": "predicts",
    HEAD + "[]}": "fitted calibrator",
    HEAD + '{"class": "os.system", "parameters": {}}}': OTHER_CLASS,
    HEAD + '{"class": ["TemperatureScaling"], "parameters": {}}}': OTHER_CLASS,
    HEAD + '{"class": "BaseCalibrator", "parameters": {}}}': OTHER_CLASS,
    HEAD + '{"class": "RandomForestClassifier", "parameters": {}}}': OTHER_CLASS,
    HEAD + '{"class": "TemperatureScaling", "parameters": {}}}': "NotFittedError",
    HEAD + '{"class": "TemperatureScaling", "parameters": {"some": 1}}}': "'some'",
    HEAD + '{"class": "Pipeline", "parameters": {"steps": []}}}': "predicts",
    HEAD + '{"class": "TemperatureScaling", "parameters": {}, "n": NaN}}': "JSON",
    HEAD + "[" * 100_000: "JSON.*deep",
    HEAD + "[" * 900 + "]" * 900 + "}": "predicts",
}


@pytest.mark.parametrize(("text", "words"), WRONG.items(), ids=[f"{k}" for k in range(len(WRONG))])
def test_from_json_refuses_other_text(text, words):
    says(text, words)


@pytest.mark.parametrize("text", [b"{}", None, {}, 3])
def test_from_json_refuses_objects_that_are_not_text(text):
    with pytest.raises(TypeError, match="text"):
        from_json(text)


def array(values, dtype="float64", shape=None):
    return {"dtype": dtype, "shape": [len(values)] if shape is None else shape, "values": values}


BROKEN = [
    *(("temperature_", value) for value in ("2.0", None, DELETED, 10**400, {"float": "nan"})),
    *((name, "x") for name in ("__class__", "predict_proba", "_calibrate")),
    *(("n_features_in_", value) for value in (4, -1, 10**12, 3.0, DELETED)),
    ("smoothing_", 30.0),
    ("classes_", "abc"),
    ("classes_", array([0], "int64")),
    ("classes_", array([0, 1, None], "int64")),
    ("classes_", array([0, 1, 300], "uint8")),
    ("classes_", array([0, 1, 2], "f8,(1000000000,)f8")),
    ("classes_", array(["a", "bc", "d"], "U1")),
    ("classes_", array([1, 2, 3], shape=[4])),
    ("classes_", array([0, 1, 2], "int64") | {"repeats": [4, -2, 1]}),
    ("classes_", {"entries": [3]}),
]


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_broken_attributes_are_refused(texts, key, value):
    says(changed(texts["TemperatureScaling"], (*FITTED, key), value), "hold a")


def test_parameters_have_defaults(texts):
    text = changed(texts["VectorScaling"], ("calibrator", "parameters"), {})
    assert repr(from_json(text)) == "VectorScaling()"


def test_tables_may_have_all_their_values():
    """As in texts of earlier versions."""
    p = np.linspace(0.01, 0.99, 60)
    fitted = VennAbersCalibration().fit(logit(p)[:, None], np.arange(60) % 3 > 0)
    raw = json.loads(to_json(fitted))
    (table,) = raw["calibrator"]["fitted"]["bin_intervals_"]
    del table["repeats"]
    table["values"] = fitted.bin_intervals_[0].ravel().tolist()
    found, expected = (x.predict_interval(Z[:, :1]) for x in (from_json(json.dumps(raw)), fitted))
    np.testing.assert_array_equal(found, expected)


def test_integers_stand_for_floats(texts):
    """Other languages write 2.0 as 2."""
    text, path = texts["TemperatureScaling"], (*FITTED, "temperature_")
    found, expected = (from_json(changed(text, path, t)).predict_proba(Z) for t in (2, 2.0))
    np.testing.assert_array_equal(found, expected)


def test_another_version_warns_once(texts):
    text = texts["AutoCalibrator"].replace(skcalib.__version__, "0.0.1", 1)
    words = "0.0.1"
    with pytest.warns(InconsistentVersionWarning, match=words) as caught:
        from_json(text)
    assert len(caught) == 1


NASTY = [
    *(None, True, -1, 0, 3, 2**63, 10**29, 1e308, -1e-320, "", "nan", "a", [], {}, [[]], [0]),
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
    """Check that the text raises a sentence, or makes a calibrator that predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        try:
            loaded = from_json(text)
        except ValueError as error:
            assert_is_sentence(str(error))
            return
    last = loaded[-1] if isinstance(loaded, Pipeline) else loaded
    with np.errstate(all="ignore"):
        assert len(loaded.predict_proba(Z[:, : last.n_features_in_])) == len(Z)


@pytest.mark.parametrize("name", ["TemperatureScaling", "chain", "TopLabelCalibration", "labels"])
@pytest.mark.filterwarnings("ignore:The calibrator was fitted with features")
def test_damage_is_a_sentence_or_a_calibrator_that_predicts(texts, name):
    text, rng = texts[name], np.random.default_rng(0)
    for start in rng.integers(0, len(text), 25):
        assert_says(text[:start] + text[start + 1 :])
        assert_says(text[:start])
    paths = paths_of(json.loads(text)["calibrator"])
    for k, value in enumerate(NASTY * 2):
        path = paths[k * 7 % len(paths)]
        assert_says(changed(text, ("calibrator", *path), copy.deepcopy(value)))

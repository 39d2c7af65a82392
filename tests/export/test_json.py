"""JSON: round trips bit for bit, and text that is damaged, newer or hostile."""

import copy
import json
import pickle
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, FORMS, fitted_state
from hypothesis import given, settings, strategies as st
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
    ClassifierCalibrator,
    GroupCalibrator,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    MultiLabelCalibrator,
    PlattScaling,
    PriorShift,
    TemperatureScaling,
    TopLabelCalibration,
    VectorScaling,
    VennAbersCalibration,
)
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json
from skcalib.export._state import FITTED, TREES
from skcalib.export._text import DEEPEST, MOST_CHARACTERS

OUTPUTS = ("predict_proba", "predict_log_proba", "transform", "predict")
Z, Y = make_logits(240, 3, temperature=2.0, random_state=0)
FEW = {
    "temperature": TemperatureScaling(smoothing="auto"),
    "matrix": MatrixScaling(),
    "trees": ClassifierCalibrator(ExtraTreesClassifier(3, max_depth=3, random_state=0)),
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
    found, wanted = (
        {} if isinstance(c, Pipeline) else plain_state(c) for c in (loaded, calibrator)
    )
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert type(found[name]) is type(wanted[name]), name
        assert str(found[name]) == str(wanted[name])


def plain_state(calibrator):
    """Fitted attributes, without those of classifiers, which are trees once they are loaded."""
    state = fitted_state(calibrator)
    return {name: value for name, value in state.items() if "estimator_" not in name}


class Texts(dict):
    """With a short repr, which hypothesis shows."""

    def __repr__(self):
        return "texts"


def _texts():
    """A text of each kind of calibrator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {kind.__name__: real(kind()).fit(Z, Y) for kind in CALIBRATORS}
        found["ovo"] = VennAbersCalibration(multi_class="ovo").fit(Z[:60], Y[:60])
        found["chain"] = make_pipeline(TemperatureScaling(), HistogramBinning(n_bins=3)).fit(Z, Y)
        groups = np.array(["a", "b"])[np.arange(len(Y)) % 2]
        several = np.eye(3, dtype=int)[Y]
        found["labels"] = MultiLabelCalibrator(VectorScaling()).fit(Z, several)
        shift = make_pipeline(TemperatureScaling(), PriorShift()).fit(Z, Y)
        shift[-1].adapt(Z[Y > 0])
        found["shift"] = shift
        found["groups"] = GroupCalibrator(shrinkage=2.0).fit(Z, Y, groups=groups)
    return Texts({name: to_json(calibrator) for name, calibrator in found.items()})


@pytest.fixture(scope="module")
def texts():
    return _texts()


# Round trips.
def test_every_calibrator_has_a_format():
    assert {real(kind()).__class__ for kind in CALIBRATORS} <= FITTED.keys()


def test_every_attribute_is_in_the_guide():
    page = (Path(__file__).parents[2] / "doc" / "guide" / "export.rst").read_text()
    table = page[page.index("the other attributes are:") : page.index("*Trees* have")]
    for kind, fitted in FITTED.items():
        assert f"``{kind.__name__}``" in table
        assert all(f"``{name}``" in table for name in {**fitted.required, **fitted.optional})
    assert all(f"``{name}``" in page for name in TREES)


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
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_keep_their_type(labels):
    labels = np.asarray(labels)
    calibrator = TemperatureScaling(classes=labels).fit(Z, labels[Y])
    loaded = from_json(to_json(calibrator))
    for found in (loaded.classes_, loaded.classes):
        assert found.dtype == labels.dtype
        assert found.tolist() == labels.tolist()
    assert loaded.predict(Z).dtype == calibrator.predict(Z).dtype


def test_booleans_as_labels():
    calibrator = PlattScaling(classes=[False, True]).fit(-Z[:, :1], Y > 0)
    loaded = from_json(to_json(calibrator))
    assert loaded.classes_.dtype == bool
    assert loaded.classes == [False, True]


def test_names_of_columns():
    X = pd.DataFrame(Z, columns=["0", "1", "2"])
    loaded = from_json(to_json(VectorScaling().fit(X, Y.astype(str))))
    assert loaded.feature_names_in_.tolist() == ["0", "1", "2"]
    assert loaded.feature_names_in_.dtype == object
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict_proba(X.rename(columns={"0": "9"}))


def test_groups_and_what_is_inside():
    groups = np.array([7, 8, 9])[np.arange(len(Y)) % 3]
    inner = make_pipeline(TemperatureScaling(), HistogramBinning(n_bins=3))
    calibrator = GroupCalibrator(inner, shrinkage=2.0).fit(Z, Y, groups=groups)
    loaded = from_json(to_json(calibrator))
    for name in OUTPUTS:
        found, wanted = (getattr(c, name)(Z, groups=groups) for c in (loaded, calibrator))
        np.testing.assert_array_equal(found, wanted)
    assert_same(loaded, calibrator, Z)


def test_a_calibrator_that_occurs_twice_is_written_once():
    calibrator = AutoCalibrator(FEW, cv=2).fit(Z, Y)
    loaded = from_json(to_json(calibrator))
    for c in (calibrator, loaded):
        twice = [part for part in c.components_ if any(part is x for x in c.calibrators_.values())]
        assert twice
    assert '"same_as": "calibrator.fitted.calibrators_.' in to_json(calibrator)


def test_pipelines_keep_their_steps():
    pipeline = Pipeline(
        [("first", VectorScaling()), ("no", "passthrough"), ("then", IsotonicCalibration())]
    ).fit(Z, Y)
    loaded = from_json(to_json(pipeline))
    assert list(loaded.named_steps) == ["first", "no", "then"]
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


def test_masked_classes():
    X = Z.copy()
    X[np.arange(0, 240, 3), (Y[::3] + 1) % 3] = -np.inf
    calibrator = TopLabelCalibration().fit(X, Y)
    P = from_json(to_json(calibrator)).predict_proba(X)
    np.testing.assert_array_equal(P, calibrator.predict_proba(X))
    assert (P[np.isneginf(X)] == 0).all()


def test_other_parameters_are_kept():
    forest = RandomForestClassifier(2, max_depth=np.int64(3), random_state=0)
    calibrator = ClassifierCalibrator(forest, smoothing=np.float64(0.1)).fit(Z, Y)
    loaded = from_json(to_json(calibrator))
    assert repr(loaded.estimator) == repr(forest).replace("np.int64(3)", "3")
    assert loaded.get_params(deep=False).keys() == calibrator.get_params(deep=False).keys()


# What cannot be written.
DATES = np.array([date(2020, month, 1) for month in (1, 2, 3)])


def with_classes(calibrator, factor):
    calibrator.classes_ = calibrator.classes_ * factor
    return calibrator


def test_what_is_no_fitted_calibrator_is_refused():
    for wrong, error, words in [
        (TemperatureScaling(), NotFittedError, "not fitted"),
        (make_pipeline(TemperatureScaling()), NotFittedError, "not fitted"),
        (LogisticRegression().fit(Z, Y), TypeError, "to_json takes a fitted calibrator"),
        (make_pipeline(StandardScaler(), TemperatureScaling()), TypeError, "standardscaler"),
        (ClassifierCalibrator(LogisticRegression()).fit(Z, Y), TypeError, "skops"),
        (GroupCalibrator(LogisticRegression()).fit(Z, Y), TypeError, "LogisticRegression at"),
        (TemperatureScaling(smoothing=1e-3).fit(Z, Y).set_params(smoothing=1j), TypeError, "1j"),
        (TemperatureScaling().fit(Z, DATES[Y]), TypeError, "got datetime.date"),
        (with_classes(TemperatureScaling().fit(Z, Y), 1j), TypeError, "Labels must.*complex128"),
        (TemperatureScaling, TypeError, "got the class TemperatureScaling"),
        (AutoCalibrator(FEW, cv=KFold(2)).fit(Z, Y), TypeError, "parameters.cv .* KFold"),
    ]:
        with pytest.raises(error, match=words):
            to_json(wrong)


def test_subclasses_of_others_are_refused():
    class Mine(TemperatureScaling):
        pass

    with pytest.raises(TypeError, match="Mine at calibrator cannot be written"):
        to_json(Mine().fit(Z, Y))


# Text from elsewhere.
def changed(text, path, value):
    raw = json.loads(text)
    part = raw
    for key in path[:-1]:
        part = part[key]
    if value is DELETED:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return json.dumps(raw)


DELETED = object()
HEAD = '{"format": "skcalib calibrator", "version": 1, "skcalib": "0.1.0", "calibrator": '
WRONG = {
    "": "must be JSON",
    "3": "must be an object whose format",
    "[]": "must be an object whose format",
    '{"format": "skcalib calibrator", "version": 2, "skcalib": "9.9"}': "1 or lower.*9.9",
    '{"format": "skcalib calibrator", "version": true, "skcalib": "9.9"}': "lacks 'calibrator'",
    HEAD.replace("1", "0.5", 1) + "{}}": "must have the version 1, .* got 0.5",
    HEAD + "{}}": "class None",
    HEAD + "[]}": "must be an object, got",
    HEAD + '{"class": "os.system"}}': "os.system.*does not read",
    HEAD + '{"class": ["TemperatureScaling"]}}': "does not read",
    HEAD + '{"class": "RandomForestClassifier"}}': "must be a calibrator",
    HEAD + '{"class": "Pipeline", "steps": []}}': "a pipeline of calibrators",
    HEAD + '{"class": "Pipeline", "steps": [["a", null]]}}': "a pipeline of calibrators",
    HEAD + '{"class": "Pipeline", "steps": 3}}': "pairs of a name",
    HEAD + '{"class": "Pipeline", "steps": [["memory", null]]}}': "not those of its parameters",
    HEAD + '{"same_as": "calibrator"}}': "further up",
    HEAD + '{"class": 1e400}}': "double precision, got 1e400",
    HEAD + '{"class": NaN}}': "got NaN",
    HEAD + '{"class": ' + "9" * 5000 + "}}": "double precision",
    HEAD + '{"class": 1, "class": 2}}': "got 'class' twice",
    HEAD + "[" * 100_000: f"at most {DEEPEST} deep",
    HEAD + '{"a":' * 100_000: f"at most {DEEPEST} deep",
    HEAD + '"' + "\\": "must be JSON",
    '{"format": "skcalib calibrator"': "must be JSON.*line 1",
}


@pytest.mark.parametrize(("text", "words"), WRONG.items(), ids=[f"{k}" for k in range(len(WRONG))])
def test_text_that_is_no_calibrator(text, words):
    with pytest.raises(ValueError, match=words) as error:
        from_json(text)
    assert str(error.value).endswith(".")


def test_text_that_is_huge(monkeypatch):
    monkeypatch.setattr("skcalib.export._text.MOST_CHARACTERS", 10)
    assert MOST_CHARACTERS > 10**8
    with pytest.raises(ValueError, match="at most 10 characters, got 11"):
        from_json(11 * " ")


def test_calibrators_without_probabilities(texts, monkeypatch):
    values = json.loads(texts["SplineCalibration"])["calibrator"]["fitted"]["values_"]
    huge = [[(-1) ** k * 1e308 for k in range(len(line))] for line in values]
    with pytest.raises(ValueError, match="calibrator gives invalid probabilities"):
        from_json(changed(texts["SplineCalibration"], ("calibrator", "fitted", "values_"), huge))
    monkeypatch.setattr(TemperatureScaling, "_calibrate", None)
    with pytest.raises(ValueError, match="calibrator gives no probabilities: TypeError"):
        from_json(texts["TemperatureScaling"])


@pytest.mark.parametrize("text", [b"{}", None, {}, 3])
def test_what_is_no_text(text):
    with pytest.raises(TypeError, match="from_json takes text"):
        from_json(text)


FITTED_PATH = ("calibrator", "fitted")
BROKEN = [
    ("TemperatureScaling", "temperature_", 0, "above 0, got 0"),
    ("TemperatureScaling", "temperature_", True, "above 0, got True"),
    ("TemperatureScaling", "temperature_", "2.0", "above 0, got '2.0'"),
    ("TemperatureScaling", "temperature_", None, "above 0, got None"),
    ("TemperatureScaling", "temperature_", DELETED, "lacks 'temperature_'"),
    ("TemperatureScaling", "temprature_", 1, "must not have 'temprature_'"),
    ("TemperatureScaling", "smoothing_", 1.5, "between 0 and 1, got 1.5"),
    ("TemperatureScaling", "n_features_in_", 4, "the number of 3 classes, got 4"),
    ("TemperatureScaling", "n_features_in_", 2, "the number of 3 classes, got 2"),
    ("TemperatureScaling", "n_features_in_", -1, "at least 1, got -1"),
    ("TemperatureScaling", "n_features_in_", 3.0, "an integer of at least 1, got 3.0"),
    ("TemperatureScaling", "classes_", [0], "the number of 1 classes"),
    ("TemperatureScaling", "classes_", [0, 1, 1], "without a duplicate"),
    ("TemperatureScaling", "classes_", [0, 1, True], "labels of one type"),
    ("TemperatureScaling", "classes_", [0, 1, None], "integers, floats, booleans or strings"),
    ("TemperatureScaling", "classes_", {"dtype": "U9999", "values": [1, 2, 3]}, "of strings"),
    ("TemperatureScaling", "classes_", {"dtype": "uint8", "values": [1, 2, 300]}, "type uint8"),
    ("TemperatureScaling", "classes_", {"dtype": "M8[s]", "values": [1, 2, 3]}, "one of int8"),
    ("TemperatureScaling", "feature_names_in_", ["a", "b"], "must have 3 entries, got 2"),
    ("TemperatureScaling", "feature_names_in_", [1, 2, 3], "a list of different names"),
    ("VectorScaling", "coef_", [1.0, 2.0], "must have 3 entries, got 2"),
    ("VectorScaling", "coef_", [1.0, 2.0, "nan"], "a list of numbers, got 'nan'"),
    ("VectorScaling", "coef_", [1.0, 2.0, True], "a list of numbers, got True"),
    ("VectorScaling", "coef_", "123", "a list, got '123'"),
    ("VectorScaling", "coef_", [[1.0], [2.0], [3.0]], "a list of numbers, got"),
    ("VectorScaling", "coef_", {"dtype": "float32", "values": [1, 2, 1e300]}, "finite numbers"),
    ("VectorScaling", "coef_", {"dtype": "float16", "values": [1, 2, 3]}, '"float32"'),
    ("MatrixScaling", "coef_", [[1, 2, 3], [1, 2]], "lists of one length"),
    ("MatrixScaling", "coef_", [1, 2, 3], "lists of one length"),
    ("MatrixScaling", "normalize_", 1, "true or false, got 1"),
    ("HistogramBinning", "bin_edges_", [[0, 1]] * 2, "must have 3 entries, got 2"),
    ("HistogramBinning", "bin_edges_", [[0, 1]] * 3, "entries, got 15"),
    ("HistogramBinning", "bin_values_", [[]] * 3, "must have"),
    ("IsotonicCalibration", "bin_edges_", [[0, 1]] * 3, "as many bin_edges_"),
    ("BBQ", "bin_edges_", [[0.5, 0.2]] * 3, "increasing order"),
    ("VennAbersCalibration", "pairs_", [[0, 1]], "pairs_ of all classes"),
    ("ovo", "bin_edges_", [[0, 1]] * 2, "entries, got"),
    ("EnsembleTemperatureScaling", "weights_", [1, 1, 1], "sum is 1"),
    ("OrderPreservingScaling", "slopes_", [1, 1], "entries, got 2"),
    ("SplineCalibration", "knots_", [[]] * 3, "entries, got"),
    ("SplineCalibration", "knots_", [[1.0] * 10] * 3, "equally spaced knots_"),
    ("SplineCalibration", "knots_", [[0, *range(2, 11)]] * 3, "equally spaced knots_"),
    ("TemperatureScaling", "classes_", ["a", "a\0", "b"], "labels that the type <U2 holds"),
    ("TemperatureScaling", "classes_", [1, 2, 2**63], "labels of one type"),
    ("TemperatureScaling", "classes_", [1, 2, 2**64], "integers, floats, booleans or strings"),
    *(
        ("TemperatureScaling", "classes_", {"dtype": name, "values": [0.0, values, 2.0]}, words)
        for name, values, words in [
            ("float32", 1e300, "type float32 holds"),
            ("float32", 1 + 1e-12, "type float32"),
            ("float64", "nan", "type float64"),
        ]
    ),
    ("groups", "groups_", ["b", "a"], "groups_ in order"),
    ("TopLabelCalibration", "calibrators_", [], "must have 3 entries, got 0"),
]


@pytest.mark.parametrize(("name", "key", "value", "words"), BROKEN)
def test_broken_attributes(texts, name, key, value, words):
    text = changed(texts[name], (*FITTED_PATH, key), value)
    with pytest.raises(ValueError, match=words.replace("[", r"\[")) as error:
        from_json(text)
    assert str(error.value).endswith(".")


def test_calibrators_inside_must_fit(texts):
    two = json.loads(to_json(TemperatureScaling().fit(Z[:, :2], Y > 0)))["calibrator"]
    for name in ("groups", "TopLabelCalibration"):
        text = changed(texts[name], (*FITTED_PATH, "calibrators_", 0), two)
        with pytest.raises(ValueError, match=r"calibrators_\[0\] must be a calibrator of"):
            from_json(text)
    text = changed(texts["chain"], ("calibrator", "steps", 0, 1), two)
    with pytest.raises(ValueError, match="a pipeline of calibrators for the same classes"):
        from_json(text)


def test_groups_inside_are_calibrators_of_one_label(texts):
    several = json.loads(texts["labels"])["calibrator"]
    text = changed(texts["groups"], (*FITTED_PATH, "calibrators_", 0), several)
    with pytest.raises(ValueError, match=r"calibrators_\[0\] must be a calibrator of 3 columns"):
        from_json(text)


# Few letters that stand for much: an error at once.
def mixture(inside):
    fitted = {"n_features_in_": 3, "classes_": [0, 1, 2], "calibrators_": {}, "smoothing_": 0.0}
    weights = [1 / len(inside)] * len(inside)
    fitted |= {"components_": inside, "component_weights_": weights}
    return {"class": "AutoCalibrator", "parameters": {}, "fitted": fitted}


def repeated(text, depth, where="calibrator"):
    """Mixtures of the same mixture, ten times on each level."""
    if depth == 0:
        return json.loads(text)["calibrator"]
    first = f"{where}.fitted.components_[0]"
    return mixture([repeated(text, depth - 1, first)] + [{"same_as": first}] * 9)


def test_calibrators_that_are_repeated(texts):
    text = texts["TemperatureScaling"]
    few, many = (changed(text, ("calibrator",), repeated(text, n)) for n in (2, 4))
    np.testing.assert_allclose(
        from_json(few).predict_proba(Z), from_json(text).predict_proba(Z), atol=1e-3
    )
    with pytest.raises(ValueError, match="one of at most 100 for each that the file has"):
        from_json(many)


def test_labels_that_fill_the_memory(texts):
    classes = ["x" * 10_000, *map(str, range(100_000))]
    text = texts["TemperatureScaling"]
    for path in (("calibrator", "parameters", "classes"), (*FITTED_PATH, "classes_")):
        with pytest.raises(ValueError, match="of strings as long as the labels"):
            from_json(changed(text, path, {"dtype": "U10000", "values": classes}))
    with pytest.raises(ValueError, match="a list of labels of one type"):
        from_json(changed(text, (*FITTED_PATH, "classes_"), classes))


def test_more_than_there_is_memory_for(texts):
    text = changed(texts["ovo"], (*FITTED_PATH, "classes_"), list(range(100_000)))
    text = changed(text, (*FITTED_PATH, "n_features_in_"), 100_000)
    with pytest.raises(ValueError, match="pairs_ of all classes"):
        from_json(text)
    knots = {"knots_": [list(range(2000))] * 3, "values_": [[0.0] * 2000] * 3}
    text = texts["SplineCalibration"]
    for name, value in knots.items():
        text = changed(text, (*FITTED_PATH, name), value)
    with pytest.raises(ValueError, match="2 to 1000 knots"):
        from_json(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"\\' * 200_000, "must be JSON"),
        ("{" + "".join(f'"{k}": 0, ' for k in range(50_000)) + '"0": 0}', "got '0' twice"),
        ("{" + "".join(f'"{k}": 0, ' for k in range(50_000)) + '"z": 0, "z": 0}', "got 'z' twice"),
    ],
    ids=["strings", "first", "last"],
)
def test_text_whose_length_squared_is_large(text, words):
    with pytest.raises(ValueError, match=words):
        from_json(text)


TREE_FAULTS = {
    "left": (0, 0),
    "right": (0, 10**9),
    "feature": (0, 99),
    "root": (1, 0),
    "threshold": (0, "nan"),
    "value": (0, [0.0, 0.0, 0.5]),
    "classes_": (0, 7),
    "baseline": (0, "inf"),
    "link": (None, "sigmoid"),
    "n_features_in_": (None, 7),
}


@pytest.mark.parametrize("key", TREE_FAULTS)
def test_broken_trees(key):
    text = to_json(FEW["trees"].fit(Z, Y))
    k, value = TREE_FAULTS[key]
    path = (*FITTED_PATH, "estimator_", key)
    with pytest.raises(ValueError, match=r"estimator_.* must .*\."):
        from_json(changed(text, path if k is None else (*path, k), value))


def test_parameters_are_checked(texts):
    for key, value, words in [
        ("alpha", True, '"auto" or "loo" or float'),
        ("alpha", "best", '"auto" or "loo" or float'),
        ("max_iter", 1.5, "int, got 1.5"),
        ("normalize", 0, "bool, got 0"),
        ("nonsense", 0, "must not have 'nonsense'"),
        ("classes", {"class": "os.system", "parameters": {}}, "os.system"),
        ("classes", {"some": "thing"}, "null, a number, a string"),
    ]:
        with pytest.raises(ValueError, match=words):
            from_json(changed(texts["VectorScaling"], ("calibrator", "parameters", key), value))
    text = changed(texts["VectorScaling"], ("calibrator", "parameters"), {})
    assert repr(from_json(text)) == "VectorScaling()"


def test_integers_stand_for_floats(texts):
    # Other languages write 2.0 as 2.
    loaded = from_json(changed(texts["TemperatureScaling"], (*FITTED_PATH, "temperature_"), 2))
    assert type(loaded.temperature_) is float


def test_another_version_warns_once(texts):
    text = texts["AutoCalibrator"].replace(skcalib.__version__, "0.0.1", 1)
    with pytest.warns(
        InconsistentVersionWarning, match="AutoCalibrator from version 0.0.1"
    ) as caught:
        from_json(text)
    assert len(caught) == 1


# Damage by chance: an error that is a sentence, or a calibrator that is what the text says.
NASTY = [
    *(None, True, False, 0, -1, 1, 3, 2**63, 10**6, 10**29, 1e308, 1e-300, -1e-320, 0.5),
    *("", "nan", "inf", "1", "a", [], {}, [[]], [0], [1.0, "inf"], [[["a"]]]),
    *({"dtype": "float32", "values": [1]}, {"dtype": "object", "values": []}),
    *({"class": "Pipeline"}, {"same_as": "calibrator"}),
]


def paths_of(value, path=()):
    found = [path] if path else []
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        if isinstance(member, dict | list):
            found += paths_of(member, (*path, key))
        else:
            found.append((*path, key))
    return found


def assert_says(text):
    """That the text raises a sentence, or makes a calibrator that is what it says."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        try:
            loaded = from_json(text)
        except ValueError as error:
            sentence = str(error)
            assert sentence[0].isupper() or sentence.startswith("calibrator"), sentence
            assert sentence.endswith("."), sentence
            return
    written, raw = json.loads(to_json(loaded)), json.loads(text)
    assert_contains(written["calibrator"], raw["calibrator"])


def assert_contains(written, raw):
    if isinstance(raw, dict) and isinstance(written, dict):
        for key, value in raw.items():
            if written.get("class") in ("RandomForestClassifier", "ExtraTreesClassifier"):
                continue  # of whose parameters defaults are left out
            assert_contains(written[key], value)
    elif isinstance(raw, list):
        assert len(written) == len(raw)
        for one, other in zip(written, raw, strict=True):
            assert_contains(one, other)
    else:
        # An integer that stands for a float is as large as that.
        assert written == (float(raw) if type(written) is float and type(raw) is int else raw)
        assert isinstance(written, bool) == isinstance(raw, bool)


CHANGES = st.tuples(
    st.sampled_from(["delete", "replace", "twice", "wrap"]), st.integers(0, 2**20), st.integers(0)
)


@pytest.mark.slow
@settings(max_examples=1500)
@given(which=st.integers(0, 10**6), changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_changed_members(texts, which, changes):
    raw = json.loads(sorted(texts.values(), key=len)[which % len(texts)])
    for change, number, nasty in changes:
        paths = paths_of(raw)
        *path, last = paths[number % len(paths)]
        part = raw
        for key in path:
            part = part[key]
        if change == "delete":
            del part[last]
        elif change == "replace":
            part[last] = copy.deepcopy(NASTY[nasty % len(NASTY)])
        elif change == "wrap":
            part[last] = [part[last]]
        elif isinstance(part, list):
            part.append(copy.deepcopy(part[last]))
    assert_says(json.dumps(raw))


@pytest.mark.slow
@settings(max_examples=1500)
@given(data=st.data())
def test_changed_letters(texts, data):
    text = data.draw(st.sampled_from(sorted(texts.values())))
    start = data.draw(st.integers(0, len(text)))
    stop = min(len(text), start + data.draw(st.integers(0, 4)))
    letters = st.text(st.sampled_from('0123456789.eE+-"[]{},: \\nulltrfas\x00é\ud800'), max_size=4)
    assert_says(text[:start] + data.draw(letters) + text[stop:])


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_truncated_text(texts, data):
    text = data.draw(st.sampled_from(sorted(texts.values())))
    assert_says(text[: data.draw(st.integers(0, len(text) - 1))])


def test_some_damage(texts):
    rng = np.random.default_rng(0)
    for name in ("TemperatureScaling", "chain", "TopLabelCalibration"):
        text = texts[name]
        for start in rng.integers(0, len(text), 25):
            assert_says(text[:start] + text[start + 1 :])
            assert_says(text[:start] + "7" + text[start:])
            assert_says(text[:start])

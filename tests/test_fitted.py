"""Laws of fitted objects: their outputs agree, and copies, pickles, skops and JSON are the same."""

import copy
import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from public import LABELS, LOGITS, REGISTRY, new_object
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib.export import from_json, to_json

CLASSES = [path for path, call in REGISTRY.items() if inspect.isclass(call.function)]
PREDICTING = [kind for kind in CLASSES if f"{kind}.predict_proba" in REGISTRY]
TRANSFORMING = [kind for kind in CLASSES if f"{kind}.transform" in REGISTRY]
STATEFUL = sorted({*PREDICTING, *TRANSFORMING, "CalibrationMonitor"})
every = pytest.mark.parametrize("kind", STATEFUL)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def fitted(kind):
    return new_object(kind, "predict_proba")


def logits_of(fitted):
    """Rows that the object takes: some transformers take one column of scores."""
    return softmax(LOGITS, axis=1)[:, 1:] if fitted.n_features_in_ == 1 else LOGITS


def outputs(fitted):
    """All outputs for the rows of the fit, or the numbers of a monitor."""
    if hasattr(fitted, "update"):
        return [fitted.e_value_, *fitted.curve().accuracy]
    X, names = logits_of(fitted), ("predict_proba", "predict_log_proba", "predict", "transform")
    return [getattr(fitted, name)(X) for name in names if hasattr(fitted, name)]


def by_skops(fitted):
    """Trusts nothing but the classes of skcalib: the fitted state is built-in and numpy types."""
    import skops.io

    file = skops.io.dumps(fitted)
    unknown = skops.io.get_untrusted_types(data=file)
    assert all(name.startswith(("skcalib.", "families.")) for name in unknown), unknown
    return skops.io.loads(file, trusted=unknown)


def by_json(fitted):
    try:
        return from_json(to_json(fitted))
    except TypeError:
        pytest.skip("has no JSON")


def by_pickle(fitted):
    return pickle.loads(pickle.dumps(fitted))


# skops is slow to import.
WAYS = [by_pickle, copy.deepcopy, by_json, pytest.param(by_skops, marks=pytest.mark.slow)]


@every
@pytest.mark.parametrize("way", WAYS)
def test_saved_and_loaded_objects_have_the_same_outputs(way, kind):
    if kind == "CalibrationMonitor" and way is by_skops:
        pytest.skip("is no estimator")
    saved = fitted(kind)
    loaded = way(saved)
    for found, expected in zip(outputs(loaded), outputs(saved), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert repr(loaded) == repr(saved)


@every
def test_pickles_of_another_version_warn(kind):
    saved = fitted(kind)
    other = pickle.dumps(saved).replace(skcalib.__version__.encode(), b"9.9.9")
    with pytest.warns(InconsistentVersionWarning, match=f"9.9.9.*{skcalib.__version__}"):
        loaded = pickle.loads(other)
    for found, expected in zip(outputs(loaded), outputs(saved), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert "_skcalib_version" not in vars(loaded)


@every
@pytest.mark.parametrize("method", ["fit", "predict_proba"], ids=["new", "fitted"])
def test_tab_completion_shows_the_documented_attributes(method, kind):
    c = new_object(kind, method)
    section = inspect.getdoc(type(c)).partition("\nAttributes\n")[2]
    names = re.findall(r"\w+_\b", " ".join(re.findall(r"^(\w.*?)(?: : .*)?$", section, re.M)))
    assert {name for name in names if hasattr(c, name)} <= set(dir(c))


@pytest.mark.parametrize("kind", PREDICTING)
def test_outputs_agree_and_keep_the_precision(kind):
    c = fitted(kind)
    X, several = logits_of(c), kind == "MultiLabelCalibrator"
    P = c.predict_proba(X)
    np.testing.assert_allclose(np.exp(c.predict_log_proba(X)), P, rtol=1e-9)
    np.testing.assert_allclose(c.predict_proba(X[:1]), P[:1], rtol=1e-9)
    if several:
        np.testing.assert_array_equal(c.predict(X), P > 0.5)
    else:
        np.testing.assert_allclose(P.sum(axis=1), 1)
        np.testing.assert_array_equal(c.predict(X), c.classes_[P.argmax(axis=1)])
    if hasattr(c, "transform"):
        Z = c.transform(X)
        assert Z.shape == X.shape
        np.testing.assert_allclose(expit(Z) if several else softmax(Z, axis=1), P, rtol=1e-6)
        single = X.astype(np.float32)
        assert c.predict_proba(single).dtype == c.transform(single).dtype == np.float32
        is_equal = np.abs(c.predict_proba(single) - P) < 1e-5
        assert is_equal.mean() >= 0.8  # other rows are at the edge of a step


@pytest.mark.parametrize("kind", TRANSFORMING)
def test_transformed_frames_have_the_names_of_the_outputs(kind):
    c = fitted(kind).set_output(transform="pandas")
    X = logits_of(c)
    frame = c.transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(c.get_feature_names_out())
    np.testing.assert_array_equal(frame, c.set_output(transform="default").transform(X))


KINDS_OF_CLASSES = [range(2), [0, 1], (0, 1), np.arange(2), pd.Index([0, 1]), pd.Series([0, 1])]


@pytest.mark.parametrize("classes", KINDS_OF_CLASSES, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("way", [by_pickle, pytest.param(by_skops, marks=pytest.mark.slow)])
def test_saved_with_classes_of_any_kind(classes, way):
    """A reader need not trust ranges or types of pandas, which the constructor stores as given."""
    calibrator = skcalib.HistogramBinning(classes=classes)
    assert calibrator.classes is classes
    assert type(clone(calibrator).classes) is type(classes)
    for model in (calibrator, skcalib.CalibratedClassifier(GaussianNB(), calibrator)):
        loaded = way(model.fit(LOGITS, LABELS))
        np.testing.assert_array_equal(loaded.predict_proba(LOGITS), model.predict_proba(LOGITS))
        np.testing.assert_array_equal(clone(loaded).fit(LOGITS, LABELS).classes_, [0, 1])
    assert calibrator.classes is classes

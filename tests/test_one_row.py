"""One row at a time, as a server predicts: the same answers and messages as by all checks."""

import warnings

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, quick
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import validate_data

from skcalib import CalibratedClassifier, LogitTransformer, TemperatureScaling
from skcalib._validation import inputs as floats
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

METHODS = ["transform", "predict_proba", "predict_log_proba", "predict"]
every = pytest.mark.parametrize("kind", quick(CALIBRATORS))


def outcome(f, *args):
    """Result or error of a call, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = f(*args)
            found = found.dtype, found.shape, found.tolist()
        except (ValueError, TypeError) as error:
            found = type(error), str(error)
    return found, [(w.category, str(w.message)) for w in caught]


def with_all_checks(monkeypatch, f, *args):
    """The same with scikit-learn's functions in place of those that leave them out."""
    given = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}

    def as_floats(x, name, *, flat=False, estimator=None):
        return check_array(x, ensure_2d=not flat, input_name=name, estimator=estimator, **given)

    with monkeypatch.context() as patch:
        patch.setattr(floats, "as_floats", as_floats)
        options = {**given, "ensure_min_samples": 0}
        patch.setattr(
            floats, "logits_for", lambda c, X: validate_data(c, X, reset=False, **options)
        )
        return outcome(f, *args)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fast_path_matches_all_checks(kind, dtype, monkeypatch):
    X, y = make_logits(200, 3, dtype=dtype, random_state=0)
    calibrator = kind().fit(X, y)
    for rows in (X[:1], X[:5], np.asfortranarray(X[:5]), X[:10:2], X[:0]):
        for name in METHODS:
            method = getattr(calibrator, name)
            assert outcome(method, rows) == with_all_checks(monkeypatch, method, rows)


@every
def test_single_rows_skip_slow_checks(kind, monkeypatch):
    """They look for data frames, which takes longer than all else."""
    X, y = make_logits(200, 3, random_state=0)
    calibrator = kind().fit(X, y)
    expected = calibrator.transform(X[:1])
    for name in ("check_array", "validate_data", "check_is_fitted"):
        monkeypatch.setattr(floats, name, None)
    assert np.array_equal(calibrator.transform(X[:1]), expected)


ODD = {
    "narrow": np.zeros((1, 2)),
    "wide": np.zeros((2, 4)),
    "no rows": np.zeros((0, 3)),
    "one dimension": np.zeros(3),
    "NaN": np.array([[0, np.nan, 1]]),
    "+inf": np.array([[0, np.inf, 1]]),
    "masked": np.array([[0, -np.inf, 1]]),
    "nothing but -inf": np.full((1, 3), -np.inf),
    "too large": np.array([[0, 1e308, -1e308]]),
    "integers": np.arange(3)[None],
    "half precision": np.arange(3.0)[None].astype(np.float16),
    "other byte order": np.arange(3.0)[None].astype(">f8"),
    "long double": np.arange(3.0)[None].astype(np.longdouble),
    "complex": np.ones((1, 3), complex),
    "strings": np.array([["a", "b", "c"]]),
    "objects": np.array([[0.0, 1, 2]], dtype=object),
    "subclass": np.arange(3.0)[None].view(type("Own", (np.ndarray,), {})),
    "list": [[0.0, 1, 2]],
    "data frame": pd.DataFrame([[0.0, 1, 2]]),
    "named": pd.DataFrame([[0.0, 1, 2]], columns=["b", "a", "c"]),
}

GOOD = {"masked", "integers", "half precision", "other byte order", "long double", "objects"}
GOOD |= {"subclass", "no rows", "list", "data frame", "named"}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("case", ODD)
def test_other_input_has_the_same_messages(case, named, monkeypatch):
    X, y = make_logits(200, 3, random_state=0)
    calibrator = TemperatureScaling().fit(pd.DataFrame(X, columns=list("abc")) if named else X, y)
    found = outcome(calibrator.predict_proba, ODD[case])
    assert found == with_all_checks(monkeypatch, calibrator.predict_proba, ODD[case])
    if not named:
        assert isinstance(found[0][0], np.dtype) == (case in GOOD)


def test_classifiers_are_not_asked_for_their_tags_at_each_prediction(monkeypatch):
    X, y = make_logits(200, 3, random_state=0)
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    estimators = (
        CalibratedClassifier(frozen, TemperatureScaling()).fit(X, y),
        LogitTransformer(frozen).fit(X, y),
    )
    monkeypatch.setattr(floats, "check_is_fitted", None)
    assert estimators[0].predict_proba(X[:1]).shape == (1, 3)
    assert estimators[1].transform(X[:1]).shape == (1, 3)


BAD = {
    "one column": ([0, 1], np.ones((2, 1))),
    "no rows": ([], np.ones((0, 2))),
    "three dimensions": ([0, 1], np.ones((2, 2, 2))),
    "no sum": ([0, 1], np.ones((2, 2))),
    "NaN": ([0, 1], np.array([0.5, np.nan])),
    "other length": ([0, 1, 1], np.array([0.5, 0.5])),
    "columns of labels": (np.array([[0], [1]]), np.array([0.5, 0.75])),
    "rows of labels": (np.array([[0, 1]]), np.array([0.5, 0.75])),
    "complex labels": (np.array([0, 1j]), np.array([0.5, 0.75])),
    "strings": (np.array(["a", "b"]), np.array([0.5, 0.75])),
    "strided": (np.arange(4)[::2] // 2, np.array([0.5, 0, 0.75])[::2]),
    "half precision": ([0, 1], np.array([0.5, 0.75], np.float16)),
}


@pytest.mark.parametrize("case", BAD)
def test_probabilities_and_labels_have_the_same_messages(case, monkeypatch):
    def error(y, p):
        return np.asarray(expected_calibration_error(y, p))

    found = outcome(error, *BAD[case])
    if case != "rows of labels":  # which has an own message
        monkeypatch.setattr(floats, "as_labels", lambda y, *_, **__: column_or_1d(y))
    assert found == with_all_checks(monkeypatch, error, *BAD[case])

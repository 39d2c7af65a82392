"""Single rows and unusual arrays, as a server predicts: the usual answer or a message."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, quick

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

METHODS = ["transform", "predict_proba", "predict_log_proba", "predict"]
Z, Y = make_logits(200, 3, random_state=0)


@pytest.mark.parametrize("kind", quick(CALIBRATORS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_in_any_layout_match_a_data_frame(kind, dtype):
    """Contiguous arrays skip the checks of scikit-learn, which data frames pass."""
    X = Z.astype(dtype)
    calibrator = kind().fit(X, Y)
    for rows in (X[:1], X[:5], np.asfortranarray(X[:5]), X[:10:2], X[:0]):
        for name in METHODS:
            method = getattr(calibrator, name)
            found, expected = method(rows), method(pd.DataFrame(rows))
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


GOOD = {
    "no rows": np.zeros((0, 3)),
    "masked": np.array([[0, -np.inf, 1]]),
    "integers": np.arange(3)[None],
    "half precision": np.arange(3.0)[None].astype(np.float16),
    "other byte order": np.arange(3.0)[None].astype(">f8"),
    "long double": np.arange(3.0)[None].astype(np.longdouble),
    "objects": np.array([[0.0, 1, 2]], dtype=object),
    "subclass": np.arange(3.0)[None].view(type("Own", (np.ndarray,), {})),
    "list": [[0.0, 1, 2]],
    "data frame": pd.DataFrame([[0.0, 1, 2]]),
}
BAD = {
    "narrow": (np.zeros((1, 2)), "X has 2 features, but TemperatureScaling is expecting 3"),
    "wide": (np.zeros((2, 4)), "X has 4 features, but TemperatureScaling is expecting 3"),
    "one dimension": (np.zeros(3), "two dimensions, got one"),
    "NaN": (np.array([[0, np.nan, 1]]), "got 1 NaN"),
    "+inf": (np.array([[0, np.inf, 1]]), "got 1 larger"),
    "nothing but -inf": (np.full((1, 3), -np.inf), "got 1 of 1 rows of nothing"),
    "too large": (np.array([[0, 1e308, -1e308]]), r"logits of at most 1e\+100"),
    "complex": (np.ones((1, 3), complex), "Complex data not supported"),
    "strings": (np.array([["a", "b", "c"]]), "could not convert string"),
}


@pytest.mark.parametrize("case", GOOD)
def test_unusual_arrays_match_arrays_of_floats(case):
    calibrator, X = TemperatureScaling().fit(Z, Y), GOOD[case]
    plain = np.array(X, dtype=np.float64)
    np.testing.assert_array_equal(calibrator.predict_proba(X), calibrator.predict_proba(plain))


@pytest.mark.parametrize("case", BAD)
def test_invalid_rows_are_refused_at_predict(case):
    X, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        TemperatureScaling().fit(Z, Y).predict_proba(X)


def test_columns_with_other_names_are_refused():
    calibrator = TemperatureScaling().fit(pd.DataFrame(Z, columns=list("abc")), Y)
    with pytest.raises(ValueError, match="feature names"):
        calibrator.predict_proba(pd.DataFrame([[0.0, 1, 2]], columns=["b", "a", "c"]))


BAD_PAIRS = {
    "one column": ([0, 1], np.ones((2, 1)), "one column per class"),
    "no rows": ([], np.ones((0, 2)), "0 sample"),
    "three dimensions": ([0, 1], np.ones((2, 2, 2)), "dim"),
    "no sum": ([0, 1], np.ones((2, 2)), "sum"),
    "NaN": ([0, 1], np.array([0.5, np.nan]), "got nan"),
    "other length": ([0, 1, 1], np.array([0.5, 0.5]), r"\[3, 2\]"),
    "rows of labels": (np.array([[0, 1]]), np.array([0.5, 0.75]), "y_true"),
    "complex labels": (np.array([0, 1j]), np.array([0.5, 0.75]), "omplex"),
    "strings": (np.array(["a", "b"]), np.array(["0.5", "x"]), "x"),
}


@pytest.mark.parametrize("case", BAD_PAIRS)
def test_invalid_labels_and_probabilities_are_refused(case):
    y, p, message = BAD_PAIRS[case]
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(y, p)


def test_layout_and_precision_of_labels_and_probabilities_do_not_matter():
    y, p = np.array([0, 1, 1]), np.array([0.25, 0.5, 0.75])
    expected = expected_calibration_error(y, p)
    assert expected_calibration_error(y.repeat(2)[::2], p.repeat(2)[::2]) == expected
    assert expected_calibration_error(y.tolist(), p.astype(np.float16)) == expected
    assert expected_calibration_error(y.astype(str), p) == expected

"""The three outputs of all calibrators: one answer in three forms, finite wherever it can be."""

import numpy as np
import pandas as pd
import pytest
from families import FORMS, order_of, predicting, quick
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from skcalib import TemperatureScaling
from skcalib.base import BaseCalibrator
from skcalib.datasets import make_logits


def columns(Z):
    return np.concatenate([np.zeros_like(Z), Z], axis=1) if Z.shape[1] == 1 else Z


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("form", quick(FORMS), ids=repr)
def test_transform_and_probabilities_agree(form, n_columns):
    Z, y = make_logits(150, max(n_columns, 2), temperature=1.5, random_state=0)
    Z = Z[:, 1:] - Z[:, :1] if n_columns == 1 else Z
    names = np.array(["c", "a", "b"])[: max(n_columns, 2)]
    c = clone(form).set_params(classes=names, **order_of(type(form), names)).fit(Z, names[y])
    new = np.concatenate([Z, 30 * Z[:50], 1e3 * Z[:5]])
    calibrated = columns(c.transform(new))
    # In double precision, where differences of logits are as exact as the logits.
    np.testing.assert_allclose(c.predict_log_proba(new), log_softmax(calibrated, axis=1), rtol=1e-9)
    np.testing.assert_allclose(c.predict_proba(new), softmax(calibrated, axis=1), rtol=1e-9)
    predicted = predicting(c, columns(new), calibrated).argmax(axis=1)
    assert c.predict(new).tolist() == names[predicted].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logs_of_probabilities_are_exact_where_those_round(dtype):
    Z, y = make_logits(150, 3, random_state=0)
    c = TemperatureScaling(smoothing=0).fit(Z.astype(dtype), y)
    t = c.temperature_
    new = np.array([[0, 900, 0], [0, 30, 30], [-2e4, 2e4, 0]], dtype)
    expected = [[-900, 0, -900], [-30, 0, 0], [-4e4, 0, -2e4]]
    log_2 = np.log(2) * np.array([[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    np.testing.assert_allclose(c.predict_log_proba(new), np.array(expected) / t - log_2, rtol=1e-5)


class Far(BaseCalibrator):
    """Multiplies logits by a large number, or one beyond all."""

    def __init__(self, factor=1.0, classes=None):
        super().__init__(classes=classes)
        self.factor = factor

    def _fit(self, rows):
        return {}

    def _calibrate(self, Z):
        with np.errstate(over="ignore", invalid="ignore"):
            return Z * np.array(self.factor).astype(Z.dtype)


@pytest.mark.parametrize("factor", [0.5, 0.9, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_infinite_calibrated_logits_are_clipped(n_columns, dtype, factor):
    """The bound is so large that differences of logits do not overflow."""
    largest = np.finfo(dtype).max
    signs = np.array([[1], [-1], [1]]) if n_columns == 1 else np.array([[1, -1, 1], [-1, 1, -1]])
    Z = signs.astype(dtype)
    c = Far(largest * factor).fit(Z[[0, 1, 0]], [0, 1, 2 if n_columns == 3 else 0])
    calibrated = c.transform(Z)
    assert calibrated.dtype == dtype
    np.testing.assert_array_equal(calibrated, Z * (largest / 4))
    with np.errstate(over="raise"):
        assert np.isfinite(np.ptp(columns(calibrated), axis=1)).all()
    # A logarithm of probabilities is a difference of these: zero, or one of them, or twice that.
    log_p = c.predict_log_proba(Z)
    assert log_p.dtype == dtype
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(log_p, log_softmax(columns(calibrated), axis=1))
    np.testing.assert_allclose(c.predict_proba(Z).sum(axis=1), 1)
    assert np.array_equal(c.predict(Z), columns(calibrated).argmax(axis=1))


def test_smaller_logits_are_left_alone():
    Z = np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.0], [0, 0.1, 1]])
    factor = 0.2 * np.finfo(float).max
    assert np.array_equal(Far(factor).fit(Z, [0, 1, 2]).transform(Z), factor * Z)


FORMS_OF_LOGITS = {
    **{name: np.dtype(name).type for name in ("int64", "int8", "uint8", "float16", "longdouble")},
    "other byte order": lambda Z: Z.astype(">f8"),
    "objects": lambda Z: Z.astype(object),
    "subclass": lambda Z: Z.view(type("Own", (np.ndarray,), {})),
    "list": np.ndarray.tolist,
    "data frame": pd.DataFrame,
}


@pytest.mark.parametrize("form", FORMS_OF_LOGITS)
def test_logits_of_any_type_are_numbers(form):
    """Fits and predictions compute in float64."""
    Z, y = make_logits(60, 3, random_state=0)
    plain = np.abs(2 * Z).round().clip(0, 100)
    given = FORMS_OF_LOGITS[form](plain)
    found, expected = (TemperatureScaling().fit(X, y) for X in (given, plain))
    assert found.temperature_ == expected.temperature_
    for method in ("transform", "predict_proba", "predict_log_proba"):
        answer = getattr(found, method)(given)
        assert answer.dtype == np.float64
        np.testing.assert_array_equal(answer, getattr(expected, method)(plain))

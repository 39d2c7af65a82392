"""Data without an optimum, or nearly so: finite parameters, sensible probabilities."""

from functools import cache

import numpy as np
import pytest
from families import FORMS, JOINT, REPRESENTATIVES, EstimatorCalibration, of_case, quiet
from sklearn.base import clone
from sklearn.metrics import log_loss

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits

pytestmark = pytest.mark.slow

Z, Y = make_logits(300, 4, offset=[0, 1, 0, -1], random_state=0)
WEIGHTS = 10.0 ** np.random.default_rng(0).uniform(-5, 5, size=300)


def one_class_apart():
    apart = Z.copy()
    apart[:, 3] = np.where(Y == 3, 60.0, -60.0)
    return apart, Y, None


def one_row_of_a_class():
    y = np.where(Y == 3, 0, Y)
    y[7] = 3
    return Z, y, None


HARD = {
    "all rows right": lambda: (Z, Z.argmax(axis=1), None),
    "all rows right for certain": lambda: (1e3 * np.eye(4)[Y], Y, None),
    "all rows wrong": lambda: (Z, Z.argmin(axis=1), None),
    "all rows wrong for certain": lambda: (1e3 * np.eye(4)[(Y + 1) % 4], Y, None),
    "one class apart": one_class_apart,
    "one row of a class": one_row_of_a_class,
    "no row of a class": lambda: (Z, np.where(Y == 3, 0, Y), None),
    "as many rows as classes": lambda: (Z[:4], np.arange(4), None),
    "two rows": lambda: (Z[:2], np.array([0, 1]), None),
    "constant rows": lambda: (np.zeros_like(Z), Y, None),
    "same row": lambda: (np.repeat(Z[:1], 300, axis=0), Y, None),
    "constant column": lambda: (Z * [1, 1, 1, 0], Y, None),
    "same column twice": lambda: (Z[:, [0, 1, 2, 2]], Y, None),
    "columns that add up": lambda: (Z @ np.diag([1, 1, 1, 0]) + Z[:, :1] * [0, 0, 0, 1], Y, None),
    "weights over ten orders": lambda: (Z, Y, WEIGHTS),
    "weights over thirty orders": lambda: (Z, Y, WEIGHTS**3),
    "one row with all the weight": lambda: (Z, Y, np.where(np.arange(300) == 5, 1e12, 1)),
    "logits of 1e4": lambda: (1e4 * Z, Y, None),
    "logits of 1e-8": lambda: (1e-8 * Z, Y, None),
    "columns of 1e4 and 1e-8": lambda: (Z * [1e4, 1, 1, 1e-8], Y, None),
    "a class with no probability": lambda: (Z - [0, 0, 0, 1e6], np.where(Y == 3, 0, Y), None),
    "a class that has no probability": lambda: (Z - [0, 0, 0, 1e6], Y, None),
}


@pytest.mark.parametrize(
    ("form", "dtype"),
    [*((form, np.float64) for form in FORMS), *((kind(), np.float32) for kind in REPRESENTATIVES)],
    ids=repr,
)
def test_probabilities_are_sensible(form, dtype):
    for name, rows in HARD.items():
        # The smoothing of BernoulliNB is negligible beside such weights.
        if not (isinstance(form, EstimatorCalibration) and name == "weights over thirty orders"):
            with of_case(name):
                check_sensible(form, dtype, *rows())


def check_sensible(form, dtype, X, y, w):
    c = quiet(form, X.astype(dtype), y, w, classes=range(4))
    for key, value in vars(c).items():
        for part in value if isinstance(value, list) else [value]:
            if key.endswith("_") and np.asarray(part).dtype.kind == "f":
                assert np.isfinite(part).all(), key
    P = c.predict_proba(X.astype(dtype))
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)


@cache
def hard_loss(form, name):
    """Log loss on the rows of the fit."""
    X, y, w = HARD[name]()
    P = np.exp(quiet(form, X, y, w, classes=range(4)).predict_log_proba(X))
    tiny = np.finfo(float).tiny
    P = np.maximum(P, tiny) / np.maximum(P, tiny).sum(axis=1, keepdims=True)
    return log_loss(y, P, sample_weight=w, labels=range(4))


PLAIN = TemperatureScaling(smoothing=0)


UNMIXED = [clone(f).set_params(smoothing=0) for f in FORMS if type(f) in JOINT]


@pytest.mark.parametrize("form", {repr(form): form for form in UNMIXED}.values(), ids=repr)
def test_never_worse_than_temperature_scaling(form):
    """On the training rows, temperature scaling is a special case of forms without smoothing."""
    for name in HARD:
        with of_case(name):
            assert hard_loss(form, name) <= hard_loss(PLAIN, name) * (1 + 1e-6) + 1e-9

"""Faults that other libraries shipped, and that no other test of ours is about."""

import numpy as np
import pytest
from families import CALIBRATORS
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    CalibratedClassifier,
    IsotonicCalibration,
    MatrixScaling,
    TemperatureScaling,
)
from skcalib.datasets import make_logits
from skcalib.metrics import (
    calibration_error_interval,
    expected_calibration_error,
)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_a_batch_that_lacks_a_predicted_class(kind):
    """Trap 9: columns written to by their number among the classes that were predicted."""
    Z, y = make_logits(600, 4, random_state=0)
    calibrator = kind().fit(Z, y)
    P = calibrator.predict_proba(Z)
    top = P.argmax(axis=1)
    for absent in range(4):
        some = top != absent
        assert_allclose(calibrator.predict_proba(Z[some]), P[some], rtol=1e-12)


class Counted(ClassifierMixin, BaseEstimator):
    """A scaler and a classifier that count how often they are fitted."""

    fits = 0

    def fit(self, X, y=None):
        type(self).fits += 1
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


def test_a_fitted_pipeline_is_not_fitted_again():
    """Trap 10: transformers of a pipeline that was fitted, fitted anew on the calibration set."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(3, size=300)
    pipeline = make_pipeline(StandardScaler(), Counted()).fit(X[:100], y[:100])
    mean, fits = pipeline[0].mean_.copy(), Counted.fits
    CalibratedClassifier(FrozenEstimator(pipeline), TemperatureScaling()).fit(X[100:], y[100:])
    assert Counted.fits == fits
    assert np.array_equal(pipeline[0].mean_, mean)


def test_matrix_scaling_multiplies_rows_by_the_matrix():
    """Trap 13: the matrix on the wrong side, which for as many rows as classes goes unnoticed."""
    Z, y = make_logits(500, 3, random_state=0)
    Z[:, 1] += 0.5 * Z[:, 2]
    form = MatrixScaling(alpha=0, smoothing=0, normalize=False).fit(Z, y)
    for rows in (Z[:1], Z[:3], Z[:7]):
        expected = softmax([form.coef_ @ z + form.intercept_ for z in rows], axis=1)
        assert_allclose(form.predict_proba(rows), expected)


@pytest.mark.slow
def test_the_level_of_an_interval_is_a_share():
    """Trap 15: alpha=0.1 taken for per cent, which makes an interval of 99.9 %."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=500)
    y = (rng.uniform(size=500) < p**2).astype(int)
    found = calibration_error_interval(
        y, p, method="percentile", confidence_level=0.9, n_resamples=400, random_state=0
    )
    again = np.random.default_rng(1)
    draws = []
    for _ in range(400):
        rows = again.integers(500, size=500)
        draws.append(expected_calibration_error(y[rows], p[rows]))
    assert_allclose([found.low, found.high], np.quantile(draws, [0.05, 0.95]), atol=0.01)


# Trap 19, np.seterr at import, is test_import_has_no_effect in test_architecture.py.


@pytest.mark.parametrize("interpolation", ["constant", "linear", "centered"])
def test_isotonic_regression_goes_on_beyond_what_it_saw(interpolation):
    """Trap 21: NaN outside the range of the scores of the fit, even at 0 and 1."""
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, size=200)
    y = (rng.uniform(size=200) < 1 / (1 + np.exp(-z))).astype(int)
    form = IsotonicCalibration(interpolation=interpolation, smoothing=0).fit(z[:, None], y)
    far = np.array([-700.0, -2.0, 2.0, 700.0])
    p = 1 / (1 + np.exp(-z))
    oracle = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    assert_allclose(
        form.predict_proba(far[:, None])[:, 1], oracle.predict([0, 0, 1, 1]), atol=1e-12
    )

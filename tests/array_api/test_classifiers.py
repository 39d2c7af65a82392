"""Classifiers, shifted priors and the guide's code, with arrays of other libraries than NumPy."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from skcalib import (
    CalibratedClassifier,
    LogitTransformer,
    PlattScaling,
    PriorShift,
    TemperatureScaling,
)
from skcalib.datasets import make_logits

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FEATURES, LABELS = load_wine(return_X_y=True)
WEIGHTS = np.arange(len(LABELS)) % 3 + 1.0


@pytest.mark.filterwarnings("ignore:LinearDiscriminantAnalysis has no parameter sample_weight")
@pytest.mark.parametrize("ensemble", [False, True])
def test_calibrated_classifier(ensemble, lib):
    """The classifier is fitted on the host, and outputs are where the features are."""
    estimator = LinearDiscriminantAnalysis()
    classifier = CalibratedClassifier(estimator, PlattScaling(), cv=3, ensemble=ensemble)
    plain = classifier.fit(FEATURES, LABELS, WEIGHTS)
    want = [plain.predict_proba(FEATURES), plain.predict_log_proba(FEATURES)]
    predicted = plain.predict(FEATURES)
    X = lib.array(FEATURES)
    fitted = classifier.fit(X, lib.array(LABELS), lib.array(WEIGHTS))
    found = fitted.predict_proba(X), fitted.predict_log_proba(X)
    for of_tensor, of_array in zip(found, want, strict=True):
        np.testing.assert_allclose(lib.numpy(of_tensor), of_array, rtol=1e-9)
    np.testing.assert_array_equal(lib.numpy(fitted.predict(X)), predicted)


@pytest.mark.filterwarnings("ignore:Without cv, fit_transform:UserWarning")
@pytest.mark.parametrize("cv", [None, 3])
def test_logits_in_a_pipeline(cv, lib):
    steps = (
        LogitTransformer(LinearDiscriminantAnalysis(), cv=cv),
        TemperatureScaling(smoothing=0.01),
    )
    want = make_pipeline(*steps).fit(FEATURES, LABELS).predict_proba(FEATURES)
    X = lib.array(FEATURES)
    found = make_pipeline(*steps).fit(X, lib.array(LABELS)).predict_proba(X)
    np.testing.assert_allclose(lib.numpy(found), want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_frozen_classifiers_get_the_features_of_their_own_fit(name, strict, torch_lib):
    lib = torch_lib if name == "torch" else strict
    X, y = lib.array(FEATURES), lib.array(LABELS)
    of_tensors = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, y))
    of_arrays = FrozenEstimator(LinearDiscriminantAnalysis().fit(FEATURES, LABELS))
    calibrator = TemperatureScaling(smoothing=0.01)
    want = CalibratedClassifier(of_arrays, calibrator).fit(FEATURES, LABELS).predict_proba(FEATURES)
    found = CalibratedClassifier(of_tensors, calibrator).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(lib.numpy(found), want, rtol=0, atol=1e-9)


def test_priors_are_adapted_to_tensors(lib):
    Z, Y = make_logits(600, 3, random_state=0)
    new = Z[Y != 1]
    want = PriorShift().fit(Z, Y).adapt(new)
    found = PriorShift().fit(lib.array(Z), Y).adapt(lib.array(new))
    np.testing.assert_allclose(found.priors_, want.priors_, rtol=1e-9)
    shifted = lib.numpy(found.transform(lib.array(new)))
    np.testing.assert_allclose(shifted, want.transform(new), rtol=1e-6)

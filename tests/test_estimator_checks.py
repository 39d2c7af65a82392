"""scikit-learn's own battery, on each calibrator bare and behind a small classifier."""

import numpy as np
import pytest
from families import CALIBRATORS
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib import TemperatureScaling
from skcalib._base import check_weights

WIDTH = "the check feeds X whose width is not the number of classes, which is refused"
NO_LOGITS = "the check feeds X that are no logits of y, and wants to see accurate predictions"

EXPECTED_FAILURES = {
    "check_estimators_overwrite_params": WIDTH,
    "check_estimators_fit_returns_self": WIDTH,
    "check_readonly_memmap_input": WIDTH,
    "check_estimators_nan_inf": WIDTH,
    "check_classifiers_classes": WIDTH,
    "check_classifiers_train": NO_LOGITS,
}


class NearestMean(ClassifierMixin, BaseEstimator):
    """Distances to the mean of each class are logits, which the calibrator then calibrates.

    The smallest classifier with closed-form logits: no solver noise, and one for any X.
    """

    def __init__(self, calibrator=None):
        self.calibrator = calibrator

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        weights = check_weights(sample_weight, len(X))
        w = np.ones(len(X)) if weights is None else weights
        calibrator = TemperatureScaling() if self.calibrator is None else self.calibrator
        labels = np.unique(y[w > 0])
        self.means_ = np.array([np.average(X[y == k], axis=0, weights=w[y == k]) for k in labels])
        self.calibrator_ = clone(calibrator).fit(self._logits(X), y, weights)
        self.classes_ = self.calibrator_.classes_
        return self

    def _logits(self, X):
        squared = ((X[:, None, :] - self.means_) ** 2).sum(axis=2)
        logits = -squared.astype(X.dtype)
        return logits - logsumexp(logits, axis=1, keepdims=True)

    def _checked(self, X):
        check_is_fitted(self)
        return self._logits(validate_data(self, X, reset=False, dtype=[np.float64, np.float32]))

    def predict(self, X):
        logits = self._checked(X)
        return self.calibrator_.predict(logits)

    def predict_proba(self, X):
        logits = self._checked(X)
        return self.calibrator_.predict_proba(logits)


# The data of many checks are separable, which the calibrators rightly warn about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Checks that cannot run for lack of an optional package or of an environment variable say so.
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
# Features of random integers between 0 and 1 may look like probabilities.
likeness = pytest.mark.filterwarnings("ignore:Every row of X is non-negative:UserWarning")
missing = pytest.mark.filterwarnings("ignore:No row has label:UserWarning")


def checks(estimators, expected_failures=None):
    """All checks of the estimators; with a list, where scikit-learn's own decorator has none."""
    cases = [
        case
        for estimator in estimators
        for case in estimator_checks_generator(
            estimator, expected_failed_checks=expected_failures, mark="xfail"
        )
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=name_of)


def name_of(thing):
    return getattr(getattr(thing, "func", thing), "__name__", repr(thing))


@skips
@likeness
@missing
@checks([kind() for kind in CALIBRATORS], EXPECTED_FAILURES)
def test_bare(estimator, check):
    check(estimator)


@skips
@checks([NearestMean(kind()) for kind in CALIBRATORS])
def test_behind_a_classifier(estimator, check):
    check(estimator)

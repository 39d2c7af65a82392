"""Model selection and persistence of calibrators with the tools of scikit-learn."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, quick
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from skcalib import (
    BBQ,
    CalibratedClassifier,
    HistogramBinning,
    LogitTransformer,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
    __version__,
)
from skcalib.metrics import calibration_scorer

X, Y = make_classification(300, n_informative=8, n_classes=3, random_state=0)
ECE = calibration_scorer("neg_expected_calibration_error")
COMPOSED = [
    CalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=3),
    CalibratedClassifier(GaussianNB(), BBQ(), cv=3, ensemble=True),
    make_pipeline(LogitTransformer(GaussianNB(), cv=3), VectorScaling()),
]


# --------------------------------------------------------------------------------------
# Selection.


@pytest.mark.slow
def test_parameters_of_calibrator_and_classifier_are_searched_for():
    classifier = CalibratedClassifier(LogisticRegression(), MatrixScaling(), cv=3)
    grid = {"calibrator__alpha": [1e-3, 1.0, 1e3], "estimator__C": [1e-3, 1.0]}
    found = GridSearchCV(classifier, grid, scoring=ECE, cv=3).fit(X, Y)
    assert found.cv_results_["mean_test_score"].shape == (6,)
    assert np.ptp(found.cv_results_["mean_test_score"]) > 1e-3
    assert found.best_estimator_.estimators_[-1].C == found.best_params_["estimator__C"]
    assert found.best_estimator_.calibrator_.alpha == found.best_params_["calibrator__alpha"]


# --------------------------------------------------------------------------------------
# Persistence.

FITTED = [kind() for kind in CALIBRATORS]


@cache
def fitted(estimator):
    Z = LogitTransformer(GaussianNB(), cv=3).fit_transform(X, Y)
    features = X if any(estimator is composed for composed in COMPOSED) else Z
    return clone(estimator).fit(features, Y), features


def by_pickle(estimator):
    return pickle.loads(pickle.dumps(estimator))


def by_skops(estimator):
    """Trusts nothing but the classes of skcalib: the fitted state is built-in and numpy types."""
    import skops.io

    file = skops.io.dumps(estimator)
    unknown = skops.io.get_untrusted_types(data=file)
    assert all(name.startswith(("skcalib.", "families.")) for name in unknown), unknown
    return skops.io.loads(file, trusted=unknown)


# skops is slow to import.
ways = pytest.mark.parametrize("way", [by_pickle, pytest.param(by_skops, marks=pytest.mark.slow)])
LABELS = {
    "range": range(3),
    "list": [0, 1, 2],
    "tuple": (0, 1, 2),
    "array": np.arange(3),
    "index": pd.Index([0, 1, 2]),
    "series": pd.Series([0, 1, 2]),
}


@pytest.mark.parametrize("classes", LABELS)
@pytest.mark.parametrize("around", ["alone", "classifier"])
@ways
def test_saved_with_classes_of_any_kind(around, classes, way):
    """A reader need not trust ranges or types of pandas, which the constructor stores as given."""
    given = LABELS[classes]
    calibrator = HistogramBinning(classes=given)
    assert calibrator.classes is given
    assert clone(calibrator).get_params()["classes"] is not None
    assert type(clone(calibrator).classes) is type(given)
    model = calibrator if around == "alone" else CalibratedClassifier(GaussianNB(), calibrator)
    model.fit(X[:, :3], Y)
    loaded = way(model)
    assert_array_equal(loaded.predict_proba(X[:, :3]), model.predict_proba(X[:, :3]))
    refitted = clone(loaded).fit(X[:, :3], Y)
    assert_array_equal(refitted.classes_, [0, 1, 2])
    assert calibrator.classes is given


@pytest.mark.parametrize("estimator", quick(FITTED) + COMPOSED, ids=repr)
@ways
def test_saved_and_loaded(estimator, way):
    saved, features = fitted(estimator)
    assert_array_equal(way(saved).predict_proba(features), saved.predict_proba(features))


@pytest.mark.parametrize("estimator", quick(FITTED) + COMPOSED, ids=repr)
def test_loaded_with_a_warning_of_other_versions(estimator):
    saved, features = fitted(estimator)
    state = pickle.dumps(saved)
    assert __version__.encode() in state
    other = state.replace(__version__.encode(), b"9.9.9")
    with pytest.warns(InconsistentVersionWarning, match=f"9.9.9.*{__version__}"):
        loaded = pickle.loads(other)
    assert_array_equal(loaded.predict_proba(features), saved.predict_proba(features))
    final = loaded[-1] if hasattr(loaded, "steps") else loaded
    assert "_skcalib_version" not in vars(final)

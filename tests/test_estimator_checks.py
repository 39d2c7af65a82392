"""scikit-learn's own battery, on each calibrator bare, in a pipeline, and as CalibratedClassifier.

The classifier is one in closed form, so that the noise of a solver cannot move a row across the
edge of a bin.
"""

import functools

import families
import pytest
from families import CALIBRATORS, WITHOUT_FOLDS
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

import skcalib._base
from skcalib import (
    BBQ,
    AutoCalibrator,
    CalibratedClassifier,
    ClassifierCalibrator,
    LogitTransformer,
    PlattScaling,
    VectorScaling,
)

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
# What scikit-learn expects of its own searches.
FOLDS = "random folds depend on the number of rows, so that a row of weight 2 is not the row twice"
OF_FOLDS = {"check_sample_weight_equivalence_on_dense_data": FOLDS}
# What scikit-learn expects of its own boosting.
OF_BOOSTING = {
    "check_sample_weight_equivalence_on_dense_data": "bins and sizes of leaves count rows",
}
# What scikit-learn expects of its own pipelines.
OF_PIPELINES = {
    "check_estimators_overwrite_params": "Pipeline fits the steps that it was given",
    "check_dont_overwrite_parameters": "Pipeline fits the steps that it was given",
}
# Of top-label calibration, whose predictions are those of the logits by definition.
OF_KEPT_PREDICTIONS = {
    "check_classifiers_train": "the predicted class may not be the most probable one",
}
HELD_OUT = "fit_transform gives held-out logits, as it should; so does that of TargetEncoder"
OF_HELD_OUT = {
    "check_transformer_general": HELD_OUT,
    "check_transformer_data_not_an_array": HELD_OUT,
}
# Smooth enough that held-out logits and others differ by more than the checks let pass.
SMOOTH = GaussianNB(var_smoothing=0.1)


BASE = GaussianNB()
OF_EACH_FAMILY = [BBQ, PlattScaling, VectorScaling]

# The data of many checks are separable, which the calibrators rightly warn about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Checks that cannot run for lack of an optional package or of an environment variable say so.
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
# Features of random integers between 0 and 1 may look like probabilities.
likeness = pytest.mark.filterwarnings("ignore:Every row of X is non-negative:UserWarning")
leaking = pytest.mark.filterwarnings("ignore:Without cv, fit_transform:UserWarning")
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


@pytest.fixture
def columns_are_classes(monkeypatch):
    """Most checks feed features, with more columns than labels: as if classes= named them all."""
    said = functools.partial(skcalib._base.resolve_classes, proper=True)
    monkeypatch.setattr(skcalib._base, "resolve_classes", said)


@skips
@likeness
@missing
@checks([kind() for kind in WITHOUT_FOLDS], EXPECTED_FAILURES)
def test_bare(estimator, check, columns_are_classes):
    check(estimator)


@skips
@likeness
@missing
@checks([families.AutoCalibrator()], EXPECTED_FAILURES)
def test_of_folds(estimator, check, columns_are_classes):
    check(estimator)


@pytest.mark.slow
@skips
@likeness
@missing
@checks([AutoCalibrator()], EXPECTED_FAILURES)
def test_default_calibrator(estimator, check, columns_are_classes):
    """For which one with fewer candidates stands in above."""
    check(estimator)


@pytest.mark.slow
@skips
@likeness
@missing
@checks([ClassifierCalibrator()], EXPECTED_FAILURES | OF_BOOSTING)
def test_calibrator_with_boosting(estimator, check, columns_are_classes):
    """For which another classifier stands in above."""
    check(estimator)


@skips
@leaking
@checks([LogitTransformer(BASE)])
def test_logit_transformer(estimator, check):
    check(estimator)


@skips
@checks([LogitTransformer(SMOOTH, cv=3)], OF_HELD_OUT)
def test_logit_transformer_across_folds(estimator, check):
    check(estimator)


@pytest.mark.slow
@skips
@leaking
@checks(
    [
        make_pipeline(LogitTransformer(BASE), kind())
        for kind in CALIBRATORS
        if not kind._keeps_predictions
    ],
    OF_PIPELINES,
)
def test_behind_logit_transformer(estimator, check):
    check(estimator)


@pytest.mark.slow
@skips
@leaking
@checks(
    [
        make_pipeline(LogitTransformer(BASE), kind())
        for kind in CALIBRATORS
        if kind._keeps_predictions
    ],
    OF_PIPELINES | OF_KEPT_PREDICTIONS,
)
def test_with_predictions_of_the_logits(estimator, check):
    check(estimator)


@pytest.mark.slow
@skips
@checks(
    [
        *(CalibratedClassifier(BASE, kind(), cv=3) for kind in CALIBRATORS),
        *(CalibratedClassifier(BASE, kind(), cv=3, ensemble=True) for kind in OF_EACH_FAMILY),
    ]
)
def test_calibrated_classifier(estimator, check):
    """All of them, with no failure expected."""
    check(estimator)

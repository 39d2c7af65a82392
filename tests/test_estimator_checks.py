"""scikit-learn's own battery, on each calibrator bare, in a pipeline, and as CalibratedClassifier.

The classifier is one in closed form, so that the noise of a solver cannot move a row across the
edge of a bin.
"""

import functools

import pytest
from families import CALIBRATORS, REPRESENTATIVES, with_known
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
OF_STEPS_AND_MAPS = [BBQ, VectorScaling]
FOLLOWERS = set(CALIBRATORS) - set(REPRESENTATIVES)

# The data of many checks are separable, which the calibrators rightly warn about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Checks that cannot run for lack of an optional package or of an environment variable say so.
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
# Features of random integers between 0 and 1 may look like probabilities.
likeness = pytest.mark.filterwarnings("ignore:Every row of X is non-negative:UserWarning")
leaking = pytest.mark.filterwarnings("ignore:Without cv, fit_transform:UserWarning")
missing = pytest.mark.filterwarnings("ignore:No row has label:UserWarning")


def checks(estimators):
    """All checks of the estimators, as parameters; slow where another calibrator stands for one."""
    cases = [
        pytest.param(*case, marks=pytest.mark.slow if type(estimator) in FOLLOWERS else ())
        for estimator in estimators
        for case in estimator_checks_generator(estimator)
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=name_of)


def of_predictions(calibrator):
    """Failures expected where predictions are those of the logits."""
    return OF_KEPT_PREDICTIONS if calibrator._keeps_predictions else {}


def run(check, estimator, *expected_failures):
    """Run a check, which must fail if it is one of the expected failures.

    A test that is marked to fail costs as much as ten others: pytest makes a report of it.
    """
    if any(name_of(check) in expected for expected in expected_failures):
        with pytest.raises((AssertionError, ValueError)):
            check(estimator)
    else:
        check(estimator)


@functools.cache
def name_of(thing):
    thing = getattr(thing, "func", thing)
    return getattr(thing, "__name__", None) or repr(thing)


@pytest.fixture
def columns_are_classes(monkeypatch):
    """Most checks feed features, with more columns than labels: as if classes= named them all."""
    said = functools.partial(skcalib._base.resolve_classes, proper=True)
    monkeypatch.setattr(skcalib._base, "resolve_classes", said)


@skips
@likeness
@missing
@checks([kind() for kind in CALIBRATORS])
def test_bare(estimator, check, columns_are_classes):
    run(check, estimator, EXPECTED_FAILURES)


@pytest.mark.slow
@skips
@likeness
@missing
@checks([AutoCalibrator(cv=2)])
def test_default_calibrator(estimator, check, columns_are_classes):
    """For which one with fewer candidates stands in above."""
    run(check, estimator, EXPECTED_FAILURES)


@pytest.mark.slow
@skips
@likeness
@missing
@checks([ClassifierCalibrator()])
def test_calibrator_with_boosting(estimator, check, columns_are_classes):
    """For which another classifier stands in above."""
    run(check, estimator, EXPECTED_FAILURES, OF_BOOSTING)


@skips
@leaking
@checks([LogitTransformer(BASE)])
def test_logit_transformer(estimator, check):
    check(estimator)


@skips
@checks([LogitTransformer(SMOOTH, cv=3)])
def test_logit_transformer_across_folds(estimator, check):
    run(check, estimator, OF_HELD_OUT)


@pytest.mark.slow
@skips
@leaking
@checks([make_pipeline(LogitTransformer(BASE), kind()) for kind in REPRESENTATIVES])
def test_behind_logit_transformer(estimator, check):
    """With one calibrator of each fit path: all of them pass the checks on their own."""
    run(check, estimator, OF_PIPELINES, of_predictions(estimator[-1]))


@pytest.mark.slow
@skips
@checks(
    [
        # Five folds are more than the few rows have, so that weights are repetitions all the same.
        *(CalibratedClassifier(BASE, with_known(kind, cv=5), cv=3) for kind in REPRESENTATIVES),
        *(CalibratedClassifier(BASE, kind(), cv=3, ensemble=True) for kind in OF_STEPS_AND_MAPS),
    ]
)
def test_calibrated_classifier(estimator, check):
    """With one calibrator of each fit path, and with no failure expected."""
    check(estimator)

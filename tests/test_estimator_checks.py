"""scikit-learn's estimator checks on each estimator, alone, in a pipeline and with a classifier.

The classifier has a closed form, so solver noise cannot move a row across a bin edge. Exactly the
checks named by skcalib.testing fail.
"""

import warnings
from contextlib import suppress
from unittest import SkipTest

import families
import numpy as np
import pytest
from families import CALIBRATORS, REPRESENTATIVES, STAND_INS, of_case, public_objects
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

import skcalib
import skcalib.conditional
import skcalib.experimental
import skcalib.judge
from skcalib import (
    BBQ,
    AutoCalibrator,
    CalibratedClassifier,
    LogitTransformer,
    MultiLabelCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.experimental import EstimatorCalibration
from skcalib.judge import ScoreTransformer
from skcalib.testing import expected_failed_checks

# Checks that scikit-learn's own pipelines fail.
OF_PIPELINES = {
    "check_estimators_overwrite_params": "Pipeline fits the steps that it was given",
    "check_dont_overwrite_parameters": "Pipeline fits the steps that it was given",
}
# Strong smoothing keeps in-sample and held-out logits within the tolerance of the checks.
SMOOTH = GaussianNB(var_smoothing=0.1)


BASE = GaussianNB()
OF_STEPS_AND_MAPS = [BBQ, VectorScaling]
# One calibrator of each method fit is quick.
FOLLOWERS = set(CALIBRATORS) - set({kind.fit: kind for kind in REPRESENTATIVES}.values())

# The data of many checks are separable, which the calibrators rightly warn about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Checks that cannot run for lack of an optional package or of an environment variable say so.
skips = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
# Most checks feed features, with more columns than labels; some of random integers between 0 and 1.
features = pytest.mark.filterwarnings(
    "ignore::families.MissingClassesWarning",
    "ignore::families.ProbabilitiesWarning",
)


def each(estimators):
    """The estimators as parameters; slow where another calibrator stands for one."""
    return pytest.mark.parametrize(
        "estimator",
        [
            pytest.param(e, marks=pytest.mark.slow if type(e) in FOLLOWERS else ())
            for e in estimators
        ],
        ids=repr,
    )


def run(estimator, *expected_failures):
    """Run all checks. Exactly the expected failures must fail."""
    expected = {name for names in expected_failures for name in names}
    for _, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        np.random.seed(0)  # noqa: NPY002 - no check depends on those before
        # Some checks need an optional package or an environment variable.
        with of_case(name), suppress(SkipTest), warnings.catch_warnings():
            # Some checks repeat rows.
            warnings.filterwarnings("ignore", ".*of the rows have logits equal", UserWarning)
            if name in expected:
                with pytest.raises((AssertionError, ValueError)):
                    check(estimator)
            else:
                check(estimator)


@skips
@features
@each([kind() for kind in CALIBRATORS if kind not in STAND_INS.values()])
def test_calibrators_pass_the_checks_of_scikit_learn(estimator):
    run(estimator, expected_failed_checks(estimator))


@pytest.mark.slow
@skips
@features
@each([AutoCalibrator(cv=2), EstimatorCalibration(), families.ConditionalCalibrator()])
def test_calibrators_with_stand_ins(estimator):
    """Checks of the real calibrators. Without features, the conditional one equals the default."""
    run(estimator, expected_failed_checks(estimator))


@skips
@pytest.mark.filterwarnings("ignore:The least populated class in y")  # of rows of a check
@each([LogitTransformer(SMOOTH)])
def test_logit_transformer(estimator):
    run(estimator, expected_failed_checks(estimator))


@skips
@each([ScoreTransformer((-1000, 1000), step=0.01)])
def test_score_transformer(estimator):
    run(estimator, {})


@skips
@each([ScoreTransformer(scale) for scale in ((1, 5), (0, 100), (-10, 10), "log-probability")])
def test_scores_outside_of_a_scale_are_expected(estimator):
    results = check_estimator(
        estimator,
        expected_failed_checks=expected_failed_checks(estimator),
        on_skip=None,
        on_fail=None,
    )
    assert not [result for result in results if result["status"] == "failed"]


@skips
@pytest.mark.filterwarnings("ignore::UserWarning")  # of labels that all rows have or lack
@each([MultiLabelCalibrator()])
def test_several_labels(estimator):
    run(estimator, expected_failed_checks(estimator))


@pytest.mark.slow
@skips
@features
def test_checks_as_scikit_learn_runs_them():
    estimator = TemperatureScaling()
    results = check_estimator(
        estimator,
        expected_failed_checks=expected_failed_checks(estimator),
        on_skip=None,
        on_fail="raise",
    )
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == expected_failed_checks(estimator).keys()
    assert len(failed) <= 6


def test_every_public_estimator_is_checked():
    members = public_objects(skcalib, skcalib.conditional, skcalib.experimental, skcalib.judge)
    estimators = {m for m in members if isinstance(m, type) and issubclass(m, BaseEstimator)}
    checked = set(CALIBRATORS) | {base for kind in STAND_INS.values() for base in kind.__bases__}
    composed = {LogitTransformer, CalibratedClassifier, MultiLabelCalibrator, ScoreTransformer}
    assert estimators <= checked | composed


@pytest.mark.slow
@skips
@each(
    [
        *(make_pipeline(LogitTransformer(BASE, cv=3), kind()) for kind in OF_STEPS_AND_MAPS),
        *(
            CalibratedClassifier(BASE, kind(), cv=3, ensemble=ensemble)
            for kind, ensemble in zip(OF_STEPS_AND_MAPS, (True, False), strict=True)
        ),
    ]
)
def test_behind_classifiers(estimator):
    """With steps and with a smooth map: all calibrators pass the checks on their own."""
    run(estimator, OF_PIPELINES if isinstance(estimator, Pipeline) else {})

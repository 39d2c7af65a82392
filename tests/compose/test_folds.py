"""Laws of folds: weights, groups and splits mean the same in everything that divides rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit
from sklearn.naive_bayes import GaussianNB

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    LogitTransformer,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    compare_calibrators,
)
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits
from skcalib.fusion import FusionCalibrator

N = 120
Z, Y = make_logits(N, 3, temperature=2.0, random_state=0)
BOTH = np.hstack([Z, Z + np.random.default_rng(0).normal(size=Z.shape)])
FEATURE = np.random.default_rng(1).integers(0, 3, N).astype(str)
MEMBERS = [TemperatureScaling(), VectorScaling()]


def of_auto(cv, rows, **params):
    c = AutoCalibrator(MEMBERS, cv=cv).fit(Z[rows], Y[rows], **params)
    return [*c.cv_log_loss_.values(), *c.weights_.values()]


def of_features(cv, rows, **params):
    c = ConditionalCalibrator(MEMBERS, cv=cv)
    c.fit(Z[rows], Y[rows], features=FEATURE[rows], **params)
    return [c.loss_report_["without features"]]


def of_fusion(cv, rows, **params):
    c = FusionCalibrator(2, calibrator=PlattScaling(), cv=cv).fit(BOTH[rows], Y[rows], **params)
    return [*c.loss_report_.values(), *c.predict_proba(BOTH[:9]).flat]


def of_classifier(cv, rows, **params):
    c = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=cv, ensemble=False)
    return c.fit(Z[rows], Y[rows], **params).predict_proba(Z[:9]).ravel()


def of_ensemble(cv, rows, **params):
    c = CalibratedClassifier(GaussianNB(), PlattScaling(), cv=cv, ensemble=True)
    return c.fit(Z[rows], Y[rows], **params).predict_proba(Z[:9]).ravel()


def of_transformer(cv, rows, **params):
    return LogitTransformer(GaussianNB(), cv=cv).fit_transform(Z[rows], Y[rows], **params)[:9]


def of_comparison(cv, rows, **params):
    return compare_calibrators(Z[rows], Y[rows], calibrators=MEMBERS, cv=cv, **params).scores[
        "log loss"
    ]


OF_ROWS = [of_auto, of_features, of_fusion, of_classifier]
every = pytest.mark.parametrize(
    "numbers_of", [*OF_ROWS, of_ensemble, of_transformer, of_comparison]
)
ALL = np.arange(N)
SPLITS = list(KFold(4).split(Z))


def renumbered(splits, rows):
    """The splits as positions in ``rows``, a list of numbers of rows."""
    return [tuple(np.flatnonzero(np.isin(rows, part)) for part in split) for split in splits]


def assert_equal(one, other, rtol=1e-9):
    np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("numbers_of", [*OF_ROWS, of_ensemble])
def test_a_weight_of_two_is_the_row_twice_and_zero_is_the_row_absent(numbers_of):
    w = np.arange(N) % 3
    weighted = numbers_of(SPLITS, ALL, sample_weight=w.astype(float))
    twice, kept = np.repeat(ALL, w), np.flatnonzero(w)
    assert_equal(weighted, numbers_of(renumbered(SPLITS, twice), twice), rtol=1e-3)
    absent = numbers_of(renumbered(SPLITS, kept), kept, sample_weight=w[kept].astype(float))
    assert_equal(weighted, absent, rtol=1e-5)


@every
def test_a_splitter_is_its_splits_in_any_form(numbers_of):
    """Numbers, masks, slices, lists and negative numbers, as in scikit-learn."""
    expected = numbers_of(SPLITS, ALL)
    (a, b, c, d), quarter = SPLITS, N // 4
    forms = [
        (np.isin(ALL, a[0]), slice(0, quarter)),
        (pd.Series(b[0]), b[1].tolist()),
        (c[0].astype(np.uint8), c[1] - N),
        d,
    ]
    for cv in (KFold(4), forms):
        assert_equal(numbers_of(cv, ALL), expected)


@every
def test_groups_are_passed_to_the_splitter(numbers_of):
    groups = ALL // 5
    splits = list(GroupKFold(4).split(Z, Y, groups))
    found = numbers_of(GroupKFold(4), ALL, groups=groups)
    assert_equal(found, numbers_of(splits, ALL, groups=groups))


@pytest.mark.slow
@pytest.mark.parametrize("numbers_of", OF_ROWS)
def test_a_row_in_several_test_sets_counts_once(numbers_of):
    some = list(ShuffleSplit(3, random_state=0).split(Z)) + SPLITS
    for splits in (SPLITS, some):
        assert_equal(numbers_of(splits * 2, ALL), numbers_of(splits, ALL), rtol=1e-5)

"""Groups in every ``fit``: accepted, passed on to calibrators inside, and routed by searches."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from families import CALIBRATORS, quick
from numpy.testing import assert_array_equal
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline

from skcalib import (
    AutoCalibrator,
    CalibratedClassifier,
    MultiLabelCalibrator,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    compare_calibrators,
)
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration

X, y = make_logits(300, 3, temperature=2.0, random_state=0)
RNG = np.random.default_rng(0)
GROUPS = RNG.permutation(np.repeat(np.arange(30), 10))
FORMS = {
    "integers": GROUPS,
    "text": GROUPS.astype(str),
    "objects": GROUPS.astype(object),
    "list": GROUPS.tolist(),
    "categories": pd.Categorical(GROUPS.astype(str)),
    "Series": pd.Series(GROUPS, index=np.arange(300)[::-1]),
    "dates": np.datetime64("2026-01-01") + GROUPS,
}
few = pytest.mark.parametrize("kind", quick(CALIBRATORS, real=False))
routed = pytest.mark.parametrize("routing", [True, False])


class Torn(Exception):
    """Rows of a group are in two folds."""


class Watching(PlattScaling):
    """Refuses a fit to a part of a group, by logits that name the group."""

    def fit(self, X, y, sample_weight=None, *, groups=None):
        if (np.unique(X[:, 0], return_counts=True)[1] % 10).any():
            raise Torn
        return super().fit(X, y, sample_weight, groups=groups)


# Logits that name the group of the row, and their labels.
OF_GROUPS = make_logits(30, 3, random_state=1)[0][GROUPS]
LABELS = (softmax(OF_GROUPS, axis=1).cumsum(axis=1) < RNG.uniform(size=(300, 1))).sum(axis=1)


@pytest.mark.parametrize("form", FORMS)
def test_groups_of_any_type_keep_rows_together(form):
    auto = AutoCalibrator([Watching(), TemperatureScaling()], cv=3)
    assert auto.fit(OF_GROUPS, LABELS, groups=FORMS[form]).weights_
    with pytest.raises(UserWarning, match="pass groups"):
        auto.fit(OF_GROUPS, LABELS)


def test_groups_reach_the_folds_of_calibrators_inside():
    auto = AutoCalibrator([Watching(), TemperatureScaling()], cv=3)
    for calibrator in (
        AutoCalibrator([auto, VectorScaling()], cv=3),
        AutoCalibrator([make_pipeline(Watching(), auto), VectorScaling()], cv=3),
    ):
        assert calibrator.fit(OF_GROUPS, LABELS, groups=GROUPS).weights_
    compare_calibrators(
        OF_GROUPS, LABELS, calibrators=[auto, make_pipeline(auto)], groups=GROUPS, cv=3
    )


def test_groups_reach_the_calibrator_of_each_label():
    class WatchingOne(PlattScaling):
        def fit(self, X, y, sample_weight=None, *, groups=None):
            if (np.unique(groups, return_counts=True)[1] != 10).any():
                raise Torn
            return super().fit(X, y, sample_weight)

    W = np.ones((300, 2))
    W[GROUPS == 3, 1] = 0  # rows without the second label
    Y = np.column_stack([y == 0, y == 1])
    model = MultiLabelCalibrator(WatchingOne()).fit(X[:, :2], Y, W, groups=GROUPS.astype(str))
    assert len(model.calibrators_) == 2
    with pytest.raises(ValueError, match="one entry per row"):
        model.fit(X[:, :2], Y, groups=GROUPS[:5])


@routed
def test_pipelines_as_calibrators_get_groups_and_weights(routing):
    class Last(PlattScaling):
        def fit(self, X, y, sample_weight=None, *, groups=None):
            super().fit(X, y, sample_weight)
            self.passed_ = sample_weight, groups
            return self

    with sklearn.config_context(enable_metadata_routing=routing):
        classifier = (
            LogisticRegression().set_fit_request(sample_weight=True)
            if routing
            else (LogisticRegression())
        )
        model = CalibratedClassifier(classifier, make_pipeline(TemperatureScaling(), Last()), cv=3)
        w = 1.0 + GROUPS
        model.fit(X, y, w, groups=GROUPS)
    passed, groups = model.calibrator_[-1].passed_
    assert_array_equal(passed, 1 + groups)


@few
@routed
def test_searches_and_cross_validation_take_groups(kind, routing):
    model, options = kind(), {"cv": GroupKFold(2), "error_score": "raise"}
    with sklearn.config_context(enable_metadata_routing=routing):
        GridSearchCV(model, {}, **options).fit(X, y, groups=GROUPS)
        if routing:
            cross_validate(model, X, y, params={"groups": GROUPS}, **options)
        else:
            cross_validate(model, X, y, groups=GROUPS, **options)
            options["cv"] = 2
            cross_validate(model, X, y, params={"groups": GROUPS}, **options)


@routed
def test_a_search_keeps_groups_for_its_splitter_without_routing(routing):
    model = AutoCalibrator([Watching(), TemperatureScaling()], cv=3)
    search = GridSearchCV(
        model, {"combine": ["stack", "best"]}, cv=GroupKFold(3), error_score="raise"
    )
    pipeline = make_pipeline(TemperatureScaling(), model)
    with sklearn.config_context(enable_metadata_routing=routing):
        if routing:
            search.fit(OF_GROUPS, LABELS, groups=GROUPS)
            params = {"groups": GROUPS}
            cross_validate(
                model, OF_GROUPS, LABELS, params=params, cv=GroupKFold(3), error_score="raise"
            )
            pipeline.fit(OF_GROUPS, LABELS, groups=GROUPS)
        else:
            with pytest.raises(UserWarning, match="pass groups"):
                search.fit(OF_GROUPS, LABELS, groups=GROUPS)
            pipeline.fit(OF_GROUPS, LABELS, autocalibrator__groups=GROUPS)


def test_calibrators_without_folds_may_be_inside_of_noisy_labels():
    assert NoisyLabelCalibration(VectorScaling()).fit(X, y).n_iter_
    for folds in (AutoCalibrator(), make_pipeline(TemperatureScaling(), AutoCalibrator())):
        with pytest.raises(ValueError, match="folds"):
            NoisyLabelCalibration(folds).fit(X, y)

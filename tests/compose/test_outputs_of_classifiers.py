"""Classifiers that users write: outputs, classes, groups and unlabelled rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold, StratifiedGroupKFold
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from skcalib import (
    CalibratedClassifier,
    IsotonicCalibration,
    LogitTransformer,
    MultiLabelCalibrator,
    PlattScaling,
    TemperatureScaling,
    Uncalibrated,
)
from skcalib.conditional import ConditionalCalibrator

X3, Y3 = make_classification(600, 8, n_informative=6, n_classes=3, random_state=0)
X2, Y2 = make_classification(300, 6, n_informative=4, random_state=0)
NAMES = np.array(["low", "mid", "high"])


class Own(ClassifierMixin, BaseEstimator):
    """A logistic regression with outputs and classes of other forms."""

    def __init__(self, form=None, order=None):
        self.form = form
        self.order = order

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = classes = self.model_.classes_
        if self.order is not None:
            self.classes_ = np.array([c for c in self.order if c in classes])
        self.columns_ = [list(classes).index(c) for c in self.classes_]
        if self.form in (list, tuple):
            self.classes_ = self.form(classes.tolist())
        elif self.form == "missing":
            del self.classes_
        return self

    def predict_proba(self, X):
        P = self.model_.predict_proba(X)[:, self.columns_]
        if self.form == "gaps":
            P[::30] = np.nan
        elif self.form == "one column":
            P = P[:, 1:]
        elif self.form == "one dimension":
            P = P[:, 1]
        elif self.form == "tensor":
            import torch

            P = torch.tensor(P, requires_grad=True)
        return P

    def predict(self, X):
        return self.model_.predict(X)


class WithMargins(Own):
    def decision_function(self, X):
        Z = self.model_.decision_function(X)
        if Z.ndim == 1:
            return Z if self.columns_ == [0, 1] else -Z
        return Z[:, self.columns_]


class WithLogits(Own):
    def predict_logits(self, X):
        return 2 * np.log(Own.predict_proba(self, X))


OVER = pytest.mark.parametrize("ensemble", ["auto", True, False])


def calibrated(estimator, X, y, **params):
    return CalibratedClassifier(estimator, PlattScaling(), cv=3, **params).fit(X, y)


# --------------------------------------------------------------------------------------
# Outputs and classes.


@OVER
@pytest.mark.parametrize("form", [list, tuple, "one column", "one dimension", "tensor"])
def test_containers_of_outputs_and_classes(form, ensemble):
    if form == "tensor":
        pytest.importorskip("torch")
    wanted = calibrated(Own(), X2, Y2, ensemble=ensemble).predict_proba(X2)
    assert_allclose(calibrated(Own(form), X2, Y2, ensemble=ensemble).predict_proba(X2), wanted)
    frozen = FrozenEstimator(Own(form).fit(X2, Y2))
    assert calibrated(frozen, X2, Y2).predict_proba(X2).shape == (300, 2)


@pytest.mark.slow
def test_tensors_of_a_classifier_without_array_api_dispatch():
    pytest.importorskip("torch")
    code = "import test_outputs_of_classifiers as t; t.calibrate_tensors()"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})


def calibrate_tensors():
    P = calibrated(Own("tensor"), X2, Y2).predict_proba(X2)
    assert isinstance(P, np.ndarray)
    pipeline = make_pipeline(LogitTransformer(Own("tensor")), TemperatureScaling())
    assert isinstance(pipeline.fit(X2, Y2).predict_proba(X2), np.ndarray)


@OVER
def test_missing_classes_are_named(ensemble):
    with pytest.raises(ValueError, match="classes_"):
        calibrated(Own("missing"), X2, Y2, ensemble=ensemble)


def test_numbers_that_are_not_finite_match_the_classifier():
    for over in (CalibratedClassifier(Own("gaps")), LogitTransformer(Own("gaps"))):
        with pytest.raises(ValueError, match="first in row 0"):
            over.fit(X2, Y2)
    fitted = calibrated(Own(), X2, Y2)
    for estimator in fitted.estimators_:
        estimator.form = "gaps"
    with pytest.raises(ValueError, match="first in row 0"):
        fitted.predict_proba(X2)


def test_logits_come_before_probabilities():
    transformer = LogitTransformer(WithLogits()).fit(X3, Y3)
    assert transformer.response_method_ == "predict_logits"
    assert_allclose(transformer.transform(X3), 2 * np.log(transformer.estimator_.predict_proba(X3)))
    model = calibrated(WithLogits(), X3, Y3, response_method="predict_logits")
    chosen = calibrated(WithLogits(), X3, Y3)
    assert_array_equal(model.predict_proba(X3), chosen.predict_proba(X3))
    proba = calibrated(WithLogits(), X3, Y3, response_method="predict_proba")
    assert proba.response_method_ == "predict_proba"


# --------------------------------------------------------------------------------------
# Order of the columns.


@pytest.mark.parametrize("kind", [Own, WithMargins, WithLogits])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logit_columns_are_in_sorted_class_order(kind, n_classes):
    rows, calibrator = np.flatnonzero(n_classes > Y3)[:300], IsotonicCalibration()
    X, y = X3[rows], NAMES[Y3[rows]]
    plain, other = (LogitTransformer(kind(order=order)) for order in (None, NAMES))
    wanted = plain.fit_transform(X, y)
    assert_allclose(other.fit_transform(X, y), wanted)
    assert other.classes_.tolist() == sorted(set(y))
    assert_allclose(other.transform(X), plain.transform(X))
    assert other.get_feature_names_out().tolist() == plain.get_feature_names_out().tolist()
    pipeline = make_pipeline(LogitTransformer(kind(order=NAMES)), calibrator).fit(X, y)
    over = CalibratedClassifier(kind(order=NAMES), calibrator, ensemble=False).fit(X, y)
    assert_allclose(pipeline.predict_proba(X), over.predict_proba(X), rtol=1e-6)
    frozen = LogitTransformer(FrozenEstimator(other.estimator_))
    assert_allclose(frozen.fit_transform(X, y), plain.transform(X))


def test_columns_of_ordered_categories_are_in_their_order():
    y = pd.Categorical(NAMES[Y3], NAMES, ordered=True)
    transformer = LogitTransformer(LogisticRegression()).fit(X3, y)
    assert transformer.classes_.tolist() == NAMES.tolist()
    assert (NAMES[transformer.transform(X3).argmax(axis=1)] == NAMES[Y3]).mean() > 0.6
    pipeline = make_pipeline(LogitTransformer(LogisticRegression()), TemperatureScaling())
    assert pipeline.fit(X3, y).score(X3, y) > 0.6


# --------------------------------------------------------------------------------------
# Groups.


class Watched(LogisticRegression):
    """Refuses rows with a part of a group of ten, which is the last column."""

    def fit(self, X, y, sample_weight=None):
        assert (np.unique(X[:, -1], return_counts=True)[1] == 10).all(), "a group is torn"
        return super().fit(X, y, sample_weight)


class WatchedCalibrator(PlattScaling):
    """Keeps the groups."""

    def fit(self, X, y, sample_weight=None, groups=None):
        super().fit(X, y, sample_weight)
        self.groups_ = groups
        return self


GROUPS = np.random.default_rng(0).permutation(np.repeat(np.arange(30), 10))
XG = np.column_stack([X2, GROUPS])


@OVER
@pytest.mark.parametrize(
    ("cv", "form"), [(3, np.asarray), (None, list), (3, pd.Series), (None, lambda g: g.astype(str))]
)
def test_a_number_of_folds_keeps_groups_together(cv, form, ensemble):
    model = CalibratedClassifier(Watched(), WatchedCalibrator(), cv=cv, ensemble=ensemble)
    model.fit(XG, Y2, groups=form(GROUPS))
    splits = StratifiedGroupKFold(cv or 5)
    same = CalibratedClassifier(Watched(), PlattScaling(), cv=splits, ensemble=ensemble)
    assert_array_equal(
        model.predict_proba(XG), same.fit(XG, Y2, groups=form(GROUPS)).predict_proba(XG)
    )
    groups = np.concatenate([calibrator.groups_ for calibrator in model.calibrators_])
    assert sorted(groups.tolist()) == sorted(form(GROUPS))


def test_transformers_keep_groups_together():
    transformer = LogitTransformer(Watched(), cv=3)
    Z = transformer.fit_transform(XG, Y2, groups=GROUPS)
    same = LogitTransformer(Watched(), cv=StratifiedGroupKFold(3))
    assert_array_equal(Z, same.fit_transform(XG, Y2, groups=GROUPS))
    make_pipeline(transformer, PlattScaling()).fit(XG, Y2, logittransformer__groups=GROUPS)


def test_several_labels_keep_groups_together():
    X, Y = make_multilabel_classification(300, n_features=6, n_classes=3, random_state=0)
    model = CalibratedClassifier(MultiOutputClassifier(Watched()), cv=3)
    model.fit(np.column_stack([X, GROUPS]), Y, groups=GROUPS)


def test_groups_are_routed_through_searches_to_the_calibrator():
    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedClassifier(Watched(), WatchedCalibrator(), cv=2)
        search = sklearn.model_selection.GridSearchCV(
            model, {"estimator__C": [0.1, 1]}, cv=GroupKFold(2), error_score="raise"
        )
        best = search.fit(XG, Y2, groups=GROUPS).best_estimator_
    assert len(best.calibrator_.groups_) == 300


@pytest.mark.parametrize(
    ("groups", "word"), [(GROUPS > 20, "folds, 5, got 2"), (np.where(GROUPS > 3, np.nan, 1), "NaN")]
)
def test_too_few_groups_and_missing_groups_are_refused(groups, word):
    base = LogisticRegression()
    for fit in (CalibratedClassifier(base).fit, LogitTransformer(base).fit_transform):
        with pytest.raises(ValueError, match=word):
            fit(X2, Y2, groups=groups)


def test_a_row_in_several_test_sets_is_a_group():
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), WatchedCalibrator(), cv=cv).fit(X2, Y2)
    assert_array_equal(model.calibrator_.groups_, np.repeat(np.arange(300), 2))
    model = CalibratedClassifier(LogisticRegression(), WatchedCalibrator(), cv=3).fit(X2, Y2)
    assert model.calibrator_.groups_ is None


# --------------------------------------------------------------------------------------
# Outputs that cannot be calibrated.


@OVER
@pytest.mark.parametrize(
    "model",
    [LabelSpreading(), SelfTrainingClassifier(LogisticRegression())],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_rows_without_a_label_are_refused(model, ensemble, rng):
    y = np.where(rng.random(300) < 0.3, -1, Y2)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        calibrated(model, X2, y, ensemble=ensemble)
    known = y >= 0
    frozen = FrozenEstimator(model.fit(X2, y))
    assert calibrated(frozen, X2[known], y[known]).classes_.tolist() == [0, 1]
    for min_proba in ("auto", 1e-3):
        with pytest.raises(ValueError, match="-1"):
            LogitTransformer(model, min_proba=min_proba).fit(X2, y)


@pytest.mark.parametrize(
    ("model", "X"),
    [
        (KNeighborsClassifier(15, metric="precomputed"), pairwise_distances(X2)),
        (SVC(kernel="precomputed"), X2 @ X2.T),
    ],
)
def test_kernels_cannot_be_averaged(model, X):
    with pytest.raises(ValueError, match="ensemble='auto'"):
        calibrated(model, X, Y2, ensemble=True)
    for ensemble in ("auto", False):
        assert calibrated(model, X, Y2, ensemble=ensemble).predict_proba(X[:4]).shape == (4, 2)


def test_features_that_the_calibrator_does_not_take():
    model = calibrated(LogisticRegression(), X2, Y2)
    for method in (model.predict_proba, model.predict, model.predict_log_proba):
        with pytest.raises(ValueError, match="features"):
            method(X2, features=X2[:, :1])
    with_features = CalibratedClassifier(LogisticRegression(), ConditionalCalibrator(cv=2))
    with_features.fit(X2, Y2, features=X2[:, :1])
    assert with_features.predict_proba(X2, features=X2[:, :1]).shape == (300, 2)


# --------------------------------------------------------------------------------------
# No calibration.


@OVER
def test_passthrough_leaves_probabilities_uncalibrated(ensemble):
    one, other = (
        CalibratedClassifier(LogisticRegression(), c, ensemble=ensemble).fit(X3, Y3)
        for c in ("passthrough", Uncalibrated())
    )
    assert_array_equal(one.predict_proba(X3), other.predict_proba(X3))
    if ensemble is False:
        assert_allclose(one.predict_proba(X3), LogisticRegression().fit(X3, Y3).predict_proba(X3))
    assert one.calibrator == "passthrough"


def test_passthrough_leaves_several_labels_uncalibrated():
    X, Y = make_multilabel_classification(300, n_features=6, n_classes=3, random_state=0)
    base = MultiOutputClassifier(LogisticRegression())
    model = CalibratedClassifier(base, "passthrough", ensemble=False).fit(X, Y)
    wanted = np.stack([p[:, 1] for p in base.fit(X, Y).predict_proba(X)], axis=1)
    assert_allclose(model.predict_proba(X), wanted)
    Z = np.log(wanted) - np.log1p(-wanted)
    assert_allclose(MultiLabelCalibrator("passthrough").fit(Z, Y).predict_proba(Z), wanted)


@pytest.mark.parametrize("kind", [MultiOutputClassifier, ClassifierChain])
def test_classifiers_of_several_labels_refuse_a_single_label(kind):
    for y in (Y3 > 0, Y3[:, None] > 0):
        with pytest.raises(ValueError, match=f"^{kind.__name__} .* several labels"):
            CalibratedClassifier(kind(LogisticRegression())).fit(X3, y)


@pytest.mark.parametrize("name", ["calibrated_classifiers_", "feature_importances_", "coef_"])
def test_attributes_of_the_classifiers_inside_are_named(name):
    model = CalibratedClassifier(LogisticRegression(), PlattScaling(), cv=2).fit(X2, Y2)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="estimators_"):
        getattr(model, name)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = model.other


@pytest.mark.parametrize("weight", ["balanced", {0: 1, 1: 5}])
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_weights_in_words_of_a_transformer(weight, method):
    with pytest.raises(ValueError, match="compute_sample_weight"):
        getattr(LogitTransformer(LogisticRegression(), cv=2), method)(X2, Y2, sample_weight=weight)

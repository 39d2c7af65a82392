"""A quiet hour: everything with outputs takes no rows."""

import numpy as np
import pandas as pd
import pytest
from families import CALIBRATORS, ConditionalCalibrator, quick
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from skcalib import (
    CalibratedClassifier,
    LogitTransformer,
    MultiLabelCalibrator,
    PlattScaling,
    PriorShift,
    TemperatureScaling,
)
from skcalib.datasets import make_logits
from skcalib.fusion import FusionCalibrator
from skcalib.judge import ScoreTransformer
from skcalib.monitor import CalibrationMonitor, OnlineCalibrator

Z, Y = make_logits(200, 3, temperature=2.0, random_state=0)
METHODS = ["transform", "predict_proba", "predict_log_proba", "predict"]


def outputs(model, X, **params):
    """Shape without rows and dtype of each output that the model has."""
    found = {}
    for method in METHODS:
        if hasattr(model, method):
            more = params if method != "transform" else {}
            out = np.asarray(getattr(model, method)(X, **more))
            assert len(out) == len(X)
            found[method] = out.shape[1:], out.dtype
    return found


def assert_no_rows(model, X, **params):
    some = outputs(model, X, **params)
    none = outputs(model, X[:0], **{name: rows[:0] for name, rows in params.items()})
    assert none == some


@pytest.mark.parametrize("kind", quick(CALIBRATORS, real=False))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_calibrators(kind, dtype):
    X = Z.astype(dtype)
    assert_no_rows(kind().fit(X, Y), X)
    assert_no_rows(make_pipeline(TemperatureScaling(), kind()).fit(X, Y), X)


def test_several_scores():
    assert_no_rows(FusionCalibrator(n_scores=2).fit(np.hstack([Z, Z]), Y), np.hstack([Z, Z]))


@pytest.mark.filterwarnings("ignore:The calibrator was fitted with features")
def test_features():
    hour = pd.DataFrame({"site": np.where(np.arange(200) % 2, "a", "b"), "age": np.arange(200.0)})
    model = ConditionalCalibrator().fit(Z, Y, features=hour)
    assert_no_rows(model, Z, features=hour)
    assert_no_rows(model, Z)


@pytest.mark.parametrize("scale", [(0, 100), "log-probability"])
def test_scores(scale):
    scores = np.arange(200.0)[:, None] % 101
    scores = scores if scale == (0, 100) else -scores / 10
    transformer = ScoreTransformer(scale)
    assert_no_rows(transformer, scores)
    assert_no_rows(make_pipeline(transformer, PlattScaling()).fit(scores, Y == 0), scores)
    transformer = ScoreTransformer(scale)
    assert_no_rows(transformer, np.hstack([scores, scores]) if scale == (0, 100) else -1 - Z**2)
    with pytest.raises(ValueError, match="0 sample"):
        transformer.fit(scores[:0])


def test_others():
    assert_no_rows(PriorShift(before=[1, 2, 3]), Z)
    assert_no_rows(MultiLabelCalibrator().fit(Z, np.eye(3, dtype=int)[Y]), Z)
    assert_no_rows(OnlineCalibrator([TemperatureScaling().fit(Z, Y)]), Z)
    empty = CalibrationMonitor([0, 1, 2]).update(Y[:0], Z[:0])
    assert empty.n_samples_ == empty.n_bets_ == 0


@pytest.mark.parametrize("classifier", [LogisticRegression(), GaussianNB()])
@pytest.mark.parametrize("y", [Y, Y == 0, np.eye(3, dtype=int)[Y]], ids=["3", "2", "several"])
def test_classifiers(classifier, y):
    """Classifiers of scikit-learn refuse a batch without rows, classifiers around them do not."""
    inner = classifier if y.ndim == 1 else OneVsRestClassifier(classifier)
    assert_no_rows(CalibratedClassifier(inner, TemperatureScaling(), cv=2).fit(Z, y), Z)
    assert_no_rows(LogitTransformer(inner, cv=2).fit(Z, y), Z)
    if y.ndim == 1:
        steps = LogitTransformer(inner, cv=2), TemperatureScaling()
        assert_no_rows(make_pipeline(*steps).fit(Z, y), Z)

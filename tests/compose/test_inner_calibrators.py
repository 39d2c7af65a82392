"""Laws of calibrators and folds inside other estimators: wrong ones are refused before any fit."""

import numpy as np
import pytest
from families import Weighable
from public import calls
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    BBQ,
    AutoCalibrator,
    CalibratedClassifier,
    LogitTransformer,
    MultiLabelCalibrator,
    PlattScaling,
    VectorScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration, TopLabelCalibration
from skcalib.fusion import FusionCalibrator

Z, Y = make_logits(240, 3, random_state=0)
BOTH, INDICATOR = np.hstack([Z, Z]), np.eye(3, dtype=int)[Y]
FEATURES = np.arange(240) % 7
MEMBER = Weighable()  # fails in fit


def around(make, X=Z, y=Y, **features):
    """Return a function that fits the estimator made from a calibrator, a list or folds."""
    return lambda part, **arguments: make(part).fit(X, y, **features, **arguments)


CONDITIONAL = {"features": FEATURES}
LISTS = {
    "AutoCalibrator": around(AutoCalibrator),
    "ConditionalCalibrator": around(ConditionalCalibrator, **CONDITIONAL),
    "compare_calibrators": lambda c, **w: compare_calibrators(Z, Y, calibrators=c, **w),
}
ONE = {
    "CalibratedClassifier": around(lambda c: CalibratedClassifier(MEMBER, c)),
    "FusionCalibrator": around(lambda c: FusionCalibrator(2, calibrator=c), BOTH),
    "MultiLabelCalibrator": around(MultiLabelCalibrator, y=INDICATOR),
    "NoisyLabelCalibration": around(NoisyLabelCalibration),
    "TopLabelCalibration": around(TopLabelCalibration),
    **{name: lambda c, f=f, **w: f({"a": c, "b": MEMBER}, **w) for name, f in LISTS.items()},
}
FOLDS = {
    "AutoCalibrator": around(lambda cv: AutoCalibrator([MEMBER, BBQ()], cv=cv)),
    "CalibratedClassifier": around(lambda cv: CalibratedClassifier(MEMBER, BBQ(), cv=cv)),
    "ConditionalCalibrator": around(
        lambda cv: ConditionalCalibrator([MEMBER], cv=cv), **CONDITIONAL
    ),
    "FusionCalibrator": around(lambda cv: FusionCalibrator(2, calibrator=MEMBER, cv=cv), BOTH),
    "LogitTransformer": around(lambda cv: LogitTransformer(MEMBER, cv=cv)),
    "compare_calibrators": lambda cv, **w: compare_calibrators(
        Z, Y, calibrators=[MEMBER], cv=cv, **w
    ),
}


def test_the_laws_cover_all_public_estimators():
    others = {
        "CalibratorComparison",  # a result
        "OnlineCalibrator",  # takes fitted calibrators
    }
    for name, law in (("calibrator", ONE), ("calibrators", LISTS), ("cv", FOLDS)):
        found = {param.id for param in calls(name)}
        estimators = {path for path in found if path[0].isupper() and "." not in path}
        assert estimators - others <= law.keys()


@pytest.mark.parametrize(
    ("calibrators", "word"),
    [
        ("temperature", "list"),
        (BBQ(), "list"),
        (make_pipeline(BBQ(), BBQ()), "list"),
        ([], "at least one"),
        ([BBQ(), BBQ()], "differ"),
        ({"a": BBQ(), None: BBQ()}, "strings"),
        ([VectorScaling(classes=[2, 1, 0]), MEMBER], r"\[0, 1, 2\]"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", LISTS)
def test_wrong_lists_of_calibrators_are_refused(name, calibrators, word):
    with pytest.raises(ValueError, match=word):
        LISTS[name](calibrators)


@pytest.mark.parametrize(
    ("calibrator", "remedy"),
    [
        ("TemperatureScaling", r"Write TemperatureScaling\(\)"),
        (PlattScaling, r"Write PlattScaling\(\)"),
        ("platt", r"TemperatureScaling\(\), got 'platt'"),
        (StandardScaler(), "predict_proba"),
        (LogitTransformer(GaussianNB()), "predict_proba"),
        (len, "predict_proba"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", [*ONE, "calibration_report"])
def test_what_is_no_calibrator_is_refused(name, calibrator, remedy):
    fit = ONE.get(name, lambda c: calibration_report(c, Z, Y))
    with pytest.raises(ValueError, match=remedy):
        fit(calibrator)


@pytest.mark.parametrize("name", ONE)
def test_weights_need_a_calibrator_that_takes_them(name):
    for calibrator in (KNeighborsClassifier(), make_pipeline(KNeighborsClassifier())):
        with pytest.raises(ValueError, match="sample_weight"):
            ONE[name](calibrator, sample_weight=np.ones(240))


ONLY_0 = np.flatnonzero(Y == 0)


@pytest.mark.parametrize(
    ("cv", "word"),
    [
        (1, "at least"),
        ("month", "cv"),
        ([], "split"),
        ([([0, 3], [])], "split 0"),
        ([([0, 3], [2]), ([], [3])], "split 1"),
        ([([[0, 3]], [2])], "dimension"),
        ([([0, 3], [300])], "300"),
        (GroupKFold(3), "groups"),
        ([(ONLY_0, np.flatnonzero(Y == 1))] * 2, r"two classes, got \[0\] in split 0"),
    ],
    ids=lambda x: None if isinstance(x, str) else repr(x)[:20],
)
@pytest.mark.parametrize("name", FOLDS)
def test_wrong_folds_are_refused(name, cv, word):
    with pytest.raises((ValueError, IndexError), match=word):
        FOLDS[name](cv)


HALVES = [(np.arange(120), np.arange(120, 240)), (np.arange(120, 240), np.arange(120))]


@pytest.mark.parametrize(
    "name", sorted(FOLDS.keys() - {"CalibratedClassifier", "LogitTransformer"})
)
def test_training_rows_and_test_rows_need_weight(name):
    w = (np.arange(240) < 120).astype(float)
    with pytest.raises(ValueError, match="split 1"):
        FOLDS[name](HALVES, sample_weight=w)
    with pytest.raises(ValueError, match="weights of zero only in split 0"):
        FOLDS[name](HALVES[:1] * 2, sample_weight=w)


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("groups", [np.arange(9), 7], ids=["9", "number"])
def test_groups_need_one_entry_per_row(name, groups):
    with pytest.raises(ValueError, match="groups"):
        FOLDS[name](3, groups=groups)

"""Series and data frames of polars in place of arrays."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.special import softmax
from sklearn.naive_bayes import GaussianNB

import skcalib
from skcalib import CalibratedClassifier, TemperatureScaling
from skcalib.conditional import ConditionalCalibrator
from skcalib.datasets import make_logits
from skcalib.metrics import expected_calibration_error

pl = pytest.importorskip("polars", reason="polars is not installed")
Z, Y = make_logits(300, 3, temperature=2.0, random_state=0)
P = softmax(Z, axis=1)
LABELS = {
    "integers": np.array([2**63, 2**63 + 1, 2**64 - 1], dtype=np.uint64),
    "strings": np.array(["a", "b", "c"]),
}


@pytest.mark.parametrize("names", LABELS.values(), ids=LABELS)
def test_labels(names):
    y = pl.Series(names[Y])
    calibrator = TemperatureScaling().fit(Z, y)
    assert calibrator.classes_.tolist() == names.tolist()
    assert calibrator.temperature_ == TemperatureScaling().fit(Z, Y).temperature_
    assert expected_calibration_error(y, P) == expected_calibration_error(Y, P)


def test_missing_labels_are_named():
    y = pl.Series([None if k == 7 else "abc"[label] for k, label in enumerate(Y)])
    for name, action in (
        ("y", lambda: TemperatureScaling().fit(Z, y)),
        ("y_true", lambda: expected_calibration_error(y, P)),
    ):
        with pytest.raises(ValueError, match=f"{name} .*None at position 7"):
            action()


def test_feature_names():
    y, names = np.array(["bee", "ant", "cat"])[Y], ["bee", "ant", "cat"]
    X, proba = (pl.DataFrame(dict(zip(names, columns.T, strict=True))) for columns in (Z, P))
    with pytest.raises(ValueError, match=r"of X .*order"):
        skcalib.BBQ().fit(X, y)
    with pytest.raises(ValueError, match=r"of y_proba .*order"):
        expected_calibration_error(y, proba)
    error = expected_calibration_error(y, proba, labels=names)
    assert error == expected_calibration_error(y, proba[sorted(names)])
    assert error == expected_calibration_error(Y, P)


def test_features_of_a_classifier():
    c = CalibratedClassifier(GaussianNB(), TemperatureScaling())
    of_frame = c.fit(pl.DataFrame(Z), Y).predict_proba(pl.DataFrame(Z))
    assert_array_equal(of_frame, c.fit(Z, Y).predict_proba(Z))


def test_features_of_a_calibrator(rng):
    columns = {"length": Z[:, 0], "subject": rng.choice(["maths", "law"], 300)}
    F = pl.DataFrame(columns)
    c = ConditionalCalibrator([TemperatureScaling()], cv=2).fit(Z, Y, features=F)
    assert c.feature_names_ == ["length", "subject"]
    values = np.array([*zip(*(x.tolist() for x in columns.values()), strict=True)], object)
    assert_array_equal(c.predict_proba(Z, features=F), c.predict_proba(Z, features=values))

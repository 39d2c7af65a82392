"""Fits warn of classes without rows that several rows should have."""

import numpy as np
import pytest
from families import CALIBRATORS, AbsentClassesWarning, warnings_of
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib.datasets import make_logits

NAMES = np.array(["alive", "default", "prepaid"])
Z, Y = make_logits(400, 3, random_state=0)
LEFT = Y != 1

# Their parameters belong to all classes.
SHARED = (
    "EnsembleTemperatureScaling", "OrderPreservingScaling", "OrdinalCalibration",
    "TemperatureScaling", "TopLabelCalibration", "Uncalibrated",
)  # fmt: skip


def warned(f):
    caught = warnings_of(f)
    return [str(w.message) for w in caught if w.category is AbsentClassesWarning]


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_a_class_that_rows_should_have_is_named_with_their_number(kind):
    calibrator = kind(classes=NAMES)
    if "order" in calibrator.get_params():
        calibrator.set_params(order=NAMES)
    messages = warned(lambda: calibrator.fit(Z[LEFT], NAMES[Y[LEFT]]))
    expected = np.exp(Z[LEFT])[:, 1] / np.exp(Z[LEFT]).sum(axis=1)
    assert len(messages) == (kind.__name__ not in SHARED)
    for message in messages:
        assert f"'default' in {expected.sum():.0f}" in message
    assert not warned(lambda: calibrator.fit(Z, NAMES[Y]))


def test_a_class_that_few_rows_should_have_is_no_reason_to_warn():
    X = Z[LEFT] - 5 * (NAMES == "default")
    assert not warned(lambda: skcalib.VectorScaling(classes=NAMES).fit(X, NAMES[Y[LEFT]]))
    w = np.full(len(X), 0.05)
    calibrator = skcalib.VectorScaling(classes=NAMES)
    assert not warned(lambda: calibrator.fit(Z[LEFT], NAMES[Y[LEFT]], sample_weight=w))


def test_frozen_classifiers_know_classes_that_the_rows_lack():
    model = FrozenEstimator(LogisticRegression().fit(Z, NAMES[Y]))
    for calibrator, n in ((skcalib.PlattScaling(), 1), (skcalib.TemperatureScaling(), 0)):
        fitted = skcalib.CalibratedClassifier(model, calibrator)
        assert len(warned(lambda f=fitted: f.fit(Z[LEFT], NAMES[Y[LEFT]]))) == n


def test_the_most_expected_of_many_absent_classes_are_named():
    logits = np.tile(np.arange(10.0) / 5, (500, 1))
    y = np.arange(500) % 2
    [message] = warned(lambda: skcalib.VectorScaling(classes=range(10)).fit(logits, y))
    named = [k for k in range(2, 10) if f"{k} in " in message]
    assert named == [5, 6, 7, 8, 9]

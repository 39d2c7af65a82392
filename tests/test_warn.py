"""Warnings point at the line of the user's program, through all layers of other code."""

import contextlib
import functools
import pickle

import numpy as np
import pytest
from families import warnings_of
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, InconsistentVersionWarning
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import (
    CalibratedClassifier,
    LogitTransformer,
    PlattScaling,
    TemperatureScaling,
    TemperatureSweepDisplay,
    VectorScaling,
    compare_calibrators,
)
from skcalib.datasets import make_logits
from skcalib.metrics import calibration_scorer, expected_calibration_error

X, Y = make_classification(120, n_informative=6, n_classes=3, random_state=0)
Z, y = make_logits(200, 3, random_state=0)
P = softmax(Z, axis=1)
SEPARABLE = np.where(np.arange(40) % 2, 1.0, -1.0)[:, None] * np.linspace(1, 2, 40)[:, None]
TWO = np.arange(40) % 2
OF_CLASS_2 = PredefinedSplit(np.where(Y == 2, 0, 1 + np.arange(len(Y)) % 3))


def sharp():
    return TemperatureScaling().fit(SEPARABLE, TWO)


def of_another_version():
    state = pickle.dumps(TemperatureScaling().fit(Z, y))
    return pickle.loads(state.replace(skcalib.__version__.encode(), b"9.9.9"))


class Separable(GaussianNB):
    """Classifier that predicts every row correctly."""

    def predict_proba(self, X):
        labels = np.searchsorted(self.classes_, X[:, -1])
        return softmax(np.eye(len(self.classes_))[labels] * (3 + X[:, :1] ** 2), axis=1)


def searched():
    pipe = make_pipeline(LogitTransformer(Separable()), TemperatureScaling())
    grid = {"logittransformer__min_proba": [1e-9]}
    return GridSearchCV(pipe, grid, cv=2, refit=False).fit(WITH_LABEL, Y)


WITH_LABEL = np.c_[X, Y]
# Every place that warns, by every way that leads there: a call, and a part of what it says.
SITES = {
    "temperature": (sharp, ConvergenceWarning, "no minimum"),
    "chance": (lambda: TemperatureScaling().fit(-Z, y), ConvergenceWarning, "chance"),
    "vector": (
        lambda: VectorScaling(alpha=0).fit(np.eye(3)[y] + [5, 0, 0], y),
        ConvergenceWarning, "separable",
    ),
    "Platt": (
        lambda: PlattScaling(smooth_targets=False).fit(SEPARABLE, TWO), ConvergenceWarning, ""
    ),
    "probabilities": (lambda: VectorScaling().fit(P, y), UserWarning, "probably holds prob"),
    "fit that lacks a class": (
        lambda: TemperatureScaling().fit(Z[y != 1], y[y != 1]), UserWarning, "No row has label 1"
    ),
    "measure that lacks a class": (
        lambda: expected_calibration_error(y[y > 0], P[y > 0]), UserWarning, "No row has label 0"
    ),
    "comparison that lacks a class": (
        lambda: compare_calibrators(
            Z[y != 1], y[y != 1], calibrators=[PlattScaling()], cv=2
        ), UserWarning, "label 1",
    ),
    "sweep": (
        lambda: TemperatureSweepDisplay.from_logits(SEPARABLE, TWO), ConvergenceWarning, "no min"
    ),
    "comparison": (
        lambda: compare_calibrators(
            SEPARABLE, TWO, calibrators=[TemperatureScaling()], cv=2
        ), ConvergenceWarning, "TemperatureScaling in 2 of 2 splits",
    ),
    "pipeline": (
        lambda: make_pipeline(TemperatureScaling()).fit(-Z, y), ConvergenceWarning, "chance"
    ),
    "calibrated classifier": (
        lambda: CalibratedClassifier(Separable(), TemperatureScaling()).fit(WITH_LABEL, Y),
        ConvergenceWarning,
        "no mini",
    ),
    "cross-validation": (
        lambda: cross_val_score(TemperatureScaling(), -Z, y, cv=2), ConvergenceWarning, "chance"
    ),
    "no weights": (
        lambda: CalibratedClassifier(KNeighborsClassifier(), TemperatureScaling()).fit(
            X, Y, sample_weight=np.ones(len(Y))
        ), UserWarning, "has no parameter sample_weight in fit",
    ),
    "class that a split lacks in a transformer": (
        lambda: LogitTransformer(GaussianNB(), cv=OF_CLASS_2).fit_transform(X, Y), UserWarning,
        "lack class 2",
    ),
    "pipeline in a search": (searched, ConvergenceWarning, "no minimum"),
    "another version": (of_another_version, InconsistentVersionWarning, "9.9.9"),
}  # fmt: skip


@pytest.mark.parametrize("site", SITES)
def test_warnings_point_at_the_users_line(site):
    call, category, message = SITES[site]
    caught = warnings_of(call)
    ours = [w for w in caught if issubclass(w.category, category) and message in str(w.message)]
    assert len(ours) == 1 + (site in {"cross-validation", "pipeline in a search"})
    assert {w.filename for w in caught} == {__file__}


def test_scorers_are_quiet():
    """A fold that lacks a class is no reason to warn, for the estimator knows the classes."""
    calibrator = TemperatureScaling().fit(Z, y)
    assert calibration_scorer("neg_expected_calibration_error")(calibrator, Z[y < 2], y[y < 2]) < 0


def test_warnings_point_at_programs_without_a_package():
    """Such as the first line of a thread."""
    names = {"__package__": None, "fit": TemperatureScaling().fit, "rows": (SEPARABLE, TWO)}
    with pytest.warns(ConvergenceWarning) as caught:
        exec(compile("fit(*rows)", "program.py", "exec"), names)
    assert [w.filename for w in caught] == ["program.py"]


def test_warnings_of_fits_can_be_pickled():
    with pytest.warns(ConvergenceWarning) as caught:
        sharp()
    warning = caught[0].message
    again = pickle.loads(pickle.dumps(warning))
    assert isinstance(again, ConvergenceWarning)
    assert (str(again), again.cause) == (str(warning), "separable")


def test_warnings_pass_through_decorators_and_cached_properties():
    code = """class Lazy:
        @functools.cached_property
        @unchanged()
        def value(self):
            return fit(*rows)
    """
    unchanged = contextlib.contextmanager(lambda: iter([None]))
    inside = {
        "__name__": "skcalib.lazy", "functools": functools, "unchanged": unchanged,
        "fit": TemperatureScaling().fit, "rows": (SEPARABLE, TWO),
    }  # fmt: skip
    exec(compile(code, "lazy.py", "exec"), inside)
    with pytest.warns(ConvergenceWarning) as caught:
        _ = inside["Lazy"]().value
    assert [w.filename for w in caught] == [__file__]

"""Families of calibrators and measures for the laws. Public names of skcalib join automatically.

A law is a test over one of these families. ``test_calibrators.py`` has the laws of fits and
messages, ``test_outputs.py`` the laws of outputs, ``test_hard_data.py`` the laws of data without an
optimum, ``test_any_input.py`` the laws of random input, and ``test_estimator_checks.py`` the checks
of scikit-learn.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction, signature
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer

import skcalib
import skcalib.clinical
import skcalib.conditional
import skcalib.decision
import skcalib.experimental
import skcalib.metrics
from skcalib._warnings import (  # noqa: F401 - tests take classes of warnings from here
    AbsentClassesWarning,
    ColumnOrderWarning,
    FewGroupsWarning,
    FewRowsWarning,
    MissingClassesWarning,
    NoMinimumWarning,
    NotConvergedWarning,
    ProbabilitiesWarning,
    ReversedOrderWarning,
    SmallWeightsWarning,
)
from skcalib.base import BaseCalibrator
from skcalib.scaling import (
    DirichletCalibration,
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
)

# --------------------------------------------------------------------------------------
# Fast or failing estimators in place of slow ones.


def refuse(*_, **__):
    raise AssertionError("something was fitted, or computed")


class Unfittable(ClassifierMixin, BaseEstimator):
    """Classifier that fails in fit: invalid input must raise before the fit."""

    fit = predict_proba = refuse


class Weighable(Unfittable):
    """Unfittable classifier that accepts weights."""

    def fit(self, X, y, sample_weight=None):
        refuse()


class Certain(BaseCalibrator):
    """Calibrator that gives one class nearly all of the probability, for any logits."""

    def __init__(self, k=0, *, classes=None):
        super().__init__(classes=classes)
        self.k = k

    def _fit(self, rows):
        return {}

    def _calibrate(self, Z):
        return 12.0 * (np.arange(Z.shape[1]) == self.k) + np.zeros_like(Z)


class EstimatorCalibration(skcalib.experimental.EstimatorCalibration):
    """EstimatorCalibration with a classifier in closed form, which is fast and deterministic."""

    @staticmethod
    def _default_estimator():
        return make_pipeline(Binarizer(threshold=-1.0), BernoulliNB())


class AutoCalibrator(skcalib.AutoCalibrator):
    """AutoCalibrator with a few fast candidates and two folds."""

    def __init__(
        self,
        calibrators=None,
        *,
        cv=2,
        combine="stack",
        n_jobs=None,
        random_state=None,
        classes=None,
    ):
        super().__init__(
            calibrators,
            cv=cv,
            combine=combine,
            n_jobs=n_jobs,
            random_state=random_state,
            classes=classes,
        )

    def _candidates(self, rows):
        if self.calibrators is not None:
            return skcalib.AutoCalibrator._candidates(self, rows)
        return {
            "temperature": skcalib.TemperatureScaling(smoothing="auto"),
            "vector": skcalib.VectorScaling(tol=1e-11),
            "histogram": skcalib.HistogramBinning(n_bins=5),
        }


class ConditionalCalibrator(skcalib.conditional.ConditionalCalibrator):
    """ConditionalCalibrator with a few fast candidates and two folds."""

    def __init__(
        self,
        calibrators=None,
        *,
        cv=2,
        combine="stack",
        categorical_features="from_dtype",
        n_jobs=None,
        random_state=None,
        classes=None,
    ):
        super().__init__(
            calibrators,
            cv=cv,
            combine=combine,
            categorical_features=categorical_features,
            n_jobs=n_jobs,
            random_state=random_state,
            classes=classes,
        )

    _candidates = AutoCalibrator._candidates


# Fast stand-ins for slow calibrators, by name.
STAND_INS = {
    kind.__name__: kind for kind in (AutoCalibrator, EstimatorCalibration, ConditionalCalibrator)
}


# --------------------------------------------------------------------------------------
# Functions that tests of several folders share.


def public_objects(*modules):
    """Objects in the ``__all__`` of the modules."""
    return [getattr(module, name) for module in modules for name in module.__all__]


def benchmark(name):
    """A module of the folder ``benchmarks``, with simulations that tests share."""
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def of_case(name):
    """Add the name of the failing case to errors inside a loop over cases."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case of {name!r}")
        raise


def quiet(form, *rows, **params):
    """A copy of the calibrator with these parameters, fitted without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(form).set_params(**params).fit(*rows)


def warnings_of(f, *args, **params):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(*args, **params)
    return caught


def fitted_state(calibrator):
    """Fitted attributes by name. Attributes of inner estimators replace these estimators."""
    state = {}
    for name, value in vars(calibrator).items():
        if name.endswith("_"):
            state |= _flat(name, value)
    return state


def _flat(name, value):
    if isinstance(value, Pipeline):
        return _flat(name, value[-1])
    if isinstance(value, HistGradientBoostingClassifier | ExtraTreesClassifier):
        return {name: repr(value)}
    if isinstance(value, BaseEstimator):
        value = fitted_state(value)
    elif isinstance(value, list) and any(isinstance(member, BaseEstimator) for member in value):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {name: value}
    parts = [_flat(f"{name}{key}", part) for key, part in value.items()]
    return {key: part for flat in parts for key, part in flat.items()}


def predicting(calibrator, Z, calibrated):
    """Logits that decide the prediction: uncalibrated ones if the calibrator keeps predictions."""
    return Z if calibrator._keeps_predictions else calibrated


def with_known(kind, **params):
    """The calibrator with the parameters that its constructor accepts."""
    return kind(**{name: params[name] for name in params if name in kind().get_params()})


def order_of(kind, names):
    """The order of ordered classes of text, for calibrators that need it."""
    return {"order": names} if kind is skcalib.OrdinalCalibration else {}


class _Rows(BaseCalibrator):
    """Calibrator that keeps the rows of its fit."""

    def _fit(self, rows):
        return {"rows_": rows}


def rows_of(Z, y, w=None):
    """The rows that a calibrator is fitted to."""
    return quiet(_Rows(), Z, y, w).rows_


def both_columns(Z):
    """Logits of two classes from log-odds. Several columns stay as they are."""
    return np.hstack([np.zeros_like(Z), Z]) if Z.shape[1] == 1 else Z


def log_prior(alpha):
    """Logarithm of the prior of a strength: log-normal, with a factor of 3 as deviation."""
    return -((np.log(alpha) / np.log(3)) ** 2) / 2


def mixed(P, c):
    """Probabilities mixed with the uniform distribution by ``smoothing_``."""
    return (1 - c.smoothing_) * P + c.smoothing_ / P.shape[1]


def mixed_log_probabilities(c, Z):
    """Smoothed log-probabilities of temperature scaling, the input of linear maps."""
    return np.log(mixed(softmax(Z / c.temperature_, axis=1), c))


# --------------------------------------------------------------------------------------
# Calibrators.

# Every public calibrator, with fast stand-ins for the slow ones.
CALIBRATORS = [
    STAND_INS.get(member.__name__, member)
    for member in public_objects(skcalib, skcalib.conditional, skcalib.experimental)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]

# Calibrators that keep the order of the classes.
ORDER_KEEPING = [kind for kind in CALIBRATORS if kind._keeps_order]

# Calibrators with random folds, which depend on the number and the order of rows.
WITH_FOLDS = AutoCalibrator, ConditionalCalibrator, skcalib.AutoCalibrator
WITHOUT_FOLDS = [kind for kind in CALIBRATORS if kind not in WITH_FOLDS]

# Calibrators outside the default comparison.
OTHERS = (
    skcalib.OrdinalCalibration,  # for ordered classes
    skcalib.Uncalibrated,  # always included
    EstimatorCalibration,
    ConditionalCalibrator,  # the default given features
    skcalib.experimental.NoisyLabelCalibration,  # of labels that are wrong
    skcalib.PriorShift,  # repairs nothing by itself
    skcalib.experimental.TopLabelCalibration,
)
COMPARED = [kind for kind in CALIBRATORS if kind not in OTHERS]

# Calibrators that minimize the log loss over linear maps.
LINEAR = VectorScaling, MatrixScaling, DirichletCalibration
JOINT = [kind for kind in CALIBRATORS if issubclass(kind, (TemperatureScaling, *LINEAR))]

# Parameters that make fits harder, such as no regularization.
HARDER = [
    {"alpha": 0},
    {"alpha": 0, "smoothing": 0},
    {"alpha": 0, "smoothing": 0, "fit_intercept": False},
    {"alpha": 0, "smoothing": 0, "normalize": False},
    {"smoothing": 0.01},
    {"pseudo_rows": 0},
    {"smooth_targets": False},
    {"alpha": 0, "increasing": True},
]

# Every calibrator with default parameters and with parameters that make the fit harder.
FORMS = [
    *(kind() for kind in CALIBRATORS),
    *(kind(alpha="loo") for kind in CALIBRATORS if kind in LINEAR),
    *(kind(**p) for kind in CALIBRATORS for p in HARDER if p.keys() <= kind().get_params().keys()),
]

# --------------------------------------------------------------------------------------
# Quick and slow members.


def _fit_path(kind):
    """Base classes and fit method, which calibrators on the same code path share."""
    bases = [base for base in kind.__mro__[1:] if issubclass(base, BaseCalibrator)]
    return kind.fit, tuple(base for base in bases if base.__name__ != kind.__name__)


# One calibrator of each fit path, for laws that take long.
REPRESENTATIVES = list({_fit_path(kind): kind for kind in CALIBRATORS}.values())
# Without features, ConditionalCalibrator is fitted as AutoCalibrator is.
REPRESENTATIVES.remove(ConditionalCalibrator)


def quick(members, *, real=True):
    """Parameters of a law, marked slow if another calibrator covers the same fit path.

    One calibrator of each fit path and its default form are quick. A law of the small
    AutoCalibrator is also tested, as a slow test, on the real AutoCalibrator, with ``real``: in
    laws of input, which both check by the same code, the small one suffices.
    """
    defaults = {f"{kind.__name__}()" for kind in REPRESENTATIVES}
    members = list(members)
    if real and AutoCalibrator in members:
        members.append(skcalib.AutoCalibrator)
    return [
        member
        if member in REPRESENTATIVES or repr(member) in defaults
        else pytest.param(member, marks=pytest.mark.slow)
        for member in members
    ]


# --------------------------------------------------------------------------------------
# Measures.

# Functions of labels and probabilities, except functions with a cost, features or a threshold.
# MEASURES take every kind; OF_DECISIONS take certain scores alone.
OF_LABELS = [
    member
    for member in public_objects(
        skcalib.metrics, skcalib.decision, skcalib.clinical, skcalib.conditional
    )
    if isfunction(member)
    and {"y_true", "y_proba"} <= signature(member).parameters.keys()
    and not {"cost", "features", "threshold"} & signature(member).parameters.keys()
]
MEASURES = [
    f for f in OF_LABELS if getattr(signature(f).parameters.get("kind"), "default", 0) == "auto"
]
OF_DECISIONS = [f for f in OF_LABELS if f not in MEASURES]
# Binned measures that are proportional to the gaps of bins.
GAPS = [
    skcalib.metrics.expected_calibration_error,
    skcalib.metrics.maximum_calibration_error,
    skcalib.metrics.root_mean_squared_calibration_error,
    skcalib.metrics.overconfidence_error,
    skcalib.metrics.underconfidence_error,
]

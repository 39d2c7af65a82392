"""The families whose laws are tested. What skcalib exports joins them by itself."""

from contextlib import contextmanager
from inspect import isfunction, signature

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
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
from skcalib._base import BaseCalibrator
from skcalib._optimize.linear import log_features
from skcalib._rows.arrays import both_columns
from skcalib._rows.rows import MemoryRows
from skcalib.scaling import TemperatureScaling
from skcalib.scaling._linear import _LinearScaling


def refuse(*_, **__):
    raise AssertionError("something was fitted, or computed")


def public_objects(*modules):
    """Objects in the ``__all__`` of the modules."""
    return [getattr(module, name) for module in modules for name in module.__all__]


class Unfittable(ClassifierMixin, BaseEstimator):
    """Fails if it is fitted: errors are to come before that."""

    fit = predict_proba = refuse


class Weighable(Unfittable):
    """One that takes weights."""

    def fit(self, X, y, sample_weight=None):
        refuse()


class EstimatorCalibration(skcalib.experimental.EstimatorCalibration):
    """With a classifier in closed form: fast, and exact where boosting is so by chance only."""

    @staticmethod
    def _default_estimator():
        return make_pipeline(Binarizer(threshold=-1.0), BernoulliNB())


class AutoCalibrator(skcalib.AutoCalibrator):
    """With few candidates, which are fast, and few folds."""

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
    """With the same candidates and folds."""

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


def fitted_state(calibrator):
    """Fitted attributes by name, with those of estimators inside in place of them."""
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


# Calibrators that stand for others, by name.
STAND_INS = {
    kind.__name__: kind for kind in (AutoCalibrator, EstimatorCalibration, ConditionalCalibrator)
}
CALIBRATORS = [
    STAND_INS.get(member.__name__, member)
    for member in public_objects(skcalib, skcalib.conditional, skcalib.experimental)
    if isinstance(member, type) and issubclass(member, BaseCalibrator)
]


def _fit_path(kind):
    """What the fit of a calibrator shares with others: its base classes, and its method fit."""
    bases = [base for base in kind.__mro__[1:] if issubclass(base, BaseCalibrator)]
    return kind.fit, tuple(base for base in bases if base.__name__ != kind.__name__)


# The last calibrator of each fit path, which stands for the others in laws that have a price.
REPRESENTATIVES = list({_fit_path(kind): kind for kind in CALIBRATORS}.values())
# Without features the fit of this one is that of AutoCalibrator.
REPRESENTATIVES.remove(ConditionalCalibrator)


@contextmanager
def of_case(name):
    """Names the case of a law that fails, where a test goes through many."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case of {name!r}")
        raise


def quick(members):
    """Parameters of a law, of which those that another one stands for are slow.

    One calibrator of each fit path is quick, and its default form. A law on the default with few
    candidates is also a law, a slow one, on the default as users have it.
    """
    defaults = {f"{kind.__name__}()" for kind in REPRESENTATIVES}
    members = list(members)
    if AutoCalibrator in members:
        members.append(skcalib.AutoCalibrator)
    return [
        member
        if member in REPRESENTATIVES or repr(member) in defaults
        else pytest.param(member, marks=pytest.mark.slow)
        for member in members
    ]


# Random folds depend on the number and the order of the rows.
WITH_FOLDS = AutoCalibrator, ConditionalCalibrator, skcalib.AutoCalibrator
WITHOUT_FOLDS = [kind for kind in CALIBRATORS if kind not in WITH_FOLDS]
# Those that a comparison has by default.
OTHERS = (
    EstimatorCalibration,
    ConditionalCalibrator,  # the default given features
    skcalib.experimental.NoisyLabelCalibration,  # of labels that are wrong
    skcalib.PriorShift,  # repairs nothing by itself
    skcalib.experimental.TopLabelCalibration,
)
COMPARED = [kind for kind in CALIBRATORS if kind not in OTHERS]
# Members of the joint family: their fit is the minimum of the log loss over linear maps.
JOINT = [kind for kind in CALIBRATORS if issubclass(kind, TemperatureScaling | _LinearScaling)]
# Regularization off, and what else makes a fit harder.
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
ORDER_KEEPING = [kind for kind in CALIBRATORS if kind._keeps_order]


def predicting(calibrator, Z, calibrated):
    """The logits whose largest of a row is predicted: calibrated ones, or those before."""
    return Z if calibrator._keeps_predictions else calibrated


def with_known(kind, **params):
    """The calibrator with those of the parameters that it has."""
    return kind(**{name: params[name] for name in params if name in kind().get_params()})


# Every calibrator, by default and where a fit is harder.
FORMS = [
    *(kind() for kind in CALIBRATORS),
    *(kind(alpha="loo") for kind in CALIBRATORS if issubclass(kind, _LinearScaling)),
    *(kind(**p) for kind in CALIBRATORS for p in HARDER if p.keys() <= kind().get_params().keys()),
]


def features_of(Z, y, w=None, scale=1.0):
    """Rows of scaled logits as features of a linear map."""
    return MemoryRows(both_columns(scale * Z), y, w)


def log_probabilities_of(Z, y, w, scale):
    """Rows of log-probabilities of scaled logits as features."""
    return MemoryRows(log_features(1.0, 0.0, scale * Z), y, w)


def mixed(P, c):
    """Probabilities with a share of the uniform distribution, as a calibrator mixes them."""
    return (1 - c.smoothing_) * P + c.smoothing_ / P.shape[1]


def mixed_log_probabilities(c, Z):
    """What maps of a calibrator are applied to: those of temperature scaling, mixed."""
    return np.log(mixed(softmax(Z / c.temperature_, axis=1), c))


# Everything that measures probabilities by labels, without costs or thresholds of decisions: of
# every kind, or of certain scores alone.
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
# Measures in proportion to the gaps of bins.
GAPS = [
    skcalib.metrics.expected_calibration_error,
    skcalib.metrics.maximum_calibration_error,
    skcalib.metrics.root_mean_squared_calibration_error,
    skcalib.metrics.overconfidence_error,
    skcalib.metrics.underconfidence_error,
]

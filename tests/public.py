"""All public functions, classes and methods, found by the names of their parameters.

A law over input takes its functions from here, so that a new public function joins the law::

    @pytest.mark.parametrize("call", calls("y_true", "groups"))
    def test_groups_need_a_label_in_each_row(call):
        with pytest.raises(ValueError, match="label"):
            call(groups=[np.nan] * N)

``calls("a", "b")`` lists the functions that have all of these parameters as a list of parameters
of pytest with ids such as ``"metrics.reliability_curve"`` or ``"PlattScaling.fit"``. Constructors
are listed by the name of the class. ``calls(..., skip={"metrics.f": "why"})`` leaves functions out,
and raises a ValueError for a name that does not belong to the law (so a list of exceptions is
never stale). ``python tests/public.py y_true groups`` prints the names that a law covers.

``call(**arguments)`` calls the function. The example fills all required parameters that are not
passed (``EXAMPLE``: 60 rows of two classes, 0 and 1), and sets the parameters in ``QUICK``. A
method is called on an object of its class, which is fitted to the example unless the method is in
``UNFITTED``; calls that do not change the object share it. ``call.on(object)`` is the call on
another object.
``call.parameters`` has the names of all parameters.

``test_public.py`` calls every public function with the example. It fails for a function with a
required parameter that has no example: add the parameter to ``EXAMPLE``.

Classifiers enter as :class:`Known`, whose probabilities are its features. ``doors()`` lists
everything that compares labels with probabilities: measures, displays from predictions and from an
estimator, scorers, reports and monitors. Each is called as ``door(y_true=..., y_proba=...)``.
"""

import importlib
import inspect
import pkgutil
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from families import CALIBRATORS, STAND_INS
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import skcalib
from skcalib.base import BaseCalibrator
from skcalib.datasets import make_logits

try:
    import polars as pl
except ImportError:  # an optional library
    pl = None

N = 60
LOGITS, LABELS, PROBABILITIES = make_logits(
    N, 2, temperature=1.5, return_proba=True, random_state=0
)


class Known(ClassifierMixin, BaseEstimator):
    """Classifier whose probabilities are its features; ``classes`` is the order of columns."""

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        P = np.asarray(X)
        return self.classes_[P.argmax(axis=1) if P.ndim == 2 else (P > 0.5).astype(int)]


# --------------------------------------------------------------------------------------
# The example.


def _n_rows(given):
    """Number of rows of the arguments that a law passes."""
    for name in ("y_true", "y", "y_proba", "X"):
        if name in given and hasattr(given[name], "__len__"):
            return len(given[name])
    return N


def _features(given):
    return np.random.default_rng(0).normal(size=(_n_rows(given), 2))


def _fitted(given):
    return skcalib.TemperatureScaling().fit(LOGITS, LABELS)


# Value of a required parameter, from the arguments that a law passes.
EXAMPLE = {
    "y_true": lambda given: LABELS,
    "y_proba": lambda given: PROBABILITIES,
    "other_proba": lambda given: given.get("y_proba", PROBABILITIES),
    "X": lambda given: LOGITS,
    "Z": lambda given: LOGITS,
    "y": lambda given: LABELS,
    "estimator": lambda given: LogisticRegression().fit(LOGITS, LABELS),
    "calibrator": _fitted,
    "features": _features,
    "cost": lambda given: 1 - np.eye(2),
    "threshold": lambda given: 0.3,
    "thresholds": lambda given: [0.1, 0.3],
    "risk": lambda given: 0.3,
    "calibrators": lambda given: [_fitted(given)],
    "scale": lambda given: (0, 1),
    "time": lambda given: np.arange(1, N + 1),
    "event": lambda given: LABELS,
    "horizon": lambda given: 30,
    "before": lambda given: [0.5, 0.5],
    "after": lambda given: [0.8, 0.2],
    "labels": lambda given: [0, 1],
    "measure": lambda given: "expected_calibration_error",
    "name": lambda given: "expected_calibration_error",
    "score_labelled": lambda given: PROBABILITIES[:, 1],
    "score_all": lambda given: np.tile(PROBABILITIES[:, 1], 2),
    "other_y": lambda given: 1 - LABELS,
    "other_score_labelled": lambda given: PROBABILITIES[:, 0],
    "other_score_all": lambda given: np.tile(PROBABILITIES[:, 0], 2),
    "text": lambda given: skcalib.export.to_json(_fitted(given)),
}

# Parameters that make calls quick, where a law does not pass them.
QUICK = {"n_resamples": 20, "random_state": 0, "figure": None}

_COLUMN = {"X": PROBABILITIES[:, 1:]}
_INDICATOR = {"y": np.stack([LABELS, 1 - LABELS], axis=1)}

# Calibrators whose map of one column can be inverted.
REVERSIBLE = [kind.__name__ for kind in CALIBRATORS if hasattr(kind, "inverse_transform")]

# Arguments of single functions, in place of the example.
ARGUMENTS = {
    **{f"{kind}.inverse_transform": {"X": LOGITS[:, :1]} for kind in REVERSIBLE},
    "CalibratorComparison.best": {"measure": "Brier"},
    "CalibratorComparison.mean": {"measure": "Brier"},
    "CalibratorComparison.standard_error": {"measure": "Brier"},
    "MultiLabelCalibrator.fit": _INDICATOR,
    "MultiLabelCalibrator.fit_transform": _INDICATOR,
    "MultiLabelCalibrator.score": _INDICATOR,
    "ScoreTransformer.fit": _COLUMN,
    "ScoreTransformer.fit_transform": _COLUMN,
    "ScoreTransformer.transform": _COLUMN,
    "metrics.calibration_scorer": {"measure": "neg_expected_calibration_error"},
}

# Methods that are called on a new object; all others are called on a fitted object.
UNFITTED = {"fit", "fit_transform", "partial_fit", "update", "reset"}


def _online():
    members = skcalib.Uncalibrated(), skcalib.TemperatureScaling()
    return skcalib.monitor.OnlineCalibrator([member.fit(LOGITS, LABELS) for member in members])


# Objects whose classes need arguments, or stand-ins of slow ones.
OBJECTS = {
    "BaseCalibrator": skcalib.Uncalibrated,  # the abstract class has no objects
    "CalibratedClassifier": lambda: skcalib.CalibratedClassifier(LogisticRegression(), cv=2),
    "CalibrationMonitor": lambda: skcalib.monitor.CalibrationMonitor([0, 1]),
    "CalibratorComparison": lambda: skcalib.compare_calibrators(
        LOGITS, LABELS, calibrators={"temperature": skcalib.TemperatureScaling()}, cv=2
    ),
    "FusionCalibrator": lambda: skcalib.fusion.FusionCalibrator(1),
    "LogitTransformer": lambda: skcalib.LogitTransformer(LogisticRegression(), cv=2),
    "MulticalibrationResult": lambda: skcalib.conditional.multicalibration_error(
        LABELS, PROBABILITIES, features=_features({}), n_resamples=20, random_state=0
    ),
    "OnlineCalibrator": _online,
    "ReliabilityCurve": lambda: skcalib.metrics.reliability_curve(LABELS, PROBABILITIES),
    "ScoreTransformer": lambda: skcalib.judge.ScoreTransformer((0, 1), step=0.01),
    **STAND_INS,
}


# --------------------------------------------------------------------------------------
# Results.


def numbers(result):
    """All numbers in a result, without labels and pictures: of nested results, one after another.

    A fitted calibrator counts by its probabilities of the example.
    """
    if hasattr(type(result), "measures_"):  # a report: figures without slow intervals
        return numbers([result.by_class_, result.test_])
    if is_dataclass(result):
        names = [field.name for field in fields(result) if field.name != "label"]
        return numbers([getattr(result, name) for name in names])
    if hasattr(result, "ax_"):
        return numbers([v for name, v in sorted(vars(result).items()) if not name.endswith("_")])
    if hasattr(result, "predict_proba"):
        return numbers(result.predict_proba(LOGITS))
    if hasattr(result, "_asdict"):  # named tuples
        result = result._asdict()
    if isinstance(result, dict):
        result = [value for name, value in result.items() if name != "label"]
    if isinstance(result, list | tuple):
        return [number for part in result for number in numbers(part)]
    values = np.asarray(result)
    return values.ravel().tolist() if values.dtype.kind in "iuf" else []


# --------------------------------------------------------------------------------------
# The registry.


@dataclass(frozen=True)
class Call:
    """A public function, class or method, called with the example."""

    name: str
    function: Any  # None for a method, which is called on an object
    parameters: frozenset
    required: frozenset
    target: Any = None  # the object of a method; None: a new one
    bound: Any = ()  # arguments of all calls, as pairs

    def __repr__(self):
        return self.name

    def __call__(self, **given):
        arguments = {name: QUICK[name] for name in QUICK if name in self.parameters}
        arguments |= ARGUMENTS.get(self.name, {}) | dict(self.bound) | given
        for name in self.required - arguments.keys():
            if name not in EXAMPLE:
                raise LookupError(f"no example of {name!r} for {self.name}: add it to EXAMPLE")
            arguments[name] = EXAMPLE[name](arguments)
        return self._callable()(**arguments)

    def _callable(self):
        if self.function is not None:
            return self.function
        kind, method = self.name.split(".")
        return getattr(_target(kind, method) if self.target is None else self.target, method)

    def on(self, target):
        """Return the call of the method on another object."""
        return replace(self, target=target)

    def having(self, **arguments):
        """Return the call with arguments that a law cannot know, such as ``kind="binary"``."""
        return replace(self, bound=(*self.bound, *arguments.items()))


def new_object(kind, method="fit"):
    """Return an object of a public class, fitted to the example unless ``method`` fits it."""
    obj = OBJECTS[kind]() if kind in OBJECTS else REGISTRY[_maker(kind)]()
    if method in UNFITTED:
        return obj
    if method == "inverse_transform":  # of increasing maps of one column
        params = {"increasing": True} if "increasing" in obj.get_params() else {}
        obj.set_params(**params).fit(LOGITS[:, 1:] - LOGITS[:, :1], LABELS)
    elif hasattr(obj, "fit"):
        REGISTRY[f"{kind}.fit"].on(obj)()
    elif hasattr(obj, "update"):
        REGISTRY[f"{kind}.update"].on(obj)()
    return obj


def _target(kind, method):
    """Return a new object, or a fitted one that laws share, because no output changes it."""
    is_shared = method not in {"adapt", "plot", *UNFITTED} and f"{kind}.fit" in REGISTRY
    if not is_shared:
        return new_object(kind, method)
    key = kind, method == "inverse_transform"
    if key not in SHARED:
        SHARED[key] = new_object(kind, method)
    return SHARED[key]


def _maker(kind):
    """Name of the function that makes an object: displays are made from predictions."""
    return f"{kind}.from_predictions" if f"{kind}.from_predictions" in REGISTRY else kind


def _modules():
    names = [m.name for m in pkgutil.iter_modules(skcalib.__path__) if not m.name.startswith("_")]
    return [skcalib, *(importlib.import_module(f"skcalib.{name}") for name in sorted(names))]


def _parameters(function, *, method=False):
    """Names of all parameters, and of the required ones; all labels count as required."""
    parameters = list(inspect.signature(function).parameters.values())[method:]
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return (
        frozenset(p.name for p in named),
        frozenset(p.name for p in named if p.default is p.empty or p.name == "y"),
    )


def _methods(kind):
    """Public methods of a class with their names, without parameters and requests of metadata."""
    plumbing = ("get_params", "set_params", "get_metadata_routing", "set_output")
    for name in sorted(dir(kind)):
        skipped = name.startswith("_") or name in plumbing or name.endswith("_request")
        if not skipped and callable(getattr(kind, name, None)):
            yield name, isinstance(inspect.getattr_static(kind, name), classmethod)


def _registry():
    """All public functions, classes and methods, by the name of the call."""
    found, seen = {}, set()
    for member in (getattr(module, name) for module in _modules() for name in module.__all__):
        is_call = inspect.isfunction(member) or inspect.isclass(member)
        if member in seen or not is_call or member is BaseCalibrator:  # without a fit
            continue
        seen.add(member)
        name = member.__name__
        if inspect.isfunction(member):
            name = f"{member.__module__.split('.')[1]}.{name}"
        found[name] = Call(name, member, *_parameters(member))
        for method, of_class in _methods(member) if inspect.isclass(member) else ():
            function, path = getattr(member, method), f"{name}.{method}"
            parameters = _parameters(function, method=not of_class)
            if method == "from_estimator" and "params" in inspect.signature(function).parameters:
                passed_on, _ = _parameters(member.from_predictions)
                names = parameters[0] | passed_on - {"y_true", "y_proba", "labels"}
                parameters = names, parameters[1]
            found[path] = Call(path, function if of_class else None, *parameters)
    return found


REGISTRY = _registry()
SHARED = {}  #: fitted objects by name of the class, and whether the map is increasing


def calls(*names, skip=()):
    """Return all public functions that have these parameters, as parameters of a law.

    ``skip`` maps names of functions that the law does not cover to the reason.
    """
    return _as_params(
        {path: call for path, call in REGISTRY.items() if set(names) <= call.parameters}, skip
    )


def doors(*names, skip=()):
    """Return everything that compares labels with probabilities, as parameters of a law.

    All are called with ``y_true`` and ``y_proba``: measures, displays from predictions, monitors,
    and functions of an estimator, whose probabilities are ``y_proba``. ``names`` are further
    parameters that they must have, as for :func:`calls`.
    """
    found = {
        path: _Door(call) if "estimator" in call.parameters else call
        for path, call in REGISTRY.items()
        if set(names) <= call.parameters
        and ({"y_true", "y_proba"} <= call.parameters or {"estimator", "X", "y"} <= call.parameters)
    }
    return _as_params(found, skip)


@dataclass(frozen=True)
class _Door:
    """A function of an estimator, called with labels and probabilities."""

    call: Call

    name = property(lambda self: self.call.name)
    parameters = property(lambda self: self.call.parameters)

    def __call__(self, *, y_true=LABELS, y_proba=PROBABILITIES, labels=None, **given):
        estimator = Known(labels).fit(y_proba, y_true)
        return self.call(estimator=estimator, X=y_proba, y=y_true, **given)


def _as_params(found, skip):
    if stale := set(skip) - found.keys():
        raise ValueError(f"no public functions {sorted(stale)} with the parameters of this law")
    return [pytest.param(call, id=path) for path, call in found.items() if path not in skip]


if __name__ == "__main__":
    sys.stdout.writelines(f"{param.id}\n" for param in calls(*sys.argv[1:]))

"""Checks of calibrators and classifiers that users pass, and arguments for their fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skcalib._typing import Array, Floats
from skcalib._warnings import warn

from .arrays import on_host
from .labels import SEVERAL_LABELS, shown
from .logits import refuse_masked

# Calibrators that replace the methods of scikit-learn's CalibratedClassifierCV.
METHODS = {
    "sigmoid": "PlattScaling()",
    "isotonic": "IsotonicCalibration()",
    "temperature": "TemperatureScaling()",
}


def check_fitted(estimator: Any) -> None:
    """Raise a NotFittedError unless the estimator is fitted."""
    if "classes_" not in vars(estimator):
        check_is_fitted(estimator)


def check_classifier(estimator: Any, name: str) -> None:
    """Raise a ValueError unless ``estimator`` is a classifier, fitted if it is frozen."""
    is_instance = hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)
    if not (is_instance and is_classifier(estimator)):
        raise ValueError(
            f"estimator must be a classifier, such as LogisticRegression(), got {estimator!r}. "
            f"{name} calibrates probabilities of classes."
        )
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    if isinstance(inner, OneToOneFeatureMixin):  # calibrators are, classifiers of features are not
        raise ValueError(
            f"estimator must be a classifier of features, got the calibrator {inner!r}, which "
            "takes logits. Pass it as the calibrator of a CalibratedClassifier, or put it after a "
            "LogitTransformer in a pipeline."
        )
    if isinstance(estimator, FrozenEstimator) and not estimator.__sklearn_is_fitted__():
        raise ValueError(
            f"A frozen classifier must be fitted, got {estimator!r}. Fit it first, or pass "
            f"{type(estimator.estimator).__name__} without FrozenEstimator and with cv=5."
        )


def may_have(estimator: Any, method: str) -> bool:
    """Return whether a classifier has a method, or may have it after ``fit``.

    A ``StackingClassifier``, or a pipeline that ends in one, has no output methods before ``fit``.
    """
    outputs = ("decision_function", "predict_logits", "predict_proba")
    fitted_first = not any(hasattr(estimator, name) for name in outputs)
    return hasattr(estimator, method) or (fitted_first and hasattr(type(estimator), method))


def check_calibrator(calibrator: Any, w: Floats | None) -> None:
    """Raise a ValueError unless the calibrator can be fitted to logits, with weights if given."""
    needs = ("fit", "predict_proba", "get_params")
    if isinstance(calibrator, type) or not all(may_have(calibrator, name) for name in needs):
        raise ValueError(
            "calibrator must be an estimator with fit and predict_proba that takes logits, such "
            f"as TemperatureScaling(), got {calibrator!r}." + _as_object(calibrator)
        )
    weight_params(calibrator, w)


def _as_object(calibrator: Any) -> str:
    """Return advice if a class, a class name, or a scikit-learn method name was passed."""
    name = calibrator.__name__ if isinstance(calibrator, type) else calibrator
    is_name = isinstance(name, str) and name.isidentifier()
    if not is_name or (name not in METHODS and name.islower()):
        return ""
    if name not in METHODS and not name[0].isupper():
        return " A name is no calibrator. Pass an object, such as AutoCalibrator()."
    return f" Write {METHODS.get(name, f'{name}()')}, an object."


def check_takes_logits(calibrator: Any) -> None:
    """Raise a ValueError if a calibrator was fitted to features instead of logits."""
    check_calibrator(calibrator, None)
    if takes_several_labels(calibrator):
        raise ValueError(
            f"calibrator must be one of one label per row, got {type(calibrator).__name__}. "
            f"Pass its calibrators_[j]. {SEVERAL_LABELS}"
        )
    if not hasattr(calibrator, "classes_"):
        return  # not fitted: its own methods raise NotFittedError
    n_classes = len(on_host(calibrator.classes_))
    n_columns = getattr(calibrator, "n_features_in_", n_classes)
    # With as many features as classes, calibrators_ reveals a classifier of features.
    takes_logits = maps_logits(calibrator) or not hasattr(calibrator, "calibrators_")
    if not takes_logits or n_columns not in ({1, 2} if n_classes == 2 else {n_classes}):
        raise ValueError(
            f"calibrator must be fitted to logits, one column for each of its {n_classes} classes, "
            f"got {type(calibrator).__name__}, which was fitted to {n_columns} features. Pass a "
            "calibrator_ of CalibratedClassifier, and logits as of LogitTransformer."
        )


def maps_logits(estimator: Any) -> bool:
    """Return whether an estimator is a ``BaseCalibrator``, a class that is defined above."""
    return hasattr(estimator, "_calibrate")


def takes_several_labels(calibrator: Any) -> bool:
    """Return whether a calibrator, or a pipeline's last step, accepts several labels per row."""
    last = calibrator[-1] if isinstance(calibrator, Pipeline) else calibrator
    return hasattr(last, "__sklearn_tags__") and not get_tags(last).target_tags.single_output


def check_order(calibrator: Any, classes: Array) -> None:
    """Raise a ValueError if a calibrator's ``classes`` differ in order from the logits."""
    for name, value in params_named("classes", calibrator).items():
        if value is None:
            continue
        named = np.asarray(value)
        if named.tolist() != classes.tolist():
            raise ValueError(
                f"{name} of calibrator must be in the order of the logits it is given here, "
                f"[{shown(classes)}], got [{shown(named)}]. Leave it out: it is set automatically."
            )


def params_named(last: str, estimator: Any) -> dict[str, Any]:
    """Return parameters named ``last`` in an estimator and its steps, by full name.

    Estimators inside a calibrator are left out: the calibrator sets their parameters.
    """
    params = estimator.get_params()
    calibrators = [f"{name}__" for name, value in params.items() if maps_logits(value)]
    if maps_logits(estimator):
        calibrators.append("")

    def is_inside_calibrator(name: str) -> bool:
        return any("__" in name.removeprefix(c) for c in calibrators if name.startswith(c))

    return {
        name: value
        for name, value in params.items()
        if name.split("__")[-1] == last and not is_inside_calibrator(name)
    }


def weight_params(estimator: Any, w: Floats | None, name: str = "calibrator") -> dict[str, Floats]:
    """Return the arguments that pass weights (n,) to an estimator, or to pipeline steps.

    Messages call the estimator ``name``.
    """
    if w is None:
        return {}
    params = fit_params(estimator, "sample_weight", w)
    if not params:
        raise ValueError(
            f"{name} takes no sample_weight, got weights and {estimator!r}. Choose one that does, "
            "or leave the weights out."
        )
    return params


def fit_params(estimator: Any, name: str, value: Any) -> dict[str, Any]:
    """Return a ``fit`` argument by name, or by step name for the pipeline steps that accept it."""
    if has_fit_parameter(estimator, name):
        return {name: value}
    steps: Sequence[tuple[str, Any]] = estimator.steps if isinstance(estimator, Pipeline) else []
    return {f"{key}__{name}": value for key, step in steps if has_fit_parameter(step, name)}


def features_argument(calibrator: Any, features: Any) -> dict[str, Any]:
    """Return the argument ``features`` if the calibrator's ``predict_proba`` accepts it."""
    takes_features = "features" in signature(calibrator.predict_proba).parameters
    return {"features": features} if takes_features and features is not None else {}


def by_name(calibrators: Mapping[str, Any] | Sequence[Any], uncalibrated: Any) -> dict[str, Any]:
    """Name calibrators by class, or by repr if several have one class. Mappings keep names.

    ``uncalibrated`` replaces the text "passthrough", as in pipelines.
    """

    def unless_passthrough(member: Any) -> Any:
        return uncalibrated if isinstance(member, str) and member == "passthrough" else member

    # Refuse a pipeline, which is a sequence of steps, and a string, a sequence of letters.
    if hasattr(calibrators, "fit") or isinstance(calibrators, str) or not np.iterable(calibrators):
        raise ValueError(
            f"calibrators must be a list or a dict of calibrators, got {calibrators!r}. Pass it in "
            "a list."
        )
    if isinstance(calibrators, Mapping):
        named = {name: unless_passthrough(member) for name, member in calibrators.items()}
        for name in named:
            if not isinstance(name, str):
                raise ValueError(f"Names of calibrators must be strings, got {name!r}.")
    else:
        members = list(map(unless_passthrough, calibrators))
        kinds = Counter(type(member).__name__ for member in members)
        names = [
            repr(member) if kinds[type(member).__name__] > 1 else type(member).__name__
            for member in members
        ]
        named = dict(zip(names, members, strict=True))
        if len(named) < len(members):
            raise ValueError(f"calibrators must differ, or be a dict with names, got {names}.")
    if not named:
        raise ValueError(f"calibrators must name at least one, got {calibrators!r}.")
    return named


def taking_masked(calibrators: dict[str, Any]) -> dict[str, Any]:
    """Return the calibrators that accept masked classes, and warn of the others."""
    taking = {name: c for name, c in calibrators.items() if getattr(c, "_takes_masked", True)}
    if not taking:
        refuse_masked(next(iter(calibrators.values())))
    if len(taking) < len(calibrators):
        warn(
            "Calibrators that take no masked classes, logits of -inf, are left out: "
            f"{', '.join(name for name in calibrators if name not in taking)}."
        )
    return taking

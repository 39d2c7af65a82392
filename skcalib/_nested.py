"""Calibrators and classifiers inside other estimators, fitted to logits with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import OneToOneFeatureMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from skcalib import base
from skcalib._rows import Array, Floats, Rows, both_columns, namespace, on_host
from skcalib._validation.labels import SEVERAL_LABELS, encode, shown
from skcalib._warnings import Messages, give
from skcalib.base import BaseCalibrator

# Calibrators for the methods of scikit-learn's CalibratedClassifierCV.
METHODS = {
    "sigmoid": "PlattScaling()",
    "isotonic": "IsotonicCalibration()",
    "temperature": "TemperatureScaling()",
}


class UntilFit:
    """Attribute of a calibrator that needs no fit, computed until ``fit`` sets it.

    ``compute`` raises an AttributeError if the calibrator needs a fit.
    """

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, calibrator: Any, owner: type) -> Any:
        if calibrator is None:
            raise AttributeError(f"{owner.__name__} has {self.name} after fit only.")
        return self.compute(calibrator)


def check_classifier(estimator: Any, name: str) -> None:
    """Raise a ValueError unless ``estimator`` is a classifier, fitted if it is frozen."""
    is_instance = hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)
    if not (is_instance and is_classifier(estimator)):
        raise ValueError(
            f"estimator must be a classifier, such as LogisticRegression(), got {estimator!r}. "
            f"{name} calibrates probabilities of classes."
        )
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    if isinstance(inner, OneToOneFeatureMixin):  # as calibrators are, and no classifier of features
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
    """Whether a classifier has a method, or may have it once it is fitted.

    A ``StackingClassifier``, or a pipeline that ends in one, has no output methods before ``fit``.
    """
    known = ("decision_function", "predict_logits", "predict_proba")
    fitted_first = not any(hasattr(estimator, name) for name in known)
    return hasattr(estimator, method) or (fitted_first and hasattr(type(estimator), method))


def check_calibrator(calibrator: Any, w: Floats | None) -> None:
    """Raise a ValueError unless ``calibrator`` is one, and takes weights if there are any."""
    needs = ("fit", "predict_proba", "get_params")
    if isinstance(calibrator, type) or not all(may_have(calibrator, name) for name in needs):
        raise ValueError(
            "calibrator must be an estimator with fit and predict_proba that takes logits, such "
            f"as TemperatureScaling(), got {calibrator!r}."
            + (f" Write {METHODS[calibrator]}." if str(calibrator) in METHODS else "")
        )
    weight_params(calibrator, w)


def check_takes_logits(calibrator: Any) -> None:
    """Raise a ValueError unless ``calibrator`` is one that is fitted to logits, or not fitted."""
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
    # There may be as many features as classes; a classifier that has calibrators takes features.
    takes_logits = isinstance(calibrator, BaseCalibrator) or not hasattr(calibrator, "calibrators_")
    if not takes_logits or n_columns not in ({1, 2} if n_classes == 2 else {n_classes}):
        raise ValueError(
            f"calibrator must be fitted to logits, one column for each of its {n_classes} classes, "
            f"got {type(calibrator).__name__}, which was fitted to {n_columns} features. Pass a "
            "calibrator_ of CalibratedClassifier, and logits as of LogitTransformer."
        )


def takes_several_labels(calibrator: Any) -> bool:
    """Whether a calibrator, or the last step of a pipeline, takes several labels per row."""
    last = calibrator[-1] if isinstance(calibrator, Pipeline) else calibrator
    return hasattr(last, "__sklearn_tags__") and not get_tags(last).target_tags.single_output


def weight_params(estimator: Any, w: Floats | None, name: str = "calibrator") -> dict[str, Floats]:
    """Arguments that hand weights, if any, to an estimator, or to the steps of a pipeline.

    ``name`` is the name of the estimator in messages.
    """
    if w is None:
        return {}
    params = _fit_params(estimator, "sample_weight", w)
    if not params:
        raise ValueError(
            f"{name} takes no sample_weight, got weights and {estimator!r}. Choose one that does, "
            "or leave the weights out."
        )
    return params


def group_params(estimator: Any, groups: Any) -> dict[str, Any]:
    """Return arguments that pass groups to an estimator, or to the steps of a pipeline.

    Folds cannot divide a single group, so it is not passed.
    """
    if groups is None or len(np.unique(groups)) < 2:
        return {}
    return _fit_params(estimator, "groups", groups)


def _fit_params(estimator: Any, name: str, value: Any) -> dict[str, Any]:
    """Return an argument of ``fit`` by name, or for the steps of a pipeline that take it."""
    if has_fit_parameter(estimator, name):
        return {name: value}
    steps: Sequence[tuple[str, Any]] = estimator.steps if isinstance(estimator, Pipeline) else []
    return {f"{key}__{name}": value for key, step in steps if has_fit_parameter(step, name)}


def makes_folds(calibrator: Any) -> bool:
    """Return whether ``fit`` divides rows among folds, also in a step of a pipeline."""
    if isinstance(calibrator, Pipeline):
        return any(makes_folds(step) for _, step in calibrator.steps)
    return not _inherits(calibrator, "fit") and has_fit_parameter(calibrator, "groups")


def check_order(calibrator: Any, classes: Array) -> None:
    """Raise a ValueError for a calibrator with ``classes`` in another order than the logits."""
    for name, value in _classes_params(calibrator).items():
        if value is None:
            continue
        named = np.asarray(value)
        if named.tolist() != classes.tolist():
            raise ValueError(
                f"{name} of calibrator must be in the order of the logits it is given here, "
                f"[{shown(classes)}], got [{shown(named)}]. Leave it out: it is set automatically."
            )


def _classes_params(estimator: Any) -> dict[str, Any]:
    """Parameters ``classes`` of an estimator and of its steps, by name.

    Parameters of estimators inside a calibrator are left out: the calibrator sets them itself.
    """
    params = estimator.get_params()
    calibrators = [
        f"{name}__" for name, value in params.items() if isinstance(value, BaseCalibrator)
    ]
    if isinstance(estimator, BaseCalibrator):
        calibrators.append("")

    def is_inside_calibrator(name: str) -> bool:
        return any("__" in name.removeprefix(c) for c in calibrators if name.startswith(c))

    return {
        name: value
        for name, value in params.items()
        if name.split("__")[-1] == "classes" and not is_inside_calibrator(name)
    }


def fit_calibrator(
    calibrator: Any,
    Z: Floats,
    y: Array,
    w: Floats | None,
    classes: Array | None,
    *,
    groups: Any = None,
    **arguments: Any,
) -> Any:
    """A copy of the calibrator, fitted to logits with a column for each of the classes.

    ``classes`` is None for calibrators of several labels per row.
    """
    fitted = clone(calibrator)
    names = [name for name, value in _classes_params(fitted).items() if value is None]
    fitted.set_params(**dict.fromkeys(names, classes))
    arguments |= weight_params(fitted, w) | group_params(fitted, groups)
    if not isinstance(fitted, Pipeline):
        return fitted.fit(Z, y, **arguments)
    with config_context(enable_metadata_routing=False):  # which refuses arguments of steps
        return fitted.fit(Z, y, **arguments)


def features_argument(calibrator: Any, features: Any) -> dict[str, Any]:
    """Argument with the features, for calibrators whose ``predict_proba`` takes features."""
    takes_features = "features" in signature(calibrator.predict_proba).parameters
    return {"features": features} if takes_features and features is not None else {}


def fit_to_rows(calibrator: Any, rows: Rows) -> Any:
    """A copy of the calibrator, fitted to checked rows of logits and class indices.

    Calibrators that inherit ``fit`` from BaseCalibrator pass over the rows. Other calibrators are
    fitted to the rows in memory, or to a sample of many rows of Dask.
    """
    if _inherits(calibrator, "fit"):
        return with_fitted(calibrator, calibrator._fit(rows), rows)  # noqa: SLF001
    held = rows.in_memory()
    return fit_calibrator(
        calibrator, held.X, rows.classes[held.y], held.w, rows.classes, groups=held.groups
    )


def _inherits(calibrator: Any, method: str) -> bool:
    """Whether a calibrator inherits a method of BaseCalibrator, and does not replace it."""
    if not isinstance(calibrator, BaseCalibrator):
        return False
    return getattr(type(calibrator), method) is getattr(BaseCalibrator, method)


def with_fitted(
    calibrator: BaseCalibrator, attributes: dict[str, Any], rows: Rows
) -> BaseCalibrator:
    """A copy of the calibrator with attributes that were fitted to rows."""
    fitted = clone(calibrator)
    for name, value in attributes.items():
        setattr(fitted, name, value)
    fitted.classes_, fitted.n_features_in_ = rows.classes, rows.n_columns
    return fitted


def log_probabilities(calibrator: Any, Z: Floats, classes: Array) -> Floats:
    """Logarithms (m, K) of the probabilities of a fitted calibrator, for checked logits.

    The logarithms are -inf for masked classes, and finite for other classes.
    """
    if not isinstance(Z, np.ndarray):  # a graph that is built, or a tensor in a module
        return output_of(calibrator, base.log_probabilities, Z)
    if _inherits(calibrator, "predict_proba"):
        calibrator._check_takes_masked(masked=bool(np.isneginf(Z.min())))  # noqa: SLF001
        return base.log_probabilities(calibrator, Z)
    P = np.asarray(calibrator.predict_proba(Z), dtype=Z.dtype)
    known = np.asarray(on_host(getattr(calibrator, "classes_", classes)))
    if P.shape != (len(Z), len(known)) or not np.isfinite(P).all():
        raise ValueError(
            f"predict_proba must give finite probabilities of {len(known)} classes, got an array "
            f"of shape {P.shape} for {len(Z)} rows with {np.count_nonzero(~np.isfinite(P))} values "
            f"that are not finite from {calibrator!r}. Choose another calibrator."
        )
    P = np.maximum(with_unknown_classes(P, known, classes), np.finfo(Z.dtype).tiny)
    return np.where(np.isneginf(both_columns(Z)), -np.inf, np.log(P))


def blockwise(calibrator: Any) -> list[BaseCalibrator]:
    """The calibrator, or the calibrators of a pipeline; a TypeError for other estimators.

    Only calibrators of skcalib, and subclasses that do not replace public methods, compute all
    outputs by functions of blocks.
    """
    if isinstance(calibrator, Pipeline):
        steps = [step for _, step in calibrator.steps if step not in (None, "passthrough")]
        return [member for step in steps for member in blockwise(step)]
    outputs, kind = ("transform", "predict_proba", "predict_log_proba", "predict"), type(calibrator)
    is_own = kind.__module__.startswith("skcalib.") or all(
        getattr(kind, name, None) is getattr(BaseCalibrator, name) for name in outputs
    )
    if not (is_own and isinstance(calibrator, BaseCalibrator)):
        raise TypeError(
            "Only calibrators of skcalib can be exported, and classes derived from BaseCalibrator "
            f"that inherit its public methods, got {kind.__name__}. Pass one of these."
        )
    if getattr(calibrator, "feature_names_", []):
        raise ValueError(
            "Models that are exported take logits only, got a calibrator that was fitted with "
            "features. Save it by to_json or skops, or fit AutoCalibrator, which takes none."
        )
    return [calibrator]


def output_of(calibrator: Any, output: base.Output, Z: Any) -> Any:
    """Return the output of a calibrator, or a pipeline of calibrators, for a block of logits.

    ``output`` is a function of :mod:`skcalib.base`, such as ``probabilities``. Outputs are NaN
    where a calibrator would raise an error for masked classes.
    """
    xp, members = namespace(Z), blockwise(calibrator)
    for i, member in enumerate(members):
        if not member._takes_masked:  # noqa: SLF001
            Z = xp.where(-np.inf == Z, np.nan, Z)
        f = output if i == len(members) - 1 else base.calibrated_logits
        Z = f(member, Z)
    return Z


def with_unknown_classes(P: Floats, known: Array, classes: Array) -> Floats:
    """Probabilities with one column for each of the ``classes``: 0 for those not ``known``."""
    if np.array_equal(known, classes):
        return P
    if not isinstance(P, np.ndarray):
        return P @ (np.asarray(known)[:, None] == classes).astype(np.float64)
    out = np.zeros((len(P), len(classes)), P.dtype)
    out[:, encode(known, classes)] = P
    return out


def warn_of_groups(
    kind: str, names: Array | range, messages_by_group: Mapping[Any, Messages]
) -> None:
    """Give each recorded warning once, with the names of the groups that caused it."""
    named = (
        (names[k] if isinstance(k, int) else k, messages)
        for k, messages in messages_by_group.items()
    )
    give(named, lambda counts: f"{kind} {shown(counts)}")

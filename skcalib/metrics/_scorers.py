"""Measures as scorers, for ``GridSearchCV``, ``cross_validate`` and other uses of scorers."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Self

import numpy as np
import sklearn.metrics
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest

from skcalib._input.arrays import if_in_memory, on_host
from skcalib._input.labels import as_labels, class_probabilities, in_one_type, not_among, shown
from skcalib._rows import Rows
from skcalib._typing import Array, ArrayLike, Floats

from ._names import MEASURES, measure_name, suggestion


class CalibrationScorer(BaseEstimator):
    """A measure of labels and probabilities, as scikit-learn calls scorers.

    ``make_scorer`` cannot be used: it passes probabilities to the measure without the classes of
    their columns, and a single column for two classes.
    """

    def __init__(
        self,
        measure: Callable[..., Any],
        params: dict[str, Any],
        *,
        sign: int = -1,
        weight_request: bool | str | None = None,
        features_request: bool | str | None = None,
    ) -> None:
        self.measure = measure
        self.params = params
        self.sign = sign
        self.weight_request = weight_request
        self.features_request = features_request

    def set_score_request(
        self, *, sample_weight: bool | str | None = None, features: bool | str | None = None
    ) -> Self:
        """Set whether metadata routing passes weights, and features of the rows."""
        self.weight_request, self.features_request = sample_weight, features
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that the scorer requests."""
        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="sample_weight", alias=self.weight_request)
        if "features" in signature(self.measure).parameters:
            request.score.add_request(param="features", alias=self.features_request)
        return request

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y_true: ArrayLike,
        sample_weight: ArrayLike | None = None,
        features: Any = None,
    ) -> float:
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                "A calibration error needs an estimator with predict_proba, got "
                f"{type(estimator).__name__}."
            )
        accepted = signature(self.measure).parameters
        params = dict(self.params)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if "features" in accepted:
            params["features"] = X if features is None else features
        if "n_resamples" in accepted:  # the estimate needs no resamples
            params.setdefault("n_resamples", 1)
        P = class_probabilities(estimator.predict_proba(X), estimator.classes_)
        if self.params.get("kind") != "multilabel":
            labels = np.asarray(on_host(estimator.classes_))
            if not isinstance(P, Rows):  # rows have been checked
                y_true, P, labels = if_in_memory(_in_sorted_order, y_true, P, labels)
            if "labels" in accepted:
                params["labels"] = labels
        value = self.measure(y_true, P, **params)
        for name in ("estimate", "statistic"):
            value = getattr(value, name, value)
        return self.sign * float(value)


def _in_sorted_order(y: Any, P: Floats, labels: Array) -> tuple[Any, Floats, Array]:
    """Labels, and probabilities in the order of the sorted classes.

    Classes that the estimator was not fitted on have probability 0.
    """
    y = column_or_1d(as_labels(y, "y_true"))
    unseen = not_among(y, labels)
    if len(unseen):
        if isinstance(unseen.tolist()[0], str) != isinstance(labels.tolist()[0], str):
            raise ValueError(
                "y_true must hold labels of the type of the classes of the estimator, got "
                f"[{shown(unseen)}] for the classes [{shown(labels)}]. Convert them, as by "
                "y_true.astype(estimator.classes_.dtype)."
            )
        P = on_host(P)
        P = np.hstack([P, np.zeros((len(P), len(unseen)), P.dtype)])
        labels = np.concatenate(in_one_type(labels, unseen))
    order = np.argsort(labels)
    return (y, P, labels) if np.all(np.diff(order) > 0) else (y, P[:, order], labels[order])


# Measures by the parameter norm of other libraries.
_NORMS = {
    "l1": "neg_expected_calibration_error",
    "l2": "neg_root_mean_squared_calibration_error",
    "max": "neg_maximum_calibration_error",
}


def calibration_scorer(
    measure: str | Callable[..., Any], *, greater_is_better: bool = False, **params: Any
) -> Callable[..., float]:
    """Make a scorer of a measure, for ``GridSearchCV(scoring=...)`` and ``cross_validate``.

    Scorers return negated errors, so that greater is better. They take the column order
    from the ``classes_`` of the estimator, and so support labels of any type and folds that lack
    a class.

    Parameters
    ----------
    measure : str or callable
        One of :func:`get_scorer_names`, or such a name without ``neg_``, which is the same scorer;
        or a function ``measure(y_true, y_proba)`` such as
        :func:`skcalib.decision.area_under_risk_coverage`. Columns are passed in the order of the
        sorted labels. A function with a parameter ``labels`` is passed these labels, a function
        with a parameter ``features`` is passed X, or the features that metadata routing passes
        after ``set_score_request(features=True)``. The scorer takes the ``estimate`` or the
        ``statistic`` of a result that has one.
    greater_is_better : bool, default=False
        Whether to keep the sign of a function, as for :func:`skcalib.clinical.net_benefit`.
    **params
        Arguments of the measure, such as ``n_bins`` or ``kind``. With ``kind="multilabel"`` the
        scorer is for classifiers and calibrators of several labels per row.

    Returns
    -------
    callable
        Scorer with the signature ``scorer(estimator, X, y, sample_weight=None)``.

    Raises
    ------
    ValueError
        If there is no scorer of that name, or an argument or its value is invalid.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib.metrics import calibration_scorer
    >>> scorer = calibration_scorer("neg_expected_calibration_error", n_bins=10)
    >>> scores = cross_val_score(GaussianNB(), *load_iris(return_X_y=True), scoring=scorer)
    >>> bool((scores <= 0).all())
    True
    """
    if isinstance(measure, type) or not (callable(measure) or isinstance(measure, str)):
        raise ValueError(
            f"measure must be the name of a scorer or a function measure(y_true, y_proba), got "
            f"{measure!r}. get_scorer_names() lists the names."
        )
    if callable(measure):
        name = getattr(measure, "__name__", repr(measure))
        _check_arguments(name, measure, {}, params)
        return CalibrationScorer(measure, params, sign=1 if greater_is_better else -1)
    if greater_is_better:
        raise ValueError(
            f"greater_is_better is for functions, got True for the name {measure!r}. Leave it out."
        )
    plain = measure_name(measure)
    if plain is not None:
        function, fixed = MEASURES[plain]
        _check_arguments(measure, function, fixed, params)
        _check_values(function, fixed | params)
        return CalibrationScorer(function, fixed | params)
    if measure not in sklearn.metrics.get_scorer_names():
        raise ValueError(
            f"There is no scorer named {measure!r}.{suggestion(measure, get_scorer_names())} "
            "skcalib.metrics.get_scorer_names() lists all."
        )
    if params:
        raise ValueError(
            f"{measure!r} is scikit-learn's scorer and takes no arguments here, got "
            f"{', '.join(params)}. Use sklearn.metrics.make_scorer."
        )
    return sklearn.metrics.get_scorer(measure)


def _check_arguments(
    name: str, measure: Callable[..., Any], fixed: dict[str, Any], params: dict[str, Any]
) -> None:
    """Raise a ValueError for arguments that the measure does not have."""
    parameters = signature(measure).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    brought = {"y_true", "y_proba", "sample_weight", "labels", "features", *fixed}
    accepted = [key for key in parameters if key not in brought]
    if unknown := [key for key in params if key not in accepted]:
        remedy = ""
        if "norm" in unknown:
            remedy = " A norm is a measure of its own: " + ", ".join(
                f"{norm!r} is {scorer!r}" for norm, scorer in _NORMS.items()
            ) + "."  # fmt: skip
        raise ValueError(
            f"{name!r} takes the arguments {', '.join(accepted) or 'none'}, got "
            f"{', '.join(unknown)}.{remedy}"
        )


def _check_values(measure: Callable[..., Any], params: dict[str, Any]) -> None:
    """Raise a ValueError for invalid arguments, by a call with two rows."""
    is_multilabel = params.get("kind") == "multilabel"
    if not is_multilabel:  # two rows may lack the labels
        params = {key: value for key, value in params.items() if key not in ("pos_label", "order")}
    y = np.eye(2) if is_multilabel else [0, 1]
    if np.ndim(measure(y, np.full((2, 2), 0.5), **params)):
        raise ValueError("average must be 'macro' or 'micro' for a scorer, got None.")


def get_scorer_names() -> list[str]:
    """Return the names of all scorers of :func:`calibration_scorer`, including scikit-learn's.

    Returns
    -------
    list of str
        Names in alphabetical order.

    Examples
    --------
    >>> from skcalib.metrics import get_scorer_names
    >>> "neg_expected_calibration_error" in get_scorer_names()
    True
    """
    names = (f"neg_{name}" for name in MEASURES)
    return sorted({*names, *sklearn.metrics.get_scorer_names()})

"""Logits from any classifier in scikit-learn, and the base class for meta-estimators over it."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets

from skcalib._input.arrays import as_numpy, is_tensor, on_host
from skcalib._input.estimators import check_classifier, may_have
from skcalib._input.groups import check_groups
from skcalib._input.labels import (
    as_indicator,
    as_labels,
    class_probabilities,
    distinct_labels,
    not_among,
    shown,
)
from skcalib._input.logits import check_weights
from skcalib._input.parameters import check_option, check_real
from skcalib._typing import Array, Floats
from skcalib._version import Versioned

ResponseMethod = Literal["auto", "decision_function", "predict_logits", "predict_proba"]
RESPONSE_METHODS = ("decision_function", "predict_logits", "predict_proba")
MinProba = float | Literal["auto"]
SMALLEST_PROBA = 1e-15  # smaller values are rounding errors of sums of probabilities


class Response(NamedTuple):
    """Source of the logits of a classifier."""

    method: str  #: "auto" if the classifier has a method only once it is fitted
    min_proba: float | None  #: lower bound for probabilities; None until there are held-out rows
    multilabel: bool = False  #: whether rows have several labels

    def smallest(self, dtype: np.dtype[Any]) -> float:
        """Return the smallest probability in this dtype."""
        return max(self.min_proba or SMALLEST_PROBA, float(np.finfo(dtype).tiny))

    def with_min_proba(self, outputs: list[Floats]) -> Response:
        """Set the lower bound from held-out probabilities, unless it is set.

        If some probabilities are zero, the bound is half the smallest positive probability: half a
        vote in a forest. With several labels per row, 1 - p is a probability as well.
        """
        if self.min_proba is not None:
            return self
        smallest, zeros = 1.0, False
        for P in outputs:
            # Round, as the sum of all votes may differ from one.
            for Q in (P, 1 - P.round(15)) if self.multilabel else (P,):
                zeros |= bool((Q == 0).any())
                smallest = float(np.min(Q, where=Q > 0, initial=smallest))
        bound = max(smallest / 2, SMALLEST_PROBA) if zeros else SMALLEST_PROBA
        return self._replace(min_proba=bound)

    def for_fitted(self, estimator: Any) -> Response:
        """Return the response with the method of a fitted classifier."""
        min_proba: MinProba = "auto" if self.min_proba is None else self.min_proba
        response = find_response(estimator, self.method, min_proba, fitted=True)
        return response._replace(multilabel=self.multilabel)


def find_response(estimator: Any, method: str, min_proba: MinProba, *, fitted: bool) -> Response:
    """Find the source of a classifier's logits, or raise a ValueError if there is none."""
    pairwise = _is_one_versus_one(estimator)
    methods = [method]
    if method == "auto":
        methods = list(RESPONSE_METHODS[1:] if pairwise else RESPONSE_METHODS)
    bound = None if isinstance(min_proba, str) else min_proba
    for name in methods:
        if hasattr(estimator, name):
            # Margins need a bound only for labels that training rows lack, so any bound will do.
            is_proba = name == "predict_proba"
            return Response(name, SMALLEST_PROBA if bound is None and not is_proba else bound)
    if not fitted and any(may_have(estimator, name) for name in methods):
        return Response(method, bound)
    remedy = (
        " It returns margins of pairs of classes: set decision_function_shape='ovr'."
        if pairwise
        else " Logits cannot come from predictions of labels."
    )
    names = " or ".join([*filter(None, [", ".join(methods[:-1])]), methods[-1]])
    raise ValueError(f"estimator must have {names}, got {estimator!r}.{remedy}")


def _is_one_versus_one(estimator: Any) -> bool:
    """Return whether the classifier, or its last step, returns margins of pairs of classes."""
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    return any(
        name.split("__")[-1] == "decision_function_shape" and value == "ovo"
        for name, value in inner.get_params().items()
    )


def fitted_classes(estimator: Any) -> Array:
    """Return the classes of a fitted classifier as an array on the host."""
    if not hasattr(estimator, "classes_"):
        raise ValueError(
            "A fitted classifier must have an attribute classes_ with the labels of its columns, "
            f"got {estimator!r} without one. Set self.classes_ = np.unique(y) in its fit."
        )
    return np.asarray(on_host(estimator.classes_))


def fit_classifier(estimator: Any, X: Any, y: Array, **params: Any) -> Any:
    """Fit a copy of the classifier, and raise a ValueError if it does not know all labels.

    In semi-supervised learning, classifiers read -1 as a row without a label.
    """
    fitted = clone(estimator).fit(X, y, **params)
    if y.ndim == 1:
        unknown = not_among(y, fitted_classes(fitted))
        if len(unknown):
            name = type(estimator).__name__
            raise ValueError(
                f"{name} must know all labels in y, got classes_ without "
                f"{shown(unknown)}. If a label marks rows without a class, fit {name} first "
                "and calibrate it in a FrozenEstimator, on rows that have a class."
            )
    return fitted


def classifier_outputs(estimator: Any, X: Any, response: Response) -> Floats:
    """Return probabilities or logits (n, n_classes), or margins (n, 1), of a fitted classifier.

    ``X`` are features (n, n_features). With several labels per row the shape is (n, n_labels).
    """
    outputs = getattr(estimator, response.method)(X)
    if response.multilabel:
        outputs = class_probabilities(outputs, estimator.classes_)
    Z = np.asarray(on_host(outputs))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    is_proba, name = response.method == "predict_proba", type(estimator).__name__
    invalid = ~np.isfinite(Z) if is_proba else np.isnan(Z) | np.isposinf(Z)
    if invalid.any():
        raise ValueError(
            f"{response.method} of {name} must return finite numbers, got {invalid.sum()} of "
            f"{Z.size} that are not, the first in row {np.argwhere(invalid)[0, 0]}. Check the "
            "features of these rows and the classifier."
        )
    if is_proba and Z.min(initial=0) < -1e-6:  # smaller numbers are rounding errors
        raise ValueError(
            f"predict_proba of {name} must return probabilities, got a minimum of {Z.min():g}. "
            "Choose another response_method, or correct the classifier."
        )
    if response.multilabel:
        return Z
    Z = Z[:, None] if Z.ndim == 1 else Z
    n_classes = len(fitted_classes(estimator))
    if n_classes == 2 and Z.shape[1] == 1:
        return np.hstack([1 - Z, Z]) if is_proba else Z
    if Z.shape[1] != n_classes:
        raise ValueError(
            f"{response.method} must return one column for each of the {n_classes} classes, got "
            f"{Z.shape[1]} columns from {name}. Choose another response_method."
        )
    return Z


def as_logits(outputs: Floats, response: Response) -> Floats:
    """Convert outputs (n, n_classes) to logits, or to log-odds with several labels per row."""
    if response.method != "predict_proba":
        return outputs
    smallest = response.smallest(outputs.dtype)
    if response.multilabel:
        return clipped_log_odds(outputs, smallest)
    return np.log(np.maximum(outputs, smallest))


def clipped_log_odds(P: Floats, smallest: float) -> Floats:
    """Return log-odds for probabilities clipped to [smallest, 1 - smallest]."""
    odds: Floats = np.log(np.maximum(P, smallest)) - np.log(np.maximum(1 - P, smallest))
    return odds


class FitArguments(NamedTuple):
    """Checked arguments of ``fit``."""

    X: Any
    y: Array
    response: Response
    fit_params: dict[str, Any]  #: arguments of the classifier's ``fit``
    split_params: dict[str, Any]  #: arguments of the splitter's ``split``


class _OverClassifier(Versioned, MetaEstimatorMixin, BaseEstimator):
    """Base class of meta-estimators over a classifier: arguments, logits and routing."""

    estimator: Any
    cv: Any
    response_method: ResponseMethod
    min_proba: MinProba
    response_method_: str
    min_proba_: float
    multilabel_: bool
    classes_: Array
    n_jobs: int | None

    def _checked_arguments(
        self, caller: str, X: Any, y: Any, params: dict[str, Any], w: Floats | None = None
    ) -> FitArguments:
        """Check the arguments of ``fit``: raise here every error that needs no fit.

        ``w`` are weights (n_samples,) or None.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if isinstance(params.get("sample_weight"), str | dict):
            check_weights(params["sample_weight"], len(y))  # raises an error that says how
        check_classifier(self.estimator, type(self).__name__)
        check_real("min_proba", self.min_proba, high=1, option="auto")
        check_option("response_method", self.response_method, ResponseMethod)
        response = find_response(self.estimator, self.response_method, self.min_proba, fitted=False)
        shape: tuple[int, ...] = getattr(as_numpy(y, "y"), "shape", ())
        if (issparse(y) or (len(shape) == 2 and shape[1] > 1)) and _takes_several(
            self.estimator, y
        ):
            X, E = indexable(_accepted_by(self.estimator, X), as_indicator(y).astype(np.intp))
            response = response._replace(multilabel=True)
            return FitArguments(X, E, response, *self._routed(caller, E, params))
        if not get_tags(self.estimator).target_tags.single_output:
            raise ValueError(
                f"{type(self.estimator).__name__} needs several labels per row, got y of shape "
                f"{np.shape(y)}. Pass the classifier inside it for one label per row."
            )
        y = as_labels(y, warns=True)
        check_classification_targets(y)
        X, y = indexable(_accepted_by(self.estimator, X), y)
        classes = distinct_labels(y if w is None else y[w > 0])
        if len(classes) < 2:
            content = f"one class only: {shown(classes)}" if len(y) else "0 samples"
            raise ValueError(f"y must hold at least two classes, got {content}.")
        remedy = f"The smallest of {len(classes)} probabilities is at most {1 / len(classes):.3g}."
        check_real("min_proba", self.min_proba, high=1 / len(classes), option="auto", remedy=remedy)
        return FitArguments(X, y, response, *self._routed(caller, y, params))

    def _store_response(self, estimator: Any, response: Response) -> None:
        """Store the source of logits for predictions."""
        self.response_method_, bound, self.multilabel_ = response.for_fitted(estimator)
        self.min_proba_ = SMALLEST_PROBA if bound is None else bound

    def _logits(self, estimator: Any, X: Any) -> Floats:
        """Return logits of a fitted classifier, by the response of ``fit``."""
        # Pickles from versions without several labels per row lack multilabel_.
        multilabel = getattr(self, "multilabel_", False)
        response = Response(self.response_method_, self.min_proba_, multilabel)
        shape = getattr(X, "shape", None) or [len(X) if hasattr(X, "__len__") else 1]
        if not shape[0]:  # classifiers of scikit-learn refuse no rows
            n_classes = len(self.classes_)
            is_margin = response.method == "decision_function" and n_classes == 2 and not multilabel
            return np.empty((0, 1 if is_margin else n_classes))
        outputs = classifier_outputs(estimator, _accepted_by(estimator, X), response)
        return as_logits(outputs, response)

    def _routed(
        self, caller: str, y: Array, params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Divide ``params`` between the classifier's ``fit`` and the splitter's ``split``.

        ``y`` are labels (n_samples,) or indicators (n_samples, n_labels).
        """
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, caller, **params)
            fit_params, split_params = routed.estimator.fit, dict(routed.splitter.split)
        else:
            fit_params = dict(params)
            split_params = {"groups": fit_params.pop("groups", None)}
        if split_params.get("groups") is not None:
            split_params["groups"] = check_groups(split_params["groups"], len(y))
        return fit_params, split_params

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which arguments of ``fit`` go to the classifier and which to the splitter.

        Returns
        -------
        MetadataRouter
            As for scikit-learn's meta-estimators.
        """
        # A number of folds requests groups, to keep them together.
        is_number = self.cv is None or isinstance(self.cv, Integral)
        splitter = StratifiedGroupKFold() if is_number else self.cv
        to_fit, to_split = MethodMapping(), MethodMapping()
        for caller in ("fit", "fit_transform") if hasattr(self, "transform") else ("fit",):
            to_fit.add(caller=caller, callee="fit")
            to_split.add(caller=caller, callee="split")
        return (
            MetadataRouter(owner=self)
            .add(estimator=self.estimator, method_mapping=to_fit)
            .add(splitter=splitter, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator).input_tags
            tags.input_tags.sparse = inner.sparse
            tags.input_tags.allow_nan = inner.allow_nan
            tags.input_tags.pairwise = inner.pairwise
            tags.target_tags.multi_output = _takes_indicator(self.estimator)
        return tags

    def _take_over_features(self, estimator: Any) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))


def _accepted_by(estimator: Any, X: Any) -> Any:
    """Copy tensors to the host, except for a frozen classifier, which may need tensors."""
    return on_host(X) if is_tensor(X) and not isinstance(estimator, FrozenEstimator) else X


def _takes_indicator(estimator: Any) -> bool:
    """Return whether a classifier supports several labels per row, by its tags."""
    tags = get_tags(estimator)
    is_multilabel = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(tags.target_tags.multi_output or is_multilabel)


def _takes_several(estimator: Any, y: Any) -> bool:
    """Return whether a classifier accepts several labels per row.

    Raise a ValueError if it does not, and rows have several labels. One-hot arrays have one label
    per row, and raise another error later.
    """
    if _takes_indicator(estimator):
        return True
    if issparse(y) or np.asarray(as_numpy(y, "y")).dtype.kind in "biuf":
        E = as_indicator(y)
        if (E.sum(axis=1) != 1).any():
            name = type(estimator).__name__
            raise ValueError(
                f"{name} needs one label per row, got an indicator matrix of shape {E.shape}. Wrap "
                f"it, as in OneVsRestClassifier({name}())."
            )
    return False

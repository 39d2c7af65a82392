"""Logits of any classifier of scikit-learn, and what meta-estimators over it share."""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets

from skcalib._nested import check_classifier
from skcalib._rows import Array, Floats, as_numpy, on_host
from skcalib._rows.arrays import is_tensor
from skcalib._validation import labels
from skcalib._validation.indicator import as_indicator, has_columns, of_outputs, takes_indicator
from skcalib._validation.inputs import check_option, check_real
from skcalib._version import Versioned

ResponseMethod = Literal["auto", "decision_function", "predict_proba"]


class Response(NamedTuple):
    """Where the logits of a classifier come from."""

    method: str
    min_proba: float  #: lower bound of probabilities
    multilabel: bool = False  #: whether rows have several labels

    def least(self, dtype: np.dtype[Any]) -> float:
        """The smallest probability."""
        return max(self.min_proba, float(np.finfo(dtype).tiny))


def response_of(estimator: Any, response_method: ResponseMethod, min_proba: float) -> Response:
    """Where the logits of a classifier come from, which may be fitted or not."""
    check_real("min_proba", min_proba, high=1)
    check_option("response_method", response_method, ResponseMethod)
    known = ["decision_function", "predict_proba"]
    wanted = known if response_method == "auto" else [response_method]
    if response_method == "auto" and _is_one_versus_one(estimator):
        wanted = ["predict_proba"]
    for name in wanted:
        if hasattr(estimator, name):
            return Response(name, min_proba)
    remedy = (
        " Its margins are those of pairs of classes: set decision_function_shape='ovr'."
        if _is_one_versus_one(estimator)
        else " Logits cannot come from predictions of labels."
    )
    raise ValueError(f"estimator must have {' or '.join(wanted)}, got {estimator!r}.{remedy}")


def _is_one_versus_one(estimator: Any) -> bool:
    """Whether a parameter of it, or of its last step, makes margins those of pairs of classes."""
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    return any(
        name.split("__")[-1] == "decision_function_shape" and value == "ovo"
        for name, value in inner.get_params().items()
    )


def logits_of(estimator: Any, X: Any, response: Response) -> Floats:
    """Logits (n, n_classes) of a fitted classifier, or margins (n, 1) of two classes.

    Of several labels per row the log-odds (n, n_labels).
    """
    method, outputs = response.method, getattr(estimator, response.method)(X)
    if response.multilabel:
        outputs = of_outputs(outputs, estimator.classes_)
    Z = np.asarray(on_host(outputs))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    least = response.least(Z.dtype)
    if response.multilabel:
        return Z if method == "decision_function" else log_odds(Z, least)
    Z = Z[:, None] if Z.ndim == 1 else Z
    n_classes = len(on_host(estimator.classes_))
    margins = method == "decision_function" and n_classes == 2 and Z.shape[1] == 1
    if Z.shape[1] != n_classes and not margins:
        raise ValueError(
            f"{method} must give one column for each of the {n_classes} classes, got "
            f"{Z.shape[1]} columns from {type(estimator).__name__}. Choose another "
            "response_method."
        )
    return Z if method == "decision_function" else np.log(np.maximum(Z, least))


def log_odds(P: Floats, least: float) -> Floats:
    """Log-odds of probabilities, which and whose complements are at least ``least``."""
    odds: Floats = np.log(np.maximum(P, least)) - np.log(np.maximum(1 - P, least))
    return odds


class FitArguments(NamedTuple):
    """Checked arguments of ``fit``."""

    X: Any
    y: Array
    response: Response
    fit_params: dict[str, Any]  #: arguments of the classifier's ``fit``
    split_params: dict[str, Any]  #: arguments of the splitter's ``split``


class _OverClassifier(Versioned, MetaEstimatorMixin, BaseEstimator):
    """What meta-estimators of a classifier share: its splits, its logits, and routing."""

    estimator: Any
    cv: Any
    response_method: ResponseMethod
    min_proba: float
    response_method_: str
    min_proba_: float
    multilabel_: bool
    n_jobs: int | None

    def _checked_arguments(
        self, caller: str, X: Any, y: Any, params: dict[str, Any], w: Floats | None = None
    ) -> FitArguments:
        """Checked arguments of ``fit``; every error that needs no fit is raised here."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        check_classifier(self.estimator, type(self).__name__)
        response = self._response(self.estimator)
        if has_columns(y) and _takes_several(self.estimator, y):
            X, E = indexable(_taken_by(self.estimator, X), as_indicator(y).astype(np.intp))
            response = response._replace(multilabel=True)
            return FitArguments(X, E, response, *self._routed(caller, params))
        y = labels.as_labels(y, warns=True)
        check_classification_targets(y)
        X, y = indexable(_taken_by(self.estimator, X), y)
        classes = labels.distinct_labels(y if w is None else y[w > 0])
        if len(classes) < 2:
            found = f"one class only: {labels.shown(classes)}" if len(y) else "0 samples"
            raise ValueError(f"y must hold at least two classes, got {found}.")
        return FitArguments(X, y, response, *self._routed(caller, params))

    def _response(self, estimator: Any) -> Response:
        return response_of(estimator, self.response_method, self.min_proba)

    def _store_response(self, estimator: Any, arguments: FitArguments) -> None:
        self.response_method_, self.min_proba_, _ = self._response(estimator)
        self.multilabel_ = arguments.response.multilabel

    def _logits(self, estimator: Any, X: Any) -> Floats:
        """Logits of a fitted classifier, as they were in ``fit``."""
        # Of pickles of versions that took one label per row only, there is no multilabel_.
        several = getattr(self, "multilabel_", False)
        response = Response(self.response_method_, self.min_proba_, several)
        return logits_of(estimator, _taken_by(estimator, X), response)

    def _routed(self, caller: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arguments of the classifier's ``fit`` and of the splitter's ``split``."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, caller, **params)
            return routed.estimator.fit, routed.splitter.split
        params = dict(params)
        groups = params.pop("groups", None)
        return params, {"groups": groups}

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which arguments of ``fit`` go to the classifier and which to the splitter.

        Returns
        -------
        MetadataRouter
            As for scikit-learn's meta-estimators.
        """
        to_fit, to_split = MethodMapping(), MethodMapping()
        for caller in ("fit", "fit_transform") if hasattr(self, "transform") else ("fit",):
            to_fit.add(caller=caller, callee="fit")
            to_split.add(caller=caller, callee="split")
        return (
            MetadataRouter(owner=self)
            .add(estimator=self.estimator, method_mapping=to_fit)
            .add(splitter=self.cv, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if hasattr(self.estimator, "__sklearn_tags__"):
            of_estimator = get_tags(self.estimator).input_tags
            tags.input_tags.sparse = of_estimator.sparse
            tags.input_tags.allow_nan = of_estimator.allow_nan
            tags.input_tags.pairwise = of_estimator.pairwise
            tags.target_tags.multi_output = takes_indicator(self.estimator)
        return tags

    def _take_over_features(self, estimator: Any) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))


def _taken_by(estimator: Any, X: Any) -> Any:
    """Features as a classifier takes them: tensors on the host, unless it was fitted by others."""
    return on_host(X) if is_tensor(X) and not isinstance(estimator, FrozenEstimator) else X


def _takes_several(estimator: Any, y: Any) -> bool:
    """Whether a classifier takes several labels per row; a ValueError for rows that have them.

    A one-hot array is one label per row, for which there is another error.
    """
    if takes_indicator(estimator):
        return True
    if issparse(y) or np.asarray(as_numpy(y, "y")).dtype.kind in "biuf":
        E = as_indicator(y)
        if (E.sum(axis=1) != 1).any():
            name = type(estimator).__name__
            raise ValueError(
                f"{name} takes one label per row, got an indicator matrix of shape {E.shape}. Wrap "
                f"it, as in OneVsRestClassifier({name}())."
            )
    return False

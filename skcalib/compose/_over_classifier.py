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

from skcalib._nested import check_classifier, may_have
from skcalib._rows import Array, Floats, arrays as xa, as_numpy
from skcalib._validation import labels
from skcalib._validation.inputs import check_option, check_real
from skcalib._validation.labels import as_indicator, has_columns, of_outputs, takes_indicator
from skcalib._version import Versioned

ResponseMethod = Literal["auto", "decision_function", "predict_proba"]
MinProba = float | Literal["auto"]
LEAST_PROBA = 1e-15  # what is less is the rounding error of a sum of probabilities


class Response(NamedTuple):
    """Where the logits of a classifier come from."""

    method: str  #: "auto" until a classifier is fitted that has neither method before
    min_proba: float | None  #: lower bound of probabilities; None until held-out ones tell
    multilabel: bool = False  #: whether rows have several labels

    def least(self, dtype: np.dtype[Any]) -> float:
        """The smallest probability."""
        return max(self.min_proba or LEAST_PROBA, float(np.finfo(dtype).tiny))

    def with_least(self, outputs: list[Floats]) -> "Response":
        """With the lower bound that held-out probabilities tell, unless it is known.

        Where some are zero it is half the least positive one: of votes half a vote. Each of several
        labels has two probabilities.
        """
        if self.min_proba is not None:
            return self
        least, zeros = 1.0, False
        for P in outputs:
            # Rounded, as the sum of all votes may be off one.
            for Q in (P, 1 - P.round(15)) if self.multilabel else (P,):
                zeros |= bool((Q == 0).any())
                least = float(np.min(Q, where=Q > 0, initial=least))
        return self._replace(min_proba=max(least / 2, LEAST_PROBA) if zeros else LEAST_PROBA)

    def of_fitted(self, estimator: Any) -> "Response":
        """With the method that a fitted classifier has."""
        min_proba: MinProba = "auto" if self.min_proba is None else self.min_proba
        found = response_of(estimator, self.method, min_proba, fitted=True)
        return found._replace(multilabel=self.multilabel)


def response_of(estimator: Any, method: str, min_proba: MinProba, *, fitted: bool) -> Response:
    """Where the logits of a classifier come from."""
    known = ["decision_function", "predict_proba"]
    if method == "auto" and _is_one_versus_one(estimator):
        method = known[1]
    wanted = known if method == "auto" else [method]
    least = None if isinstance(min_proba, str) else min_proba
    for name in wanted:
        if hasattr(estimator, name):
            # Margins have no least one: that of labels which training rows lack is given here.
            return Response(name, LEAST_PROBA if least is None and name == known[0] else least)
    if not fitted and any(may_have(estimator, name) for name in wanted):
        return Response(method, least)
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


def outputs_of(estimator: Any, X: Any, response: Response) -> Floats:
    """Probabilities or margins (n, n_classes) of a fitted classifier, or margins (n, 1) of two.

    Of several labels per row (n, n_labels).
    """
    outputs = getattr(estimator, response.method)(X)
    if response.multilabel:
        outputs = of_outputs(outputs, estimator.classes_)
    Z = np.asarray(xa.on_host(outputs))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    if response.multilabel:
        return Z
    Z = Z[:, None] if Z.ndim == 1 else Z
    n_classes = len(xa.on_host(estimator.classes_))
    margins = response.method == "decision_function" and n_classes == 2 and Z.shape[1] == 1
    if Z.shape[1] != n_classes and not margins:
        raise ValueError(
            f"{response.method} must give one column for each of the {n_classes} classes, got "
            f"{Z.shape[1]} columns from {type(estimator).__name__}. Choose another "
            "response_method."
        )
    return Z


def as_logits(outputs: Floats, response: Response) -> Floats:
    """Logits, or log-odds of several labels per row, from probabilities or margins."""
    if response.method == "decision_function":
        return outputs
    least = response.least(outputs.dtype)
    return log_odds(outputs, least) if response.multilabel else np.log(np.maximum(outputs, least))


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
    min_proba: MinProba
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
        check_real("min_proba", self.min_proba, high=1, option="auto")
        check_option("response_method", self.response_method, ResponseMethod)
        response = response_of(self.estimator, self.response_method, self.min_proba, fitted=False)
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

    def _store_response(self, estimator: Any, response: Response) -> None:
        """What predictions of a fitted classifier need to know."""
        self.response_method_, least, self.multilabel_ = response.of_fitted(estimator)
        self.min_proba_ = LEAST_PROBA if least is None else least

    def _logits(self, estimator: Any, X: Any) -> Floats:
        """Logits of a fitted classifier, as they were in ``fit``."""
        # Of pickles of versions that took one label per row only, there is no multilabel_.
        several = getattr(self, "multilabel_", False)
        response = Response(self.response_method_, self.min_proba_, several)
        return as_logits(outputs_of(estimator, _taken_by(estimator, X), response), response)

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
    return xa.on_host(X) if xa.is_tensor(X) and not isinstance(estimator, FrozenEstimator) else X


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

"""What meta-estimators over a classifier share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets

from skcalib._engine.array_api import is_tensor, on_host
from skcalib._engine.inputs import as_numpy
from skcalib._subestimator import check_classifier
from skcalib._typing import Array, Floats
from skcalib._validation.indicator import as_indicator, has_columns, takes_indicator
from skcalib._validation.labels import (
    as_labels,
    distinct_labels,
    in_one_dimension,
    not_among,
    shown,
)
from skcalib._version import Versioned

from ._folds import FitArguments
from ._response import Response, ResponseMethod, logits_of, response_of


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
        y = column_or_1d(in_one_dimension(as_labels(y)))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X, y = indexable(_taken_by(self.estimator, X), y)
        if not len(y):
            raise ValueError("y must hold labels of at least two classes, got 0 samples.")
        classes = distinct_labels(y, w)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes, got one class only: {shown(classes)}."
            )
        if isinstance(self.estimator, FrozenEstimator):
            _check_known(classes, np.asarray(on_host(self.estimator.classes_)))
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


def _check_known(labels: Array, classes: Array) -> None:
    unknown = not_among(labels, classes)
    if len(unknown):
        raise ValueError(
            "y must hold only labels that the frozen classifier knows, got "
            f"{shown(unknown[:1])}, which is not one of [{shown(classes)}]."
        )

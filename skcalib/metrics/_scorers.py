"""Measures as scorers, for ``GridSearchCV``, ``cross_validate`` and other uses of scorers."""

import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import sklearn.metrics
from sklearn.base import BaseEstimator
from sklearn.utils import column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest

from skcalib._rows import Array, ArrayLike, Floats, Rows, on_host
from skcalib._rows.inputs import if_in_memory
from skcalib._validation.inputs import meant
from skcalib._validation.labels import as_labels, in_one_type, not_among, of_outputs

from ._calibration_error import MEASURES, expected_calibration_error
from ._proper_scores import score_decomposition


class CalibrationScorer(BaseEstimator):
    """Negative calibration error of a classifier, as scikit-learn calls scorers.

    ``make_scorer`` cannot be used: it passes probabilities to the measure without the classes of
    their columns, and for two classes a single column.
    """

    def __init__(
        self,
        measure: Callable[..., float],
        params: dict[str, Any],
        *,
        weight_request: bool | str | None = None,
        features_request: bool | str | None = None,
    ) -> None:
        self.measure = measure
        self.params = params
        self.weight_request = weight_request
        self.features_request = features_request

    def set_score_request(
        self, *, sample_weight: bool | str | None = None, features: bool | str | None = None
    ) -> Self:
        """Set whether metadata routing passes weights, and features of the rows."""
        self.weight_request, self.features_request = sample_weight, features
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """The metadata that the scorer requests."""
        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="sample_weight", alias=self.weight_request)
        if "features" in inspect.signature(self.measure).parameters:
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
        params = {"sample_weight": sample_weight, **self.params}
        if "features" in inspect.signature(self.measure).parameters:
            params["features"] = X if features is None else features
        if self.params.get("kind") == "multilabel":
            P = of_outputs(estimator.predict_proba(X), estimator.classes_)
            return -self.measure(y_true, P, **params)
        P, labels = estimator.predict_proba(X), np.asarray(on_host(estimator.classes_))
        if not isinstance(P, Rows):  # which have been checked
            y_true, P, labels = if_in_memory(_with_unseen_classes, y_true, P, labels)
        return -self.measure(y_true, P, labels=labels, **params)


def _with_unseen_classes(y: Any, P: Floats, labels: Array) -> tuple[Any, Floats, Array]:
    """Labels, with probabilities of 0 for those that the estimator was not fitted on."""
    y = column_or_1d(as_labels(y, "y_true"))
    unseen = not_among(y, labels)
    if len(unseen):
        P = on_host(P)
        P = np.hstack([P, np.zeros((len(P), len(unseen)), P.dtype)])
        labels = np.concatenate(in_one_type(labels, unseen))
    return y, P, labels


def _miscalibration(y_true: ArrayLike, y_proba: ArrayLike, **params: Any) -> float:
    """Miscalibration of :func:`score_decomposition`; the mean over classes if there are several."""
    return float(np.mean(score_decomposition(y_true, y_proba, **params).miscalibration))


def _multilabel_score(y_true: ArrayLike, y_proba: ArrayLike, **params: Any) -> float:
    """Mean over the labels of the log loss or the Brier score of several labels per row."""
    return float(np.mean(score_decomposition(y_true, y_proba, **params).score))


_OF_LABELS = {"kind": "multilabel"}

_SCORERS: dict[str, tuple[Callable[..., float], dict[str, Any]]] = {
    **{f"neg_{measure.__name__}": (measure, {}) for measure in MEASURES},
    "neg_log_loss_miscalibration": (_miscalibration, {"score": "log_loss"}),
    "neg_brier_score_miscalibration": (_miscalibration, {"score": "brier_score"}),
    "neg_classwise_calibration_error": (expected_calibration_error, {"kind": "classwise"}),
    "neg_multilabel_calibration_error": (expected_calibration_error, _OF_LABELS),
    "neg_multilabel_log_loss": (_multilabel_score, {"score": "log_loss", **_OF_LABELS}),
    "neg_multilabel_brier_score": (_multilabel_score, {"score": "brier_score", **_OF_LABELS}),
}


def get_scorer(name: str, **params: Any) -> Callable[..., float]:
    """A scorer by name, for ``GridSearchCV(scoring=...)``, ``cross_validate`` and the like.

    Scorers return negated calibration errors, so that greater is better. They take the order
    of the columns from the ``classes_`` of the estimator, and so support labels of any type
    and folds that lack a class.

    Parameters
    ----------
    name : str
        One of :func:`get_scorer_names`, which include scikit-learn's scorers.
    **params
        Arguments of the measure, such as ``n_bins`` or ``kind``, for skcalib's own scorers only.
        Those named ``neg_multilabel_``, and others with ``kind="multilabel"``, are for classifiers
        and calibrators of several labels per row. ``neg_multicalibration_error`` has the segments
        of ``features``, which are passed to the scorer, or routed to it after
        ``set_score_request(features=True)``; by default those of X.

    Returns
    -------
    callable
        With the signature ``scorer(estimator, X, y, sample_weight=None)``.

    Raises
    ------
    ValueError
        If there is no scorer of that name, or an argument or its value is invalid.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib.metrics import get_scorer
    >>> scorer = get_scorer("neg_expected_calibration_error", n_bins=10)
    >>> scores = cross_val_score(GaussianNB(), *load_iris(return_X_y=True), scoring=scorer)
    >>> bool((scores <= 0).all())
    True
    """
    if not isinstance(name, str):
        raise ValueError(f"name must be the name of a scorer, got {name!r}.")
    if name in _SCORERS:
        measure, fixed = _SCORERS[name]
        _check_params(name, measure, fixed, params)
        return CalibrationScorer(measure, {**fixed, **params})
    if name not in sklearn.metrics.get_scorer_names():
        raise ValueError(
            f"There is no scorer named {name!r}. {meant(name, get_scorer_names())}"
            "skcalib.metrics.get_scorer_names() lists all."
        )
    if params:
        raise ValueError(
            f"{name!r} is scikit-learn's scorer and takes no arguments here, got "
            f"{', '.join(params)}. Use sklearn.metrics.make_scorer."
        )
    return sklearn.metrics.get_scorer(name)


def _check_params(
    name: str, measure: Callable[..., float], fixed: dict[str, Any], params: dict[str, Any]
) -> None:
    """Raise a ValueError for arguments that the measure does not have, and for invalid values."""
    of_scores = {_miscalibration, _multilabel_score}
    described = score_decomposition if measure in of_scores else measure
    brought = {"y_true", "y_proba", "sample_weight", "labels", "features", *fixed}
    accepted = [key for key in inspect.signature(described).parameters if key not in brought]
    unknown = [key for key in params if key not in accepted]
    if unknown:
        raise ValueError(
            f"{name!r} takes the arguments {', '.join(accepted)}, got {', '.join(unknown)}."
        )
    # A call with two rows checks the values, except for a label, which these rows may lack.
    given: dict[str, Any] = {**fixed, **params}
    is_multilabel = given.get("kind") == "multilabel"
    if not is_multilabel:
        given.pop("pos_label", None)
    y = np.eye(2) if is_multilabel else [0, 1]
    if np.ndim(measure(y, np.full((2, 2), 0.5), **given)):
        raise ValueError("average must be 'macro' or 'micro' for a scorer, got None.")


def get_scorer_names() -> list[str]:
    """Names of all scorers of :func:`get_scorer`, including those of scikit-learn.

    Returns
    -------
    list of str
        In alphabetical order.

    Examples
    --------
    >>> from skcalib.metrics import get_scorer_names
    >>> "neg_expected_calibration_error" in get_scorer_names()
    True
    """
    return sorted({*_SCORERS, *sklearn.metrics.get_scorer_names()})

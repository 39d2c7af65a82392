"""Classifiers as transformers to logits, and classifiers with a calibrator, fitted across folds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ._base import check_weights
from ._fitting import check_calibrator, check_order, fit_calibrator, with_unknown_classes
from ._folds import (
    Floats,
    Lesson,
    Problem,
    Response,
    ResponseMethod,
    averaged,
    check_classifier,
    check_test_rows,
    check_training_rows,
    held_out,
    lesson,
    logits_of,
    presence,
    response_of,
    splits_of,
    warn_of_unknown_classes,
)
from ._labels import as_labels, distinct_labels, in_one_dimension, not_among, shown
from ._version import Versioned
from ._warn import warn
from .scaling import TemperatureScaling

__all__ = ["CalibratedClassifier", "LogitTransformer"]


class _OverClassifier(Versioned, MetaEstimatorMixin, BaseEstimator):
    """A classifier, splits of its rows, and how to get logits from it."""

    estimator: Any
    cv: Any
    response_method: ResponseMethod
    min_proba: float
    response_method_: str
    min_proba_: float
    n_jobs: int | None

    def _problem(
        self, caller: str, X: Any, y: Any, params: dict[str, Any], w: Floats | None = None
    ) -> Problem:
        """Checked arguments of ``fit``; every error that needs no fit is raised here."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        check_classifier(self.estimator, type(self).__name__)
        response = self._response(self.estimator)
        y = column_or_1d(in_one_dimension(as_labels(y)))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        X, y = indexable(X, y)
        if not len(y):
            raise ValueError("y must hold labels of at least two classes, got 0 samples.")
        classes = distinct_labels(y, w)
        if len(classes) < 2:
            raise ValueError(
                f"y must hold at least two classes, got one class only: {shown(classes)}."
            )
        if isinstance(self.estimator, FrozenEstimator):
            _check_known(classes, np.asarray(self.estimator.classes_))
        return Problem(X, y, response, *self._routed(caller, params))

    def _response(self, estimator: Any) -> Response:
        return response_of(estimator, self.response_method, self.min_proba)

    def _store_response(self, estimator: Any) -> None:
        self.response_method_, self.min_proba_ = self._response(estimator)

    def _logits(self, estimator: Any, X: Any) -> Floats:
        """Logits of a fitted classifier, as they were in ``fit``."""
        return logits_of(estimator, X, Response(self.response_method_, self.min_proba_))

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
        return tags

    def _take_over_features(self, estimator: Any) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))


class LogitTransformer(TransformerMixin, _OverClassifier):
    r"""A classifier as a transformer: features in, logits out.

    Logits are what ``decision_function`` gives, the margins of an SVM or the raw scores of boosted
    trees, or else the logarithm of ``predict_proba``, :math:`z_{ik} = \log p_{ik}`. The next step
    of a pipeline can be a calibrator.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``; inside a
        :class:`~sklearn.frozen.FrozenEstimator` if it is fitted already and is to stay so.
    cv : int, splitter, iterable of splits or None, default=None
        With it, ``fit_transform`` returns *held-out* logits: those of each row by copies of the
        classifier that were not fitted on it. ``transform`` always uses the classifier fitted on
        all rows. A number stands for so many stratified folds. None does without, which is right
        for a frozen classifier only; for others ``fit_transform`` warns.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Where logits come from: "auto" is ``decision_function`` if the classifier has it (and its
        parameter ``decision_function_shape`` is not "ovo"), else ``predict_proba``. Nothing is
        guessed from values.
    min_proba : float, default=1e-15
        Probabilities below it count as this much when their logarithm is taken. Classifiers that
        count votes, such as forests and nearest neighbours, give zeros that mean "less than one
        vote": for them try half a vote, as 0.5 / n_estimators.
    n_jobs : int, default=None
        Number of splits that are fitted at once.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the logits.
    response_method_ : str
        Where logits come from, "decision_function" or "predict_proba".
    min_proba_ : float
        As ``min_proba`` was in ``fit``.
    n_features_in_ : int
        Number of features, if the classifier says it.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier says them.

    Warns
    -----
    UserWarning
        If ``fit_transform`` returns logits of the rows that the classifier was fitted on, and if
        the training rows of a split lack a class.

    See Also
    --------
    CalibratedClassifier : A classifier and a calibrator as one classifier.
    sklearn.preprocessing.TargetEncoder : Fits across folds in ``fit_transform`` likewise.

    Notes
    -----
    A class that the training rows of a split lack has probability ``min_proba`` in its test rows.
    Logits of a row that is in several test sets are averaged.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from skcalib import LogitTransformer, TemperatureScaling
    >>> X, y = load_iris(return_X_y=True)
    >>> calibrated = make_pipeline(
    ...     StandardScaler(), LogitTransformer(SVC(), cv=5), TemperatureScaling()
    ... ).fit(X, y)
    >>> calibrated.predict_proba(X[:1]).shape
    (1, 3)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = None,
        response_method: ResponseMethod = "auto",
        min_proba: float = 1e-15,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.response_method = response_method
        self.min_proba = min_proba
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, **params: Any) -> Self:
        """Fit the classifier to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        y : array-like of shape (n_samples,)
            Labels.
        **params
            Arguments of the classifier's ``fit``, such as ``sample_weight``; ``groups`` goes to
            the splitter. With metadata routing, what each of the two requests.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError
            If ``estimator`` is no classifier or has neither method, is frozen but not fitted, or if
            ``y`` holds fewer than two classes.
        """
        problem = self._problem("fit", X, y, params)
        return self._fit_to_all_rows(problem)

    def fit_transform(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Floats:
        """Fit the classifier to all rows; return their logits, with ``cv`` the held-out ones.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        y : array-like of shape (n_samples,)
            Labels.
        **params
            As for :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as from :meth:`transform`.

        Raises
        ------
        ValueError
            As for :meth:`fit`; if there are fewer rows of a class than folds, if the splitter needs
            ``groups`` and there are none, if the training rows of a split hold a single class, or
            if some row is in no test set.
        """
        problem = self._problem("fit_transform", X, y, params)
        frozen = isinstance(self.estimator, FrozenEstimator)
        if frozen or self.cv is None:
            if not frozen:
                warn(
                    "Without cv, fit_transform returns logits of the rows that the classifier was "
                    "fitted on, which are too good to fit a calibrator to. Pass cv=5, or a "
                    "FrozenEstimator with rows that it was not fitted on."
                )
            return self._fit_to_all_rows(problem).transform(X)
        splits = splits_of(self.cv, problem)
        classes = presence(splits, problem.y)
        check_training_rows(classes)
        times = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(problem.y))
        if not times.all():
            raise ValueError(
                "fit_transform needs cv to put every row into a test set, got "
                f"{np.count_nonzero(times == 0)} of {len(times)} rows that are in none. "
                "CalibratedClassifier takes such splits."
            )
        warn_of_unknown_classes(classes)
        parts = held_out(self.estimator, problem, splits, self.n_jobs)
        self._fit_to_all_rows(problem)
        return averaged(parts, self.classes_, times, problem.response)

    def _fit_to_all_rows(self, problem: Problem) -> Self:
        estimator = clone(self.estimator).fit(problem.X, problem.y, **problem.fit_params)
        self._take_over_features(estimator)
        self._store_response(estimator)
        self.estimator_ = estimator
        self.classes_ = np.asarray(estimator.classes_)
        return self

    def transform(self, X: Any) -> Floats:
        """Logits by the classifier fitted on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, 1)
            One column per class in the order of ``classes_``; for two classes with
            ``decision_function`` a single column with the margin of ``classes_[1]``.
        """
        check_is_fitted(self)
        return self._logits(self.estimator_, X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:  # noqa: ARG002
        """Names of the columns of logits, ``logit_`` and the label.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Ignored.

        Returns
        -------
        ndarray of str
            One name per column.
        """
        check_is_fitted(self)
        margin = self.response_method_ == "decision_function"
        labels = self.classes_[1:] if margin and len(self.classes_) == 2 else self.classes_
        return np.array([f"logit_{label}" for label in labels.tolist()], dtype=object)


class CalibratedClassifier(ClassifierMixin, _OverClassifier):
    """A classifier with calibrated probabilities, fitted across folds.

    The classifier is fitted to the training rows of each split, and a calibrator to the logits of
    the test rows. ``ensemble=False`` fits one calibrator to those of all splits, for the classifier
    fitted to all rows; ``ensemble=True`` a calibrator for each split, and averages the
    probabilities of all pairs.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``. In a
        :class:`~sklearn.frozen.FrozenEstimator` it stays as it is, and the calibrator is fitted to
        all rows, which should then be rows that the classifier was not fitted on.
    calibrator : calibrator, default=None
        Any estimator with ``fit`` and ``predict_proba`` that takes logits, also a pipeline of
        calibrators. None stands for :class:`TemperatureScaling`.
    cv : int, splitter or iterable of splits, default=5
        How to hold rows out. A number stands for so many stratified folds. Not needed and not used
        for a frozen classifier.
    ensemble : bool, default=False
        Whether to keep a pair for each split. It takes as many predictions, and averaging them
        makes them better by itself, and less sure.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Where logits come from, as in :class:`LogitTransformer`.
    min_proba : float, default=1e-15
        The smallest probability to take the logarithm of, as in :class:`LogitTransformer`.
    n_jobs : int, default=None
        Number of splits that are fitted at once.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the probabilities.
    estimators_ : list of classifiers
        The fitted classifiers: one, or with ``ensemble=True`` one for each split.
    calibrators_ : list of calibrators
        The fitted calibrator of each of them.
    response_method_ : str
        Where logits come from, "decision_function" or "predict_proba".
    min_proba_ : float
        As ``min_proba`` was in ``fit``.
    n_features_in_ : int
        Number of features, if the classifier says it.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier says them.

    Warns
    -----
    UserWarning
        If the training rows of a split lack a class, or if there are weights that the classifier
        does not take.

    See Also
    --------
    LogitTransformer : The same as a step of a pipeline.
    sklearn.calibration.CalibratedClassifierCV : For three methods of scikit-learn.

    Notes
    -----
    Rows of a class that the training rows of their split lack tell nothing about the classifier
    that is fitted to all rows, so the calibrator does not see them. A row that is in several test
    sets counts in each, with its weight divided among them.

    References
    ----------
    .. [1] Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
       Likelihood Methods", 1999, where the calibrator is fitted across folds.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import BBQ, CalibratedClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> classifier = CalibratedClassifier(GaussianNB(), BBQ(), cv=5).fit(X, y)
    >>> classifier.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        estimator: Any,
        calibrator: Any = None,
        *,
        cv: Any = 5,
        ensemble: bool = False,
        response_method: ResponseMethod = "auto",
        min_proba: float = 1e-15,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response_method = response_method
        self.min_proba = min_proba
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Fit classifiers and calibrators.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            For the calibrator, and for the classifier if it takes weights.
        **params
            Arguments of the classifier's ``fit``; ``groups`` goes to the splitter. With metadata
            routing, what each of the two requests.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        ValueError
            If ``estimator`` is no classifier or has neither method, is frozen but not fitted, if
            ``calibrator`` is no calibrator, if ``y`` holds fewer than two classes or fewer rows of
            a class than there are folds, if the splitter needs ``groups`` and there are none, if
            the training rows of a split hold a single class, or if the test rows do that the
            calibrator is to be fitted to: with ``ensemble=True`` those of each split.
        """
        w = None if sample_weight is None else check_weights(sample_weight, len(column_or_1d(y)))
        calibrator = TemperatureScaling() if self.calibrator is None else self.calibrator
        check_calibrator(calibrator, w)
        problem = self._problem("fit", X, y, {**params, **self._weights(w)}, w)
        frozen = isinstance(self.estimator, FrozenEstimator)
        classes = np.asarray(self.estimator.classes_) if frozen else np.unique(problem.y)
        check_order(calibrator, classes)
        lessons = self._lessons(problem, w)
        calibrators = [
            fit_calibrator(calibrator, Z, problem.y[rows], weights, estimator.classes_)
            for estimator, Z, rows, weights in lessons
        ]
        self.estimators_ = [lesson.estimator for lesson in lessons]
        self.calibrators_ = calibrators
        self._take_over_features(self.estimators_[0])
        self._store_response(self.estimators_[0])
        self.classes_ = classes
        return self

    def _weights(self, w: Floats | None) -> dict[str, Any]:
        """Weights as an argument, where the classifier takes one or routing decides."""
        if w is None or isinstance(self.estimator, FrozenEstimator):
            return {}
        routing = get_config()["enable_metadata_routing"]
        if routing or has_fit_parameter(self.estimator, "sample_weight"):
            return {"sample_weight": w}
        warn(
            f"{type(self.estimator).__name__} does not say that it takes sample_weight: only the "
            "calibrator uses it. If a step of it does, enable scikit-learn's metadata routing."
        )
        return {}

    def _lessons(self, problem: Problem, w: Floats | None) -> list[Lesson]:
        X, y, response, fit_params, _ = problem
        if isinstance(self.estimator, FrozenEstimator):
            Z = logits_of(self.estimator, X, response)
            return [Lesson(self.estimator, Z, np.arange(len(y)), w)]
        splits = splits_of(self.cv, problem)
        classes = presence(splits, y, w_test=w)
        check_training_rows(classes)
        check_test_rows(classes, ensemble=self.ensemble)
        warn_of_unknown_classes(classes)
        parts = held_out(self.estimator, problem, splits, self.n_jobs)
        if self.ensemble:
            return [lesson(part.estimator, [part], problem, w) for part in parts]
        return [lesson(clone(self.estimator).fit(X, y, **fit_params), parts, problem, w)]

    @property
    def estimator_(self) -> Any:
        """The fitted classifier, unless there are several."""
        return self._only("estimators_")

    @property
    def calibrator_(self) -> Any:
        """The fitted calibrator, unless there are several."""
        return self._only("calibrators_")

    def _only(self, name: str) -> Any:
        several = vars(self).get(name, [])
        if len(several) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name[:-2]}_: "
                + (f"there are {len(several)}, in {name}." if several else "it is not fitted.")
            )
        return several[0]

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``.
        """
        check_is_fitted(self)
        total: Any = 0
        for estimator, calibrator in zip(self.estimators_, self.calibrators_, strict=True):
            P = calibrator.predict_proba(self._logits(estimator, X))
            known = getattr(calibrator, "classes_", estimator.classes_)
            total = total + with_unknown_classes(P, np.asarray(known), self.classes_)
        return total / len(self.estimators_)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithm of the calibrated probabilities, always finite.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        P = self.predict_proba(X)
        return np.log(np.maximum(P, np.finfo(P.dtype).tiny))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``.
        """
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which arguments of ``fit`` go to the classifier and which to the splitter.

        Returns
        -------
        MetadataRouter
            As for scikit-learn's meta-estimators.
        """
        return super().get_metadata_routing().add_self_request(self)


def _check_known(labels: NDArray[Any], classes: NDArray[Any]) -> None:
    unknown = not_among(labels, classes)
    if len(unknown):
        raise ValueError(
            "y must hold only labels that the frozen classifier knows, got "
            f"{shown(unknown[:1])}, which is not one of [{shown(classes)}]."
        )

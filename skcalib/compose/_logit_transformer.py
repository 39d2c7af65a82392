"""Logits of a classifier as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.frozen import FrozenEstimator

from skcalib._input.arrays import as_kind_of
from skcalib._input.classes import ordered_categories
from skcalib._input.labels import encode
from skcalib._input.rows import check_fitted
from skcalib._rows import Array, ArrayLike, Floats
from skcalib._splits import Split

from ._folds import averaged, held_out, splits_of
from ._over_classifier import (
    FitArguments,
    MinProba,
    Response,
    ResponseMethod,
    _OverClassifier,
    classes_of,
    fit_classifier,
)


class LogitTransformer(TransformerMixin, _OverClassifier):
    r"""A classifier as a transformer: features in, logits out.

    Logits are the output of ``decision_function``, such as the margins of an SVM or the raw scores
    of boosted trees, or of ``predict_logits``, or the logarithm of ``predict_proba``,
    :math:`z_{ik} = \log p_{ik}`. The next step of a pipeline can be a calibrator.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``; inside a
        :class:`~sklearn.frozen.FrozenEstimator` if it is fitted already and is not to be refitted.
    cv : int, splitter or iterable of splits, default=5
        Splits for cross-fitting: ``fit_transform`` returns *held-out* logits, from copies of the
        classifier that were not fitted on the row. ``transform`` always uses the classifier fitted
        on all rows. An integer is the number of stratified folds, of whole groups if there are
        ``groups``; for several labels per row, folds have consecutive rows. Ignored for a frozen
        classifier: its rows should be rows that it was not fitted on.
    response_method : str, default="auto"
        Where logits come from: "decision_function", "predict_logits" or "predict_proba". "auto" is
        the first of these that the classifier has, without "decision_function" if its parameter
        ``decision_function_shape`` is "ovo". It is never inferred from values.
    min_proba : float or "auto", default="auto"
        Lower bound of the probabilities that the logarithm is taken of, one for all classes. "auto"
        is half the least positive held-out probability where some are zero, and else 1e-15, which
        is the least that it can be. Classifiers that count votes, such as forests and nearest
        neighbours, give zeros that mean "less than one vote": for them it is half a vote.
    n_jobs : int, default=None
        Number of splits that are fitted in parallel.

    Attributes
    ----------
    estimator_ : classifier
        Fitted on all rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the logits: sorted, or the categories of ``y`` if they are ordered.
        The numbers of several labels per row.
    response_method_ : str
        Method that logits come from.
    min_proba_ : float
        The lower bound of probabilities.
    multilabel_ : bool
        Whether rows have several labels.
    n_features_in_ : int
        Number of features, if the classifier has this attribute.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier has this attribute.

    Warns
    -----
    UserWarning
        If the training rows of a split lack a class.

    See Also
    --------
    CalibratedClassifier : A classifier and a calibrator as one classifier.
    MultiLabelCalibrator : A calibrator for the log-odds of several labels.
    sklearn.preprocessing.TargetEncoder : Fits across folds in ``fit_transform`` likewise.

    Notes
    -----
    For classifiers of several labels per row, ``y`` is an indicator matrix, dense or sparse, and
    there is one column of log-odds, :math:`\log(p / (1 - p))`, for each label.

    A class that the training rows of a split lack has probability ``min_proba`` in its test rows.
    Logits of a row that is in several test sets are averaged.

    With scikit-learn's ``array_api_dispatch``, features may be tensors, and logits are tensors on
    the same device. A frozen classifier receives the tensors, and any other classifier a copy in
    NumPy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import SVC
    >>> from skcalib import LogitTransformer, TemperatureScaling
    >>> X, y = load_iris(return_X_y=True)
    >>> calibrated = make_pipeline(
    ...     StandardScaler(), LogitTransformer(SVC()), TemperatureScaling()
    ... ).fit(X, y)
    >>> calibrated.predict_proba(X[:1]).shape
    (1, 3)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = 5,
        response_method: ResponseMethod = "auto",
        min_proba: MinProba = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.response_method = response_method
        self.min_proba = min_proba
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, **params: Any) -> Self:
        """Fit the classifier to all rows.

        If the logits come from probabilities, ``min_proba="auto"`` also fits the classifier across
        folds, as :meth:`fit_transform` does. For a single fit pass a number.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_labels)
            Labels.
        **params
            Arguments of the classifier's ``fit``, such as ``sample_weight``; ``groups`` goes to
            the splitter. With metadata routing, the arguments that each of the two requests.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError
            If ``estimator`` is not a classifier or has neither method, is frozen but not fitted, if
            ``y`` holds fewer than two classes, or if it has several labels per row and the
            classifier takes one.
        """
        arguments = self._checked_arguments("fit", X, y, params)
        response = arguments.response
        if response.min_proba is None:
            self.fit_transform(X, y, **params)
            return self
        return self._fit_to_all_rows(arguments, response, y)

    def fit_transform(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Floats:
        """Fit the classifier to all rows; return their held-out logits.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_labels)
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
            As for :meth:`fit`; if there are fewer rows of each class than folds, if the splitter
            needs ``groups`` and there are none, if the training rows of a split hold a single
            class, or if some row is in no test set.
        """
        arguments = self._checked_arguments("fit_transform", X, y, params)
        splits = self._splits(arguments)
        parts, response = held_out(self.estimator, arguments, splits, self.n_jobs)
        self._fit_to_all_rows(arguments, response, y)
        known = self.classes_ if self.multilabel_ else classes_of(self.estimator_)
        Z = averaged(parts, known, len(arguments.y), response)
        return as_kind_of(self._in_order(Z, known), X)

    def _splits(self, arguments: FitArguments) -> list[Split]:
        """Splits that put every row into a test set; none for a frozen classifier."""
        if isinstance(self.estimator, FrozenEstimator):
            return []
        splits = splits_of(self.cv, arguments)
        held = np.isin(np.arange(len(arguments.y)), np.concatenate([test for _, test in splits]))
        if not held.all():
            raise ValueError(
                "fit_transform needs cv to put every row into a test set, got "
                f"{np.count_nonzero(~held)} of {len(held)} rows that are in none. "
                "CalibratedClassifier takes such splits."
            )
        return splits

    def _fit_to_all_rows(self, arguments: FitArguments, response: Response, y: Any) -> Self:
        """The transformer with a classifier fitted to all rows.

        Columns are in the order that a calibrator expects as the next step of a pipeline: ordered
        categories of ``y``, or sorted labels.
        """
        X, labels, _, fit_params, _ = arguments
        estimator = self.estimator
        if not isinstance(estimator, FrozenEstimator):
            estimator = fit_classifier(estimator, X, labels, **fit_params)
        self._take_over_features(estimator)
        self._store_response(estimator, response)
        self.estimator_ = estimator
        if self.multilabel_:
            self.classes_ = np.arange(labels.shape[1])
            return self
        known, categories = classes_of(estimator), ordered_categories(y)
        self.classes_ = np.sort(known)
        if categories is not None:
            self.classes_ = categories[np.isin(categories, known)]
        return self

    def _in_order(self, Z: Floats, known: Array) -> Floats:
        """Logits with the columns of classes ``known`` in the order of ``classes_``."""
        if np.array_equal(known, self.classes_):
            return Z
        return -Z if Z.shape[1] == 1 else Z[:, encode(self.classes_, known)]

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
            ``decision_function`` a single column with the margin of ``classes_[1]``. One column of
            log-odds for each of several labels per row.
        """
        check_fitted(self)
        Z = self._logits(self.estimator_, X)
        if not self.multilabel_:
            Z = self._in_order(Z, classes_of(self.estimator_))
        return as_kind_of(Z, X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:  # noqa: ARG002
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
        check_fitted(self)
        margin = self.response_method_ == "decision_function" and not self.multilabel_
        labels = self.classes_[1:] if margin and len(self.classes_) == 2 else self.classes_
        return np.array([f"logit_{label}" for label in labels.tolist()], dtype=object)

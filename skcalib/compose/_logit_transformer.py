"""Logits of a classifier as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.frozen import FrozenEstimator

from skcalib._input.arrays import as_kind_of
from skcalib._input.classes import ordered_categories
from skcalib._input.estimators import check_fitted
from skcalib._input.labels import encode
from skcalib._typing import Array, ArrayLike, Floats, Split

from ._folds import averaged, classifier_splits, held_out
from ._over_classifier import (
    FitArguments,
    MinProba,
    Response,
    ResponseMethod,
    _OverClassifier,
    fit_classifier,
    fitted_classes,
)


class LogitTransformer(TransformerMixin, _OverClassifier):
    r"""Transformer of features to the logits of a classifier.

    Logits are the output of ``decision_function``, such as SVM margins or raw scores of boosted
    trees, the output of ``predict_logits``, or the logarithm of ``predict_proba``,
    :math:`z_{ik} = \log p_{ik}`. The next step of a pipeline can be a calibrator.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``. Wrap a fitted classifier in
        :class:`~sklearn.frozen.FrozenEstimator` if it must not be refitted.
    cv : int, splitter or iterable of splits, default=5
        Splits for cross-fitting: ``fit_transform`` returns *held-out* logits, from copies of the
        classifier that were not fitted on the row. ``transform`` always uses the classifier fitted
        on all rows. An integer is the number of stratified folds, which keep ``groups`` together if
        there are any. With several labels per row, folds are consecutive rows. Ignored for a frozen
        classifier: pass rows that it was not fitted on.
    response_method : str, default="auto"
        Source of the logits: "decision_function", "predict_logits" or "predict_proba". "auto" is
        the first of these that the classifier has. It skips "decision_function" if the parameter
        ``decision_function_shape`` is "ovo". The source is never inferred from values.
    min_proba : float or "auto", default="auto"
        Lower bound for probabilities before the logarithm, the same for all classes. "auto" is
        1e-15, unless some held-out probabilities are zero. Then it is half the smallest positive
        held-out probability, but at least 1e-15. Classifiers that count votes, such as forests and
        nearest neighbours, return zeros that mean "less than one vote": the bound is half a vote.
    n_jobs : int, default=None
        Number of splits that are fitted in parallel.

    Attributes
    ----------
    estimator_ : classifier
        Classifier fitted on all rows.
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the logits: sorted, or the categories of ``y`` if they are ordered.
        Column numbers for several labels per row.
    response_method_ : str
        Method that returns the logits.
    min_proba_ : float
        Lower bound for probabilities before the logarithm.
    multilabel_ : bool
        Whether rows have several labels.
    n_features_in_ : int
        Number of features, if the classifier has this attribute.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier has this attribute.

    Warns
    -----
    UserWarning
        If the training rows in a split lack a class.

    See Also
    --------
    CalibratedClassifier : A classifier and a calibrator as one classifier.
    MultiLabelCalibrator : A calibrator for the log-odds of several labels.
    sklearn.preprocessing.TargetEncoder : Also fits across folds in ``fit_transform``.

    Notes
    -----
    With several labels per row, ``y`` is an indicator matrix, dense or sparse, and the logits are
    one column of log-odds, :math:`\log(p / (1 - p))`, for each label.

    If the training rows in a split lack a class, it gets the probability ``min_proba`` in the test
    rows. If a row is in several test sets, its logits are averaged.

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
            Features for the classifier.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_labels)
            Labels.
        **params
            Arguments for the classifier's ``fit``, such as ``sample_weight``; ``groups`` goes to
            the splitter. With metadata routing, the arguments that classifier and splitter request.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError
            If ``estimator`` is not a classifier, has no method for logits, or is frozen but not
            fitted. If ``y`` contains fewer than two classes, or several labels per row for a
            classifier that accepts one.
        """
        arguments = self._checked_arguments("fit", X, y, params)
        response = arguments.response
        if response.min_proba is None:
            self.fit_transform(X, y, **params)
            return self
        return self._fit_to_all_rows(arguments, response, y)

    def fit_transform(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Floats:
        """Fit the classifier to all rows, and return their held-out logits.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features for the classifier.
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
            As for :meth:`fit`. Also if all classes have fewer rows than there are folds, the
            training rows in a split are all in one class, a row is in no test set, or the splitter
            needs ``groups``.
        """
        arguments = self._checked_arguments("fit_transform", X, y, params)
        splits = self._splits(arguments)
        parts, response = held_out(self.estimator, arguments, splits, self.n_jobs)
        self._fit_to_all_rows(arguments, response, y)
        classes = self.classes_ if self.multilabel_ else fitted_classes(self.estimator_)
        Z = averaged(parts, classes, len(arguments.y), response)
        return as_kind_of(self._in_order(Z, classes), X)

    def _splits(self, arguments: FitArguments) -> list[Split]:
        """Return splits that put every row into a test set; none for a frozen classifier."""
        if isinstance(self.estimator, FrozenEstimator):
            return []
        splits = classifier_splits(self.cv, arguments)
        is_test = np.isin(np.arange(len(arguments.y)), np.concatenate([test for _, test in splits]))
        if not is_test.all():
            raise ValueError(
                "fit_transform needs cv to put every row into a test set, got "
                f"{np.count_nonzero(~is_test)} of {len(is_test)} rows that are in none. "
                "Use CalibratedClassifier for splits that leave rows out."
            )
        return splits

    def _fit_to_all_rows(self, arguments: FitArguments, response: Response, y: Any) -> Self:
        """Fit the classifier to all rows, and store it.

        ``classes_`` is the order that a calibrator expects as the next step of a pipeline: ordered
        categories of ``y``, or sorted labels.
        """
        estimator, labels = self.estimator, arguments.y
        if not isinstance(estimator, FrozenEstimator):
            estimator = fit_classifier(estimator, arguments.X, labels, **arguments.fit_params)
        self._take_over_features(estimator)
        self._store_response(estimator, response)
        self.estimator_ = estimator
        if self.multilabel_:
            self.classes_ = np.arange(labels.shape[1])
            return self
        classes, categories = fitted_classes(estimator), ordered_categories(y)
        self.classes_ = np.sort(classes)
        if categories is not None:
            self.classes_ = categories[np.isin(categories, classes)]
        return self

    def _in_order(self, Z: Floats, classes: Array) -> Floats:
        """Sort the columns of logits from the order ``classes`` to the order ``classes_``."""
        if np.array_equal(classes, self.classes_):
            return Z
        return -Z if Z.shape[1] == 1 else Z[:, encode(self.classes_, classes)]

    def transform(self, X: Any) -> Floats:
        """Return the logits of the classifier fitted on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features for the classifier.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, 1)
            One column per class, ordered as ``classes_``. For two classes and
            ``decision_function`` a single column, the margin of ``classes_[1]``. With several
            labels per row, one column of log-odds per label.
        """
        check_fitted(self)
        Z = self._logits(self.estimator_, X)
        if not self.multilabel_:
            Z = self._in_order(Z, fitted_classes(self.estimator_))
        return as_kind_of(Z, X)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:  # noqa: ARG002
        """Return the names of the columns of logits: ``logit_`` and the label.

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

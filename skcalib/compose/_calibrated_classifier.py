"""A classifier with a calibrator, fitted by cross-fitting."""

from __future__ import annotations

from itertools import cycle
from typing import Any, Literal, Self

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import has_fit_parameter

from skcalib._inner import checks, fits
from skcalib._input.arrays import as_kind_of, as_numpy
from skcalib._input.classes import ordered_categories
from skcalib._input.features import named_columns, taken
from skcalib._input.logits import check_weights
from skcalib._input.rows import check_fitted
from skcalib._rows import Array, ArrayLike, Floats, on_host
from skcalib._warnings import warn
from skcalib.conditional import ConditionalCalibrator
from skcalib.meta._multilabel import MultiLabelCalibrator
from skcalib.scaling._uncalibrated import unless_passthrough
from skcalib.selection import AutoCalibrator

from ._folds import CalibrationSet, calibration_set, held_out, splits_of
from ._over_classifier import (
    FitArguments,
    MinProba,
    Response,
    ResponseMethod,
    _OverClassifier,
    classes_of,
    fit_classifier,
)


class CalibratedClassifier(ClassifierMixin, _OverClassifier):
    """A classifier with calibrated probabilities, fitted across folds.

    The classifier is fitted to the training rows of each split, and a calibrator to the logits of
    the test rows of all splits. It calibrates each of these classifiers, and their calibrated
    probabilities are averaged; or with ``ensemble=False`` the classifier fitted to all rows.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``. In a
        :class:`~sklearn.frozen.FrozenEstimator` it is not fitted, and the calibrator is fitted to
        all rows. The classifier must then not have been fitted on these rows.
    calibrator : calibrator, default=None
        Any estimator with ``fit`` and ``predict_proba`` that takes logits, also a pipeline of
        calibrators. None stands for :class:`AutoCalibrator`, which combines several; for the
        calibration of large networks, or for speed, pass ``TemperatureScaling()``. "passthrough"
        stands for :class:`Uncalibrated`. For several labels per row None stands for
        :class:`MultiLabelCalibrator`, and calibrators of two classes are fitted to each label.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows for cross-fitting. An integer is the number of stratified folds, of
        whole groups if there are ``groups``; for several labels per row, folds have consecutive
        rows. Ignored for a frozen classifier.
    ensemble : bool or "auto", default="auto"
        Which classifiers predict. "auto" averages the classifiers of all splits, with one
        calibrator. False fits another classifier to all rows, which predicts alone; so does "auto"
        if the classifier takes kernels, or if the training rows of a split lack a class or label.
        True fits a calibrator for each split to its test rows only, as scikit-learn does. A frozen
        classifier predicts alone.
    response_method : str, default="auto"
        Where logits come from, as in :class:`LogitTransformer`.
    min_proba : float or "auto", default="auto"
        The smallest probability to take the logarithm of, as in :class:`LogitTransformer`.
    n_jobs : int, default=None
        Number of splits that are fitted in parallel.
    method : None, default=None
        Not used. A name, as for scikit-learn's ``CalibratedClassifierCV``, leads to an error in
        ``fit`` with the calibrator to pass.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the probabilities; the numbers of several labels per row.
    estimators_ : list of classifiers
        The fitted classifiers: one for each split, or one for all rows.
    calibrators_ : list of calibrators
        The fitted calibrators: one, or with ``ensemble=True`` one for each split.
    response_method_ : str
        Method that logits come from.
    min_proba_ : float
        The smallest probability that the logarithm is taken of.
    multilabel_ : bool
        Whether rows have several labels.
    n_features_in_ : int
        Number of features, if the classifier has this attribute.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the classifier has this attribute.

    Warns
    -----
    UserWarning
        If the training rows of a split lack a class, or if there are weights that the classifier
        does not accept.

    See Also
    --------
    LogitTransformer : The same as a step of a pipeline.
    MultiLabelCalibrator : The calibrator of several labels per row.
    sklearn.calibration.CalibratedClassifierCV : For three methods of scikit-learn. Its methods
        "sigmoid", "isotonic" and "temperature" are the calibrators ``PlattScaling()``,
        ``IsotonicCalibration()`` and ``TemperatureScaling()``.

    Notes
    -----
    If the training rows of a split lack a class, the test rows of this class do not count in the
    fit of the calibrator. A row in several test sets counts in each, with its weight divided among
    them.

    For classifiers of several labels per row, ``y`` is an indicator matrix, dense or sparse, and
    the probabilities of a row do not sum to one. Predictions are indicators of the labels with a
    probability above 0.5.

    With scikit-learn's ``array_api_dispatch``, features may be tensors, and outputs are tensors on
    the same device. A frozen classifier receives the tensors, and any other classifier a copy in
    NumPy. Calibrators compute on the host.

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
        ensemble: bool | Literal["auto"] = "auto",
        response_method: ResponseMethod = "auto",
        min_proba: MinProba = "auto",
        n_jobs: int | None = None,
        method: None = None,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv
        self.ensemble = ensemble
        self.response_method = response_method
        self.min_proba = min_proba
        self.n_jobs = n_jobs
        self.method = method

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        features: Any = None,
        **params: Any,
    ) -> Self:
        """Fit classifiers and calibrators.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_labels)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            For the calibrator, and for the classifier if it takes weights.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            For a calibrator with predictions that depend on features, such as
            :class:`ConditionalCalibrator`: some columns of ``X``, or others.
        **params
            Arguments of the classifier's ``fit``; ``groups`` goes to the splitter, and to a
            calibrator that takes groups. With metadata routing, the arguments that classifier and
            splitter request.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        ValueError
            If ``estimator`` is not a classifier or has neither method, is frozen but not fitted, or
            takes one label per row where there are several or the reverse, if ``calibrator`` is not
            one, if ``y`` holds fewer than two classes or fewer rows of each class than there are
            folds, if the splitter needs ``groups`` and there are none, if the training rows of a
            split hold a single class, if the test rows hold a single class (with ``ensemble=True``,
            the test rows of each split), or if ``ensemble`` has another value.
        """
        order, y = ordered_categories(y), as_numpy(y, "y")
        w = None if sample_weight is None else check_weights(sample_weight, np.shape(y)[0])
        calibrator = self.calibrator if self.method is None else self.method
        if calibrator is None:
            calibrator = AutoCalibrator() if features is None else ConditionalCalibrator()
        calibrator = unless_passthrough(calibrator)
        checks.check_calibrator(calibrator, w)
        if self.method is not None:
            raise ValueError(f"method is not used, got {self.method!r}. Pass it as calibrator.")
        self._check_ensemble()
        arguments = self._checked_arguments("fit", X, y, {**params, **self._weights(w)}, w)
        if arguments.response.multilabel:
            classes = np.arange(arguments.y.shape[1])
            if not checks.takes_several_labels(calibrator):
                calibrator = MultiLabelCalibrator(self.calibrator, n_jobs=self.n_jobs)
        else:
            frozen = isinstance(self.estimator, FrozenEstimator)
            classes = classes_of(self.estimator) if frozen else np.unique(arguments.y)
            checks.check_order(calibrator, classes)
        if features is not None:
            self._check_features(calibrator, features, len(arguments.y))
        sets, response = self._calibration_sets(arguments, w)
        self.calibrators_ = [
            self._fitted(calibrator, one, arguments, features, order) for one in sets
        ]
        self.estimators_ = [estimator for one in sets for estimator in one.estimators]
        self._take_over_features(self.estimators_[0])
        self._store_response(self.estimators_[0], response)
        self.classes_ = classes
        return self

    def _check_ensemble(self) -> None:
        """Raise a ValueError for another value, or if all classifiers cannot predict a row."""
        if self.ensemble not in ("auto", True, False):
            raise ValueError(f"ensemble must be 'auto', True or False, got {self.ensemble!r}.")
        frozen = isinstance(self.estimator, FrozenEstimator)
        if self.ensemble is True and not frozen and get_tags(self.estimator).input_tags.pairwise:
            raise ValueError(
                "ensemble=True needs a classifier of features, got one of kernels or distances "
                "between rows, which each split has other rows for. Pass ensemble='auto'."
            )

    @staticmethod
    def _check_features(calibrator: Any, features: Any, n_rows: int) -> None:
        """Raise a ValueError for features of other rows, or that the calibrator does not take."""
        if not has_fit_parameter(calibrator, "features"):
            raise ValueError(
                "features are for a calibrator with predictions that depend on them, got "
                f"{calibrator!r}. Leave them out, or use calibrator=ConditionalCalibrator(), for "
                "one label per row."
            )
        named_columns(features, n_rows)

    def _fitted(
        self,
        calibrator: Any,
        one: CalibrationSet,
        arguments: FitArguments,
        features: Any,
        order: Array | None,
    ) -> Any:
        """A copy of the calibrator, fitted to held-out logits."""
        estimators, Z, rows, w = one
        y = arguments.y[rows]
        groups = arguments.split_params.get("groups")
        if groups is not None:
            groups = groups[rows]
        elif len(np.unique(rows)) < len(rows):  # logits of a row in several test sets
            groups = rows
        classes = None if arguments.response.multilabel else classes_of(estimators[0])
        params = {} if features is None else {"features": taken(features, rows)}
        return fits.fit_calibrator(
            calibrator, Z, y, w, classes, groups=groups, order=order, **params
        )

    def _weights(self, w: Floats | None) -> dict[str, Any]:
        """Weights as an argument, where the classifier takes one or routing decides."""
        if w is None or isinstance(self.estimator, FrozenEstimator):
            return {}
        routing = get_config()["enable_metadata_routing"]
        if routing or has_fit_parameter(self.estimator, "sample_weight"):
            return {"sample_weight": w}
        warn(
            f"{type(self.estimator).__name__} has no parameter sample_weight in fit: only the "
            "calibrator uses the weights. If a step of it has one, enable scikit-learn's metadata "
            "routing."
        )
        return {}

    def _calibration_sets(
        self, arguments: FitArguments, w: Floats | None
    ) -> tuple[list[CalibrationSet], Response]:
        """Held-out logits for each calibrator, and the source of the logits."""
        X, y, _, fit_params, _ = arguments
        if isinstance(self.estimator, FrozenEstimator):
            [part], response = held_out(self.estimator, arguments, [], None, w)
            return [CalibrationSet([self.estimator], part.logits, part.rows, w)], response
        each = self.ensemble not in (False, "auto")
        # Kernels are between new rows and those that one classifier was fitted to.
        shared = self.ensemble == "auto" and not get_tags(self.estimator).input_tags.pairwise
        splits = splits_of(self.cv, arguments, w=w, each=each)
        parts, response = held_out(self.estimator, arguments, splits, self.n_jobs, w)
        if each:
            pairs = [([part.estimator], [part]) for part in parts]
        elif shared and all(part.knows_all_of(y) for part in parts):
            pairs = [([part.estimator for part in parts], parts)]
        else:
            pairs = [([fit_classifier(self.estimator, X, y, **fit_params)], parts)]
        return [calibration_set(*pair, y, response, w) for pair in pairs], response

    @property
    def estimator_(self) -> Any:
        """The fitted classifier, unless there are several."""
        return self._only("estimators_")

    @property
    def calibrator_(self) -> Any:
        """The fitted calibrator, unless there are several."""
        return self._only("calibrators_")

    def __getattr__(self, name: str) -> Any:
        if name in ("estimator_", "calibrator_"):  # the property has raised an AttributeError
            return self._only(f"{name[:-1]}s_")
        if name in ("calibrated_classifiers_", "feature_importances_", "coef_", "intercept_"):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: the fitted classifiers are in estimators_, "
                "and the calibrators in calibrators_. Take the mean over classifiers, as in "
                "np.mean([e.feature_importances_ for e in model.estimators_], axis=0)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _only(self, name: str) -> Any:
        several = vars(self).get(name, [])
        if len(several) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name[:-2]}_: "
                + (f"there are {len(several)}, in {name}." if several else "it is not fitted.")
            )
        return several[0]

    def predict_proba(self, X: Any, *, features: Any = None) -> Floats:
        """Calibrated probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Those of the calibrator, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``.
        """
        return as_kind_of(self._probabilities(X, features), X)

    def _probabilities(self, X: Any, features: Any) -> Floats:
        check_fitted(self)
        total: Any = 0
        params = {} if features is None else {"features": features}
        if params and not checks.features_argument(self.calibrators_[0], features):
            raise ValueError(
                f"features are for a calibrator that was fitted with features, got them for "
                f"{self.calibrators_[0]!r}. Leave them out, or fit again with features."
            )
        # A single calibrator is for all classifiers.
        for estimator, calibrator in zip(self.estimators_, cycle(self.calibrators_), strict=False):
            P = calibrator.predict_proba(self._logits(estimator, X), **params)
            known = getattr(calibrator, "classes_", None)
            known = classes_of(estimator) if known is None else np.asarray(on_host(known))
            total = total + fits.with_unknown_classes(P, known, self.classes_)
        return total / len(self.estimators_)

    def predict_log_proba(self, X: Any, *, features: Any = None) -> Floats:
        """Logarithm of the calibrated probabilities, always finite.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Those of the calibrator, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        P = self._probabilities(X, features)
        return as_kind_of(np.log(np.maximum(P, np.finfo(P.dtype).tiny)), X)

    def predict(self, X: Any, *, features: Any = None) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features, as the classifier takes them.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Those of the calibrator, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``; for several labels per row an indicator matrix.
        """
        check_fitted(self)
        P = self._probabilities(X, features)
        if getattr(self, "multilabel_", False):
            return as_kind_of((P > 0.5).astype(np.intp), X)
        return as_kind_of(self.classes_[P.argmax(axis=1)], X)

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which arguments of ``fit`` go to the classifier and which to the splitter.

        Returns
        -------
        MetadataRouter
            As for scikit-learn's meta-estimators.
        """
        return super().get_metadata_routing().add_self_request(self)

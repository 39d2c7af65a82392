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

from skcalib._fits import fit_calibrator
from skcalib._input.arrays import as_kind_of, as_numpy, named_columns, on_host, taken
from skcalib._input.classes import ordered_categories, with_unknown_classes
from skcalib._input.estimators import (
    check_calibrator,
    check_fitted,
    check_order,
    features_argument,
    takes_several_labels,
)
from skcalib._input.logits import check_weights
from skcalib._rows import namespace
from skcalib._rows.arrays import softmax
from skcalib._typing import Array, ArrayLike, Floats
from skcalib._warnings import warn
from skcalib.conditional import ConditionalCalibrator
from skcalib.meta._multilabel import MultiLabelCalibrator
from skcalib.scaling._temperature import unless_passthrough
from skcalib.selection import AutoCalibrator

from ._folds import CalibrationSet, calibration_set, classifier_splits, held_out
from ._over_classifier import (
    FitArguments,
    MinProba,
    Response,
    ResponseMethod,
    _OverClassifier,
    fit_classifier,
    fitted_classes,
)


class CalibratedClassifier(ClassifierMixin, _OverClassifier):
    """Classifier with calibrated probabilities, fitted across folds.

    A copy of the classifier is fitted to the training rows of each split, and a calibrator to the
    held-out logits from all splits. A prediction averages the calibrated probabilities of the
    copies. With ``ensemble=False`` it uses one classifier, which is refitted to all rows.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``decision_function`` or ``predict_proba``. In a
        :class:`~sklearn.frozen.FrozenEstimator` it is not fitted, and the calibrator is fitted to
        all rows. The classifier must then not have been fitted on these rows.
    calibrator : calibrator, default=None
        Any estimator with ``fit`` and ``predict_proba``, which is fitted to logits: a calibrator, a
        pipeline of calibrators, or a classifier of scikit-learn with logits as its features.
        None means :class:`AutoCalibrator`, which combines several calibrators. For large networks,
        or for speed, pass ``TemperatureScaling()``. "passthrough" means :class:`Uncalibrated`. For
        several labels per row, None means :class:`MultiLabelCalibrator`, and a calibrator for two
        classes is fitted to each label.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows for cross-fitting. An integer is the number of stratified folds, which
        keep ``groups`` together if there are any. With several labels per row, folds are
        consecutive rows. Ignored for a frozen classifier.
    ensemble : bool or "auto", default="auto"
        Which classifiers predict. "auto" takes the classifiers from all splits, with one
        calibrator, and the normalized geometric mean of their probabilities. False refits one
        classifier on all rows and uses it alone. "auto" does the same if the classifier is fitted
        to a kernel matrix, or if the training rows in a split lack a class or label. True fits a
        calibrator for each split to its test rows only, and takes the arithmetic mean, as
        scikit-learn does. A frozen classifier is always used alone.
    response_method : str, default="auto"
        Source of the logits, as in :class:`LogitTransformer`.
    min_proba : float or "auto", default="auto"
        Lower bound for probabilities before the logarithm, as in :class:`LogitTransformer`.
    n_jobs : int, default=None
        Number of splits that are fitted in parallel.
    method : None, default=None
        Not used. If it is a name, as for scikit-learn's ``CalibratedClassifierCV``, ``fit`` raises
        an error that says which calibrator to pass.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in the order of the probabilities; column numbers for several labels per row.
    estimators_ : list of classifiers
        The fitted classifiers: one per split, or one for all rows.
    calibrators_ : list of calibrators
        The fitted calibrators: one, or with ``ensemble=True`` one per split.
    estimator_ : classifier
        The fitted classifier, unless there are several.
    calibrator_ : calibrator
        The fitted calibrator, unless there are several.
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
        If the training rows in a split lack a class, or if there are weights that the classifier
        does not accept.

    See Also
    --------
    LogitTransformer : The same as a step of a pipeline.
    MultiLabelCalibrator : Calibrator for several labels per row.
    sklearn.calibration.CalibratedClassifierCV : Three methods. Its "sigmoid", "isotonic" and
        "temperature" are ``PlattScaling()``, ``IsotonicCalibration()`` and
        ``TemperatureScaling()``.

    Notes
    -----
    If the training rows in a split lack a class, the calibrator ignores the test rows of this
    class. If a row is in several test sets, its weight is divided among them.

    With several labels per row, ``y`` is an indicator matrix, dense or sparse, and the
    probabilities of a row do not sum to one. ``predict`` returns indicators: 1 for probabilities
    above 0.5.

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
            Features for the classifier.
        y : array-like of shape (n_samples,), or indicator matrix of shape (n_samples, n_labels)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights for the calibrator, and for the classifier if it accepts weights.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features for a calibrator with predictions that depend on them, such as
            :class:`ConditionalCalibrator`: columns of ``X``, or others.
        **params
            Arguments for the classifier's ``fit``. ``groups`` goes to the splitter, and to a
            calibrator that accepts groups. With metadata routing, the arguments that classifier and
            splitter request.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        ValueError
            If ``estimator`` is not a classifier, has no method for logits, or is frozen but not
            fitted. If ``y`` contains fewer than two classes, fewer rows per class than folds, or
            does not suit the classifier (one or several labels per row). If the training rows of a
            split, or the test rows, are all in one class. With ``ensemble=True`` this includes the
            test rows of every split. If ``calibrator`` or ``ensemble`` is invalid, or the splitter
            needs ``groups``.
        """
        order, y = ordered_categories(y), as_numpy(y, "y")
        w = None if sample_weight is None else check_weights(sample_weight, np.shape(y)[0])
        calibrator = self.calibrator if self.method is None else self.method
        if calibrator is None:
            calibrator = AutoCalibrator() if features is None else ConditionalCalibrator()
        calibrator = unless_passthrough(calibrator)
        check_calibrator(calibrator, w)
        if self.method is not None:
            raise ValueError(f"method is not used, got {self.method!r}. Pass it as calibrator.")
        self._check_ensemble()
        arguments = self._checked_arguments("fit", X, y, {**params, **self._weights(w)}, w)
        if arguments.response.multilabel:
            classes = np.arange(arguments.y.shape[1])
            if not takes_several_labels(calibrator):
                calibrator = MultiLabelCalibrator(self.calibrator, n_jobs=self.n_jobs)
        else:
            frozen = isinstance(self.estimator, FrozenEstimator)
            classes = fitted_classes(self.estimator) if frozen else np.unique(arguments.y)
            check_order(calibrator, classes)
        if features is not None:
            self._check_features(calibrator, features, len(arguments.y))
        sets, response = self._calibration_sets(arguments, w)
        self.calibrators_ = [
            self._fit_calibrator(calibrator, part, arguments, features, order) for part in sets
        ]
        self.estimators_ = [estimator for part in sets for estimator in part.estimators]
        self._take_over_features(self.estimators_[0])
        self._store_response(self.estimators_[0], response)
        self.classes_ = classes
        return self

    def _check_ensemble(self) -> None:
        """Raise a ValueError if ``ensemble`` is invalid, or the classifiers need kernels."""
        if self.ensemble not in ("auto", True, False):
            raise ValueError(
                f"ensemble must be 'auto', True or False, got {self.ensemble!r}. Pass one of these."
            )
        frozen = isinstance(self.estimator, FrozenEstimator)
        if self.ensemble is True and not frozen and get_tags(self.estimator).input_tags.pairwise:
            raise ValueError(
                "ensemble=True needs a classifier of features, got a classifier of kernels or "
                "distances, which differ between splits. Pass ensemble='auto'."
            )

    @staticmethod
    def _check_features(calibrator: Any, features: Any, n_rows: int) -> None:
        """Raise a ValueError if features have other rows, or the calibrator accepts none."""
        if not has_fit_parameter(calibrator, "features"):
            raise ValueError(
                "features are for a calibrator with predictions that depend on them, got "
                f"{calibrator!r}. Leave them out, or use calibrator=ConditionalCalibrator(), for "
                "one label per row."
            )
        named_columns(features, n_rows)

    def _fit_calibrator(
        self,
        calibrator: Any,
        part: CalibrationSet,
        arguments: FitArguments,
        features: Any,
        order: Array | None,
    ) -> Any:
        """Fit a copy of the calibrator to held-out logits.

        ``features`` are (n_samples, n_columns) or None, ``order`` labels (n_classes,) or None.
        """
        estimators, Z, rows, w = part
        y = arguments.y[rows]
        groups = arguments.split_params.get("groups")
        if groups is not None:
            groups = groups[rows]
        elif len(np.unique(rows)) < len(rows):  # folds keep the copies of a row together
            groups = rows
        classes = None if arguments.response.multilabel else fitted_classes(estimators[0])
        params = {} if features is None else {"features": taken(features, rows)}
        return fit_calibrator(calibrator, Z, y, w, classes, groups=groups, order=order, **params)

    def _weights(self, w: Floats | None) -> dict[str, Any]:
        """Return weights as an argument of the classifier's ``fit``, if it accepts them."""
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
        """Return held-out logits for each calibrator, and the source of the logits."""
        if isinstance(self.estimator, FrozenEstimator):
            [part], response = held_out(self.estimator, arguments, [], None, w)
            return [CalibrationSet([self.estimator], part.logits, part.rows, w)], response
        per_split = self.ensemble not in (False, "auto")
        # A kernel matrix for new rows refers to the training rows of a single classifier.
        shared = self.ensemble == "auto" and not get_tags(self.estimator).input_tags.pairwise
        splits = classifier_splits(self.cv, arguments, w=w, per_split=per_split)
        parts, response = held_out(self.estimator, arguments, splits, self.n_jobs, w)
        if per_split:
            pairs = [([part.estimator], [part]) for part in parts]
        elif shared and all(part.knows_all(arguments.y) for part in parts):
            pairs = [([part.estimator for part in parts], parts)]
        else:
            refitted = fit_classifier(
                self.estimator, arguments.X, arguments.y, **arguments.fit_params
            )
            pairs = [([refitted], parts)]
        return [calibration_set(*pair, arguments.y, response, w) for pair in pairs], response

    def __getattr__(self, name: str) -> Any:
        if name in ("estimator_", "calibrator_"):  # the only one
            members = vars(self).get(f"{name[:-1]}s_", [])
            if len(members) == 1:
                return members[0]
            reason = (
                f"there are {len(members)}, in {name[:-1]}s_" if members else "it is not fitted"
            )
            raise AttributeError(f"{type(self).__name__} has no {name}: {reason}.")
        if name in ("calibrated_classifiers_", "feature_importances_", "coef_", "intercept_"):
            raise AttributeError(
                f"{type(self).__name__} has no {name}: the fitted classifiers are in estimators_, "
                "and the calibrators in calibrators_. Take the mean over classifiers, as in "
                "np.mean([e.feature_importances_ for e in model.estimators_], axis=0)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """Return the names of attributes for tab completion, also of computed attributes."""
        computed = [name for name in ("estimator_", "calibrator_") if hasattr(self, name)]
        return [*super().__dir__(), *computed]

    def predict_proba(self, X: Any, *, features: Any = None) -> Floats:
        """Return the calibrated probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features for the classifier.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features for the calibrator, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class, ordered as ``classes_``.
        """
        return as_kind_of(self._probabilities(X, features), X)

    def _probabilities(self, X: Any, features: Any) -> Floats:
        check_fitted(self)
        members = []
        params = {} if features is None else {"features": features}
        if params and not features_argument(self.calibrators_[0], features):
            raise ValueError(
                f"features are for a calibrator that was fitted with features, got them for "
                f"{self.calibrators_[0]!r}. Leave them out, or fit again with features."
            )
        # cycle: a single calibrator serves all classifiers.
        for estimator, calibrator in zip(self.estimators_, cycle(self.calibrators_), strict=False):
            P = calibrator.predict_proba(self._logits(estimator, X), **params)
            classes = getattr(calibrator, "classes_", None)
            classes = fitted_classes(estimator) if classes is None else np.asarray(on_host(classes))
            members.append(with_unknown_classes(P, classes, self.classes_))
        return self._average(members)

    def _average(self, members: list[Any]) -> Any:
        """Average probabilities (n, K) of the classifiers."""
        if len(members) == 1 or self.ensemble is True:
            return sum(members) / len(members)
        if not self.multilabel_:
            return _geometric_mean(members)
        both = [np.stack([1 - P, P], axis=-1).reshape(-1, 2) for P in members]
        return _geometric_mean(both)[:, 1].reshape(members[0].shape)

    def predict_log_proba(self, X: Any, *, features: Any = None) -> Floats:
        """Return the logarithms of the calibrated probabilities, always finite.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features for the classifier.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features for the calibrator, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        P = self._probabilities(X, features)
        return as_kind_of(np.log(np.maximum(P, np.finfo(P.dtype).tiny)), X)

    def predict(self, X: Any, *, features: Any = None) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Features for the classifier.
        features : array-like or data frame of shape (n_samples, n_columns), optional
            Features for the calibrator, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels in ``classes_``; for several labels per row an indicator matrix.
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


def _geometric_mean(members: list[Any]) -> Any:
    """Return the normalized geometric mean of several probabilities (m, K).

    A probability counts as at least 1e-16 times the arithmetic mean, so that a single member cannot
    exclude a class.
    """
    xp = namespace(members[0])
    lowest = sum(members) * (1e-16 / len(members))
    with np.errstate(divide="ignore"):  # log(0) if all members exclude a class
        return softmax(sum(xp.log(xp.maximum(P, lowest)) for P in members) / len(members))

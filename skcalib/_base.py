"""Base class of all calibrators: validation of the input, classes and outputs.

It is meant to stay small: think twice before adding anything to it.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skcalib._rows import Array, Floats, Rows, arrays, map_blocks
from skcalib._rows.arrays import on_host
from skcalib._rows.dask import collection_row, map_collection
from skcalib._rows.inputs import as_array, as_numpy, checked_rows
from skcalib._validation import inputs, labels

from ._version import Versioned


class BaseCalibrator(
    Versioned, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Base of all calibrators: logits in, calibrated logits and probabilities out.

    A calibrator implements :meth:`_fit`, which turns checked arrays into fitted attributes, and
    :meth:`_calibrate`, which turns a block of logits into calibrated logits of the same shape.
    """

    # Whether masked classes are supported, which requires a separate map of each class.
    _takes_masked: ClassVar[bool] = True
    # Whether the order of the classes in each row, and so the accuracy, is preserved.
    _keeps_order: ClassVar[bool] = False
    # Whether ``predict`` returns the class of the largest logit even if another is more probable.
    _keeps_predictions: ClassVar[bool] = False
    # Whether _calibrate takes tensors and computes in their library; else it is given a copy on the
    # host.
    _on_device: ClassVar[bool] = False

    def __init__(self, *, classes: ArrayLike | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _fit(self, rows: Rows) -> dict[str, Any]:
        """Fitted attributes by name, from rows of logits, class indices and positive weights.

        A logit of -inf masks the class in its row, and is never the logit of the label.
        """

    @abstractmethod
    def _calibrate(self, Z: Floats) -> Floats:
        """Calibrated logits of a block of finite logits, of the same shape and dtype.

        If there is a fitted ``smoothing_``, the base class mixes their probabilities with the
        uniform distribution.
        """

    # Searches with metadata routing pass groups on without set_fit_request.
    __metadata_request__fit: ClassVar = {"groups": True}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,  # noqa: ARG002
    ) -> Self:
        """Fit the calibrator to held-out logits and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits of held-out rows, which the classifier was not trained on: one column per class
            in the order of ``classes_``, or a single column with the log-odds of ``classes_[1]``.
            For probabilities ``p`` pass ``np.log(p)``. A logit of -inf masks the class in that row:
            its probability is 0. For a row-chunked Dask array or data frame, labels and weights
            must be Dask collections with the same chunks of rows. Tensors are copied to the host.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.
        groups : array-like of shape (n_samples,), optional
            Ignored: only calibrators with folds, such as :class:`AutoCalibrator`, use groups.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            If ``X`` holds NaN, +inf or a row without a finite logit, if the number of its columns
            does not match the labels, if the columns are named by the labels in another order, if
            ``y`` holds fewer than two classes, missing labels, labels that are not in ``classes``
            or the label of a masked class, if weights are negative or all zero, or if lengths, or
            the chunks of Dask collections, differ. The calibrator is then unchanged.
        RuntimeError
            If Dask cannot compute a chunk of rows.
        """
        if type(X) is not np.ndarray or X.ndim != 2:
            inputs.check_not_swapped(y=y, X=X)
            X = as_array(X)
        rows = self._validate_rows(X, y, sample_weight)
        return self._set_fitted(X, rows.classes, self._fit(rows))

    def _validate_rows(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Rows:
        """Rows of logits, class indices and positive weights, with the classes."""
        check = partial(inputs.check_rows, estimator=type(self).__name__)
        rows, statistics = checked_rows(check, X=X, y=y, sample_weight=sample_weight)
        if len(statistics.labels) == 1:
            only = labels.shown(statistics.labels)
            raise ValueError(f"y must hold at least two classes, got one class only: {only}.")
        classes = labels.resolve_classes(
            statistics.labels, rows.n_columns, self.classes, X, categories=statistics.categories
        )
        rows = rows.relabel(
            partial(labels.encode, classes=classes),
            classes=classes,
            masked=statistics.masked,
        )
        labels.check_column_order(rows, named=self.classes is not None)
        if statistics.masked:
            self._check_takes_masked(masked=True)
            inputs.check_labels_are_not_masked(rows)
        if statistics.like_probabilities:
            inputs.warn_of_probabilities(rows.n_columns, statistics.like_probabilities)
        inputs.warn_of_small_weights(statistics.weight, statistics.n_rows)
        return rows

    def _set_fitted(self, X: Any, classes: Array, fitted: dict[str, Any]) -> Self:
        """Set the fitted attributes, and the number and the names of the columns of ``X``."""
        if type(X) is np.ndarray:  # without the search for names of columns, longer than some fits
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            validate_data(
                self, collection_row(X) if arrays.is_dask(X) else X, skip_check_array=True
            )
        for name, value in {"classes_": classes, **fitted}.items():
            setattr(self, name, value)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of the shape of ``X``
            Logits of the calibrated probabilities, determined up to a constant per row. float32
            for float32 logits, else float64. Finite, except that logits of masked classes stay
            -inf. For a Dask array or data frame, here as in the other outputs, a lazy Dask array
            with the same chunks of rows. With scikit-learn's ``array_api_dispatch`` and a tensor
            in ``X``, here as in the other outputs, a tensor of its library, dtype and device.
        """
        return self._outputs(X, "_calibrated")

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Calibrated probabilities, the softmax of the calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class in the order of ``classes_``; two for a single column of
            log-odds. For a tensor or a Dask collection as :meth:`transform`.
        """
        return self._outputs(X, "_probabilities")

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithm of the calibrated probabilities, accurate also where these round to 0 or 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        return self._outputs(X, "_log_probabilities")

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``. For a tensor one of the same library and device, unless the
            labels are text, which only NumPy's arrays hold.
        """
        return self._outputs(X, "_most_probable")

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of the most probable classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            Weighted share of the rows with the right class.
        """
        return accuracy(y, self.predict(X), sample_weight)

    def _outputs(self, X: Any, method: str) -> Array:
        """Check logits, and apply a method of blocks of logits to them."""
        inputs.check_fitted(self)
        X = as_array(X, n_columns=self.n_features_in_, tensors=True)
        if arrays.is_tensor(X):
            return self._outputs_of_tensor(method, X)
        labels.check_column_names(X, self.classes_)
        if arrays.is_dask(X):
            # A copy, since lazy outputs must not change when the estimator is fitted again.
            f = copy(self)._outputs_in_memory  # noqa: SLF001
            return map_collection(partial(f, method), X)
        return self._outputs_in_memory(method, X)

    def _outputs_in_memory(self, method: str, X: Any) -> Any:
        """Apply a method to logits in an array, a data frame or a chunk of Dask."""
        Z = inputs.logits_for(self, X)
        if not len(Z):  # no rows have outputs of the same type as one row
            return getattr(self, method)(np.zeros((1, Z.shape[1]), Z.dtype))[:0]
        self._check_takes_masked(masked=inputs.check_finite(Z))
        if len(Z) > 1:
            inputs.warn_of_new_probabilities(Z)
        return map_blocks(getattr(self, method), Z)

    def _outputs_of_tensor(self, method: str, X: Any) -> Any:
        """Apply a method to a tensor, on its device if the calibrator can, or on the host."""
        if 0 in X.shape:
            check_array(np.empty(tuple(X.shape)))  # raises the error of arrays
        validate_data(self, X, reset=False, skip_check_array=True)
        if not self._on_device:
            return self._outputs_of_host(X, method)
        self._check_takes_masked(masked=inputs.check_finite(X))
        if X.shape[0] > 1:
            inputs.warn_of_new_probabilities(X)
        with arrays.in_full_precision(X):
            return getattr(self._moved_to(X), method)(X)

    def _moved_to(self, X: Any) -> Self:
        """Return a copy with fitted arrays in the library and on the device of a tensor."""
        moved = type(self).__new__(type(self))  # copy would convert attributes as for a pickle
        for name, value in vars(self).items():
            is_array = isinstance(value, np.ndarray)
            setattr(moved, name, arrays.following(value, X) if is_array else value)
        return moved

    def _outputs_of_host(self, X: Any, method: str, *more: Any) -> Any:
        """Compute outputs for a tensor on the host, and return them where the tensor is."""
        arrays.check_needs_no_gradients(X, "X")
        return arrays.following(self._outputs(on_host(X), method, *more), X)

    def _probabilities(self, Z: Floats) -> Floats:
        return arrays.mixed_probabilities(self._unmixed(Z), self._uniform_share())

    def _log_probabilities(self, Z: Floats) -> Floats:
        return arrays.log_softmax(self._calibrated(Z))

    def _calibrated(self, Z: Floats) -> Floats:
        """Calibrated logits, finite except for masked classes."""
        return arrays.mix_logits(self._unmixed(Z), self._uniform_share())

    def _most_probable(self, Z: Floats) -> Array:
        # Calibrated logits may be equal by rounding where raw logits are not. Mixing with the
        # uniform distribution does not change the order.
        kept = self._keeps_order or self._keeps_predictions
        S = Z if kept else self._unmixed(Z)
        return labels_of(self.classes_, arrays.both_columns(S))

    def _unmixed(self, Z: Floats) -> Floats:
        """Calibrated logits before they are mixed with the uniform distribution."""
        return arrays.finite_unless_masked(self._calibrate, Z)

    def _uniform_share(self) -> float:
        """The share of the uniform distribution in all probabilities."""
        return float(getattr(self, "smoothing_", 0.0))

    def _check_takes_masked(self, *, masked: bool) -> None:
        if masked and not self._takes_masked:
            name = type(self).__name__
            raise ValueError(
                f"{name} mixes the logits of all classes, so X must hold finite ones, got -inf. "
                "Use VectorScaling or another calibrator that maps each class separately if "
                "-inf marks a masked class, that is, one that is impossible in a row; if they are "
                "logarithms of zero probabilities, clip these before taking the log, as in "
                "np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
            )


def accuracy(y: Any, predicted: Any, sample_weight: Any) -> float:
    """Weighted share of right predictions, from labels and weights of any kind."""
    # Dask collections are loaded.
    y, predicted = as_numpy(y, "y"), np.asarray(as_numpy(predicted, "predictions"))
    if predicted.ndim == 1:  # as numbers, since scikit-learn refuses some types
        known = np.unique(predicted)
        y, predicted = labels.encode(labels.as_labels(y), known), labels.encode(predicted, known)
    w = sample_weight if sample_weight is None else as_numpy(sample_weight, "sample_weight")
    return float(accuracy_score(y, predicted, sample_weight=w))


def labels_of(classes: Array, S: Floats) -> Any:
    """The class of the largest score of each row (m, K); for a tensor a tensor, unless of text."""
    best = arrays.namespace(S).argmax(S, axis=1)
    is_text = isinstance(classes, np.ndarray) and classes.dtype.kind not in "biuf"
    return classes[arrays.on_host(best)] if is_text else arrays.take(classes, best)

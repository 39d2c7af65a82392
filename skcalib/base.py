"""Base class of all calibrators: validation of the input, classes and outputs.

It is meant to stay small: think twice before adding anything to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from skcalib._input.arrays import as_array, as_kind_of, as_numpy, is_dask
from skcalib._input.dask import collection_row, map_collection
from skcalib._input.groups import in_groups
from skcalib._input.labels import as_labels, encode
from skcalib._input.logits import with_nan
from skcalib._input.rows import (
    check_fit,
    check_fitted,
    check_new_logits,
)
from skcalib._rows import Array, Floats, Rows, arrays, map_blocks, on_host

from ._version import Versioned

__all__ = ["BaseCalibrator"]


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
    # Whether some parameters belong to single classes, whose rows determine them.
    _has_class_parameters: ClassVar[bool] = True
    # Whether _calibrate takes tensors and computes in their library; else it is given a copy on the
    # host.
    _on_device: ClassVar[bool] = False

    # Whether the base class mixes a share ``smoothing_`` of the uniform distribution into the
    # probabilities, if the fit returns one.
    _is_smoothed: ClassVar[bool] = True
    #: Whether ``_fit`` passes the groups of rows on to an inner calibrator.
    _passes_groups_on: ClassVar[bool] = False

    def __init__(self, *, classes: ArrayLike | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _fit(self, rows: Rows) -> dict[str, Any]:
        """Return fitted attributes by name from rows of logits, class indices and positive weights.

        A logit of -inf masks the class in its row, and is never the logit of the label.
        """

    @abstractmethod
    def _calibrate(self, Z: Floats) -> Floats:
        """Return calibrated logits of a block of finite logits (m, K), of the same shape and dtype.

        If there is a fitted ``smoothing_``, the base class mixes their probabilities with this
        share of the uniform distribution, unless ``_is_smoothed`` is False.
        """

    # Searches with metadata routing pass groups on without set_fit_request.
    __metadata_request__fit: ClassVar = {"groups": True}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
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
            Groups of rows, for calibrators with folds, such as :class:`AutoCalibrator`, and for
            calibrators around them. Other calibrators ignore groups.

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
        X, rows = check_fit(self, X, y, sample_weight)
        if self._passes_groups_on:
            rows = in_groups(rows, X, groups, sample_weight)
        return set_fitted(self, X, rows.classes, self._fit(rows))

    def transform(self, X: ArrayLike) -> Floats:
        """Return calibrated logits.

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
        return predictions(self, X, calibrated_logits)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities, the softmax of the calibrated logits.

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
        return predictions(self, X, probabilities)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return the logarithm of calibrated probabilities, accurate also near 0 and 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        return predictions(self, X, log_probabilities)

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each row.

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
        return predictions(self, X, most_probable)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the most probable classes.

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

    def _fitted_for(self, X: Any) -> Self:  # noqa: ARG002
        """Return the fitted calibrator that predicts for ``X``, or raise a NotFittedError."""
        check_fitted(self)
        return self


Calibrator = TypeVar("Calibrator", bound=BaseCalibrator)


def set_fitted(
    calibrator: Calibrator, X: Any, classes: Array, fitted: dict[str, Any]
) -> Calibrator:
    """Replace the fitted attributes of a calibrator, and record the columns of ``X``.

    Attributes of an earlier fit that the class declares by annotations are deleted.
    """
    calibrator.__dict__.pop("feature_names_in_", None)
    for kind in type(calibrator).__mro__:
        for name in vars(kind).get("__annotations__", ()):
            if name.endswith("_"):
                calibrator.__dict__.pop(name, None)
    if type(X) is np.ndarray:  # without the search for names of columns, longer than some fits
        calibrator.n_features_in_ = X.shape[1]
    else:
        row = collection_row(X) if is_dask(X) else X
        validate_data(calibrator, row, skip_check_array=True)
    for name, value in {"classes_": classes, **fitted}.items():
        setattr(calibrator, name, value)
    return calibrator


# --------------------------------------------------------------------------------------
# Outputs of a fitted calibrator for a block of checked logits (m, K) or log-odds (m, 1).

Output = Callable[[Any, Any], Any]


def unmixed_logits(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return calibrated logits before the mixture with the uniform distribution.

    They are finite, except that logits of masked classes are -inf.
    """
    return arrays.finite_unless_masked(calibrator._calibrate, Z)  # noqa: SLF001


def uniform_share(calibrator: BaseCalibrator) -> float:
    """Return the share of the uniform distribution that is mixed into the probabilities."""
    smoothed = calibrator._is_smoothed  # noqa: SLF001
    return float(getattr(calibrator, "smoothing_", 0.0)) if smoothed else 0.0


def calibrated_logits(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return calibrated logits of the shape of ``Z``."""
    return arrays.mix_logits(unmixed_logits(calibrator, Z), uniform_share(calibrator))


def probabilities(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return calibrated probabilities of all classes (m, K)."""
    return arrays.mixed_probabilities(unmixed_logits(calibrator, Z), uniform_share(calibrator))


def log_probabilities(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return logarithms of the calibrated probabilities (m, K)."""
    return arrays.log_softmax(calibrated_logits(calibrator, Z))


def most_probable(calibrator: BaseCalibrator, Z: Floats) -> Array:
    """Return the most probable class of each row (m,).

    Calibrated logits may be equal by rounding where raw logits are not, so raw logits decide if
    their order is kept. The mixture with the uniform distribution does not change the order.
    """
    keeps = calibrator._keeps_order or calibrator._keeps_predictions  # noqa: SLF001
    L = Z if keeps else unmixed_logits(calibrator, Z)
    return labels_of(calibrator.classes_, arrays.both_columns(L))


def predictions(
    calibrator: BaseCalibrator, X: Any, output: Output, *, on_device: bool | None = None
) -> Any:
    """Return ``output(calibrator, Z)`` of the checked logits, in the kind of ``X``.

    A Dask collection has a lazy Dask array of outputs. A tensor has a tensor of outputs, computed
    on its device unless ``on_device`` is False, by default if the calibrator can.
    """
    calibrator = calibrator._fitted_for(X)  # noqa: SLF001
    on_device = calibrator._on_device if on_device is None else on_device  # noqa: SLF001
    if is_dask(X):  # a copy, since the estimator may be fitted again before the outputs
        f = partial(predictions, copy(calibrator), output=output)
        return map_collection(f, as_array(X, n_columns=calibrator.n_features_in_))
    Z, give_back = check_new_logits(calibrator, X, on_device=on_device)
    if not isinstance(Z, np.ndarray):
        with arrays.in_full_precision(Z):
            return output(_moved_to(calibrator, Z), Z)
    if not len(Z):  # no rows have outputs of the same type as one row
        return give_back(output(calibrator, np.zeros((1, Z.shape[1]), Z.dtype))[:0])
    return give_back(map_blocks(partial(output, calibrator), Z))


def _moved_to(calibrator: Calibrator, X: Any) -> Calibrator:
    """Return a copy with fitted arrays in the library and on the device of a tensor."""
    moved = type(calibrator).__new__(type(calibrator))  # copy would convert attributes for pickles
    for name, value in vars(calibrator).items():
        is_array = isinstance(value, np.ndarray)
        setattr(moved, name, as_kind_of(value, X) if is_array else value)
    return moved


def accuracy(y: Any, predicted: Any, sample_weight: Any) -> float:
    """Return the weighted share of correct predictions, for labels and weights of any kind."""
    # Dask collections are loaded.
    y, predicted = as_numpy(y, "y"), np.asarray(as_numpy(predicted, "predictions"))
    if predicted.ndim == 1:  # as numbers, since scikit-learn refuses some types
        known = np.unique(predicted)
        y, predicted = encode(as_labels(y), known), encode(predicted, known)
    w = sample_weight if sample_weight is None else as_numpy(sample_weight, "sample_weight")
    return float(accuracy_score(y, predicted, sample_weight=w))


def labels_of(classes: Array, S: Floats) -> Any:
    """Return the class of the largest score of each row (m, K); text is never a tensor."""
    best = arrays.namespace(S).argmax(S, axis=1)
    is_text = isinstance(classes, np.ndarray) and classes.dtype.kind not in "biuf"
    return classes[on_host(best)] if is_text else arrays.take(classes, best)


class IncreasingMap:
    """Base of calibrators that map the log-odds of two classes by one increasing function."""

    def _is_increasing(self) -> bool:
        """Return whether the function is increasing, by parameters and fitted attributes."""
        return True

    def _check_increasing(self) -> bool:
        """Raise an AttributeError unless the map is one increasing function of one column."""
        name, n_columns = type(self).__name__, getattr(self, "n_features_in_", 1)
        if not self._is_increasing():
            raise AttributeError(
                f"inverse_transform is for increasing maps, got a {name} with a map that may fall. "
                "Use TemperatureScaling, IsotonicCalibration or SplineCalibration(increasing=True)."
            )
        if n_columns != 1:
            raise AttributeError(
                f"inverse_transform is for one column of log-odds, got a {name} fitted to "
                f"{n_columns} columns. Fit it to the log-odds X[:, 1:] - X[:, :1] of two classes."
            )
        return True

    @available_if(_check_increasing)  # type: ignore[untyped-decorator]
    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Return raw log-odds of calibrated log-odds, such as the raw score at a threshold.

        It is available after a fit to one column. The result is the smallest raw log-odds with
        calibrated log-odds of at least ``X``, which serves step functions as well. The function is
        inverted by bisection.

        Parameters
        ----------
        X : array-like of shape (n_samples, 1)
            Calibrated log-odds. For a calibrated probability ``p`` pass ``np.log(p / (1 - p))``.

        Returns
        -------
        ndarray of shape (n_samples, 1)
            Raw log-odds, float64. -inf where all raw log-odds have calibrated log-odds of at least
            ``X``, and inf where none have.
        """
        check_fitted(self)
        target = np.asarray(with_nan(as_numpy(X, "X")), dtype=np.float64)
        if target.ndim != 2 or target.shape[1] != 1 or np.isnan(target).any():
            raise ValueError(
                "X must be one column of calibrated log-odds without NaN, of shape (n_samples, 1), "
                f"got shape {target.shape}. Pass X[:, None] for a one-dimensional array."
            )
        # Raw log-odds up to sinh(30), about 5e12, are searched.
        reach = 30.0
        low, high = np.full(target.shape, -reach), np.full(target.shape, reach)
        # The inverse of sinh has a fine grid near 0 and reaches large log-odds.
        for _ in range(64):
            middle = (low + high) / 2
            reaches = calibrated_logits(self, np.sinh(middle)) >= target  # type: ignore[arg-type]
            low, high = np.where(reaches, low, middle), np.where(reaches, middle, high)
        raw = np.sinh(high)
        return np.where(low == -reach, -np.inf, np.where(high == reach, np.inf, raw))

"""Base class for all calibrators: checks, classes and outputs.

It is meant to stay small: think twice before adding anything to it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if

from skcalib._input.arrays import as_array, as_numpy, on_host
from skcalib._input.estimators import check_fitted
from skcalib._input.groups import in_groups
from skcalib._input.labels import as_labels, encode
from skcalib._input.logits import check_weights, with_nan
from skcalib._input.predictions import predict, record_columns
from skcalib._input.rows import check_fit
from skcalib._rows import Rows, arrays, both_columns
from skcalib._rows.arrays import masked_logits
from skcalib._typing import Array, ArrayLike, Floats, Output

from ._version import Versioned

__all__ = ["BaseCalibrator", "both_columns", "masked_logits"]


class Outputs(TransformerMixin):
    """Outputs of a calibrator: logits, probabilities, their logarithms and classes."""

    @abstractmethod
    def _predict(self, X: Any, output: Output) -> Any:
        """Check the logits ``X``, and return an output for them in the kind of ``X``."""

    def transform(self, X: ArrayLike) -> Floats:
        """Return calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, 1)
            Logits for the calibrated probabilities, determined up to a constant per row, or one
            column of log-odds for log-odds. float32 for float32 logits, else float64. Finite,
            except that masked classes keep -inf. All outputs for a Dask array or data frame are
            lazy Dask arrays with the same row chunks. All outputs for a tensor, with
            scikit-learn's ``array_api_dispatch``, are tensors with its library, dtype and device.
        """
        return self._predict(X, calibrated_logits)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return calibrated probabilities, the softmax of the calibrated logits.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per class, ordered as ``classes_``; two for a single column of log-odds. For
            a tensor or a Dask collection as :meth:`transform`.
        """
        return self._predict(X, probabilities)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Return log-probabilities after calibration, accurate also near 0 and 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        return self._predict(X, log_probabilities)

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class in each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``. A tensor for a tensor, unless the labels are text, which only
            NumPy supports.
        """
        return self._predict(X, most_probable)


class BaseCalibrator(Outputs, Versioned, ClassifierMixin, OneToOneFeatureMixin, BaseEstimator):
    """Base class for all calibrators: logits in, calibrated logits and probabilities out.

    A calibrator implements :meth:`_fit`, which computes fitted attributes from checked rows, and
    :meth:`_calibrate`, which maps a block of logits to calibrated logits.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        Labels in column order. By default the sorted labels of ``y``.
    """

    # Whether masked classes are supported, which requires separate maps for the classes.
    _takes_masked: ClassVar[bool] = True
    # Whether the class order within rows, and so the accuracy, is preserved.
    _keeps_order: ClassVar[bool] = False
    # Whether ``predict`` returns the class with the largest logit even if another is more probable.
    _keeps_predictions: ClassVar[bool] = False
    # Whether some parameters depend on the rows of a single class.
    _has_class_parameters: ClassVar[bool] = True
    # Whether _calibrate accepts tensors and computes in their library; else it gets NumPy arrays.
    _on_device: ClassVar[bool] = False

    # Whether the base class mixes the uniform distribution into the probabilities, with the share
    # ``smoothing_`` if the fit returns it.
    _is_smoothed: ClassVar[bool] = True
    #: Whether ``_fit`` passes the groups of rows on to an inner calibrator.
    _passes_groups_on: ClassVar[bool] = False

    def __init__(self, *, classes: ArrayLike | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _fit(self, rows: Rows) -> dict[str, Any]:
        """Compute fitted attributes, by name, from checked rows.

        Rows contain logits (n, K), class indices (n,) and positive weights (n,) or None. A logit of
        -inf masks the class in its row; the label's logit is never -inf.
        """

    @abstractmethod
    def _calibrate(self, Z: Floats) -> Floats:
        """Map finite logits (m, K) to calibrated logits (m, K) in the same dtype.

        If ``smoothing_`` is fitted, the base class mixes the uniform distribution into the
        probabilities afterwards, unless ``_is_smoothed`` is False.
        """

    # Let searches with metadata routing pass groups without set_fit_request.
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
            Logits for held-out rows, which the classifier was not trained on: one column per class,
            ordered as ``classes_``, or a single column with the log-odds of ``classes_[1]``. For
            probabilities ``p`` pass ``np.log(p)``. A logit of -inf masks the class in that row: its
            probability is 0. For a row-chunked Dask array or data frame, labels and weights must be
            Dask collections with the same chunks of rows. Tensors are copied to the host.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight 2 means the row twice, weight 0 no row.
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
            If ``X`` contains NaN, +inf or a row without a finite logit, or its columns do not match
            the labels in number, or by name in order. If ``y`` contains fewer than two classes,
            missing labels, labels that are not in ``classes``, or the label of a masked class. If
            weights are negative or all zero. If lengths, or the chunks of Dask collections, differ.
            The calibrator is then unchanged.
        RuntimeError
            If Dask cannot compute a chunk of rows.
        """
        X, rows = check_fit(self, X, y, sample_weight)
        if self._passes_groups_on:
            rows = in_groups(rows, X, groups, sample_weight)
        fitted = self._fit(rows)
        if not isinstance(fitted, dict):
            raise TypeError(
                f"_fit must return a dict of fitted attributes by name, got {fitted!r:.60} from "
                f"{type(self).__name__}. Return for example {{'factor_': 1.0}}."
            )
        return set_fitted(self, X, rows.classes, fitted)

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
            Weighted share of rows with the correct class.
        """
        return accuracy(y, self.predict(X), sample_weight)

    def _fitted_for(self, X: Any) -> Self:  # noqa: ARG002
        """Return the fitted calibrator for ``X``, or raise a NotFittedError."""
        check_fitted(self)
        return self

    def _predict(self, X: Any, output: Output) -> Any:
        return predict(self._fitted_for(X), X, output, on_device=self._on_device)


Calibrator = TypeVar("Calibrator", bound=BaseCalibrator)


def set_fitted(
    calibrator: Calibrator, X: Any, classes: Array, fitted: dict[str, Any]
) -> Calibrator:
    """Replace a calibrator's fitted attributes, and record the columns of ``X``.

    Annotated attributes from an earlier fit are deleted.
    """
    for kind in type(calibrator).__mro__:
        for name in vars(kind).get("__annotations__", ()):
            if name.endswith("_"):
                calibrator.__dict__.pop(name, None)
    record_columns(calibrator, X)
    for name, value in {"classes_": classes, **fitted}.items():
        setattr(calibrator, name, value)
    return calibrator


# --------------------------------------------------------------------------------------
# Outputs for a block of checked logits (m, K) or log-odds (m, 1), by a fitted calibrator.


def unmixed_logits(calibrator: BaseCalibrator, Z: Floats) -> tuple[Floats, float]:
    """Calibrate logits (m, K), and return them with the share of the uniform distribution.

    Outputs mix this share into probabilities afterwards. The logits are finite, except for -inf at
    masked classes.
    """
    L = arrays.finite_unless_masked(calibrator._calibrate, Z)  # noqa: SLF001
    if L.shape != Z.shape:
        raise ValueError(
            f"_calibrate must return logits in the shape of its input, {Z.shape}, got {L.shape} "
            f"from {type(calibrator).__name__}."
        )
    return L, uniform_share(calibrator)


def uniform_share(calibrator: BaseCalibrator) -> float:
    """Return the share of the uniform distribution that outputs mix into the probabilities."""
    return getattr(calibrator, "smoothing_", 0.0) if calibrator._is_smoothed else 0.0  # noqa: SLF001


def calibrated_logits(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return calibrated logits, shaped as ``Z``."""
    return arrays.mix_logits(*unmixed_logits(calibrator, Z))


def probabilities(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return calibrated probabilities (m, K)."""
    return arrays.mixed_probabilities(*unmixed_logits(calibrator, Z))


def log_probabilities(calibrator: BaseCalibrator, Z: Floats) -> Floats:
    """Return logarithms (m, K) of calibrated probabilities."""
    L, share = unmixed_logits(calibrator, Z)
    mixed = arrays.mix_logits(L, share)
    return mixed if share > 0 and Z.shape[1] > 1 else arrays.log_softmax(mixed)


def most_probable(calibrator: BaseCalibrator, Z: Floats) -> Array:
    """Return the most probable classes (m,).

    Calibrated logits may be equal by rounding where raw logits differ. If calibration keeps the
    order, raw logits decide. Mixing in the uniform distribution never changes the order. Text is
    never a tensor.
    """
    keeps = calibrator._keeps_order or calibrator._keeps_predictions  # noqa: SLF001
    L = both_columns(Z if keeps else unmixed_logits(calibrator, Z)[0])
    best, classes = arrays.namespace(L).argmax(L, axis=1), calibrator.classes_
    is_text = isinstance(classes, np.ndarray) and classes.dtype.kind not in "biuf"
    return classes[on_host(best)] if is_text else arrays.take(classes, best)


# Outputs by name, for exports.
OUTPUTS: dict[str, Output] = {
    "probabilities": probabilities,
    "label": most_probable,
    "logits": calibrated_logits,
}


def accuracy(y: Any, predicted: Any, sample_weight: Any) -> float:
    """Return the weighted share of correct predictions, for any kind of labels and weights."""
    # as_numpy loads Dask collections.
    y, predicted = as_numpy(y, "y"), np.asarray(as_numpy(predicted, "predictions"))
    if predicted.ndim == 1:  # as numbers, since scikit-learn refuses some types
        classes = np.unique(predicted)
        y, predicted = encode(as_labels(y), classes), encode(predicted, classes)
    return float(
        accuracy_score(y, predicted, sample_weight=check_weights(sample_weight, len(predicted)))
    )


class IncreasingMap:
    """Base class for calibrators that map two classes' log-odds by one increasing function."""

    def _is_increasing(self) -> bool:
        """Return whether the parameters and fitted attributes make the function increasing."""
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
        """Return raw log-odds for calibrated log-odds, such as the raw score at a threshold.

        The method is available after a fit to one column. Bisection finds the smallest raw log-odds
        with calibrated log-odds of at least ``X``, which suits step functions as well.

        Parameters
        ----------
        X : array-like of shape (n_samples, 1)
            Calibrated log-odds. For a calibrated probability ``p`` pass ``np.log(p / (1 - p))``.

        Returns
        -------
        ndarray of shape (n_samples, 1)
            Raw log-odds, float64. -inf if calibrated log-odds always reach ``X``, and inf if they
            never do.
        """
        check_fitted(self)
        target = np.asarray(with_nan(as_array(X, flat=True)), dtype=np.float64)
        if target.ndim != 2 or target.shape[1] != 1 or np.isnan(target).any():
            raise ValueError(
                "X must be one column of calibrated log-odds without NaN, of shape (n_samples, 1), "
                f"got shape {target.shape}. Pass X[:, None] for a one-dimensional array."
            )
        # Search raw log-odds up to sinh(30), about 5e12.
        reach = 30.0
        low, high = np.full(target.shape, -reach), np.full(target.shape, reach)
        # Bisection in sinh units is fine near 0 and reaches large log-odds.
        for _ in range(64):
            middle = (low + high) / 2
            reaches = calibrated_logits(self, np.sinh(middle)) >= target  # type: ignore[arg-type]
            low, high = np.where(reaches, low, middle), np.where(reaches, middle, high)
        raw = np.sinh(high)
        return np.where(low == -reach, -np.inf, np.where(high == reach, np.inf, raw))

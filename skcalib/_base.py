"""What every calibrator shares: checks of the input, the classes, and the three outputs.

Think twice before adding anything to the base class.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from ._doors import as_array
from ._labels import (
    as_labels,
    check_column_names,
    distinct_labels,
    encode,
    resolve_classes,
    shown,
    union,
)
from ._rows import (
    both_columns,
    checked_rows,
    map_outputs,
    map_rows,
    row_like,
    sum_rows,
    total_weight,
)
from ._version import Versioned

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

# Rows of probabilities that were rounded still sum to one within it: bfloat16, which softmax of
# networks is often in, changes each number by up to 2^-8 of it.
SUM_TOLERANCE = 5e-3


class BaseCalibrator(
    Versioned, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Base of all calibrators: logits in, calibrated logits and probabilities out.

    A calibrator implements :meth:`_fit`, which turns checked arrays into fitted attributes, and
    :meth:`_calibrate`, which turns a block of logits into calibrated logits of the same shape.
    """

    # How many rows _calibrate is to get at once, where there are as many.
    _rows_at_least: ClassVar[int] = 1

    def __init__(self, *, classes: ArrayLike | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        """Fitted attributes by name, from finite logits, class indices and weights."""

    @abstractmethod
    def _calibrate(self, Z: Floats) -> Floats:
        """Calibrated logits of a block of logits, of the same shape and dtype."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the calibrator to logits and the labels that turned out to be right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits of rows the classifier was not trained on: one column per class in the order
            of ``classes_``, or a single column with the log-odds of ``classes_[1]``. For
            probabilities ``p`` pass ``np.log(p)``. A Dask array or data frame stays where it is:
            labels and weights are then with Dask as well, in the same chunks of rows.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.

        Returns
        -------
        self : object
            The fitted calibrator.

        Raises
        ------
        ValueError
            If ``X`` is not finite or its width does not fit the labels, if its columns are named
            by the labels in another order, if ``y`` holds fewer than two classes, missing labels
            or labels that are not in ``classes``, if weights are negative or all zero, or if
            lengths differ; for Dask collections also if chunks do not fit. The calibrator is then
            unchanged.
        RuntimeError
            If Dask cannot compute a chunk of rows.
        """
        X = as_array(X)
        check = partial(check_rows, estimator=type(self).__name__)
        (Z, labels, w), found = checked_rows(check, X=X, y=y, sample_weight=sample_weight)
        check_total_weight(found.weight)
        present = found.labels
        if len(present) < 2:
            raise ValueError(
                f"y must hold at least two classes, got one class only: {shown(present)}."
            )
        classes = resolve_classes(present, Z.shape[1], self.classes)
        check_column_names(X, classes)
        if found.like_probabilities:
            warn_of_probabilities()
        fitted = self._fit(Z, encode(labels, classes), w)
        # Stores width and column names, last.
        validate_data(self, row_like(X), skip_check_array=True)
        self.classes_ = classes
        for name, value in fitted.items():
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
            Logits of the calibrated probabilities, known up to a constant per row. float32 for
            float32 logits, else float64. Always finite. For a Dask array or data frame, here as
            in the other outputs, a lazy Dask array with the same chunks of rows.
        """
        return self._outputs(X, BaseCalibrator._finite_logits)

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
            log-odds.
        """
        return self._outputs(X, BaseCalibrator._probabilities)

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Logarithm of the calibrated probabilities, exact where those round to 0 or 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As :meth:`predict_proba`.
        """
        return self._outputs(X, BaseCalibrator._log_probabilities)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits, as in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``.
        """
        return self._outputs(X, BaseCalibrator._most_probable)

    def _outputs(self, X: Any, f: Callable[[Any, Floats], NDArray[Any]]) -> NDArray[Any]:
        """``f(self, Z)`` for blocks ``Z`` of logits, which are checked first."""
        check_is_fitted(self)
        X = as_array(X, n_columns=self.n_features_in_)
        # A copy, since what is lazy must not change with another fit.
        return map_outputs(partial(BaseCalibrator._outputs_of_rows, copy(self), f), X)

    def _outputs_of_rows(self, f: Callable[[Any, Floats], NDArray[Any]], X: Any) -> NDArray[Any]:
        Z = validate_data(
            self, X, reset=False, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        check_finite(Z)
        return map_rows(partial(f, self), Z, at_least=self._rows_at_least)

    def _probabilities(self, Z: Floats) -> Floats:
        return softmax(both_columns(self._finite_logits(Z)), axis=1)

    def _log_probabilities(self, Z: Floats) -> Floats:
        return log_softmax(both_columns(self._finite_logits(Z)), axis=1)

    def _most_probable(self, Z: Floats) -> NDArray[Any]:
        return self.classes_[both_columns(self._finite_logits(Z)).argmax(axis=1)]

    def _finite_logits(self, Z: Floats) -> Floats:
        # A quarter of the range, so that differences of two logits are finite as well.
        largest = np.finfo(Z.dtype).max / 4
        with np.errstate(over="ignore"):
            return np.clip(self._calibrate(Z), -largest, largest)


# --------------------------------------------------------------------------------------
# Checks. Those of rows are made of all of them, or of a chunk of them where they are.


@dataclass(frozen=True)
class Found:
    """What a check of rows has found; that of two sets of rows is the sum."""

    labels: NDArray[Any]  #: the distinct ones of rows with weight, sorted
    weight: float  #: sum of the weights
    like_probabilities: bool = False  #: whether all logits could be probabilities

    def __add__(self, other: Found) -> Found:
        return Found(
            union(self.labels, other.labels),
            self.weight + other.weight,
            self.like_probabilities and other.like_probabilities,
        )


def check_rows(
    X: Any, y: Any, sample_weight: Any, *, estimator: str | None = None
) -> tuple[tuple[Floats, NDArray[Any], Floats | None], Found]:
    """Logits, labels and weights as arrays, and what there is in them."""
    Z, labels = check_X_y(
        X,
        as_labels(y),
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        estimator=estimator,
    )
    check_finite(Z)
    w = check_each_weight(sample_weight, len(Z))
    present = distinct_labels(labels, w)
    return (Z, labels, w), Found(present, total_weight(labels, w), are_like_probabilities(Z))


def check_finite(Z: Floats) -> None:
    """Raise a ValueError if some logit is NaN, infinite, or too large to take differences."""
    largest = np.finfo(Z.dtype).max / 4

    def is_bad(Z: Floats) -> NDArray[Any]:
        return np.array(not (Z.max() <= largest and Z.min() >= -largest), dtype=np.intp)

    if not sum_rows(is_bad, Z):
        return
    kinds: dict[str, Any] = {"NaN": np.isnan, "+inf": np.isposinf, "-inf": np.isneginf}
    counts = sum_rows(lambda Z: np.array([is_kind(Z).sum() for is_kind in kinds.values()]), Z)
    found = ", ".join(f"{n} {kind}" for kind, n in zip(kinds, counts, strict=True) if n)
    if not found:
        raise ValueError(
            f"X must hold logits of at most {largest:.2g} in size, so that their differences are "
            f"finite in {Z.dtype}, got larger ones. Scale them down."
        )
    raise ValueError(
        f"X must hold finite logits, got {found}. A logit of -inf is the log of a zero "
        "probability: clip probabilities before taking the log, as in "
        "np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
    )


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> Floats | None:
    """Weights as a float64 array of shape (n_rows,), or None if there are none."""
    w = check_each_weight(sample_weight, n_rows)
    if w is not None:
        check_total_weight(total_weight(w, w))
    return w


def check_each_weight(sample_weight: ArrayLike | None, n_rows: int) -> Floats | None:
    """The same for a part of the rows, which may all have no weight."""
    if sample_weight is None:
        return None
    w = check_array(
        [sample_weight] if np.isscalar(sample_weight) else sample_weight,
        dtype=np.float64,
        ensure_2d=False,
        input_name="sample_weight",
    )
    if w.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry per row, shape ({n_rows},), got shape {w.shape}."
        )
    if w.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got a weight of {w.min():g}.")
    return w


def check_total_weight(weight: float) -> None:
    """Raise a ValueError for rows that weigh nothing, or more than can be written down."""
    if weight == 0:
        raise ValueError("sample_weight must not be all zero, got only weights of zero.")
    if not np.isfinite(weight):
        raise ValueError("sample_weight must have a finite sum, got infinity; scale it down.")


def improper_rows(P: Floats) -> int:
    """Number of rows of (m, K) that hold a negative number or NaN, or do not sum to one."""

    def count(P: Floats) -> Any:
        good = (np.abs(P.sum(axis=1) - 1) <= SUM_TOLERANCE) & (P.min(axis=1) >= 0)
        return np.array(len(good) - good.sum())

    return int(sum_rows(count, P))


def are_like_probabilities(Z: Floats) -> bool:
    """Whether every row of the logits is non-negative and sums to one."""
    # Real logits fail in the first few rows, so the full test costs nothing.
    return not (Z.shape[1] == 1 or improper_rows(Z[:100]) or improper_rows(Z))


def warn_of_probabilities() -> None:
    """Warn of logits that are like probabilities."""
    warnings.warn(
        "Every row of X is non-negative and sums to one: X probably holds probabilities where "
        "logits are expected. Pass np.log(p) instead.",
        UserWarning,
        stacklevel=3,
    )

"""What every calibrator shares: checks of the input, the classes, and the three outputs.

Think twice before adding anything to the base class.
"""

from __future__ import annotations

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

from ._doors import as_array, as_numpy
from ._labels import (
    as_labels,
    check_column_names,
    distinct_labels,
    encode,
    in_one_dimension,
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
from ._warn import warn

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

# Rows of probabilities that were rounded still sum to one within it: bfloat16, which softmax of
# networks is often in, changes each number by up to 2^-8 of it.
SUM_TOLERANCE = 5e-3
# Sums of weights are not less than it, nor more than one over it.
SMALLEST_WEIGHT = 1e-140
# Weights whose mean is smaller are probably shares of a total.
SMALL_SHARE = 0.02


class BaseCalibrator(
    Versioned, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    """Base of all calibrators: logits in, calibrated logits and probabilities out.

    A calibrator implements :meth:`_fit`, which turns checked arrays into fitted attributes, and
    :meth:`_calibrate`, which turns a block of logits into calibrated logits of the same shape.
    """

    # How many rows _calibrate is to get at once, where there are as many.
    _rows_at_least: ClassVar[int] = 1
    # Whether a class may be masked in some rows, which takes a map of each class by itself.
    _takes_masked: ClassVar[bool] = True

    def __init__(self, *, classes: ArrayLike | None = None) -> None:
        self.classes = classes

    @abstractmethod
    def _fit(self, Z: Floats, y: Indices, w: Floats | None) -> dict[str, Any]:
        """Fitted attributes by name, from logits, class indices and positive weights.

        A logit of -inf is that of a masked class, which is never that of the label.
        """

    @abstractmethod
    def _calibrate(self, Z: Floats) -> Floats:
        """Calibrated logits of a block of finite logits, of the same shape and dtype."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the calibrator to logits and the labels that turned out to be right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
            Logits of rows the classifier was not trained on: one column per class in the order
            of ``classes_``, or a single column with the log-odds of ``classes_[1]``. For
            probabilities ``p`` pass ``np.log(p)``. A logit of -inf masks the class in that row: its
            probability is 0. A Dask array or data frame stays where it is: labels and weights are
            then with Dask as well, in the same chunks of rows.
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
            If ``X`` holds NaN, +inf or a row without a finite logit, if its width does not fit
            the labels, if its columns are named by the labels in another order, if ``y`` holds
            fewer than two classes, missing labels, labels that are not in ``classes`` or that of a
            masked class, if weights are negative or all zero, or if lengths differ; for Dask
            collections also if chunks do not fit. The calibrator is then unchanged.
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
        y = encode(labels, classes)
        if found.masked:
            self._check_takes_masked(masked=True)
            check_labels_are_not_masked(Z, y)
        if found.like_probabilities:
            warn_of_probabilities()
        if not self._weights_are_relative():
            warn_of_small_weights(found.weight, found.n_rows)
        fitted = self._fit(Z, y, w)
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
            float32 logits, else float64. Finite but for masked classes, whose logit stays -inf.
            For a Dask array or data frame, here as in the other outputs, a lazy Dask array with
            the same chunks of rows.
        """
        return self._outputs(X, BaseCalibrator._calibrated)

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
        check_column_names(X, self.classes_)
        # A copy, since what is lazy must not change with another fit.
        return map_outputs(partial(BaseCalibrator._outputs_of_rows, copy(self), f), X)

    def _outputs_of_rows(self, f: Callable[[Any, Floats], NDArray[Any]], X: Any) -> NDArray[Any]:
        Z = validate_data(
            self, X, reset=False, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        self._check_takes_masked(masked=check_finite(Z))
        return map_rows(partial(f, self), Z, at_least=self._rows_at_least)

    def _probabilities(self, Z: Floats) -> Floats:
        return softmax(both_columns(self._calibrated(Z)), axis=1)

    def _log_probabilities(self, Z: Floats) -> Floats:
        return log_softmax(both_columns(self._calibrated(Z)), axis=1)

    def _most_probable(self, Z: Floats) -> NDArray[Any]:
        return self.classes_[both_columns(self._calibrated(Z)).argmax(axis=1)]

    def _calibrated(self, Z: Floats) -> Floats:
        """Calibrated logits, finite but for those of masked classes."""
        # A quarter of the range, so that differences of two logits are finite as well.
        largest = np.finfo(Z.dtype).max / 4
        masked = np.isneginf(Z) if Z.min() < -largest else None
        # A calibrator need not think of what infinity times zero is.
        out = self._calibrate_safely(Z if masked is None else np.maximum(Z, -largest), largest)
        if masked is not None:
            out[masked] = -np.inf
        return out

    def _calibrate_safely(self, Z: Floats, largest: Any) -> Floats:
        with np.errstate(over="ignore"):
            return np.clip(self._calibrate(Z), -largest, largest)

    def _weights_are_relative(self) -> bool:
        """Whether the fit stays as it is if all weights are multiplied by the same number."""
        return False

    def _check_takes_masked(self, *, masked: bool) -> None:
        if masked and not self._takes_masked:
            name = type(self).__name__
            raise ValueError(
                f"{name} mixes the logits of all classes, so X must hold finite ones, got -inf. "
                "Use VectorScaling or another calibrator that maps each class by itself if "
                "they say that a class is masked, that is, impossible in a row; if they are "
                "logarithms of zero probabilities, clip these before taking the log, as in "
                "np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
            )


# --------------------------------------------------------------------------------------
# Checks. Those of rows are made of all of them, or of a chunk of them where they are.


@dataclass(frozen=True)
class Found:
    """What a check of rows has found; that of two sets of rows is the sum."""

    labels: NDArray[Any]  #: the distinct ones of rows with weight, sorted
    weight: float  #: sum of the weights
    n_rows: int = 0  #: number of rows with weight
    like_probabilities: bool = False  #: whether all logits could be probabilities
    masked: bool = False  #: whether some logit is -inf

    def __add__(self, other: Found) -> Found:
        return Found(
            union(self.labels, other.labels),
            self.weight + other.weight,
            self.n_rows + other.n_rows,
            self.like_probabilities and other.like_probabilities,
            self.masked or other.masked,
        )


def check_rows(
    X: Any, y: Any, sample_weight: Any, *, estimator: str | None = None
) -> tuple[tuple[Floats, NDArray[Any], Floats | None], Found]:
    """Logits, labels and weights of the rows that have weight, and what there is in them."""
    Z, labels = check_X_y(
        X,
        in_one_dimension(as_labels(y)),
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        estimator=estimator,
    )
    masked = check_finite(Z)
    labels, Z, w = with_weight_only(labels, Z, check_each_weight(sample_weight, len(Z)))
    masked = masked and bool(np.isneginf(Z).any())
    if not len(Z):
        return (Z, labels, w), Found(labels, 0.0, like_probabilities=True)
    found = Found(
        distinct_labels(labels, w),
        total_weight(labels, w),
        len(Z),
        like_probabilities=are_like_probabilities(Z),
        masked=masked,
    )
    return (Z, labels, w), found


def with_weight_only(
    y: NDArray[Any], X: Floats, w: Floats | None
) -> tuple[NDArray[Any], Floats, Floats | None]:
    """Rows without those of weight 0, which are absent: nothing in them may meet that weight."""
    if w is None or w.all():
        return y, X, w
    kept = w > 0
    return y[kept], X[kept], w[kept]


def check_finite(Z: Floats) -> bool:
    """Whether some class is masked; a ValueError for logits that are invalid.

    Those are NaN and +inf, logits too large to take differences, and rows, or log-odds, of nothing
    but -inf.
    """
    largest = np.finfo(Z.dtype).max / 4

    def is_bad(Z: Floats) -> NDArray[Any]:
        return np.array(not (Z.max() <= largest and Z.min() >= -largest), dtype=np.intp)

    if not sum_rows(is_bad, Z):
        return False
    kinds: dict[str, Any] = {
        "NaN": np.isnan,
        "+inf": np.isposinf,
        "too large": lambda Z: np.isfinite(Z) & (np.abs(Z) > largest),
        "-inf": np.isneginf,
        "row": lambda Z: (-np.inf == Z).all(axis=1),
    }
    counts = sum_rows(lambda Z: np.array([is_kind(Z).sum() for is_kind in kinds.values()]), Z)
    _refuse_logits(dict(zip(kinds, counts.tolist(), strict=True)), Z, float(largest))
    return True


def _refuse_logits(n: dict[str, int], Z: Floats, largest: float) -> None:
    """Raise a ValueError if so many of each kind are more than masked classes."""
    if n["NaN"] or n["+inf"] or (n["-inf"] and Z.shape[1] == 1):
        found = ", ".join(f"{n[kind]} {kind}" for kind in ("NaN", "+inf", "-inf") if n[kind])
        raise ValueError(
            f"X must hold finite logits, or -inf for masked classes, got {found}. {_REMEDY}"
        )
    if n["too large"]:
        raise ValueError(
            f"X must hold logits of at most {largest:.2g} in size, so that their differences are "
            f"finite in {Z.dtype}, got larger ones. Scale them down, and use -inf for masked "
            "classes."
        )
    if n["row"]:
        raise ValueError(
            f"Each row of X must have a finite logit, got {n['row']} of {len(Z)} rows of "
            "nothing but -inf. "
            f"{_REMEDY}"
        )


_REMEDY = (
    "If they come from the logarithm of probabilities that are 0 or 1, clip these before taking "
    "the log, as in np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
)


def check_labels_are_not_masked(Z: Floats, y: Indices) -> None:
    """Raise a ValueError if the logit of some label is -inf."""
    n = int(sum_rows(lambda Z, y: np.isneginf(Z[np.arange(len(Z)), y]).sum(), Z, y))
    if n:
        raise ValueError(
            f"The logit of the label of a row must be finite, got {n} of {len(y)} rows in which it "
            "is -inf: a masked class is impossible. Check that the columns of X are in the order "
            f"of the classes. {_REMEDY}"
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
        [sample_weight] if np.isscalar(sample_weight) else as_numpy(sample_weight, "sample_weight"),
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
    """Raise a ValueError for rows that weigh nothing, or whose squared weights are no numbers."""
    if weight == 0:
        raise ValueError("sample_weight must not be all zero, got only weights of zero.")
    if not SMALLEST_WEIGHT <= weight <= 1 / SMALLEST_WEIGHT:
        raise ValueError(
            f"sample_weight must have a sum between {SMALLEST_WEIGHT:g} and "
            f"{1 / SMALLEST_WEIGHT:g}, so that squares of weights are finite, got {weight:.3g}. "
            "Multiply all weights by the "
            "same number; a weight of 2 is the row twice."
        )


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


class ProbabilitiesWarning(UserWarning):
    """Logits look like probabilities."""


class SmallWeightsWarning(UserWarning):
    """Weights have a sum that is far below the number of rows."""


def warn_of_small_weights(weight: float, n_rows: int) -> None:
    """Warn of weights that seem to be shares, where a weight of 2 is the row twice."""
    if weight < SMALL_SHARE * n_rows:
        warn(
            f"The weights of {n_rows} rows sum to {weight:.3g}, and a weight of 2 is the row "
            f"twice: the fit is regularized, or smoothed, as if there were {weight:.3g} rows. If "
            "weights are relative, multiply them by len(w) / sum(w).",
            SmallWeightsWarning,
        )


def warn_of_probabilities() -> None:
    """Warn of logits that are like probabilities."""
    warn(
        "Every row of X is non-negative and sums to one: X probably holds probabilities where "
        "logits are expected. Pass np.log(p) instead.",
        ProbabilitiesWarning,
    )

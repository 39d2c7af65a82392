"""Checked rows of logits, labels and weights, and findings about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, check_X_y, column_or_1d

from skcalib._engine.array_api import (
    check_has_doubles,
    check_needs_no_gradients,
    is_tensor,
    like,
    namespace,
)
from skcalib._engine.memory import MemoryRows
from skcalib._typing import Array, Floats

from .floats import logits_for
from .labels import as_labels, distinct_labels, in_one_dimension, union
from .logits import are_like_probabilities, check_finite
from .weights import check_each_weight

# Precisions of logits.
FLOATS = [np.dtype(np.float64), np.dtype(np.float32)]


@dataclass(frozen=True)
class Found:
    """Findings of a check of rows; those of two sets of rows add up."""

    labels: Array  #: the distinct ones of rows of positive weight, sorted
    weight: float  #: sum of the weights
    n_rows: int = 0  #: number of rows of positive weight
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
) -> tuple[tuple[Floats, Array, Floats | None], Found]:
    """Logits, labels and weights of the rows of positive weight, and the findings.

    Labels and weights are on the host, also where the logits are a tensor.
    """
    Z, labels = X, in_one_dimension(as_labels(y))
    if is_tensor(X):
        Z, labels = _check_tensor_and_labels(X, labels)
    elif not _are_plain(X, labels):
        Z, labels = check_X_y(X, labels, dtype=FLOATS, ensure_all_finite=False, estimator=estimator)
    masked = check_finite(Z)
    labels, Z, w = with_weight_only(labels, Z, check_each_weight(sample_weight, Z.shape[0]))
    masked = masked and bool(namespace(Z).any(-np.inf == Z))
    if not len(labels):
        return (Z, labels, w), Found(labels, 0.0, like_probabilities=True)
    found = Found(
        distinct_labels(labels, w),
        MemoryRows(labels, labels, w).weight,
        len(labels),
        like_probabilities=are_like_probabilities(Z),
        masked=masked,
    )
    return (Z, labels, w), found


def check_unlabelled(
    estimator: Any, X: Any, sample_weight: Any
) -> tuple[tuple[Floats, None, Floats | None], Found]:
    """Logits and weights of rows for a fitted calibrator, and findings about them."""
    Z = logits_for(estimator, X)
    masked = check_finite(Z)
    w = check_each_weight(sample_weight, Z.shape[0])
    weight = float(len(Z)) if w is None else MemoryRows(Z[:, 0], None, w).weight
    like = are_like_probabilities(Z)
    return (Z, None, w), Found(np.zeros(0, np.intp), weight, len(Z), like, masked)


def _are_plain(X: Any, labels: Any) -> bool:
    """Whether scikit-learn's checks, which take longer than some fits, would change nothing."""
    return (
        type(X) is type(labels) is np.ndarray
        and X.dtype in FLOATS
        and X.ndim == 2
        and X.size > 0
        and labels.shape == X.shape[:1]
        and labels.dtype.kind in "biuU"
    )


def _check_tensor_and_labels(X: Any, labels: Any) -> tuple[Any, Array]:
    """A tensor of logits, which has a supported type and two dimensions, and labels of its rows."""
    check_needs_no_gradients(X, "X")
    check_has_doubles(X, "X")
    if labels is None or 0 in X.shape:
        check_X_y(np.empty(tuple(X.shape)), labels)  # raises the error of arrays
    labels = column_or_1d(labels)
    check_consistent_length(X, labels)
    return X, labels


def with_weight_only(y: Array, X: Floats, w: Floats | None) -> tuple[Array, Floats, Floats | None]:
    """Rows without those of weight 0, whose logits must not matter: 0 times infinity is NaN."""
    if w is None or w.all():
        return y, X, w
    kept = np.flatnonzero(w > 0)
    return y[kept], namespace(X).take(X, like(kept, X), axis=0), w[kept]

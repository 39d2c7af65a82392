"""The door for predictions: check logits, compute outputs, and return them in the caller's kind.

Tensors and Dask collections have an adapter each, around the same function of NumPy arrays.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skcalib._rows import Rows, arrays, map_blocks
from skcalib._typing import Floats, Output

from .arrays import as_array, as_kind_of, check_needs_no_gradients, is_dask, is_tensor, on_host
from .column_order import check_column_names
from .dask import collection_row, map_collection
from .logits import (
    FLOATS,
    check_finite,
    refuse_masked,
    seem_probabilities,
    warn_of_probabilities,
    with_nan,
)
from .rows import RowStatistics, check_rows, checked_rows

T = TypeVar("T")


def record_columns(estimator: Any, X: Any) -> None:
    """Set the number of columns, and their names if ``X`` has names, as scikit-learn does."""
    if type(X) is np.ndarray:  # a search for column names would be slower than some fits
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
    else:
        validate_data(estimator, collection_row(X) if is_dask(X) else X, skip_check_array=True)


def logits_for(estimator: Any, X: Any, least_rows: int = 0) -> Floats:
    """Convert logits (n, K), with the columns that the estimator was fitted to.

    Values may be invalid. There must be ``least_rows`` rows.
    """
    same_width = type(X) is np.ndarray and X.shape[1:] == (estimator.n_features_in_,)
    has_names = hasattr(estimator, "feature_names_in_")
    if same_width and X.dtype in FLOATS and len(X) and not has_names:
        return X
    options = {"dtype": FLOATS, "ensure_all_finite": False, "ensure_min_samples": least_rows}
    Z: Floats = validate_data(estimator, with_nan(X), reset=False, **options)
    return Z


def predict(calibrator: Any, X: Any, output: Output, *, on_device: bool = False) -> Any:
    """Check the logits ``X``, and return ``output(calibrator, Z)`` in the kind of ``X``.

    ``Z`` are logits (m, n_columns) of a block of rows. Outputs for a Dask collection are a lazy
    Dask array. Outputs for a tensor are a tensor, computed on its device if ``on_device``.
    """
    if is_dask(X):  # a copy, since the estimator may be fitted again before Dask computes
        f = partial(predict, copy(calibrator), output=output)
        return map_collection(f, as_array(X, n_columns=calibrator.n_features_in_))
    X = as_array(X, n_columns=calibrator.n_features_in_, tensors=True)
    is_array, xp = isinstance(X, np.ndarray), np
    if not is_array and is_tensor(X):
        if not X.shape[0]:
            check_array(np.empty(tuple(X.shape)))  # raises scikit-learn's error for arrays
        if not on_device:
            check_needs_no_gradients(X, "X")
            return as_kind_of(predict(calibrator, on_host(X), output), X)
        validate_data(calibrator, X, reset=False, skip_check_array=True)
        Z, xp = X, arrays.namespace(X)
    else:
        if not is_array:
            check_column_names(X, calibrator.classes_)
        Z = logits_for(calibrator, X)
    n_rows = Z.shape[0]
    if n_rows and check_finite(Z, xp):
        refuse_masked(calibrator)
    if n_rows > 1 and seem_probabilities(Z, xp, fit=False):
        warn_of_probabilities(Z.shape[1], "predictions")
    if xp is not np:
        with arrays.in_full_precision(Z):
            return output(_moved_to(calibrator, Z), Z)
    if not n_rows:  # compute one row, for the dtype and the shape of no rows
        return output(calibrator, np.zeros((1, Z.shape[1]), Z.dtype))[:0]
    return map_blocks(partial(output, calibrator), Z)


def _moved_to(calibrator: T, X: Any) -> T:
    """Copy a calibrator, with fitted arrays in the library and on the device of a tensor."""
    moved = type(calibrator).__new__(type(calibrator))  # copy would convert attributes for pickles
    for name, value in vars(calibrator).items():
        is_array = isinstance(value, np.ndarray)
        setattr(moved, name, as_kind_of(value, X) if is_array else value)
    return moved


def check_new_rows(calibrator: Any, X: Any, sample_weight: Any) -> Rows:
    """Check logits (n, K) and weights (n,) without labels for a fitted calibrator."""
    X = as_array(X, n_columns=calibrator.n_features_in_)
    check_column_names(X, calibrator.classes_)
    check = partial(_check_without_labels, copy(calibrator))
    rows, statistics = checked_rows(check, X=X, sample_weight=sample_weight)
    if statistics.like_probabilities:
        warn_of_probabilities(rows.n_columns)
    return rows


def _check_without_labels(estimator: Any, X: Any, sample_weight: Any) -> tuple[Rows, RowStatistics]:
    """Check logits and weights for a fitted estimator; all rows get the label 0."""
    Z = logits_for(estimator, X, least_rows=1)
    return check_rows(Z, np.zeros(len(Z), np.intp), sample_weight)

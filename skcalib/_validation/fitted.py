"""Checks of fitted estimators and of logits they are given, which cost little for one row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib._typing import Floats

PRECISIONS = [np.dtype(np.float64), np.dtype(np.float32)]


def check_fitted(estimator: Any) -> None:
    """Raise a NotFittedError unless the estimator is fitted, and so has ``classes_``."""
    if "classes_" not in vars(estimator):
        check_is_fitted(estimator)


def check_logits(estimator: Any, X: Any) -> Floats:
    """Logits as an array of the width, and with the column names, that the estimator was fitted to.

    They may be invalid. scikit-learn's check takes most of the time of one row, in which it looks
    for data frames of many kinds, and so is left out where it would return ``X``.
    """
    if _is_plain(X, estimator.n_features_in_) and not hasattr(estimator, "feature_names_in_"):
        return X
    Z: Floats = validate_data(
        estimator, X, reset=False, dtype=PRECISIONS, ensure_all_finite=False
    )
    return Z


def _is_plain(X: Any, n_columns: int) -> bool:
    """Whether it is an array of rows of this width, in a precision that is kept."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in PRECISIONS
        and X.shape[1] == n_columns
        and len(X) > 0
    )

"""Checks by scikit-learn of arrays and of fitted estimators, left out where they change nothing.

They look for data frames of many kinds first, which takes most of the time of one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib._typing import Floats

PRECISIONS = [np.dtype(np.float64), np.dtype(np.float32)]


def _is_plain(x: Any) -> bool:
    """Whether it is an array of numbers, in one or two dimensions, that checks leave as it is."""
    return type(x) is np.ndarray and x.dtype in PRECISIONS and x.size > 0 and x.ndim in (1, 2)


def as_floats(x: Any, name: str) -> Floats:
    """An array in one or two dimensions, whose values may be invalid."""
    if _is_plain(x):
        return x
    found: Floats = check_array(
        x, dtype=PRECISIONS, ensure_2d=False, ensure_all_finite=False, input_name=name
    )
    return found


def check_fitted(estimator: Any) -> None:
    """Raise a NotFittedError unless the estimator is fitted, and so has ``classes_``."""
    if "classes_" not in vars(estimator):
        check_is_fitted(estimator)


def logits_for(estimator: Any, X: Any) -> Floats:
    """Logits, which may be invalid, with the columns that the estimator was fitted to."""
    named = hasattr(estimator, "feature_names_in_")
    if _is_plain(X) and X.shape[1:] == (estimator.n_features_in_,) and not named:
        return X
    found: Floats = validate_data(
        estimator, X, reset=False, dtype=PRECISIONS, ensure_all_finite=False
    )
    return found

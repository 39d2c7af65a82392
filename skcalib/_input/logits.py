"""Check logits, probabilities and weights.

scikit-learn's array checks look for many kinds of data frames first, which is slower than some
fits. NumPy arrays of floats skip these checks, which would change nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from skcalib._typing import Array, ArrayLike, Floats
from skcalib._warnings import ProbabilitiesWarning, SmallWeightsWarning, warn

from .arrays import as_numpy, is_ragged, on_host
from .labels import are_missing, distinct_labels, is_missing

# --------------------------------------------------------------------------------------
# Logits and probabilities.

FLOATS = [np.dtype(np.float64), np.dtype(np.float32)]

# Row sums of probabilities may differ from one by this tolerance. Networks often compute softmax in
# bfloat16, with relative errors up to 2^-8.
SUM_TOLERANCE = 5e-3

# A probability may exceed one by this rounding error, from normalization in float32.
ROUNDING = 1e-6

# Fewer log-odds, or smaller log-odds, may all be between 0 and 1 by chance.
FEW_LOG_ODDS, SMALLEST_RATE = 10, 1e-3

# Upper bound for the size of logits and weights. Its inverse is a lower bound for the largest
# weight.
LARGEST = 1e100

# Advice in messages about logits that are not finite.
CLIP_FIRST = (
    "If they come from the logarithm of probabilities that are 0 or 1, clip these before taking "
    "the log, as in np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
)
LEAVE_OUT = "Leave out these rows, or pass -inf for classes that are impossible."


def as_floats(
    x: Any, name: str, *, flat: bool = False, estimator: str | None = None, least_rows: int = 1
) -> Floats:
    """Convert to floats in two dimensions, or also in one if ``flat``. Values may be invalid."""
    dimensions = (1, 2) if flat else (2,)
    if type(x) is np.ndarray and x.dtype in FLOATS and x.size and x.ndim in dimensions:
        return x
    values: Floats = check_array(
        with_nan(x, name),
        dtype=FLOATS,
        ensure_2d=not flat,
        ensure_all_finite=False,
        ensure_min_samples=least_rows,
        input_name=name,
        estimator=estimator,
    )
    return values


def with_nan(x: Any, name: str = "X") -> Any:
    """Replace pandas.NA by NaN in an array or a frame of objects, and refuse anything but numbers.

    NumPy would convert text and dates to numbers, and cannot convert pandas.NA.
    """
    dtypes = getattr(x, "dtypes", [getattr(x, "dtype", None)])
    kinds = [getattr(dtype, "kind", "O") for dtype in dtypes]
    if not kinds:
        raise ValueError(
            f"{name} must have a column for each class, got a data frame without columns. Select "
            "the columns again."
        )
    if set(kinds) <= set("biufc"):
        return x
    if dates := [dtype for dtype, kind in zip(dtypes, kinds, strict=True) if kind in "mM"]:
        raise ValueError(f"{name} must hold numbers, got {dates[0]}. Leave out its columns.")
    values = np.asarray(x, dtype=object)
    content = values.ravel().tolist()
    for kind in set(map(type, content)):
        value = next(value for value in content if type(value) is kind)
        if issubclass(kind, str):
            raise ValueError(
                f"{name} must hold numbers, got the text {value!r}. Convert it, as in "
                f"{name}.astype(float), and check that no missing number has become text."
            )
        has_parts = getattr(value, "ndim", 0) > 0  # arrays also have __float__
        if has_parts or not (hasattr(kind, "__float__") or is_missing(value)):
            raise TypeError(  # in the words of NumPy, which scikit-learn's checks expect
                f"{name} must hold numbers, got {value!r:.60}: each argument must be a string or a "
                f"number, not {kind.__name__!r}. Pass an array or a list of numbers."
            )
    is_array = getattr(getattr(x, "dtype", None), "kind", "") == "O"
    is_pandas = hasattr(x, "iloc")
    if not (is_array or is_pandas):
        return x
    values = np.where(are_missing(values), np.nan, values)
    return values if is_array else type(x)(values, columns=x.columns)


def check_finite(Z: Floats, xp: Any = np) -> bool:
    """Return whether some class is masked, or raise a ValueError for invalid logits.

    Invalid are NaN, +inf, logits too large to take differences, rows of nothing but -inf, and
    log-odds of -inf. ``xp`` is the namespace of a tensor ``Z``.
    """
    largest = min(LARGEST, float(xp.finfo(Z.dtype).max) / 4)
    if xp.min(Z) >= -largest and xp.max(Z) <= largest:  # false for NaN
        return False
    Z = on_host(Z)
    if np.isnan(Z).any():
        row, column = np.argwhere(np.isnan(Z))[0]
        many = Z.shape[1] > 1
        position = f", the first in row {row}, column {column}" if many else ""
        remedy = LEAVE_OUT if many else "Leave out these rows."
        raise ValueError(
            f"X must hold finite logits, got {np.isnan(Z).sum()} NaN{position}. {remedy}"
        )
    masked = np.isneginf(Z) & (Z.shape[1] > 1)
    invalid = Z[~(masked | (np.abs(Z) <= largest))]
    if len(invalid):
        raise ValueError(
            f"X must hold finite logits of at most {largest:.2g} in size for {Z.dtype}, or -inf "
            f"for masked classes, got {len(invalid)} that are not, such as {invalid[0]:g}. "
            f"{CLIP_FIRST}"
        )
    n_rows = np.count_nonzero(masked.all(axis=1))
    if n_rows:
        raise ValueError(
            f"Each row of X must have a finite logit, got {n_rows} of {len(Z)} rows of nothing but "
            f"-inf. {CLIP_FIRST}"
        )
    return True


def are_probabilities(P: Floats, xp: Any = np) -> bool:
    """Return whether rows (n, K) are non-negative and sum to one, or a column is in [0, 1]."""
    if not xp.min(P) >= 0:  # also NaN
        return False
    if P.ndim == 1 or P.shape[1] == 1:
        return bool(xp.max(P) <= 1 + ROUNDING)
    sums = np.einsum("ij->i", P) if xp is np else xp.sum(P, axis=1)  # faster for few columns
    return bool(xp.max(sums) <= 1 + SUM_TOLERANCE and xp.min(sums) >= 1 - SUM_TOLERANCE)


def seem_probabilities(X: Floats, xp: Any = np, *, fit: bool = True) -> bool:
    """Return whether logits (n, K) seem to be probabilities or percentages.

    Rows are non-negative and sum to one or 100, or if they are to ``fit``, all are in [0, 1], as
    after a sigmoid for each class. ``xp`` is the namespace of a tensor ``X``.
    """
    # Some of the first rows usually contain negative logits, so few calls search all rows.
    if xp.min(X[: min(100, X.shape[0]), ...]) < 0 or xp.min(X) < 0:
        return False
    if X.shape[1] > 1 and (are_probabilities(X, xp) or are_probabilities(X / 100, xp)):
        return True
    # Fewer numbers, or smaller numbers, may be in [0, 1] by chance.
    lowest = SMALLEST_RATE if X.shape[1] == 1 else 0.5
    in_unit_interval = lowest < float(xp.max(X)) <= 1 + ROUNDING
    return in_unit_interval and X.shape[0] >= FEW_LOG_ODDS and (fit or X.shape[1] == 1)


def check_probabilities(P: Floats, labels: Array | None = None) -> None:
    """Raise a ValueError unless rows (n, K), or numbers (n,), are probabilities.

    ``labels`` (n,) determine the number of classes, for the message.
    """
    if P.ndim == 2 and P.shape[1] == 1:
        raise ValueError(
            "y_proba must have one column per class, or one dimension for two classes, got "
            f"shape {tuple(P.shape)}. If it has the probability of the second class, pass "
            "y_proba[:, 0]."
        )
    if are_probabilities(P):
        return
    invalid = ~((P >= 0) & (P <= 1 + ROUNDING))
    if P.ndim == 1:
        first = int(invalid.argmax())
        sums, found = "", f"{P[first]:g} in row {first}"
    else:
        invalid = invalid.any(axis=1) | (np.abs(P.sum(axis=1) - 1) > SUM_TOLERANCE)
        row = P[invalid.argmax()]
        n_classes = P.shape[1] if labels is None else len(distinct_labels(labels))
        sums = f" that sum to one in each row within {SUM_TOLERANCE:g}"
        found = (
            f"{invalid.sum()} of {len(P)} invalid rows, the first with minimum {row.min():g}, "
            f"maximum {row.max():g} and sum {row.sum():g}, in {P.shape[1]} columns for {n_classes} "
            "classes"
        )
    raise ValueError(
        f"y_proba must hold probabilities between 0 and 1{sums}, got {found}. {_remedy(P)}."
    )


def _remedy(P: Floats) -> str:
    """Return advice for numbers that are no probabilities."""
    low, high = P.min(), P.max()
    if np.isnan(low):
        return "Leave out rows without one"
    if low >= -ROUNDING and high <= 1 + ROUNDING:
        if low < 0 and (P.ndim == 1 or are_probabilities(np.clip(P, 0, 1))):
            return "These are rounding errors: pass np.clip(y_proba, 0, 1)"
        return (
            "If rows have several labels, pass an indicator matrix as y_true and "
            "kind='multilabel'; if they have one label, p / p.sum(axis=1, keepdims=True)"
        )
    if low >= 0 and (are_probabilities(P / 100) if P.ndim == 2 else 10 < high <= 100):
        return "Divide percentages by 100"
    return "Pass probabilities, such as predict_proba(X), not logits or predicted labels"


def warn_of_probabilities(n_columns: int, method: str = "fit") -> None:
    """Warn of logits, or log-odds in a single column, that seem to be probabilities.

    ``method`` is a word for the message.
    """
    expected, condition = "logits", "its rows sum to 1 or 100, or all numbers are in [0, 1]"
    remedy = "np.log(p)"
    if n_columns == 1:
        expected, condition = "log-odds", "its column is between 0 and 1"
        remedy = "scipy.special.logit(p)"
    warn(
        f"X probably holds probabilities where {expected} are expected by {method}: {condition}. "
        f"Pass {remedy} instead.",
        ProbabilitiesWarning,
    )


# --------------------------------------------------------------------------------------
# Weights.

# Weights with a smaller mean are probably relative weights.
SMALL_SHARE = 0.02


def check_weights(
    sample_weight: ArrayLike | None, n_rows: int, *, part: bool = False
) -> Floats | None:
    """Convert weights to float64 (n_rows,), or raise a ValueError if they are invalid.

    None stays None. Weights may all be zero if the rows are a ``part``.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str | dict):
        raise ValueError(
            f"sample_weight must be an array of one number per row, got {sample_weight!r}. Pass "
            f"sklearn.utils.class_weight.compute_sample_weight({sample_weight!r}, y)."
        )
    w = as_numpy(sample_weight, "sample_weight")
    if is_ragged(w):
        raise ValueError(
            f"sample_weight must be an array of one number per row, got a {type(w).__name__} of "
            f"{len(w)} parts. Concatenate batches, as in np.concatenate."
        )
    w = check_array(
        with_nan(w if getattr(w, "ndim", 0) else np.atleast_1d(w), "sample_weight"),
        dtype=np.float64,
        ensure_2d=False,
        ensure_all_finite=False,
        input_name="sample_weight",
    )
    if w.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry per row, shape ({n_rows},), got shape {w.shape}. "
            "Pass the weights of the same rows, in one dimension."
        )
    if np.isnan(w).any():
        raise ValueError(
            f"Input sample_weight contains NaN: each row must have a weight, got NaN at position "
            f"{np.isnan(w).argmax()}. Leave out rows without one, or give them a weight of 0."
        )
    largest = w.max()
    if w.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got a weight of {w.min():g}.")
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise ValueError(
            f"The largest of sample_weight must be between {1 / LARGEST:g} and {LARGEST:g}, got "
            f"{largest:.3g}. Multiply all weights by the same number; a weight of 2 is the row "
            "twice."
        )
    if largest == 0 and not part:
        raise ValueError("sample_weight must not be all zero, got only weights of zero.")
    return np.asarray(w)


def warn_of_small_weights(weight: float, n_rows: int) -> None:
    """Warn if the weights sum to much less than the number of rows."""
    if weight < SMALL_SHARE * n_rows:
        warn(
            f"The weights of {n_rows} rows sum to {weight:.3g}, and a weight of 2 is the row "
            f"twice: smoothing and regularization are chosen for {weight:.3g} rows. If weights are "
            "relative, multiply them by len(w) / sum(w).",
            SmallWeightsWarning,
        )


def with_weight_only(y: Array, X: Floats, w: Floats | None) -> tuple[Array, Floats, Floats | None]:
    """Leave out rows with zero weight: their logits must not matter, but 0 times inf is NaN."""
    if w is None or w.all():
        return y, X, w
    index = np.flatnonzero(w > 0)
    return y[index], X[index], w[index]


def refuse_masked(calibrator: Any) -> None:
    """Raise a ValueError if the calibrator does not support masked classes."""
    if not getattr(calibrator, "_takes_masked", True):
        raise ValueError(
            f"{type(calibrator).__name__} mixes the logits of all classes, so X must hold finite "
            "ones, got -inf. Use VectorScaling or another calibrator that maps each class "
            "separately if -inf marks a masked class, that is, one that is impossible in a row. "
            f"{CLIP_FIRST}"
        )

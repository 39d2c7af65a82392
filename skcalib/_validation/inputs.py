"""Checks of parameters, logits, probabilities and weights, and of rows of all three.

scikit-learn's checks of arrays look for data frames of many kinds first, which takes longer than
some fits. NumPy arrays of floats skip these checks, since they would change nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib._rows import Array, ArrayLike, Bools, Floats, Rows, arrays, as_numpy
from skcalib._validation.labels import (
    as_labels,
    distinct_labels,
    in_one_type,
    ordered_categories,
    shown,
)
from skcalib._warnings import ProbabilitiesWarning, SmallWeightsWarning, warn

# --------------------------------------------------------------------------------------
# Parameters. ``sklearn.utils.check_scalar`` takes booleans for integers and NaN for any number,
# and names no remedy.


def check_integer(name: str, value: Any, *, least: int = 1) -> None:
    """Raise a ValueError for a value that is not an integer, or less than ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def check_real(
    name: str,
    value: Any,
    *,
    high: float = inf,
    closed: bool = False,
    option: str | tuple[str, ...] = (),
    remedy: str = "",
) -> None:
    """Raise a ValueError for a value that is not a finite real number between 0 and ``high``.

    ``closed`` allows 0. ``option`` names one string, or several strings, that are allowed too.
    """
    options = (option,) if isinstance(option, str) else option
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if is_number and (0 < value < high or (closed and value == 0)):
        return
    if isinstance(value, str) and value in options:
        return
    wanted = f"a finite number {'of at least' if closed else 'above'} 0"
    if high < inf:
        wanted = f"a number {'of at least 0 and below' if closed else 'between 0 and'} {high}"
    if options:
        wanted = f"{', '.join(map(repr, options))} or {wanted}"
    raise ValueError(f"{name} must be {wanted}, got {value!r}. {remedy}".rstrip())


def fitted_smoothing(smoothing: Any, rows: Rows) -> float:
    """Weight of the uniform distribution: the parameter, or the weight of one row for "auto"."""
    check_real("smoothing", smoothing, high=1, closed=True, option="auto")
    return 1 / (rows.weight + 1) if smoothing == "auto" else float(smoothing)


def check_option(name: str, value: Any, options: Any | Collection[str]) -> None:
    """Raise a ValueError for a value that is not one of the strings, or not of a Literal type."""
    known = get_args(options) or tuple(options)
    if not (isinstance(value, str) and value in known):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise a ValueError for a value that is not a boolean of Python or NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_priors(priors: Any, present: Bools) -> Floats:
    """Priors (K,) that sum to one; a ValueError for numbers that are not a distribution.

    ``present`` (K,) says which classes have rows. The prior of other classes must be 0.
    """
    values = np.asarray(priors)
    if values.shape != present.shape or values.dtype.kind not in "iuf":
        raise ValueError(
            f"priors must be a list of {len(present)} numbers, one for each of the classes in "
            f"their order, or a Series or a dict by name, got {type(priors).__name__} of shape "
            f"{values.shape}."
        )
    if not are_probabilities(values[None].astype(np.float64)):
        raise ValueError(
            f"priors must be probabilities that sum to one, got a minimum of {values.min():g} and "
            f"a sum of {values.sum():g}. Pass numbers of rows divided by their sum."
        )
    absent = np.flatnonzero((values > 0) & ~present)
    if len(absent):
        raise ValueError(
            "priors must be 0 for classes without rows in y, whose predictions are unknown, got "
            f"positive ones in places [{shown(absent)}]. Set them to 0, or calibrate with rows of "
            "these classes."
        )
    normalized: Floats = values / values.sum(dtype=np.float64)
    return normalized


# --------------------------------------------------------------------------------------
# Logits and probabilities.

FLOATS = [np.dtype(np.float64), np.dtype(np.float32)]

# Sums of rows of probabilities may differ from one by this much. Networks often compute softmax in
# bfloat16, which changes each number by up to 2^-8 of it.
SUM_TOLERANCE = 5e-3

# A probability may exceed one by the rounding error of normalization in float32.
ROUNDING = 1e-6

# Fewer log-odds may all be between 0 and 1 by chance, and so may log-odds below this rate.
FEW_LOG_ODDS, SMALLEST_RATE = 10, 1e-3

# Upper bound of the size of logits and of weights; the largest weight is at least its inverse.
LARGEST = 1e100

# Advice in messages about logits that are not finite.
CLIP_FIRST = (
    "If they come from the logarithm of probabilities that are 0 or 1, clip these before taking "
    "the log, as in np.log(np.maximum(p, np.finfo(p.dtype).tiny))."
)


def as_floats(x: Any, name: str, *, flat: bool = False, estimator: str | None = None) -> Floats:
    """Array in two dimensions, or also in one if ``flat``. Values may be invalid."""
    dimensions = (1, 2) if flat else (2,)
    if type(x) is np.ndarray and x.dtype in FLOATS and x.size and x.ndim in dimensions:
        return x
    _check_no_dates(x, name)
    values: Floats = check_array(
        x,
        dtype=FLOATS,
        ensure_2d=not flat,
        ensure_all_finite=False,
        input_name=name,
        estimator=estimator,
    )
    return values


def _check_no_dates(x: Any, name: str) -> None:
    """Raise a ValueError for dates and durations, which scikit-learn converts to numbers."""
    dtypes = [x.dtype] if hasattr(x, "dtype") else getattr(x, "dtypes", ())
    wrong = [dtype for dtype in dtypes if getattr(dtype, "kind", None) in ("m", "M")]
    if wrong:
        raise ValueError(f"{name} must hold numbers, got {wrong[0]}. Leave out its columns.")


def check_fitted(estimator: Any) -> None:
    """Raise a NotFittedError unless the estimator is fitted."""
    if "classes_" not in vars(estimator):
        check_is_fitted(estimator)


def logits_for(estimator: Any, X: Any, least_rows: int = 0) -> Floats:
    """Logits with the columns that the estimator was fitted to. Values may be invalid."""
    same_width = type(X) is np.ndarray and X.shape[1:] == (estimator.n_features_in_,)
    if same_width and len(X) and not hasattr(estimator, "feature_names_in_"):
        return as_floats(X, "X", estimator=type(estimator).__name__)
    _check_no_dates(X, "X")
    options = {"dtype": FLOATS, "ensure_all_finite": False, "ensure_min_samples": least_rows}
    Z: Floats = validate_data(estimator, X, reset=False, **options)
    return Z


def check_finite(Z: Floats) -> bool:
    """Whether some class is masked; a ValueError for invalid logits.

    Invalid are NaN, +inf, logits too large to take differences, rows of nothing but -inf, and
    log-odds of -inf.
    """
    xp = arrays.namespace(Z)
    largest = min(LARGEST, float(xp.finfo(Z.dtype).max) / 4)
    if xp.max(Z) <= largest and xp.min(Z) >= -largest:  # false for NaN
        return False
    Z = arrays.on_host(Z)
    masked, nan = np.isneginf(Z), np.isnan(Z)
    counts = {
        "NaN": np.count_nonzero(nan),
        "larger": np.count_nonzero(~(masked | nan | (np.abs(Z) <= largest))),
        "-inf": np.count_nonzero(masked) if Z.shape[1] == 1 else 0,
    }
    if any(counts.values()):
        invalid = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)
        raise ValueError(
            f"X must hold finite logits of at most {largest:.2g} in size for {Z.dtype}, or -inf "
            f"for masked classes, got {invalid}. {CLIP_FIRST}"
        )
    n_rows = np.count_nonzero(masked.all(axis=1))
    if n_rows:
        raise ValueError(
            f"Each row of X must have a finite logit, got {n_rows} of {len(Z)} rows of nothing but "
            f"-inf. {CLIP_FIRST}"
        )
    return True


def _check_not_tiny(Z: Floats) -> None:
    """Raise a ValueError if all logits are so close to zero that their ratios underflow."""
    xp, limits = arrays.namespace(Z), arrays.namespace(Z).finfo(Z.dtype)
    smallest = float(limits.smallest_normal) / float(limits.eps)
    largest = max(float(xp.max(Z)), -float(xp.min(Z)))
    if 0 < largest < smallest:
        raise ValueError(
            f"The largest logit of X must be zero, or at least {smallest:.1g} in size for {Z.dtype}"
            f", got {largest:.1g}. Multiply X by the same large number."
        )


def check_labels_are_not_masked(rows: Rows) -> None:
    """Raise a ValueError if the class of some label is masked."""
    n = int(rows.sum(lambda Z, y, w: np.count_nonzero(np.isneginf(arrays.of_labels(Z, y)))))
    if n:
        raise ValueError(
            f"The logit of the label of a row must be finite, got {n} of {rows.n_rows} rows in "
            "which it is -inf: a masked class is impossible. Check that the columns of X are in "
            f"the order of the classes. {CLIP_FIRST}"
        )


def are_probabilities(P: Floats) -> bool:
    """Whether rows (n, K) are non-negative and sum to one, or one column is between 0 and 1."""
    xp = arrays.namespace(P)
    if _has_negative(P):
        return False
    if P.ndim == 1 or P.shape[1] == 1:
        return bool(xp.max(P) <= 1 + ROUNDING)
    sums = np.einsum("ij->i", P) if xp is np else xp.sum(P, axis=1)  # faster for few columns
    return bool(xp.max(sums) <= 1 + SUM_TOLERANCE and xp.min(sums) >= 1 - SUM_TOLERANCE)


def _has_negative(X: Floats) -> bool:
    """Whether some number is negative, or NaN."""
    xp = arrays.namespace(X)
    # Logits are usually negative in some of the first rows, so few calls look at all rows.
    return bool(xp.min(X[: min(100, X.shape[0]), ...]) < 0 or not xp.min(X) >= 0)


def kinds_of_probabilities(X: Floats) -> frozenset[str]:
    """Kinds that all rows of logits may be of: "probabilities", "percentages", "sigmoids"."""
    xp = arrays.namespace(X)
    if _has_negative(X):
        return frozenset()
    largest = float(xp.max(X))
    if X.shape[1] == 1:
        few = X.shape[0] < FEW_LOG_ODDS
        are_likely = SMALLEST_RATE < largest <= 1 + ROUNDING and not few
        return frozenset(["probabilities"] if are_likely else [])
    kinds = {"probabilities": are_probabilities(X), "percentages": are_probabilities(X / 100)}
    kinds["sigmoids"] = 0.5 < largest <= 1 + ROUNDING and X.shape[0] >= FEW_LOG_ODDS
    return frozenset(kind for kind, may_be in kinds.items() if may_be)


def check_probabilities(P: Floats) -> None:
    """Raise a ValueError unless rows (n, K), or numbers (n,), are probabilities."""
    if are_probabilities(P):
        return
    P = arrays.on_host(P)
    if P.ndim == 1:
        worst = P[np.argmin((P >= 0) & (P <= 1 + ROUNDING))]
        hint = "Leave out rows without one" if np.isnan(worst) else "Pass probabilities, not logits"
        raise ValueError(f"y_proba must hold probabilities between 0 and 1, got {worst:g}. {hint}.")
    improper = ~((np.abs(P.sum(axis=1) - 1) <= SUM_TOLERANCE) & (P.min(axis=1) >= 0))
    row = P[improper.argmax()]
    raise ValueError(
        "Each row of y_proba must hold probabilities between 0 and 1 that sum to one within "
        f"{SUM_TOLERANCE:g}, got {improper.sum()} of {len(P)} rows that do not, the first with "
        f"minimum {row.min():g}, maximum {row.max():g} and sum {row.sum():g}. Pass probabilities, "
        "not logits; if they only do not sum to one, p / p.sum(axis=1, keepdims=True)."
    )


def warn_of_probabilities(
    n_columns: int, kinds: Collection[str] = ("probabilities",), method: str = "fit"
) -> None:
    """Warn of logits, or log-odds in a single column, that are like probabilities."""
    expected, remedy = "logits", "np.log(p)"
    if n_columns == 1:
        expected, remedy = "log-odds", "scipy.special.logit(p)"
        condition = "The column of X is between 0 and 1"
    elif "probabilities" in kinds:
        condition = "Every row of X is non-negative and sums to one"
    elif "percentages" in kinds:
        condition, remedy = "Every row of X is non-negative and sums to 100", "np.log(p / 100)"
    else:
        condition, remedy = "Every entry of X is between 0 and 1", "scipy.special.logit(p)"
    warn(
        f"{condition}: X probably holds probabilities where {expected} are expected by {method}. "
        f"Pass {remedy} instead.",
        ProbabilitiesWarning,
    )


def warn_of_new_probabilities(X: Floats) -> None:
    """Warn of two or more rows to predict that are like probabilities or percentages."""
    kinds = kinds_of_probabilities(X) - {"sigmoids"}
    if kinds:
        warn_of_probabilities(X.shape[1], kinds, "predictions")


def check_not_swapped(**labels_and_scores: Any) -> None:
    """Raise a ValueError if the labels, the first argument, and the scores are exchanged.

    Fractions are no labels, and scores without fractions are probably labels.
    """
    (y_name, y), (name, x) = labels_and_scores.items()
    if _has_fractions(y, y_name) and not _has_fractions(x, name):
        raise ValueError(
            f"{y_name} and {name} are probably swapped: {y_name} holds fractions, which are "
            f"no labels, and {name} holds none. Pass labels as {y_name}."
        )


def _has_fractions(x: Any, name: str) -> bool:
    """Whether an array in memory holds a number that is not whole."""
    values = as_numpy(x, name)
    if arrays.is_dask(values) or issparse(values):
        return False
    values = np.asarray(values) if hasattr(values, "columns") else values
    is_float = getattr(getattr(values, "dtype", None), "kind", "") == "f"
    return is_float and bool((values > np.floor(values)).any())


# --------------------------------------------------------------------------------------
# Weights.

# Weights with a smaller mean are probably relative.
SMALL_SHARE = 0.02


def check_weights(
    sample_weight: ArrayLike | None, n_rows: int, *, part: bool = False
) -> Floats | None:
    """Weights as a float64 array of shape (n_rows,), or None if there are none.

    Weights may all be zero if the rows are a ``part``.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, str | dict):
        raise ValueError(
            f"sample_weight must be an array of one number per row, got {sample_weight!r}. Pass "
            f"sklearn.utils.class_weight.compute_sample_weight({sample_weight!r}, y)."
        )
    w = np.atleast_1d(as_numpy(sample_weight, "sample_weight"))
    if w.size and isinstance(w.flat[0], str):
        raise ValueError(
            f"sample_weight must be numbers, got {str(w.flat[0])!r}. Pass groups by name, as "
            "in fit(X, y, groups=groups)."
        )
    w = check_array(w, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
    if w.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry per row, shape ({n_rows},), got shape {w.shape}."
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
    if not part:
        check_total_weight(largest)
    return np.asarray(w)


def check_total_weight(weight: float) -> None:
    """Raise a ValueError for a total weight of zero."""
    if weight == 0:
        raise ValueError("sample_weight must not be all zero, got only weights of zero.")


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
    """Rows of positive weight. Logits of other rows must not matter: 0 times infinity is NaN."""
    if w is None or w.all():
        return y, X, w
    kept = np.flatnonzero(w > 0)
    return y[kept], arrays.namespace(X).take(X, arrays.like(kept, X), axis=0), w[kept]


# --------------------------------------------------------------------------------------
# Rows of logits or probabilities, labels and weights, and statistics of them.


@dataclass(frozen=True)
class RowStatistics:
    """Statistics of rows; the sum of two is for all rows of both."""

    labels: Array  #: distinct labels of rows of positive weight, sorted
    weight: float  #: sum of the weights
    n_rows: int = 0  #: number of rows of positive weight
    like_probabilities: frozenset[str] = frozenset()  #: kinds that the rows of logits may be
    masked: bool = False  #: whether some logit is -inf
    categories: Array | None = None  #: ordered categories of the labels

    def __add__(self, other: RowStatistics) -> RowStatistics:
        return RowStatistics(
            np.unique(np.concatenate(in_one_type(self.labels, other.labels))),
            self.weight + other.weight,
            self.n_rows + other.n_rows,
            self.like_probabilities & other.like_probabilities,
            self.masked or other.masked,
            other.categories if self.categories is None else self.categories,
        )


def check_rows(
    X: Any, y: Any, sample_weight: Any, *, proba: bool = False, estimator: str | None = None
) -> tuple[tuple[Floats, Array, Floats | None], RowStatistics]:
    """Logits, labels and weights of the rows of positive weight, and statistics of them.

    With ``proba``, they are ``y_proba`` (n, K) or (n,) and ``y_true`` of a measure.
    """
    name, y_name = ("y_proba", "y_true") if proba else ("X", "y")
    labels = as_labels(y, y_name, warns=not proba)
    X = as_floats(X, name, flat=proba, estimator=estimator)
    if proba and X.ndim == 2 and X.shape[1] == 1:
        raise ValueError(
            "y_proba must have one column per class, or one dimension for two classes, got "
            f"shape {tuple(X.shape)}. If it has the probability of the second class, pass "
            "y_proba[:, 0]."
        )
    if len(labels) != len(X):
        names, lengths = [name, y_name], [len(X), len(labels)]
        if proba:  # labels are the first argument of measures
            names, lengths = names[::-1], lengths[::-1]
        is_transposed = X.ndim == 2 and X.shape[1] == len(labels)
        remedy = f"{name}.T, if it has a column for each row" if is_transposed else "the same rows"
        raise ValueError(
            f"{' and '.join(names)} must have the same rows, got inconsistent numbers of samples: "
            f"{lengths}. Pass {remedy}."
        )
    masked, kinds = False, frozenset[str]()
    if proba:
        check_probabilities(X)
    else:
        masked, kinds = check_finite(X), kinds_of_probabilities(X)
        _check_not_tiny(X)
    w = None
    if sample_weight is not None:
        w = check_weights(sample_weight, len(labels), part=True)
        labels, X, w = with_weight_only(labels, X, w)
        masked = masked and bool(arrays.namespace(X).any(-np.inf == X))
    statistics = RowStatistics(
        labels=distinct_labels(labels),
        weight=float(len(labels) if w is None else w.sum()),
        n_rows=len(labels),
        like_probabilities=kinds,
        masked=masked,
        categories=ordered_categories(y),
    )
    return (X, labels, w), statistics


def check_unlabelled(
    estimator: Any, X: Any, sample_weight: Any
) -> tuple[tuple[Floats, None, Floats | None], RowStatistics]:
    """Logits and weights of rows for a fitted calibrator, and statistics of them."""
    Z = logits_for(estimator, X, least_rows=1)
    masked, kinds = check_finite(Z), kinds_of_probabilities(Z)
    w = check_weights(sample_weight, len(Z), part=True)
    statistics = RowStatistics(
        labels=np.zeros(0, np.intp),
        weight=float(len(Z) if w is None else w.sum()),
        n_rows=len(Z),
        like_probabilities=kinds,
        masked=masked,
    )
    return (Z, None, w), statistics

"""Logits of classifiers: of any rows, and of those held out when the classifier was fitted.

Rows that a classifier was fitted on look better to it than rows it has not seen, so a calibrator
must learn from others: from *held-out logits*, those of the test rows of each split by a copy of
the classifier that was fitted to its training rows.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold, check_cv

# The only private names of scikit-learn: they take rows of whatever its estimators take as X (and
# columns of precomputed kernels) and of the arguments of fit that have one entry per row.
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from ._labels import encode, is_among
from ._rows import both_columns

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
ResponseMethod = Literal["auto", "decision_function", "predict_proba"]


class Response(NamedTuple):
    """Where the logits of a classifier come from."""

    method: str
    min_proba: float  #: smaller probabilities count as this

    def least(self, dtype: np.dtype[Any]) -> float:
        """The smallest probability."""
        return max(self.min_proba, float(np.finfo(dtype).tiny))


class Problem(NamedTuple):
    """Checked arguments of ``fit``."""

    X: Any
    y: NDArray[Any]
    response: Response
    fit_params: dict[str, Any]  #: arguments of the classifier's ``fit``
    split_params: dict[str, Any]  #: arguments of the splitter's ``split``


class HeldOut(NamedTuple):
    """What one split leaves: a fitted classifier, and rows it has not seen."""

    estimator: Any
    rows: Indices  #: numbers of the test rows
    logits: Floats  #: of these rows, one column per class that the classifier knows


class Lesson(NamedTuple):
    """What a calibrator learns from."""

    estimator: Any  #: the fitted classifier that it is for
    logits: Floats
    rows: Indices  #: the rows that these are the logits of
    weights: Floats | None


# --------------------------------------------------------------------------------------
# Logits of classifiers.


def response_of(estimator: Any, response_method: ResponseMethod, min_proba: float) -> Response:
    """Where the logits of a classifier come from, which may be fitted or not."""
    if not (isinstance(min_proba, Real) and 0 < min_proba < 1):
        raise ValueError(f"min_proba must be a number between 0 and 1, got {min_proba!r}.")
    known = ["decision_function", "predict_proba"]
    if response_method not in {"auto", *known}:
        raise ValueError(
            "response_method must be 'auto', 'decision_function' or 'predict_proba', got "
            f"{response_method!r}."
        )
    wanted = known if response_method == "auto" else [response_method]
    if response_method == "auto" and _is_one_versus_one(estimator):
        wanted = ["predict_proba"]
    for name in wanted:
        if hasattr(estimator, name):
            return Response(name, min_proba)
    remedy = (
        " Its margins are those of pairs of classes: set decision_function_shape='ovr'."
        if _is_one_versus_one(estimator)
        else " Logits cannot come from predictions of labels."
    )
    raise ValueError(f"estimator must have {' or '.join(wanted)}, got {estimator!r}.{remedy}")


def _is_one_versus_one(estimator: Any) -> bool:
    """Whether a parameter of it, or of its last step, says that margins are those of pairs."""
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    return any(
        name.split("__")[-1] == "decision_function_shape" and value == "ovo"
        for name, value in inner.get_params().items()
    )


def logits_of(estimator: Any, X: Any, response: Response) -> Floats:
    """Logits (n, n_classes) of a fitted classifier, or margins (n, 1) of two classes."""
    method = response.method
    Z = np.asarray(getattr(estimator, method)(X))
    Z = Z if Z.dtype in (np.float32, np.float64) else Z.astype(np.float64)
    Z = Z[:, None] if Z.ndim == 1 else Z
    n_classes = len(estimator.classes_)
    margins = method == "decision_function" and n_classes == 2 and Z.shape[1] == 1
    if Z.shape[1] != n_classes and not margins:
        raise ValueError(
            f"{method} must give one column for each of the {n_classes} classes, got "
            f"{Z.shape[1]} columns from {type(estimator).__name__}. Choose another "
            "response_method."
        )
    return Z if method == "decision_function" else np.log(np.maximum(Z, response.least(Z.dtype)))


def check_classifier(estimator: Any, name: str) -> None:
    """Raise a ValueError for what is no classifier, or is frozen but not fitted."""
    is_instance = hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type)
    if not (is_instance and is_classifier(estimator)):
        raise ValueError(
            f"estimator must be a classifier, such as LogisticRegression(), got {estimator!r}. "
            f"{name} calibrates probabilities of classes."
        )
    if isinstance(estimator, FrozenEstimator) and not estimator.__sklearn_is_fitted__():
        raise ValueError(
            f"A frozen classifier must be fitted, got {estimator!r}. Fit it first, or pass "
            f"{type(estimator.estimator).__name__} without FrozenEstimator and with cv=5."
        )


# --------------------------------------------------------------------------------------
# Held-out logits.


def splits_of(cv: Any, problem: Problem) -> list[tuple[Indices, Indices]]:
    """Numbers of the training and of the test rows of each split."""
    if isinstance(cv, str) and cv == "prefit":
        raise ValueError(
            "cv must split rows, got 'prefit'. Pass a fitted classifier in a FrozenEstimator."
        )
    splitter = check_cv(cv, problem.y, classifier=True)
    labels, numbers, rows = np.unique(problem.y, return_inverse=True, return_counts=True)
    if isinstance(splitter, StratifiedKFold) and rows.min() < splitter.n_splits:
        raise ValueError(
            f"Each class must have at least as many rows as there are folds, got {rows.min()} of "
            f"class {labels[rows.argmin() :].tolist()[0]!r} for {splitter.n_splits} folds. Pass a "
            "smaller cv."
        )
    try:
        splits = list(splitter.split(problem.X, problem.y, **problem.split_params))
    except ValueError as error:
        if "groups" in str(error) and problem.split_params.get("groups") is None:
            raise ValueError(
                f"{type(splitter).__name__} needs groups, got none. Pass groups= to fit."
            ) from error
        raise
    _check_no_split_is_empty(splits)
    seen = [np.bincount(numbers[train], minlength=len(labels)) > 0 for train, _ in splits]
    _warn_of_unknown_classes(labels, np.array(seen))
    return splits


def _check_no_split_is_empty(splits: list[tuple[Indices, Indices]]) -> None:
    """Raise a ValueError if a split lacks rows to fit the classifier or the calibrator to."""
    for i, (train, test) in enumerate(splits):
        if min(len(train), len(test)) == 0:
            raise ValueError(
                f"Each split must have training rows and test rows, got {len(train)} and "
                f"{len(test)} in split {i}. Leave it out of cv, or choose another cv."
            )


def _warn_of_unknown_classes(labels: NDArray[Any], seen: NDArray[np.bool_]) -> None:
    """Warn if the training rows of some split (n_splits, n_classes) lack a class."""
    if seen.all():
        return
    missing = labels[~seen.all(axis=0)].tolist()
    warnings.warn(
        f"The training rows of {np.count_nonzero(~seen.all(axis=1))} of {len(seen)} splits lack "
        f"class {', '.join(map(repr, missing))}, which the classifier fitted to them gives a "
        "probability of zero. Use stratified splits, or fewer of them.",
        UserWarning,
        stacklevel=5,
    )


def held_out(
    estimator: Any, problem: Problem, splits: list[tuple[Indices, Indices]], n_jobs: int | None
) -> list[HeldOut]:
    """A copy of the classifier for each split, with the logits of its test rows."""
    jobs = (delayed(_held_out)(estimator, problem, train, test) for train, test in splits)
    return list(Parallel(n_jobs=n_jobs)(jobs))


def _held_out(estimator: Any, problem: Problem, train: Indices, test: Indices) -> HeldOut:
    X, y, response, fit_params, _ = problem
    fitted = clone(estimator)
    X_train, y_train = _safe_split(fitted, X, y, train)
    X_test, _ = _safe_split(fitted, X, y, test, train)
    fitted.fit(X_train, y_train, **_check_method_params(X, fit_params, train))
    return HeldOut(fitted, np.asarray(test), logits_of(fitted, X_test, response))


def _in_columns(part: HeldOut, classes: NDArray[Any], least: float) -> Floats:
    """Held-out logits in the columns of all classes; those not known there are improbable."""
    Z, known = part.logits, part.estimator.classes_
    if np.array_equal(known, classes):
        return Z
    Z = both_columns(Z) if len(known) == 2 else Z
    floor = logsumexp(Z, axis=1, keepdims=True) + np.log(least)
    out = np.repeat(floor, len(classes), axis=1)
    out[:, encode(known, classes)] = Z
    return out


def averaged(
    parts: list[HeldOut], classes: NDArray[Any], times: Indices, response: Response
) -> Floats:
    """Held-out logits of all rows, of which each is in so many test sets."""
    dtype = parts[0].logits.dtype
    logits = [_in_columns(part, classes, response.least(dtype)) for part in parts]
    total = np.zeros((len(times), logits[0].shape[1]), dtype)
    for part, Z in zip(parts, logits, strict=True):
        total[part.rows] += Z / times[part.rows, None].astype(dtype)
    return total


def lesson(estimator: Any, parts: list[HeldOut], problem: Problem, w: Floats | None) -> Lesson:
    """Held-out logits of all parts, without rows whose class was not known there."""
    y, least = problem.y, problem.response.least(parts[0].logits.dtype)
    rows = np.concatenate([part.rows for part in parts])
    Z = np.concatenate([_in_columns(part, estimator.classes_, least) for part in parts])
    known = np.concatenate([is_among(y[part.rows], part.estimator.classes_) for part in parts])
    in_order = np.argsort(rows, kind="stable")  # as fit_transform has them
    in_order = in_order[known[in_order]]
    rows = rows[in_order]
    times = np.bincount(rows)[rows]
    if w is not None or times.max() > 1:
        w = (np.ones(len(y)) if w is None else w)[rows] / times
    return Lesson(estimator, Z[in_order], rows, w)

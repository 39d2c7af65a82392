"""Held-out logits of classifiers, by cross-fitting.

A classifier is usually over-confident on the rows that it was fitted to, so a calibrator must be
fitted to *held-out logits*: those of the test rows of each split, from a copy of the classifier
that was fitted to its training rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from skcalib._engine.blocks import both_columns
from skcalib._splits import Presence, Split, are_splits, made_splits
from skcalib._typing import Array, Bools, Floats, Indices
from skcalib._validation.labels import encode, is_among, shown
from skcalib._warnings import warn

from ._response import Response, log_odds, logits_of


class FitArguments(NamedTuple):
    """Checked arguments of ``fit``."""

    X: Any
    y: Array
    response: Response
    fit_params: dict[str, Any]  #: arguments of the classifier's ``fit``
    split_params: dict[str, Any]  #: arguments of the splitter's ``split``


class HeldOut(NamedTuple):
    """The classifier fitted to the training rows of one split, and logits of the test rows."""

    estimator: Any
    rows: Indices  #: numbers of the test rows
    logits: Floats  #: of these rows, one column per class that the classifier knows
    classes: Array  #: those, or the numbers of several labels
    known: Bools | None = None  #: labels (n_labels,) that training rows have and lack


class CalibrationSet(NamedTuple):
    """What a calibrator is fitted to."""

    estimator: Any  #: the fitted classifier that is calibrated
    logits: Floats
    rows: Indices  #: the rows that these are the logits of
    weights: Floats | None


def check_test_rows(classes: Presence, *, ensemble: bool) -> None:
    """Raise a ValueError for test rows of fewer than two classes to fit a calibrator to.

    Rows of a class that the training rows of their split lack do not count.
    """
    known = classes.train & classes.test
    for i, present in enumerate(known):
        if ensemble and present.sum() < 2:
            raise ValueError(
                "With ensemble=True the test rows of each split must hold at least two classes "
                f"that its training rows hold as well, got {classes.of(present)} in split {i}. Use "
                "stratified splits, a smaller cv or ensemble=False."
            )
    anywhere = np.any(known, axis=0)
    if anywhere.sum() < 2:
        raise ValueError(
            "The test rows of all splits must hold at least two classes that the training rows of "
            f"the same split hold as well, got {classes.of(anywhere)}. Choose a cv that "
            "puts rows of a class into both, such as StratifiedKFold(5)."
        )


def warn_of_unknown_classes(classes: Presence) -> None:
    """Warn if the training rows of some split lack a class."""
    lacking = ~classes.train
    if not lacking.any():
        return
    missing = [classes.labels[k] for k in np.flatnonzero(lacking.any(axis=0))]
    warn(
        f"The training rows of {np.count_nonzero(lacking.any(axis=1))} of {len(lacking)} splits "
        f"lack class {shown(missing)}, which the classifier fitted to them gives a "
        "probability of zero. Use stratified splits, or fewer of them."
    )


def splits_of(cv: Any, arguments: FitArguments) -> list[Split]:
    """The splits that ``cv`` stands for, checked."""
    if isinstance(cv, str) and cv == "prefit":
        raise ValueError(
            "cv must split rows, got 'prefit'. Pass a fitted classifier in a FrozenEstimator."
        )
    splitter = cv if are_splits(cv) else check_cv(cv, arguments.y, classifier=True)
    if arguments.response.multilabel:
        if type(splitter).__name__.startswith("Stratified"):
            raise ValueError(
                "cv must not be stratified for several labels per row, got "
                f"{type(splitter).__name__}. Pass KFold(5, shuffle=True), or an integer."
            )
        return _made_splits(splitter, arguments)
    labels, rows = np.unique(arguments.y, return_counts=True)
    if isinstance(splitter, StratifiedKFold) and rows.min() < splitter.n_splits:
        raise ValueError(
            f"Each class must have at least as many rows as there are folds, got {rows.min()} of "
            f"class {labels[rows.argmin() :].tolist()[0]!r} for {splitter.n_splits} folds. Pass a "
            "smaller cv."
        )
    return _made_splits(splitter, arguments)


def _made_splits(splitter: Any, arguments: FitArguments) -> list[Split]:
    X, y, _, _, params = arguments
    return made_splits(splitter, X, y, "Pass groups= to fit.", **params)


# Held-out logits.
def held_out(
    estimator: Any, arguments: FitArguments, splits: list[Split], n_jobs: int | None
) -> list[HeldOut]:
    """A copy of the classifier for each split, with the logits of its test rows."""
    jobs = (delayed(_held_out)(estimator, arguments, train, test) for train, test in splits)
    return list(Parallel(n_jobs=n_jobs)(jobs))


def _held_out(estimator: Any, arguments: FitArguments, train: Indices, test: Indices) -> HeldOut:
    X, y, response, fit_params, _ = arguments
    fitted = clone(estimator)
    X_train, y_train = _safe_split(fitted, X, y, train)
    X_test, _ = _safe_split(fitted, X, y, test, train)
    fitted.fit(X_train, y_train, **_check_method_params(X, fit_params, train))
    Z = logits_of(fitted, X_test, response)
    if response.multilabel:
        return _held_out_labels(fitted, test, Z, y, y_train, response)
    return HeldOut(fitted, test, Z, fitted.classes_)


def _held_out_labels(
    fitted: Any, test: Indices, Z: Floats, y: Array, y_train: Array, response: Response
) -> HeldOut:
    """Log-odds of test rows, with the least probability of labels that the training rows lack.

    Or the largest, of labels that they all have. Labels that all rows have, or lack, are left as
    the classifier fitted to all rows has them.
    """
    check_width(Z, y.shape[1], fitted)
    varies = y.min(axis=0) != y.max(axis=0)
    known = ~varies | (y_train.min(axis=0) != y_train.max(axis=0))
    p = y_train[0, ~known].astype(Z.dtype)
    Z[:, ~known] = log_odds(p, response.least(Z.dtype))
    return HeldOut(fitted, test, Z, np.arange(Z.shape[1]), known)


def check_width(Z: Floats, n_labels: int, estimator: Any) -> None:
    """Raise a ValueError unless there is a column of log-odds for each label."""
    if Z.ndim != 2 or Z.shape[1] != n_labels:
        raise ValueError(
            f"The classifier must give one column for each of the {n_labels} labels, got shape "
            f"{Z.shape} from {type(estimator).__name__}. Fit it to the same indicator matrix."
        )


def warn_of_unknown_labels(parts: list[HeldOut]) -> None:
    """Warn of labels that the training rows of some split all have, or lack."""
    unknown = np.array([~part.known for part in parts if part.known is not None])
    if unknown.any():
        warn(
            f"The training rows of {np.count_nonzero(unknown.any(axis=1))} of {len(parts)} splits "
            f"all have, or all lack, label {shown(np.flatnonzero(unknown.any(axis=0)))}, so that "
            "the classifier fitted to them says nothing about it. Use fewer splits, or leave "
            "such labels out."
        )


def _in_columns(part: HeldOut, classes: Array, least: float) -> Floats:
    """Held-out logits in the columns of all classes, unknown ones with the least probability."""
    Z, known = part.logits, part.classes
    if np.array_equal(known, classes):
        return Z
    Z = both_columns(Z) if len(known) == 2 else Z
    floor = logsumexp(Z, axis=1, keepdims=True) + np.log(least)
    out = np.repeat(floor, len(classes), axis=1)
    out[:, encode(known, classes)] = Z
    return out


def averaged(parts: list[HeldOut], classes: Array, times: Indices, response: Response) -> Floats:
    """Held-out logits of all rows, averaged over the test sets that each is in."""
    dtype = parts[0].logits.dtype
    logits = [_in_columns(part, classes, response.least(dtype)) for part in parts]
    total = np.zeros((len(times), logits[0].shape[1]), dtype)
    for part, Z in zip(parts, logits, strict=True):
        # Not +=, which would add a row that is twice in one test set only once.
        np.add.at(total, part.rows, Z / times[part.rows, None].astype(dtype))
    return total


def calibration_set(
    estimator: Any, parts: list[HeldOut], arguments: FitArguments, w: Floats | None
) -> CalibrationSet:
    """Held-out logits of all parts, without rows of classes that the training rows lack."""
    y, least = arguments.y, arguments.response.least(parts[0].logits.dtype)
    rows = np.concatenate([part.rows for part in parts])
    Z = np.concatenate([_in_columns(part, estimator.classes_, least) for part in parts])
    known = np.concatenate([is_among(y[part.rows], part.estimator.classes_) for part in parts])
    in_order = np.argsort(rows, kind="stable")  # as fit_transform has them
    in_order = in_order[known[in_order]]
    rows = rows[in_order]
    return CalibrationSet(estimator, Z[in_order], rows, _divided(rows, len(y), w))


def calibration_set_of_labels(
    estimator: Any, parts: list[HeldOut], arguments: FitArguments, w: Floats | None
) -> CalibrationSet:
    """The same for several labels, with weights (n, n_labels) of 0 for those that are unknown."""
    rows = np.concatenate([part.rows for part in parts])
    in_order = np.argsort(rows, kind="stable")
    Z = np.concatenate([part.logits for part in parts])
    known = np.repeat([part.known for part in parts], [len(part.rows) for part in parts], axis=0)
    rows = rows[in_order]
    weights = _divided(rows, len(arguments.y), w)
    if not known.all():
        of_rows = np.ones(len(rows)) if weights is None else weights
        weights = of_rows[:, None] * known[in_order]
    return CalibrationSet(estimator, Z[in_order], rows, weights)


def _divided(rows: Indices, n_rows: int, w: Floats | None) -> Floats | None:
    """Weights of held-out rows, divided among the test sets that a row is in."""
    times = np.bincount(rows)[rows]
    if w is None and times.max() == 1:
        return None
    return (np.ones(n_rows) if w is None else w)[rows] / times

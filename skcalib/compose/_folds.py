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
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.labels import encode, is_among, shown
from skcalib._warnings import warn

from ._response import Response, logits_of


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
    labels, rows = np.unique(arguments.y, return_counts=True)
    if isinstance(splitter, StratifiedKFold) and rows.min() < splitter.n_splits:
        raise ValueError(
            f"Each class must have at least as many rows as there are folds, got {rows.min()} of "
            f"class {labels[rows.argmin() :].tolist()[0]!r} for {splitter.n_splits} folds. Pass a "
            "smaller cv."
        )
    return made_splits(
        splitter, arguments.X, arguments.y, "Pass groups= to fit.", **arguments.split_params
    )


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
    return HeldOut(fitted, test, logits_of(fitted, X_test, response))


def _in_columns(part: HeldOut, classes: Array, least: float) -> Floats:
    """Held-out logits in the columns of all classes, unknown ones with the least probability."""
    Z, known = part.logits, part.estimator.classes_
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
    times = np.bincount(rows)[rows]
    if w is not None or times.max() > 1:
        w = (np.ones(len(y)) if w is None else w)[rows] / times
    return CalibrationSet(estimator, Z[in_order], rows, w)

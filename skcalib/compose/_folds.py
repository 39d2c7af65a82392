"""Held-out logits of classifiers, by cross-fitting.

A classifier is usually over-confident on the rows that it was fitted to, so a calibrator must be
fitted to *held-out logits*: the logits of the test rows of each split, from a copy of the
classifier that was fitted to the training rows.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from skcalib._input.labels import encode, shown
from skcalib._rows import Array, Bools, Floats, Indices, both_columns
from skcalib._splits import Split, made_splits, presence
from skcalib._warnings import warn

from ._over_classifier import (
    FitArguments,
    Response,
    as_logits,
    classes_of,
    clipped_log_odds,
    fit_classifier,
    outputs_of,
)


class HeldOut(NamedTuple):
    """The classifier fitted to the training rows of one split, and logits of the test rows."""

    estimator: Any
    response: Response
    rows: Indices  #: numbers of the test rows
    logits: Floats  #: of these rows, one column per class that it knows; first its outputs
    classes: Array  #: those, or the numbers of several labels
    known: Bools | None = None  #: labels (n_labels,) that training rows have and lack

    def knows_all_of(self, y: Array) -> bool:
        """Whether the training rows have all classes, or have and lack all labels."""
        if self.known is not None:
            return bool(self.known.all())
        return len(self.classes) == len(np.unique(y))


class CalibrationSet(NamedTuple):
    """Held-out logits that a calibrator is fitted to."""

    estimators: list[Any]  #: the fitted classifiers that are calibrated
    logits: Floats
    rows: Indices  #: the rows that these are the logits of
    weights: Floats | None


def splits_of(
    cv: Any, arguments: FitArguments, *, w: Floats | None = None, each: bool | None = None
) -> list[Split]:
    """The splits of ``cv``, checked.

    With ``each=True``, a calibrator is fitted to the test rows of each split; with False, one
    calibrator to the test rows of all splits. ``w`` are the weights of the rows.
    """
    if isinstance(cv, str) and cv == "prefit":
        raise ValueError(
            "cv must split rows, got 'prefit'. Pass a fitted classifier in a FrozenEstimator."
        )
    X, y, response, _, params = arguments
    groups = params.get("groups")
    if groups is not None and (cv is None or isinstance(cv, Integral)):
        cv = _group_folds(5 if cv is None else int(cv), groups, multilabel=response.multilabel)
    splitter = check_cv(cv, y, classifier=True)
    if response.multilabel:
        return made_splits(splitter, X, y, **params)
    _, rows = np.unique(y, return_counts=True)
    if isinstance(splitter, StratifiedKFold) and rows.max() < splitter.n_splits:
        raise ValueError(
            "Some class must have at least as many rows as there are folds, got no more than "
            f"{rows.max()} of any class for {splitter.n_splits} folds. Pass a smaller cv."
        )
    splits = made_splits(splitter, X, y, **params)
    classes, in_train, in_test = presence(splits, y, w_test=w)
    if each is not None:
        _check_test_rows(classes, in_train & in_test, each=each)
    lacking = ~in_train
    if lacking.any():
        missing = classes[lacking.any(axis=0)]
        warn(
            f"The training rows of {np.count_nonzero(lacking.any(axis=1))} of {len(lacking)} "
            f"splits lack class {shown(missing)}, which the classifier fitted to them gives a "
            "probability of zero. Use stratified splits, or fewer of them."
        )
    return splits


def _group_folds(n_folds: int, groups: Array, *, multilabel: bool) -> Any:
    """Folds of whole groups, stratified if rows have one label each."""
    n_groups = len(np.unique(groups))
    if n_groups < n_folds:
        raise ValueError(
            f"groups must hold at least as many groups as there are folds, {n_folds}, got "
            f"{n_groups}. Pass a smaller cv."
        )
    return (GroupKFold if multilabel else StratifiedGroupKFold)(n_folds)


def _check_test_rows(classes: Array, known: Bools, *, each: bool) -> None:
    """Raise a ValueError if a calibrator would be fitted to fewer than two classes.

    ``known`` (n_splits, n_classes) says which classes training and test rows of a split hold.
    """
    for i, present in enumerate(known):
        if each and present.sum() < 2:
            raise ValueError(
                "With ensemble=True the test rows of each split must hold at least two classes "
                f"that its training rows hold as well, got [{shown(classes[present])}] in split "
                f"{i}. Use stratified splits, a smaller cv or ensemble='auto'."
            )
    anywhere = np.any(known, axis=0)
    if anywhere.sum() < 2:
        raise ValueError(
            "The test rows of all splits must hold at least two classes that the training rows of "
            f"the same split hold as well, got [{shown(classes[anywhere])}]. Choose a cv that "
            "puts rows of a class into both, such as StratifiedKFold(5)."
        )


def held_out(
    estimator: Any,
    arguments: FitArguments,
    splits: list[Split],
    n_jobs: int | None,
    w: Floats | None = None,
) -> tuple[list[HeldOut], Response]:
    """A copy of the classifier for each split with the logits of its test rows, and their source.

    A frozen classifier has one test set, of all rows. Rows of weight zero do not affect the lower
    bound of probabilities.
    """
    if isinstance(estimator, FrozenEstimator):
        parts = [_frozen_part(estimator, arguments)]
    else:
        jobs = (delayed(_held_out)(estimator, arguments, train, test) for train, test in splits)
        parts = list(Parallel(n_jobs=n_jobs)(jobs))
    _warn_of_unknown_labels(parts)
    first, methods = parts[0].response, {part.response.method for part in parts}
    if len(methods) > 1:
        raise ValueError(
            "The classifier must have the same method after each fit, got "
            f"{' and '.join(sorted(methods))}. Set response_method to one that it always has."
        )
    response = first.with_least([_counted(part, w) for part in parts])
    logits = [as_logits(part.logits, response) for part in parts]
    return [part._replace(logits=Z) for part, Z in zip(parts, logits, strict=True)], response


def _counted(part: HeldOut, w: Floats | None) -> Floats:
    """Outputs of rows of positive weight, for labels that vary in the training rows."""
    outputs = part.logits if w is None else part.logits[w[part.rows] > 0]
    return outputs if part.known is None else outputs[:, part.known]


def _warn_of_unknown_labels(parts: list[HeldOut]) -> None:
    """Warn of labels that the training rows of some split all have, or lack."""
    unknown = np.array([~part.known for part in parts if part.known is not None])
    if unknown.any():
        warn(
            f"The training rows of {np.count_nonzero(unknown.any(axis=1))} of {len(parts)} splits "
            f"all have, or all lack, label {shown(np.flatnonzero(unknown.any(axis=0)))}, so that "
            "the classifier fitted to them says nothing about it. Use fewer splits, or leave "
            "such labels out."
        )


def _frozen_part(estimator: Any, arguments: FitArguments) -> HeldOut:
    """Outputs of a classifier that was fitted to other rows."""
    X, y, response, _, _ = arguments
    response = response.for_fitted(estimator)
    outputs = outputs_of(estimator, X, response)
    if response.multilabel:
        check_width(outputs, y.shape[1], estimator.estimator)
    classes = np.arange(y.shape[1]) if response.multilabel else classes_of(estimator)
    return HeldOut(estimator, response, np.arange(len(y)), outputs, classes)


def _held_out(estimator: Any, arguments: FitArguments, train: Indices, test: Indices) -> HeldOut:
    """Outputs of a copy of the classifier that is fitted to the training rows."""
    X, y, response, fit_params, _ = arguments
    X_train, y_train = _safe_split(estimator, X, y, train)
    X_test, _ = _safe_split(estimator, X, y, test, train)
    params = _check_method_params(X, fit_params, train)
    fitted = fit_classifier(estimator, X_train, y_train, **params)
    response = response.for_fitted(fitted)
    outputs = outputs_of(fitted, X_test, response)
    if not response.multilabel:
        return HeldOut(fitted, response, test, outputs, classes_of(fitted))
    check_width(outputs, y.shape[1], fitted)
    # Labels that all rows have, or lack, are left as the classifier fitted to all rows has them.
    # Others that all training rows lack, or have, get the least probability, or the largest.
    varies = y.min(axis=0) != y.max(axis=0)
    known = ~varies | (y_train.min(axis=0) != y_train.max(axis=0))
    constant = y_train[0, ~known].astype(outputs.dtype)
    is_margin = response.method != "predict_proba"
    least = response.least(outputs.dtype)
    outputs[:, ~known] = clipped_log_odds(constant, least) if is_margin else constant
    return HeldOut(fitted, response, test, outputs, np.arange(outputs.shape[1]), known)


def check_width(Z: Floats, n_labels: int, estimator: Any) -> None:
    """Raise a ValueError unless there is a column of log-odds for each label."""
    if Z.ndim != 2 or Z.shape[1] != n_labels:
        raise ValueError(
            f"The classifier must give one column for each of the {n_labels} labels, got shape "
            f"{Z.shape} from {type(estimator).__name__}. Fit it to the same indicator matrix."
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


def averaged(parts: list[HeldOut], classes: Array, n_rows: int, response: Response) -> Floats:
    """Held-out logits of all rows, averaged over the test sets that each is in."""
    times = np.bincount(np.concatenate([part.rows for part in parts]), minlength=n_rows)
    dtype = parts[0].logits.dtype
    logits = [_in_columns(part, classes, response.least(dtype)) for part in parts]
    total = np.zeros((n_rows, logits[0].shape[1]), dtype)
    for part, Z in zip(parts, logits, strict=True):
        # Not +=, which would add a row that is twice in one test set only once.
        np.add.at(total, part.rows, Z / times[part.rows, None].astype(dtype))
    return total


def calibration_set(
    estimators: list[Any], parts: list[HeldOut], y: Array, response: Response, w: Floats | None
) -> CalibrationSet:
    """Held-out logits of all parts in the order of the rows, for classifiers of the same classes.

    Rows of classes that the training rows of their split lack are left out. Unknown labels among
    several have a weight of 0.
    """
    classes = np.arange(y.shape[1]) if response.multilabel else classes_of(estimators[0])
    least = response.least(parts[0].logits.dtype)
    rows = np.concatenate([part.rows for part in parts])
    Z = np.concatenate([_in_columns(part, classes, least) for part in parts])
    known = np.concatenate([_known(part, y) for part in parts])
    order = np.argsort(rows, kind="stable")
    if not response.multilabel:
        order = order[known[order]]
    rows, known = rows[order], known[order]
    # Rows that are in several test sets are divided among these.
    times = np.bincount(rows)[rows]
    weights = None if w is None and times.max() == 1 else (1.0 if w is None else w[rows]) / times
    if not known.all():
        weights = (np.ones(len(rows)) if weights is None else weights)[:, None] * known
    return CalibrationSet(estimators, Z[order], rows, weights)


def _known(part: HeldOut, y: Array) -> Bools:
    """Whether the class of each test row is in the training rows, or each label varies there."""
    if part.known is None:
        return encode(y[part.rows], part.classes) >= 0
    return np.broadcast_to(part.known, (len(part.rows), len(part.known)))

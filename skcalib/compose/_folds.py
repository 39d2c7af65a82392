"""Held-out logits of classifiers, by cross-fitting.

A classifier is usually over-confident on the rows that it was fitted to, so a calibrator must be
fitted to *held-out logits*. For each split, a copy of the classifier is fitted to the training
rows, and returns the logits of the test rows.
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
from skcalib._rows import both_columns
from skcalib._splits import made_splits, presence
from skcalib._typing import Array, Bools, Floats, Indices, Split
from skcalib._warnings import warn

from ._over_classifier import (
    FitArguments,
    Response,
    as_logits,
    classifier_outputs,
    clipped_log_odds,
    fit_classifier,
    fitted_classes,
)


class HeldOut(NamedTuple):
    """Classifier that is fitted to the training rows of one split, and logits of its test rows."""

    estimator: Any
    response: Response
    rows: Indices  #: numbers of the test rows
    logits: Floats  #: raw outputs, later logits, of the test rows: (n_test, n_classes)
    classes: Array  #: classes in the training rows, or column numbers of several labels
    varies: Bools | None = None  #: labels (n_labels,) with both values in the training rows

    def knows_all(self, y: Array) -> bool:
        """Return whether the training rows contain all classes, or both values of all labels."""
        if self.varies is not None:
            return bool(self.varies.all())
        return len(self.classes) == len(np.unique(y))


class CalibrationSet(NamedTuple):
    """Held-out logits that a calibrator is fitted to."""

    estimators: list[Any]  #: the fitted classifiers to calibrate
    logits: Floats
    rows: Indices  #: row numbers of the logits
    weights: Floats | None


def classifier_splits(
    cv: Any, arguments: FitArguments, *, w: Floats | None = None, per_split: bool | None = None
) -> list[Split]:
    """Make the splits of ``cv`` for a classifier, and check them.

    ``w`` are weights (n_samples,). ``per_split`` says whether one calibrator is fitted to the test
    rows of each split, or to the test rows of all splits. None means that there is no calibrator.
    """
    if isinstance(cv, str) and cv == "prefit":
        raise ValueError(
            "cv must split rows, got 'prefit'. Pass a fitted classifier in a FrozenEstimator."
        )
    X, y, params = arguments.X, arguments.y, arguments.split_params
    multilabel = arguments.response.multilabel
    groups = params.get("groups")
    if groups is not None and (cv is None or isinstance(cv, Integral)):
        cv = _group_folds(5 if cv is None else int(cv), groups, multilabel=multilabel)
    splitter = check_cv(cv, y, classifier=True)
    if multilabel:
        return made_splits(splitter, X, y, **params)
    _, rows = np.unique(y, return_counts=True)
    if isinstance(splitter, StratifiedKFold) and rows.max() < splitter.n_splits:
        raise ValueError(
            "Some class must have at least as many rows as there are folds, got no more than "
            f"{rows.max()} of any class for {splitter.n_splits} folds. Pass a smaller cv."
        )
    splits = made_splits(splitter, X, y, **params)
    classes, in_train, in_test = presence(splits, y, w_test=w)
    if per_split is not None:
        _check_test_rows(classes, in_train & in_test, per_split=per_split)
    lacking = ~in_train
    if lacking.any():
        missing = classes[lacking.any(axis=0)]
        warn(
            f"The training rows of {np.count_nonzero(lacking.any(axis=1))} of {len(lacking)} "
            f"splits lack class {shown(missing)}, so the classifier fitted to them predicts its "
            "probability as zero. Use stratified splits, or fewer splits."
        )
    return splits


def _group_folds(n_folds: int, groups: Array, *, multilabel: bool) -> Any:
    """Return folds that keep groups (n,) together, stratified unless rows have several labels."""
    n_groups = len(np.unique(groups))
    if n_groups < n_folds:
        raise ValueError(
            f"groups must contain at least as many groups as there are folds, {n_folds}, got "
            f"{n_groups}. Pass a smaller cv."
        )
    return (GroupKFold if multilabel else StratifiedGroupKFold)(n_folds)


def _check_test_rows(classes: Array, in_both: Bools, *, per_split: bool) -> None:
    """Raise a ValueError if a calibrator would be fitted to fewer than two classes.

    ``classes`` are labels (n_classes,), and ``in_both`` (n_splits, n_classes) says which of them
    both the training rows and the test rows contain.
    """
    for i, present in enumerate(in_both):
        if per_split and present.sum() < 2:
            raise ValueError(
                "With ensemble=True the test rows of each split must hold at least two classes "
                f"that its training rows hold as well, got [{shown(classes[present])}] in split "
                f"{i}. Use stratified splits, a smaller cv or ensemble='auto'."
            )
    anywhere = np.any(in_both, axis=0)
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
    """Fit a copy of the classifier for each split, and return held-out logits and their source.

    All rows are the test set of a frozen classifier. ``w`` are weights (n_samples,): rows with
    weight zero do not affect the lower bound for probabilities.
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
    response = first.with_min_proba([_weighted_outputs(part, w) for part in parts])
    logits = [as_logits(part.logits, response) for part in parts]
    return [part._replace(logits=Z) for part, Z in zip(parts, logits, strict=True)], response


def _weighted_outputs(part: HeldOut, w: Floats | None) -> Floats:
    """Return outputs for rows with positive weight, and labels that vary in the training rows."""
    outputs = part.logits if w is None else part.logits[w[part.rows] > 0]
    return outputs if part.varies is None else outputs[:, part.varies]


def _warn_of_unknown_labels(parts: list[HeldOut]) -> None:
    """Warn of labels that are constant in a split's training rows."""
    unknown = np.array([~part.varies for part in parts if part.varies is not None])
    if unknown.any():
        warn(
            f"The training rows of {np.count_nonzero(unknown.any(axis=1))} of {len(parts)} splits "
            f"all have, or all lack, label {shown(np.flatnonzero(unknown.any(axis=0)))}, so that "
            "the classifier fitted to them says nothing about it. Use fewer splits, or leave "
            "these labels out."
        )


def _frozen_part(estimator: Any, arguments: FitArguments) -> HeldOut:
    """Return the outputs of a frozen classifier for all rows."""
    response = arguments.response.for_fitted(estimator)
    outputs, y = classifier_outputs(estimator, arguments.X, response), arguments.y
    if response.multilabel:
        check_width(outputs, y.shape[1], estimator.estimator)
    classes = np.arange(y.shape[1]) if response.multilabel else fitted_classes(estimator)
    return HeldOut(estimator, response, np.arange(len(y)), outputs, classes)


def _held_out(estimator: Any, arguments: FitArguments, train: Indices, test: Indices) -> HeldOut:
    """Fit a copy of the classifier to training rows, and return its outputs for test rows.

    ``train`` (n_train,) and ``test`` (n_test,) are row numbers.
    """
    X, y = arguments.X, arguments.y
    X_train, y_train = _safe_split(estimator, X, y, train)
    X_test, _ = _safe_split(estimator, X, y, test, train)
    params = _check_method_params(X, arguments.fit_params, train)
    fitted = fit_classifier(estimator, X_train, y_train, **params)
    response = arguments.response.for_fitted(fitted)
    outputs = classifier_outputs(fitted, X_test, response)
    if not response.multilabel:
        return HeldOut(fitted, response, test, outputs, fitted_classes(fitted))
    check_width(outputs, y.shape[1], fitted)
    # A label that is constant in the training rows only gets the smallest or the largest
    # probability. If it is constant in all rows, the output remains: no row contradicts it.
    varies_anywhere = y.min(axis=0) != y.max(axis=0)
    varies = ~varies_anywhere | (y_train.min(axis=0) != y_train.max(axis=0))
    constant = y_train[0, ~varies].astype(outputs.dtype)
    is_margin = response.method != "predict_proba"
    smallest = response.smallest(outputs.dtype)
    outputs[:, ~varies] = clipped_log_odds(constant, smallest) if is_margin else constant
    return HeldOut(fitted, response, test, outputs, np.arange(outputs.shape[1]), varies)


def check_width(Z: Floats, n_labels: int, estimator: Any) -> None:
    """Raise a ValueError unless there is a column of log-odds for each label."""
    if Z.ndim != 2 or Z.shape[1] != n_labels:
        raise ValueError(
            f"The classifier must return one column for each of the {n_labels} labels, got shape "
            f"{Z.shape} from {type(estimator).__name__}. Fit it to the same indicator matrix."
        )


def _in_columns(part: HeldOut, classes: Array, min_proba: float) -> Floats:
    """Return logits (n_test, n_classes): unknown classes get the probability ``min_proba``."""
    Z = part.logits
    if np.array_equal(part.classes, classes):
        return Z
    Z = both_columns(Z) if len(part.classes) == 2 else Z
    floor = logsumexp(Z, axis=1, keepdims=True) + np.log(min_proba)
    out = np.repeat(floor, len(classes), axis=1)
    out[:, encode(part.classes, classes)] = Z
    return out


def averaged(parts: list[HeldOut], classes: Array, n_rows: int, response: Response) -> Floats:
    """Average the held-out logits of each row over its test sets: (n_rows, n_classes)."""
    times = np.bincount(np.concatenate([part.rows for part in parts]), minlength=n_rows)
    dtype = parts[0].logits.dtype
    logits = [_in_columns(part, classes, response.smallest(dtype)) for part in parts]
    total = np.zeros((n_rows, logits[0].shape[1]), dtype)
    for part, Z in zip(parts, logits, strict=True):
        # += would add a row only once if it is twice in one test set.
        np.add.at(total, part.rows, Z / times[part.rows, None].astype(dtype))
    return total


def calibration_set(
    estimators: list[Any], parts: list[HeldOut], y: Array, response: Response, w: Floats | None
) -> CalibrationSet:
    """Join the held-out logits of all parts in the order of the rows.

    ``y`` are labels (n_samples,) or indicators (n_samples, n_labels), ``w`` weights (n_samples,).
    The classifiers know the same classes. Rows with a class that the training rows of their split
    lack are left out. With several labels, unknown labels get the weight 0.
    """
    classes = np.arange(y.shape[1]) if response.multilabel else fitted_classes(estimators[0])
    smallest = response.smallest(parts[0].logits.dtype)
    rows = np.concatenate([part.rows for part in parts])
    Z = np.concatenate([_in_columns(part, classes, smallest) for part in parts])
    is_known = np.concatenate([_in_training_rows(part, y) for part in parts])
    order = np.argsort(rows, kind="stable")
    if not response.multilabel:
        order = order[is_known[order]]
    rows, is_known = rows[order], is_known[order]
    # A row in several test sets counts once: its weight is divided among them.
    times = np.bincount(rows)[rows]
    weights = None if w is None and times.max() == 1 else (1.0 if w is None else w[rows]) / times
    if not is_known.all():
        weights = (np.ones(len(rows)) if weights is None else weights)[:, None] * is_known
    return CalibrationSet(estimators, Z[order], rows, weights)


def _in_training_rows(part: HeldOut, y: Array) -> Bools:
    """Return whether training rows contain the class of each test row, or both label values."""
    if part.varies is None:
        return encode(y[part.rows], part.classes) >= 0
    return np.broadcast_to(part.varies, (len(part.rows), len(part.varies)))

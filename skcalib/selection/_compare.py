"""Every calibrator on the same rows, by every measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold

from skcalib import binning, scaling
from skcalib._base import BaseCalibrator
from skcalib._engine.inputs import check_in_memory, checked_rows, if_in_memory
from skcalib._splits import Split, check_test_rows, check_training_rows, made_splits, presence
from skcalib._subestimator import check_calibrator, check_order
from skcalib._typing import Array
from skcalib._validation.classes import check_column_names
from skcalib._validation.labels import not_among, shown
from skcalib._validation.rows import check_rows
from skcalib._validation.weights import check_total_weight
from skcalib._warnings import warn

from ._auto import AutoCalibrator
from ._comparison import UNCALIBRATED, CalibratorComparison
from ._fit_and_score import Outcome, fit_and_score, warn_of_fits
from ._measures import LOG_LOSS, Scorer, check_takes_rows, measured, measures_of
from ._sample import Sample, Uncalibrated, by_name, checked_sample

__all__ = ["compare_calibrators"]


def compare_calibrators(
    logits: ArrayLike,
    y: ArrayLike,
    *,
    calibrators: Mapping[str, Any] | Sequence[Any] | None = None,
    cv: Any = 5,
    test: tuple[ArrayLike, ...] | None = None,
    scoring: str | Sequence[str] | Mapping[str, str | Scorer] | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> CalibratorComparison:
    """Compare calibrators on the same rows, by cross-validation or on a test set.

    Every calibrator is fitted to the training rows of each split and scored on its test rows, and
    so are the uncalibrated logits.

    Parameters
    ----------
    logits : array-like of shape (n_samples, n_classes) or (n_samples, 1)
        Logits of rows that the classifier was not fitted on, as calibrators take them. With Dask
        collections give ``test`` as well.
    y : array-like of shape (n_samples,)
        Labels.
    calibrators : dict of str to calibrator or list of calibrators, default=None
        What to compare; by default :class:`AutoCalibrator` and every single method of skcalib with
        its default parameters, except :class:`MatrixScaling` where classes are masked.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows. An integer is the number of stratified folds.
    test : tuple (logits, y) or (logits, y, sample_weight), default=None
        Test set to score on instead, after fits to all of ``logits``. There are no standard
        errors then.
    scoring : str, list of str or dict of str to str or callable, default=None
        Names for :func:`skcalib.metrics.get_scorer`, or a dict with scorers under names of your
        own. Scorers by name that begin with ``neg_`` are shown as positive errors, in a list
        without the prefix; values of scorers that are objects keep the sign that they give them,
        greater is better. The log loss is always included, under the name "log loss", and the
        comparison is sorted by it. By default log loss, Brier score, accuracy, and each calibration
        error.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, for fits and for measures.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns, as for the calibrators.
    n_jobs : int, default=None
        Number of fits at once.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows before they are split, if ``cv`` is an integer. None keeps their order.
    on_progress : callable, default=None
        Called as ``on_progress(done, total)`` after each fit.

    Returns
    -------
    CalibratorComparison
        Prints as a table that is sorted by log loss, a proper scoring rule. A calibration error
        is no criterion of choice, since it ignores discrimination.

    Raises
    ------
    ValueError
        If logits, labels or weights are invalid, for an unknown scorer, for a measure of another
        kind named "log loss", for an object that is not a calibrator, and for splits without
        training or test rows or with training rows of a single class.

    Warns
    -----
    ConvergenceWarning, UserWarning
        Those of the fits, each once, with the calibrators and the number of splits concerned.

    See Also
    --------
    AutoCalibrator : Mixes calibrators by their log loss in cross-validation.

    Examples
    --------
    >>> from skcalib import BBQ, MatrixScaling, compare_calibrators
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> rows = digits.logits_calibration, digits.y_calibration
    >>> found = compare_calibrators(*rows, calibrators=[BBQ(), MatrixScaling()], cv=2)
    >>> found.names
    ['MatrixScaling', 'BBQ', 'uncalibrated']
    """
    rows, checked = checked_sample(logits, y, sample_weight, classes)
    labels, n_columns = checked.classes_, checked.n_features_in_
    judged, masked = (None, False) if test is None else _checked_test(test, labels, n_columns)
    if calibrators is None:
        calibrators = _every_calibrator()
        calibrators = _taking_masked(calibrators) if checked.masked_ or masked else calibrators
    members = {UNCALIBRATED: Uncalibrated(), **_named(calibrators)}
    for member in members.values():
        check_calibrator(member, rows.w)
        check_order(member, labels)
    measures = measures_of(scoring)
    check_takes_rows(measures, logits)
    if judged is None:
        splits = [(rows.part(a), rows.part(b)) for a, b in _splits(rows, cv, random_state)]
    else:
        splits = [(rows, judged)]
    score = partial(measured, measures=measures)
    fits = fit_and_score(
        members.values(), splits, labels, score, n_jobs=n_jobs, on_progress=on_progress
    )
    outcomes = dict(zip(members, fits, strict=True))
    warn_of_fits(outcomes)
    greater = tuple(measure.name for measure in measures if measure.sign > 0)
    return _collected(outcomes, greater, keep=test is not None)


def _collected(
    outcomes: dict[str, list[Outcome]], greater_is_better: tuple[str, ...], *, keep: bool
) -> CalibratorComparison:
    """Outcomes of calibrators by name, sorted by log loss."""
    rows = list(outcomes.values())
    scores = {m: np.array([[o.score[m] for o in row] for row in rows]) for m in rows[0][0].score}
    seconds = np.array([[o.seconds for o in row] for row in rows])
    order = np.argsort(scores[LOG_LOSS].mean(axis=1), kind="stable")
    names = [list(outcomes)[k] for k in order]
    return CalibratorComparison(
        names,
        {measure: values[order] for measure, values in scores.items()},
        seconds[order],
        {name: outcomes[name][0].fitted for name in names} if keep else {},
        greater_is_better,
    )


def _every_calibrator() -> list[BaseCalibrator]:
    """Every single method with its default parameters, and the default calibrator."""
    names = [(package, name) for package in (scaling, binning) for name in package.__all__]
    return [*(getattr(package, name)() for package, name in names), AutoCalibrator()]


def _taking_masked(calibrators: list[BaseCalibrator]) -> list[BaseCalibrator]:
    """Those that take masked classes, with a warning of the others."""
    taking = [calibrator for calibrator in calibrators if calibrator._takes_masked]  # noqa: SLF001
    names = [type(c).__name__ for c in calibrators if c not in taking]
    if names:
        warn(
            "Calibrators that take no masked classes, logits of -inf, are left out: "
            f"{', '.join(names)}."
        )
    return taking


def _named(calibrators: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Calibrators by their names, none of which is that of the uncalibrated logits."""
    named = by_name(calibrators)
    if UNCALIBRATED in named:
        raise ValueError(
            f"calibrators must have other names than {UNCALIBRATED!r}, which is always included, "
            f"got {list(named)}."
        )
    return named


def _checked_test(
    test: tuple[ArrayLike, ...], classes: Array, n_columns: int
) -> tuple[Sample, bool]:
    """The test rows, and whether some of their classes are masked."""
    if not (isinstance(test, tuple | list) and len(test) in {2, 3}):
        raise ValueError(
            "test must be a pair (logits, y) or (logits, y, sample_weight), got "
            f"{type(test).__name__}."
        )
    logits, y, sample_weight = (*test, None)[:3]
    rows, found = checked_rows(check_rows, X=logits, y=y, sample_weight=sample_weight)
    check_total_weight(found.weight)
    if rows.n_columns != n_columns:
        raise ValueError(
            f"Logits of test must have as many columns as logits, {n_columns}, got "
            f"{rows.n_columns}."
        )
    check_column_names(logits, classes, "test")
    unknown = not_among(found.labels, classes)
    if len(unknown):
        raise ValueError(
            f"Labels of test must be among those of y, got {shown(unknown[:1])}. If y lacks "
            "classes, name all labels in column order with classes=."
        )
    arrays = if_in_memory(lambda *_: rows.arrays, logits, y, sample_weight)
    return Sample(*arrays), found.masked


def _splits(rows: Sample, cv: Any, random_state: Any) -> list[Split]:
    check_in_memory(
        [rows.Z],
        "Dask collections cannot be split into folds, got test=None. Pass test=(logits, y), as "
        "random_split of a Dask data frame gives them.",
    )
    if isinstance(cv, Integral) and random_state is not None:
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    remedy = "Pass its splits, cv=splitter.split(logits, y, groups)."
    splits = made_splits(cv, rows.Z, rows.y, remedy)
    classes = presence(splits, rows.y, w_train=rows.w, w_test=rows.w)
    check_training_rows(classes)
    check_test_rows(classes)
    return splits

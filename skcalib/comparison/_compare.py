"""Fit every calibrator to the same rows, and score it by every measure."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib.parallel import get_active_backend
from scipy.stats import entropy
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.parallel import Parallel, delayed

from skcalib import binning, scaling
from skcalib._fits import fit_calibrator
from skcalib._input.arrays import (
    as_array,
    as_numpy,
    check_in_memory,
    if_in_memory,
    is_dask,
    named_columns,
    taken,
)
from skcalib._input.classes import with_unknown_classes
from skcalib._input.column_order import check_column_names, largest_columns
from skcalib._input.estimators import (
    by_name,
    check_calibrator,
    check_order,
    features_argument,
    taking_masked,
)
from skcalib._input.groups import check_groups, group_numbers, groups_with, warn_of_few_events
from skcalib._input.labels import as_labels, not_among, shown
from skcalib._input.logits import FLOATS, check_weights
from skcalib._input.parameters import check_option
from skcalib._input.rows import check_rows, checked_rows
from skcalib._rows import Rows
from skcalib._splits import checked_splits
from skcalib._typing import Array, ArrayLike, Kind, Split
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded
from skcalib.base import BaseCalibrator
from skcalib.conditional import ConditionalCalibrator
from skcalib.metrics._named_scorers import Measures
from skcalib.scaling import Uncalibrated
from skcalib.selection import AutoCalibrator

from ._comparison import FIT_TIME, UNCALIBRATED, CalibratorComparison

# The reference that stands for the calibrator with the lowest log loss.
BEST_REFERENCE = "best"

# Seconds before the line of progress appears: most comparisons need less.
PROGRESS_DELAY = 2.0

# Parts of a test set for the jackknife. Each part is scored once more, so larger sets have none.
N_PARTS, MAX_LOGITS = 20, 1 << 20


def compare_calibrators(
    X: ArrayLike,
    y: ArrayLike,
    *,
    calibrators: Mapping[str, Any] | Sequence[Any] | None = None,
    cv: Any = 5,
    test: tuple[ArrayLike, ...] | None = None,
    scoring: str | Sequence[str] | Mapping[str, Any] | None = None,
    kind: Kind = "auto",
    reference: str = UNCALIBRATED,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    features: Any = None,
    labels: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> CalibratorComparison:
    """Compare calibrators on the same rows, by cross-validation or on a test set.

    Every calibrator is fitted to the training rows of each split and scored on its test rows. The
    uncalibrated logits are scored on the same test rows. Differences from a reference are paired:
    they compare scores on the same split.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
        Held-out logits: the classifier was not fitted on these rows. With Dask collections pass
        ``test`` as well.
    y : array-like of shape (n_samples,)
        Labels.
    calibrators : dict of str to calibrator or list of calibrators, default=None
        Calibrators to compare. By default :class:`AutoCalibrator` and every single method in
        skcalib with its default parameters. If classes are masked, the default leaves out
        :class:`MatrixScaling`. If there are features, it adds :class:`ConditionalCalibrator`.
    cv : int, splitter or iterable of splits, default=5
        Splits of the rows. An integer is a number of stratified folds, which keep groups together.
    test : tuple (X, y[, sample_weight[, features[, groups]]]), default=None
        Test set to score on instead, after fits to all rows of ``X``. Standard errors and paired
        intervals of differences then come from a jackknife over 20 parts of its rows or groups, if
        at most a million logits are in memory. It needs features if ``features`` are passed.
    scoring : str, list of str or dict of str to str or callable, default=None
        Names for :func:`skcalib.metrics.calibration_scorer`, or a dict with scorers under your own
        names. Scorers with names that begin with ``neg_`` are shown as positive errors, without the
        prefix if they are in a list. Scorers that are objects retain their sign: greater is better.
        The comparison always includes the log loss, named "log loss", and is sorted by it. By
        default log loss, Brier score, accuracy, and all calibration errors.
    kind : {"auto", "top-label", "binary", "classwise"}, default="auto"
        Score and event for calibration errors that are passed by name, as for
        :func:`skcalib.metrics.reliability_curve`.
    reference : str, default="uncalibrated"
        Name of the calibrator that differences refer to, or "best" for the calibrator with the
        lowest log loss.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, for fits and for measures.
    groups : array-like of shape (n_samples,), default=None
        Group per row. Folds keep groups together, also the folds inside calibrators that accept
        groups.
    features : array-like or data frame of shape (n_samples, n_columns), default=None
        Features for calibrators with predictions that depend on them, such as
        :class:`ConditionalCalibrator`.
    labels : array-like of shape (n_classes,), default=None
        All labels in column order, as ``classes=`` in calibrators.
    n_jobs : int, default=None
        Number of fits in parallel.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows before the split, if ``cv`` is an integer. None keeps their order.
    on_progress : callable, default=None
        Called as ``on_progress(done, total)`` after each fit. By default a line on a terminal or
        in a notebook shows the progress after two seconds.

    Returns
    -------
    CalibratorComparison
        Prints as a table that is sorted by log loss, a proper scoring rule. Do not choose by a
        calibration error, since it ignores discrimination.

    Raises
    ------
    ValueError
        If logits, labels or weights are invalid, a scorer or the reference is unknown, another
        measure is named "log loss", or an object is not a calibrator. Also if a split has no
        training or test rows, or its training rows are all in one class.

    Warns
    -----
    ConvergenceWarning, UserWarning
        Warnings from the fits. Equal warnings are given once, with the calibrator names and
        the number of splits.

    See Also
    --------
    AutoCalibrator : Mixes calibrators by their log loss in cross-validation.

    Examples
    --------
    >>> from skcalib import BBQ, MatrixScaling, compare_calibrators
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> rows = digits.logits_calibration, digits.y_calibration
    >>> comparison = compare_calibrators(*rows, calibrators=[BBQ(), MatrixScaling()], cv=2)
    >>> comparison.names
    ['MatrixScaling', 'BBQ', 'uncalibrated']
    """
    checked = _CheckedInput(classes=labels).fit(X, y, sample_weight)
    X = as_array(X)
    Z, labels, w = if_in_memory(_arrays, X, y, sample_weight)
    if groups is not None:
        check_in_memory([X])
        groups = check_groups(groups, np.shape(X)[0])
    rows = Sample(Z, labels, w, _checked_features(features, X))
    classes, n_columns = checked.classes_, checked.n_features_in_
    judged, masked = (None, False) if test is None else _checked_test(test, classes, n_columns)
    part = None if judged is None else _part_numbers(judged, test, classes)
    parts = [] if part is None else [np.flatnonzero(part != k) for k in range(part.max() + 1)]
    if calibrators is None:
        defaults = _default_calibrators()
        if features is not None:
            defaults.append(ConditionalCalibrator())
        calibrators = by_name(defaults, Uncalibrated())
        if masked or checked.masked_:
            calibrators = taking_masked(calibrators)
    named = by_name(calibrators, Uncalibrated())
    members = _members(named, w, classes)
    if reference not in members and type(named.get(reference)) is Uncalibrated:
        reference = UNCALIBRATED
    check_option("reference", reference, [*members, BEST_REFERENCE])
    measures = Measures(scoring, X, kind, checked.order_)
    if FIT_TIME in measures.names:
        raise ValueError(
            f"{FIT_TIME!r} in scoring is the name of a column of every comparison, got a measure "
            "with this name. Choose another name."
        )
    if judged is None:
        splits = [
            (rows.part(train), None if groups is None else groups[train], rows.part(test_rows))
            for train, test_rows in _splits(rows, groups, cv, random_state)
        ]
    else:
        splits = [(rows, groups, judged)]
    jobs = [
        delayed(_outcome)(member, *split, parts, classes, checked.order_, measures)
        for member in members.values()
        for split in splits
    ]
    outcomes: list[Outcome] = []
    progress = on_progress or _progress_line()
    # A generator shows progress fit by fit, but backends such as multiprocessing return a list.
    streams = get_active_backend()[0].supports_return_generator
    for outcome in Parallel(n_jobs=n_jobs, return_as="generator" if streams else "list")(jobs):
        outcomes.append(outcome)
        progress(len(outcomes), len(jobs))
    greater = measures.greater_is_better
    comparison = _collected(list(members), outcomes, greater, keep=test is not None)
    part_weights = None
    if judged is not None and part is not None:
        part_weights = np.bincount(part, judged.w).astype(np.float64)
    return replace(
        comparison,
        base_rate_log_loss=_base_rate_log_loss(judged or rows),
        part_weights=part_weights,
        reference=comparison.names[0] if reference == BEST_REFERENCE else reference,
    )


def _progress_line() -> Callable[[int, int], None]:
    """Return a function that shows the number of fits on a terminal or in a notebook."""
    start = time.monotonic()
    is_watched = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())

    def show(done: int, total: int) -> None:
        if is_watched and time.monotonic() - start > PROGRESS_DELAY:
            end = "\n" if done == total else ""
            sys.stderr.write(f"\rcompare_calibrators: {done} of {total} fits{end}")
            sys.stderr.flush()

    return show


class Sample(NamedTuple):
    """Logits, labels, weights and features of rows: arrays, or of Dask."""

    Z: Any
    y: Any
    w: Any
    features: Any = None

    def part(self, rows: Any) -> Sample:
        """Some of the rows."""
        *arrays, features = self
        features = None if features is None else taken(features, rows)
        Z, y, w = (None if array is None else array[rows] for array in arrays)
        return Sample(Z, y, w, features)


class _CheckedInput(Uncalibrated):
    """Checks of logits and labels that store whether classes are masked, and their order."""

    masked_: bool
    order_: Array | None

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return {"masked_": rows.masked, "order_": rows.order}


def _base_rate_log_loss(rows: Sample) -> float:
    """Return the log loss of the base rates in the labels, NaN for labels in a Dask collection."""
    if is_dask(rows.y):
        return np.nan
    index = np.unique(rows.y, return_inverse=True)[1]
    return float(entropy(np.bincount(index, rows.w)))


def _members(named: Mapping[str, Any], w: Any, classes: Array) -> dict[str, Any]:
    """Return the named calibrators, with the uncalibrated logits first.

    ``w`` (n,) are weights or None, ``classes`` (n_classes,) labels. The uncalibrated logits have
    one row, even if the calibrators include them. Raise a ValueError if a calibrator does not suit
    the weights or the class order.
    """
    named = {name: member for name, member in named.items() if type(member) is not Uncalibrated}
    if {UNCALIBRATED, BEST_REFERENCE} & named.keys():
        raise ValueError(
            f"calibrators must have other names than {UNCALIBRATED!r}, which is always included, "
            f"and {BEST_REFERENCE!r}, got {list(named)}."
        )
    members = {UNCALIBRATED: Uncalibrated(), **named}
    for member in members.values():
        check_calibrator(member, w)
        check_order(member, classes)
    return members


def _default_calibrators() -> list[BaseCalibrator]:
    """Return every single method with its default parameters, and the default calibrator."""
    names = [(package, name) for package in (scaling, binning) for name in package.__all__]
    # The uncalibrated logits are always compared. Ordinal calibration would need an order.
    for name in ("Uncalibrated", "OrdinalCalibration"):
        names.remove((scaling, name))
    return [*(getattr(package, name)() for package, name in names), AutoCalibrator()]


class Outcome(NamedTuple):
    """Scores and messages of one calibrator on one split."""

    scores: dict[str, float]  #: by the name of the measure
    fitted: Any
    seconds: float  #: duration of the fit
    messages: Messages
    left_out: list[dict[str, float]]  #: scores without each part of the test set


def _outcome(
    calibrator: Any,
    train: Sample,
    groups: Any,
    test: Sample,
    parts: list[Any],
    classes: Array,
    order: Array | None,
    measures: Measures,
) -> Outcome:
    """Fit a calibrator to training rows, which may lack classes, and score it on test rows.

    ``groups`` are the groups of the training rows (n_train,) or None, ``parts`` index arrays of the
    test rows, ``classes`` and ``order`` labels (n_classes,).
    """
    start = time.perf_counter()
    with recorded(ProbabilitiesWarning) as messages:
        arguments = features_argument(calibrator, train.features)
        fitted = fit_calibrator(
            calibrator, *train[:3], classes, groups=groups, order=order, **arguments
        )
        seconds = time.perf_counter() - start
        fitted_classes = np.asarray(getattr(fitted, "classes_", classes))
        arguments = features_argument(fitted, test.features)
        P = fitted.predict_proba(test.Z, **arguments)
        P = with_unknown_classes(P, fitted_classes, classes)
        scores = measures(P, classes, *test[:3])
        left_out = [measures(P[index], classes, *test.part(index)[:3]) for index in parts]
    return Outcome(scores, fitted, seconds, messages, left_out)


def _collected(
    names: list[str], outcomes: list[Outcome], greater_is_better: tuple[str, ...], *, keep: bool
) -> CalibratorComparison:
    """Collect outcomes in a comparison that is sorted by log loss, and give each warning once.

    ``outcomes`` has the length len(names) * n_splits: all splits of a calibrator, then the next.
    """
    n_splits = len(outcomes) // len(names)
    rows = [outcomes[i : i + n_splits] for i in range(0, len(outcomes), n_splits)]
    splits = "" if n_splits == 1 else f" in {{}} of {n_splits} splits"
    give(
        ((names[k // n_splits], outcome.messages) for k, outcome in enumerate(outcomes)),
        lambda counts: ", ".join(f"{name}{splits.format(n)}" for name, n in counts.items()),
    )
    scores = {m: np.array([[o.scores[m] for o in row] for row in rows]) for m in outcomes[0].scores}
    seconds = np.array([[o.seconds for o in row] for row in rows])
    left_out = {
        m: np.array([[part[m] for part in row[0].left_out] for row in rows])
        for m in (scores if outcomes[0].left_out else ())
    }
    order = np.argsort(scores[Measures.LOG_LOSS].mean(axis=1), kind="stable")
    return CalibratorComparison(
        [names[k] for k in order],
        {measure: values[order] for measure, values in scores.items()},
        seconds[order],
        {names[k]: rows[k][0].fitted for k in order} if keep else {},
        greater_is_better,
        left_out={measure: values[order] for measure, values in left_out.items()},
    )


def _arrays(X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, ...]:
    """Return logits (n, K), labels (n,) and weights (n,), including rows of weight 0.

    Splits refer to row numbers, so that no row may be left out here.
    """
    Z = check_array(as_numpy(X, "X"), dtype=FLOATS, ensure_all_finite=False)
    return Z, column_or_1d(as_labels(y)), check_weights(sample_weight, len(Z))


def _checked_test(
    test: tuple[ArrayLike, ...], classes: Array, n_columns: int
) -> tuple[Sample, bool]:
    """Return the checked test rows, and whether some of their classes are masked.

    ``classes`` (n_classes,) are the labels, ``n_columns`` the number of columns of ``X``.
    """
    if not (isinstance(test, tuple | list) and len(test) in {2, 3, 4, 5}):
        raise ValueError(
            "test must be a tuple (X, y), (X, y, sample_weight), (X, y, sample_weight, features) "
            f"or (X, y, sample_weight, features, groups), got {type(test).__name__}. Pass a tuple."
        )
    logits, y, sample_weight, features = (*test, None, None)[:4]
    logits = as_array(logits, "test[0]")
    rows, statistics = checked_rows(check_rows, X=logits, y=y, sample_weight=sample_weight)
    if rows.n_columns != n_columns:
        raise ValueError(
            f"Logits of test must have as many columns as X, {n_columns}, got {rows.n_columns}. "
            "Pass logits of the same classes in X and test."
        )
    check_column_names(logits, classes, "test")
    unknown = not_among(statistics.labels, classes)
    if len(unknown):
        raise ValueError(
            f"Labels of test must be among the labels of y, got {shown(unknown[:1])}. If y lacks "
            "classes, name all labels in column order with labels=."
        )
    Z, labels, w = if_in_memory(lambda *_: (rows.X, rows.y, rows.w), logits, y, sample_weight)
    checked = _checked_features(features, logits, sample_weight)
    return Sample(Z, labels, w, checked), statistics.masked


def _part_numbers(test: Sample, arguments: Any, classes: Array) -> Any:
    """Return the part that each row is in, for the jackknife, or None without a jackknife.

    20 parts consist of rows, or of groups. ``arguments`` is the tuple that the user passed as test.
    Warn if few rows or groups have the second of two classes, or are right, or are not, and if few
    groups have wrong predictions.
    """
    if is_dask(test.Z) or test.Z.size > MAX_LOGITS:
        return None
    logits, _, sample_weight, _, groups = (*arguments, None, None, None)[:5]
    numbers = group_numbers(groups, logits, sample_weight)
    units = np.arange(len(test.Z)) if numbers is None else numbers
    n_units = int(units.max()) + 1
    if n_units == 1:
        return None
    right = test.y == classes[largest_columns(test.Z)]
    event = test.y == classes[1] if len(classes) == 2 else right
    fewest = min(len(np.unique(units[hit])) for hit in (event, ~event))
    n_wrong = np.inf if numbers is None else groups_with(~right, numbers)
    warn_of_few_events(fewest, n_units, n_wrong)
    return (np.random.RandomState(0).permutation(n_units) % min(n_units, N_PARTS))[units]


def _checked_features(features: Any, logits: Any, sample_weight: Any = None) -> Any:
    """Return the features (n, n_features) of rows with positive weight, or None."""
    if features is None:
        return None
    check_in_memory([logits, features])
    named_columns(features, np.shape(logits)[0])
    if sample_weight is None:
        return features
    return taken(features, np.flatnonzero(np.asarray(sample_weight)))


def _splits(rows: Sample, groups: Any, cv: Any, random_state: Any) -> list[Split]:
    check_in_memory(
        [rows.Z],
        "Dask collections cannot be split into folds, got test=None. Pass test=(X, y), such as a "
        "part from random_split of a Dask data frame.",
    )
    if isinstance(cv, Integral):
        folds = StratifiedKFold if groups is None else StratifiedGroupKFold
        cv = folds(int(cv), shuffle=random_state is not None, random_state=random_state)
    # Stratified folds without groups would warn if they were passed.
    return checked_splits(cv, rows.Z, rows.y, rows.w, groups=groups)

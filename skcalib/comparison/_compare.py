"""Every calibrator on the same rows, by every measure."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib.parallel import get_active_backend
from scipy.stats import entropy
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.parallel import Parallel, delayed

from skcalib import _nested as nested, binning, scaling
from skcalib._base import BaseCalibrator
from skcalib._rows import (
    Array,
    ArrayLike,
    Rows,
    arrays as xa,
    as_numpy,
    check_in_memory,
    checked_rows,
)
from skcalib._rows.inputs import if_in_memory
from skcalib._splits import Split, checked_groups, checked_splits
from skcalib._validation.features import columns_of, taken
from skcalib._validation.inputs import FLOATS, check_rows, check_total_weight, check_weights
from skcalib._validation.labels import as_labels, check_column_names, not_among, shown
from skcalib._warnings import Messages, ProbabilitiesWarning, give, recorded
from skcalib.conditional import ConditionalCalibrator
from skcalib.metrics._input import Kind
from skcalib.metrics._named_scorers import (
    LOG_LOSS,
    NamedScorer,
    Sample,
    Scorer,
    measured,
    measures_of,
)
from skcalib.scaling import Uncalibrated
from skcalib.selection import AutoCalibrator
from skcalib.selection._candidates import by_name, taking_masked

from ._comparison import UNCALIBRATED, CalibratorComparison


def compare_calibrators(
    logits: ArrayLike,
    y: ArrayLike,
    *,
    calibrators: Mapping[str, Any] | Sequence[Any] | None = None,
    cv: Any = 5,
    test: tuple[ArrayLike, ...] | None = None,
    scoring: str | Sequence[str] | Mapping[str, str | Scorer] | None = None,
    kind: Kind = "auto",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    features: Any = None,
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
        its default parameters, except :class:`MatrixScaling` where classes are masked, and with
        :class:`ConditionalCalibrator` where there are features.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows. An integer is the number of stratified folds. A splitter is given
        the groups.
    test : tuple (logits, y[, sample_weight[, features]]), default=None
        Test set to score on instead, after fits to all of ``logits``. There are no standard
        errors then. It has features if the other rows have some.
    scoring : str, list of str or dict of str to str or callable, default=None
        Names for :func:`skcalib.metrics.get_scorer`, or a dict with scorers under names of your
        own. Scorers by name that begin with ``neg_`` are shown as positive errors, in a list
        without the prefix; values of scorers that are objects keep the sign that they give them,
        greater is better. The log loss is always included, under the name "log loss", and the
        comparison is sorted by it. By default log loss, Brier score, accuracy, and each calibration
        error.
    kind : {"auto", "top-label", "binary", "classwise"}, default="auto"
        The score and the event of calibration errors by name, as for
        :func:`skcalib.metrics.reliability_curve`; "auto" takes two classes for one event.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, for fits and for measures.
    groups : array-like of shape (n_samples,), default=None
        The group of each row, for a splitter as ``cv``.
    features : array-like or data frame of shape (n_samples, n_columns), default=None
        Features of the rows, for calibrators whose predictions depend on them, such as
        :class:`ConditionalCalibrator`, which is then compared by default. Where numbers stand for
        categories, pass it with ``categorical_features``, or make them text.
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
    checked = _CheckedInput(classes=classes).fit(logits, y, sample_weight)
    Z, labels, w = if_in_memory(_arrays, logits, y, sample_weight)
    groups = None if groups is None else checked_groups(logits, groups)
    rows = Sample(Z, labels, w, _checked_features(features, logits))
    labels, n_columns = checked.classes_, checked.n_features_in_
    judged, masked = (None, False) if test is None else _checked_test(test, labels, n_columns)
    if calibrators is None:
        every = by_name(_every_calibrator() + [ConditionalCalibrator()] * (features is not None))
        calibrators = taking_masked(every) if masked or checked.masked_ else every
    members = _members(calibrators, w, labels)
    measures = measures_of(scoring, logits, kind)
    if judged is None:
        splits = [(rows.part(a), rows.part(b)) for a, b in _splits(rows, groups, cv, random_state)]
    else:
        splits = [(rows, judged)]
    jobs = [
        delayed(_outcome)(member, *split, labels, measures)
        for member in members.values()
        for split in splits
    ]
    found: list[Outcome] = []
    # One result after the other, or all at the end from backends such as multiprocessing.
    one_by_one = get_active_backend()[0].supports_return_generator
    for outcome in Parallel(n_jobs=n_jobs, return_as="generator" if one_by_one else "list")(jobs):
        found.append(outcome)
        if on_progress is not None:
            on_progress(len(found), len(jobs))
    greater = tuple(measure.name for measure in measures if measure.sign > 0)
    comparison = _collected(list(members), found, greater, keep=test is not None)
    return replace(comparison, base_rate_log_loss=_base_rate_log_loss(judged or rows))


class _CheckedInput(Uncalibrated):
    """Checked logits and labels, and whether some classes are masked."""

    masked_: bool

    def _fit(self, rows: Rows) -> dict[str, Any]:
        return {"masked_": rows.masked}


def _base_rate_log_loss(rows: Sample) -> float:
    """Log loss of the base rates of the labels, NaN for those of a Dask collection."""
    if xa.is_dask(rows.y):
        return np.nan
    index = np.unique(rows.y, return_inverse=True)[1]
    return float(entropy(np.bincount(index, rows.w)))


def _members(
    calibrators: Mapping[str, Any] | Sequence[Any], w: Any, classes: Array
) -> dict[str, Any]:
    """Calibrators by name that suit weights and classes, after the uncalibrated logits."""
    named = by_name(calibrators)
    if UNCALIBRATED in named:
        raise ValueError(
            f"calibrators must have other names than {UNCALIBRATED!r}, which is always included, "
            f"got {list(named)}."
        )
    members = {UNCALIBRATED: Uncalibrated(), **named}
    for member in members.values():
        nested.check_calibrator(member, w)
        nested.check_order(member, classes)
    return members


def _every_calibrator() -> list[BaseCalibrator]:
    """Every single method with its default parameters, and the default calibrator."""
    names = [(package, name) for package in (scaling, binning) for name in package.__all__]
    return [*(getattr(package, name)() for package, name in names), AutoCalibrator()]


class Outcome(NamedTuple):
    """One calibrator on one split."""

    scores: dict[str, float]  #: by the name of the measure
    fitted: Any
    seconds: float  #: duration of the fit
    messages: Messages


def _outcome(
    calibrator: Any, train: Sample, test: Sample, classes: Array, measures: list[NamedScorer]
) -> Outcome:
    """A calibrator fitted to training rows, which may lack classes, and scored on test rows."""
    start = time.perf_counter()
    with recorded(ProbabilitiesWarning) as messages:
        given = nested.given_for(calibrator, train.features)
        fitted = nested.fit_calibrator(calibrator, *train[:3], classes, **given)
    seconds = time.perf_counter() - start
    known = np.asarray(getattr(fitted, "classes_", classes))
    given = nested.given_for(fitted, test.features)
    P = fitted.predict_proba(test.Z, **given)
    P = nested.with_unknown_classes(P, known, classes)
    return Outcome(measured(P, test, classes, measures), fitted, seconds, messages)


def _collected(
    names: list[str], found: list[Outcome], greater_is_better: tuple[str, ...], *, keep: bool
) -> CalibratorComparison:
    """Outcomes of the calibrators, sorted by log loss, with their warnings, each given once."""
    n_splits = len(found) // len(names)
    rows = [found[i : i + n_splits] for i in range(0, len(found), n_splits)]
    splits = "" if n_splits == 1 else f" in {{}} of {n_splits} splits"
    give(
        ((names[k // n_splits], outcome.messages) for k, outcome in enumerate(found)),
        lambda of_each: ", ".join(f"{name}{splits.format(n)}" for name, n in of_each.items()),
    )
    scores = {m: np.array([[o.scores[m] for o in row] for row in rows]) for m in found[0].scores}
    seconds = np.array([[o.seconds for o in row] for row in rows])
    order = np.argsort(scores[LOG_LOSS].mean(axis=1), kind="stable")
    return CalibratorComparison(
        [names[k] for k in order],
        {measure: values[order] for measure, values in scores.items()},
        seconds[order],
        {names[k]: rows[k][0].fitted for k in order} if keep else {},
        greater_is_better,
    )


def _arrays(logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Any, ...]:
    """Arrays with all rows, also those of weight 0, by whose numbers they are split."""
    Z = check_array(as_numpy(logits, "logits"), dtype=FLOATS, ensure_all_finite=False)
    return Z, column_or_1d(as_labels(y)), check_weights(sample_weight, len(Z))


def _checked_test(
    test: tuple[ArrayLike, ...], classes: Array, n_columns: int
) -> tuple[Sample, bool]:
    """The test rows, and whether some of their classes are masked."""
    if not (isinstance(test, tuple | list) and len(test) in {2, 3, 4}):
        raise ValueError(
            "test must be a tuple (logits, y), (logits, y, sample_weight) or (logits, y, "
            f"sample_weight, features), got {type(test).__name__}."
        )
    logits, y, sample_weight, features = (*test, None, None)[:4]
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
    Z, labels, w = if_in_memory(lambda *_: rows.arrays, logits, y, sample_weight)
    given = _checked_features(features, logits, sample_weight)
    return Sample(Z, labels, w, given), found.masked


def _checked_features(features: Any, logits: Any, sample_weight: Any = None) -> Any:
    """Features of the rows of positive weight, or None."""
    if features is None:
        return None
    check_in_memory([logits, features])
    columns_of(features, np.shape(logits)[0])
    if sample_weight is None:
        return features
    return taken(features, np.flatnonzero(np.asarray(sample_weight)))


def _splits(rows: Sample, groups: Any, cv: Any, random_state: Any) -> list[Split]:
    check_in_memory(
        [rows.Z],
        "Dask collections cannot be split into folds, got test=None. Pass test=(logits, y), as "
        "random_split of a Dask data frame gives them.",
    )
    if isinstance(cv, Integral) and random_state is not None:
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    given = {} if isinstance(cv, Integral) else {"groups": groups}  # else it would warn
    return checked_splits(cv, rows.Z, rows.y, rows.w, **given)

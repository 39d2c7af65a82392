"""Every calibrator on the same rows, by every measure."""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.parallel import Parallel, delayed

from ._base import BaseCalibrator, check_rows, check_total_weight, check_weights
from ._chunks import is_dask
from ._doors import as_numpy
from ._events import check_input
from ._fitting import check_calibrator, fit_calibrator, with_unknown_classes
from ._labels import as_labels, check_column_names, not_among, shown
from ._rows import checked_rows, sum_rows, total_weight
from ._scorers import CalibrationScorer
from .binning import BBQ, HistogramBinning, IsotonicCalibration
from .metrics import get_scorer
from .platt import PlattScaling
from .scaling import MatrixScaling, TemperatureScaling, VectorScaling

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["CalibratorComparison", "compare_calibrators"]

Floats = NDArray[np.floating[Any]]
Scorer = Callable[..., float]

UNCALIBRATED = "uncalibrated"
# Differences are pointed out if they are so many of their standard errors from zero.
CLEAR = 2.0
NOTE = (
    "Sorted by log loss, which only true probabilities minimise. A calibration error says how far\n"
    "they are off on average, and can be small for probabilities that tell rows badly apart."
)
EVERY_MEASURE = {
    "log loss": "neg_log_loss",
    "Brier": "neg_brier_score",
    "ECE": "neg_expected_calibration_error",
    "RMSCE": "neg_root_mean_squared_calibration_error",
    "MCE": "neg_maximum_calibration_error",
    "classwise ECE": "neg_classwise_calibration_error",
    "accuracy": "accuracy",
}


class _Rows(NamedTuple):
    """Logits, labels and weights of some rows: arrays, or Dask collections."""

    Z: Any
    y: Any
    w: Any

    def part(self, rows: Any) -> _Rows:
        """Some of the rows."""
        return _Rows(self.Z[rows], self.y[rows], None if self.w is None else self.w[rows])


class _Measure(NamedTuple):
    """A scorer, and what is shown of it: errors are positive, whatever sign scorers give them."""

    name: str
    scorer: Scorer
    sign: int

    def __call__(self, predictions: _Predictions, rows: _Rows) -> float:
        weights = {} if rows.w is None else {"sample_weight": rows.w}
        return float(self.sign * self.scorer(predictions, rows.Z, rows.y, **weights))


class _Predictions(ClassifierMixin, BaseEstimator):
    """What scorers see of a calibrator: probabilities that were computed once."""

    def __init__(self, classes_: NDArray[Any], P: Floats) -> None:
        self.classes_ = classes_
        self.P = P

    def predict_proba(self, X: Any) -> Floats:  # noqa: ARG002
        """The probabilities."""
        return self.P

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: ARG002
        """The most probable classes."""
        return self.classes_[self.P.argmax(axis=1)]


class _Uncalibrated(BaseCalibrator):
    """Logits as they are: what calibrators are compared with."""

    def _weights_are_relative(self) -> bool:
        return True

    def _fit(self, Z: Floats, y: NDArray[np.intp], w: Floats | None) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _calibrate(self, Z: Floats) -> Floats:
        return Z


@dataclass(frozen=True, repr=False)
class CalibratorComparison:
    """What :func:`compare_calibrators` found.

    Printed, it is a table; see :meth:`to_frame` and :meth:`plot` for other forms.

    Attributes
    ----------
    names : list of str
        Names of the calibrators, by their log loss, and "uncalibrated" among them.
    scores : dict of str to ndarray of shape (n_calibrators, n_splits)
        For each measure its values for each calibrator in the order of ``names`` and each split.
        Errors are positive numbers: the lower the better.
    fit_times : ndarray of shape (n_calibrators, n_splits)
        Seconds that the fits took.
    calibrators : dict of str to calibrator
        The calibrators, fitted to all rows if they were judged on a test set, else empty.

    Examples
    --------
    >>> from skcalib import BBQ, TemperatureScaling, compare_calibrators
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(1000, 3, random_state=0)
    >>> found = compare_calibrators(logits, y, calibrators=[TemperatureScaling(), BBQ()])
    >>> found.names
    ['TemperatureScaling', 'BBQ', 'uncalibrated']
    >>> found.clear("log loss").tolist()
    [True, True, False]
    """

    names: list[str]
    scores: dict[str, Floats]
    fit_times: Floats
    calibrators: dict[str, Any] = field(default_factory=dict)

    def mean(self, measure: str) -> Floats:
        """Mean of a measure over the splits.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            In the order of ``names``.
        """
        return self.scores[measure].mean(axis=1)

    def standard_error(self, measure: str) -> Floats:
        """Standard error of that mean, from the spread over the splits.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            NaN if there is a single split.
        """
        return _standard_error(self.scores[measure])

    def difference(self, measure: str) -> tuple[Floats, Floats]:
        """Mean difference from the uncalibrated logits on the same split, and its standard error.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        difference : ndarray of shape (n_calibrators,)
            In the order of ``names``.
        standard_error : ndarray of shape (n_calibrators,)
            NaN if there is a single split.
        """
        values = self.scores[measure]
        gains = values - values[self.names.index(UNCALIBRATED)]
        return gains.mean(axis=1), _standard_error(gains)

    def clear(self, measure: str) -> NDArray[np.bool_]:
        """Whether the difference is more than two of its standard errors.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            False for all if there is a single split.
        """
        difference, error = self.difference(measure)
        return np.abs(difference) > CLEAR * np.where(np.isnan(error), np.inf, error)

    def to_frame(self) -> pd.DataFrame:
        """The table as a data frame.

        Returns
        -------
        pandas.DataFrame
            A row for each calibrator. Columns are pairs: a measure, and "mean", "standard error",
            "difference" (from uncalibrated) or "difference error".

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as missing:
            raise ImportError("to_frame needs pandas: pip install 'skcalib[frame]'.") from missing
        columns: dict[tuple[str, str], Floats] = {}
        for measure in self.scores:
            difference, error = self.difference(measure)
            columns[measure, "mean"] = self.mean(measure)
            columns[measure, "standard error"] = self.standard_error(measure)
            columns[measure, "difference"] = difference
            columns[measure, "difference error"] = error
        columns["fit time", "mean"] = self.fit_times.mean(axis=1)
        return pd.DataFrame(columns, index=pd.Index(self.names, name="calibrator"))

    def __str__(self) -> str:
        measures = list(self.scores)
        widths = [max(9, len(measure) + 2) for measure in measures]
        header = "".join(f"{m:>{n}}" for m, n in zip(measures, widths, strict=True))
        lines = [f"{'':{self._indent}}{header}{'fit [s]':>9}"]
        for k, name in enumerate(self.names):
            means = [f"{self.mean(m)[k]:.4f}{' *'[int(self.clear(m)[k])]}" for m in measures]
            cells = "".join(f"{cell:>{n}}" for cell, n in zip(means, widths, strict=True))
            lines.append(f"{name:{self._indent}}{cells}{self.fit_times[k].mean():>9.2g}")
            if self.fit_times.shape[1] > 1:
                errors = [f"±{self.standard_error(m)[k]:.4f} " for m in measures]
                cells = "".join(f"{cell:>{n}}" for cell, n in zip(errors, widths, strict=True))
                lines.append(f"{'':{self._indent}}{cells}".rstrip())
        return "\n".join([*lines, "", *self._notes()])

    __repr__ = __str__

    @property
    def _indent(self) -> int:
        return max(map(len, self.names)) + 1

    def _notes(self) -> Iterator[str]:
        yield NOTE
        n_splits = self.fit_times.shape[1]
        if n_splits > 1:
            yield f"Means over {n_splits} splits with their standard errors."
        if any(self.clear(measure).any() for measure in self.scores):
            yield "* differs from uncalibrated by more than two standard errors of the difference."

    def plot(self, ax: Axes | None = None, *, measure: str = "log loss") -> Axes:
        """Draw one measure of all calibrators.

        Bars are two standard errors of the difference from uncalibrated to either side, so one
        that misses the dashed line is a clear difference.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        measure : str, default="log loss"
            One of the keys of ``scores``.

        Returns
        -------
        matplotlib Axes
            With the drawing.
        """
        import matplotlib.pyplot as plt

        if measure not in self.scores:
            raise ValueError(f"measure must be one of {list(self.scores)}, got {measure!r}.")
        if ax is None:
            size = (6.4, 1.4 + 0.32 * len(self.names))
            ax = plt.figure(figsize=size, layout="constrained").subplots()
        mean, (_, error) = self.mean(measure), self.difference(measure)
        position = np.arange(len(self.names))
        has_bars = self.fit_times.shape[1] > 1
        bars = CLEAR * error if has_bars else None
        ax.errorbar(mean, position, xerr=bars, fmt="o", color="#0072B2", capsize=3)
        start = self.names.index(UNCALIBRATED)
        ax.axvline(mean[start], color="0.4", linestyle="--", linewidth=1, zorder=0)
        ax.set_yticks(position, self.names)
        ax.invert_yaxis()
        bars_are = "\n(bars: ± 2 standard errors of the difference)" if has_bars else ""
        ax.set_xlabel(f"{measure}{bars_are}")
        return ax


def _standard_error(values: Floats) -> Floats:
    n_splits = values.shape[1]
    if n_splits == 1:
        return np.full(len(values), np.nan)
    return values.std(axis=1, ddof=1) / np.sqrt(n_splits)


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

    Every calibrator is fitted to the training rows of each split and judged on its test rows, and
    so are the logits as they are.

    Parameters
    ----------
    logits : array-like of shape (n_samples, n_classes) or (n_samples, 1)
        Logits of rows that the classifier was not fitted on, as calibrators take them. With Dask
        collections give ``test`` as well.
    y : array-like of shape (n_samples,)
        Labels.
    calibrators : dict of str to calibrator or list of calibrators, default=None
        What to compare; by default every calibrator of skcalib as it comes.
    cv : int, splitter or iterable of splits, default=5
        How to split the rows. A number stands for so many stratified folds.
    test : tuple (logits, y) or (logits, y, sample_weight), default=None
        Judge on these rows instead, after fits to all the others. There are no standard errors
        then.
    scoring : str, list of str or dict of str to str or callable, default=None
        Names for :func:`skcalib.metrics.get_scorer`, or scorers. Those named ``neg_...`` are shown
        as positive errors without the prefix. The log loss is always there. By default log loss,
        Brier score, accuracy, and each calibration error.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, for fits and for measures.
    classes : array-like of shape (n_classes,), default=None
        All labels in the order of the columns, as for the calibrators.
    n_jobs : int, default=None
        Number of fits at once.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows before a number of folds is made. None leaves their order.
    on_progress : callable, default=None
        Called as ``on_progress(done, total)`` after each fit.

    Returns
    -------
    CalibratorComparison
        Prints as a table that is sorted by log loss: a calibration error is no criterion, since
        it ignores how well probabilities tell rows apart.

    Raises
    ------
    ValueError
        If logits, labels or weights are no good, for an unknown scorer, and for what is no
        calibrator.

    Warns
    -----
    ConvergenceWarning, UserWarning
        What fits warn of, each once, with the calibrators it is about and in how many splits.

    Examples
    --------
    >>> from skcalib import compare_calibrators
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> found = compare_calibrators(digits.logits_calibration, digits.y_calibration)
    >>> found.names[0]
    'MatrixScaling'
    """
    rows, labels = _checked_rows(logits, y, sample_weight, classes)
    members = {UNCALIBRATED: _Uncalibrated(), **_by_name(calibrators)}
    for member in members.values():
        check_calibrator(member, rows.w)
    measures = _measures(scoring)
    if is_dask(logits):
        _check_measures_by_sums(measures)
    if test is None:
        pairs = [(rows.part(a), rows.part(b)) for a, b in _splits(rows, cv, random_state)]
    else:
        pairs = [(rows, _checked_test(test, labels))]
    jobs = [
        delayed(_fit_and_judge)(member, *pair, labels, measures)
        for member in members.values()
        for pair in pairs
    ]
    outcomes = []
    for outcome in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        outcomes.append(outcome)
        if on_progress is not None:
            on_progress(len(outcomes), len(jobs))
    _pass_on_warnings(list(members), outcomes)
    return _collected(list(members), outcomes, keep=test is not None)


class _Outcome(NamedTuple):
    """What one calibrator did on one split."""

    seconds: float
    measured: dict[str, float]
    fitted: Any
    said: list[tuple[type[Warning], str]]  #: warnings of the fit, each once


def _fit_and_judge(
    calibrator: Any, fit: _Rows, test: _Rows, classes: NDArray[Any], measures: list[_Measure]
) -> _Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        # It was said of all rows already, before the first fit.
        warnings.filterwarnings("ignore", "Every row of X is non-negative", UserWarning)
        start = time.perf_counter()
        fitted = fit_calibrator(calibrator, fit.Z, fit.y, fit.w, classes)
        seconds = time.perf_counter() - start
    known = np.asarray(getattr(fitted, "classes_", classes))
    P = with_unknown_classes(fitted.predict_proba(test.Z), known, classes)
    if is_dask(P):  # one check for all measures
        y, P, w, _ = check_input(test.y, P, test.w, classes, None)
        test = _Rows(test.Z, y, w)
    predictions = _Predictions(classes, P)
    values = {measure.name: measure(predictions, test) for measure in measures}
    said = dict.fromkeys((w.category, str(w.message)) for w in caught)
    return _Outcome(seconds, values, fitted, list(said))


def _pass_on_warnings(names: list[str], outcomes: list[_Outcome]) -> None:
    """Each warning once, with whose it is; those of other processes too."""
    n_splits = len(outcomes) // len(names)
    found: dict[tuple[type[Warning], str], list[str]] = defaultdict(list)
    first: dict[tuple[type[Warning], str], str] = {}
    for i, outcome in enumerate(outcomes):
        for category, message in outcome.said:
            key = category, re.sub(r"\d\S*", "", message)  # whatever numbers it holds
            found[key].append(names[i // n_splits])
            first.setdefault(key, message)
    for key, whose in found.items():
        splits = "" if n_splits == 1 else f" in {{}} of {n_splits} splits"
        each = ", ".join(f"{name}{splits.format(n)}" for name, n in Counter(whose).items())
        warnings.warn(f"{each}: {first[key]}", key[0], stacklevel=3)


def _collected(names: list[str], outcomes: list[_Outcome], *, keep: bool) -> CalibratorComparison:
    """Outcomes, of which each calibrator has the same number, by log loss."""
    shape = len(names), -1
    by_name = {
        measure: np.reshape([o.measured[measure] for o in outcomes], shape)
        for measure in outcomes[0].measured
    }
    order = np.argsort(by_name["log loss"].mean(axis=1), kind="stable")
    return CalibratorComparison(
        [names[k] for k in order],
        {measure: values[order] for measure, values in by_name.items()},
        np.reshape([o.seconds for o in outcomes], shape)[order],
        {names[k]: outcomes[k].fitted for k in order} if keep else {},
    )


# --------------------------------------------------------------------------------------
# Arguments.


def _every_calibrator() -> list[BaseCalibrator]:
    """Every calibrator of skcalib as it comes."""
    return [
        TemperatureScaling(),
        VectorScaling(),
        MatrixScaling(),
        PlattScaling(),
        HistogramBinning(),
        IsotonicCalibration(),
        BBQ(),
    ]


def _by_name(calibrators: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any]:
    """Calibrators by their names; by their types or, if types are equal, by what they print as."""
    if isinstance(calibrators, Mapping):
        named = dict(calibrators)
    else:
        members = _every_calibrator() if calibrators is None else list(calibrators)
        kinds = Counter(type(member).__name__ for member in members)
        names = [
            repr(member) if kinds[type(member).__name__] > 1 else type(member).__name__
            for member in members
        ]
        named = dict(zip(names, members, strict=True))
        if len(named) < len(members):
            raise ValueError(f"calibrators must differ, or be a dict with names, got {names}.")
    if not named or UNCALIBRATED in named:
        raise ValueError(
            f"calibrators must name at least one, and none of them {UNCALIBRATED!r}, which is "
            f"always there, got {list(named)}."
        )
    return named


def _checked_rows(
    logits: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None
) -> tuple[_Rows, NDArray[Any]]:
    """The rows, checked as calibrators do, and the classes."""
    labels = _Uncalibrated(classes=classes).fit(logits, y, sample_weight).classes_
    if is_dask(logits):
        return _Rows(logits, y, sample_weight), labels
    Z = check_array(as_numpy(logits, "logits"), dtype=[np.float64, np.float32])
    return _Rows(Z, column_or_1d(as_labels(y)), check_weights(sample_weight, len(Z))), labels


def _checked_test(test: tuple[ArrayLike, ...], classes: NDArray[Any]) -> _Rows:
    if not (isinstance(test, tuple | list) and len(test) in {2, 3}):
        raise ValueError(
            "test must be a pair (logits, y) or (logits, y, sample_weight), got "
            f"{type(test).__name__}."
        )
    logits, y, sample_weight = (*test, None)[:3]
    (Z, labels, w), found = checked_rows(check_rows, X=logits, y=y, sample_weight=sample_weight)
    check_total_weight(found.weight)
    width = 1 if len(classes) == 2 and Z.shape[1] == 1 else len(classes)
    if Z.shape[1] != width:
        raise ValueError(
            f"Logits of test must have one column for each of the {len(classes)} classes, got "
            f"{Z.shape[1]} columns."
        )
    check_column_names(logits, classes, "test")
    unknown = not_among(found.labels, classes)
    if len(unknown):
        raise ValueError(
            f"Labels of test must be among those of y, got {shown(unknown[:1])}. If y lacks "
            "classes, name all labels in column order with classes=."
        )
    return _Rows(logits, y, sample_weight) if is_dask(logits) else _Rows(Z, labels, w)


def _splits(rows: _Rows, cv: Any, random_state: Any) -> Iterable[tuple[Any, Any]]:
    if is_dask(rows.Z):
        raise ValueError(
            "Rows with Dask cannot be split into folds, got test=None. Pass test=(logits, y), as "
            "random_split of a Dask data frame gives them."
        )
    if isinstance(cv, Integral) and random_state is not None:
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    return check_cv(cv, rows.y, classifier=True).split(rows.Z, rows.y)


def _measures(scoring: Any) -> list[_Measure]:
    """Measures, the log loss first."""
    if scoring is None:
        scoring = EVERY_MEASURE
    elif isinstance(scoring, str):
        scoring = [scoring]
    if not isinstance(scoring, Mapping):
        scoring = {name.removeprefix("neg_"): name for name in scoring}
    measures = [_Measure("log loss", OWN_SCORERS["neg_log_loss"], -1)]
    for name, scorer in scoring.items():
        if scorer == "neg_log_loss":
            continue
        if not isinstance(scorer, str):
            measures.append(_Measure(name, scorer, 1))
            continue
        found = OWN_SCORERS[scorer] if scorer in OWN_SCORERS else get_scorer(scorer)
        measures.append(_Measure(name, found, -1 if scorer.startswith("neg_") else 1))
    return measures


def _check_measures_by_sums(measures: list[_Measure]) -> None:
    """Raise a ValueError for a measure that would fetch rows of Dask collections."""
    for measure in measures:
        if not isinstance(measure.scorer, CalibrationScorer | _MeanOverRows):
            raise ValueError(
                "For rows with Dask, scoring must name measures of skcalib, 'neg_log_loss', "
                f"'neg_brier_score' or 'accuracy', got {measure.name!r}."
            )


# scikit-learn's scorers of the first two fail where the test rows lack a class, and all three
# would fetch the rows of Dask collections.


@dataclass(frozen=True)
class _MeanOverRows:
    """The scorer that is the mean of ``f(P, y)`` (m,) of probabilities and class indices."""

    f: Callable[[Floats, NDArray[np.intp]], Floats]

    def __call__(
        self, predictions: Any, _: Any, y: NDArray[Any], sample_weight: Floats | None = None
    ) -> float:
        classes = predictions.classes_
        y, P, w, _ = check_input(y, predictions.P, sample_weight, classes, None)
        return float(sum_rows(partial(_weighted_sum, self.f), y, P, w)) / total_weight(y, w)


def _weighted_sum(f: Any, y: NDArray[np.intp], P: Floats, w: Floats | None) -> Any:
    values = f(P, y)
    return values.sum(dtype=np.float64) if w is None else w @ values


def _log_of_label(P: Floats, y: NDArray[np.intp]) -> Floats:
    eps = np.finfo(P.dtype).eps
    return np.log(np.clip(P[np.arange(len(P)), y], eps, 1 - eps))


def _neg_squared_error(P: Floats, y: NDArray[np.intp]) -> Floats:
    """As scikit-learn 1.7 defines the Brier score; 1.6 only has that of two classes."""
    # The sum over all classes is the score of several classes, and twice that of two.
    squares = ((P - (y[:, None] == np.arange(P.shape[1]))) ** 2).sum(axis=1)
    return -squares / (2 if P.shape[1] == 2 else 1)


def _hit(P: Floats, y: NDArray[np.intp]) -> Floats:
    return P.argmax(axis=1) == y


OWN_SCORERS = {
    "neg_log_loss": _MeanOverRows(_log_of_label),
    "neg_brier_score": _MeanOverRows(_neg_squared_error),
    "accuracy": _MeanOverRows(_hit),
}

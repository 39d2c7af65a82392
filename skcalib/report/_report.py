"""Report of a calibrator: its numbers, its figure and its page."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_array, check_random_state, column_or_1d

from skcalib import metrics
from skcalib._inner.checks import check_takes_logits, features_argument
from skcalib._input.arrays import as_array, check_in_memory
from skcalib._input.labels import as_labels
from skcalib._input.logits import check_weights
from skcalib._input.rows import check_not_swapped
from skcalib._output import replacing
from skcalib._output.html import as_text
from skcalib._rows import ArrayLike, Floats, both_columns, on_host
from skcalib._warnings import ColumnOrderWarning, give, ignored, recorded
from skcalib.comparison import CalibratorComparison
from skcalib.conditional import MulticalibrationResult, multicalibration_error
from skcalib.conditional._columns import fitted_columns
from skcalib.metrics import CalibrationTestResult
from skcalib.metrics._input import Kind, check_kind, resolved

from . import _numbers
from ._code import report_code
from ._numbers import Change, Evaluation
from ._page import report_fragment, report_page
from ._pictures import draw_report, short
from ._verdict import verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


@dataclass(eq=False, repr=False)
class CalibrationReport:
    """Report of a calibrator on held-out rows: numbers, verdict, figure and page.

    :func:`calibration_report` creates it. Attributes with intervals are computed when they are
    first used.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Reliability diagrams and histograms before and after calibration.
    name : str
        Name of the calibrator.
    calibrator : calibrator
        The calibrator.
    comparison : CalibratorComparison or None
        Comparison of calibrators that the page shows.
    metadata : dict of str to object
        Facts that the page shows, such as the model and the files.
    date : str
        Date of the report, such as "2026-03-31".
    kind : {"top-label", "binary"}
        Score and event of the calibration errors.
    measures_ : dict of str to named tuple (before, after, difference)
        Measures by name with 95 % intervals: :class:`~skcalib.metrics.IntervalEstimate` before and
        after calibration, and :class:`~skcalib.metrics.CalibrationDifference` of the value after
        minus the value before. "log loss" is the log loss of all classes.
    tests_ : tuple of two CalibrationTestResult
        Results of :func:`~skcalib.metrics.calibration_test` before and after.
    by_class_ : dict of str to ndarray of shape (n_classes,)
        Columns ``"label"``, ``"n_samples"``, ``"base_rate"``, and ``"mean"`` (of the predicted
        probability) and ``"ece"`` with ``"_before"`` or ``"_after"``.
    segments_ : tuple of two MulticalibrationResult, or None
        Gaps of the segments of ``features`` before and after; None without features.
    risk_ : dict of str to tuple of two results, or None
        Figures of the risk of the second of two classes before and after, such as "calibration
        slope" and "ICI". A figure is None if it does not exist, as for separated classes. None
        unless ``kind`` is "binary".
    verdict_ : list of str
        Two sentences: the effect of calibration, and the remaining error.
    warnings_ : list of str
        Messages of the warnings of the evaluation.
    code_ : str
        Code that repeats the report.

    See Also
    --------
    calibration_report : Create a report.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, calibration_report
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> calibration_report(calibrator, digits.logits_test, digits.y_test)
    <CalibrationReport of TemperatureScaling on 849 rows>
    """

    calibrator: Any
    evaluation: Evaluation
    name: str
    comparison: CalibratorComparison | None
    features: Any
    metadata: dict[str, Any]
    warnings_: list[str]
    code_: str
    date: str
    figure_: Any = None

    @property
    def kind(self) -> Kind:
        """Score and event of the calibration errors."""
        return self.evaluation.kind

    @property
    def views(self) -> list[tuple[str, Floats]]:
        """Titles and probabilities before and after calibration."""
        after = "After" if self.name == "Before" else short(self.name)
        return [("Before", self.evaluation.before), (after, self.evaluation.after)]

    @cached_property
    @ignored(ColumnOrderWarning)
    def measures_(self) -> dict[str, Change]:
        """Measures by name with intervals."""
        return _numbers.all_changes(self.evaluation)

    @cached_property
    @ignored(ColumnOrderWarning)
    def tests_(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of calibration before and after."""
        rows = self.evaluation
        params = {**rows.params, **rows.draws(rows.n_samples)}
        before, after = (metrics.calibration_test(rows.y, P, **params) for _, P in self.views)
        return before, after

    @cached_property
    @ignored(ColumnOrderWarning)
    def segments_(self) -> tuple[MulticalibrationResult, MulticalibrationResult] | None:
        """Gaps of the segments of features before and after."""
        if self.features is None:
            return None
        rows = self.evaluation
        params: Any = {**rows.row_params, "kind": rows.kind, **rows.draws(rows.n_samples)}
        before, after = (
            multicalibration_error(rows.y, P, self.features, **params) for _, P in self.views
        )
        return before, after

    @cached_property
    @ignored(ColumnOrderWarning)
    def risk_(self) -> dict[str, tuple[Any, Any]] | None:
        """Figures of the risk of the second of two classes before and after."""
        return _numbers.risk_figures(self.evaluation) if self.kind == "binary" else None

    @cached_property
    @ignored(ColumnOrderWarning)
    def by_class_(self) -> dict[str, Any]:
        """Rows, base rate, mean probability and ECE of each class."""
        return _numbers.class_columns(self.evaluation)

    @cached_property
    def verdict_(self) -> list[str]:
        """Sentences on the effect of calibration, and on the remaining error."""
        return verdict(self.evaluation, self.name, self.measures_, self.tests_)

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> None: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write the report as a page: a single file that loads nothing.

        Parameters
        ----------
        path : str or path-like, default=None
            The file, which is replaced if it exists. Its directory must exist. By default the page
            is returned as text.

        Returns
        -------
        str or None
            The page if ``path`` is None.

        Raises
        ------
        ValueError
            If ``path`` is a directory, or lies in a directory that does not exist.
        OSError
            If the file cannot be written.
        """
        if path is None:
            return report_page(self)
        target = Path(path)
        if target.is_dir() or not target.parent.is_dir():
            raise ValueError(
                f"path must be a file in a directory that exists, got {str(path)!r}. Create the "
                "directory, and add the name of a file, such as report.html."
            )
        text = report_page(self)
        with replacing(target) as file:
            file.write(text.encode())
        return None

    def _repr_html_(self) -> str:
        return report_fragment(self)

    def __repr__(self) -> str:
        return f"<CalibrationReport of {self.name} on {self.evaluation.n_samples:,} rows>"


def calibration_report(
    calibrator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    features: Any = None,
    n_bins: int = 15,
    kind: Kind = "auto",
    comparison: CalibratorComparison | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    figure: Figure | SubFigure | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> CalibrationReport:
    """Report on a calibrator: numbers, figure and page of held-out rows before and after.

    The figure has reliability diagrams and histograms of the score before and after calibration.
    ``report.to_html(path)`` writes a page with a verdict, measures with 95 % intervals, diagrams,
    the worst classes and segments, and for two classes decision curves. In a notebook the report
    shows verdict, measures and figure.

    Parameters
    ----------
    calibrator : calibrator
        Any fitted calibrator.
    X : array-like of shape (n_samples, n_classes) or (n_samples, 1)
        Logits of held-out rows, which neither the classifier nor the calibrator was fitted to.
    y : array-like of shape (n_samples,)
        Labels.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 equals the row twice, a weight of 0 equals the row left out.
    groups : array-like of shape (n_samples,), default=None
        Rows with the same value depend on one another, such as visits of one patient. Intervals and
        tests take whole groups as independent.
    features : array-like or data frame of shape (n_samples, n_columns), default=None
        Features of the rows, for a calibrator that takes them, such as
        :class:`~skcalib.conditional.ConditionalCalibrator`, and for a section on the worst
        segments, see :func:`~skcalib.conditional.multicalibration_error`.
    n_bins : int, default=15
        Number of bins of all diagrams and measures.
    kind : {"auto", "top-label", "binary"}, default="auto"
        Score and event, as for :func:`skcalib.metrics.reliability_curve`. "auto" is the event of
        the second of two classes, and the top label of more classes.
    comparison : CalibratorComparison, default=None
        Result of :func:`~skcalib.compare_calibrators`, which the page shows as a table.
    name : str, default=None
        Name of the calibrator; by default the name of its class.
    metadata : dict of str to object, default=None
        Facts for the page, such as ``{"Model": "ResNet-50", "Data": "run_17.npz"}``.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; by default a new figure.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples of intervals and tests.

    Returns
    -------
    CalibrationReport
        The report, with the figure drawn.

    Raises
    ------
    ValueError
        If logits, labels, weights or features are invalid, ``n_bins`` is not an integer of at least
        1, ``calibrator`` is not fitted to logits, or ``comparison`` is not the result of
        :func:`~skcalib.compare_calibrators`.
    NotFittedError
        If the calibrator is not fitted.

    Notes
    -----
    Intervals of calibration errors are computed by
    :func:`~skcalib.metrics.calibration_error_interval` and
    :func:`~skcalib.metrics.calibration_difference` with 499 resamples, or down to 99 for the smooth
    ECE and for more than 10 000 rows. Intervals of log loss and Brier score are t intervals of
    weighted means, corrected for skewness. Intervals of the accuracy are Wilson intervals. There
    are no intervals for the smooth ECE of more than 100 000 rows, and for the classwise ECE of more
    than 5 million rows times classes.

    Examples
    --------
    >>> from skcalib import VectorScaling, calibration_report
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> calibrator = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> report = calibration_report(calibrator, digits.logits_test, digits.y_test, random_state=0)
    >>> print(report.verdict_[0][:43])
    VectorScaling improves the probabilities: t
    >>> report.measures_["ECE"].difference.high < 0  # the ECE is lower after calibration
    True
    >>> report.to_html("report.html")  # doctest: +SKIP
    """
    _check_types(calibrator, figure, comparison)
    check_in_memory((X, y, sample_weight))
    check_not_swapped(y=y, X=X)
    with recorded() as messages:
        data = as_array(X), on_host(y), sample_weight, groups, features
        evaluation = _evaluate(calibrator, *data, n_bins, kind, random_state)
    give([("", messages)])
    arguments = {
        "sample_weight=w_test": sample_weight is not None,
        "groups=groups_test": groups is not None,
        "features=features_test": features is not None,
        f"n_bins={n_bins}": n_bins != 15,
        f"kind={kind!r}": kind != "auto",
        "comparison=comparison": comparison is not None,
        f"name={name!r}": name is not None,
    }
    code = report_code(calibrator, [text for text, is_passed in arguments.items() if is_passed])
    report = CalibrationReport(
        calibrator,
        evaluation,
        name=as_text(type(calibrator).__name__ if name is None else name),
        comparison=comparison,
        features=deepcopy(features),
        metadata=dict(metadata or {}),
        warnings_=[f"{kind.__name__}: {text}" for (kind, _), text in messages.items()],
        date=dt.date.today().isoformat(),
        code_=code,
    )
    report.figure_ = draw_report(report, figure)
    return report


def _check_types(calibrator: Any, figure: Any, comparison: Any) -> None:
    """Raise a ValueError for a calibrator, a figure or a comparison of a wrong type."""
    check_takes_logits(calibrator)
    if figure is not None and not hasattr(figure, "add_gridspec"):
        raise ValueError(
            f"figure must be a matplotlib Figure or SubFigure, got {type(figure).__name__}. Pass "
            "ax.figure, or None for a new figure."
        )
    if comparison is not None and not isinstance(comparison, CalibratorComparison):
        raise ValueError(
            "comparison must be the result of compare_calibrators, got "
            f"{type(comparison).__name__}. Pass compare_calibrators(X, y)."
        )


def _evaluate(
    calibrator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    features: Any,
    n_bins: int,
    kind: Kind,
    random_state: Any,
) -> Evaluation:
    """Checked copies of labels, weights and probabilities, for numbers that are computed later."""
    check_kind(kind, ["auto", "top-label", "binary"])
    after = on_host(calibrator.predict_proba(X, **features_argument(calibrator, features)))
    Z = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
    before = softmax(both_columns(Z), axis=1)
    classes = np.array(on_host(calibrator.classes_))
    params: Any = {"n_bins": n_bins, "kind": kind, "labels": classes, "groups": groups}
    metrics.reliability_curve(y, before, sample_weight=sample_weight, **params)  # checks them
    w = check_weights(sample_weight, len(Z))
    if features is not None:  # checked now, because segments are computed later
        fitted_columns(features, len(Z), w, "from_dtype")
    return Evaluation(
        y=np.array(column_or_1d(as_labels(y))),
        before=before,
        after=np.array(after),
        classes=classes,
        sample_weight=None if w is None else w.copy(),
        groups=None if groups is None else np.unique(on_host(groups), return_inverse=True)[1],
        n_bins=n_bins,
        kind=resolved(kind, classes),
        seed=int(check_random_state(random_state).randint(2**31 - 1)),
    )

"""Reports of a calibrator and of a model: numbers, figure and page."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_array, check_random_state

from skcalib import metrics
from skcalib._input.arrays import as_array, check_in_memory, on_host
from skcalib._input.classes import position
from skcalib._input.estimators import check_takes_logits, features_argument
from skcalib._input.groups import check_groups
from skcalib._input.measures import check_kind, check_measure, resolved
from skcalib._input.rows import check_not_swapped
from skcalib._output import counted, replacing
from skcalib._output.html import as_text
from skcalib._typing import Array, ArrayLike, Kind
from skcalib._warnings import ColumnOrderWarning, Messages, give, ignored, recorded
from skcalib.base import both_columns
from skcalib.comparison import CalibratorComparison
from skcalib.conditional import multicalibration_error
from skcalib.metrics import CalibrationTestResult, IntervalEstimate

from ._code import report_code
from ._numbers import Change, Evaluation, measured, silent
from ._page import draw_report, report_fragment, report_page, report_text, short
from ._verdict import verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# Counts of the labels, which are equal before and after calibration.
COUNTS = ("events", "prevalence")


class _Report:
    """Page, figure and facts of evaluated probabilities, by title; the last are the subject."""

    title: ClassVar[str]
    whens: ClassVar[tuple[str, ...]]

    def __init__(
        self, views: dict[str, Evaluation], name: str, messages: Messages, code: str, given: Any
    ) -> None:
        self.evaluations, self.name, self.code_ = views, name, code
        self.calibrator, self.comparison = given.get("calibrator"), given.get("comparison")
        self.metadata, self.date = dict(given["metadata"] or {}), dt.date.today().isoformat()
        self.warnings_ = [f"{kind.__name__}: {text}" for (kind, _), text in messages.items()]
        self.figure_ = draw_report(views, given["figure"])

    @property
    def evaluation(self) -> Evaluation:
        """Evaluated probabilities that the report is on."""
        return list(self.evaluations.values())[-1]

    @property
    def kind(self) -> Kind:
        """Score and event of the calibration errors."""
        return self.evaluation.kind

    @property
    def segments_(self) -> Any:
        """Gaps of segments, of both evaluations if there are two, or None without features."""
        found = tuple(rows.segments for rows in self.evaluations.values() if rows.segments)
        return found if len(found) > 1 else found[0] if found else None

    @cached_property
    @silent
    def by_class_(self) -> dict[str, Array]:
        """Rows, base rate, mean probability and ECE of each class."""
        rows = self.evaluation
        weight = np.bincount(rows.index, rows.weights, minlength=len(rows.classes))
        columns = {"label": rows.classes, "n_samples": rows.counts}
        columns["base_rate"] = weight / weight.sum()
        ends = [f"_{when}" for when in self.whens] or [""]
        views = dict(zip(ends, self.evaluations.values(), strict=True))
        for end, view in views.items():
            mean = np.average(view.P, axis=0, weights=view.sample_weight)
            columns[f"mean{end}"] = mean.astype(float)
        params: Any = {"n_bins": rows.n_bins, "kind": "classwise", "average": None}
        for end, view in views.items():
            columns[f"ece{end}"] = view.measure(metrics.expected_calibration_error, **params)
        return columns

    @cached_property
    def verdict_(self) -> list[str]:
        """Sentences on all tests, on the effect of calibration or the risks, and on the ECE."""
        return verdict(self.name, *self.evaluations.values())

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
        with replacing(target) as file:
            file.write(report_page(self).encode())
        return None

    def _repr_html_(self) -> str:
        return report_fragment(self)

    def __str__(self) -> str:
        return report_text(self)

    def __repr__(self) -> str:
        where = counted(self.evaluation.n_samples, "row")
        return f"<{type(self).__name__} of {self.name} on {where}>"


class CalibrationReport(_Report):
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
        Three sentences: whether the calibrated probabilities pass all tests of the page, the
        effect of calibration, and the remaining error.
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

    title = "Calibration report"
    whens = ("before", "after")

    @cached_property
    def measures_(self) -> dict[str, Change]:
        """Measures by name with intervals."""
        before, after = self.evaluations.values()
        return {
            title: Change(before.measures[title], found, measured(after, title, before))
            for title, found in after.measures.items()
        }

    @property
    def tests_(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of calibration before and after."""
        before, after = (rows.tests["the ECE"] for rows in self.evaluations.values())
        return before, after

    @property
    def risk_(self) -> dict[str, tuple[Any, Any]] | None:
        """Figures of the risk of the event before and after, or None."""
        before, after = (rows.risk or {} for rows in self.evaluations.values())
        both = {title: (before[title], after[title]) for title in after if title not in COUNTS}
        return both or None


class ValidationReport(_Report):
    """Report of probabilities of a model on held-out rows: numbers, verdict, figure and page.

    :func:`validation_report` creates it. Attributes with intervals are computed when they are
    first used.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Reliability diagram and histogram.
    name : str
        Name of the model.
    metadata : dict of str to object
        Facts that the page shows, such as the model and the files.
    date : str
        Date of the report, such as "2026-03-31".
    kind : {"top-label", "binary"}
        Score and event of the calibration errors.
    measures_ : dict of str to IntervalEstimate
        Measures by name with 95 % intervals. "log loss" is the log loss of all classes.
    risk_ : dict of str to result, or None
        Figures of the risk of the event: "events", their number, and "prevalence", "observed over
        expected", "c-statistic", "calibration in the large", "calibration slope", "ICI", "E50",
        "E90", "Emax" and "Spiegelhalter's z". A figure is None if it does not exist, as for
        separated classes. None unless ``kind`` is "binary".
    test_ : CalibrationTestResult
        Result of :func:`~skcalib.metrics.calibration_test`.
    by_class_ : dict of str to ndarray of shape (n_classes,)
        Columns ``"label"``, ``"n_samples"``, ``"base_rate"``, ``"mean"`` (of the predicted
        probability) and ``"ece"``.
    segments_ : MulticalibrationResult or None
        Gaps of the segments of ``features``; None without features.
    verdict_ : list of str
        Sentences. The first says whether the probabilities pass all tests of the page: "Not
        calibrated", "Not clear", "Not shown" or "Calibrated as far as ... show". The tests are of
        the calibration error, for two classes of the mean and the spread of the risks and
        Spiegelhalter's z, and of segments. They share the level of 5 %, so a calibrated model is
        "not calibrated" in at most 5 % of samples. The other sentences are on the mean and the
        spread of the risks, and on the calibration error.
    warnings_ : list of str
        Messages of the warnings of the evaluation.
    code_ : str
        Code that repeats the report.

    See Also
    --------
    validation_report : Create a report.

    Examples
    --------
    >>> from skcalib import validation_report
    >>> validation_report([0, 1] * 50, [0.3, 0.6] * 50, name="Score")
    <ValidationReport of Score on 100 rows>
    """

    title = "Validation report"
    whens = ()

    @property
    def measures_(self) -> dict[str, IntervalEstimate]:
        """Measures by name with intervals."""
        return self.evaluation.measures

    @property
    def risk_(self) -> dict[str, Any] | None:
        """Figures of the risk of the event, or None unless the kind is binary."""
        return self.evaluation.risk

    @property
    def test_(self) -> CalibrationTestResult:
        """Test of calibration."""
        found: CalibrationTestResult = self.evaluation.tests["the ECE"]
        return found


def calibration_report(
    calibrator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    features: Any = None,
    categorical_features: Any = "from_dtype",
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
        Weight 2 equals the row twice, weight 0 equals the row left out.
    groups : array-like of shape (n_samples,), default=None
        Rows with the same value depend on one another, such as visits of one patient. Intervals and
        tests take whole groups as independent.
    features : array-like or data frame of shape (n_samples, n_columns), default=None
        Features per row, for a calibrator that takes them, such as
        :class:`~skcalib.conditional.ConditionalCalibrator`, and for a section on the worst
        segments, see :func:`~skcalib.conditional.multicalibration_error`.
    categorical_features : "from_dtype" or list of str or int, default="from_dtype"
        Columns with categories in the section on segments, such as hospitals with integers as
        codes. By default these are the columns with text or a categorical type.
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
    weighted means, corrected for skewness. The correction moves an end away by at most about half
    of its distance from the mean. Intervals of the accuracy are Wilson intervals. There are no
    intervals for the smooth ECE of more than 100 000 rows, and for the classwise ECE of more than
    5 million rows times classes.

    Examples
    --------
    >>> from skcalib import VectorScaling, calibration_report
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> calibrator = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> report = calibration_report(calibrator, digits.logits_test, digits.y_test, random_state=0)
    >>> print(report.verdict_[1][:43])
    VectorScaling improves the probabilities: t
    >>> report.tests_[1].pvalue > 0.05  # after calibration, the test finds no error
    True
    >>> report.to_html("report.html")  # doctest: +SKIP
    """
    given, seed = locals(), check_random_state(random_state).randint(2**31 - 1)
    check_takes_logits(calibrator)
    if comparison is not None and not isinstance(comparison, CalibratorComparison):
        raise ValueError(
            "comparison must be the result of compare_calibrators, got "
            f"{type(comparison).__name__}. Pass compare_calibrators(X, y)."
        )
    check_in_memory((X, y, sample_weight))
    check_not_swapped(y=y, X=X)
    with recorded() as messages:
        logits = as_array(X)
        proba = on_host(calibrator.predict_proba(logits, **features_argument(calibrator, features)))
        Z = check_array(logits, dtype=[np.float64, np.float32], ensure_all_finite=False)
        P, labels = softmax(both_columns(Z), axis=1), np.array(on_host(calibrator.classes_))
        before = _evaluated(y, P, given | {"labels": labels}, seed)
    give([("", messages)])
    with ignored(UserWarning):  # the probabilities before calibration have warned
        after = _evaluated(y, proba, given | {"labels": labels}, seed)
    name = as_text(type(calibrator).__name__ if name is None else name)
    views = {"Before": before, "After" if name == "Before" else short(name): after}
    code = report_code(calibration_report, given)
    return CalibrationReport(views, name, messages, code, given)


def validation_report(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    features: Any = None,
    categorical_features: Any = "from_dtype",
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    n_bins: int = 15,
    kind: Kind = "auto",
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    figure: Figure | SubFigure | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> ValidationReport:
    """Report on probabilities of a model, its external validation: numbers, figure and page.

    Nothing is fitted. The figure has a reliability diagram and a histogram of the score.
    ``report.to_html(path)`` writes a page with a verdict, measures with 95 % intervals, a
    reliability diagram and the worst classes or segments. For two classes the page also has the
    number of events, the c-statistic, the calibration slope and intercept, and decision curves with
    bands.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows, which the model was not fitted to.
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities: one column per class, ordered as ``labels``, or for two classes the
        probability of the event alone.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight 2 equals the row twice, weight 0 equals the row left out.
    groups : array-like of shape (n_samples,), default=None
        Rows with the same value depend on one another, such as visits of one patient. Intervals and
        tests take whole groups as independent.
    features : array-like or data frame of shape (n_samples, n_columns), default=None
        Features for a section on the worst segments, such as centre and age, see
        :func:`~skcalib.conditional.multicalibration_error`.
    categorical_features : "from_dtype" or list of str or int, default="from_dtype"
        Columns with categories, such as hospitals with integers as codes. By default these are the
        columns with text or a categorical type.
    labels, pos_label
        Labels in column order, and the event of two classes, as for
        :func:`skcalib.metrics.reliability_curve`.
    n_bins : int, default=15
        Number of bins of all diagrams and measures.
    kind : {"auto", "top-label", "binary"}, default="auto"
        Score and event, as for :func:`skcalib.metrics.reliability_curve`. "auto" is the event of
        two classes, and the top label of more classes.
    name : str, default=None
        Name of the model; by default "Model".
    metadata : dict of str to object, default=None
        Facts for the page, such as ``{"Hospital": "north", "Data": "2025.csv"}``.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; by default a new figure.
    random_state : int, RandomState instance or None, default=None
        Seed of the resamples of intervals and tests.

    Returns
    -------
    ValidationReport
        The report, with the figure drawn.

    Raises
    ------
    ValueError
        As :func:`skcalib.metrics.reliability_curve`, and for invalid features.

    See Also
    --------
    calibration_report : The same before and after calibration.

    Notes
    -----
    Intervals are computed as by :func:`calibration_report`. The interval of the prevalence is a
    Wilson interval. Observed over expected and the c-statistic [1]_ have t intervals by the delta
    method, for the logarithm and for the log-odds, corrected for skewness. Both sum the influence
    of the rows in each group.

    References
    ----------
    .. [1] DeLong, DeLong, Clarke-Pearson, "Comparing the areas under two or more correlated
       receiver operating characteristic curves: a nonparametric approach", Biometrics 44, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import validation_report
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.beta(1, 4, size=1000)
    >>> died = rng.uniform(size=1000) < 0.7 * risk  # risks are too high
    >>> report = validation_report(died, risk, name="Score", random_state=0)
    >>> print(report.verdict_[1][:35])
    Risks are too high on average: obse
    >>> report.risk_["observed over expected"].high < 1
    True
    >>> report.to_html("report.html")  # doctest: +SKIP
    """
    given, seed = locals(), check_random_state(random_state).randint(2**31 - 1)
    with recorded() as messages:
        rows = _evaluated(y_true, y_proba, given, seed)
    give([("", messages)])
    name = as_text("Model" if name is None else name)
    code = report_code(validation_report, given)
    return ValidationReport({short(name): rows}, name, messages, code, given)


def _evaluated(y_true: Any, y_proba: Any, given: Mapping[str, Any], seed: int) -> Evaluation:
    """Check the arguments of a report, and return the evaluation, with the event second."""
    figure, features = given["figure"], given["features"]
    if figure is not None and not hasattr(figure, "add_gridspec"):
        raise ValueError(
            f"figure must be a matplotlib Figure or SubFigure, got {type(figure).__name__}. Pass "
            "ax.figure, or None for a new figure."
        )
    check_kind(given["kind"], ["auto", "top-label", "binary"])
    labels: Any = {name: given.get(name) for name in ("sample_weight", "labels", "pos_label")}
    params = {**labels, "kind": given["kind"], "groups": given["groups"]}
    metrics.reliability_curve(y_true, y_proba, n_bins=given["n_bins"], **params)

    checked = check_measure(y_true, y_proba, **labels).in_memory()
    P, y, classes = np.array(checked.X), checked.classes[checked.y], checked.classes
    if P.ndim == 1:  # the probability of the second class
        P = np.stack([1 - P, P], axis=1)
    elif labels["pos_label"] is not None and position(labels["pos_label"], classes) == 0:
        P, classes = P[:, ::-1], classes[::-1]
    n_rows, groups = np.shape(y_proba)[0], given["groups"]
    if groups is not None:
        names = check_groups(groups, n_rows, labels["sample_weight"])
        groups = np.unique(names, return_inverse=True)[1]
    w = None if checked.w is None else np.array(checked.w)
    kind, n_absent = resolved(given["kind"], classes), n_rows - len(y)
    rows = Evaluation(y, P, classes, w, groups, given["n_bins"], kind, seed, n_absent)
    rows.warn_of_few_groups()
    if features is not None:
        params |= {**rows.draws(rows.n_samples), "groups": given["groups"]}
        columns = given["categorical_features"]
        with ignored(ColumnOrderWarning):  # the first measure has warned
            rows.segments = multicalibration_error(
                y_true, y_proba, features, categorical_features=columns, **params
            )
    return rows

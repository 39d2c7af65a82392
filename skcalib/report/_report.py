"""The report of a calibrator, and the function that makes it."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from skcalib._nested import given_for
from skcalib._output import replacing
from skcalib._rows import ArrayLike, MemoryRows, both_columns, on_host
from skcalib._validation.features import fitted_columns
from skcalib._validation.inputs import check_weights
from skcalib._validation.labels import as_labels
from skcalib._warnings import give, recorded
from skcalib.comparison import CalibratorComparison
from skcalib.display import TemperatureSweepDisplay
from skcalib.display._sweep import sweep_of
from skcalib.metrics._input import Kind, check_kind

from ._diagrams import figure_of
from ._measures import LETTERS_OF_REPORT, Evaluation, facts_of, short
from ._results import Results
from ._sections import fragment_of, page_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


class CalibrationReport(Results):
    """Report of a calibrator on held-out rows: measures, verdict, figure and page.

    Made by :func:`calibration_report`. Attributes that take time, those with intervals, are
    computed when they are first used.

    Attributes
    ----------
    figure_ : matplotlib Figure or SubFigure
        Diagrams and measures before and after calibration.
    name : str
        Name of the calibrator.
    calibrator : calibrator
        The calibrator.
    comparison : CalibratorComparison or None
        The comparison of calibrators that the page shows.
    measures_ : dict of str to named tuple (before, after, difference)
        All measures by their names in the table, each with 95 % intervals:
        :class:`~skcalib.metrics.IntervalEstimate` before and after, and
        :class:`~skcalib.metrics.CalibrationDifference` of the value after less that before.
    tests_ : tuple of two CalibrationTestResult
        Result of :func:`~skcalib.metrics.calibration_test` before and after.
    decompositions_ : dict of str to tuple of two ScoreDecomposition
        Decomposition of ``"log_loss"`` and ``"brier_score"`` before and after.
    by_class_ : dict of str to ndarray of shape (n_classes,)
        Columns ``"label"``, ``"n_samples"``, ``"base_rate"``, and ``"mean"`` (of the predicted
        probability) and ``"ece"`` with ``"_before"`` or ``"_after"``.
    segments_ : tuple of two MulticalibrationResult, or None
        Gaps of the segments of ``features`` before and after; None without features.
    risk_ : dict of str to tuple of two results, or None
        Figures of the risk of the second of two classes, before and after, such as "calibration
        slope" and "ICI"; each None where rows of one class, or rows whose classes a threshold
        separates, have no such figure. Weights are divided so that they sum to the
        effective rows. None for a report on the top label.
    verdict_ : list of str
        Three sentences: before calibration, its effect, and what is left.
    warnings_ : list of str
        Messages of warnings that the evaluation gave.

    See Also
    --------
    calibration_report : Makes it.

    Examples
    --------
    >>> from skcalib import TemperatureScaling, calibration_report
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> calibration_report(calibrator, digits.logits_test, digits.y_test)
    <CalibrationReport of TemperatureScaling on 849 rows>
    """

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> None: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write the report as a page: a single file, which loads nothing from anywhere.

        Parameters
        ----------
        path : str or path-like, default=None
            The file, which is replaced when the page is complete if it exists. Its directory must
            exist. By default the page is returned as text.

        Returns
        -------
        str or None
            The page if ``path`` is None.

        Raises
        ------
        ValueError
            If ``path`` is a directory, or lies in one that does not exist.
        OSError
            If the file cannot be written.
        """
        if path is None:
            return page_of(self)
        target = _checked_target(path)
        text = page_of(self)
        with replacing(target) as file:
            file.write(text.encode())
        return None

    def _repr_html_(self) -> str:
        return fragment_of(self)

    def __repr__(self) -> str:
        return f"<CalibrationReport of {self.name} on {self.rows.n_samples:,} rows>"


def calibration_report(
    calibrator: Any,
    logits: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    features: Any = None,
    name: str | None = None,
    figure: Figure | SubFigure | None = None,
    n_bins: int = 15,
    kind: Kind = "auto",
    comparison: CalibratorComparison | None = None,
) -> CalibrationReport:
    r"""Report on a calibrator: measures and diagrams before and after, as a figure and a page.

    The figure has reliability diagrams and histograms of the confidence, before and after; log loss
    and ECE of the logits as functions of a temperature, with the log loss of the calibrator as a
    horizontal line; and a table of measures. Its Brier score is that of scikit-learn, with half of
    the sum over the classes if there are two,

    .. math:: \frac{1}{N h} \sum_i w_i \sum_k (\hat p_{ik} - 1[y_i = k])^2 ,
        \qquad h = 2 \text{ for two classes, else } 1 ,

    with N the sum of the weights.

    ``report.to_html(path)`` writes a page with a verdict in three sentences, all measures with
    95 % intervals, vector graphics of the diagrams, the worst classes, for two classes the figures
    of a risk model and a decision curve, a summary of the data and the code to repeat it. In a
    notebook the report shows the verdict, the measures and the figure.

    Parameters
    ----------
    calibrator : calibrator
        Any fitted calibrator.
    logits : array-like of shape (n_samples, n_classes) or (n_samples, 1)
        Logits of held-out rows, which neither classifier nor calibrator was fitted on.
    y : array-like of shape (n_samples,)
        Labels.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is the row twice, a weight of 0 the row absent.
    features : array-like or data frame of shape (n_samples, n_columns), default=None
        Features of the rows, for a calibrator whose predictions depend on them, such as
        :class:`ConditionalCalibrator`, and for a section on the worst segments, as of
        :func:`~skcalib.conditional.multicalibration_error`.
    name : str, default=None
        Name of the calibrator; by default the name of its class.
    figure : matplotlib Figure or SubFigure, default=None
        Where to draw; by default a new figure. About 10 by 8 inches with
        ``layout="constrained"`` suit the report.
    n_bins : int, default=15
        Number of bins of all diagrams and measures.
    kind : {"auto", "top-label", "binary"}, default="auto"
        The score and the event of the diagrams, the measures and the verdict, as for
        :func:`skcalib.metrics.reliability_curve`: "auto" is the event of the second of two classes,
        and the top label of more.
    comparison : CalibratorComparison, default=None
        Result of :func:`compare_calibrators`, which the page shows as a table.

    Returns
    -------
    CalibrationReport
        With the drawing as ``figure_``. Intervals are computed when they are first used.

    Raises
    ------
    ValueError
        If logits, labels, weights or features are invalid, ``n_bins`` is not an integer of at least
        1, ``calibrator`` is not fitted to logits, such as a classifier of features, or
        ``comparison`` is not the result of :func:`compare_calibrators`.
    NotFittedError
        If the calibrator is not fitted.

    Warns
    -----
    ConvergenceWarning
        If no temperature minimizes the log loss on these rows, as ``fit`` of
        :class:`~skcalib.TemperatureScaling`.

    Notes
    -----
    Intervals of calibration errors are those of
    :func:`~skcalib.metrics.calibration_error_interval` and
    :func:`~skcalib.metrics.calibration_difference` with ``random_state=0``, from 999 resamples for
    up to 10 000 rows, and no fewer than 99 for more. Those of log loss and Brier score are normal
    intervals of the mean, with the standard error that the bootstrap of rows estimates,

    .. math:: s^2 = \frac{n}{n - 1} \frac{\sum_i w_i^2 (x_i - \bar x)^2}{(\sum_i w_i)^2} ,

    and those of the accuracy are Wilson's. They take a few seconds for 10 000 rows, and half a
    minute for a million. There are no intervals of measures that would take much longer, of the
    smooth ECE for more than 100 000 rows, and of the classwise ECE for more than 5 million rows
    times classes.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, figures 1 and 4.

    Examples
    --------
    >>> from skcalib import VectorScaling, calibration_report
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> calibrator = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
    >>> report = calibration_report(calibrator, digits.logits_test, digits.y_test)
    >>> len(report.figure_.axes)
    7
    >>> print(report.verdict_[0][:47])
    Before calibration the model is over-confident:
    >>> report.measures_["ECE"].difference.high < 0  # the ECE is lower after calibration
    True
    >>> report.to_html("report.html")  # doctest: +SKIP
    """
    _check_kinds(figure, comparison)
    shown_name = short(type(calibrator).__name__ if name is None else name, LETTERS_OF_REPORT)
    with recorded() as messages:
        # First, because it checks logits and labels.
        found, reference = sweep_of(calibrator, logits, y, sample_weight, features, n_bins=n_bins)
        given = given_for(calibrator, features)
        rows, Z = _evaluated(calibrator, logits, y, sample_weight, given, n_bins, kind)
        if features is not None:  # checked now, since segments are computed later
            fitted_columns(features, len(Z), rows.w, "from_dtype")
    give([("", messages)])
    report = CalibrationReport(
        name=shown_name,
        given_name=name,
        calibrator=calibrator,
        comparison=comparison,
        warnings_=[f"{kind.__name__}: {text}" for (kind, _), text in messages.items()],
        rows=rows,
        sweep=TemperatureSweepDisplay(*found, reference=reference, name=shown_name),
        n_columns=Z.shape[1],
        facts=facts_of(Z, rows),
        given=tuple(given),
        features=deepcopy(features),
    )
    report.figure_ = figure_of(report, figure)
    return report


def _check_kinds(figure: Any, comparison: Any) -> None:
    """Raise a ValueError for a figure or a comparison of another kind."""
    if figure is not None and not hasattr(figure, "add_gridspec"):
        raise ValueError(
            f"figure must be a matplotlib Figure or SubFigure, got {type(figure).__name__}. Pass "
            "ax.figure, or None for a new figure."
        )
    if comparison is not None and not isinstance(comparison, CalibratorComparison):
        raise ValueError(
            "comparison must be the result of compare_calibrators, got "
            f"{type(comparison).__name__}. Pass compare_calibrators(logits, y)."
        )


def _evaluated(
    calibrator: Any,
    logits: Any,
    y: Any,
    sample_weight: Any,
    given: dict[str, Any],
    n_bins: int,
    kind: Kind,
) -> tuple[Evaluation, Any]:
    """Rows with the probabilities before and after calibration, and their logits."""
    check_kind(kind, ["auto", "top-label", "binary"])
    P = calibrator.predict_proba(logits, **given)
    after, logits, y = map(on_host, (P, logits, y))
    checked = check_array(logits, dtype=[np.float64, np.float32], ensure_all_finite=False)
    before = MemoryRows(both_columns(checked)).map(lambda z: softmax(z, axis=1))
    w = check_weights(sample_weight, len(checked))
    check_consistent_length(y, checked)
    # Copies, since numbers are computed later.
    labels, w = np.array(column_or_1d(as_labels(y))), None if w is None else w.copy()
    classes = on_host(calibrator.classes_)
    return Evaluation(labels, w, classes, n_bins, before, after, kind), checked


def _checked_target(path: str | os.PathLike[str]) -> Path:
    """The path of a file to write, in a directory that exists."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"path must be that of a file, as a string or a pathlib.Path, got {type(path).__name__}"
            ". Pass path='report.html', or None for the text of the page."
        )
    target = Path(path)
    if target.is_dir() or not target.name:
        raise ValueError(
            f"path must be that of a file, got the directory {str(path)!r}. Add the name of a "
            "file, such as report.html."
        )
    if not target.parent.is_dir():
        raise ValueError(
            f"path must lie in a directory that exists, got {str(path)!r}. Create "
            f"{str(target.parent)!r} first."
        )
    return target

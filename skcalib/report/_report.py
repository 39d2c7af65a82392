"""The report of a calibrator: numbers, verdict, figure and page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, overload

from skcalib._output.files import check_target, replacing
from skcalib._rows.arrays import Array
from skcalib.metrics import CalibrationTestResult, ScoreDecomposition
from skcalib.selection import CalibratorComparison

from ._measures import Change
from ._page import fragment_of, page_of
from ._results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

__all__ = ["CalibrationReport"]


class CalibrationReport:
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
        :class:`~skcalib.metrics.CalibrationErrorInterval` before and after, and
        :class:`~skcalib.metrics.CalibrationComparisonResult` of the value after less that before.
    tests_ : tuple of two CalibrationTestResult
        Result of :func:`~skcalib.metrics.calibration_test` before and after.
    decompositions_ : dict of str to tuple of two ScoreDecomposition
        Decomposition of ``"log_loss"`` and ``"brier_score"`` before and after.
    by_class_ : dict of str to ndarray of shape (n_classes,)
        Columns ``"label"``, ``"n_samples"``, ``"base_rate"``, and ``"mean"`` (of the predicted
        probability) and ``"ece"`` with ``"_before"`` or ``"_after"``.
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
    >>> report = calibration_report(calibrator, digits.logits_test, digits.y_test)
    >>> report.measures_["ECE"].difference.high < 0  # the ECE is lower after calibration
    True
    >>> report.to_html("report.html")  # doctest: +SKIP
    """

    def __init__(self, results: Results, figure: Figure | SubFigure) -> None:
        self._results = results
        self.figure_ = figure

    @property
    def name(self) -> str:
        """Name of the calibrator."""
        return self._results.name

    @property
    def calibrator(self) -> Any:
        """The calibrator."""
        return self._results.calibrator

    @property
    def comparison(self) -> CalibratorComparison | None:
        """The comparison of calibrators that the page shows."""
        return self._results.comparison

    @property
    def measures_(self) -> dict[str, Change]:
        """All measures, with intervals."""
        return self._results.measures

    @property
    def tests_(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of whether the model is calibrated, before and after."""
        return self._results.tests

    @property
    def decompositions_(self) -> dict[str, tuple[ScoreDecomposition, ScoreDecomposition]]:
        """Decompositions of proper scores, before and after."""
        return self._results.decompositions

    @property
    def by_class_(self) -> dict[str, Array]:
        """Rows, base rate, mean prediction and ECE of each class."""
        return self._results.by_class

    @property
    def verdict_(self) -> list[str]:
        """Three sentences: before calibration, its effect, and what is left."""
        return self._results.verdict

    @property
    def warnings_(self) -> list[str]:
        """Messages of warnings that the evaluation gave."""
        return self._results.warnings

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
            return page_of(self._results)
        target = check_target(path)
        text = page_of(self._results)
        with replacing(target) as file:
            file.write(text.encode())
        return None

    def _repr_html_(self) -> str:
        return fragment_of(self._results, self.figure_)

    def __repr__(self) -> str:
        rows = self._results.rows
        return f"<CalibrationReport of {self.name} on {rows.n_samples:,} rows>"

"""The report of a calibrator: numbers, verdict, figure and page."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skcalib._files import check_target, replacing
from skcalib.display import TemperatureSweepDisplay
from skcalib.metrics import (
    CalibrationTestResult,
    ScoreDecomposition,
    calibration_test,
    score_decomposition,
)
from skcalib.selection import CalibratorComparison

from ._data import DataSummary
from ._evaluation import Evaluation
from ._intervals import SEED, Intervals
from ._measures import Change
from ._verdict import verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

__all__ = ["CalibrationReport"]

SCORES = ("log_loss", "brier_score")


@dataclass(frozen=True, eq=False, repr=False)
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

    figure_: Figure | SubFigure
    name: str
    calibrator: Any
    comparison: CalibratorComparison | None
    warnings_: list[str]
    _rows: Evaluation = field(repr=False)
    _sweep: TemperatureSweepDisplay = field(repr=False)
    _data: DataSummary = field(repr=False)
    _was_named: bool = False

    @cached_property
    def measures_(self) -> dict[str, Change]:
        """All measures, with intervals."""
        return Intervals(self._rows).changes()

    @cached_property
    def tests_(self) -> tuple[CalibrationTestResult, CalibrationTestResult]:
        """Tests of whether the model is calibrated, before and after."""
        rows = self._rows
        params = {**rows.keywords, "random_state": SEED, "n_resamples": self._n_resamples}
        before, after = (calibration_test(rows.y, P, **params) for P in (rows.before, rows.after))
        return before, after

    @cached_property
    def decompositions_(self) -> dict[str, tuple[ScoreDecomposition, ScoreDecomposition]]:
        """Decompositions of proper scores, before and after."""
        rows = self._rows

        def of(P: Any, score: Any) -> ScoreDecomposition:
            return score_decomposition(rows.y, P, score=score, **rows.of_rows)

        return {score: (of(rows.before, score), of(rows.after, score)) for score in SCORES}

    @cached_property
    def by_class_(self) -> dict[str, Any]:
        """Rows, base rate, mean prediction and ECE of each class."""
        from ._classes import by_class

        return by_class(self._rows)

    @cached_property
    def verdict_(self) -> list[str]:
        """Three sentences: before calibration, its effect, and what is left."""
        return verdict(self._rows, self.name, self.measures_, self.tests_)

    @property
    def _n_resamples(self) -> int:
        return Intervals(self._rows).n_resamples

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
        from ._page import page_of

        if path is None:
            return page_of(self)
        target = check_target(path)
        text = page_of(self)
        with replacing(target) as file:
            file.write(text.encode())
        return None

    def _repr_html_(self) -> str:
        from ._page import fragment_of

        return fragment_of(self)

    def __repr__(self) -> str:
        n = self._rows.n_samples
        return f"<CalibrationReport of {self.name} on {n} rows: to_html(path) writes a page>"

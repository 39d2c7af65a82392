"""The result of a comparison of calibrators: tables for texts and pages, a data frame, a plot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib._input.parameters import check_option, check_real
from skcalib._output import drawing, written
from skcalib._output.html import Cell, Child, Html, Number, element, html, styled, table
from skcalib._typing import Floats
from skcalib.metrics._groups import degrees_of_freedom, skewed_interval
from skcalib.metrics._named_scorers import Measures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

UNCALIBRATED = "uncalibrated"
FIT_TIME = "fit time"

# A star marks differences larger than this number of standard errors.
CLEAR = 2.0

BEST_MARK = "\N{BLACK STAR}"  # beside bold type, which is not read aloud

NOTE = (
    "Sorted by log loss, a proper scoring rule. A calibration error is the mean distance from\n"
    "observed frequencies, which can be small for probabilities that do not discriminate."
)


@dataclass(frozen=True, repr=False)
class CalibratorComparison:
    """Result of :func:`compare_calibrators`.

    It prints as a table. :meth:`to_frame` and :meth:`plot` show it in other forms.

    Attributes
    ----------
    names : list of str
        Names of the calibrators, sorted by log loss, with "uncalibrated" among them.
    scores : dict of str to ndarray of shape (n_calibrators, n_splits)
        Values for each measure, with calibrators in the order of ``names``. Errors are positive
        numbers: lower is better. Scorers that were passed as objects retain their sign. The Brier
        score is scikit-learn's: half the sum of squares for two classes.
    fit_times : ndarray of shape (n_calibrators, n_splits)
        Fit times in seconds.
    calibrators : dict of str to calibrator
        The calibrators, fitted to all rows, if they were scored on a test set. Otherwise empty.
    greater_is_better : tuple of str
        Measures with greater values for better calibrators; for all others lower is better.
    base_rate_log_loss : float
        Log loss of a model that always predicts the base rates in the test rows; NaN for Dask
        collections.
    reference : str
        Name of the calibrator that differences refer to.
    left_out : dict of str to ndarray of shape (n_calibrators, n_parts)
        Values if one of 20 parts is left out from the test rows or groups, for the jackknife.
        Empty for splits, and for test sets that are not in memory.
    part_weights : ndarray of shape (n_parts,) or None
        Sum of the weights of each part, for :meth:`interval`. None if ``left_out`` is empty.

    Examples
    --------
    >>> from skcalib import BBQ, TemperatureScaling, compare_calibrators
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(1000, 3, random_state=0)
    >>> comparison = compare_calibrators(
    ...     logits, y, calibrators=[TemperatureScaling(), BBQ()], reference="BBQ"
    ... )
    >>> comparison.names
    ['TemperatureScaling', 'BBQ', 'uncalibrated']
    >>> comparison.to_frame()["log loss"].round(2)  # doctest: +NORMALIZE_WHITESPACE
                        mean  standard error  difference  difference error
    calibrator
    TemperatureScaling  0.59            0.02       -0.02              0.01
    BBQ                 0.61            0.02        0.00              0.00
    uncalibrated        0.70            0.04        0.09              0.03
    """

    names: list[str]
    scores: dict[str, Floats]
    fit_times: Floats
    calibrators: dict[str, Any] = field(default_factory=dict)
    greater_is_better: tuple[str, ...] = ("accuracy",)
    base_rate_log_loss: float = float("nan")
    reference: str = UNCALIBRATED
    left_out: dict[str, Floats] = field(default_factory=dict)
    part_weights: Floats | None = None

    def mean(self, measure: str) -> Floats:
        """Return the mean of a measure over the splits.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            In the order of ``names``.

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        return self._values(measure).mean(axis=1)

    def standard_error(self, measure: str) -> Floats:
        """Return the standard error of the mean, from the spread over splits or parts.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            NaN if there is a single split, except on a test set in memory.

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        return self._errors(measure)[0]

    def _values(self, measure: str) -> Floats:
        return self.scores[self._column(measure)]

    def _column(self, measure: str) -> str:
        """Return the key in ``scores`` for a measure or the name of its scorer."""
        if isinstance(measure, str) and measure not in self.scores:
            plain = measure.removeprefix("neg_")
            titles = {
                scorer.removeprefix("neg_"): title for title, scorer in Measures.EVERY.items()
            }
            measure = plain if plain in self.scores else titles.get(plain, measure)
        check_option("measure", measure, self.scores)
        return measure

    def _differences(self, measure: str) -> tuple[Floats, Floats]:
        """Return mean differences from the reference on the same split, and standard errors."""
        mean = self.mean(measure)
        return mean - mean[self.names.index(self.reference)], self._errors(measure)[1]

    def _errors(self, measure: str) -> tuple[Floats, Floats]:
        """Return standard errors (n_calibrators,) of the means and of their differences."""
        values, scale = self._values(measure), 1.0
        if self.left_out:  # jackknife: a left-out part moves the value by 1 / (n_parts - 1)
            values, scale = self.left_out[measure], self.left_out[measure].shape[1] - 1.0
        paired = values - values[self.names.index(self.reference)]
        return scale * _standard_error(values), scale * _standard_error(paired)

    def interval(self, measure: str, confidence_level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the paired interval of the difference from the reference, on a test set.

        The interval is the t interval of the jackknife over parts of the rows or groups, corrected
        for skewness, as for :func:`skcalib.metrics.calibration_difference`. It is an interval for
        means over rows by name: the log loss, the Brier score, the accuracy and the ranked
        probability score.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.
        confidence_level : float, default=0.95
            Between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n_calibrators,)
            In the order of ``names``. NaN for splits, whose training rows overlap, for test sets
            that are not in memory, and for other measures. Noise changes a
            calibration error by an amount that depends on the model: compare two models with
            :func:`skcalib.metrics.calibration_difference`.

        Raises
        ------
        ValueError
            If there is no measure of this name, or ``confidence_level`` is invalid.
        """
        measure = self._column(measure)
        check_real("confidence_level", confidence_level, high=1)
        ends = np.full((len(self.names), 2), np.nan)
        if self.part_weights is not None and self._is_mean(measure):
            differences, without = self._differences(measure)[0], self.left_out[measure]
            paired = without - without[self.names.index(self.reference)]
            deviations = (paired.shape[1] - 1) * (paired.mean(axis=1, keepdims=True) - paired)
            freedom = degrees_of_freedom(self.part_weights)
            for k, difference in enumerate(differences):
                found = skewed_interval(difference, deviations[k], confidence_level, freedom)
                ends[k] = found[:2]
        low, high = ends.T
        return low, high

    def _is_mean(self, measure: str) -> bool:
        """Return whether a measure is a mean over rows, by its name and its values.

        A function with the name of a mean is none if its values without each part have another
        mean.
        """
        if self.part_weights is None or measure not in Measures.MEANS:
            return False
        rest = self.part_weights.sum() - self.part_weights
        values = self.left_out[measure] @ rest / rest.sum()
        return bool(np.allclose(values, self.mean(measure), rtol=1e-7, atol=1e-12))

    @property
    def _has_errors(self) -> bool:
        return self.fit_times.shape[1] > 1 or bool(self.left_out)

    def _is_clear(self, measure: str) -> NDArray[np.bool_]:
        """Return whether intervals exclude 0, or else differences exceed two standard errors."""
        low, high = self.interval(measure)
        difference, error = self._differences(measure)
        reach = CLEAR * np.where(np.isnan(error), np.inf, error)
        return np.where(np.isnan(low), np.abs(difference) > reach, (low > 0) | (high < 0))

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a data frame.

        ``to_frame()["log loss"].to_latex(float_format="%.3f")`` writes one measure as a table for
        LaTeX. pandas needs Jinja2 for this.

        Returns
        -------
        pandas.DataFrame
            A row for each calibrator. Columns are pairs: a measure and "mean", "standard error",
            "difference" (from ``reference``, on the same splits), "difference error" (its standard
            error), or "difference low" and "difference high" (the ends of its 95 % interval on a
            test set). Columns without numbers are left out, such as standard errors on a single
            split.

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
            difference, error = self._differences(measure)
            columns[measure, "mean"] = self.mean(measure)
            columns[measure, "standard error"] = self.standard_error(measure)
            columns[measure, "difference"] = difference
            columns[measure, "difference error"] = error
            low, high = self.interval(measure)
            columns[measure, "difference low"], columns[measure, "difference high"] = low, high
        columns[FIT_TIME, "mean"] = self.fit_times.mean(axis=1)
        frame = pd.DataFrame(columns, index=pd.Index(self.names, name="calibrator"))
        return frame.dropna(axis=1, how="all")

    def __str__(self) -> str:
        """Write one line for each calibrator, another for its standard errors, and the notes."""
        indent, n_calibrators = max(map(len, self.names)) + 1, len(self.names)
        header: list[str] = []
        lines: list[list[str]] = [[] for _ in range(2 * n_calibrators)]

        def add(title: str, values: Floats, below: list[str], marks: Any = None) -> None:
            width = max(9, len(title) + 2, *(len(text) + 3 for text in below))
            header.append(f"{title:>{width}}")
            marks = [" "] * n_calibrators if marks is None else [" *"[int(m)] for m in marks]
            for k, mark in enumerate(marks):
                lines[2 * k].append(f"{written(values[k]) + mark:>{width}}")
                lines[2 * k + 1].append(f"{below[k]} ".rjust(width))

        for measure in self.scores:
            errors = [f"±{error:.4f}" for error in self.standard_error(measure)]
            add(measure, self.mean(measure), errors, self._is_clear(measure))
            if measure == Measures.LOG_LOSS:
                add("difference", self._differences(measure)[0], _spreads(self, measure))
        header.append(f"{'fit [s]':>9}")
        for k, seconds in enumerate(self.fit_times):
            lines[2 * k].append(f"{_seconds(seconds):>9}")
        # A single split without parts has no standard errors.
        names = [title for name in self.names for title in (name, "")]
        rows = list(zip(names, lines, strict=True))[:: 1 if self._has_errors else 2]
        table = [
            f"{name:{indent}}{''.join(cells)}".rstrip() for name, cells in [("", header), *rows]
        ]
        return "\n".join([*table, "", *_notes(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return styled(self)

    def __html__(self) -> str:
        """Return the table without its style, for a page."""
        return html(_elements(self))

    def best(self, measure: str) -> NDArray[np.bool_]:
        """Return which calibrators have the best mean of a measure, including ties.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            True for the best calibrators. All are False if every mean is NaN.

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        sign = 1 if self._column(measure) in self.greater_is_better else -1
        values = sign * self.mean(measure)
        return values == np.fmax.reduce(values)

    def plot(self, ax: Axes | None = None, *, measure: str = Measures.LOG_LOSS) -> Axes:
        """Draw one measure for all calibrators.

        Error bars show the 95 % interval of the difference from the reference on a test set, and
        otherwise two standard errors of it on either side. The dashed line is the mean of the
        reference: a bar that does not reach it shows a clear difference.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; a new figure by default.
        measure : str, default="log loss"
            One of the keys of ``scores``.

        Returns
        -------
        matplotlib Axes
            With the drawing.

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        mean, (difference, error) = self.mean(measure), self._differences(measure)
        drawing.check_axes(ax)
        if ax is None:
            ax = drawing.new_figure((6.4, 1.4 + 0.32 * len(self.names))).subplots()
        position = np.arange(len(self.names))
        has_bars, bars = self._has_errors, "± 2 standard errors"
        reach = CLEAR * np.stack([error, error])
        if self._is_mean(self._column(measure)):
            low, high = self.interval(measure)
            reach, bars = np.stack([difference - low, high - difference]), "95 % interval"
        ax.errorbar(mean, position, xerr=reach if has_bars else None, fmt="o", capsize=3)
        start, colour = self.names.index(self.reference), drawing.foreground(ax, 0.6)
        ax.axvline(mean[start], color=colour, linestyle="--", linewidth=1, zorder=0)
        ax.set_yticks(position, self.names)
        ax.set_ylim(len(self.names) - 0.5, -0.5)
        label = measure
        if has_bars:
            label += f"\n(bars: {bars} of\nthe difference from {self.reference})"
        # The names leave little width below the axes: the label ends with the axes.
        drawing.draw_as_written(ax.set_xlabel(label, loc="right"), *ax.get_yticklabels())
        return ax


def _standard_error(values: Floats) -> Floats:
    n_splits = values.shape[1]
    if n_splits == 1:
        return np.full(len(values), np.nan)
    return values.std(axis=1, ddof=1) / np.sqrt(n_splits)


def _elements(comparison: CalibratorComparison) -> list[Html]:
    """Return a table with a row for each calibrator, and notes, for a notebook or a page."""
    n_calibrators, n_splits = len(comparison.names) - 1, comparison.fit_times.shape[1]
    count = "1 calibrator" if n_calibrators == 1 else f"{n_calibrators} calibrators"
    splits = "one split" if n_splits == 1 else f"{n_splits} splits"
    where = "a test set" if comparison.calibrators else splits
    body = table(
        ["calibrator", *_titles(comparison), "fit [s]"],
        [list(_cells(comparison, k)) for k in range(len(comparison.names))],
        caption=f"{count} and the uncalibrated logits on {where}, sorted by log loss.",
        class_="comparison",
    )
    scores = "the best log loss or Brier score, the criteria for a choice"
    notes = [f"{BEST_MARK} and bold: {scores}.", *_notes(comparison)]
    return [body, *(element("p", note, class_="note") for note in notes)]


def _cells(comparison: CalibratorComparison, k: int) -> Iterator[Cell]:
    """Yield the cells of row k: marked if best, each with its standard error."""
    # Allow a line break before capitals within a name, since names are long.
    first, *parts = re.split("(?<=[a-z])(?=[A-Z])", comparison.names[k])
    yield [first, *((element("wbr"), part) for part in parts)]
    for measure in comparison.scores:
        mean, error = comparison.mean(measure)[k], comparison.standard_error(measure)[k]
        number: Child = written(mean)
        if measure in Measures.PROPER and comparison.best(measure)[k]:
            number = element("strong", f"{BEST_MARK} {number}")
        spread = None if np.isnan(error) else element("span", f" ± {error:.4f}", class_="spread")
        mark = element("span", "*", class_="mark") if comparison._is_clear(measure)[k] else None  # noqa: SLF001
        yield Number([number, mark, spread])
        if measure == Measures.LOG_LOSS:
            difference = written(comparison._differences(measure)[0][k])  # noqa: SLF001
            reach = f" {_spreads(comparison, measure)[k]}".replace("±", "± ")
            texts = [text.replace("-", "\N{MINUS SIGN}") for text in (difference, reach)]
            shown = element("span", texts[1], class_="spread")
            yield Number([texts[0], shown if comparison._has_errors else None])  # noqa: SLF001
    yield Number(_seconds(comparison.fit_times[k]))


def _spreads(comparison: CalibratorComparison, measure: str) -> list[str]:
    """Return the intervals of the differences from the reference, or else their errors."""
    low, high = comparison.interval(measure)
    errors = comparison._differences(measure)[1]  # noqa: SLF001
    return [
        f"±{errors[k]:.4f}" if np.isnan(low[k]) else f"[{low[k]:.4f}, {high[k]:.4f}]"
        for k in range(len(low))
    ]


def _titles(comparison: CalibratorComparison) -> Iterator[str]:
    """Yield the titles of the columns of measures, with the difference after the log loss."""
    for measure in comparison.scores:
        yield measure
        if measure == Measures.LOG_LOSS:
            yield f"difference from {comparison.reference}"


def _notes(comparison: CalibratorComparison) -> Iterator[str]:
    yield NOTE
    if not np.isnan(loss := comparison.base_rate_log_loss):
        yield f"The base rates of the classes have a log loss of {written(loss)}."
    if comparison.reference != UNCALIBRATED:
        yield f"Differences are from {comparison.reference}, on the same rows."
    n_splits = comparison.fit_times.shape[1]
    if n_splits > 1:
        yield f"Means over {n_splits} splits with their standard errors."
    elif comparison.left_out:
        yield (
            "Values on the test set with standard errors of its rows or groups (jackknife). The\n"
            "difference has its paired 95 % interval."
        )
    if any(comparison._is_clear(measure).any() for measure in comparison.scores):  # noqa: SLF001
        by = "by more than two standard errors"
        if comparison.left_out:
            by = "with an interval that excludes 0; a calibration error, " + by
        yield f"* differs from {comparison.reference} {by}."


def _seconds(times: Floats) -> str:
    mean = times.mean()
    return f"{mean:.2g}" if mean < 99.5 else f"{mean:.0f}"

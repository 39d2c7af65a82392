"""The result of a comparison of calibrators: tables for texts and pages, a data frame, a plot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skcalib._input.parameters import check_option, check_real, import_optional
from skcalib._output import drawing, written
from skcalib._output.html import BEST_MARK, Entry, Html, aligned, element, html, styled, table
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
        Values for each measure, with calibrators ordered as ``names``. Errors are positive
        numbers: lower is better. Scorers that were passed as objects retain their sign. The Brier
        score is scikit-learn's: half the sum of squares for two classes.
    fit_times : ndarray of shape (n_calibrators, n_splits)
        Fit times in seconds.
    calibrators : dict of str to calibrator
        The calibrators, fitted to all rows, if they were scored on a test set. Otherwise empty.
    greater_is_better : tuple of str
        Measures with greater values for better calibrators; for all others lower is better.
    base_rate_log_loss : float
        Log loss if the base rates in the test rows are always predicted; NaN for Dask
        collections.
    reference : str
        Name of the calibrator that differences refer to.
    left_out : dict of str to ndarray of shape (n_calibrators, n_parts)
        Values if one of 20 parts is left out from the test rows or groups, for the jackknife.
        Empty for splits, and for test sets that are not in memory.
    part_weights : ndarray of shape (n_parts,) or None
        Total weight in each part, for :meth:`interval`. None if ``left_out`` is empty.

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
            In the order of ``names``. NaN for splits, because their training rows overlap, for test
            sets that are not in memory, and for other measures. Noise changes a
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
        """Whether intervals exclude 0, or else differences exceed two standard errors."""
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
        pandas = import_optional("pandas", "to_frame", "'skcalib[frame]'")
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
        frame = pandas.DataFrame(columns, index=pandas.Index(self.names, name="calibrator"))
        return frame.dropna(axis=1, how="all")

    def __str__(self) -> str:
        """Write one line for each calibrator, another for its standard errors, and the notes."""
        titles, columns = _columns(self)
        lines = [["", *titles]]
        for k, name in enumerate(self.names):
            entries = [column[k] for column in columns]
            *marked, seconds = (entry.number + (entry.mark or " ") for entry in entries)
            lines.append([name, *marked, seconds.rstrip()])
            if self._has_errors:
                lines.append(["", *(f"{entry.spread} " for entry in entries[:-1]), ""])
        return "\n".join([aligned(lines), "", *_notes(self)])

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
        if ax.get_xscale() == "linear":  # few digits: the names leave little width
            ax.locator_params(axis="x", steps=[1, 2, 5, 10])
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
    (loss, difference, *others), columns = _columns(comparison)
    titles = [loss, f"{difference} from {comparison.reference}", *others]
    # Allow a line break before capitals within a name, since names are long.
    names = [re.split("(?<=[a-z])(?=[A-Z])", name) for name in comparison.names]
    body = table(
        ["calibrator", *titles],
        [
            [[first, *((element("wbr"), part) for part in parts)], *entries]
            for (first, *parts), *entries in zip(names, *columns, strict=True)
        ],
        caption=f"{count} and the uncalibrated logits on {where}, sorted by log loss.",
        class_="comparison",
    )
    scores = "the best log loss or Brier score, the criteria for a choice"
    notes = [f"{BEST_MARK} and bold: {scores}.", *_notes(comparison)]
    return [body, *(element("p", note, class_="note") for note in notes)]


def _columns(comparison: CalibratorComparison) -> tuple[list[str], list[list[Entry]]]:
    """Return titles and entries of the columns, with the difference after the log loss."""
    columns = []
    for measure in comparison.scores:
        is_best = comparison.best(measure) & (measure in Measures.PROPER)
        found = zip(
            comparison.mean(measure), comparison.standard_error(measure),
            comparison._is_clear(measure).tolist(), is_best.tolist(), strict=True,  # noqa: SLF001
        )  # fmt: skip
        columns.append([
            Entry(written(mean), "" if np.isnan(error) else f"±{error:.4f}", "*" * clear, best)
            for mean, error, clear, best in found
        ])  # fmt: skip
    first, *others = comparison.scores  # the first is the log loss
    times = [Entry(_seconds(times)) for times in comparison.fit_times]
    titles = [first, "difference", *others, "fit [s]"]
    return titles, [columns[0], _differences(comparison, first), *columns[1:], times]


def _differences(comparison: CalibratorComparison, measure: str) -> list[Entry]:
    """Return the differences from the reference, with their intervals or else their errors."""
    found = *comparison._differences(measure), *comparison.interval(measure)  # noqa: SLF001
    entries = []
    for difference, error, low, high in zip(*found, strict=True):
        spread = f"±{error:.4f}" if np.isnan(low) else f"[{low:.4f}, {high:.4f}]"
        has_none = np.isnan(error) and np.isnan(low)
        entries.append(Entry(written(difference), "" if has_none else spread))
    return entries


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
            by = "with an interval that excludes 0;\na calibration error, " + by
        yield f"* differs from {comparison.reference} {by}."


def _seconds(times: Floats) -> str:
    mean = times.mean()
    return f"{mean:.2g}" if mean < 99.5 else f"{mean:.0f}"

"""The result of a comparison of calibrators: tables for texts and pages, a data frame, a plot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from skcalib._output import drawing, written
from skcalib._output.html import Cell, Child, Number, element, styled, table
from skcalib._rows import Floats
from skcalib._validation.inputs import check_option
from skcalib.metrics._named_scorers import FIT_TIME, LOG_LOSS, PROPER_SCORES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

UNCALIBRATED = "uncalibrated"

# Differences of more than this many of their standard errors are marked.
CLEAR = 2.0

BEST = "\N{BLACK STAR}"  # beside bold type, which is not read aloud

NOTE = (
    "Sorted by log loss, a proper scoring rule. A calibration error is the mean distance from\n"
    "observed frequencies, which can be small for probabilities that hardly discriminate."
)

# What LaTeX would read as a command.
LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {letter: f"\\{letter}" for letter in "&%$#_{}"}
)


@dataclass(frozen=True, repr=False)
class CalibratorComparison:
    """Result of :func:`compare_calibrators`.

    Printed, it is a table; see :meth:`to_frame` and :meth:`plot` for other forms.

    Attributes
    ----------
    names : list of str
        Names of the calibrators, sorted by log loss, with "uncalibrated" among them.
    scores : dict of str to ndarray of shape (n_calibrators, n_splits)
        For each measure its values for each calibrator in the order of ``names`` and each split.
        Errors are positive numbers, the lower the better, except for scorers that were passed as
        objects, whose values keep their sign. The Brier score is that of scikit-learn, half the sum
        of squares for two classes.
    fit_times : ndarray of shape (n_calibrators, n_splits)
        Fit times in seconds.
    calibrators : dict of str to calibrator
        The calibrators, fitted to all rows if they were scored on a test set, else empty.
    greater_is_better : tuple of str
        Measures of which greater values are better; of all others, lower ones are.
    base_rate_log_loss : float
        Log loss of the base rates of the classes in the rows that were scored, which a model that
        knows nothing of a row could have; NaN for Dask collections.

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
    greater_is_better: tuple[str, ...] = ("accuracy",)
    base_rate_log_loss: float = float("nan")

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

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        return self._values(measure).mean(axis=1)

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

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        return _standard_error(self._values(measure))

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

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        values = self._values(measure)
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

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        difference, error = self.difference(measure)
        return np.abs(difference) > CLEAR * np.where(np.isnan(error), np.inf, error)

    def _values(self, measure: str) -> Floats:
        check_option("measure", measure, self.scores)
        return self.scores[measure]

    def to_frame(self) -> pd.DataFrame:
        """The table as a data frame.

        Returns
        -------
        pandas.DataFrame
            A row for each calibrator. Columns are pairs: a measure, and "mean", "standard error",
            "difference" (from uncalibrated) or "difference error". Columns of nothing but NaN, such
            as standard errors on a single split, are left out.

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
        columns[FIT_TIME, "mean"] = self.fit_times.mean(axis=1)
        frame = pd.DataFrame(columns, index=pd.Index(self.names, name="calibrator"))
        return frame.dropna(axis=1, how="all")

    def to_latex(self, *, measures: Sequence[str] | None = None) -> str:
        r"""The table for a paper, with the best log loss and Brier score in bold type.

        Parameters
        ----------
        measures : sequence of str, default=None
            Keys of ``scores`` in the order of the columns; by default all of them.

        Returns
        -------
        str
            A ``tabular`` with a row for each calibrator, its means and, of several splits, their
            standard errors. The preamble needs the package ``booktabs``.

        Raises
        ------
        ValueError
            If there is no measure of one of these names.
        """
        columns = [["calibrator", *self.names]]
        for measure in self.scores if measures is None else measures:
            is_best = self.best(measure) & (measure in PROPER_SCORES)
            numbers = zip(self.mean(measure), self.standard_error(measure), is_best, strict=True)
            columns.append([measure.translate(LATEX), *(_of_latex(*number) for number in numbers)])
        header, *lines = [
            " & ".join([name.translate(LATEX), *cells]) + r" \\"
            for name, *cells in zip(*columns, strict=True)
        ]
        begin = rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}"
        rules = [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([begin, r"\toprule", header, r"\midrule", *lines, *rules])

    def __str__(self) -> str:
        """A line for each calibrator, another one for standard errors, and the notes."""
        measures, indent = list(self.scores), max(map(len, self.names)) + 1
        widths = [max(9, len(measure) + 2) for measure in measures]
        header = "".join(f"{m:>{n}}" for m, n in zip(measures, widths, strict=True))
        lines = [f"{'':{indent}}{header}{'fit [s]':>9}"]
        for k, name in enumerate(self.names):
            means = [f"{written(self.mean(m)[k])}{' *'[int(self.clear(m)[k])]}" for m in measures]
            cells = "".join(f"{cell:>{n}}" for cell, n in zip(means, widths, strict=True))
            lines.append(f"{name:{indent}}{cells}{_seconds(self.fit_times[k]):>9}")
            if self.fit_times.shape[1] > 1:
                errors = [f"±{self.standard_error(m)[k]:.4f} " for m in measures]
                cells = "".join(f"{cell:>{n}}" for cell, n in zip(errors, widths, strict=True))
                lines.append(f"{'':{indent}}{cells}".rstrip())
        return "\n".join([*lines, "", *_notes(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return styled(*comparison_elements(self))

    def best(self, measure: str) -> NDArray[np.bool_]:
        """Whether the mean of a measure is the best of all, or as good.

        Parameters
        ----------
        measure : str
            One of the keys of ``scores``.

        Returns
        -------
        ndarray of shape (n_calibrators,)
            False for all if every mean is NaN.

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        sign = 1 if measure in self.greater_is_better else -1
        values = sign * self.mean(measure)
        return values == np.fmax.reduce(values)

    def plot(self, ax: Axes | None = None, *, measure: str = LOG_LOSS) -> Axes:
        """Draw one measure of all calibrators.

        Error bars extend two standard errors of the difference from uncalibrated to either side:
        where they do not reach the dashed line, the difference is clear.

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

        Raises
        ------
        ValueError
            If there is no measure of this name.
        """
        mean, (_, error) = self.mean(measure), self.difference(measure)
        drawing.check_axes(ax)
        if ax is None:
            ax = drawing.new_figure((6.4, 1.4 + 0.32 * len(self.names))).subplots()
        position = np.arange(len(self.names))
        has_bars = self.fit_times.shape[1] > 1
        ax.errorbar(mean, position, xerr=CLEAR * error if has_bars else None, fmt="o", capsize=3)
        start, colour = self.names.index(UNCALIBRATED), drawing.foreground(ax, 0.6)
        ax.axvline(mean[start], color=colour, linestyle="--", linewidth=1, zorder=0)
        ax.set_yticks(position, self.names)
        ax.set_ylim(len(self.names) - 0.5, -0.5)
        bars_are = "\n(bars: ± 2 standard errors of the difference)" if has_bars else ""
        drawing.draw_as_written(ax.set_xlabel(f"{measure}{bars_are}"), *ax.get_yticklabels())
        return ax


def _standard_error(values: Floats) -> Floats:
    n_splits = values.shape[1]
    if n_splits == 1:
        return np.full(len(values), np.nan)
    return values.std(axis=1, ddof=1) / np.sqrt(n_splits)


def _of_latex(mean: float, error: float, is_best: bool) -> str:  # noqa: FBT001
    number = "--" if np.isnan(mean) else written(mean)
    spread = "" if np.isnan(error) else rf" $\pm$ {error:.4f}"
    return (rf"\textbf{{{number}}}" if is_best else number) + spread


def comparison_elements(found: CalibratorComparison, *, sortable: bool = False) -> list[Element]:
    """A table with a row for each calibrator, and its notes, for a notebook or a page."""
    n_calibrators, n_splits = len(found.names) - 1, found.fit_times.shape[1]
    count = "1 calibrator" if n_calibrators == 1 else f"{n_calibrators} calibrators"
    splits = "one split" if n_splits == 1 else f"{n_splits} splits"
    where = "a test set" if found.calibrators else splits
    made = table(
        ["calibrator", *found.scores, "fit [s]"],
        [list(_cells(found, k)) for k in range(len(found.names))],
        caption=f"{count} and the uncalibrated logits on {where}, sorted by log loss.",
        sortable=sortable,
        class_="comparison",
    )
    scores = "the best log loss or Brier score, by which calibrators are chosen"
    notes = [f"{BEST} and bold: {scores}.", *_notes(found)]
    return [made, *(element("p", note, class_="note") for note in notes)]


def _cells(found: CalibratorComparison, k: int) -> Iterator[Cell]:
    """A row of the table: the best scores are marked, and standard errors stand behind them."""
    # The name may continue on the next line in front of capitals within a word.
    first, *others = re.split("(?<=[a-z])(?=[A-Z])", found.names[k])
    yield [first, *((element("wbr"), part) for part in others)]
    for measure in found.scores:
        mean, error = found.mean(measure)[k], found.standard_error(measure)[k]
        number: Child = written(mean)
        if measure in PROPER_SCORES and found.best(measure)[k]:
            number = element("strong", f"{BEST} {number}")
        spread = None if np.isnan(error) else element("span", f" ± {error:.4f}", class_="spread")
        mark = element("span", "*", class_="mark") if found.clear(measure)[k] else None
        yield Number([number, mark, spread], mean)
    yield Number(_seconds(found.fit_times[k]), found.fit_times[k].mean())


def _notes(found: CalibratorComparison) -> Iterator[str]:
    yield NOTE
    if not np.isnan(loss := found.base_rate_log_loss):
        yield f"The base rates of the classes have a log loss of {written(loss)}."
    n_splits = found.fit_times.shape[1]
    if n_splits > 1:
        yield f"Means over {n_splits} splits with their standard errors."
    if any(found.clear(measure).any() for measure in found.scores):
        yield "* differs from uncalibrated by more than two standard errors of the difference."


def _seconds(times: Floats) -> str:
    mean = times.mean()
    return f"{mean:.2g}" if mean < 99.5 else f"{mean:.0f}"

"""The table of a comparison of calibrators as text, for a notebook or page, and for a paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from skcalib._output import written
from skcalib._output.html import Cell, Child, Number, element, table
from skcalib._rows import Floats

# A CalibratorComparison, whose methods call functions of this module.
Comparison = Any

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


def comparison_text(found: Comparison) -> str:
    """A line for each calibrator, another one for standard errors, and the notes."""
    measures, indent = list(found.scores), max(map(len, found.names)) + 1
    widths = [max(9, len(measure) + 2) for measure in measures]
    header = "".join(f"{m:>{n}}" for m, n in zip(measures, widths, strict=True))
    lines = [f"{'':{indent}}{header}{'fit [s]':>9}"]
    for k, name in enumerate(found.names):
        means = [f"{written(found.mean(m)[k])}{' *'[int(found.clear(m)[k])]}" for m in measures]
        cells = "".join(f"{cell:>{n}}" for cell, n in zip(means, widths, strict=True))
        lines.append(f"{name:{indent}}{cells}{_seconds(found.fit_times[k]):>9}")
        if found.fit_times.shape[1] > 1:
            errors = [f"±{found.standard_error(m)[k]:.4f} " for m in measures]
            cells = "".join(f"{cell:>{n}}" for cell, n in zip(errors, widths, strict=True))
            lines.append(f"{'':{indent}}{cells}".rstrip())
    return "\n".join([*lines, "", *_notes(found)])


def comparison_latex(found: Comparison, measures: Iterable[str]) -> str:
    """A tabular with a line for each calibrator, the best of each column in bold type."""
    columns = [["calibrator", *found.names]]
    for measure in measures:
        numbers = zip(
            found.mean(measure), found.standard_error(measure), found.best(measure), strict=True
        )
        columns.append([measure.translate(LATEX), *(_of_latex(*number) for number in numbers)])
    header, *lines = [
        " & ".join([name.translate(LATEX), *cells]) + r" \\"
        for name, *cells in zip(*columns, strict=True)
    ]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}"
    rules = [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([begin, r"\toprule", header, r"\midrule", *lines, *rules])


def _of_latex(mean: float, error: float, is_best: bool) -> str:  # noqa: FBT001
    number = "--" if np.isnan(mean) else written(mean)
    spread = "" if np.isnan(error) else rf" $\pm$ {error:.4f}"
    return (rf"\textbf{{{number}}}" if is_best else number) + spread


def comparison_elements(found: Comparison, *, sortable: bool = False) -> list[Element]:
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
    notes = [f"{BEST} and bold: the best of its column.", *_notes(found)]
    return [made, *(element("p", note, class_="note") for note in notes)]


def _cells(found: Comparison, k: int) -> Iterator[Cell]:
    """A row of the table: the best means are marked, and standard errors stand behind them."""
    # The name may continue on the next line in front of capitals within a word.
    first, *others = re.split("(?<=[a-z])(?=[A-Z])", found.names[k])
    yield [first, *((element("wbr"), part) for part in others)]
    for measure in found.scores:
        mean, error = found.mean(measure)[k], found.standard_error(measure)[k]
        number: Child = written(mean)
        if found.best(measure)[k]:
            number = element("strong", f"{BEST} {number}")
        spread = None if np.isnan(error) else element("span", f" ± {error:.4f}", class_="spread")
        mark = element("span", "*", class_="mark") if found.clear(measure)[k] else None
        yield Number([number, mark, spread], mean)
    yield Number(_seconds(found.fit_times[k]), found.fit_times[k].mean())


def _notes(found: Comparison) -> Iterator[str]:
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

"""Page and texts of a report: values for the template of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from textwrap import fill as fill_text
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib._input.labels import shown
from skcalib._output import briefly, counted, resource, written
from skcalib._output.html import Entry, Html, aligned, as_text, element, fill, styled, table
from skcalib._version import versions
from skcalib.metrics import CalibrationDifference, CalibrationTestResult

from ._code import calibrator_code
from ._pictures import as_image, draw_decisions, draw_reliability
from ._verdict import as_pvalue, signed

# Rows of the tables of classes and segments.
MOST_TABLE_ROWS = 10

# Longer names of classes and segments are cut in tables and pictures.
MOST_LETTERS = 60

# A table: its header and its rows.
Table = tuple[list[str], list[list[Any]]]


def short(name: object) -> str:
    """Return a name as text, cut after ``MOST_LETTERS`` letters."""
    text = as_text(name)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\N{HORIZONTAL ELLIPSIS}"


def report_page(report: Any) -> str:
    """Return HTML text of the whole page."""
    rows, views = report.evaluation, report.evaluations
    is_binary, segments = rows.kind == "binary", rows.segments
    values = {
        "style": Html(resource("_output/html.css") + resource("report/page.css")),
        "title": f"{report.title}: {report.name}",
        "rows": counted(rows.n_samples, "held-out row"),
        "groups": None if rows.groups is None else rows.units,
        "n_classes": f"{len(rows.classes):,}",
        "date": report.date,
        "calibrated": report.calibrator is not None,
        "binary": is_binary,
        "verdict": verdict_sentences(report),
        "measures": table(*figure_rows(report, "measure", report.measures_)),
        "event": short(rows.classes[-1]),
        "risk": table(*figure_rows(report, "figure", report.risk_, briefly)) if is_binary else None,
        "comparison": report.comparison,
        "diagrams": [draw_reliability(title, view) for title, view in views.items()],
        "decisions": draw_decisions(views) if is_binary else None,
        "classes": table(*class_rows(report)) if len(rows.classes) > 2 else None,
        "segments": table(*segment_rows(segments)) if segments else None,
        "largest_gaps": ", ".join(largest_gaps(report)),
        "facts": [(element("dt", term), element("dd", fact)) for term, fact in facts(report)],
        "warnings": [element("li", text) for text in report.warnings_],
        "code": report.code_,
    }
    return fill(resource("report/page.html"), values)


def report_text(report: Any) -> str:
    """Return verdict, figures and worst segments as text, with 95% intervals."""
    rows = report.evaluation
    header, measures = figure_rows(report, "", report.measures_)
    _, risks = figure_rows(report, "", report.risk_ or {}, briefly)
    # Numbers and their intervals are columns.
    lines = [["", *(cell for title in header[1:] for cell in (title, ""))]]
    for title, *entries in [*risks, *measures]:
        lines.append([title, *(cell for entry in entries for cell in (entry.number, entry.spread))])
    where = counted(rows.n_samples, "row") + ("" if rows.groups is None else f" in {rows.units}")
    segments = [] if rows.segments is None else ["", *str(rows.segments).split("\n")[:6]]
    return "\n".join([
        f"{report.title}: {report.name} on {where}",
        *(fill_text(sentence, 88) for sentence in report.verdict_),
        "",
        aligned(lines).replace("\N{MINUS SIGN}", "-"),
        *segments,
    ])  # fmt: skip


def report_fragment(report: Any) -> str:
    """Return HTML text of verdict, measures and figure, for a notebook."""
    import matplotlib as mpl

    parts = [*verdict_sentences(report), table(*figure_rows(report, "measure", report.measures_))]
    if "inline" not in mpl.get_backend().lower():  # this backend shows figures of pyplot itself
        figure = report.figure_
        while figure is not figure.figure:  # a subfigure cannot be saved
            figure = figure.figure
        alt = f"Reliability diagrams and histograms of {', '.join(report.evaluations)}."
        parts.append(element("img", src=as_image(figure), alt=alt, style="max-width: 100%"))
    return styled(*parts)


def verdict_sentences(report: Any) -> list[Html]:
    """Return a paragraph for each sentence of the verdict, the first in bold."""
    first, *others = (text.replace("p = ", "p\xa0=\xa0") for text in report.verdict_)
    return [element("p", text, class_="verdict") for text in (element("strong", first), *others)]


def figure_rows(
    report: Any, head: str, figures: dict[str, Any], write: Callable[[float], str] = written
) -> Table:
    """Return figures by name with intervals: one value, or before, after and the change."""
    lines: list[list[Any]] = []
    for title, found in figures.items():
        results = found if isinstance(found, tuple) else (found,)
        name = title.replace(" - ", " \N{MINUS SIGN} ")
        lines.append([name, *(as_entry(result, write) for result in results)])
    columns = [head, *report.whens, "change"] if report.whens else [head, "value"]
    return columns[: max(map(len, lines), default=2)], lines


def as_entry(found: Any, write: Callable[[float], str]) -> Entry:
    """Return a figure with its interval or its p-value, for a table."""
    if found is None:
        return Entry("none")
    if isinstance(found, int):
        return Entry(f"{found:,}")
    if isinstance(found, CalibrationTestResult):
        return Entry(f"{found.statistic:z.2f}", f"({as_pvalue(found.pvalue)})")
    if isinstance(found, CalibrationDifference):
        write = signed
    value, low, high = (
        write(number).replace("-", "\N{MINUS SIGN}")
        for number in (found.estimate, found.low, found.high)
    )
    return Entry(value, "" if math.isnan(found.low) else f"[{low}, {high}]")


def class_rows(report: Any) -> Table:
    """Return the classes with the largest ECE, in the last probabilities."""
    labels, counts, *shares = report.by_class_.values()
    worst = np.argsort(-shares[-1], kind="stable")[:MOST_TABLE_ROWS].tolist()
    lines = [
        [short(labels[k]), f"{counts[k]:,}", *(written(share[k]) for share in shares)]
        for k in worst
    ]
    titles = [name.replace("_", " ").replace("ece", "ECE") for name in report.by_class_]
    return ["class", "rows", *titles[2:]], lines


def segment_rows(found: Any) -> Table:
    """Return the segments with the largest gaps."""
    lines = [
        [
            short(found.segment[k]),
            f"{found.lower[k]:.3g} to {found.upper[k]:.3g}",
            f"{found.n_samples[k]:,}",
            written(found.confidence[k]),
            written(found.accuracy[k]),
            Entry(signed(found.gap[k]), f"[{signed(found.low[k])}, {signed(found.high[k])}]"),
        ]
        for k in range(min(MOST_TABLE_ROWS, len(found.segment)))
    ]
    return ["segment", "scores", "rows", "mean score", "event rate", "gap"], lines


def largest_gaps(report: Any) -> Iterator[str]:
    """Yield the largest gap of all segments and its p-value, before and after calibration."""
    whens = [f" {when} calibration" for when in report.whens] or [""]
    for when, rows in zip(whens, report.evaluations.values(), strict=True):
        if (found := rows.segments) is not None:
            pvalue = as_pvalue(found.pvalue).replace(" ", "\xa0")
            yield f"{found.statistic:.1f}{when} ({pvalue})"


def facts(report: Any) -> Iterator[tuple[str, Any]]:
    """Yield the user's metadata, the calibrator with the weights of a mixture, and data sizes."""
    rows, calibrator = report.evaluation, report.calibrator
    yield from ((key, str(value)) for key, value in report.metadata.items())
    if calibrator is not None:
        yield "Calibrator", element("code", calibrator_code(calibrator))
    is_chain = isinstance(calibrator, Pipeline)
    for step in [step for _, step in calibrator.steps] if is_chain else [calibrator]:
        if isinstance(weights := getattr(step, "weights_", None), dict):
            ranked = sorted(weights.items(), key=lambda item: -item[1])
            texts = [f"{name} {weight:.3f}" for name, weight in ranked if weight > 0]
            yield "Weights of the mixture", ", ".join(texts)
    labels = np.array([short(c) if isinstance(c, str) else c for c in rows.classes], dtype=object)
    yield "Classes", f"{len(labels):,}: {shown(labels)}"
    absent = ""
    if n_absent := len(rows.y) - rows.n_samples:
        verb = "is" if n_absent == 1 else "are"
        absent = f"; {counted(n_absent, 'row')} of weight 0 {verb} left out"
    yield "Held-out rows", f"{rows.n_samples:,}{absent}"
    if rows.kind == "binary":
        yield "Rows with the event", f"{rows.counts[1]:,}"
    if rows.sample_weight is not None:
        yield "Effective sample size", f"{rows.n_effective:,.1f}"
    if len(rare := labels[rows.counts < 10]):
        yield "Classes with fewer than 10 rows", shown(rare)
    yield "Bins", f"{rows.n_bins} of equal width"
    yield "Versions", ", ".join(map(" ".join, versions().items()))

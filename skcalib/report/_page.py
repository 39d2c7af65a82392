"""Page of a report: values for the template of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from textwrap import fill as fill_text
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib._input.labels import shown
from skcalib._output import written
from skcalib._output.html import Child, Html, Number, element, fill, resource, styled, table
from skcalib._version import versions
from skcalib.metrics import CalibrationDifference, CalibrationTestResult, IntervalEstimate

from . import _pictures
from ._code import calibrator_code
from ._numbers import Evaluation
from ._pictures import as_image, short
from ._verdict import as_pvalue, counted, signed

# Rows of the tables of classes and segments.
MOST_TABLE_ROWS = 10


def report_page(report: Any) -> str:
    """Return HTML text of the whole page."""
    rows, views = report.evaluation, report.evaluations
    is_binary = rows.kind == "binary"
    values = {
        "style": Html(resource("_output/html.css") + resource("report/page.css")),
        "title": f"{report.title}: {report.name}",
        "n_samples": f"{rows.n_samples:,}",
        "n_classes": f"{len(rows.classes):,}",
        "date": report.date,
        "groups": None if rows.groups is None else counted(rows),
        "calibrated": report.calibrator is not None,
        "validated": report.calibrator is None,
        "binary": is_binary,
        "many": not is_binary,
        "verdict": verdict_sentences(report),
        "measures": measures_table(report),
        "event": short(rows.classes[-1]),
        "risk": risk_table(report) if is_binary else None,
        "comparison": report.comparison,
        "diagrams": [_pictures.reliability(title, view) for title, view in views.items()],
        "decisions": _pictures.decision_curves(views) if is_binary else None,
        "classes": classes_table(report) if len(rows.classes) > 2 else None,
        "segments": segments_table(rows),
        "largest_gaps": ", ".join(_largest_gaps(report)),
        "facts": [(element("dt", term), element("dd", fact)) for term, fact in facts(report)],
        "warnings": [element("li", text) for text in report.warnings_],
        "code": report.code_,
    }
    return fill(resource("report/page.html"), values)


def report_text(report: Any) -> str:
    """Return verdict, figures and worst segments as text, with 95% intervals."""
    figures = (report.risk_ or {}) | report.measures_
    header = [*report.whens, "change"] if report.whens else ["value"]
    lines = [["", *header]]
    for title, found in figures.items():
        results = found if isinstance(found, tuple) else (found,)
        lines.append([title, *map(_plain, results), *[""] * (len(header) - len(results))])
    widths = [max(map(len, column)) + 2 for column in zip(*lines, strict=True)]
    table_lines = [
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    verdict = [fill_text(sentence, 88) for sentence in report.verdict_]
    rows = f"{report.name} on {report.evaluation.n_samples:,} rows"
    found = report.evaluation.segments
    segments = [] if found is None else ["", *str(found).split("\n")[:6]]  # a header and five
    return "\n".join([f"{report.title}: {rows}", *verdict, "", *table_lines, *segments])


def _plain(result: Any) -> str:
    """Return a figure as text, with its interval or p-value."""
    if result is None:
        return "none"
    if isinstance(result, int):
        return f"{result:,}"
    if isinstance(result, CalibrationTestResult):
        return str(result)
    if math.isnan(result.low):
        return written(result.estimate)
    return f"{written(result.estimate)} [{written(result.low)}, {written(result.high)}]"


def report_fragment(report: Any) -> str:
    """Return HTML text of verdict, measures and figure, for a notebook."""
    import matplotlib as mpl

    parts = [*verdict_sentences(report), measures_table(report)]
    if "inline" not in mpl.get_backend().lower():  # this backend shows figures of pyplot itself
        figure = report.figure_
        while figure is not figure.figure:  # a subfigure cannot be saved
            figure = figure.figure
        alt = f"Reliability diagrams and histograms of {', '.join(report.evaluations)}."
        parts.append(element("img", src=as_image(figure), alt=alt, style="max-width: 100%"))
    return styled(*parts)


def verdict_sentences(report: Any) -> list[Html]:
    """Return a paragraph for each sentence of the verdict, the first in bold."""
    first, *others = map(_unbroken, report.verdict_)
    return [element("p", text, class_="verdict") for text in (element("strong", first), *others)]


def _unbroken(text: str) -> str:
    """Return a text without line breaks within a p-value."""
    return text.replace("p = ", "p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def _headed(report: Any, title: str) -> list[str]:
    """Return titles of columns with a name for each set of probabilities."""
    return [f"{title} {when}".strip() for when in report.whens] or [title]


def measures_table(report: Any) -> Html:
    """Return the table of measures with intervals, and changes by calibration."""
    lines = []
    for title, result in report.measures_.items():
        intervals = (result,) if isinstance(result, IntervalEstimate) else result
        lines.append([title.replace(" - ", " \N{MINUS SIGN} "), *map(_interval_cell, intervals)])
    header = [*(report.whens or ["value"]), *(["change"] if report.whens else [])]
    return table(["measure", *header], lines)


def risk_table(report: Any) -> Html:
    """Return the table of figures of a risk."""
    views = report.evaluations.values()
    lines = [[title, *(_risk_cell(rows.risk[title]) for rows in views)] for title in report.risk_]
    return table(["figure", *(report.whens or ["value"])], lines)


def classes_table(report: Any) -> Html:
    """Return the table of the classes with the largest ECE, in the last probabilities."""
    tables = [rows.by_class for rows in report.evaluations.values()]
    last = tables[-1]
    worst = np.argsort(-last["ece"], kind="stable")[:MOST_TABLE_ROWS].tolist()
    shares = [last["base_rate"], *(t["mean"] for t in tables), *(t["ece"] for t in tables)]
    lines = [
        [
            short(last["label"][k]),
            Number(f"{last['n_samples'][k]:,}"),
            *(Number(written(values[k])) for values in shares),
        ]
        for k in worst
    ]
    return table(
        ["class", "rows", "base rate", *_headed(report, "mean"), *_headed(report, "ECE")], lines
    )


def segments_table(rows: Evaluation) -> Html | None:
    """Return the table of the segments with the largest gaps, if there are features."""
    found = rows.segments
    if found is None:
        return None
    lines = [
        [
            short(found.segment[k]),
            f"{found.lower[k]:.3g} to {found.upper[k]:.3g}",
            Number(f"{found.n_samples[k]:,}"),
            Number(written(found.confidence[k])),
            Number(written(found.accuracy[k])),
            _interval_cell(IntervalEstimate(found.gap[k], found.low[k], found.high[k]), signed),
        ]
        for k in range(min(MOST_TABLE_ROWS, len(found.segment)))
    ]
    return table(["segment", "scores", "rows", "mean score", "event rate", "gap"], lines)


def _largest_gaps(report: Any) -> Iterator[str]:
    whens = [f" {when} calibration" for when in report.whens] or [""]
    for when, rows in zip(whens, report.evaluations.values(), strict=True):
        if (found := rows.segments) is not None:
            yield _unbroken(f"{found.statistic:.1f}{when} ({as_pvalue(found.pvalue)})")


def _interval_cell(
    interval: IntervalEstimate | CalibrationDifference, write: Callable[[float], str] | None = None
) -> Number:
    """Return a cell with an estimate and its interval, if there is one."""
    if write is None:
        write = signed if isinstance(interval, CalibrationDifference) else _minus
    if math.isnan(interval.low):
        return Number(write(interval.estimate))
    ends = f" [{write(interval.low)}, {write(interval.high)}]"
    return Number([write(interval.estimate), element("span", ends, class_="interval")])


def _minus(value: float) -> str:
    return written(value).replace("-", "\N{MINUS SIGN}")


def _hundredths(value: float) -> str:
    return f"{value:z.2f}".replace("-", "\N{MINUS SIGN}")


def _risk_cell(risk: Any) -> Number:
    """Return a cell with a figure of a risk model, and its interval or p-value."""
    if risk is None:
        return Number("none")
    if isinstance(risk, int):
        return Number(f"{risk:,}")
    if isinstance(risk, CalibrationTestResult):
        pvalue = element("span", f" ({as_pvalue(risk.pvalue)})", class_="interval")
        return Number([_hundredths(risk.statistic), pvalue])
    return _interval_cell(risk, _hundredths)


def facts(report: Any) -> Iterator[tuple[str, Child]]:
    """Yield the user's metadata, the calibrator with the weights of a mixture, and data sizes."""
    rows, calibrator = report.evaluation, report.calibrator
    yield from ((key, str(value)) for key, value in report.metadata.items())
    if calibrator is not None:
        yield "Calibrator", element("code", calibrator_code(calibrator))
        yield from _mixture_weights(calibrator)
    yield "Classes", f"{len(rows.classes):,}: {shown([short(c) for c in rows.classes])}"
    n_absent = len(rows.y) - rows.n_samples
    absent = f"; {n_absent:,} rows of weight 0 are left out" if n_absent else ""
    yield "Held-out rows", f"{rows.n_samples:,}{absent}"
    if rows.kind == "binary":
        yield "Rows with the event", f"{rows.counts[1]:,}"
    if rows.sample_weight is not None:
        yield "Effective sample size", f"{rows.n_effective:,.1f}"
    if len(rare := rows.classes[rows.counts < 10]):
        yield "Classes with fewer than 10 rows", shown([short(c) for c in rare])
    yield "Bins", f"{rows.n_bins} of equal width"
    yield "Versions", ", ".join(map(" ".join, versions().items()))


def _mixture_weights(calibrator: Any) -> Iterator[tuple[str, Child]]:
    """Yield positive weights of a fitted mixture of calibrators, in descending order."""
    is_chain = isinstance(calibrator, Pipeline)
    for step in [step for _, step in calibrator.steps] if is_chain else [calibrator]:
        weights = getattr(step, "weights_", None)
        if isinstance(weights, dict):
            ranked = sorted(weights.items(), key=lambda item: -item[1])
            texts = [f"{name} {weight:.3f}" for name, weight in ranked if weight > 0]
            yield "Weights of the mixture", ", ".join(texts)

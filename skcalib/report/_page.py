"""Page, text and pictures of a report: values for the template of the page."""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections.abc import Callable, Iterator
from textwrap import fill as fill_text
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from skcalib._input.labels import shown
from skcalib._output import briefly, written
from skcalib._output.html import (
    Entry,
    Html,
    aligned,
    as_text,
    element,
    fill,
    resource,
    styled,
    table,
)
from skcalib._version import versions
from skcalib.clinical import NetBenefitDisplay
from skcalib.display import ConfidenceDisplay, ReliabilityDisplay
from skcalib.metrics import CalibrationDifference, CalibrationTestResult

from ._code import calibrator_code
from ._numbers import Evaluation, silent
from ._verdict import as_pvalue, counted, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# Rows of the tables of classes and segments.
MOST_TABLE_ROWS = 10

# Longer names of classes and segments are cut in tables and pictures.
MOST_LETTERS = 60

# A smooth curve has one kernel for all risks, so it suits no event that is rarer.
RARE = 0.02


def short(name: object) -> str:
    """Return a name as text, cut after ``MOST_LETTERS`` letters."""
    text = as_text(name)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\N{HORIZONTAL ELLIPSIS}"


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
        "binary": is_binary,
        "verdict": verdict_sentences(report),
        "measures": table(*figure_rows(report, "measure", report.measures_)),
        "event": short(rows.classes[-1]),
        "risk": table(*figure_rows(report, "figure", report.risk_, briefly)) if is_binary else None,
        "comparison": report.comparison,
        "diagrams": [draw_reliability(title, view) for title, view in views.items()],
        "decisions": draw_decisions(views) if is_binary else None,
        "classes": table(*class_rows(report)) if len(rows.classes) > 2 else None,
        "segments": None if rows.segments is None else table(*segment_rows(rows)),
        "largest_gaps": ", ".join(largest_gaps(report)),
        "facts": [(element("dt", term), element("dd", fact)) for term, fact in facts(report)],
        "warnings": [element("li", text) for text in report.warnings_],
        "code": report.code_,
    }
    return fill(resource("report/page.html"), values)


def report_text(report: Any) -> str:
    """Return verdict, figures and worst segments as text, with 95% intervals."""
    rows = report.evaluation
    (_, *header), measures = figure_rows(report, "", report.measures_)
    _, risks = figure_rows(report, "", report.risk_, briefly)
    columns = [["", *(cell for title in header for cell in (title, ""))]]
    for title, *entries in [*risks, *measures]:
        cells = [cell for found in entries for cell in found[:2]]
        columns.append([title, *cells, *[""] * (2 * (len(header) - len(entries)))])
    figures = aligned(columns).replace("\N{MINUS SIGN}", "-")
    where = f"{rows.n_samples:,} rows" + ("" if rows.groups is None else f" in {counted(rows)}")
    verdict = [fill_text(sentence, 88) for sentence in report.verdict_]
    segments = [] if rows.segments is None else ["", *str(rows.segments).split("\n")[:6]]
    title = f"{report.title}: {report.name} on {where}"
    return "\n".join([title, *verdict, "", figures, *segments])


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


# A table: its header and its rows.
Rows = tuple[list[str], list[list[Any]]]


def figure_rows(report: Any, head: str, figures: Any, write: Any = written) -> Rows:
    """Return figures by name with intervals: one value, or before, after and the change."""
    whens = [*report.whens, "change"] if report.whens else ["value"]
    lines: list[list[Any]] = []
    for title, found in (figures or {}).items():
        results = found if isinstance(found, tuple) else (found,)
        name = title.replace(" - ", " \N{MINUS SIGN} ")
        lines.append([name, *(entry(result, write) for result in results)])
    return [head, *whens[: max(map(len, lines), default=1) - 1]], lines


def entry(found: Any, write: Callable[[float], str] = written) -> Entry:
    """Return a figure with its interval or its p-value, for a table."""
    if found is None:
        return Entry("none")
    if isinstance(found, int):
        return Entry(f"{found:,}")
    if isinstance(found, CalibrationTestResult):
        return Entry(f"{found.statistic:z.2f}", f"({as_pvalue(found.pvalue)})")
    numbers = found.estimate, found.low, found.high
    is_change = isinstance(found, CalibrationDifference)
    value, low, high = (
        signed(x) if is_change else write(x).replace("-", "\N{MINUS SIGN}") for x in numbers
    )
    return Entry(value, "" if math.isnan(found.low) else f"[{low}, {high}]")


def class_rows(report: Any) -> Rows:
    """Return the classes with the largest ECE, in the last probabilities."""
    labels, counts, *shares = report.by_class_.values()
    worst = np.argsort(-shares[-1], kind="stable")[:MOST_TABLE_ROWS].tolist()
    lines = [
        [short(labels[k]), f"{counts[k]:,}", *(written(share[k]) for share in shares)]
        for k in worst
    ]
    titles = [name.replace("_", " ").replace("ece", "ECE") for name in report.by_class_]
    return ["class", "rows", *titles[2:]], lines


def segment_rows(rows: Evaluation) -> Rows:
    """Return the segments with the largest gaps."""
    found: Any = rows.segments
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
        yield from _mixture_weights(calibrator)
    labels = np.array([short(c) if isinstance(c, str) else c for c in rows.classes], dtype=object)
    yield "Classes", f"{len(labels):,}: {shown(labels)}"
    n_absent = len(rows.y) - rows.n_samples
    absent = f"; {n_absent:,} rows of weight 0 are left out" if n_absent else ""
    yield "Held-out rows", f"{rows.n_samples:,}{absent}"
    if rows.kind == "binary":
        yield "Rows with the event", f"{rows.counts[1]:,}"
    if rows.sample_weight is not None:
        yield "Effective sample size", f"{rows.n_effective:,.1f}"
    if len(rare := labels[rows.counts < 10]):
        yield "Classes with fewer than 10 rows", shown(rare)
    yield "Bins", f"{rows.n_bins} of equal width"
    yield "Versions", ", ".join(map(" ".join, versions().items()))


def _mixture_weights(calibrator: Any) -> Iterator[tuple[str, Any]]:
    """Yield positive weights of a fitted mixture of calibrators, in descending order."""
    is_chain = isinstance(calibrator, Pipeline)
    for step in [step for _, step in calibrator.steps] if is_chain else [calibrator]:
        weights = getattr(step, "weights_", None)
        if isinstance(weights, dict):
            ranked = sorted(weights.items(), key=lambda item: -item[1])
            texts = [f"{name} {weight:.3f}" for name, weight in ranked if weight > 0]
            yield "Weights of the mixture", ", ".join(texts)


@silent
def draw_report(views: dict[str, Evaluation], figure: Figure | SubFigure | None) -> Any:
    """Draw reliability diagrams above histograms, by default in a new figure."""
    if figure is None:
        import matplotlib.pyplot as plt

        width = 8.6 if len(views) == 2 else 4.6
        figure = plt.figure(figsize=(width, 7), layout="constrained")
    # A legend above both diagrams needs room in a figure with constrained layout.
    layout = getattr(figure, "get_constrained_layout", lambda: False)
    is_shared = len(views) == 2 and layout() and figure.bbox.width >= 8 * figure.dpi
    axes = figure.subplots(2, len(views), height_ratios=(2, 1), squeeze=False)
    handles: dict[str, Any] = {}
    for (diagram, histogram), (title, rows) in zip(axes.T, views.items(), strict=True):
        ReliabilityDisplay.from_predictions(
            rows.y, rows.P, **rows.params, **rows.random_params, name=title, ax=diagram,
            legend=not is_shared,
        )  # fmt: skip
        for handle, label in zip(*diagram.get_legend_handles_labels(), strict=True):
            name, _, error = label.partition(" (")
            handles.setdefault(name, handle)
            if error and is_shared:
                diagram.set_title(fill_text(f"{title} ({error}", 42))
        ConfidenceDisplay.from_predictions(rows.y, rows.P, **rows.params, ax=histogram)
    if is_shared:  # one legend for both diagrams covers no interval; the titles have the errors
        figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles))
    for ax in axes[1]:
        ax.set_ylim(0, max(ax.get_ylim()[1] for ax in axes[1]))
    return figure


def as_image(figure: Figure) -> str:
    """Return an address that contains a figure as SVG."""
    import matplotlib as mpl

    file = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "skcalib"}):  # else each call has other identifiers
        figure.savefig(file, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{b64encode(file.getvalue()).decode()}"


@silent
def picture(draw: Callable[[Any], Any], size: tuple[float, float], alt: str) -> Html:
    """Return an image of axes with a size in inches, in matplotlib's default style."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # Letters are drawn as paths, because fonts differ between machines.
    with style.context("default"):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        address = as_image(figure)
    width, height = (round(96 * inches) for inches in size)
    return element("img", src=address, alt=alt, width=width, height=height)


def draw_reliability(title: str, rows: Evaluation) -> Html:
    """Return a reliability diagram with the ECE in the title: for risks a curve, else bars."""
    ece = written(rows.ece.estimate)
    titled = fill_text(f"{title} (ECE {ece})", 42)
    is_curve = rows.kind == "binary" and rows.hits.mean() >= RARE
    look: dict[str, Any] = {"style": "smooth", "band": "confidence"} if is_curve else {}

    def draw(ax: Any) -> None:
        ReliabilityDisplay.from_predictions(
            rows.y, rows.P, **rows.params, **rows.random_params, **look, ax=ax, legend=False,
            name=titled,
        )  # fmt: skip
        ax.set_title(titled)

    return picture(draw, (4.8, 5.2), f"Reliability diagram of {title}, with an ECE of {ece}.")


def draw_decisions(views: dict[str, Evaluation]) -> Html:
    """Return net benefits with bands, at thresholds up to the highest risks."""
    highest = np.quantile(list(views.values())[-1].P[:, 1], 0.99)
    thresholds = np.linspace(0, float(np.clip(highest, 1e-3, 0.99)), 101)[1:]

    def draw(ax: Any) -> None:
        for title, rows in views.items():
            NetBenefitDisplay.from_predictions(
                rows.y, rows.P, thresholds=thresholds, **rows.row_params, **rows.random_params,
                name=title, ax=ax, legend="outside upper center",
            )  # fmt: skip

    names = " and ".join(views)
    return picture(draw, (5.6, 4.6), f"Decision curves: net benefit by threshold of {names}.")

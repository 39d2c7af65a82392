"""Figure, page and texts of a report: values for the template of the page."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from textwrap import fill as fill_text
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib import metrics
from skcalib._input.labels import shown
from skcalib._output import briefly, counted, drawing, resource, written
from skcalib._output.html import Entry, Html, aligned, as_text, element, fill, styled, table
from skcalib._version import versions
from skcalib.clinical import NetBenefitDisplay
from skcalib.display import ConfidenceDisplay, ReliabilityDisplay
from skcalib.metrics import CalibrationDifference

from ._code import calibrator_code
from ._numbers import Evaluation, has_interval, silent
from ._verdict import as_pvalue, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Rows of the tables of classes and segments, and letters of their names.
MOST_TABLE_ROWS, MOST_LETTERS = 10, 60

# Letters in a line of a title.
TITLE_WIDTH = 42

# A smooth curve has one kernel for all risks, so it suits no event that is rarer.
RARE = 0.02

# A table: its header and its rows.
Table = tuple[list[Any], list[list[Any]]]


def report_page(report: Any) -> str:
    """Return HTML text of the whole page."""
    rows, views, calibrator = report.evaluation, report.evaluations, report.calibrator
    is_binary, segments = rows.kind == "binary", rows.segments
    gaps = [as_entry(view.segments) for view in views.values() if segments]
    labels = np.array([short(c) if isinstance(c, str) else c for c in rows.classes], dtype=object)
    values = {
        "style": Html(resource("_output/html.css") + resource("report/page.css")),
        "title": f"{report.title}: {report.name}",
        "rows": counted(rows.n_samples, "held-out row"),
        "groups": None if rows.groups is None else rows.units,
        "n_classes": f"{len(labels):,}",
        "date": report.date,
        "calibrated": calibrator is not None,
        "binary": is_binary,
        "verdict": verdict_sentences(report),
        "measures": table(*figure_rows(report, "measure", report.measures_)),
        "event": short(rows.classes[-1]),
        "risk": table(*figure_rows(report, "figure", report.risk_, briefly)) if is_binary else None,
        "comparison": report.comparison,
        "diagrams": [reliability_picture(title, view) for title, view in views.items()],
        "decisions": decision_picture(views) if is_binary else None,
        "classes": table(*class_rows(report.by_class_)) if len(labels) > 2 else None,
        "segments": table(*segment_rows(segments)) if segments else None,
        "largest_gaps": " and ".join(map(str, gaps)),
        "metadata": [[element("dt", x), element("dd", y)] for x, y in report.metadata.items()],
        "calibrator": calibrator_code(calibrator),
        "weights": mixture_weights(calibrator),
        "labels": shown(labels),
        "n_rows": f"{rows.n_samples:,}",
        "absent": counted(rows.n_absent, "row") if rows.n_absent else None,
        "is": "is" if rows.n_absent == 1 else "are",
        "events": f"{rows.counts[1]:,}",
        "n_effective": None if rows.sample_weight is None else f"{rows.n_effective:,.1f}",
        "rare": shown(labels[rows.counts < 10]),
        "bins": rows.n_bins,
        "versions": ", ".join(map(" ".join, versions().items())),
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
    lines = [
        [title, *(text for entry in entries for text in entry[:2])]
        for title, *entries in (header, *risks, *measures)
    ]
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
        figure = report.figure_.canvas.figure  # a subfigure cannot be saved
        alt = f"Reliability diagrams and histograms of {', '.join(report.evaluations)}."
        parts.append(image(figure, alt, style="max-width: 100%"))
    return styled(*parts)


def verdict_sentences(report: Any) -> list[Html]:
    """Return a paragraph for each sentence of the verdict, the first in bold."""
    first, *others = (text.replace("p = ", "p\xa0=\xa0") for text in report.verdict_)
    return [element("p", text, class_="verdict") for text in (element("strong", first), *others)]


# --------------------------------------------------------------------------------------
# Tables.


def short(name: object) -> str:
    """Return a name as text, cut after ``MOST_LETTERS`` letters."""
    text = as_text(name)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\N{HORIZONTAL ELLIPSIS}"


def as_entry(found: Any, write: Callable[[float], str] = written) -> Entry:
    """Return a number or a result, with its interval or its p-value, for a table."""
    if found is None:
        return Entry("none")
    if isinstance(found, int | float):
        return Entry(f"{found:,}" if isinstance(found, int) else write(found))
    if hasattr(found, "statistic"):
        return Entry(f"{found.statistic:z.2f}", f"({as_pvalue(found.pvalue)})")
    if isinstance(found, CalibrationDifference):
        write = signed
    ends = f"[{write(found.low)}, {write(found.high)}]" if has_interval(found) else ""
    return Entry(write(found.estimate), ends)


def figure_rows(
    report: Any, head: str, figures: Mapping[str, Any], write: Callable[[float], str] = written
) -> Table:
    """Return the header and rows of figures: one value, or before, after and the change."""
    rows = [
        [
            title.replace(" - ", " \N{MINUS SIGN} "),
            *(as_entry(x, write) for x in (found if isinstance(found, tuple) else [found])),
        ]
        for title, found in figures.items()
    ]
    columns = [*report.whens, "change"] if report.whens else ["value"]
    return [head, *map(Entry, columns)][: max(map(len, rows), default=2)], rows


def class_rows(columns: Mapping[str, Any]) -> Table:
    """Return the header and the classes with the largest ECE, in the last probabilities."""
    labels, *numbers = columns.values()
    worst = np.argsort(-numbers[-1], kind="stable")[:MOST_TABLE_ROWS].tolist()
    rows = [[short(labels[k]), *(as_entry(x[k].item()) for x in numbers)] for k in worst]
    titles = [name.replace("_", " ").replace("ece", "ECE") for name in columns]
    return ["class", "rows", *titles[2:]], rows


def segment_rows(found: Any) -> Table:
    """Return the header and the segments with the largest gaps."""
    rows = [
        [
            short(found.segment[k]),
            f"{found.lower[k]:.3g} to {found.upper[k]:.3g}",
            *(as_entry(x[k].item()) for x in (found.n_samples, found.confidence, found.accuracy)),
            Entry(signed(found.gap[k]), f"[{signed(found.low[k])}, {signed(found.high[k])}]"),
        ]
        for k in range(min(MOST_TABLE_ROWS, len(found.segment)))
    ]
    return ["segment", "scores", "rows", "mean score", "event rate", "gap"], rows


def mixture_weights(calibrator: Any) -> str:
    """Return the positive weights of a mixture, also as a step of a pipeline, as text."""
    steps = [step for _, step in getattr(calibrator, "steps", [("", calibrator)])]
    mixtures = [step.weights_ for step in steps if isinstance(getattr(step, "weights_", 0), dict)]
    weights = [item for weights in mixtures for item in weights.items() if item[1] > 0]
    return ", ".join(f"{name} {w:.3f}" for name, w in sorted(weights, key=lambda item: -item[1]))


# --------------------------------------------------------------------------------------
# Pictures.


@silent
def draw_report(views: dict[str, Evaluation], figure: Figure | SubFigure | None) -> Any:
    """Draw reliability diagrams above histograms, by default in a new figure."""
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(5 if len(views) == 1 else 8.6, 7), layout="constrained")
    axes = figure.subplots(2, len(views), height_ratios=(2, 1), squeeze=False)
    # One legend above all diagrams covers no interval, if the layout makes room for it.
    has_room = "Constrained" in type(figure.get_layout_engine()).__name__
    handles: dict[str, Any] = {}
    for (diagram, histogram), (title, rows) in zip(axes.T, views.items(), strict=True):
        draw_reliability(diagram, title, rows, legend=not has_room)
        for handle, label in zip(*diagram.get_legend_handles_labels(), strict=True):
            handle.set_label(label.partition(" (")[0])  # a title has the error
            handles.setdefault(handle.get_label(), handle)
        rows.measure(ConfidenceDisplay.from_predictions, **rows.binned, ax=histogram)
    for ax in axes[1]:
        ax.set_ylim(0, max(ax.get_ylim()[1] for ax in axes[1]))
    if has_room:
        drawing.draw_legend(axes[0, 0], handles.values(), legend="outside upper center")
    return figure


def draw_reliability(ax: Axes, title: str, rows: Evaluation, *, legend: bool, **look: str) -> None:
    """Draw a reliability diagram, with the ECE in the legend or else in the title."""
    params: Any = {**rows.binned, **rows.random, **look, "ax": ax, "legend": legend}
    rows.measure(ReliabilityDisplay.from_predictions, **params)
    titled = title if legend else f"{title} (ECE {ece_of(rows)})"
    drawing.draw_title(ax, fill_text(titled, TITLE_WIDTH))


def ece_of(rows: Evaluation) -> str:
    """Return the ECE as text."""
    return written(rows.measure(metrics.expected_calibration_error, **rows.binned))


def reliability_picture(title: str, rows: Evaluation) -> Html:
    """Return an image of a reliability diagram: for risks a curve with its band, else bars."""
    is_curve = rows.kind == "binary" and rows.hits.mean() >= RARE
    look: Any = {"style": "smooth", "band": "confidence"} if is_curve else {}
    draw = partial(draw_reliability, title=title, rows=rows, legend=False, **look)
    alt = f"Reliability diagram of {title}, with an ECE of {ece_of(rows)}."
    return picture(draw, (4.8, 5.2), alt)


def decision_picture(views: dict[str, Evaluation]) -> Html:
    """Return an image of net benefits with bands, at thresholds up to the highest risks."""
    highest = np.quantile(list(views.values())[-1].P[:, 1], 0.99)
    thresholds = np.linspace(0, float(np.clip(highest, 1e-3, 0.99)), 101)[1:]

    def draw(ax: Axes) -> None:
        params: Any = {"thresholds": thresholds, "ax": ax, "legend": "outside upper center"}
        for title, rows in views.items():
            params |= {**rows.random, "name": title}
            rows.measure(NetBenefitDisplay.from_predictions, **params)

    alt = f"Decision curves: net benefit by threshold of {' and '.join(views)}."
    return picture(draw, (5.6, 4.6), alt)


@silent
def picture(draw: Callable[[Axes], None], size: tuple[float, float], alt: str) -> Html:
    """Return an image of axes with a size in inches, in matplotlib's default style."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        width, height = (round(96 * inches) for inches in size)
        return image(figure, alt, width=width, height=height)


def image(figure: Figure, alt: str, **attributes: Any) -> Html:
    """Return an image with a figure as SVG, where letters are paths: fonts differ."""
    import matplotlib as mpl

    file = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "skcalib"}):  # else each call has other identifiers
        figure.savefig(file, format="svg", metadata={"Date": None})
    address = f"data:image/svg+xml;base64,{b64encode(file.getvalue()).decode()}"
    return element("img", src=address, alt=alt, **attributes)

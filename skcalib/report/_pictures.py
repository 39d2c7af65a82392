"""Pictures of a report: its figure, and vector graphics for the page."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

import numpy as np

from skcalib import clinical
from skcalib._output import written
from skcalib._output.html import as_text, element
from skcalib._rows import Floats
from skcalib._warnings import ColumnOrderWarning, ignored
from skcalib.display import ConfidenceDisplay, ReliabilityDisplay

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


# Longer names of classes and segments are cut in tables and pictures.
MOST_LETTERS = 60


def short(name: object) -> str:
    """Name as text, cut after ``MOST_LETTERS`` letters."""
    text = as_text(name)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\N{HORIZONTAL ELLIPSIS}"


@ignored(ColumnOrderWarning)
def draw_report(report: Any, figure: Figure | SubFigure | None) -> Any:
    """Draw reliability diagrams above histograms, before and after, by default in a new figure."""
    if figure is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(8.6, 7), layout="constrained")
    # A legend above both diagrams needs room in a figure with constrained layout.
    layout = getattr(figure, "get_constrained_layout", lambda: False)
    is_shared = layout() and figure.bbox.width >= 8 * figure.dpi
    rows = report.evaluation
    axes = figure.subplots(2, 2, height_ratios=(2, 1))
    handles: dict[str, Any] = {}
    for (diagram, histogram), (title, P) in zip(axes.T, report.views, strict=True):
        ReliabilityDisplay.from_predictions(
            rows.y, P, **rows.diagram_params, name=title, ax=diagram, legend=not is_shared
        )
        for handle, label in zip(*diagram.get_legend_handles_labels(), strict=True):
            name, _, error = label.partition(" (")
            handles.setdefault(name, handle)
            if error and is_shared:
                diagram.set_title(f"{title} ({error}")
        ConfidenceDisplay.from_predictions(rows.y, P, **rows.params, ax=histogram)
    if is_shared:  # one legend for both diagrams covers no interval; the titles have the errors
        figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles))
    for ax in axes[1]:
        ax.set_ylim(0, max(ax.get_ylim()[1] for ax in axes[1]))
    return figure


def as_image(figure: Figure) -> str:
    """Address that holds a figure as SVG."""
    import matplotlib as mpl

    file = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "skcalib"}):  # else each call has other identifiers
        figure.savefig(file, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{b64encode(file.getvalue()).decode()}"


@ignored(ColumnOrderWarning)
def picture(draw: Callable[[Figure], Any], size: tuple[float, float], alt: str) -> Element:
    """Image of a figure with a size in inches, in matplotlib's default style."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # Letters are drawn as paths, because fonts differ between machines.
    with style.context("default"):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        address = as_image(figure)
    width, height = (round(96 * inches) for inches in size)
    return element("img", src=address, alt=alt, width=width, height=height)


def reliability(report: Any, title: str, P: Floats) -> Element:
    """Reliability diagram before or after calibration, with the ECE in the title."""
    rows, change = report.evaluation, report.measures_["ECE"]
    is_before = P is rows.before
    ece = written((change.before if is_before else change.after).estimate)

    def draw(figure: Figure) -> None:
        ReliabilityDisplay.from_predictions(
            rows.y, P, **rows.diagram_params, name=f"{title} (ECE {ece})", ax=figure.subplots(),
            legend=False,
        )  # fmt: skip

    when = "before calibration" if is_before else f"after calibration by {title}"
    return picture(draw, (4.8, 5.2), f"Reliability diagram {when}, with an ECE of {ece}.")


def decision_curves(report: Any) -> Element:
    """Net benefit before and after, at thresholds up to the highest risks."""
    rows = report.evaluation
    highest = float(np.clip(np.quantile(rows.after[:, 1], 0.99), 1e-3, 0.99))
    thresholds = np.linspace(0, highest, 101)[1:]

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        for title, P in report.views:
            curve = clinical.net_benefit_curve(rows.y, P, thresholds=thresholds, **rows.row_params)
            clinical.NetBenefitDisplay(curve, name=title).plot(
                ax, legend="outside upper center", random_state=rows.seed
            )

    return picture(
        draw,
        (5.6, 4.6),
        "Decision curves: net benefit by threshold before and after calibration.",
    )

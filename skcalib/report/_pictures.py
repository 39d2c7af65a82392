"""Figure of a report, and pictures of its page."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable
from textwrap import fill as fill_text
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output import written
from skcalib._output.html import Html, element
from skcalib.clinical import NetBenefitDisplay
from skcalib.display import ConfidenceDisplay, ReliabilityDisplay

from ._numbers import Evaluation, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# A smooth curve has one kernel for all risks, so it suits no event that is rarer.
RARE = 0.02

# Letters in a line of a title.
TITLE_WIDTH = 42


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
                diagram.set_title(fill_text(f"{title} ({error}", TITLE_WIDTH))
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
    titled = fill_text(f"{title} (ECE {ece})", TITLE_WIDTH)
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

"""The artists of a reliability diagram. Each function draws one kind of them on axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._scores.columns import Scored
from skcalib._typing import Floats
from skcalib.metrics import ReliabilityCurve

from ._axes import BLUE, GREY, VERMILION, ece_of
from ._band import consistency_band
from ._look import AXIS_NAMES, Diagonal, Look, record, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch


# Hatched, and a quarter opaque.
_GAPS: dict[str, Any] = {"facecolor": f"{VERMILION}40", "edgecolor": VERMILION, "hatch": "////"}


def diagonal(ax: Axes) -> Line2D:
    """The line of perfect calibration, drawn once for all models on the axes."""
    found = recorded(ax.lines, Diagonal)
    if found:
        return found[0][0]
    drawn = ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="Perfect")[0]
    record(drawn, Diagonal())
    return drawn


def bars(ax: Axes, curve: ReliabilityCurve, look: Look) -> tuple[BarContainer, BarContainer]:
    """Bars of the accuracy, and of the gap between it and the mean confidence."""
    place: dict[str, Any] = {"x": curve.lower, "width": curve.upper - curve.lower, "align": "edge"}
    label = AXIS_NAMES[look.kind][1]
    accuracy = ax.bar(
        height=curve.accuracy, color=BLUE, edgecolor="white", linewidth=0.5, label=label, **place
    )
    record(accuracy[0], look)
    label = f"Gap (ECE = {ece_of(curve):.3f})"
    gaps = ax.bar(
        height=curve.gap, bottom=curve.accuracy, linewidth=0.5, label=label, **_GAPS, **place
    )
    return accuracy, gaps


def line(ax: Axes, x: Floats, y: Floats, look: Look, label: str) -> Line2D:
    """Dots of the bins, or a curve."""
    drawn = ax.plot(x, y, label=label, **look.line)[0]
    record(drawn, look)
    return drawn


def intervals(ax: Axes, curve: ReliabilityCurve, look: Look, level: float) -> ErrorbarContainer:
    """Error bars of the accuracy of each bin."""
    low, high = curve.interval(level)
    errors = np.maximum([curve.accuracy - low, high - curve.accuracy], 0)
    x, colour = curve.confidence, look.colour
    if look.style == "bars":
        x, colour = (curve.lower + curve.upper) / 2, "black"
    label = _once(ax, f"{100 * level:g} % interval")
    return ax.errorbar(
        x, curve.accuracy, errors, fmt="none", ecolor=colour, elinewidth=0.8, label=label
    )


def band(
    ax: Axes, rows: Scored, look: Look, level: float, n_resamples: int, random_state: Any
) -> FillBetweenPolyCollection:
    """The band in which the curve of a calibrated model would lie."""
    area = consistency_band(rows, level, n_resamples, random_state)
    label = _once(ax, f"{100 * level:g} % band if calibrated")
    return ax.fill_between(*area, color=look.colour, alpha=0.2, linewidth=0, label=label)


def counts(ax: Axes, curve: ReliabilityCurve, look: Look) -> BarContainer | StepPatch:
    """The histogram of rows: bars, or an outline in the colour of the model."""
    most = max(float(curve.n_samples.max()), ax.get_ylim()[1])
    ax.set_xscale("linear")
    ax.set(ylim=(0, most), ylabel="Rows")
    ax.set_yticks([most], [f"{most:,.0f}"])
    ax.spines[["top", "right"]].set_visible(False)
    if look.style == "bars":
        width = curve.upper - curve.lower
        return ax.bar(curve.lower, curve.n_samples, width, align="edge", color=GREY)
    return ax.stairs(*_outline(curve), color=look.colour, linestyle=look.dashes)


def _outline(curve: ReliabilityCurve) -> tuple[Floats, Floats]:
    """Numbers of rows and edges of the bins, and of the empty ones between them."""
    edges = np.union1d(curve.lower, curve.upper)
    counts = np.zeros(len(edges) - 1)
    counts[np.searchsorted(edges, curve.lower)] = curve.n_samples
    return counts, edges


def _once(ax: Axes, label: str) -> str | None:
    """The label, or None if it is in the legend already."""
    return None if label in ax.get_legend_handles_labels()[1] else label

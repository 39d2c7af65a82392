"""The parts of a reliability diagram, each drawn on axes: bars, dots, curve, intervals, rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._scores.columns import Scored
from skcalib._typing import Floats
from skcalib.metrics import ReliabilityCurve

from ._axes import BLUE, GREY, VERMILION, as_written, ece_of
from ._band import consistency_band, isotonic_curve
from ._look import AXIS_NAMES, Diagonal, Look, record, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch


def draw_diagonal(ax: Axes) -> Line2D:
    """The line of perfect calibration, drawn once for all models on the axes."""
    found = recorded(ax.lines, Diagonal)
    if found:
        return found[0][0]
    line = ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="Perfect")[0]
    record(line, Diagonal())
    return line


def draw_bars(
    ax: Axes, curve: ReliabilityCurve, look: Look, name: str | None
) -> tuple[BarContainer, BarContainer]:
    """Bars of the accuracy, and of the gap between it and the mean confidence."""
    width = curve.upper - curve.lower
    bars = ax.bar(
        curve.lower,
        curve.accuracy,
        width,
        align="edge",
        color=BLUE,
        edgecolor="white",
        linewidth=0.5,
        label=AXIS_NAMES[look.kind][1],
    )
    record(bars[0], look)
    gaps = ax.bar(
        curve.lower,
        curve.gap,
        width,
        curve.accuracy,
        align="edge",
        facecolor=f"{VERMILION}40",  # a quarter opaque
        edgecolor=VERMILION,
        linewidth=0.5,
        hatch="////",
        label=f"Gap (ECE = {ece_of(curve):.3f})",
    )
    if name is not None:
        as_written(ax.set_title(name))
    return bars, gaps


def draw_dots(ax: Axes, curve: ReliabilityCurve, look: Look, name: str | None) -> Line2D:
    """The accuracy of each bin at its mean confidence."""
    line = ax.plot(
        curve.confidence,
        curve.accuracy,
        color=look.colour,
        marker=look.marker,
        markersize=4.5,
        clip_on=look.scale == "logit",
        linewidth=0.8,
        label=f"{look.label(name)} (ECE = {ece_of(curve):.3f})",
    )[0]
    record(line, look)
    return line


def draw_curve(ax: Axes, rows: Scored, look: Look, name: str | None) -> Line2D:
    """The isotonic regression of the events on the scores."""
    line = ax.plot(
        *isotonic_curve(rows),
        color=look.colour,
        linestyle=look.dashes,
        linewidth=1.5,
        clip_on=look.scale == "logit",
        label=look.label(name),
    )[0]
    record(line, look)
    return line


def draw_intervals(
    ax: Axes, curve: ReliabilityCurve, look: Look, confidence_level: float
) -> ErrorbarContainer:
    """Error bars of the accuracy of each bin."""
    of_bars = look.style == "bars"
    low, high = curve.interval(confidence_level)
    return ax.errorbar(
        (curve.lower + curve.upper) / 2 if of_bars else curve.confidence,
        curve.accuracy,
        yerr=np.maximum([curve.accuracy - low, high - curve.accuracy], 0),
        fmt="none",
        ecolor="black" if of_bars else look.colour,
        elinewidth=0.8,
        label=_once(ax, f"{100 * confidence_level:g} % interval"),
    )


def draw_band(
    ax: Axes,
    rows: Scored,
    look: Look,
    confidence_level: float,
    n_resamples: int,
    random_state: Any,
) -> FillBetweenPolyCollection:
    """The band in which the curve of a calibrated model would lie."""
    return ax.fill_between(
        *consistency_band(rows, confidence_level, n_resamples, random_state),
        color=look.colour,
        alpha=0.2,
        linewidth=0,
        label=_once(ax, f"{100 * confidence_level:g} % band if calibrated"),
    )


def draw_counts(ax: Axes, curve: ReliabilityCurve, look: Look) -> BarContainer | StepPatch:
    """The histogram of rows: bars, or an outline in the colour of the model."""
    most = max(float(curve.n_samples.max()), ax.get_ylim()[1])
    ax.set_xscale("linear")
    counts: BarContainer | StepPatch
    if look.style == "bars":
        width = curve.upper - curve.lower
        counts = ax.bar(curve.lower, curve.n_samples, width, align="edge", color=GREY)
    else:
        counts = ax.stairs(*_outline(curve), color=look.colour, linestyle=look.dashes)
    ax.set_ylim(0, most)
    ax.set_yticks([most], [f"{most:,.0f}"])
    ax.set_ylabel("Rows")
    ax.spines[["top", "right"]].set_visible(False)
    return counts


def _outline(curve: ReliabilityCurve) -> tuple[Floats, Floats]:
    """Numbers of rows and edges of the bins, and of the empty ones between them."""
    edges = np.union1d(curve.lower, curve.upper)
    counts = np.zeros(len(edges) - 1)
    counts[np.searchsorted(edges, curve.lower)] = curve.n_samples
    return counts, edges


def _once(ax: Axes, label: str) -> str | None:
    """The label, or None if it is in the legend already."""
    return None if label in ax.get_legend_handles_labels()[1] else label

"""Layout of a reliability diagram: the diagram with its legend, above it the histogram of rows.

All of them lie inside of the axes: what lies outside would be beyond their user's layout. Where
the diagram and the histogram lie depends neither on the legend nor on what is drawn in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit, logit

from skcalib._output.text import SMALLEST
from skcalib._output.theme import Theme

from ._axes import SMALL, size_of
from ._legend import draw_legend
from ._panels import HISTOGRAM, TICK, Panel, panel_of
from ._ticks import even_ticks, logit_ticks, set_ticks, thinned

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

# Points at 0 and 1 are clipped far outside of logit axes, so that lines to them are drawn.
_SCALES: dict[str, dict[str, Any]] = {"linear": {}, "logit": {"nonpositive": "clip"}}


class HistogramLocator:
    """Locator of the histogram of rows: a part of the axes of the diagram, which may change."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax
        self.whole = 1.0  # height of the axes, in heights of the diagram

    def __call__(self, histogram: Any, renderer: Any) -> Bbox:  # noqa: ARG002
        from matplotlib.transforms import Bbox, TransformedBbox

        bottom, top = np.array(HISTOGRAM) / self.whole
        box = Bbox.from_extents(0, bottom, 1, top)
        return TransformedBbox(box, self.ax.transAxes - self.ax.figure.transSubfigure)  # type: ignore[return-value]


def histogram_of(ax: Axes) -> Axes | None:
    """Axes of the histogram of rows above a diagram."""
    found = [x for x in ax.child_axes if isinstance(x.get_axes_locator(), HistogramLocator)]
    return found[0] if found else None  # type: ignore[return-value]


def histogram_on(ax: Axes) -> Axes:
    """Axes of the histogram of rows above a diagram, made if there are none.

    In a panel of a grid they are those of the diagram.
    """
    if panel_of(ax) is not None:
        return ax
    histogram = histogram_of(ax)
    if histogram is None:
        histogram = ax.inset_axes((0, 0, 1, 1))
        histogram.set_axes_locator(HistogramLocator(ax))
    return histogram


def arrange(
    ax: Axes, scale: str, limits: tuple[float, float], theme: Theme, *, legend: bool
) -> None:
    """Set scale, limits and ticks, and place the histogram and the legend."""
    panel, histogram = panel_of(ax), histogram_of(ax)
    top = 1.0 if histogram is None else HISTOGRAM[1]
    if panel is not None:
        top = panel.top
    for axes in (ax, *([] if histogram is None else [histogram])):
        axes.set_autoscale_on(False)  # it would follow frequencies of 0 to minus infinity
        set_scale(axes, scale, "x")
        axes.set_xlim(limits)
    set_scale(ax, scale, "y")
    ax.set_ylim(limits[0], _above(limits, top, scale))
    ax.set_aspect("equal")
    side = side_of(ax, top)
    if panel is None:
        _shrink(ax, side)
        _set_ticks(ax, scale, limits, side)
        ax.yaxis.label.set_y(0.5 / top)  # in the middle of the diagram
    else:
        _set_ticks_of_panel(ax, panel, scale, limits, side)
    _frame(ax, limits)
    if scale == "logit" or limits != (0, 1):
        _clip(ax, 1 / top)
    if histogram is not None:
        locator: Any = histogram.get_axes_locator()
        locator.whole = top
        histogram.set_xticks([])
        histogram.minorticks_off()
    if legend:
        draw_legend(ax, theme, side, top)


def _frame(ax: Axes, limits: tuple[float, float]) -> None:
    """Draw the borders of the diagram, not those of the axes."""
    ax.spines[["left", "right"]].set_bounds(*limits)
    none: Any = None  # an axis would make its ticks again
    ax.spines["top"].register_axis(none)
    ax.spines["top"].set_position(("data", limits[1]))


def set_scale(ax: Axes, scale: str, which: Literal["x", "y"]) -> None:
    """Set the scale of an axis, which takes long, if it is another one."""
    if getattr(ax, f"get_{which}scale")() != scale:
        getattr(ax, f"set_{which}scale")(scale, **_SCALES[scale])


def side_of(ax: Axes, top: float) -> float:
    """Side of the diagram, which is a square, in inches."""
    width, height = size_of(ax)
    return min(width, height / top)


def _above(limits: tuple[float, float], height: float, scale: str) -> float:
    """The number that lies a height above the lower limit, in heights of the diagram."""
    low, high = limits
    if scale == "linear":
        return low + height * (high - low)
    return float(expit(logit(low) + height * (logit(high) - logit(low))))


def _clip(ax: Axes, height: float) -> None:
    """Keep points at infinity of logit axes out of the histogram and the legend."""
    from matplotlib.patches import Rectangle

    artists: list[Artist] = [*ax.lines, *ax.collections]
    for artist in artists:
        artist.set_clip_on(True)
        artist.set_clip_path(Rectangle((0, 0), 1, height, transform=ax.transAxes))


def _shrink(ax: Axes, side: float) -> None:
    """Make labels of axes smaller that have little room."""
    if side > SMALL:
        return
    for axis in (ax.xaxis, ax.yaxis):
        size = axis.get_major_ticks(1)[0].label1.get_fontsize()
        axis.set_tick_params(labelsize=min(size, max(4 * side, SMALLEST)), pad=2)
        axis.label.set_fontsize(min(axis.label.get_fontsize(), max(4.3 * side, SMALLEST)))
        axis.labelpad = 1


def _set_ticks(ax: Axes, scale: str, limits: tuple[float, float], side: float) -> None:
    ax.minorticks_off()
    if scale == "linear":
        most = 6 if side > 1.5 else 3
        even = np.linspace(0, 1, most) if limits == (0, 1) else even_ticks(*limits, most)
        ax.set(xticks=even, yticks=even)
        return
    ticks = logit_ticks(*limits)
    set_ticks(ax.yaxis, ticks)
    low, high = logit(limits)
    size = ax.xaxis.get_major_ticks(1)[0].label1.get_fontsize()
    set_ticks(ax.xaxis, thinned(ticks, 72 * side * (logit(ticks) - low) / (high - low) / size))


def _set_ticks_of_panel(
    ax: Axes, panel: Panel, scale: str, limits: tuple[float, float], side: float
) -> None:
    """Ticks of a panel of a grid; where there are many panels, without labels there are none."""
    ax.minorticks_off()
    if panel.is_one_of_many:
        for axis, labelled in zip((ax.xaxis, ax.yaxis), panel.labels, strict=True):
            axis.set_visible(labelled)
        if not any(panel.labels):
            return
    size = min(max(4 * side, SMALLEST), 9)
    low, high = logit(limits) if scale == "logit" else limits
    ticks = (
        logit_ticks(*limits) if scale == "logit" else even_ticks(*limits, 6 if side > 1.8 else 3)
    )
    places = ((logit(ticks) if scale == "logit" else ticks) - low) / (high - low)
    ticks = thinned(ticks, 72 * side * places / size)
    sides = (ax.xaxis, "bottom"), (ax.yaxis, "left")
    for (axis, where), labelled in zip(sides, panel.labels, strict=True):
        if not axis.get_visible():
            continue
        look: Any = {"labelsize": size, "length": TICK[0], "pad": TICK[1]}
        axis.set_tick_params(**(look | {f"label{where}": labelled}))
        set_ticks(axis, ticks)

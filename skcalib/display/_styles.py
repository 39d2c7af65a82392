"""The artists of a reliability diagram. Each function draws one kind of them on axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output.theme import BLUE, GREEN, VERMILION, Colour, Theme, faded
from skcalib._rows.arrays import Floats
from skcalib.metrics import ReliabilityCurve

from ._axes import size_of
from ._legend import area_key, whisker_key
from ._look import Diagonal, Look, record, recorded
from ._panels import HISTOGRAM, Panel, panel_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import (
        FillBetweenPolyCollection,
        LineCollection,
        PathCollection,
        PolyCollection,
    )
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch
    from matplotlib.transforms import Transform

# Colour and hatch of gaps of bins whose confidence is below and above the accuracy.
_GAPS = {"Over-confident": (VERMILION, "////"), "Under-confident": (GREEN, "\\\\\\\\")}

# Opacity of the area of a gap, of which the hatch has all: on light and on dark backgrounds.
_TINT, _DARK_TINT = 0.3, 0.45

# The same without a hatch.
_PLAIN_TINT = 0.6

# Diameter of a dot, in points: in large diagrams, and for each inch of the width of small ones.
_DOT, _OF_AN_INCH = 5.0, 3.0


def diagonal(ax: Axes, theme: Theme) -> Line2D:
    """The line of perfect calibration, drawn once for all models on the axes."""
    found = recorded(ax.lines, Diagonal)
    if found:
        return found[0][0]
    look: dict[str, Any] = {"color": theme.muted, "linestyle": (0, (4, 3)), "linewidth": 1}
    drawn = ax.plot([0, 1], [0, 1], label="Perfect", **look)[0]
    record(drawn, Diagonal())
    return drawn


def bars(ax: Axes, curve: ReliabilityCurve, look: Look, label: str) -> tuple[Any, Any]:
    """Bars of the accuracy, and of the gap between it and the mean confidence.

    Each are a BarContainer, or in a panel of a grid of many a PolyCollection.
    """
    theme, n = look.theme, curve.n_samples
    panel = panel_of(ax)
    # In panels of a grid of many, hatches would be too fine to be seen, and slow.
    is_plain = panel is not None and panel.is_one_of_many
    tint = _PLAIN_TINT if is_plain else _DARK_TINT if theme.is_dark else _TINT
    draw: Callable[..., Any] = _plain_boxes if is_plain else _boxes
    accuracy = draw(
        ax, curve, 0 * n, curve.accuracy, theme.tints(BLUE, n), len(n) * [theme.background]
    )
    record(accuracy if is_plain else accuracy[0], look)
    record(area_key(ax, label, facecolor=BLUE), look)
    names = np.where(curve.gap > 0, *_GAPS)
    kinds = [_GAPS[name] for name in names]
    faces = [theme.tints(c, [k], tint)[0] for (c, _), k in zip(kinds, n, strict=True)]
    edges = [theme.tints(c, [k])[0] for (c, _), k in zip(kinds, n, strict=True)]
    hatches = [hatch for _, hatch in kinds]
    gaps = draw(ax, curve, curve.accuracy, curve.gap, faces, edges, hatches)
    for name, (colour, hatch) in _GAPS.items():
        if np.any(curve.gap[names == name]):
            hatched = {} if is_plain else {"hatch": hatch}
            area_key(ax, name, theme.mixed(colour, tint), edgecolor=colour, **hatched)
    return accuracy, gaps


def _boxes(
    ax: Axes,
    curve: ReliabilityCurve,
    bottom: Floats,
    height: Floats,
    colours: list[Colour],
    edges: list[Colour],
    hatches: list[str] | None = None,
) -> BarContainer:
    """Bars of the bins. ``Axes.bar`` would find the limits of axes for each, which are known."""
    from matplotlib.container import BarContainer
    from matplotlib.patches import Rectangle

    drawn = [
        Rectangle(*place, facecolor=colour, edgecolor=edge, hatch=hatch, linewidth=0.5)
        for *place, colour, edge, hatch in zip(
            np.column_stack([curve.lower, bottom]).tolist(),
            (curve.upper - curve.lower).tolist(),
            height.tolist(),
            colours,
            edges,
            hatches or len(edges) * [None],
            strict=True,
        )
    ]
    for bar in drawn:
        ax.add_artist(bar)
        bar.set_clip_box(ax.bbox)  # one for all, instead of one for each
    container = BarContainer(drawn, None, datavalues=height, orientation="vertical")
    ax.add_container(container)
    return container


def _plain_boxes(
    ax: Axes,
    curve: ReliabilityCurve,
    bottom: Floats,
    height: Floats,
    colours: list[Colour],
    edges: list[Colour],
    hatches: list[str] | None = None,  # noqa: ARG001
) -> PolyCollection:
    """Bars of the bins as one artist, without hatches."""
    from matplotlib.collections import PolyCollection

    left, right, top = curve.lower, curve.upper, bottom + height
    corners = [[left, bottom], [left, top], [right, top], [right, bottom]]
    drawn = PolyCollection(
        np.moveaxis(np.array(corners), 2, 0),  # type: ignore[arg-type]
        facecolors=colours,
        edgecolors=edges,
        linewidths=0.5,
        zorder=1,
    )
    ax.add_collection(drawn, autolim=False)
    return drawn


def line(ax: Axes, x: Floats, y: Floats, look: Look, label: str) -> Line2D:
    """A curve."""
    drawn = ax.plot(
        x,
        y,
        label=label,
        color=look.colour,
        linestyle=look.dashes,
        linewidth=1.6,
        clip_on=look.scale == "logit",
    )[0]
    record(drawn, look)
    return drawn


def dots(
    ax: Axes, curve: ReliabilityCurve, look: Look, label: str
) -> tuple[Line2D, LineCollection, PathCollection]:
    """The data and the legend entry of dots, the lines between them, and the dots."""
    from matplotlib.collections import LineCollection

    x, y, n = curve.confidence, curve.accuracy, curve.n_samples
    place: dict[str, Any] = {"transform": _shifted(ax, look), "clip_on": look.scale == "logit"}
    marks: dict[str, Any] = {"marker": look.marker, "markersize": _DOT, "markevery": []}
    data = ax.plot(x, y, color=look.colour, linestyle="", label=label, **marks, **place)[0]
    record(data, look)
    points = np.column_stack([x, y])
    joins = LineCollection(
        np.stack([points[:-1], points[1:]], axis=1),  # type: ignore[arg-type]
        colors=faded(look.colour, np.minimum(n[:-1], n[1:])),
        linewidths=0.9,
        **place,
    )
    ax.add_collection(joins, autolim=False)
    size = min(_DOT, max(_OF_AN_INCH * size_of(ax)[0], 1.5))
    marks = {"marker": look.marker, "s": size**2, "linewidths": 0, "zorder": 2.2}
    drawn = ax.scatter(x, y, color=faded(look.colour, n), **marks, **place)
    return data, joins, drawn


def intervals(ax: Axes, curve: ReliabilityCurve, look: Look, level: float) -> ErrorbarContainer:
    """Error bars of the accuracy of each bin."""
    from matplotlib.collections import LineCollection
    from matplotlib.container import ErrorbarContainer

    ends = curve.interval(level)
    of_bars = look.style == "bars"
    x = (curve.lower + curve.upper) / 2 if of_bars else curve.confidence
    colour = look.theme.foreground if of_bars else look.colour
    whisker_key(ax, f"{100 * level:g} % interval", look.theme.foreground)
    drawn = LineCollection(
        np.stack([np.column_stack([x, end]) for end in ends], axis=1),  # type: ignore[arg-type]
        colors=faded(colour, curve.n_samples),
        linewidths=1,
        zorder=2,
        transform=_shifted(ax, look),
    )
    ax.add_collection(drawn, autolim=False)
    container = ErrorbarContainer((None, (), (drawn,)), has_yerr=True)  # type: ignore[arg-type]
    ax.add_container(container)
    return container


def band(
    ax: Axes, area: tuple[Floats, Floats, Floats], look: Look, level: float
) -> FillBetweenPolyCollection:
    """The band in which the curve of a calibrated model would lie."""
    theme = look.theme
    area_key(ax, f"{100 * level:g} % band if calibrated", theme.mixed(theme.foreground, 0.2))
    # Opaque, so that bands of several models do not add up, with edges where they overlap.
    tints: dict[str, Any] = {
        "facecolor": theme.mixed(look.colour, 0.2),
        "edgecolor": theme.mixed(look.colour, 0.5),
    }
    # The narrower ones stand above the wider ones, which would hide them.
    width = float(np.nansum(area[2] - area[1])) / max(len(area[0]), 1)
    place = 0.5 - 0.1 * width - 1e-6 * look.number
    return ax.fill_between(*area, zorder=place, linewidth=0.6, **tints)


def counts(ax: Axes, curve: ReliabilityCurve, look: Look) -> BarContainer | StepPatch:
    """The histogram of rows: bars, or an outline in the colour of the model."""
    panel = panel_of(ax)
    if panel is not None:
        return _counts_in(ax, panel, curve, look)
    most = max(float(curve.n_samples.max()), ax.get_ylim()[1])
    ax.set_xscale("linear")
    ax.set_ylim(0, most)
    ax.set_ylabel("Rows", fontsize=8)
    ax.set_yticks([most], [_short(most)], fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    if look.style == "bars":
        width, colour = curve.upper - curve.lower, look.theme.muted
        return ax.bar(curve.lower, curve.n_samples, width, align="edge", color=colour)
    return ax.stairs(*_outline(curve), color=look.colour, linestyle=look.dashes)


def _counts_in(ax: Axes, panel: Panel, curve: ReliabilityCurve, look: Look) -> StepPatch:
    """The histogram of rows above the diagram in the same axes, which are a panel of a grid."""
    from matplotlib.patches import StepPatch

    bottom, top = np.array(HISTOGRAM) / panel.top
    counts, edges = _outline(curve)
    of_bars = look.style == "bars"
    drawn = StepPatch(
        bottom + (top - bottom) * counts / panel.most,
        edges,
        baseline=bottom,
        fill=of_bars,
        color=look.theme.muted if of_bars else look.colour,
        linestyle="-" if of_bars else look.dashes,
        linewidth=0 if of_bars else 1,
        transform=ax.get_xaxis_transform(),
    )
    ax.add_artist(drawn)
    return drawn


def _shifted(ax: Axes, look: Look) -> Transform:
    """Places of data, shifted so that models do not hide each other."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(look.shift / 72, 0, ax.figure.dpi_scale_trans)
    return ax.transData + shift


def _outline(curve: ReliabilityCurve) -> tuple[Floats, Floats]:
    """Numbers of rows and edges of the bins, and of the empty ones between them."""
    edges = np.union1d(curve.lower, curve.upper)
    counts = np.zeros(len(edges) - 1)
    counts[np.searchsorted(edges, curve.lower)] = curve.n_samples
    return counts, edges


def _short(number: float) -> str:
    """A number of rows in at most five letters, so that the diagram beside it keeps its place."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / min(size, 1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{number:,.0f}"

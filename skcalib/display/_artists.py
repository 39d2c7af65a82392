"""The artists of a reliability diagram. Each function draws one kind of them on axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output import briefly
from skcalib._output.theme import BLUE, GREEN, VERMILION, Theme, faded
from skcalib._rows import Floats
from skcalib._scores.kernel import SmoothCurve
from skcalib.metrics import ReliabilityCurve

from . import _curves
from ._layout import BOTTOM, TOP, draw_title, size_of
from ._style import DIAGONAL, KEY, Look, area_key, record, recorded, whisker_key

if TYPE_CHECKING:
    from matplotlib import collections, lines, patches
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer, ErrorbarContainer

# Colour and hatch of gaps of bins whose score is above and below the frequency, and their names.
_GAPS = {True: (VERMILION, "////"), False: (GREEN, "\\\\\\\\")}
_GAP_NAMES = {
    "top-label": {True: "Over-confident", False: "Under-confident"},
    "binary": {True: "Over-estimated", False: "Under-estimated"},
}

# Opacity of the area of a gap, of which the hatch has all: on light and on dark backgrounds.
_TINT, _DARK_TINT = 0.3, 0.45

# Diameter of a dot, in points: in large diagrams, and for each inch of the width of small ones.
_DOT, _OF_AN_INCH = 5.0, 3.0

# Thickness of a smooth curve where the density is largest, in points: in large axes, and for each
# inch of the width of small ones; and the least thickness.
THICKEST, THICK_OF_AN_INCH, THINNEST = 6.0, 1.6, 1.2

# Markers on smooth curves are that far apart, as a part of the axis.
_APART = 0.12

# Attributes of a display that hold the artists of its model.
_ARTISTS = (
    "bars_", "gaps_", "intervals_", "line_", "dots_", "joins_", "strokes_", "band_"
)  # fmt: skip


def draw_model(
    display: Any, look: Look, name: str | None, level: float | None, resampling: tuple[Any, ...]
) -> dict[str, Any]:
    """The artists of the model of a display, by the attribute that is to hold each, or None."""
    ax, curve, rows = display.ax_, _curves.shown_bins(display), display.rows
    found: dict[str, Any] = dict.fromkeys(_ARTISTS)
    ece = f"ECE {briefly(_curves.ece_of(curve))}"
    smooth: Any = None
    drawn: tuple[Any, ...]
    if look.style == "bars":
        found["bars_"], found["gaps_"] = bars(ax, curve, look, look.label(None, ece))
        if name is not None:
            draw_title(ax, name)
    elif look.style == "dots":
        drawn = dots(ax, curve, look, look.label(name, ece))
        found["line_"], found["joins_"], found["dots_"] = drawn
    elif look.style == "corp":
        label = look.label(name, f"calibration loss {briefly(_curves.miscalibration_of(rows))}")
        found["line_"] = line(ax, *_curves.isotonic_curve(rows), look, label)
    else:
        smooth = _curves.drawn_curve(rows)
        drawn = strokes(ax, smooth, look, look.label(name, f"smECE {briefly(smooth.error)}"))
        found["line_"], found["strokes_"], found["dots_"] = drawn
    if level is not None and look.style in ("bars", "dots"):
        found["intervals_"] = intervals(ax, curve, look, level)
    elif level is not None:
        kind, *how = resampling
        what = {"consistency": "band if calibrated", "confidence": "confidence band"}[kind]
        ends = _curves.BANDS[kind](rows, smooth, level, *how)
        found["band_"] = band(ax, ends, look, level, what)
    return found


def diagonal(ax: Axes, theme: Theme) -> lines.Line2D:
    """The line of perfect calibration, drawn once for all models on the axes."""
    for found in recorded(ax.lines, DIAGONAL):
        return found
    look: dict[str, Any] = {"color": theme.muted, "linestyle": (0, (4, 3)), "linewidth": 1}
    drawn = ax.plot([0, 1], [0, 1], label="Perfect", **look)[0]
    record(drawn, DIAGONAL)
    return drawn


def bars(
    ax: Axes, curve: ReliabilityCurve, look: Look, label: str
) -> tuple[BarContainer, BarContainer]:
    """Bars of the accuracy, and of the gap between it and the mean confidence."""
    theme, n = look.theme, curve.n_samples
    drawn = _rectangles(ax, curve, np.zeros(len(n)), curve.accuracy)
    for bar, face in zip(drawn, theme.tints(BLUE, n), strict=True):
        bar.set(facecolor=face, edgecolor=theme.background)
    record(drawn[0], look)
    record(area_key(ax, label, facecolor=BLUE), look)
    tint = _DARK_TINT if theme.is_dark else _TINT
    gaps = _rectangles(ax, curve, curve.accuracy, curve.gap)
    for bar, is_over, k in zip(gaps, curve.gap > 0, n, strict=True):
        colour, hatch = _GAPS[bool(is_over)]
        (face,), (edge,) = theme.tints(colour, [k], tint), theme.tints(colour, [k])
        bar.set(facecolor=face, edgecolor=edge, hatch=hatch)
    for is_over, (colour, hatch) in _GAPS.items():
        if np.any(curve.gap > 0 if is_over else curve.gap < 0):
            name = _GAP_NAMES[look.kind][is_over]
            area_key(ax, name, theme.mixed(colour, tint), edgecolor=colour, hatch=hatch)
    return drawn, gaps


def _rectangles(ax: Axes, curve: ReliabilityCurve, bottom: Floats, height: Floats) -> BarContainer:
    """A rectangle for each bin, as of ``ax.bar``, which takes long to find their limits."""
    from matplotlib.container import BarContainer
    from matplotlib.patches import Rectangle

    places = zip(curve.lower, bottom, curve.upper - curve.lower, height, strict=True)
    found = [Rectangle((x, y), *size, linewidth=0.5, in_layout=False) for x, y, *size in places]
    for rectangle in found:
        ax.add_artist(rectangle)
    container = BarContainer(found, datavalues=height, orientation="vertical")
    ax.add_container(container)
    return container


def line(ax: Axes, x: Floats, y: Floats, look: Look, label: str) -> lines.Line2D:
    """A curve."""
    drawn = ax.plot(
        x, y, label=label, color=look.colour, linestyle=look.dashes, linewidth=1.6,
        clip_on=look.scale == "logit",
    )[0]  # fmt: skip
    record(drawn, look)
    return drawn


def dots(
    ax: Axes, curve: ReliabilityCurve, look: Look, label: str
) -> tuple[lines.Line2D, collections.LineCollection, collections.PathCollection]:
    """The data and the legend entry of dots, the lines between them, and the dots."""
    x, y, n = curve.confidence, curve.accuracy, curve.n_samples
    place: dict[str, Any] = {"transform": _shifted(ax, look), "clip_on": look.scale == "logit"}
    marks: dict[str, Any] = {"marker": look.marker, "markersize": _DOT, "markevery": []}
    data = ax.plot(x, y, color=look.colour, linestyle="", label=label, **marks, **place)[0]
    record(data, look)
    colours = faded(look.colour, np.minimum(n[:-1], n[1:]))
    joins = _segments(ax, x, y, colors=colours, linewidths=0.9, **place)
    size = min(_DOT, max(_OF_AN_INCH * size_of(ax)[0], 1.5))
    marks = {"marker": look.marker, "s": size**2, "linewidths": 0, "zorder": 2.2}
    drawn = ax.scatter(x, y, color=faded(look.colour, n), **marks, **place)
    return data, joins, drawn


def strokes(
    ax: Axes, curve: SmoothCurve, look: Look, label: str
) -> tuple[lines.Line2D, collections.LineCollection, collections.PathCollection | None]:
    """The data and the legend entry of a smooth curve, its strokes, and markers on it."""
    from matplotlib.patches import Rectangle

    x, y = curve.score, np.clip(curve.value, 0, 1)
    keyed: dict[str, Any] = {"linewidth": 2.5, "marker": look.marker if look.number else None}
    data = ax.plot(x, y, color=look.colour, label=label, markersize=_DOT, **keyed)[0]
    # An entry in the legend has no clip path, so the line is seen there only.
    data.set_clip_path(Rectangle((0, 0), 0, 0, transform=ax.transAxes))
    record(data, look)
    wide, rows = (
        (part[:-1] + part[1:]) / 2
        for part in (thickness(curve.density, size_of(ax)[0]), curve.n_rows)
    )
    drawn = np.isfinite(x[:-1] + x[1:])
    segments = _segments(
        ax, x, y, drawn, colors=look.theme.tints(look.colour, rows[drawn]),
        linewidths=wide[drawn], capstyle="round", zorder=2.1,
    )  # fmt: skip
    return data, segments, _markers(ax, curve, look) if look.number else None


def thickness(density: Floats, width: float) -> Floats:
    """Thickness in points, in proportion to the density of the rows, but never invisible."""
    thickest = max(min(THICKEST, THICK_OF_AN_INCH * width), 2.0)
    most = np.nanmax(density, initial=0.0)
    return np.maximum(thickest * density / most, THINNEST)


def _markers(ax: Axes, curve: SmoothCurve, look: Look) -> collections.PathCollection:
    """Markers at places that depend on the number of the model, so that they stand side by side."""
    places = np.arange(_APART * (look.number * 0.382 % 1), 1, _APART)
    finite = np.flatnonzero(np.isfinite(curve.score))
    if len(finite):
        finite = finite[np.abs(curve.score[finite] - places[:, None]).argmin(axis=1)]
    at = curve.at(np.unique(finite))
    colours = look.theme.tints(look.colour, at.n_rows)
    marks: dict[str, Any] = {"marker": look.marker, "zorder": 2.2, "linewidths": 0}
    return ax.scatter(at.score, np.clip(at.value, 0, 1), s=_DOT**2, c=colours, **marks)


def intervals(ax: Axes, curve: ReliabilityCurve, look: Look, level: float) -> ErrorbarContainer:
    """Error bars of the accuracy of each bin."""
    from matplotlib.container import ErrorbarContainer

    of_bars = look.style == "bars"
    colours: Any = faded(look.theme.foreground if of_bars else look.colour, curve.n_samples)
    x = (curve.lower + curve.upper) / 2 if of_bars else curve.confidence
    whisker_key(ax, f"{100 * level:g} % interval", look.theme.foreground)
    drawn = ax.vlines(
        x, *curve.interval(level), colors=colours, linewidths=1, zorder=2,
        transform=_shifted(ax, look),
    )  # fmt: skip
    container = ErrorbarContainer((None, (), (drawn,)), has_yerr=True)  # type: ignore[arg-type]
    ax.add_container(container)
    return container


def band(
    ax: Axes,
    area: tuple[Floats, Floats, Floats],
    look: Look,
    level: float,
    what: str,
) -> collections.FillBetweenPolyCollection:
    """A band of a curve."""
    theme = look.theme
    colour = theme.mixed(theme.foreground, 0.2)
    record(area_key(ax, f"{100 * level:g} % {what}", colour), KEY)
    # Opaque, so that bands of several models do not add up, with edges where they overlap.
    tints: dict[str, Any] = {
        "facecolor": theme.mixed(look.colour, 0.12),
        "edgecolor": theme.mixed(look.colour, 0.5),
    }
    # The narrower ones stand above the wider ones, which would hide them.
    width = float(np.nansum(area[2] - area[1])) / max(len(area[0]), 1)
    place = 0.5 - 0.1 * width - 1e-6 * look.number
    return ax.fill_between(*area, zorder=place, linewidth=0.6, **tints)


def counts(ax: Axes, curve: ReliabilityCurve, look: Look) -> BarContainer | patches.StepPatch:
    """The histogram of rows: bars, or an outline in the colour of the model."""
    from matplotlib.ticker import EngFormatter

    most = max(float(curve.n_samples.max()), ax.get_ylim()[1])
    size = min(8.0, ax.yaxis.get_major_ticks(1)[0].label1.get_fontsize())
    ax.set_ylabel("Rows", fontsize=size)
    ax.set_yticks([most])
    ax.yaxis.set_major_formatter("{x:,.0f}" if most < 1e4 else EngFormatter(places=1, sep=""))
    ax.tick_params(axis="y", labelsize=size)
    ax.spines[["top", "right"]].set_visible(False)
    if look.style == "bars":
        width, colour = curve.upper - curve.lower, look.theme.muted
        drawn: Any = ax.bar(curve.lower, curve.n_samples, width, align="edge", color=colour)
    else:
        drawn = ax.stairs(*_outline(curve), color=look.colour, linestyle=look.dashes)
    ax.set_ylim(0, most)
    return drawn


def counts_above(ax: Axes, curve: ReliabilityCurve, style: str, most: float) -> patches.StepPatch:
    """The histogram of rows above a panel of a grid, as high as the number of rows is of most.

    As a single artist, since a hundred of other axes would take long.
    """
    from matplotlib.patches import StepPatch

    values, edges = _outline(curve)
    theme, of_bars = Theme.of(ax), style == "bars"
    drawn = StepPatch(
        BOTTOM + (TOP - BOTTOM) * values / most, edges, baseline=BOTTOM, fill=of_bars,
        color=theme.muted if of_bars else theme.model(0), linewidth=0 if of_bars else 1,
        transform=ax.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip
    ax.add_artist(drawn)
    drawn.set_clip_on(False)
    return drawn


def _segments(
    ax: Axes, x: Floats, y: Floats, some: Any = ..., **params: Any
) -> collections.LineCollection:
    """Lines from each point to the next, or some of them."""
    from matplotlib.collections import LineCollection

    points = np.column_stack([x, y])
    lines = LineCollection(np.stack([points[:-1], points[1:]], axis=1)[some], **params)
    ax.add_collection(lines, autolim=False)
    return lines


def _shifted(ax: Axes, look: Look) -> Any:
    """Places of data, shifted so that models do not hide each other."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(look.shift / 72, 0, ax.figure.dpi_scale_trans)
    return ax.transData + shift


def _outline(curve: ReliabilityCurve) -> tuple[Floats, Floats]:
    """Numbers of rows and edges of the bins, and of the empty ones between them."""
    edges = np.union1d(curve.lower, curve.upper)
    found = np.zeros(len(edges) - 1)
    found[np.searchsorted(edges, curve.lower)] = curve.n_samples
    return found, edges

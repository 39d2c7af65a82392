"""Artists in a reliability diagram: one function per kind of artist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output.drawing import MARKERS, foreground, label_once
from skcalib._scores.kernel import SmoothCurve
from skcalib._typing import Floats
from skcalib.metrics import ReliabilityCurve

if TYPE_CHECKING:
    from matplotlib import collections, container, lines, patches
    from matplotlib.axes import Axes

# Bottom and top of the row histogram above a diagram, in units of the diagram's height.
BOTTOM, TOP = 1.04, 1.22

# Label that identifies the histogram's axes.
COUNTS = "skcalib counts"

# Largest and smallest thickness of a smooth curve in points.
THICKEST, THINNEST = 6.0, 1.2


def opacity(n_rows: Any) -> Floats:
    r"""Return the opacity :math:`n / (n + 10)` for a bin with n rows: a single row is faint."""
    n = np.asarray(n_rows, dtype=np.float64)
    return n / (n + 10)


def draw_bars(
    ax: Axes, curve: ReliabilityCurve, label: str, look: dict[str, Any]
) -> tuple[container.BarContainer, container.BarContainer]:
    """Draw bars for the accuracy, and hatched bars for the gap to the mean confidence.

    ``look`` are bar properties.
    """
    from matplotlib.colors import to_rgba_array

    fade = opacity(curve.n_samples)
    look = {"color": "C0", "edgecolor": ax.get_facecolor(), "linewidth": 0.5} | look
    faces = to_rgba_array(look.pop("color"), fade)
    width = curve.upper - curve.lower
    bars = ax.bar(curve.lower, curve.accuracy, width, align="edge", color=faces, **look)
    is_over = curve.gap > 0
    gaps = ax.bar(
        curve.lower, curve.gap, width, curve.accuracy, align="edge", color="none", linewidth=0.5,
        edgecolor=to_rgba_array(np.where(is_over, "C1", "C2").tolist(), fade),
        hatch=np.where(is_over, "////", "\\\\\\\\").tolist(),
    )  # fmt: skip
    names = ("Over-confident", "Under-confident")
    if curve.kind != "top-label":
        names = ("Over-estimated", "Under-estimated")
    # The most opaque bar in each colour represents it in the legend.
    bars[int(fade.argmax())].set_label(label)
    for name, chosen in zip(names, (is_over, curve.gap < 0), strict=True):
        if chosen.any():
            gaps[int(np.argmax(fade * chosen))].set_label(name)
    return bars, gaps


def draw_dots(
    ax: Axes, curve: ReliabilityCurve, label: str, number: int, look: dict[str, Any]
) -> tuple[lines.Line2D, collections.PathCollection]:
    """Draw a thin line through the bins, and one dot per bin, faint where rows are few.

    ``number`` selects the marker; ``look`` are line properties.
    """
    from matplotlib.colors import to_rgba_array

    marks: dict[str, Any] = {"marker": MARKERS[number % len(MARKERS)], "markevery": []}
    style = {"linewidth": 0.8, "markersize": 5} | marks | look
    (line,) = ax.plot(curve.confidence, curve.accuracy, label=label, **style)
    colours = to_rgba_array(line.get_color(), opacity(curve.n_samples))
    size = line.get_markersize() ** 2
    dots = ax.scatter(
        curve.confidence, curve.accuracy, s=size, c=colours, marker=line.get_marker(),
        linewidths=0, zorder=2.2,
    )  # fmt: skip
    return line, dots


def draw_strokes(ax: Axes, curve: SmoothCurve, line: lines.Line2D) -> collections.LineCollection:
    """Draw a smooth curve, thick where rows are dense and faint where rows are few."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    points = np.column_stack([curve.score, np.clip(curve.value, 0, 1)])
    segments = np.stack([points[:-1], points[1:]], axis=1)
    density, rows = ((part[:-1] + part[1:]) / 2 for part in (curve.density, curve.n_rows))
    drawn = np.isfinite(segments).all(axis=(1, 2))
    widths = THICKEST * density / np.nanmax(curve.density, initial=1e-300)
    strokes = LineCollection(
        list(segments[drawn]), linewidths=np.maximum(widths, THINNEST)[drawn], capstyle="round",
        colors=to_rgba_array(line.get_color(), opacity(rows[drawn])), zorder=2.1,
    )  # fmt: skip
    ax.add_collection(strokes, autolim=False)
    return strokes


def draw_intervals(
    ax: Axes, curve: ReliabilityCurve, level: float, colour: Any, *, in_middle: bool
) -> container.ErrorbarContainer:
    """Draw error bars for the accuracy in each bin, faint where rows are few."""
    from matplotlib.colors import to_rgba_array

    # The legend shows the first bar's colour, so draw the bin with most rows first.
    order = np.argsort(-curve.n_samples, kind="stable")
    colours: Any = to_rgba_array(colour, opacity(curve.n_samples[order]))
    x = (curve.lower + curve.upper) / 2 if in_middle else curve.confidence
    ends = np.array(curve.interval(level)) - curve.accuracy
    return ax.errorbar(
        x[order], curve.accuracy[order], yerr=np.maximum([[-1], [1]] * ends[:, order], 0),
        fmt="none", ecolor=colours, elinewidth=1, capsize=0,
        label=label_once(ax, f"{100 * level:g} % interval"),
    )  # fmt: skip


def draw_diagonal(ax: Axes) -> lines.Line2D:
    """Draw the diagonal, perfect calibration, once for all models on the axes."""
    for line in ax.lines:
        if line.get_gid() == "diagonal":
            return line
    (line,) = ax.plot(
        [0, 1], [0, 1], "--", color=foreground(ax, 0.6), linewidth=1, label="Perfect",
        gid="diagonal", zorder=1.9,
    )  # fmt: skip
    return line


def draw_counts(
    ax: Axes, counts: tuple[Floats, Floats], colour: Any, *, fill: bool
) -> tuple[Axes, patches.StepPatch]:
    """Draw row counts and edges above a diagram, as a filled area or as an outline."""
    inset: Any = next((child for child in ax.child_axes if child.get_label() == COUNTS), None)
    if inset is None:
        inset = ax.inset_axes((0, BOTTOM, 1, TOP - BOTTOM), sharex=ax, label=COUNTS)
        inset.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
        inset.spines[["top", "right"]].set_visible(False)
        inset.set_ylabel("Rows", fontsize="small")
        ax.set_axes_locator(BelowCounts(ax))
    most = max(float(counts[0].max()), inset.get_ylim()[1])
    drawn = inset.stairs(*counts, color=colour, fill=fill, alpha=0.5 if fill else 1)
    inset.set_ylim(0, most)
    inset.set_yticks([most], [f"{most:,.0f}"], fontsize="small")
    return inset, drawn


def legend_handles(axes: list[Axes]) -> list[Any]:
    """Return one legend handle per label, the diagonal last."""
    by_label: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            by_label.setdefault(label, handle)
    return sorted(by_label.values(), key=lambda handle: handle.get_label() == "Perfect")


class BelowCounts:
    """Locator that reserves the upper part of a diagram's space for the row histogram."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax
        self.before: Any = ax.get_axes_locator()

    def get_subplotspec(self) -> Any:
        """Return the axes' part of the grid, which tight layouts need."""
        return self.ax.get_subplotspec()

    def __call__(self, ax: Any, renderer: Any) -> Any:
        from matplotlib.transforms import Bbox

        box = self.before(ax, renderer) if self.before else ax.get_position(original=True)
        pixels = ax.figure.bbox
        side = min(box.width * pixels.width, box.height * pixels.height / TOP)
        height = box.height - (TOP - 1) * side / pixels.height
        return Bbox.from_bounds(box.x0, box.y0, box.width, height)

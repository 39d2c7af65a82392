"""What all displays share: figures, ticks, titles, legends, and room above axes.

A histogram or a legend above axes stands in the upper part of the place of these axes, because what
lies outside of it would cover neighbours or leave the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skcalib._output.theme import (
    LETTER,
    NBSP,
    SMALLEST,
    Theme,
    as_written,
    fitted,
    letters_in,
    shortened,
    wrapped,
)

from ._style import DIAGONAL, HISTOGRAM, KEY, ROOM, record, recorded

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.transforms import Bbox

# Bottom and top of the histogram of rows, in heights of the diagram.
BOTTOM, TOP = 1.04, 1.22

# Diagrams with sides of up to so many inches have smaller labels.
SMALL = 2.4

# Legends with more than so many entries for each inch of the side explain neither the line nor
# error bars nor bands, and diagrams with a side of less than ``LEAST`` inches have no legend.
ENTRIES, LEAST = 2.6, 1.1

# Of legends: spaces in font sizes, and the width of an entry beside its text.
SPACES: dict[str, Any] = {
    "handlelength": 1.6, "handletextpad": 0.6, "columnspacing": 1.2, "labelspacing": 0.3,
    "borderpad": 0.3, "borderaxespad": 0.5,
}  # fmt: skip
_BESIDE = 2.8

# The largest font size of a legend.
_LARGEST = 9.0

# The largest share of the place of axes that a legend above them takes.
_MOST = 0.6


def new_figure(size: tuple[float, float], layout: Any = "constrained") -> Figure:
    """A figure of pyplot, of a size in inches."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout=layout)


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in inches, before their aspect is applied."""
    box = ax.get_position(original=True).transformed(ax.figure.transSubfigure)
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def side_of(ax: Axes) -> float:
    """Side of the diagram on axes, which is a square, in inches."""
    width, height = size_of(ax)
    return min(width, height / (TOP if recorded(ax.child_axes, HISTOGRAM) else 1))


def draw_title(ax: Axes, name: str, width: float | None = None) -> None:
    """A title that is no wider than its axes, or than a width in inches."""
    text, size = fitted(name, width or size_of(ax)[0], float(ax.title.get_fontsize()), smallest=8)
    as_written(ax.set_title(text, fontsize=size))


class Below:
    """Locator of axes that leave the upper part of their place to a legend, or to a histogram."""

    def __init__(self, ax: Axes, legend: Legend | None = None, height: float = 0.0) -> None:
        before: Any = ax.get_axes_locator()
        self.before: Any = before.before if isinstance(before, Below) else before
        self.ax, self.legend = ax, legend
        self.height = height  #: of the legend in inches

    def get_subplotspec(self) -> Any:
        """The part of the grid that the axes have, which tight layouts ask for."""
        return self.ax.get_subplotspec()

    def __call__(self, ax: Any, renderer: Any) -> Bbox:
        from matplotlib.transforms import Bbox

        box = self.before(ax, renderer) if self.before else ax.get_position(original=True)
        if self.legend is not None and self._needs_none():
            return box
        whole = self.ax.figure.bbox
        width, height = box.width * whole.width, box.height * whole.height
        # Of the histogram, whose diagram is a square; else of the legend.
        taken = (TOP - 1) * min(width, height / TOP)
        if self.legend is not None:
            taken = min(self.height * self.ax.figure.dpi, _MOST * height)
        return Bbox.from_bounds(box.x0, box.y0, box.width, (height - taken) / whole.height)

    def _needs_none(self) -> bool:
        """Whether the legend is gone, or constrained layout makes room for it."""
        # While a figure is saved another engine stands in, which has the properties of the first.
        engine = self.ax.figure.get_layout_engine()
        constrained = engine is not None and not engine.adjust_compatible
        is_laid_out = constrained and self.ax.get_subplotspec() is not None
        return is_laid_out or self.ax.get_legend() is not self.legend


def histogram_on(ax: Axes) -> Axes:
    """Axes of the histogram of rows above a diagram, made if there are none."""
    for found in recorded(ax.child_axes, HISTOGRAM):
        return found
    histogram = ax.inset_axes((0, BOTTOM, 1, TOP - BOTTOM), sharex=ax)
    histogram.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    record(histogram, HISTOGRAM)
    ax.set_axes_locator(Below(ax))
    return histogram


def set_scale(ax: Axes, scale: str) -> None:
    """Set the scale of both axes, which takes long, if it is another one."""
    if ax.get_xscale() != scale:
        # Points at 0 and 1 are clipped far outside of logit axes, so that lines to them are drawn.
        clip: Any = {"nonpositive": "clip"} if scale == "logit" else {}
        ax.set_xscale(scale, **clip)
        ax.set_yscale(scale, **clip)


def arrange(ax: Axes, scale: str, limits: tuple[float, float], *, legend: bool) -> None:
    """Set scale, limits, ticks and legend of a reliability diagram, which is a square."""
    ax.set_autoscale_on(False)  # it would follow frequencies of 0 to minus infinity
    set_scale(ax, scale)
    ax.set(xlim=limits, ylim=limits)
    ax.set_box_aspect(1)
    ax.set_anchor("N")  # so that titles have the place that layouts give them
    side = side_of(ax)
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_visible():  # those of many panels are not, whose ticks would take long
            set_ticks(axis, side)
    if scale == "linear":
        ax.minorticks_off()
    if legend and side >= LEAST:
        legend_inside(ax, side)


def set_ticks(axis: Any, side: float) -> None:
    """Set ticks and labels of an axis of a reliability diagram with a side in inches."""
    from matplotlib.ticker import LogitLocator, MaxNLocator

    steps: Any = {"nbins": "auto", "steps": [1, 2, 5, 10]}
    is_linear = axis.get_scale() == "linear"
    axis.set_major_locator(MaxNLocator(**steps) if is_linear else LogitLocator())
    axis.set_major_formatter("{x:.7g}")
    if side < SMALL:
        shrink(axis, side)
    axis.set_minor_formatter("")


def shrink(axis: Any, side: float) -> None:
    """Make the labels of an axis smaller that has little room."""
    size = axis.get_major_ticks(1)[0].label1.get_fontsize()
    axis.set_tick_params(labelsize=min(size, max(4 * side, SMALLEST)), pad=2)
    axis.label.set_fontsize(min(axis.label.get_fontsize(), max(4.3 * side, SMALLEST)))
    axis.labelpad = 1


def entries(ax: Axes) -> list[tuple[Any, str]]:
    """Handles and labels of a legend, the line of perfect calibration last."""
    pairs = list(zip(*ax.get_legend_handles_labels(), strict=True))
    return sorted(pairs, key=lambda pair: bool(recorded([pair[0]], DIAGONAL)))


def legend_inside(ax: Axes, side: float) -> None:
    """Draw the legend inside of a reliability diagram of a side in inches."""
    pairs = entries(ax)
    if len(pairs) > ENTRIES * side:
        pairs = [pair for pair in pairs if not recorded(pair[:1], DIAGONAL, KEY)]
    size = min(max(2.9 * side, SMALLEST), _LARGEST)
    least = 15.1 * LETTER * SMALLEST / 72  # words of our own have up to 15 letters
    room = max(0.95 * side - _BESIDE * size / 72, least)
    size = min(fitted(label, room, size)[1] for _, label in pairs)
    if size == SMALLEST:  # some labels do not fit in one line
        room = max(0.75 * room, least)
    lines = [_in_lines(label, room, size) for _, label in pairs]
    draw_legend(ax, [x for x, _ in pairs], lines, size, None, loc="best", framealpha=0.85)


def _in_lines(label: str, width: float, size: float) -> str:
    """The label in lines of a width in inches, with the score at its end in one piece."""
    name, bracket, score = label.rpartition(" (")
    if len(score) < letters_in(width, size):
        score = score.replace(" ", NBSP)
    return wrapped(name + bracket + score, width, size)


def legend_above(ax: Axes, handles: Sequence[Artist], *, twin: Axes | None = None) -> Legend:
    """Draw a legend above axes, and above the twin that shares their place.

    It has as many columns as there is room for. Long labels are wrapped, or where these would take
    more than half of the height, cut in the middle.
    """
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    width, height = size_of(ax)
    labels = [str(handle.get_label()) for handle in handles]
    inside = width - _BESIDE * _LARGEST / 72
    size = min(fitted(label, inside, _LARGEST)[1] for label in labels)
    lines = [wrapped(label, inside, size) for label in labels]
    if sum(text.count("\n") + 1 for text in lines) * 1.5 * size / 72 > _MOST * height:
        size = SMALLEST
        lines = [shortened(label, inside, size) for label in labels]
    place: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, 1)}
    legend = draw_legend(ax, handles, lines, size, width, framealpha=1, **place)
    needed = legend.get_window_extent().height / ax.figure.dpi + SPACES["borderaxespad"] * size / 72
    below = Below(ax, legend, needed)
    ax.set_axes_locator(below)
    if twin is not None and twin.get_axes_locator() is None:  # others follow the axes already
        twin.set_axes_locator(below)
    for outdated in recorded(ax.child_axes, ROOM):  # of a legend with fewer models
        outdated.remove()
    # Matplotlib draws titles above child axes, so invisible ones are where the legend is.
    axes: Any = ax.transAxes
    above = ax.figure.dpi_scale_trans + ScaledTranslation(0, 1, axes)
    room = ax.inset_axes((0, 0, 1, needed), transform=blended_transform_factory(axes, above))
    room.set_visible(False)
    record(room, ROOM)
    return legend


def draw_legend(
    ax: Axes,
    handles: Iterable[Any],
    labels: Iterable[str],
    size: float,
    width: float | None,
    **params: Any,
) -> Legend:
    """A legend with as many columns as have room in a width in inches, or with one.

    Its colours are those of the axes, on which all entries are seen.
    """
    theme, handles, labels = Theme.of(ax), list(handles), list(labels)
    look: dict[str, Any] = {"labelcolor": theme.foreground, "facecolor": theme.background}
    for n_columns in range(1 if width is None else max(len(labels), 1), 0, -1):
        legend = ax.legend(
            handles, labels, fontsize=size, ncols=n_columns, edgecolor="none", frameon=True,
            fancybox=False, shadow=False, **look, **SPACES, **params,
        )  # fmt: skip
        as_written(legend.get_title(), *legend.get_texts())  # before they are measured
        if width is None or legend.get_window_extent().width <= width * ax.figure.dpi:
            break
    return legend

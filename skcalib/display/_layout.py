"""What all displays share: figures, ticks, titles, legends, and room around axes.

A histogram or a legend above axes stands in the upper part of the place of these axes, because what
lies outside of it would cover neighbours or leave the figure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output import theme as texts
from skcalib._output.theme import SMALLEST, Theme
from skcalib._rows import ArrayLike, on_host
from skcalib._validation.labels import of_outputs

from ._style import DIAGONAL, HISTOGRAM, KEY, ROOM, record, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend
    from matplotlib.transforms import Bbox

# Bottom and top of the histogram of rows, in heights of the diagram.
BOTTOM, TOP = 1.04, 1.22

# Diagrams with sides of up to so many inches have smaller labels.
SMALL = 2.4

# Legends with more than so many entries for each inch of the side explain neither the line nor
# error bars nor bands, and diagrams with a side of less than ``LEAST`` inches have no legend.
ENTRIES, LEAST = 1.6, 1.1

# Of legends: spaces in font sizes, and the width of an entry beside its text.
SPACES: dict[str, Any] = {
    "handlelength": 1.6, "handletextpad": 0.6, "columnspacing": 1.2, "labelspacing": 0.3,
    "borderpad": 0.3, "borderaxespad": 0.5,
}  # fmt: skip
_BESIDE = 2.8

# The largest font size of a legend, if that of the style in use is no smaller.
_LARGEST = 9.0

# The largest share of the place of axes that a legend above them takes.
_MOST = 0.6

# Free space beside labels, in inches.
_PAD = 0.04


class Display:
    """What displays share: how they are printed, and their axes."""

    ax_: Axes
    figure_: Figure | SubFigure
    name: str | None = None

    def __repr__(self) -> str:
        name = "" if self.name is None else f" of {self.name}"
        return f"<{type(self).__name__}{name}: {self._summary()}>"

    @abstractmethod
    def _summary(self) -> str:
        """What the display shows, in a few words and numbers."""

    def _on(self, ax: Axes | None, size: tuple[float, float]) -> Axes:
        """The axes to draw on, by default of a new figure of a size in inches."""
        self.ax_ = new_figure(size).subplots() if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_


class ModelDisplay(Display):
    """A display of a single model, drawn by ``from_predictions``."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, name: str | None = None, **params: Any
    ) -> Any:
        """Draw the diagram of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with ``predict_proba``, or a pipeline that ends with one.
        X : array-like of shape (n_samples, n_features)
            Held-out input.
        y : array-like of shape (n_samples,)
            Labels.
        name : str, default=None
            Name of the model; by default the name of the estimator's class.
        **params
            Other arguments of ``from_predictions``, such as ``kind`` and ``ax``, and of ``plot``.

        Returns
        -------
        Display
            As of ``from_predictions``.
        """
        P, classes = estimator.predict_proba(X), estimator.classes_
        P, name = of_outputs(P, classes), type(estimator).__name__ if name is None else name
        labels = None if params.get("kind") == "multilabel" else on_host(classes)
        return cls.from_predictions(y, P, labels=labels, name=name, **params)  # type: ignore[attr-defined]


def new_figure(size: tuple[float, float], layout: Any = "constrained") -> Figure:
    """A figure of pyplot, of a size in inches."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout=layout)


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in inches, before their aspect is applied."""
    box = ax.get_position(original=True).transformed(ax.figure.transSubfigure)
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def side_of(ax: Axes, size: tuple[float, float] | None = None) -> float:
    """Side of the diagram on axes, which is a square, in inches, by default for their own size."""
    width, height = size or size_of(ax)
    return min(width, height / top_of(ax))


def cell_of(ax: Axes) -> tuple[float, float]:
    """Width and height in inches of the cell of the figure that axes have with their labels."""
    spec, (width, height) = ax.get_subplotspec(), np.array(ax.figure.bbox.size) / ax.figure.dpi
    if spec is None or spec is not spec.get_topmost_subplotspec():  # in no cell, or in one of one
        return size_of(ax)
    grid = spec.get_gridspec()
    across, up = np.array(grid.get_width_ratios()), np.array(grid.get_height_ratios())
    width *= across[[*spec.colspan]].sum() / across.sum()
    return float(width), float(height * up[[*spec.rowspan]].sum() / up.sum())


def room_of(ax: Axes) -> tuple[float, float]:
    """Width and height in inches that axes will have: with a layout engine, beside their labels."""
    width, height = size_of(ax)
    if ax.figure.get_layout_engine() is None:
        return width, height
    letter = float(ax.xaxis.label.get_fontsize()) / 72
    across, up = cell_of(ax)
    return max(width, across - 4.7 * letter), max(
        height, up - (5.5 if ax.get_title() else 4) * letter
    )


def draw_title(ax: Axes, name: str, width: float | None = None) -> None:
    """A title that is no wider than its axes, or than a width in inches."""
    largest = float(ax.title.get_fontsize())
    text, size = texts.fitted(name, width or room_of(ax)[0], largest, smallest=8)
    texts.as_written(ax.set_title(text, fontsize=size))


class Below:
    """Locator of axes that leave the upper part of their place to a histogram and a legend."""

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
        whole = self.ax.figure.bbox
        width, height = box.width * whole.width, box.height * whole.height
        if self._has_legend():
            # Margins may have been widened since.
            height -= min(self.height * self.ax.figure.dpi, 1.25 * _MOST * height)
        if recorded(self.ax.child_axes, HISTOGRAM):  # above a diagram that is a square
            height -= (TOP - 1) * min(width, height / TOP)
        return Bbox.from_bounds(box.x0, box.y0, box.width, height / whole.height)

    def _has_legend(self) -> bool:
        """Whether the legend still stands, and constrained layout makes no room for it."""
        # While a figure is saved another engine stands in, which has the properties of the first.
        engine = self.ax.figure.get_layout_engine()
        constrained = engine is not None and not engine.adjust_compatible
        is_laid_out = constrained and self.ax.get_subplotspec() is not None
        return self.legend is not None and self.ax.get_legend() is self.legend and not is_laid_out


def top_of(ax: Axes) -> float:
    """Top of the diagram on axes with the histogram above it, in heights of the diagram."""
    return TOP if recorded(ax.child_axes, HISTOGRAM) else 1


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


def arrange(ax: Axes, scale: str, limits: tuple[float, float]) -> None:
    """Set scale, limits and ticks of a reliability diagram, which is a square."""
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


def entries(ax: Axes) -> list[Any]:
    """Handles of a legend, the line of perfect calibration last."""
    handles, _ = ax.get_legend_handles_labels()
    return sorted(handles, key=lambda handle: bool(recorded([handle], DIAGONAL)))


def check_legend(legend: Any) -> None:
    """Raise a ValueError for a legend that is neither drawn nor left out, nor has a place."""
    from matplotlib.legend import Legend

    if not (isinstance(legend, bool) or legend in ("outside", *Legend.codes)):
        raise ValueError(
            "legend must be True, False, 'outside' or a location of matplotlib such as 'upper "
            f"left', got {legend!r}."
        )


def legend_of_diagram(ax: Axes, *, legend: bool | str) -> None:
    """Draw the legend of a reliability diagram, with the entries that it has room for."""
    handles, side = entries(ax), side_of(ax, room_of(ax))
    if legend is True and side < LEAST:
        return
    if len(handles) > ENTRIES * side:
        handles = [handle for handle in handles if not recorded([handle], DIAGONAL, KEY)]
    draw_legend(ax, handles, legend=legend)


def _in_lines(label: str, width: float, size: float) -> str:
    """The label in lines of a width in inches, with the score at its end in one piece."""
    name, bracket, score = label.rpartition(" (")
    if len(score) < texts.letters_in(width, size):
        score = score.replace(" ", texts.NBSP)
    return texts.wrapped(name + bracket + score, width, size)


def largest() -> float:
    """The largest font size of a legend: that of the style in use, but no more than 9 points."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties

    size = FontProperties(size=rcParams["legend.fontsize"]).get_size_in_points()
    return min(_LARGEST, float(size))


def draw_legend(
    ax: Axes, handles: Sequence[Any], *, legend: bool | str, twin: Axes | None = None
) -> None:
    """Draw the legend of a diagram in a place of Matplotlib, or else above it."""
    if legend is False:
        return
    width, height = room_of(ax)
    is_above = legend is True or legend == "outside"
    room = width if is_above else 0.95 * side_of(ax)
    labels, size = _labels_in([str(handle.get_label()) for handle in handles], room, height)
    if is_above:
        _legend_above(ax, handles, labels, size, width, twin)
    else:
        legend_in_columns(ax, handles, labels, size, None, loc=legend, framealpha=0.85)


def _labels_in(labels: list[str], width: float, height: float) -> tuple[list[str], float]:
    """Labels of a legend of a width in inches, and their font size.

    Long ones are wrapped, or where these would take more than half of the height, cut in the
    middle.
    """
    inside = width - _BESIDE * (size := largest()) / 72
    size = min(texts.fitted(label, inside, size)[1] for label in labels)
    lines = [_in_lines(label, inside, size) for label in labels]
    if sum(text.count("\n") + 1 for text in lines) * 1.5 * size / 72 > _MOST * height:
        size = min(size, SMALLEST)
        kept = (max(8, len(label.rpartition(" (")[2]) + 2) for label in labels)  # the scores
        lines = [texts.shortened(x, inside, size, n) for x, n in zip(labels, kept, strict=True)]
    return lines, size


def _legend_above(
    ax: Axes,
    handles: Sequence[Any],
    labels: Sequence[str],
    size: float,
    width: float,
    twin: Axes | None,
) -> None:
    """Draw a legend above axes or their histogram, and above the twin that shares their place."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    base = top_of(ax)
    place: Any = {"loc": "lower center", "bbox_to_anchor": (0.5, base)}
    legend = legend_in_columns(ax, handles, labels, size, width, framealpha=1, **place)
    needed = legend.get_window_extent().height / ax.figure.dpi + SPACES["borderaxespad"] * size / 72
    below = Below(ax, legend, needed)
    ax.set_axes_locator(below)
    if twin is not None and twin.get_axes_locator() is None:  # others follow the axes already
        twin.set_axes_locator(below)
    for outdated in recorded(ax.child_axes, ROOM):  # of a legend with fewer models
        outdated.remove()
    # Matplotlib draws titles above child axes, so invisible ones are where the legend is.
    axes: Any = ax.transAxes
    above = ax.figure.dpi_scale_trans + ScaledTranslation(0, base, axes)
    room = ax.inset_axes((0, 0, 1, needed), transform=blended_transform_factory(axes, above))
    room.set_visible(False)
    record(room, ROOM)


def make_room(ax: Axes) -> None:
    """Widen margins in which labels of axes would be clipped or meet, if no layout engine does."""
    from matplotlib.layout_engine import PlaceHolderLayoutEngine
    from matplotlib.transforms import Bbox

    figure, spec = ax.figure, ax.get_subplotspec()
    engine = figure.get_layout_engine()
    placeholder = isinstance(engine, PlaceHolderLayoutEngine) and engine.adjust_compatible
    is_free = engine is None or placeholder
    if spec is None or not is_free or figure is not figure.figure:  # subfigures share margins
        return
    twins = [twin for twin in figure.axes if twin.get_subplotspec() == spec]
    boxes: Any = [twin.get_tightbbox() for twin in twins]
    to_figure = figure.transSubfigure.inverted()
    outer, place = Bbox.union(boxes).transformed(to_figure), ax.get_position(original=True)
    pars, (pad_x, pad_y) = figure.subplotpars, _PAD * figure.dpi / np.array(figure.bbox.size)
    left, right = place.x0 - outer.x0 + pad_x, outer.x1 - place.x1 + pad_x
    bottom, top = place.y0 - outer.y0 + pad_y, outer.y1 - place.y1 + pad_y
    grid = spec.get_topmost_subplotspec().get_gridspec()
    low, high = max(pars.left, left), min(pars.right, 1 - right)
    wspace = max(pars.wspace, _gap(left + right - pad_x, high - low, grid.ncols))
    down, up = max(pars.bottom, bottom), min(pars.top, 1 - top)
    hspace = max(pars.hspace, _gap(bottom + top - pad_y, up - down, grid.nrows))
    if low < high and down < up:
        figure.subplots_adjust(low, down, high, up, wspace, hspace)


def _gap(gap: float, size: float, n: int) -> float:
    """A gap between n axes within a size, as a share of the mean side that is left to these."""
    return n * gap / max(size - (n - 1) * gap, 0.1 * size)


def legend_in_columns(
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
        texts.as_written(legend.get_title(), *legend.get_texts())  # before they are measured
        if width is None or legend.get_window_extent().width <= width * ax.figure.dpi:
            break
    return legend

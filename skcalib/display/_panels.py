"""Layout of a grid of panels: margins in inches, and equal panels in the room that they leave.

Panels carry a locator, so they keep these margins when the figure changes its size, and no layout
engine has to measure a hundred of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from skcalib._output.text import LINE, SMALLEST, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

# Between what lies beside each other, in inches.
SPACE = 0.06

# Length of ticks, and space between them and their labels, in points.
TICK = (3.0, 2.0)

# Bottom and top of the histogram of rows, in heights of the diagram.
HISTOGRAM = (1.04, 1.22)

# Joins words that stay in one line.
NBSP = "\N{NO-BREAK SPACE}"

# Of more panels those inside have no ticks.
MANY = 25

# Panels have at least this share of their cells, however much room labels and titles take.
LEAST = 0.3


class Margins(NamedTuple):
    """Room around all panels of a figure, or around each of them, in inches."""

    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True)
class Panels:
    """A grid of equal cells within margins of a figure, and a panel within margins of each."""

    n_rows: int
    n_columns: int
    figure: Margins
    cell: Margins

    def box(self, number: int, size: tuple[float, float]) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of a panel, as shares of a figure of a size in inches."""
        row, column = divmod(number, self.n_columns)
        outer, inner = self.figure, self.cell
        across = (size[0] - outer.left - outer.right) / self.n_columns
        down = (size[1] - outer.bottom - outer.top) / self.n_rows
        x = outer.left + column * across + inner.left
        y = outer.bottom + (self.n_rows - 1 - row) * down + inner.bottom
        width = max(across - inner.left - inner.right, LEAST * across)
        height = max(down - inner.bottom - inner.top, LEAST * down)
        return x / size[0], y / size[1], width / size[0], height / size[1]

    def size(self, width: float, height: float) -> tuple[float, float]:
        """Size of the figure whose panels have a width and height, in inches."""
        outer, inner = self.figure, self.cell
        across = width + inner.left + inner.right
        down = height + inner.bottom + inner.top
        return (
            self.n_columns * across + outer.left + outer.right,
            self.n_rows * down + outer.bottom + outer.top,
        )

    def with_labels(self, axes: Sequence[Axes]) -> Panels:
        """The panels with room for the tick labels that their axes show."""
        wide = [width_of(_labels(ax.yaxis)) for ax in axes]
        high = [height_of(_labels(ax.xaxis)) for ax in axes]
        beside = max((w for k, w in enumerate(wide) if k % self.n_columns), default=0)
        below = max((h for k, h in enumerate(high) if k < len(axes) - self.n_columns), default=0)
        # Half of the labels at the ends of an axis stand out of it.
        half = max(width_of(_labels(ax.xaxis), 0) for ax in axes) / 2
        outer, inner = self.figure, self.cell
        return replace(
            self,
            figure=outer._replace(
                left=outer.left + max(0, max(wide) - max(beside, half)),
                bottom=outer.bottom + max(high) - below,
            ),
            cell=inner._replace(
                left=max(beside, half) + SPACE / 2, bottom=below + SPACE, right=half + SPACE / 2
            ),
        )


@dataclass
class Panel:
    """Axes of a panel: their locator, which they carry, and what their diagram must know."""

    panels: Panels
    number: int
    n: int  #: panels in all
    labels: tuple[bool, bool]  #: whether tick labels are below, and at the left
    top: float  #: height of the axes, in heights of the diagram
    most: float  #: number of rows at which the histogram ends
    legend: Legend | None = None  #: of all panels, which the first of them holds

    def __call__(self, ax: Axes, renderer: Any) -> Bbox:  # noqa: ARG002
        from matplotlib.transforms import Bbox

        title = title_room(ax.figure)
        if self.legend is not None:  # that of all panels stands above them, below the title
            self.legend.set_bbox_to_anchor((0.5, 1 - title / inches(ax.figure)[1]))
        margins = self.panels.figure
        panels = replace(self.panels, figure=margins._replace(top=margins.top + title))
        return Bbox.from_bounds(*panels.box(self.number, inches(ax.figure)))

    @property
    def is_one_of_many(self) -> bool:
        """Whether there are so many panels that each has little more than its data."""
        return self.n > MANY


def add_panels(
    figure: Figure | SubFigure, panels: Panels, own: Sequence[bool], **params: Any
) -> list[Axes]:
    """Axes of panels, row by row, of which layout engines leave the place alone.

    Those whose limits are their ``own`` have tick labels, others those without another of the same
    limits below, and at the left.
    """
    n, step = len(own), panels.n_columns
    axes = [figure.add_subplot(panels.n_rows, step, number + 1) for number in range(n)]
    for number, ax in enumerate(axes):
        below = all(own[number + step :: step])
        left = all(own[number - number % step : number])
        labels = own[number] or below, own[number] or left
        panel: Any = Panel(panels, number, n, labels=labels, **params)
        ax.set_axes_locator(panel)
    place(axes, panels)
    return axes


def place(axes: Sequence[Axes], panels: Panels) -> None:
    """Give axes that are panels their places."""
    for ax in axes:
        panel = panel_of(ax)
        if panel is not None:
            panel.panels = panels
            ax.set_position(panels.box(panel.number, inches(ax.figure)))


def panel_of(ax: Axes) -> Panel | None:
    """The panel that axes are, or None."""
    locator = ax.get_axes_locator()
    return locator if isinstance(locator, Panel) else None


def title_room(figure: Figure | SubFigure) -> float:
    """Height of the title that a user gave to the figure, and of what is above it, in inches."""
    title = getattr(figure, "_suptitle", None)
    if title is None or not title.get_text():
        return 0.0
    below = float(figure.bbox.y1 - title.get_window_extent().y0) / figure.dpi
    return below if below < inches(figure)[1] / 3 else 0.0  # it is elsewhere


def inches(figure: Figure | SubFigure) -> tuple[float, float]:
    """Width and height of a figure, or of a part of one."""
    return figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi


def titles_in(titles: Sequence[str], width: float, size: float) -> tuple[list[str], float]:
    """Titles in lines of a width in inches, and their font size.

    All are shrunk to no less than 7 points, until none has more than two lines.
    """
    room = 72 * width / max(map(text_width, titles))
    size = min(size, max(1.8 * room, SMALLEST))
    in_lines = [wrapped(title, 72 * width / size) for title in titles]
    return [title.replace(NBSP, " ") for title in in_lines], size


def height_of_lines(text: str, size: float) -> float:
    """Height of lines of text of a font size, in inches."""
    return LINE * (text.count("\n") + 1) * size / 72


def width_of(labels: Sequence[Text], beside: float = sum(TICK) / 72) -> float:
    """Width of the widest tick label in inches, and of the tick beside it; 0 without labels."""
    widths = [float(label.get_fontsize()) / 72 * text_width(label.get_text()) for label in labels]
    return max(widths) + beside if widths else 0.0


def height_of(labels: Sequence[Text]) -> float:
    """Height of tick labels with their ticks in inches; 0 without labels."""
    return LINE * float(labels[0].get_fontsize()) / 72 + sum(TICK) / 72 if labels else 0.0


def _labels(axis: Axis) -> list[Text]:
    """The tick labels of an axis that are seen."""
    if not axis.get_visible():
        return []
    return [label for label in axis.get_ticklabels() if label.get_visible()]

"""Layout of a grid of panels: margins in inches, and equal panels in the room that they leave.

Panels carry a locator, so they keep these margins when the figure changes its size, and no layout
engine has to measure a hundred of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ._text import SMALLEST, text_width, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.transforms import Bbox

# Height of a line, in font sizes.
LINE = 1.25

# Between what lies beside each other, in inches.
SPACE = 0.06

# Length and padding of ticks, in inches.
TICK = 6.5 / 72

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

    def place(self, axes: Sequence[Axes]) -> None:
        """Place the axes of the panels, row by row. Layout engines leave them alone."""
        for number, ax in enumerate(axes):
            ax.set_position(self.box(number, inches(ax.figure)))
            ax.set_axes_locator(PanelLocator(self, number))

    def with_labels(self, axes: Sequence[Axes], *, own: Sequence[bool]) -> Panels:
        """The panels with room for tick labels: at the left and below, and of each that has its
        own."""
        left = [number % self.n_columns == 0 for number in range(len(axes))]
        low = [number + self.n_columns >= len(axes) for number in range(len(axes))]
        for ax, *shown in zip(axes, left, low, own, strict=True):
            ax.tick_params(labelleft=shown[0] or shown[2], labelbottom=shown[1] or shown[2])
        wide = [width_of_labels(ax.yaxis) if x or o else 0 for ax, x, o in zip(axes, left, own)]
        high = [height_of_labels(ax.xaxis) if x or o else 0 for ax, x, o in zip(axes, low, own)]
        between = max(width_of_labels(ax.xaxis, 0) for ax, x in zip(axes, low) if x) / 2
        inner_left = max([w for w, x in zip(wide, left) if not x], default=0)
        inner_bottom = max([h for h, x in zip(high, low) if not x], default=0)
        return replace(
            self,
            figure=self.figure._replace(
                left=self.figure.left + max(wide) - inner_left,
                bottom=self.figure.bottom + max(high) - inner_bottom,
            ),
            cell=self.cell._replace(
                left=max(inner_left, between) + SPACE / 2,
                bottom=inner_bottom + SPACE,
                right=between + SPACE / 2,
            ),
        )


class PanelLocator:
    """Locator of the axes of a panel."""

    def __init__(self, panels: Panels, number: int) -> None:
        self.panels = panels
        self.number = number

    def __call__(self, ax: Axes, renderer: Any) -> Bbox:  # noqa: ARG002
        from matplotlib.transforms import Bbox

        return Bbox.from_bounds(*self.panels.box(self.number, inches(ax.figure)))


def inches(figure: Figure | SubFigure) -> tuple[float, float]:
    """Width and height of a figure, or of a part of one."""
    return figure.bbox.width / figure.dpi, figure.bbox.height / figure.dpi


def height_of(text: str, size: float) -> float:
    """Height of lines of text of a font size, in inches."""
    return LINE * (text.count("\n") + 1) * size / 72


def titles_in(titles: Sequence[str], width: float, size: float) -> tuple[list[str], float]:
    """Titles in lines of a width in inches, and their font size.

    All are shrunk to no less than 7 points, until most have no more than two lines.
    """
    room = 72 * width / max(map(text_width, titles))
    size = min(size, max(1.8 * room, SMALLEST))
    return [wrapped(title, 72 * width / size) for title in titles], size


def width_of_labels(axis: Axis, beside: float = TICK) -> float:
    """Width of the widest tick label of an axis, in inches, and of what is beside it."""
    labels = axis.get_ticklabels()
    size = max((label.get_fontsize() for label in labels), default=0) / 72
    return size * max((text_width(label.get_text()) for label in labels), default=0) + beside


def height_of_labels(axis: Axis) -> float:
    """Height of the tick labels of an axis with the ticks, in inches."""
    labels = axis.get_ticklabels()
    return LINE * max((label.get_fontsize() for label in labels), default=0) / 72 + TICK

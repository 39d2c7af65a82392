"""A legend above axes: it covers no curve, titles stand above it, and it stays in their place.

Where constrained layout arranges the axes, it makes room for the legend. Elsewhere what lies
outside of the place of the axes would cover neighbours or leave the figure, so the axes end below
the legend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output.text import SMALLEST, as_written, fitted, shortened, text_width
from skcalib._output.theme import Theme, contrast

from ._axes import size_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec
    from matplotlib.legend import Legend
    from matplotlib.transforms import Bbox

# In points: the font size that legends have where there is room, and the one from which on more
# rows are used instead of smaller letters.
_WANTED, _SMALL = 9.0, 7.5

# In font sizes. The width of an entry without its text is that of the handle and of the spaces.
_SPACES: dict[str, Any] = {
    "handlelength": 2.0, "handletextpad": 0.6, "columnspacing": 1.0, "labelspacing": 0.35,
    "borderpad": 0.2,
}  # fmt: skip
_HANDLE = 3.7

# Between axes and legend, in points.
_PAD = 3.0

# Shares of the place of axes: the largest of a legend with whole labels, and of any legend.
_WHOLE, _MOST = 0.5, 0.7

# Contrast of two backgrounds on which the same lines are seen.
_ALIKE = 1.5

# Height of a line of text, in font sizes.
_LINE = 1.55


class BelowLegend:
    """Locator of axes: their place, less the height of the legend if nobody else makes room."""

    def __init__(self, ax: Axes, legend: Legend) -> None:
        before: Any = ax.get_axes_locator()
        self.before: Any = before.before if isinstance(before, BelowLegend) else before
        self.ax = ax
        self.legend = legend

    def get_subplotspec(self) -> SubplotSpec | None:
        """The part of the grid that the axes have, which tight layouts ask for."""
        return self.ax.get_subplotspec()

    def height(self) -> float:
        """Height of the legend in pixels; 0 if it is no longer there."""
        if self.ax.get_legend() is not self.legend:
            return 0.0
        return float(self.legend.get_window_extent().height + _PAD * self.ax.figure.dpi / 72)

    def __call__(self, ax: Any, renderer: Any) -> Bbox:
        from matplotlib.transforms import Bbox

        box = self.before(ax, renderer) if self.before else ax.get_position(original=True)
        if _is_laid_out(self.ax):
            return box
        height = min(self.height() / ax.figure.bbox.height, _MOST * box.height)
        return Bbox.from_extents(box.x0, box.y0, box.x1, box.y1 - height)


class _Room:
    """Locator of invisible axes where the legend is: matplotlib draws titles above them."""

    def __init__(self, below: BelowLegend) -> None:
        self.below = below

    def __call__(self, room: Any, renderer: Any) -> Bbox:  # noqa: ARG002
        from matplotlib.transforms import Bbox, TransformedBbox

        ax = self.below.ax
        box = Bbox.from_bounds(0, 1, 1, self.below.height() / ax.bbox.height)
        return TransformedBbox(box, ax.transAxes - ax.figure.transSubfigure)  # type: ignore[return-value]


def legend_above(ax: Axes, handles: Sequence[Artist], *, twin: Axes | None = None) -> Legend:
    """Draw a legend above axes, and above the twin that shares their place.

    It has as few rows as its labels allow. Long labels are wrapped, or where these would take more
    than half of the height, cut in the middle.
    """
    theme, around = Theme.of(ax), Theme.around(ax)
    labels, size, n_columns = _arranged([str(x.get_label()) for x in handles], *size_of(ax))
    # A box is for axes that are as dark as their figure is light, or the other way round.
    boxed = contrast(theme.background, around.background) > _ALIKE
    legend = ax.legend(
        handles=list(handles), labels=labels, fontsize=size, ncols=n_columns, loc="lower center",
        bbox_to_anchor=(0.5, 1), borderaxespad=_PAD / size, frameon=boxed,
        labelcolor=(theme if boxed else around).foreground,
        facecolor=theme.background, edgecolor="none", framealpha=1, fancybox=False, shadow=False,
        **_SPACES,
    )  # fmt: skip
    as_written(*legend.get_texts())
    below = BelowLegend(ax, legend)
    ax.set_axes_locator(below)
    if twin is not None and twin.get_axes_locator() is None:  # others follow the axes already
        twin.set_axes_locator(below)
    _room_above(ax).set_axes_locator(_Room(below))
    return legend


def _room_above(ax: Axes) -> Axes:
    """The invisible axes above others, made if there are none."""
    found = [child for child in ax.child_axes if isinstance(child.get_axes_locator(), _Room)]
    if found:
        return found[0]  # type: ignore[return-value]
    room = ax.inset_axes((0, 1, 1, 0.1))
    room.set_visible(False)
    return room


def _is_laid_out(ax: Axes) -> bool:
    """Whether constrained layout makes room for what is outside of axes."""
    # While a figure is saved another engine stands in, which has the properties of the first.
    engine = ax.figure.get_layout_engine()
    constrained = engine is not None and not engine.adjust_compatible
    return constrained and ax.get_subplotspec() is not None


def _arranged(labels: list[str], width: float, height: float) -> tuple[list[str], float, int]:
    """The labels, perhaps wrapped or cut, their font size, and the number of columns."""
    widths = [text_width(label) for label in labels]
    for n_rows in range(1, len(labels) + 1):
        n_columns = -(-len(labels) // n_rows)
        columns = np.array_split(widths, n_columns)
        room = 72 * width / sum(max(column) + _HANDLE for column in columns)
        if room >= _SMALL:
            low_enough = 72 * _WHOLE * height / (n_rows * _LINE)
            return labels, min(_WANTED, room, max(low_enough, SMALLEST)), n_columns
    inside = max(width - _HANDLE * _WANTED / 72, SMALLEST / 72)
    texts, sizes = zip(*(fitted(label, inside, _WANTED) for label in labels), strict=True)
    size, n_lines = min(sizes), sum(1 + text.count("\n") for text in texts)
    if n_lines * _LINE * size / 72 <= _WHOLE * height:
        return list(texts), size, 1
    return [shortened(label, 72 * inside / size) for label in labels], size, 1

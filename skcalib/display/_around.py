"""What stands around the panels of a grid: names of the axes, and one legend for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._output.text import LINE, SMALLEST, as_written, fitted, text_width, wrapped
from skcalib._output.theme import Theme

from ._legend import entries
from ._look import AXIS_NAMES, Diagonal, Look, recorded
from ._panels import SPACE, Margins, inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

# Of the legend, in font sizes.
_SPACES: dict[str, Any] = {
    "handlelength": 1.6, "handletextpad": 0.6, "columnspacing": 1.4, "labelspacing": 0.3,
    "borderpad": 0,
}  # fmt: skip

# Width beside the text of an entry, in font sizes.
_BESIDE = _SPACES["handlelength"] + _SPACES["handletextpad"] + _SPACES["columnspacing"]


def names_around(figure: Figure | SubFigure, kind: str) -> Margins:
    """Names of the axes at the left and below; returned is the room for them."""
    size = font_of(figure)
    below, beside = (figure.supxlabel, figure.supylabel)
    across, up = AXIS_NAMES[kind]
    _keep_at(figure, below(across, x=0.5, y=0, fontsize=size, va="bottom"), 0, SPACE)
    _keep_at(figure, beside(up, x=0, y=0.5, fontsize=size, ha="left"), SPACE, 0)
    room = LINE * size / 72 + SPACE
    return Margins(room, room, SPACE, SPACE)


def legend_above(
    figure: Figure | SubFigure, axes: Sequence[Axes], most: float | None, name: str | None
) -> Legend:
    """One legend for all panels, at the top, with their different entries once each."""
    found = _entries(axes)
    if most is not None:
        found[f"Rows (up to {most:,.0f})"] = _histogram_key(axes[0])
    size, width = font_of(figure), 72 * (inches(figure)[0] - 2 * SPACE) / font_of(figure)
    labels = [wrapped(label, width - _BESIDE) for label in found]
    title, title_font = (None, None) if name is None else fitted(name, width * size / 72, size + 1)
    legend = figure.legend(
        list(found.values()),
        labels,
        title=title,
        title_fontsize=title_font,
        fontsize=size,
        ncols=_columns(labels, width),
        loc="upper center",
        bbox_to_anchor=(0.5, 1),
        borderaxespad=72 * SPACE / size,
        frameon=False,
        **_SPACES,
    )
    as_written(legend.get_title(), *legend.get_texts())
    return legend


def _entries(axes: Iterable[Axes]) -> dict[str, Any]:
    """Labels, without names and scores of single classes, and handles; the diagonal last."""
    found: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*entries(ax), strict=True):
            looks = recorded([handle], Look)
            general = AXIS_NAMES[looks[0][1].kind][1] if looks else label
            (last if recorded([handle], Diagonal) else found).setdefault(general, handle)
    return {**found, **last}


def _histogram_key(ax: Axes) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=Theme.of(ax).muted)


def _columns(labels: Sequence[str], width: float) -> int:
    """As many columns as fit into a width in font sizes."""
    widths = [text_width(label) + _BESIDE for label in labels]
    for n in range(len(labels), 1, -1):
        if sum(max(column) for column in np.array_split(widths, n)) <= width:
            return n
    return 1


def font_of(figure: Figure | SubFigure) -> float:
    """Font size of what is around the panels."""
    return min(max(1.6 * inches(figure)[0], SMALLEST), 10)


def _keep_at(figure: Figure | SubFigure, text: Text, x: float, y: float) -> None:
    """Shift a text by a distance in inches, however large the figure is."""
    from matplotlib.transforms import ScaledTranslation

    text.set_transform(figure.transSubfigure + ScaledTranslation(x, y, figure.dpi_scale_trans))

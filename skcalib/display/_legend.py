"""The legend of a reliability diagram: inside of it, in the corner where it hides least."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skcalib._output.text import SMALLEST, Measure, as_written, shortened, wrapped
from skcalib._output.theme import Theme
from skcalib._rows.arrays import Floats

from ._axes import SMALL
from ._look import Diagonal, recorded

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

# Of legends, in font sizes.
_SPACES: dict[str, Any] = {
    "handlelength": 1.6, "handletextpad": 0.6, "labelspacing": 0.3, "borderpad": 0.3,
    "borderaxespad": 0.5,
}  # fmt: skip

# Width beside the text, and height beside the lines, in font sizes.
_BESIDE = _SPACES["handlelength"] + _SPACES["handletextpad"] + 2 * _SPACES["borderpad"]

# Parts of the width of the diagram that a legend may have, and its height else.
_WIDTH, _WIDEST, _HIGHEST = 0.64, 0.95, 0.5

# Corners in order of preference, with the horizontal and vertical place of the legend.
_CORNERS = {
    "upper left": (0, 1), "lower right": (1, 0), "upper right": (1, 1), "lower left": (0, 0)
}  # fmt: skip

# Shares of the cells of the diagram in which a legend may hide something: one with letters of the
# usual size, and one with all entries.
_LITTLE, _MUCH = 0.006, 0.03

# Cells along each side of the diagram, by which its free corner is found.
_CELLS = 40


class _Legend(NamedTuple):
    """Labels in lines, and their font size; width and height in parts of the diagram."""

    labels: list[str]
    font: float
    width: float
    height: float


def area_key(ax: Axes, label: str, facecolor: Any, **params: Any) -> BarContainer:
    """An entry of the legend for areas, which draws none: those in the diagram are faded."""
    from matplotlib.container import BarContainer
    from matplotlib.patches import Rectangle

    patch = Rectangle((0, 0), 1, 1, facecolor=facecolor, linewidth=0.5, **params)
    key = BarContainer([patch], label=label)
    _add_once(ax, key)
    return key


def whisker_key(ax: Axes, label: str, colour: Any) -> None:
    """An entry of the legend for error bars."""
    from matplotlib.collections import LineCollection
    from matplotlib.container import ErrorbarContainer

    bars = LineCollection([[(0, 0), (0, 1)]], colors=[colour], linewidths=[1])
    lines: Any = (None, (), (bars,))
    _add_once(ax, ErrorbarContainer(lines, has_yerr=True, label=label))


def draw_legend(ax: Axes, theme: Theme, side: float, top: float) -> None:
    """Draw the legend inside of a diagram.

    Its side is a length in inches, and ``top`` the height of the axes in heights of the diagram.
    """
    handles, size, corner = _placed(ax, side, top)
    legend = ax.legend(
        handles,
        size.labels,
        fontsize=size.font,
        loc=corner,
        bbox_to_anchor=(0, 0, 1, 1 / top),
        labelcolor=theme.foreground,
        facecolor=theme.background,
        edgecolor="none",
        frameon=True,
        framealpha=0.85,
        **_SPACES,
    )
    as_written(*legend.get_texts())


def _placed(ax: Axes, side: float, top: float) -> tuple[list[Any], _Legend, Any]:
    """Handles, size and corner of a legend that hides little of the diagram.

    Its letters are smaller where that hides less. In a small diagram of which much would be hidden
    even so, it has no entries for the line of perfect calibration and error bars.
    """
    drawn = _drawn(ax, top)
    handles, labels = entries(ax)
    size = _fitted(labels, side, 9)
    corner, hidden = _freest(drawn, size)
    if hidden > _LITTLE * _CELLS**2:
        smaller = _fitted(labels, side, SMALLEST)
        other, fewer = _freest(drawn, smaller)
        if fewer < 0.7 * hidden:
            size, corner, hidden = smaller, other, fewer
    if side < SMALL and hidden > _MUCH * _CELLS**2:
        own = [k for k, handle in enumerate(handles) if not _explains_itself(handle)]
        handles, size = [handles[k] for k in own], _fitted([labels[k] for k in own], side, SMALLEST)
        corner, _ = _freest(drawn, size)
    return handles, size, corner


def _explains_itself(handle: Any) -> bool:
    from matplotlib.container import ErrorbarContainer

    return bool(recorded([handle], Diagonal)) or isinstance(handle, ErrorbarContainer)


def entries(ax: Axes) -> tuple[list[Any], list[str]]:
    """Handles and labels of a legend, the line of perfect calibration last."""
    handles, labels = ax.get_legend_handles_labels()
    pairs = list(zip(handles, labels, strict=True))
    pairs.sort(key=lambda pair: bool(recorded([pair[0]], Diagonal)))
    return [handle for handle, _ in pairs], [label for _, label in pairs]


def _add_once(ax: Axes, key: Any) -> None:
    if key.get_label() not in ax.get_legend_handles_labels()[1]:
        ax.add_container(key)


def _fitted(labels: Sequence[str], side: float, largest: float) -> _Legend:
    """The labels, wrapped and shrunk until the legend is neither too wide nor too high."""
    measure = Measure(*labels, " \N{HORIZONTAL ELLIPSIS}\N{NO-BREAK SPACE}")
    wanted = min(max(3.2 * side, SMALLEST), largest)
    # The labels in one line each, if letters need only be a little smaller for that.
    fitting = 72 * _WIDTH * side / (max(map(measure, labels), default=0) + _BESIDE)
    if max(0.85 * wanted, SMALLEST) <= fitting < wanted:
        wanted = fitting
    # Of names, words may be broken.
    words = " ".join(x for x in labels if not x.endswith(")")).split()
    longest = max(map(measure, words), default=0)
    for width, font in itertools.product((_WIDTH, _WIDEST), (wanted, SMALLEST)):
        room = 72 * width * side / font - _BESIDE
        lines = [_in_lines(x, room, measure, joined=width == _WIDTH) for x in labels]
        legend = _sized(lines, font, side, measure)
        if legend.height <= _HIGHEST and longest <= room:
            return legend
    if legend.height < _WIDEST:
        return legend
    lines = [_in_lines(_with_score(x, 1.7 * room, measure), room, measure) for x in labels]
    return _sized(lines, font, side, measure)


def _sized(labels: list[str], font: float, side: float, measure: Measure) -> _Legend:
    n_lines = sum(label.count("\n") + 1 for label in labels)
    spaces = _SPACES["labelspacing"] * (len(labels) - 1) + 2 * _SPACES["borderpad"]
    width = max(map(measure, labels), default=0) + _BESIDE
    em = font / 72 / side
    return _Legend(labels, font, width * em, (1.25 * n_lines + spaces) * em)


def _in_lines(label: str, width: float, measure: Measure, *, joined: bool = False) -> str:
    """The label in lines of a width in font sizes, with the score at its end in one piece."""
    name, bracket, score = label.rpartition(" (")
    if joined and bracket:
        score = score.replace(" ", "\N{NO-BREAK SPACE}")
    return wrapped(name + bracket + score, width, measure).replace("\N{NO-BREAK SPACE}", " ")


def _with_score(label: str, width: float, measure: Measure) -> str:
    """The label with as much of the name as a width in font sizes holds."""
    name, bracket, score = label.rpartition(" (")
    return shortened(label, width, measure, end=len(bracket + score)) if name else label


def _freest(drawn: NDArray[np.bool_], size: _Legend) -> tuple[Any, int]:
    """The corner in which a legend of this size covers least of what is drawn, and how much."""
    center = (np.arange(_CELLS) + 0.5) / _CELLS

    def hidden(corner: str) -> int:
        right, up = _CORNERS[corner]
        across = center > 1 - size.width if right else center < size.width
        along = center > 1 - size.height if up else center < size.height
        return int(drawn[np.ix_(across, along)].sum())

    corner = min(_CORNERS, key=hidden)
    return corner, hidden(corner)


def _drawn(ax: Axes, top: float) -> NDArray[np.bool_]:
    """The cells of the diagram in which something is drawn."""
    drawn = np.zeros((_CELLS, _CELLS), dtype=bool)
    for points in _outlines(ax):
        cells = np.floor(_CELLS * points * [1, top])
        inside = np.all((cells >= 0) & (cells < _CELLS), axis=1)
        drawn[tuple(cells[inside].astype(np.intp).T)] = True
    return drawn


def _outlines(ax: Axes) -> Iterator[Floats]:
    """Points on the outlines of the artists, in parts of the axes."""
    to_axes = ax.transAxes.inverted()
    artists: list[Artist] = [*ax.lines, *ax.patches, *ax.collections]
    for artist in artists:
        for points in _points(artist):
            # Offsets are masked where they are at infinity.
            yield np.nan_to_num(np.ma.filled(to_axes.transform(points), -1), nan=-1)


def _points(artist: Any) -> Iterator[Floats]:
    """Points on the outline of an artist, in pixels."""
    offsets = getattr(artist, "get_offsets", lambda: np.zeros((0, 2)))()
    if len(offsets) > 1:
        yield artist.get_offset_transform().transform(offsets)
        return
    paths = artist.get_paths() if hasattr(artist, "get_paths") else [artist.get_path()]
    for path in paths:
        if not len(path.vertices):  # old versions of matplotlib do not interpolate nothing
            continue
        steps = max(1, 4 * _CELLS // len(path.vertices))
        yield artist.get_transform().transform(path.interpolated(steps).vertices)

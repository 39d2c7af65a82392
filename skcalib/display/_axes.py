"""What all pictures share: colours, figures, legends that fit, and rows with their bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skcalib._scores.bins import Strategy
from skcalib._scores.columns import Scored
from skcalib.metrics import ReliabilityCurve, reliability_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# From the palette of Okabe and Ito, which people with any colour vision can tell apart.
BLUE, VERMILION, GREY = "#56B4E9", "#D55E00", "#555555"

DARK_BLUE = "#0072B2"


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure of a size in inches that pyplot shows."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def as_written(*texts: Text) -> None:
    """Texts that hold names of the user's are drawn as they are, dollar signs and all."""
    for text in texts:
        text.set_parse_math(False)


def entry(name: str) -> str:
    """A name for a legend, out of which matplotlib leaves those that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def with_weight(rows: Scored) -> Scored:
    """The rows that have any weight: the others are not to be counted, nor drawn."""
    w = rows.weight
    if w is None or (len(w) and w.all()):
        return rows
    if not w.any():
        raise ValueError(
            "rows must hold some weight, got weights of zero only. Pass weight=None for equal ones."
        )
    return Scored(rows.label, rows.score[w > 0], rows.event[w > 0], w[w > 0])


def curve_of_rows(rows: Scored, n_bins: int, strategy: Strategy) -> ReliabilityCurve:
    """The bins of the rows."""
    return reliability_curve(
        rows.event,
        rows.score,
        n_bins=n_bins,
        strategy=strategy,
        kind="binary",
        sample_weight=rows.weight,
        labels=[False, True],
    )


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in inches, before their aspect is applied."""
    box = ax.get_position(original=True).transformed(ax.figure.transSubfigure)
    dpi = ax.figure.dpi
    return box.width / dpi, box.height / dpi


def font_size(width: float) -> float:
    """Of legends, for axes of a width in inches."""
    return min(max(3.2 * width, 5.5), 9)


def fitting(labels: Sequence[str], width: float) -> tuple[float, int]:
    """Font size and number of columns of a legend that fits into a width in inches."""
    # In points: letters of about half the font size, and the handle before them.
    longest = 0.52 * max(map(len, labels)) + 3
    wanted = font_size(width)
    beside = 72 * width / (2 * longest)
    if beside >= 0.8 * wanted:
        return min(wanted, beside), 2
    return min(wanted, 2 * beside), 1


def title_size(titles: Sequence[str], width: float) -> float:
    """Font size of titles that stand beside each other, each in a width in inches."""
    # In points, as in `fitting`, with more for digits, and a gap to the next.
    longest = 0.57 * max(map(len, titles)) + 1
    return min(10, 72 * width / longest)

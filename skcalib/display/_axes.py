"""Shared by all displays: figures, legends and titles that fit, rows and their bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from skcalib._scores.bins import Strategy
from skcalib._scores.columns import Scored
from skcalib.metrics import ReliabilityCurve, reliability_curve, score_decomposition
from skcalib.metrics._calibration_error import OF_BINS

from ._text import as_written, fitted, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#555555"

# Of legends, in font sizes.
_SPACES: dict[str, Any] = {
    "handlelength": 1.5, "columnspacing": 1.2, "labelspacing": 0.3, "borderpad": 0.2
}  # fmt: skip


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure of pyplot, of a size in inches."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained")


def entry(name: str) -> str:
    """A name for a legend, from which matplotlib omits names that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def with_weight(rows: Scored) -> Scored:
    """The rows with a positive weight: others are neither counted nor drawn."""
    w = rows.weight
    if w is None or (len(w) and w.all()):
        return rows
    if not w.any():
        raise ValueError(
            "rows must have a positive total weight, got zero weights only. Pass weight=None for "
            "equal weights."
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


def ece_of(curve: ReliabilityCurve) -> float:
    """The expected calibration error of the bins."""
    return float(OF_BINS["expected_calibration_error"](curve))


def miscalibration_of(rows: Scored) -> float:
    """The miscalibration of the Brier score of the rows."""
    return float(
        score_decomposition(
            rows.event,
            rows.score,
            score="brier_score",
            kind="binary",
            sample_weight=rows.weight,
            labels=[False, True],
        ).miscalibration
    )


def size_of(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in inches, before their aspect is applied."""
    box = ax.get_position(original=True).transformed(ax.figure.transSubfigure)
    dpi = ax.figure.dpi
    return box.width / dpi, box.height / dpi


def font_size(width: float) -> float:
    """Font size of legends in axes of a width in inches."""
    return min(max(3.2 * width, 5.5), 9)


class LegendSize(NamedTuple):
    """Font size in points, and numbers of columns and rows."""

    font: float
    n_columns: int
    n_rows: int

    @property
    def margin(self) -> float:
        """Space below and above, in inches."""
        return 0.6 * self.font / 72

    @property
    def height(self) -> float:
        """Height with the margins, in inches."""
        return 1.5 * self.n_rows * self.font / 72 + 2 * self.margin


def legend_size(labels: Sequence[str], width: float) -> LegendSize:
    """Size of a legend with these labels that fits into a width in inches."""
    widths = [text_width(label) for label in labels]
    wanted = font_size(width)
    for n_columns in (2, 1):
        n_rows = -(-len(labels) // n_columns)
        columns = [widths[:n_rows], widths[n_rows:]][:n_columns]
        # Each column has a handle, 2.3 font sizes with its space, and a space of 1.2 to the next.
        whole = sum(max(column, default=0) + 3.5 for column in columns) - 0.7
        fitting = 72 * width / whole
        if fitting >= 0.8 * wanted:
            break
    return LegendSize(min(wanted, fitting), n_columns, n_rows)


def draw_legend(ax: Axes, size: LegendSize, **params: Any) -> None:
    """Draw the legend of axes in a size."""
    legend = ax.legend(fontsize=size.font, ncols=size.n_columns, **_SPACES, **params)
    as_written(*legend.get_texts())


def title_size(titles: Sequence[str], width: float) -> float:
    """Font size of titles side by side, each in a width in inches."""
    return min(10, 72 * width / (max(map(text_width, titles)) + 1))


def draw_title(ax: Axes, name: str) -> None:
    """A title that is no wider than its axes."""
    title = ax.set_title("")
    text, size = fitted(name, size_of(ax)[0], float(title.get_fontsize()))
    title.set(text=text, fontsize=size)
    as_written(title)

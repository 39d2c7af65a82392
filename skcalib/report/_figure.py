"""The figure of a report: diagrams, histograms, sweep and a table in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skcalib._output.text import SMALLEST
from skcalib._rows.arrays import Floats
from skcalib.display import ConfidenceDisplay, ReliabilityDisplay, TemperatureSweepDisplay
from skcalib.display._axes import draw_title, new_figure, size_of
from skcalib.metrics import expected_calibration_error, maximum_calibration_error
from skcalib.metrics._proper_scores import brier_scores, log_losses

from ._evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def check_figure(figure: Any) -> None:
    """Raise a ValueError for what is no figure."""
    if figure is not None and not hasattr(figure, "add_gridspec"):
        raise ValueError(
            f"figure must be a matplotlib Figure or SubFigure, got {type(figure).__name__}. Pass "
            "ax.figure, or None for a new figure."
        )


def drawn(
    rows: Evaluation, sweep: TemperatureSweepDisplay, name: str, figure: Figure | SubFigure | None
) -> Figure | SubFigure:
    """The figure, which is a new one by default."""
    if figure is None:
        figure = new_figure((10, 8))
    if _is_upright(figure):
        grid = figure.add_gridspec(3, 2, height_ratios=(2.4, 0.9, 1))
        at_sweep, at_table = grid[2, 0], grid[2, 1]
    else:
        grid = figure.add_gridspec(2, 3, height_ratios=(1.55, 1), width_ratios=(1, 1, 1.05))
        at_sweep, at_table = grid[0, 2], grid[1, 2]
    histograms = []
    for column, (title, P) in enumerate([("Before", rows.before), (name, rows.after)]):
        diagram, histogram = (figure.add_subplot(grid[row, column]) for row in range(2))
        ReliabilityDisplay.from_predictions(rows.y, P, **rows.keywords, name=title, ax=diagram)
        ConfidenceDisplay.from_predictions(rows.y, P, **rows.keywords, ax=histogram)
        histograms.append(histogram)
    for ax in histograms:
        ax.set_ylim(0, max(ax.get_ylim()[1] for ax in histograms))
    panels: Any = (
        figure.add_subplot(at_sweep)
        if _is_upright(figure)
        else at_sweep.subgridspec(2, 1).subplots(sharex=True)
    )
    draw_title(sweep.plot(panels).ax_, "Logits divided by T")
    _table(figure.add_subplot(at_table), _measures(rows, rows.before), _measures(rows, rows.after))
    return figure


def _measures(rows: Evaluation, P: Floats) -> dict[str, float]:
    """The measures of the table, by name."""
    return {
        "log loss": rows.mean(log_losses(P, rows.index)),
        "Brier": rows.mean(brier_scores(P, rows.index)),
        "ECE": expected_calibration_error(rows.y, P, **rows.keywords),
        "MCE": maximum_calibration_error(rows.y, P, **rows.keywords),
        "accuracy": rows.mean(P.argmax(axis=1) == rows.index),
    }


def _table(ax: Axes, before: dict[str, float], after: dict[str, float]) -> None:
    lines = [f"{'':9}{'before':>9}{'after':>9}", ""]
    lines += [f"{key:9}{before[key]:9.4f}{after[key]:9.4f}" for key in before]
    width = 0.62 * len(lines[0])  # in font sizes
    ax.text(
        0.5, 0.5, "\n".join(lines), family="monospace", ha="center", va="center", linespacing=1.5,
        fontsize=min(10, max(72 * size_of(ax)[0] / width, SMALLEST)),
    )  # fmt: skip
    ax.set_axis_off()


def _is_upright(figure: Figure | SubFigure) -> bool:
    """Whether three diagrams have less room side by side than on top of each other."""
    return bool(figure.bbox.width < figure.bbox.height)

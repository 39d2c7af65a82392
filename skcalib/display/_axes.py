"""Shared by all displays: figures, entries of legends, titles that fit, rows and their bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from skcalib._output.text import as_written, fitted
from skcalib._scores.bins import Strategy
from skcalib._scores.columns import Scored
from skcalib.metrics import ReliabilityCurve, reliability_curve, score_decomposition
from skcalib.metrics._calibration_error import FORMULAS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Diagrams with sides of up to so many inches have smaller labels.
SMALL = 2.4


def new_figure(
    size: tuple[float, float], layout: Literal["constrained", "none"] = "constrained"
) -> Figure:
    """A figure of pyplot, of a size in inches."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout=layout)


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


def curve_of_class(
    rows: Scored, n_bins: int, strategy: Strategy | None
) -> tuple[ReliabilityCurve, bool]:
    """The bins of the rows of a class, and whether they are quantile bins for want of others.

    That is so without a strategy where all scores are in one uniform bin, which shows nothing.
    """
    curve = curve_of_rows(rows, n_bins, strategy or "uniform")
    if strategy is None and len(curve.n_samples) == 1 < n_bins:
        finer = curve_of_rows(rows, n_bins, "quantile")
        if len(finer.n_samples) > 1:
            return finer, True
    return curve, False


def ece_of(curve: ReliabilityCurve) -> float:
    """The expected calibration error of the bins."""
    return float(FORMULAS["expected_calibration_error"](curve))


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


def draw_title(ax: Axes, name: str) -> None:
    """A title that is no wider than its axes."""
    title = ax.set_title("")
    text, size = fitted(name, size_of(ax)[0], float(title.get_fontsize()))
    title.set(text=text, fontsize=size)
    as_written(title)

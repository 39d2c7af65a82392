"""Histogram of the confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._input.arrays import check_in_memory
from skcalib._input.measures import check_kind, columns_of
from skcalib._output import briefly, drawing
from skcalib._typing import ArrayLike, Kind, NBins
from skcalib.metrics import ReliabilityCurve, reliability_curve

from ._curves import axis_labels, binary_event

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D


class ConfidenceDisplay(drawing.ModelDisplay):
    r"""Histogram of the confidence, with its average and the accuracy.

    The confidence is the largest predicted probability in a row. A calibrated model's average
    confidence equals its accuracy, so the vertical lines at

    .. math:: \frac1N \sum_i w_i \max_k \hat p_{ik} \quad \text{and} \quad
        \frac1N \sum_i w_i\, 1[\hat y_i = y_i]

    coincide, where N is the total weight. The converse does not hold: over-confidence in one
    bin may cancel under-confidence in another bin, see :class:`ReliabilityDisplay`. For two classes
    the histogram shows by default the second class's predicted probability and frequency.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    curve : ReliabilityCurve
        The bins.
    name : str, default=None
        Title.
    event : str, default=None
        Event name for two classes, for the axis label.

    Attributes
    ----------
    curve : ReliabilityCurve
        The bins.
    share : ndarray of shape (n,)
        Share of the total weight in each bin.
    confidence : float
        Average confidence, or predicted probability.
    accuracy : float
        Accuracy, or event frequency.
    ax_ : matplotlib Axes
        Axes with the histogram.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    bars_ : matplotlib BarContainer
        The histogram.
    confidence_line_, accuracy_line_ : matplotlib Line2D
        Vertical lines at the average confidence and the accuracy.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, figure 1, top row.

    Examples
    --------
    >>> from skcalib import ConfidenceDisplay
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> display = ConfidenceDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test)
    >>> round(display.confidence, 2), round(display.accuracy, 2)
    (0.97, 0.87)
    """

    bars_: BarContainer
    confidence_line_: Line2D
    accuracy_line_: Line2D

    def __init__(
        self, curve: ReliabilityCurve, *, name: str | None = None, event: str | None = None
    ) -> None:
        self.curve = curve
        self.name = name
        self.event = event
        self.share = curve.share
        self.confidence = float(curve.share @ curve.confidence)
        self.accuracy = float(curve.share @ curve.accuracy)

    def _summary(self) -> str:
        score, frequency = self._score_name(), axis_labels(self.curve.kind)[1].lower()
        return f"mean {score} {briefly(self.confidence)}, {frequency} {briefly(self.accuracy)}"

    def _score_name(self) -> str:
        return "confidence" if self.curve.kind == "top-label" else "probability"

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: NBins = 15,
        kind: Kind = "auto",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        legend: bool | str = True,
        color: Any = None,
    ) -> Self:
        """Draw the histogram for labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, n_bins, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.reliability_curve`.
        kind : {"auto", "top-label", "binary"}, default="auto"
            The confidence, or the event's probability for two classes, as for
            :func:`skcalib.metrics.reliability_curve`.
        name : str, default=None
            Title.
        ax, legend, color
            As for :meth:`plot`.

        Returns
        -------
        ConfidenceDisplay
            With the histogram drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.reliability_curve` and :meth:`plot`.
        """
        check_kind(kind, ["auto", "top-label", "binary"])
        check_in_memory((y_true, y_proba, sample_weight))
        columns = columns_of(y_true, y_proba, kind, sample_weight, labels, pos_label)
        rows: Any = columns.rows  # checked
        curve = reliability_curve(
            rows.y, rows, n_bins=n_bins, kind=columns.kind, pos_label=pos_label
        )
        display = cls(curve, name=name, event=binary_event(columns, pos_label))
        return display.plot(ax, legend=legend, color=color)

    def plot(self, ax: Axes | None = None, *, legend: bool | str = True, color: Any = None) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        legend : bool or str, default=True
            Whether to draw the legend, or a matplotlib location. By default it is above a new
            figure, and at the best location inside your axes.
        color : matplotlib colour, default=None
            Colour of the bars; by default the first colour in the style.

        Returns
        -------
        ConfidenceDisplay
            The display itself, with its attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If the legend's location is unknown.
        """
        from matplotlib.colors import to_rgba

        ax, curve = self._prepare(ax, (5.2, 4), legend), self.curve
        colour = to_rgba("C0" if color is None else color)
        self.bars_ = ax.bar(
            curve.lower, self.share, curve.upper - curve.lower, align="edge",
            facecolor=(*colour[:3], 0.35), edgecolor=colour, linewidth=0.8,
        )  # fmt: skip
        xlabel, frequency = axis_labels(curve.kind, self.event)
        # Draw the dashed line on top of the wide line: both are visible where they coincide.
        self.accuracy_line_ = ax.axvline(
            self.accuracy, color=drawing.foreground(ax, 0.5), linewidth=4,
            label=f"{frequency} {briefly(self.accuracy)}",
        )  # fmt: skip
        self.confidence_line_ = ax.axvline(
            self.confidence, color=to_rgba("C1"), linestyle="--", linewidth=1.8,
            label=f"Average {self._score_name()} {briefly(self.confidence)}",
        )  # fmt: skip
        drawing.draw_as_written(ax.set_xlabel(xlabel))
        ax.set_xlim(0, 1)
        if ax.get_ylim()[1] > 1:  # the margin exceeds 1, no share does
            ax.set_ylim(top=1)
        is_weighted = not np.array_equal(curve.weight, curve.n_samples)
        rows = f"{curve.n_samples.sum():,.0f} rows"
        ax.set_ylabel(f"Share of weight of {rows}" if is_weighted else f"Share of {rows}")
        drawing.draw_title(ax, self.name)
        drawing.draw_legend(ax, [self.confidence_line_, self.accuracy_line_], legend=legend)
        return self

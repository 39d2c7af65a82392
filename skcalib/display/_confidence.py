"""Histogram of the confidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._output import briefly
from skcalib._output.theme import Theme
from skcalib._rows import ArrayLike
from skcalib.metrics import ReliabilityCurve
from skcalib.metrics._input import Kind, check_kind, scored_rows

from ._curves import curve_of_rows, with_weight
from ._layout import ModelDisplay, check_legend, draw_legend, draw_title, make_room
from ._style import AXIS_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D


class ConfidenceDisplay(ModelDisplay):
    r"""Histogram of the confidence, or the probability of an event, with the accuracy or frequency.

    The confidence of a row is its largest predicted probability. The average confidence of a
    calibrated model is its accuracy, so the vertical lines at

    .. math:: \frac1N \sum_i w_i \max_k \hat p_{ik} \quad \text{and} \quad
        \frac1N \sum_i w_i\, 1[\hat y_i = y_i]

    coincide, with N the sum of the weights. The converse does not hold, because over-confidence in
    one bin and under-confidence in another may cancel, see :class:`ReliabilityDisplay`. Of two
    classes by default the second is an event, with its predicted probability and its frequency.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display.

    Parameters
    ----------
    curve : ReliabilityCurve
        The bins.
    name : str, default=None
        Title.

    Attributes
    ----------
    curve : ReliabilityCurve
        The bins.
    share : ndarray of shape (n,)
        Share of the weight of all rows in each bin.
    confidence : float
        Average confidence, or predicted probability.
    accuracy : float
        Accuracy, or frequency of the event.
    ax_ : matplotlib Axes
        Axes with the histogram.
    figure_ : matplotlib Figure
        Figure that contains them.
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

    def __init__(self, curve: ReliabilityCurve, *, name: str | None = None) -> None:
        self.curve = curve
        self.name = name
        self.share = curve.weight / curve.weight.sum()
        self.confidence = float(np.sum(self.share * curve.confidence))
        self.accuracy = float(np.sum(self.share * curve.accuracy))

    def _summary(self) -> str:
        score, frequency = map(str.lower, AXIS_NAMES[self.curve.kind])
        return f"mean {score} {briefly(self.confidence)}, {frequency} {briefly(self.accuracy)}"

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: int = 15,
        kind: Kind = "auto",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the histogram of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, n_bins, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.reliability_curve`.
        kind : {"auto", "top-label", "binary"}, default="auto"
            The confidence, or the probability of the event of two classes, likewise.
        name : str, default=None
            Title.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

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
        kind, rows = scored_rows(y_true, y_proba, kind, sample_weight, labels, pos_label)
        curve = curve_of_rows(with_weight(next(rows)), n_bins, "uniform")
        return cls(replace(curve, kind=kind), name=name).plot(ax, **plot_params)

    def plot(self, ax: Axes | None = None, *, legend: bool | str = True) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        legend : bool or str, default=True
            Whether to draw the legend, above the axes, or a location of matplotlib within them.

        Returns
        -------
        ConfidenceDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For an unknown location of the legend.
        """
        check_legend(legend)
        ax = self._on(ax, (5.2, 4))
        theme, c = Theme.of(ax), self.curve
        colour, other = (theme.models * 2)[:2]  # a style may have a single colour
        filling = theme.mixed(colour, 0.3)
        self.bars_ = ax.bar(
            c.lower, self.share, c.upper - c.lower, align="edge", color=filling,
            edgecolor=colour, linewidth=0.8,
        )  # fmt: skip
        self._draw_lines(theme, theme._replace(background=filling).legible(other))
        ax.set(xlim=(0, 1), xlabel=AXIS_NAMES[c.kind][0])
        if ax.get_ylim()[1] > 1:  # with the margin of the axes; no share is larger
            ax.set_ylim(top=1)
        weighted = not np.array_equal(c.weight, c.n_samples)
        ax.set_ylabel(f"Share of {'weight of ' * weighted}{c.n_samples.sum():,.0f} rows")
        if self.name is not None:
            draw_title(ax, self.name)
        draw_legend(ax, [self.confidence_line_, self.accuracy_line_], legend=legend)
        make_room(ax)
        return self

    def _draw_lines(self, theme: Theme, colour: Any) -> None:
        """A wide line below a narrow dashed one with an outline, seen even where they coincide."""
        from matplotlib.patheffects import withStroke

        score, frequency = AXIS_NAMES[self.curve.kind]
        self.accuracy_line_ = self.ax_.axvline(
            self.accuracy, color=theme.foreground, linewidth=2.5,
            label=f"{frequency} {briefly(self.accuracy)}",
        )  # fmt: skip
        self.confidence_line_ = self.ax_.axvline(
            self.confidence, color=colour, linestyle="--", linewidth=1.6,
            path_effects=[withStroke(linewidth=4, foreground=theme.background)],
            label=f"Average {score.split()[-1].lower()} {briefly(self.confidence)}",
        )  # fmt: skip

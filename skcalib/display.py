"""Reliability diagrams as scikit-learn displays. matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ._binned import ReliabilityCurve, Strategy, reliability_curve
from ._events import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

__all__ = ["ReliabilityDisplay"]

# From the palette of Okabe and Ito, which people with any colour vision can tell apart.
BLUE, VERMILION, GREY = "#56B4E9", "#D55E00", "#555555"

# Upper limit of axes that carry the histogram of rows above the diagram.
TOP = 1.22

_AXIS_NAMES = {
    "top-label": ("Confidence", "Accuracy"),
    "binary": ("Predicted probability", "Observed frequency"),
}


class ReliabilityDisplay:
    """Reliability diagram: the accuracy in each bin against the confidence.

    Bars show the accuracy, hatched bars the gap between it and the mean confidence of the bin
    (their mean, weighted by the rows in the bin, is the ECE), whiskers a Clopper-Pearson
    interval of the accuracy. A slim histogram on top shows how many rows each bin has, so that
    a bar that stands on a handful of rows is seen to.

    Use :meth:`from_estimator` or :meth:`from_predictions` to make one.

    Parameters
    ----------
    curve : ReliabilityCurve
        The bins.
    kind : {"top-label", "binary"}, default="top-label"
        What the bins are of, for the names of the axes.
    name : str, default=None
        Title of the diagram.

    Attributes
    ----------
    curve : ReliabilityCurve
        The bins.
    expected_calibration_error : float
        The ECE of the bins.
    ax_ : matplotlib Axes
        Axes with the diagram.
    counts_ax_ : matplotlib Axes or None
        Axes with the histogram of rows.
    figure_ : matplotlib Figure
        Figure that contains them.
    bars_, gaps_, counts_ : matplotlib BarContainer
        Bars of accuracy, of gaps and of counts (or None).
    intervals_ : matplotlib ErrorbarContainer or None
        Whiskers.
    diagonal_ : matplotlib Line2D
        Line of perfect calibration.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, figure 1.

    Examples
    --------
    >>> from skcalib import ReliabilityDisplay
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> display = ReliabilityDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test)
    >>> display.expected_calibration_error > 0.05
    True
    """

    ax_: Axes
    counts_ax_: Axes | None
    figure_: Figure | SubFigure
    bars_: BarContainer
    gaps_: BarContainer
    counts_: BarContainer | None
    intervals_: ErrorbarContainer | None
    diagonal_: Line2D

    def __init__(
        self, curve: ReliabilityCurve, *, kind: str = "top-label", name: str | None = None
    ) -> None:
        self.curve = curve
        self.kind = kind
        self.name = name

    @property
    def expected_calibration_error(self) -> float:
        """The ECE of the bins."""
        return float(np.average(np.abs(self.curve.gap), weights=self.curve.weight))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        kind: Kind = "top-label",
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the diagram of a fitted classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted classifier with ``predict_proba``, or a pipeline that ends with one.
        X : array-like of shape (n_samples, n_features)
            Input that it was not fitted on.
        y : array-like of shape (n_samples,)
            Labels.
        n_bins, strategy, kind, sample_weight, pos_label
            As for :func:`skcalib.metrics.reliability_curve`.
        name : str, default=None
            Title; by default the name of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay
            With the diagram drawn.
        """
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            n_bins=n_bins,
            strategy=strategy,
            kind=kind,
            sample_weight=sample_weight,
            labels=estimator.classes_,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **plot_params,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        kind: Kind = "top-label",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the diagram of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.reliability_curve`; ``kind`` is ``"top-label"`` or
            ``"binary"``.
        name : str, default=None
            Title; by default none.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay
            With the diagram drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.reliability_curve`.
        """
        if kind == "classwise":
            raise ValueError(
                "A diagram shows one score, got kind='classwise', which has one per class. Pass "
                "y_true == label and y_proba[:, k] with kind='binary' for the diagram of a class."
            )
        curve = reliability_curve(
            y_true,
            y_proba,
            n_bins=n_bins,
            strategy=strategy,
            kind=kind,
            sample_weight=sample_weight,
            labels=labels,
            pos_label=pos_label,
        )
        return cls(curve, kind=kind, name=name).plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        confidence_level: float | None = 0.95,
        counts: bool = True,
    ) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Title; by default the ``name`` of the display.
        confidence_level : float or None, default=0.95
            Of the whiskers; None for no whiskers.
        counts : bool, default=True
            Whether to draw the histogram of rows on top.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with the attributes that end in an underscore set.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw_bars(ax)
        self.intervals_ = self._draw_intervals(ax, confidence_level)
        self.counts_ax_, self.counts_ = self._draw_counts(ax) if counts else (None, None)
        self._label(ax, self.name if name is None else name)
        return self

    def _draw_bars(self, ax: Axes) -> None:
        c = self.curve
        place: dict[str, Any] = {"x": c.lower, "width": c.upper - c.lower, "align": "edge"}
        self.diagonal_ = ax.plot(
            [0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="Perfect"
        )[0]
        self.bars_ = ax.bar(
            height=c.accuracy,
            color=BLUE,
            edgecolor="white",
            linewidth=0.5,
            label=_AXIS_NAMES[self.kind][1],
            **place,
        )
        self.gaps_ = ax.bar(
            height=c.gap,
            bottom=c.accuracy,
            facecolor=(*_rgb(VERMILION), 0.25),
            edgecolor=VERMILION,
            linewidth=0.5,
            hatch="////",
            label=f"Gap (ECE = {self.expected_calibration_error:.3f})",
            **place,
        )

    def _draw_intervals(self, ax: Axes, level: float | None) -> ErrorbarContainer | None:
        if level is None:
            return None
        c = self.curve
        low, high = c.interval(level)
        whiskers = np.maximum([c.accuracy - low, high - c.accuracy], 0)
        return ax.errorbar(
            (c.lower + c.upper) / 2,
            c.accuracy,
            yerr=whiskers,
            fmt="none",
            ecolor="black",
            elinewidth=0.8,
            label=f"{100 * level:g} % interval",
        )

    def _draw_counts(self, ax: Axes) -> tuple[Axes, BarContainer]:
        # Inside the axes, above 1: what lies outside of axes is beyond their user's layout.
        strip = ax.inset_axes((0, 1.04, 1, TOP - 1.04), transform=ax.transData)
        c = self.curve
        bars = strip.bar(c.lower, c.n_samples, c.upper - c.lower, align="edge", color=GREY)
        most = int(c.n_samples.max())
        strip.set(xlim=(0, 1), ylim=(0, most), xticks=[])
        strip.set_yticks([most], [f"{most:,}"])
        strip.set_ylabel("Rows")
        strip.spines[["top", "right"]].set_visible(False)
        return strip, bars

    def _label(self, ax: Axes, name: str | None) -> None:
        score, event = _AXIS_NAMES[self.kind]
        ax.set(xlabel=score, ylabel=event, aspect="equal", xlim=(0, 1))
        ax.set(xticks=np.linspace(0, 1, 5), yticks=np.linspace(0, 1, 5))
        if self.counts_ax_ is None:
            ax.set_ylim(0, 1)
        else:
            ax.set_ylim(0, TOP)
            ax.spines[["left", "right"]].set_bounds(0, 1)
            ax.spines["top"].set_position(("data", 1))
        if name is not None:
            ax.set_title(name)
        width = ax.get_window_extent().width / ax.figure.dpi
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(0, 1),
            bbox_transform=ax.transData,
            fontsize=min(max(2.8 * width, 5.5), 9),
            handlelength=1.5,
            borderaxespad=0.3,
        )


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)

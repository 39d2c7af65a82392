"""Reliability diagrams: bars, dots or curves, of one model, of several, or of each class.

Several diagrams may share their axes: what is on them already is told from the artists there,
which carry a group id, so that a picture that was cleared or pickled is read correctly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.utils import check_random_state

from skcalib._engine.ranking import Ranked, ranked
from skcalib._scores.bins import Strategy
from skcalib._scores.columns import Scored
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._typing import Floats
from skcalib._validation.labels import shown
from skcalib._validation.parameters import check_integer, check_option, check_real
from skcalib.metrics import ReliabilityCurve
from skcalib.metrics._input import Kind, scored_rows

from ._axes import (
    BLUE,
    DARK_BLUE,
    GREY,
    VERMILION,
    as_written,
    curve_of_rows,
    entry,
    fitting,
    new_figure,
    size_of,
    title_size,
    with_weight,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.container import BarContainer, ErrorbarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch
    from matplotlib.transforms import Bbox

Style = Literal["bars", "dots", "corp"]

Scale = Literal["linear", "logit"]

# One after the other for the models on the same axes. Markers tell them apart without colour.
COLOURS = (DARK_BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", BLUE, "black")

MARKERS = "os^DvPX"

# The strip with the histogram of rows, above the diagram, in heights of the diagram.
STRIP = (1.04, 1.22)

# Positions on the score axis at which the band of a calibrated model is computed.
GRID = 200

# Closer to 0 and 1 than that, logit axes do not go.
NEAREST = 1e-6

# Group ids of artists.
DIAGONAL, MODEL, ROWS = "skcalib-diagonal", "skcalib-model", "skcalib-rows"

# Zero is far away, and not nowhere: lines towards it are drawn.
_SCALES: dict[str, dict[str, Any]] = {"linear": {}, "logit": {"nonpositive": "clip"}}

_AXIS_NAMES = {
    "top-label": ("Confidence", "Accuracy"),
    "binary": ("Predicted probability", "Observed frequency"),
}


class ReliabilityDisplay:
    r"""Reliability diagram: how often a model is right against how sure it is.

    There are three styles.

    - ``"bars"``: the accuracy of each bin, and hatched the gap between it and the mean confidence
      of the bin. The mean of the gaps, weighted by the rows in the bin, is the ECE.
    - ``"dots"``: the accuracy of each bin at its mean confidence, joined by a thin line.
    - ``"corp"``: no bins. The curve is the isotonic regression of the events on the scores [2]_,

      .. math:: \hat f = \arg\min_{f \text{ non-decreasing}}
          \sum_i w_i\, (1[\text{event}_i] - f(\text{score}_i))^2 ,

      and the band is where it would lie, score by score, if the model were calibrated: events
      are drawn from the scores many times, and the regression is done again.

    Whiskers are Clopper-Pearson intervals of the accuracy. A slim histogram on top shows how many
    rows each bin has, so that a bar that stands on a handful of rows is seen to.

    Use :meth:`from_estimator` or :meth:`from_predictions` to make one. Several models can share
    their axes in the styles ``"dots"`` and ``"corp"``: each takes the next colour.

    Parameters
    ----------
    curve : ReliabilityCurve
        The bins.
    kind : {"top-label", "binary"}, default="top-label"
        What the bins are of, for the names of the axes.
    name : str, default=None
        Name of the model: the title of bars, else the entry in the legend.
    rows : named tuple (label, score, event, weight), default=None
        Scores, events and weights (or None) of the rows as arrays of shape (n_samples,), which
        ``style="corp"`` needs.

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
    bars_, gaps_ : matplotlib BarContainer or None
        Bars of accuracy and of gaps, with ``style="bars"``.
    counts_ : matplotlib BarContainer, StepPatch or None
        Histogram of rows: bars, or an outline with the other styles.
    intervals_ : matplotlib ErrorbarContainer or None
        Whiskers.
    line_ : matplotlib Line2D or None
        Dots or curve.
    band_ : matplotlib FillBetweenPolyCollection or None
        Band of a calibrated model, with ``style="corp"``.
    diagonal_ : matplotlib Line2D
        Line of perfect calibration.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, figure 1.
    .. [2] Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic
       classifiers", PNAS 118, 2021, `arXiv:2008.03033 <https://arxiv.org/abs/2008.03033>`_.

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
    bars_: BarContainer | None
    gaps_: BarContainer | None
    counts_: BarContainer | StepPatch | None
    intervals_: ErrorbarContainer | None
    line_: Line2D | None
    band_: FillBetweenPolyCollection | None
    diagonal_: Line2D

    def __init__(
        self,
        curve: ReliabilityCurve,
        *,
        kind: str = "top-label",
        name: str | None = None,
        rows: Scored | None = None,
    ) -> None:
        self.curve = curve
        self.kind = kind
        self.name = name
        self.rows = None if rows is None else with_weight(rows)

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
        classes: ArrayLike | None = None,
        max_classes: int = 9,
        figure: Figure | SubFigure | None = None,
        **plot_params: Any,
    ) -> Self | Any:
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
            Name of the model; by default the name of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        classes, max_classes, figure
            Of ``kind="classwise"``, as for :meth:`from_predictions`.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay or ReliabilityGridDisplay
            With the diagram drawn; a grid with ``kind="classwise"``.
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
            classes=classes,
            max_classes=max_classes,
            figure=figure,
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
        classes: ArrayLike | None = None,
        max_classes: int = 9,
        figure: Figure | SubFigure | None = None,
        **plot_params: Any,
    ) -> Self | Any:
        """Draw the diagram of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, n_bins, strategy, kind, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.reliability_curve`. With ``kind="classwise"`` there is
            one small diagram for each class.
        name : str, default=None
            Name of the model; by default none.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        classes : array-like, default=None
            With ``kind="classwise"`` the labels to draw, in this order. By default the classes
            with the largest ECE, the largest first.
        max_classes : int, default=9
            How many classes to draw at most, unless ``classes`` are given.
        figure : matplotlib Figure or SubFigure, default=None
            With ``kind="classwise"`` where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay or ReliabilityGridDisplay
            With the diagram drawn; a grid with ``kind="classwise"``.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.reliability_curve` and :meth:`plot`; for ``classes`` that
            are not among the labels; for ``ax`` with ``kind="classwise"``, and for ``classes`` or
            ``figure`` without.
        """
        of_rows = scored_rows(y_true, y_proba, kind, sample_weight, labels, pos_label)
        if kind == "classwise":
            _check_grid(ax, classes, max_classes)
            displays = [cls._of_rows(rows, "binary", n_bins, strategy) for rows in of_rows]
            chosen = _chosen(displays, classes, max_classes)
            return ReliabilityGridDisplay(chosen, name=name).plot(figure, **plot_params)
        if classes is not None or figure is not None:
            given = "classes" if classes is not None else "figure"
            raise ValueError(
                f"{given} is for kind='classwise', got kind={kind!r}. Leave it out, or pass "
                "kind='classwise' for a diagram of each class."
            )
        display = cls._of_rows(next(of_rows), kind, n_bins, strategy)
        display.name = name
        return display.plot(ax, **plot_params)

    @classmethod
    def _of_rows(cls, rows: Scored, kind: str, n_bins: int, strategy: Strategy) -> Self:
        rows = with_weight(rows)
        curve = curve_of_rows(rows, n_bins, strategy)
        name = None if rows.label is None else str(rows.label)
        return cls(curve, kind=kind, name=name, rows=rows)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        style: Style = "bars",
        scale: Scale = "linear",
        confidence_level: float | None = 0.95,
        counts: bool = True,
        legend: bool = True,
        n_resamples: int = 200,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes with the dots or curves of other models
            take this one as well.
        name : str, default=None
            Title of bars, or entry in the legend; by default the ``name`` of the display.
        style : {"bars", "dots", "corp"}, default="bars"
            Bars with gaps, dots with whiskers, or the isotonic curve with its band.
        scale : {"linear", "logit"}, default="linear"
            Of both axes. ``"logit"`` spreads the probabilities near 0 and 1, where rare events
            are. Its limits come from the data, but are no nearer to 0 and 1 than a tenth of a row
            in all. Frequencies of exactly 0 or 1 lie beyond them: only their whiskers are seen.
            Not for bars, which begin at 0.
        confidence_level : float or None, default=0.95
            Of the whiskers or the band; None for neither.
        counts : bool, default=True
            Whether to draw the histogram of rows on top.
        legend : bool, default=True
            Whether to draw the legend.
        n_resamples : int, default=200
            How often events are drawn for the band.
        random_state : int, RandomState instance or None, default=0
            Seed or generator for it.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For an unknown style or scale, a confidence level outside of (0, 1), fewer than one
            resample, bars on logit axes or on axes with another diagram, axes with a diagram of
            another kind or scale, or ``style="corp"`` without rows.
        """
        self._check(style, scale, confidence_level, n_resamples)
        if ax is None:
            ax = new_figure((5.2, 6.2)).subplots()
        look = _Look.next_on(ax, style, self.kind, scale)
        # Matplotlib overflows where artists at infinity are added to logit axes.
        ax.set(xscale="linear", yscale="linear")
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_ = self.gaps_ = self.intervals_ = self.line_ = self.band_ = None
        self.diagonal_ = _diagonal(ax)
        name = self.name if name is None else name
        if style == "bars":
            self._draw_bars(ax, confidence_level, name)
        elif style == "dots":
            self._draw_dots(ax, confidence_level, look, look.label(name, self.kind))
        else:
            self._draw_band(ax, confidence_level, n_resamples, random_state, look)
            self._draw_curve(ax, look, look.label(name, self.kind))
        self.counts_ax_, self.counts_ = self._draw_counts(ax, look) if counts else (None, None)
        ax.set(xlabel=_AXIS_NAMES[self.kind][0], ylabel=_AXIS_NAMES[self.kind][1])
        _arrange(ax, scale, self._limits(ax, look), legend=legend)
        return self

    def _check(self, style: str, scale: str, level: float | None, n_resamples: int) -> None:
        check_option("style", style, Style)
        check_option("scale", scale, Scale)
        if level is not None:
            remedy = "Pass None for no whiskers and no band."
            check_real("confidence_level", level, high=1, remedy=remedy)
        check_integer("n_resamples", n_resamples)
        if style == "bars" and scale == "logit":
            raise ValueError(
                "Bars begin at 0, which logit axes do not have, got style='bars' and "
                "scale='logit'. Pass style='dots' or style='corp'."
            )
        if style == "corp" and self.rows is None:
            raise ValueError(
                "style='corp' needs the rows, got rows=None and bins alone. Use from_predictions, "
                "or pass rows= to the constructor."
            )

    def _draw_bars(self, ax: Axes, level: float | None, name: str | None) -> None:
        c = self.curve
        place: dict[str, Any] = {"x": c.lower, "width": c.upper - c.lower, "align": "edge"}
        self.bars_ = ax.bar(
            height=c.accuracy,
            color=BLUE,
            edgecolor="white",
            linewidth=0.5,
            label=_AXIS_NAMES[self.kind][1],
            **place,
        )
        self.bars_[0].set_gid(f"{MODEL}-bars-{self.kind}")
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
        self._draw_intervals(ax, (c.lower + c.upper) / 2, level, "black")
        if name is not None:
            as_written(ax.set_title(name))

    def _draw_dots(self, ax: Axes, level: float | None, look: _Look, label: str) -> None:
        c = self.curve
        self._draw_intervals(ax, c.confidence, level, look.colour)
        self.line_ = ax.plot(
            c.confidence,
            c.accuracy,
            color=look.colour,
            marker=look.marker,
            markersize=4.5,
            clip_on=look.scale == "logit",
            linewidth=0.8,
            label=f"{label} (ECE = {self.expected_calibration_error:.3f})",
            gid=f"{MODEL}-dots-{self.kind}",
        )[0]

    def _draw_curve(self, ax: Axes, look: _Look, label: str) -> None:
        assert self.rows is not None
        self.line_ = ax.plot(
            *_isotonic_curve(self.rows),
            color=look.colour,
            linestyle=look.dashes,
            linewidth=1.5,
            clip_on=look.scale == "logit",
            label=label,
            gid=f"{MODEL}-corp-{self.kind}",
        )[0]

    def _draw_intervals(self, ax: Axes, x: Floats, level: float | None, colour: str) -> None:
        if level is None:
            return
        c = self.curve
        low, high = c.interval(level)
        self.intervals_ = ax.errorbar(
            x,
            c.accuracy,
            yerr=np.maximum([c.accuracy - low, high - c.accuracy], 0),
            fmt="none",
            ecolor=colour,
            elinewidth=0.8,
            label=_once(ax, f"{100 * level:g} % interval"),
        )

    def _draw_band(
        self, ax: Axes, level: float | None, n_resamples: int, random_state: Any, look: _Look
    ) -> None:
        if level is None:
            return
        assert self.rows is not None
        self.band_ = ax.fill_between(
            *_consistency_band(self.rows, level, n_resamples, random_state),
            color=look.colour,
            alpha=0.2,
            linewidth=0,
            label=_once(ax, f"{100 * level:g} % band if calibrated"),
        )

    def _draw_counts(self, ax: Axes, look: _Look) -> tuple[Axes, BarContainer | StepPatch]:
        strip = _strip(ax)
        c = self.curve
        most = float(c.n_samples.max())
        if strip is None:
            # Inside the axes: what lies outside of axes is beyond their user's layout.
            strip = ax.inset_axes((0, 0, 1, 1), gid=ROWS)
            strip.set_axes_locator(_Place(ax))
        else:
            strip.set_xscale("linear")
            most = max(most, strip.get_ylim()[1])
        counts: BarContainer | StepPatch
        if look.style == "bars":
            counts = strip.bar(c.lower, c.n_samples, c.upper - c.lower, align="edge", color=GREY)
        else:
            counts = strip.stairs(*_outline(c), color=look.colour, linestyle=look.dashes)
        strip.set_ylim(0, most)
        strip.set_yticks([most], [f"{most:,.0f}"])
        strip.set_ylabel("Rows")
        strip.spines[["top", "right"]].set_visible(False)
        return strip, counts

    def _limits(self, ax: Axes, look: _Look) -> tuple[float, float]:
        if look.scale == "linear":
            return 0.0, 1.0
        x = np.append(self.curve.confidence, self.curve.accuracy)
        if look.style == "corp":
            assert self.rows is not None
            assert self.line_ is not None
            # A handful of extreme scores must not squeeze all others, nor those at infinity.
            score, value = np.asarray(self.line_.get_data())
            score = np.clip(score, *np.quantile(self.rows.score, [0.005, 0.995]))
            x = np.append(score, value)[np.tile((value > 0) & (value < 1), 2)]
        # So many rows cannot tell frequencies nearer to 0 and 1 apart.
        nearest = max(NEAREST, 0.1 / self.curve.n_samples.sum())
        z = logit(np.clip(x[(x > 0) & (x < 1)], nearest, 1 - nearest))
        low, high = (z.min(), z.max()) if len(z) else (-2.0, 2.0)
        margin = max(0.05 * (high - low), 0.3)
        low, high = expit(low - margin), expit(high + margin)
        if look.number:
            low, high = min(low, ax.get_xlim()[0]), max(high, ax.get_xlim()[1])
        return float(low), float(high)


class ReliabilityGridDisplay:
    """Reliability diagrams of several classes in one figure.

    Made by ``ReliabilityDisplay.from_predictions(..., kind="classwise")``. The title of each
    diagram has the label of the class, the number of rows that have it, and the ECE of its
    probabilities.

    Parameters
    ----------
    displays : list of ReliabilityDisplay
        One for each class, with the label as its name.
    name : str, default=None
        Name of the model, above the legend.

    Attributes
    ----------
    displays_ : list of ReliabilityDisplay
        The diagrams, drawn.
    figure_ : matplotlib Figure or SubFigure
        Figure that contains them.
    axes_ : list of matplotlib Axes
        Axes of the diagrams, row by row.
    legend_ : matplotlib Legend
        The legend of all.

    Examples
    --------
    >>> from skcalib import ReliabilityDisplay
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> grid = ReliabilityDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test, kind="classwise", max_classes=4)
    >>> [display.name for display in grid.displays_]
    ['8', '1', '9', '4']
    """

    displays_: list[ReliabilityDisplay]
    figure_: Figure | SubFigure
    axes_: list[Axes]
    legend_: Any

    def __init__(self, displays: Sequence[ReliabilityDisplay], *, name: str | None = None) -> None:
        self.displays = list(displays)
        self.name = name

    def plot(
        self,
        figure: Figure | SubFigure | None = None,
        *,
        n_columns: int | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the diagrams.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Where to draw; by default a new figure.
        n_columns : int, default=None
            How many stand beside each other; by default as many as there are rows of them, or one
            more.
        **plot_params
            Passed to :meth:`ReliabilityDisplay.plot` of each.

        Returns
        -------
        ReliabilityGridDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If ``n_columns`` is no number of columns.
        """
        if n_columns is None:
            n_columns = int(np.ceil(np.sqrt(len(self.displays))))
        check_integer("n_columns", n_columns)
        n_rows = -(-len(self.displays) // n_columns)
        if figure is None:
            figure = new_figure((max(2.7 * n_columns, 4.5), 3.3 * n_rows + 0.8))
        titles = [_title(display) for display in self.displays]
        size = title_size(titles, figure.bbox.width / figure.dpi / n_columns)
        self.figure_, self.axes_, self.displays_ = figure, [], []
        for k, display in enumerate(self.displays):
            ax = figure.add_subplot(n_rows, n_columns, k + 1)
            display.plot(ax, **{**plot_params, "legend": False})
            as_written(ax.set_title(titles[k], fontsize=size))
            ax.set(xlabel="", ylabel="")
            if display.counts_ax_ is not None and k % n_columns:
                display.counts_ax_.set_ylabel("")
            self.axes_.append(ax)
            self.displays_.append(display)
        score, event = _AXIS_NAMES[display.kind]
        figure.supxlabel(score)
        figure.supylabel(event)
        self.legend_ = _grid_legend(figure, self.displays_[0], self.name)
        return self


class _Look(NamedTuple):
    """How a model is drawn on axes that hold some others already."""

    style: str
    scale: str
    number: int  #: how many others

    @classmethod
    def next_on(cls, ax: Axes, style: str, kind: str, scale: str) -> Self:
        """The look of the next model, or a ValueError if it cannot join those on the axes."""
        found = [str(artist.get_gid()) for artist in (*ax.patches, *ax.lines)]
        others = [gid.removeprefix(f"{MODEL}-") for gid in found if gid.startswith(MODEL)]
        if others and "bars" in (style, others[0].split("-")[0]):
            raise ValueError(
                "Bars of two models would hide each other: ax must hold no other diagram, got axes "
                "with one. Pass style='dots' or style='corp' for each, or other axes."
            )
        for other in others:
            if other.split("-", 1)[1] != kind:
                raise ValueError(
                    "Diagrams on the same axes must be of one kind, got "
                    f"kind={kind!r} on axes with kind={other.split('-', 1)[1]!r}. Pass other axes."
                )
        if others and ax.get_xscale() != scale:
            raise ValueError(
                f"Diagrams on the same axes must have one scale, got scale={scale!r} on axes with "
                f"scale={ax.get_xscale()!r}. Pass the same scale, or other axes."
            )
        return cls(style, scale, len(others))

    @property
    def colour(self) -> str:
        """Colour of the model."""
        return COLOURS[self.number % len(COLOURS)]

    @property
    def marker(self) -> str:
        """Its marker."""
        return MARKERS[self.number % len(MARKERS)]

    @property
    def dashes(self) -> Any:
        """Its line style."""
        styles: list[Any] = ["-", (0, (6, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1.5, 1.5))]
        return styles[self.number % len(styles)]

    def label(self, name: str | None, kind: str) -> str:
        """Its entry in the legend."""
        if name is not None:
            return entry(name)
        return f"Model {self.number + 1}" if self.number else _AXIS_NAMES[kind][1]


class _Place:
    """Locator of the strip with the histogram: a part of other axes, which can be changed."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax
        self.bottom, self.top = 0.0, 1.0

    def __call__(self, strip: Any, renderer: Any) -> Bbox:  # noqa: ARG002
        from matplotlib.transforms import Bbox, TransformedBbox

        box = Bbox.from_extents(0, self.bottom, 1, self.top)
        return TransformedBbox(box, self.ax.transAxes - self.ax.figure.transSubfigure)  # type: ignore[return-value]


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _isotonic_curve(rows: Scored) -> tuple[Floats, Floats]:
    """Corners of the isotonic regression of the events on the scores."""
    return _corners(ranked(rows.score, rows.event, rows.weight))


def _corners(rows: Ranked) -> tuple[Floats, Floats]:
    blocks = isotonic_blocks(rows)
    ends = np.stack([rows.scores[blocks.start], rows.scores[blocks.end]], axis=1)
    return ends.ravel(), np.repeat(blocks.value, 2)


def _consistency_band(
    rows: Scored, level: float, n_resamples: int, random_state: Any
) -> tuple[Floats, Floats, Floats]:
    """Scores, and the quantiles there of the curves of a calibrated model."""
    random = check_random_state(random_state)
    score, w = rows.score, rows.weight
    in_order = ranked(score, None, w)
    place = np.searchsorted(in_order.scores, score, side="right") - 1
    # Where the rows are, and where they are not but the axis is long.
    some = np.linspace(0, len(in_order.scores) - 1, GRID // 2).round().astype(np.intp)
    at = in_order.scores[some]
    at = np.union1d(at, np.linspace(at[0], at[-1], GRID // 2))
    curves = np.empty((n_resamples, len(at)))
    for curve in curves:
        hit = random.uniform(size=len(score)) < score
        hits = np.bincount(place, hit if w is None else hit * w, len(in_order.scores)).astype(float)
        curve[:] = np.interp(at, *_corners(Ranked(in_order.scores, in_order.weight, hits)))
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return at, low, high


def _outline(c: ReliabilityCurve) -> tuple[Floats, Floats]:
    """Numbers of rows and edges of the bins, and of the empty ones between them."""
    edges = np.union1d(c.lower, c.upper)
    counts = np.zeros(len(edges) - 1)
    counts[np.searchsorted(edges, c.lower)] = c.n_samples
    return counts, edges


def _diagonal(ax: Axes) -> Line2D:
    found = [line for line in ax.lines if line.get_gid() == DIAGONAL]
    if found:
        return found[0]
    return ax.plot(
        [0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="Perfect", gid=DIAGONAL
    )[0]


def _strip(ax: Axes) -> Axes | None:
    found = [child for child in ax.child_axes if child.get_gid() == ROWS]
    return found[0] if found else None  # type: ignore[return-value]


def _once(ax: Axes, label: str) -> str | None:
    """The label, or None if something in the legend has it already."""
    return None if label in ax.get_legend_handles_labels()[1] else label


def _arrange(ax: Axes, scale: str, limits: tuple[float, float], *, legend: bool) -> None:
    """Axes with the diagram below, then the strip, then the legend, where it hides nothing."""
    strip = _strip(ax)
    bottom = STRIP[1] if strip is not None else 1.0
    size, n_columns, height = _legend_size(ax) if legend else (0.0, 0, 0.0)
    top = bottom + height
    for axes in (ax, *([] if strip is None else [strip])):
        axes.set_autoscale_on(False)  # it would follow zero to infinity
        axes.set_xscale(scale, **_SCALES[scale])
        axes.set_xlim(limits)
    ax.set_yscale(scale, **_SCALES[scale])
    ax.set_ylim(limits[0], _beyond(limits, top, scale))
    ax.set_aspect("equal")
    _set_ticks(ax, scale, limits)
    ax.spines[["left", "right"]].set_bounds(*limits)
    ax.spines["top"].set_position(("data", limits[1]))
    if scale == "logit":
        _clip(ax, 1 / top)
    if strip is not None:
        place = strip.get_axes_locator()
        assert isinstance(place, _Place)
        place.bottom, place.top = STRIP[0] / top, STRIP[1] / top
        strip.set_xticks([])
        strip.minorticks_off()
    ax.yaxis.label.set_y(0.5 / top)  # beside the diagram
    if legend:
        _draw_legend(ax, size, n_columns, (bottom + 0.02) / top)


def _draw_legend(ax: Axes, size: float, n_columns: int, bottom: float) -> None:
    legend = ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, bottom),
        ncols=n_columns,
        fontsize=size,
        handlelength=1.5,
        columnspacing=1.2,
        labelspacing=0.3,
        borderpad=0.2,
        borderaxespad=0,
        frameon=False,
    )
    as_written(*legend.get_texts())


def _legend_size(ax: Axes) -> tuple[float, int, float]:
    """Font size, number of columns, and height in heights of the diagram."""
    labels = ax.get_legend_handles_labels()[1]
    width, height = size_of(ax)
    width = min(width, height / 1.4)
    size, n_columns = fitting(labels, width)
    n_rows = -(-len(labels) // n_columns)
    return size, n_columns, 0.04 + 1.5 * n_rows * size / (72 * width)


def _beyond(limits: tuple[float, float], height: float, scale: str) -> float:
    """The number that lies so many heights of the diagram above its lower limit."""
    low, high = limits
    if scale == "linear":
        return low + height * (high - low)
    return float(expit(logit(low) + height * (logit(high) - logit(low))))


def _clip(ax: Axes, height: float) -> None:
    """Keep points at infinity of logit axes out of the strip and the legend."""
    from matplotlib.patches import Rectangle

    artists: list[Artist] = [*ax.lines, *ax.collections]
    for artist in artists:
        artist.set_clip_path(Rectangle((0, 0), 1, height, transform=ax.transAxes))


def _set_ticks(ax: Axes, scale: str, limits: tuple[float, float]) -> None:
    ax.minorticks_off()
    if scale == "linear":
        ticks: Floats = np.linspace(0, 1, 5 if size_of(ax)[0] > 2.2 else 3)
        ax.set(xticks=ticks, yticks=ticks)
        return
    ticks = _logit_ticks(*limits)
    ax.set_yticks(ticks, [f"{tick:.7g}" for tick in ticks])
    # Side by side, the long names of small and of large ones need more room.
    ticks = ticks[:: -(-len(ticks) // max(3, int(size_of(ax)[0] / 0.65)))]
    ax.set_xticks(ticks, [f"{tick:.7g}" for tick in ticks])


def _logit_ticks(low: float, high: float) -> Floats:
    small = 10.0 ** np.arange(-6, 0)
    ticks: Floats = small
    for steps in ([1], [1, 2, 5]):
        near_zero = np.outer(small, steps).ravel()
        ticks = np.concatenate([near_zero, [0.5], 1 - near_zero])
        ticks = np.unique(np.round(ticks, 7))  # powers of ten may be off by rounding
        ticks = ticks[(ticks >= low - 1e-9) & (ticks <= high + 1e-9)]
        if len(ticks) >= 3:
            break
    return ticks[:: -(-len(ticks) // 7)]


def _check_grid(ax: Axes | None, classes: ArrayLike | None, max_classes: int) -> None:
    if ax is not None:
        raise ValueError(
            "kind='classwise' draws a diagram for each class and needs a figure, got ax. Pass "
            "figure= instead, a Figure or SubFigure."
        )
    if classes is None:
        check_integer("max_classes", max_classes)
    elif len(np.atleast_1d(np.asarray(classes))) == 0:
        raise ValueError("classes must name at least one class, got none. Pass None for the worst.")


def _chosen(
    displays: Sequence[ReliabilityDisplay], classes: ArrayLike | None, max_classes: int
) -> list[ReliabilityDisplay]:
    """The diagrams of the classes asked for, or of the worst."""
    if classes is None:
        # Sorting is stable: of classes that are equally bad the first comes first.
        worst = sorted(displays, key=lambda display: -display.expected_calibration_error)
        return worst[:max_classes]
    known = {display.rows.label: display for display in displays if display.rows is not None}
    wanted = np.atleast_1d(np.asarray(classes)).tolist()
    unknown = [label for label in wanted if label not in known]
    if unknown:
        raise ValueError(f"classes must be among {shown(known)}, got {unknown[0]!r}.")
    return [known[label] for label in dict.fromkeys(wanted)]


def _title(display: ReliabilityDisplay) -> str:
    error = f"ECE {display.expected_calibration_error:.3f}"
    if display.rows is None:
        return f"{display.name}: {error}"
    return f"{display.name}: {int(display.rows.event.sum()):,} rows, {error}"


def _grid_legend(figure: Figure | SubFigure, display: ReliabilityDisplay, name: str | None) -> Any:
    """One legend for all, so without what is said of the first class."""
    handles, labels = display.ax_.get_legend_handles_labels()
    event = _AXIS_NAMES[display.kind][1]
    general = {id(display.gaps_): "Gap to the mean prediction", id(display.line_): event}
    labels = [general.get(id(h), label) for h, label in zip(handles, labels, strict=True)]
    legend = figure.legend(
        handles, labels, loc="outside upper center", ncols=2, title=name, frameon=False
    )
    as_written(legend.get_title())
    return legend

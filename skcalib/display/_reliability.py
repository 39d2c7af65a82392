"""Reliability diagrams: bars, dots or curves for one model, several models, or all classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from skcalib._input.arrays import check_in_memory
from skcalib._input.groups import group_numbers
from skcalib._input.measures import OF_EACH, Scored, columns_of
from skcalib._input.parameters import check_integer, check_option, check_real
from skcalib._output import briefly, drawing
from skcalib._typing import ArrayLike, Indices, Kind, NBins
from skcalib.metrics import ReliabilityCurve, reliability_curve

from . import _artists, _curves

if TYPE_CHECKING:
    from matplotlib import collections, container, lines, patches
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

Style = Literal["bars", "dots", "corp", "smooth"]
Scale = Literal["linear", "logit"]
Band = Literal["consistency", "confidence"]


class Options(NamedTuple):
    """Checked parameters of ``plot`` that determine how to draw a model."""

    style: str
    scale: str
    level: float | None
    band: str
    n_resamples: int
    random_state: Any
    look: dict[str, Any]
    counts: bool
    is_panel: bool = False


class ReliabilityDisplay(drawing.ModelDisplay):
    r"""Reliability diagram: the accuracy of a model against its confidence.

    For two classes the diagram shows an event's frequency against its predicted probability. There
    are four styles; :ref:`the guide <styles>` says when to use which.

    - ``"bars"``: the accuracy in each bin, and a hatched bar for the gap to the mean confidence.
      The expected calibration error (ECE) is the gaps' weighted mean.
    - ``"dots"``: the accuracy in each bin at the bin's mean confidence.
    - ``"corp"``: isotonic regression from scores to events [2]_, without bins.
    - ``"smooth"``: a kernel estimate [3]_, without bins,

      .. math:: \hat f(t) = t + \frac{\sum_i w_i\, K_\sigma(t, \text{score}_i)
          (1[\text{event}_i] - \text{score}_i)}{\sum_i w_i\, K_\sigma(t, \text{score}_i)} .

      The bandwidth :math:`\sigma` is the smooth calibration error (smECE), but at least 0.01 and
      :math:`0.7 s n^{-1/5}` for n rows with standard deviation s of the scores, so that the curve
      of a calibrated model does not wave. The curve is thicker where scores are denser, and ends
      where the kernel reaches fewer than three rows.

    Error bars are Clopper-Pearson intervals for the accuracy. The histogram above the diagram shows
    the number of rows per bin. With n rows in a bin, bars and dots have the opacity
    :math:`n / (n + 10)`.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display. Several models can
    be drawn on the same axes, except with ``style="bars"``.

    Parameters
    ----------
    curve : ReliabilityCurve
        The bins; with several events per row the bins for all events.
    name : str, default=None
        Model name: the title with bars, else the legend entry.
    rows : named tuple (label, score, event, weight) or list of them, default=None
        Scores, events and weights (or None), arrays of shape (n_samples,), required by
        ``style="corp"`` and ``style="smooth"``. With several classes one tuple per class.
    event : str, default=None
        Event name, for the axis label in a binary diagram.
    groups : ndarray of shape (n_samples,), default=None
        Group numbers, for bands.

    Attributes
    ----------
    curve : ReliabilityCurve
        The bins.
    expected_calibration_error : float
        ECE, with several classes the mean over the classes.
    ax_ : matplotlib Axes
        Axes with the diagram; with several classes the first panel.
    axes_ : list of matplotlib Axes
        All panels; for a single diagram ``[ax_]``.
    figure_ : matplotlib Figure
        Figure that contains the axes.
    displays_ : dict of label to ReliabilityDisplay
        Diagrams by class, or curves by value of ``by``.
    legend_ : matplotlib Legend or None
        Legend.
    bars_, gaps_ : matplotlib BarContainer or None
        Bars for accuracies and gaps, with ``style="bars"``.
    line_ : matplotlib Line2D or None
        Line, in the other styles.
    dots_ : matplotlib PathCollection or None
        Dots, with ``style="dots"``.
    strokes_ : matplotlib LineCollection or None
        Curve segments with their thickness, with ``style="smooth"``.
    intervals_ : matplotlib ErrorbarContainer or None
        Error bars, with ``style="bars"`` and ``style="dots"``.
    band_ : matplotlib FillBetweenPolyCollection or None
        Band, with ``style="corp"`` and ``style="smooth"``.
    diagonal_ : matplotlib Line2D
        Diagonal: perfect calibration.
    counts_ax_, counts_ : matplotlib Axes and StepPatch, or None
        Row histogram, and its axes.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017,
       `arXiv:1706.04599 <https://arxiv.org/abs/1706.04599>`_, figure 1.
    .. [2] Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic
       classifiers", PNAS 118, 2021, `arXiv:2008.03033 <https://arxiv.org/abs/2008.03033>`_.
    .. [3] Blasiok, Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing",
       ICLR 2024, `arXiv:2309.12236 <https://arxiv.org/abs/2309.12236>`_.

    Examples
    --------
    >>> from skcalib import ReliabilityDisplay
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> display = ReliabilityDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test)
    >>> round(display.expected_calibration_error, 3)
    0.105
    >>> display = ReliabilityDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test, kind="classwise", subset=4)
    >>> list(display.displays_)
    [8, 1, 9, 4]
    """

    axes_: list[Axes]
    displays_: dict[Any, ReliabilityDisplay]
    legend_: Legend | None
    bars_: container.BarContainer | None
    gaps_: container.BarContainer | None
    line_: lines.Line2D | None
    dots_: collections.PathCollection | None
    strokes_: collections.LineCollection | None
    intervals_: container.ErrorbarContainer | None
    band_: collections.FillBetweenPolyCollection | None
    diagonal_: lines.Line2D
    counts_ax_: Axes | None
    counts_: patches.StepPatch | None

    def __init__(
        self,
        curve: ReliabilityCurve,
        *,
        name: str | None = None,
        rows: Scored | Sequence[Scored] | None = None,
        event: str | None = None,
        groups: Indices | None = None,
    ) -> None:
        self.curve = curve
        self.name = name
        self.rows: Any = rows
        if isinstance(rows, Scored):
            self.rows = _curves.with_weight(rows)
        self.event = event
        self.groups = groups
        self._parts: dict[Any, ReliabilityDisplay] = {}

    def _summary(self) -> str:
        n, bins = int(self.curve.n_samples.sum()), len(self.curve.gap)
        return f"{n:,} rows in {bins} bins, ECE {briefly(self.expected_calibration_error)}"

    @property
    def expected_calibration_error(self) -> float:
        """ECE, with several classes the mean over the classes."""
        return _curves.bin_error(self.curve)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: NBins = 15,
        strategy: Any = None,
        kind: Kind = "auto",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        order: Any = None,
        by: Any = None,
        groups: Any = None,
        subset: Any = 9,
        name: str | None = None,
        ax: Any = None,
        style: Any = None,
        scale: Any = None,
        confidence_level: float | None = 0.95,
        band: Band = "consistency",
        counts: bool = True,
        legend: Any = True,
        n_resamples: int = 200,
        random_state: Any = None,
        color: Any = None,
        line_kw: Any = None,
    ) -> Self:
        """Draw the diagram for labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, n_bins
            As for :func:`skcalib.metrics.reliability_curve`.
        strategy : {"uniform", "quantile"}, default=None
            Bins with equal width or equal weight. By default equal width, unless an event has a
            base rate below 2 per cent.
        kind, sample_weight, labels, pos_label, order
            As for :func:`skcalib.metrics.reliability_curve`. With ``kind="classwise"``,
            ``"multilabel"`` or ``"cumulative"`` there is one panel per event.
        by : array-like of shape (n_samples,), default=None
            Row categories, such as centres. The diagram shows one curve per category, and one curve
            for all rows with error bars or a band.
        groups : array-like of shape (n_samples,), default=None
            Rows with the same value belong together, such as a patient's visits. Error bars and
            bands then allow for dependence within groups.
        subset, ax, style, scale, confidence_level, band, counts, legend, n_resamples, \
random_state, color, line_kw
            As for :meth:`plot`.
        name : str, default=None
            Name of the model.

        Returns
        -------
        ReliabilityDisplay
            With the diagram drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.reliability_curve` and :meth:`plot`; if ``by`` has another
            length, or there is a panel for each class.
        """
        check_in_memory((y_true, y_proba, sample_weight, groups))
        arguments = (y_true, y_proba, kind, sample_weight, labels, pos_label)
        columns = columns_of(*arguments, order=order)
        rows, kind = list(columns.scored()), columns.kind
        if strategy is None:
            is_rare = kind != "top-label" and any(map(_curves.is_rare, rows))
            strategy = "quantile" if is_rare else "uniform"
        numbers = group_numbers(groups, y_proba, sample_weight)
        has_panels = kind in OF_EACH
        checked: Any = columns.rows
        curve = reliability_curve(
            checked.y, checked, n_bins=n_bins, strategy=strategy, kind=kind, pos_label=pos_label,
            order=order, groups=numbers,
        )  # fmt: skip
        event = _curves.binary_event(columns, pos_label)
        display = cls(
            curve, name=name, rows=rows if has_panels else rows[0], event=event, groups=numbers
        )
        if by is not None:
            for value, part in _curves.split(rows, by, kind, sample_weight):
                curve = replace(_curves.bin_rows(part, n_bins, strategy), kind=kind)
                display._parts[value] = cls(curve, name=str(value), rows=part, event=event)
        return display.plot(
            ax, subset=subset, style=style, scale=scale, confidence_level=confidence_level,
            band=band, counts=counts, legend=legend, n_resamples=n_resamples,
            random_state=random_state, color=color, line_kw=line_kw,
        )  # fmt: skip

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        subset: Any = 9,
        style: Any = None,
        scale: Any = None,
        confidence_level: float | None = 0.95,
        band: Band = "consistency",
        counts: bool = True,
        legend: Any = True,
        n_resamples: int = 200,
        random_state: Any = None,
        color: Any = None,
        line_kw: Any = None,
    ) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may contain dots or curves for other
            models. With several panels an array with one Axes per class, as ``figure.subplots``
            returns.
        name : str, default=None
            Title with bars, else legend entry; by default the display's ``name``.
        subset : int or array-like, default=9
            With several panels the classes to draw, in this order, or how many. A number selects
            the classes with the largest ECE, in decreasing order. Cumulative events stay in class
            order.
        style : {"bars", "dots", "corp", "smooth"}, default=None
            Bars for accuracy and gap, dots with error bars, or the isotonic or smooth curve with
            its band. By default dots for events with a base rate below 2 per cent, a smooth curve
            with ``by``, and else bars.
        scale : {"linear", "logit"}, default=None
            Scale of both axes. ``"logit"`` magnifies the neighbourhoods of 0 and 1 and requires
            dots or ``"corp"``. It is their default if the base rate is below 2 per cent.
        confidence_level : float or None, default=0.95
            Level for error bars or the band; None for neither.
        band : {"consistency", "confidence"}, default="consistency"
            Band for curves: "consistency" shows where a calibrated model's curve would lie,
            "confidence" is a bootstrap band around the curve.
        counts : bool, default=True
            Whether to draw the row histogram. With several panels there is none.
        legend : bool or str, default=True
            Whether to draw the legend, or a matplotlib location. By default it is above a new
            figure, and at the best location inside your axes.
        n_resamples : int, default=200
            Number of resamples for the band.
        random_state : int, RandomState instance or None, default=None
            Seed or generator for the resampling.
        color : matplotlib colour, default=None
            Colour of the model; by default the next colour in the style.
        line_kw : dict, default=None
            Other properties, as for ``Axes.plot``, or for ``Axes.bar`` with bars. With
            ``linewidth`` a smooth curve does not show the density by its thickness.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with its attributes that end in an underscore set.

        Raises
        ------
        ValueError
            If an option is unknown or does not suit the style, if ``ax`` contains another kind of
            diagram, or if ``subset`` names unknown classes.
        """
        style, scale = self._style(style, scale)
        look = drawing.line_properties(color, line_kw, for_bars=style == "bars")
        resampling = confidence_level, band, n_resamples, random_state
        options = Options(style, scale, *resampling, look, counts)
        self._check(options)
        name = self.name if name is None else str(name)
        if self.curve.kind in OF_EACH:
            return self._plot_classes(ax, subset, name, legend, options)
        drawing.check_axes(ax)
        others = [] if ax is None else drawing.diagrams_on(ax)
        if others and "bars" in (style, *others):
            raise ValueError(
                "Bars of two models would hide each other: ax must hold no other diagram, got "
                "axes with one. Pass style='dots', 'corp' or 'smooth' for each, or other axes."
            )
        ax = self._prepare(ax, (5.2, 6.2), legend)
        self.axes_, self.displays_ = [ax], self._parts
        self._draw(ax, name or ("All" if self._parts else None), options)
        self._draw_parts(ax, options)
        self.legend_ = drawing.draw_legend(ax, _artists.legend_handles([ax]), legend=legend)
        return self

    def _style(self, style: Any, scale: Any) -> tuple[Any, Any]:
        """Return the style and the scale. Their defaults depend on whether events are rare."""
        curve = self.curve
        is_rare = curve.kind == "binary" and bool(curve.share @ curve.accuracy < _curves.RARE)
        if curve.kind in OF_EACH and self.rows is not None:
            is_rare = any(map(_curves.is_rare, self.rows))
        if style is None:
            style = "dots" if is_rare else "smooth" if self._parts else "bars"
        if scale is None:
            scale = "logit" if is_rare and style in ("dots", "corp") else "linear"
        return style, scale

    def _check(self, options: Options) -> None:
        """Raise a ValueError if options are unknown or do not suit one another."""
        style = options.style
        check_integer("n_resamples", options.n_resamples)
        for name, valid in (("style", Style), ("scale", Scale), ("band", Band)):
            check_option(name, getattr(options, name), valid)
        if options.level is not None:
            remedy = "Pass None to draw neither error bars nor a band."
            check_real("confidence_level", options.level, high=1, remedy=remedy)
        if options.scale == "logit" and style in ("bars", "smooth"):
            reason = "bars begin at 0" if style == "bars" else "the kernel has one width"
            raise ValueError(
                f"scale='logit' requires style='dots' or 'corp', because {reason}, got "
                f"style={style!r}. Pass style='dots'."
            )
        if style in ("corp", "smooth") and self.rows is None:
            raise ValueError(
                f"style={style!r} needs scores and events of rows, got rows=None. Use "
                "from_predictions, or pass rows= to the constructor."
            )
        if style == "bars" and self._parts:
            raise ValueError(
                "by draws several curves on the same axes, where bars would hide each other, got "
                "style='bars'. Pass style='dots', 'corp' or 'smooth'."
            )

    def _diagram(self, options: Options) -> str:
        """Describe the diagram, to compare it with others on the same axes."""
        if options.style == "bars":
            return "bars"
        return f"a reliability diagram with kind={self.curve.kind!r} and scale={options.scale!r}"

    def _draw(self, ax: Axes, name: str | None, options: Options) -> None:
        """Draw the model on axes, without a legend."""
        number, others = drawing.check_same_diagram(ax, self._diagram(options)), ax.get_xlim()
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_ = self.gaps_ = self.line_ = self.dots_ = self.strokes_ = None
        self.intervals_ = self.band_ = self.counts_ax_ = self.counts_ = None
        ax.set_autoscale_on(False)
        _set_scale(ax, "linear")  # adding artists at 0 and 1 overflows on logit axes
        self.diagonal_ = _artists.draw_diagonal(ax)
        if name is None and number:
            name = f"Model {number + 1}"
        artist, colour = self._draw_model(ax, name, number, options)
        if options.style in ("bars", "dots") and options.level is not None:
            self.intervals_ = _artists.draw_intervals(
                ax, self.curve, options.level, colour, in_middle=options.style == "bars"
            )
        drawing.mark_diagram(artist, self._diagram(options))
        limits = (0.0, 1.0)
        if options.scale == "logit":
            low, high = _curves.logit_limits(self.curve)
            limits = (min(low, others[0]), max(high, others[1])) if number else (low, high)
        if options.counts:
            histogram = _curves.row_counts(self.curve, self.rows, limits, options.scale)
            self.counts_ax_, self.counts_ = _artists.draw_counts(
                ax, histogram, colour, fill=options.style == "bars"
            )
        across, up = _curves.axis_labels(self.curve.kind, self.event)
        drawing.draw_as_written(ax.set_xlabel(across), ax.set_ylabel(up))
        _set_scale(ax, options.scale)
        if options.scale == "logit":
            _set_ticks(ax, *limits)
        ax.set(xlim=limits, ylim=limits, box_aspect=1, anchor="N")

    def _draw_model(
        self, ax: Axes, name: str | None, number: int, options: Options
    ) -> tuple[Any, Any]:
        """Draw bars, dots or a curve; return one artist that represents the model, and its colour.

        ``number`` counts the models drawn before.
        """
        ece = f"ECE {briefly(self.expected_calibration_error)}"
        if options.style == "bars":
            label = self._label(None, ece, options)
            self.bars_, self.gaps_ = _artists.draw_bars(ax, self.curve, label, options.look)
            drawing.draw_title(ax, name)
            return self.bars_[0], drawing.foreground(ax)
        if options.style == "dots":
            label = self._label(name, ece, options)
            line, self.dots_ = _artists.draw_dots(ax, self.curve, label, number, options.look)
        else:
            line = self._draw_curve(ax, name, options)
        self.line_ = line
        return line, line.get_color()

    def _label(self, name: str | None, score: str, options: Options) -> str:
        """Return the legend entry; panels share one entry without a score."""
        if name is None:
            name = _curves.axis_labels(self.curve.kind)[1].split()[-1].capitalize()
        label = drawing.legend_label(name)
        return label if options.is_panel else f"{label} ({score})"

    def _draw_curve(self, ax: Axes, name: str | None, options: Options) -> Any:
        """Draw an isotonic or a smooth curve, and its band."""
        rows, smooth, look = self.rows, None, options.look
        if options.style == "corp":
            loss = f"calibration loss {briefly(_curves.miscalibration(rows))}"
            x, y = _curves.isotonic_curve(rows)
            line = drawing.draw_line(ax, x, y, self._label(name, loss, options), look)
        else:
            smooth = _curves.drawn_curve(rows, self.groups)
            label = self._label(name, f"smECE {briefly(smooth.error)}", options)
            line = drawing.draw_line(ax, smooth.score, np.clip(smooth.value, 0, 1), label, look)
            if "linewidth" not in look:
                self.strokes_ = _artists.draw_strokes(ax, smooth, line)
        if options.level is not None:
            is_consistency = options.band == "consistency"
            resampling = options.level, options.n_resamples, options.random_state, self.groups
            ends = _curves.band(rows, smooth, *resampling, calibrated=is_consistency)
            band = "band if calibrated" if is_consistency else "confidence band"
            label = f"{100 * options.level:g} % {band}"
            self.band_ = drawing.draw_band(ax, ends, line, label)
        return line

    def _draw_parts(self, ax: Axes, options: Options) -> None:
        """Draw thin curves without bands, one per value of ``by``."""
        are_many, look = len(self._parts) > 9, {"linewidth": 1.0}
        if are_many:  # one legend entry for all
            look["color"] = drawing.foreground(ax, 0.4)
        options = options._replace(level=None, look=look, counts=False)
        for number, part in enumerate(self._parts.values()):
            part._draw(ax, part.name, options)  # noqa: SLF001
            if are_many and part.line_ is not None:
                part.line_.set_label("_nolegend_" if number else f"{len(self._parts)} groups")

    def _plot_classes(
        self, ax: Any, subset: Any, name: str | None, legend: Any, options: Options
    ) -> Self:
        """Draw one panel per class."""
        drawing.check_legend(legend)
        axes = _curves.as_panels(ax)
        panels = self._panels(subset, None if axes is None else axes.size)
        n = len(panels)
        if axes is None:
            axes = _curves.new_panels(n)
        for unused in axes.flat[n:]:
            unused.set_axis_off()
        self.axes_, self.displays_ = list(axes.flat[:n]), panels
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        options = options._replace(counts=False, is_panel=True)
        for k, (panel, panel_ax) in enumerate(zip(panels.values(), self.axes_, strict=True)):
            panel._draw(panel_ax, None, options)  # noqa: SLF001
            ece = f"ECE {briefly(panel.expected_calibration_error)}"
            rows = "" if panel.rows is None else f"{int(panel.rows.event.sum()):,} rows, "
            drawing.draw_title(panel_ax, f"{panel.name}\n{rows}{ece}")
            panel_ax.title.set_fontsize("medium")
            is_lowest, is_first = k + axes.shape[1] >= n, k % axes.shape[1] == 0
            if not is_lowest:
                panel_ax.set_xlabel("")
            if not is_first:
                panel_ax.set_ylabel("")
            panel_ax.tick_params(labelbottom=is_lowest, labelleft=is_first)
        lows, highs = zip(*(panel_ax.get_xlim() for panel_ax in self.axes_), strict=True)
        for panel_ax in self.axes_:
            if options.scale == "logit":
                _set_ticks(panel_ax, min(lows), max(highs))
            panel_ax.set(xlim=(min(lows), max(highs)), ylim=(min(lows), max(highs)))
        handles = _artists.legend_handles(self.axes_)
        self.legend_ = drawing.draw_legend(self.ax_, handles, legend=legend)
        n_classes = len(_curves.curves_by_class(self.curve))
        parts = [] if name is None else [name]
        if n < n_classes:
            parts.append(f"{n} of {n_classes} classes")
        if self.legend_ is not None and parts:
            self.legend_.set_title(": ".join(parts))
            drawing.draw_as_written(self.legend_.get_title())
        return self

    def _panels(self, subset: Any, n_axes: int | None) -> dict[Any, ReliabilityDisplay]:
        """Create one diagram per class in ``subset``, or for the classes with the largest ECE."""
        curves = _curves.curves_by_class(self.curve)
        rows = dict(zip(curves, self.rows or [None] * len(curves), strict=True))
        panels = {}
        ordered = self.curve.kind == "cumulative"
        for label in _curves.choose_classes(curves, subset, n_axes, ordered=ordered):
            name = _curves.event_name(label) or str(label)
            if ordered:
                name = f"At most {name}"
            panels[label] = type(self)(
                curves[label], name=name, rows=rows[label], groups=self.groups
            )
        return panels


def _set_scale(ax: Axes, scale: str) -> None:
    """Set the scale of both axes, unless it is set: setting it is slow."""
    if ax.get_xscale() != scale:
        # Clip points at 0 and 1 to far outside the logit axes, so that lines to them are drawn.
        clip: Any = {"nonpositive": "clip"} if scale == "logit" else {}
        ax.set_xscale(scale, **clip)
        ax.set_yscale(scale, **clip)


def _set_ticks(ax: Axes, low: float, high: float) -> None:
    """Set ticks on logit axes, with labels that do not overlap if all risks are small."""
    from matplotlib.ticker import LogitLocator, LogLocator

    steps = (1, 2, 3, 5, 7) if high < 5 * low else (1, 2, 5) if high < 20 * low else (1,)
    is_small = high < min(0.5, 100 * low)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=steps) if is_small else LogitLocator())
        axis.set_major_formatter("{x:.7g}")
        axis.set_minor_formatter("")

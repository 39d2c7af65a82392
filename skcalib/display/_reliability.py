"""Reliability diagrams: bars, dots or curves, of one model, of several, or of each class."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._output import briefly
from skcalib._rows import ArrayLike
from skcalib._scores.bins import Strategy
from skcalib._scores.columns import Scored
from skcalib._validation.inputs import check_integer
from skcalib.metrics import ReliabilityCurve
from skcalib.metrics._input import OF_EACH, Kind, scored_rows

from . import _curves, _layout
from ._artists import counts as draw_counts, diagonal, draw_model
from ._reliability_grid import ReliabilityGridDisplay, check_grid, chosen
from ._style import AXIS_NAMES, Band, Look, Scale, Style, check_look

if TYPE_CHECKING:
    from matplotlib import collections, container, lines, patches
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class ReliabilityDisplay(_layout.ModelDisplay):
    r"""Reliability diagram: the accuracy of a model against its confidence.

    There are four styles; :ref:`the guide <styles>` says when to use which.

    - ``"bars"``: the accuracy of each bin as a bar, and the gap between it and the mean confidence
      of the bin as a hatched bar: above the accuracy where the model is over-confident, else on
      top of the bar in another colour. The ECE is the weighted mean of the gaps.
    - ``"dots"``: the accuracy of each bin as a dot at the mean confidence of the bin.
    - ``"corp"``: no bins. The curve is the isotonic regression of the events on the scores [2]_,

      .. math:: \hat f = \arg\min_{f \text{ non-decreasing}}
          \sum_i w_i\, (1[\text{event}_i] - f(\text{score}_i))^2 ,

      and the shaded area is its pointwise consistency band, from regressions of events that are
      resampled as if the model were calibrated, or on request a confidence band.
    - ``"smooth"``: no bins. The curve is a kernel estimate [3]_, which smooths the residuals with
      the reflected normal kernel :math:`K_\sigma` of the smooth calibration error,

      .. math:: \hat f(t) = t + \frac{\sum_i w_i\, K_\sigma(t, \text{score}_i)
          (1[\text{event}_i] - \text{score}_i)}{\sum_i w_i\, K_\sigma(t, \text{score}_i)} ,

      is as thick as the density of the scores, the denominator, faded where fewer than about ten
      rows are within reach of the kernel, and ends where there are fewer than three. Its
      bandwidth :math:`\sigma` is the smECE, but at least 0.01. The mean distance between the curve
      and the diagonal, weighted by the density, is the smECE, or with the smallest bandwidth at
      most the smECE. The shaded area is a band likewise.

    Error bars are Clopper-Pearson intervals of the accuracy. The histogram above the diagram has
    the number of rows in each bin, and above zoomed axes in as many bins of equal width. Bars,
    dots and error bars of a bin with n rows have the opacity :math:`n / (n + 10)`, so that a
    single row is hardly seen. Colours are those of the matplotlib style in use.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display. In the styles
    ``"dots"``, ``"corp"`` and ``"smooth"`` several models can be drawn on the same axes; dots and
    error bars are then shifted by a few points, so that they do not hide each other. The legend
    stands above the diagram and has an entry for each model with its score: the ECE, with
    ``"corp"`` the calibration loss, which is the miscalibration of the Brier score, see
    :func:`skcalib.metrics.score_decomposition`, or with ``"smooth"`` the smECE, see
    :func:`skcalib.metrics.smooth_calibration_error`.

    Parameters
    ----------
    curve : ReliabilityCurve
        The bins.
    kind : {"top-label", "binary"}, default=None
        Kind of the bins, which determines the labels of the axes; by default that of ``curve``.
    name : str, default=None
        Name of the model: the title with bars, else the entry in the legend.
    rows : named tuple (label, score, event, weight), default=None
        Scores, events and weights (or None) of the rows as arrays of shape (n_samples,),
        required by ``style="corp"`` and ``style="smooth"``.
    zoomed : bool, default=False
        Whether the axes end at the scores and the accuracies of the bins instead of at 0 and 1,
        which requires rows: so are quantile bins of a class shown whose scores are all in one
        uniform bin.

    Attributes
    ----------
    curve : ReliabilityCurve
        The bins.
    expected_calibration_error : float
        The ECE of the bins.
    ax_ : matplotlib Axes
        Axes with the diagram.
    counts_ax_ : matplotlib Axes or None
        Axes with the histogram of rows; in a grid those of the diagram.
    figure_ : matplotlib Figure
        Figure that contains them.
    bars_, gaps_ : matplotlib BarContainer or None
        Bars of accuracy and of gaps, with ``style="bars"``.
    counts_ : matplotlib BarContainer, StepPatch or None
        Histogram of rows: bars with ``style="bars"``, else an outline, and a StepPatch in grids.
    intervals_ : matplotlib ErrorbarContainer or None
        Error bars, with ``style="bars"`` and ``style="dots"``.
    line_ : matplotlib Line2D or None
        Curve, with ``style="corp"``. With ``style="dots"`` it has the places of the dots and their
        legend entry, and draws nothing; with ``style="smooth"`` those of the curve, which is NaN
        between two pieces.
    dots_ : matplotlib PathCollection or None
        Dots, with ``style="dots"``; with ``style="smooth"`` markers on the curves of all models but
        the first on the axes.
    joins_ : matplotlib LineCollection or None
        Lines between neighbouring dots.
    strokes_ : matplotlib LineCollection or None
        Curve of ``style="smooth"``, in short segments of their own thickness and colour.
    band_ : matplotlib FillBetweenPolyCollection or None
        Band, with ``style="corp"`` and ``style="smooth"``.
    diagonal_ : matplotlib Line2D
        Line of perfect calibration.

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
    >>> display.expected_calibration_error > 0.05
    True
    """

    counts_ax_: Axes | None
    bars_: container.BarContainer | None
    gaps_: container.BarContainer | None
    counts_: container.BarContainer | patches.StepPatch | None
    intervals_: container.ErrorbarContainer | None
    line_: lines.Line2D | None
    dots_: collections.PathCollection | None
    joins_: collections.LineCollection | None
    strokes_: collections.LineCollection | None
    band_: collections.FillBetweenPolyCollection | None
    diagonal_: lines.Line2D

    def __init__(
        self,
        curve: ReliabilityCurve,
        *,
        kind: str | None = None,
        name: str | None = None,
        rows: Scored | None = None,
        zoomed: bool = False,
    ) -> None:
        self.curve = curve
        self.kind = curve.kind if kind is None else kind
        self.name = name
        self.rows = None if rows is None else _curves.with_weight(rows)
        self.zoomed = zoomed

    def _summary(self) -> str:
        n, bins = int(self.curve.n_samples.sum()), len(self.curve.gap)
        return f"{n:,} rows in {bins} bins, ECE {briefly(self.expected_calibration_error)}"

    @property
    def expected_calibration_error(self) -> float:
        """The ECE of the bins."""
        return _curves.ece_of(self.curve)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        n_bins: int = 15,
        strategy: Strategy | None = None,
        kind: Kind = "auto",
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
        y_true, y_proba, n_bins
            As for :func:`skcalib.metrics.reliability_curve`.
        strategy : {"uniform", "quantile"}, default=None
            Bins of equal width or of equal weight; by default of equal width. With
            ``kind="classwise"`` or ``"multilabel"`` and by default, a class whose probabilities
            are all in one of them has quantile bins instead, its diagram shows the range of its
            probabilities only, and its title says "quantile bins".
        kind, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.reliability_curve`. With ``kind="classwise"`` or
            ``"multilabel"`` there is one diagram for each class or label.
        name : str, default=None
            Name of the model.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        classes : array-like, default=None
            With ``kind="classwise"`` or ``"multilabel"`` the classes or labels to draw, in this
            order. By default those with the largest ECE, in decreasing order.
        max_classes : int, default=9
            Maximum number of classes to draw if ``classes`` is None; there are fewer where they
            have no room in ``figure``.
        figure : matplotlib Figure or SubFigure, default=None
            With ``kind="classwise"`` or ``"multilabel"`` where to draw; by default a new figure.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        ReliabilityDisplay or ReliabilityGridDisplay
            With the diagram drawn; a grid with ``kind="classwise"`` or ``"multilabel"``.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.reliability_curve` and :meth:`plot`; for ``classes`` that
            are not among the labels; for ``ax`` with ``kind="classwise"`` or ``"multilabel"``, and
            for ``classes`` or ``figure`` with another kind.
        """
        kind, of_rows = scored_rows(y_true, y_proba, kind, sample_weight, labels, pos_label)
        check_grid(kind, ax, classes, max_classes, figure)
        if kind in OF_EACH:
            displays = []
            for rows in map(_curves.with_weight, of_rows):
                curve, zoomed = _curves.curve_of_class(rows, n_bins, strategy)
                found = cls(curve, kind="binary", name=str(rows.label), rows=rows, zoomed=zoomed)
                displays.append(found)
            some = chosen(displays, classes, max_classes, figure)
            of = len(displays) if classes is None else None
            grid = ReliabilityGridDisplay(some, name=name, n_classes=of)
            return grid.plot(figure, **plot_params)
        rows = _curves.with_weight(next(of_rows))
        curve = replace(_curves.curve_of_rows(rows, n_bins, strategy or "uniform"), kind=kind)
        return cls(curve, name=name, rows=rows).plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        style: Style = "bars",
        scale: Scale = "linear",
        confidence_level: float | None = 0.95,
        band: Band = "consistency",
        counts: bool = True,
        legend: bool | str = True,
        n_resamples: int = 200,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may hold dots or curves of other models.
        name : str, default=None
            Title with bars, else entry in the legend; by default the ``name`` of the display.
        style : {"bars", "dots", "corp", "smooth"}, default="bars"
            Bars of accuracy and gap, dots with error bars, or the isotonic or smooth curve with
            its band.
        scale : {"linear", "logit"}, default="linear"
            Scale of both axes. ``"logit"`` is for rare events: it magnifies the neighbourhoods of
            0 and 1. With n rows its limits are no nearer to 0 and 1 than 0.1 / n; of frequencies
            of exactly 0 or 1 only the error bars are visible. Not available for bars, which begin
            at 0, and smooth curves, whose kernel would be wider than the range of small scores.
        confidence_level : float or None, default=0.95
            Level of the error bars or of the band; None for neither.
        band : {"consistency", "confidence"}, default="consistency"
            The band of curves: where that of a calibrated model would lie, or around the curve,
            from bootstrap samples of the rows. The latter is about the smoothed frequency of a
            smooth curve; :ref:`styles` has its coverage of the true one, which is too low
            where rows are few.
        counts : bool, default=True
            Whether to draw the histogram of rows.
        legend : bool or str, default=True
            Whether to draw the legend, above the diagram, or a location of matplotlib within it,
            such as "lower right". "outside" is above also where a diagram is so small that it has
            no legend by default.
        n_resamples : int, default=200
            Number of times events, or rows, are resampled for the band.
        random_state : int, RandomState instance or None, default=0
            Seed or generator of the resampling.

        Returns
        -------
        ReliabilityDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For an unknown style, scale, band or location of the legend, a confidence level outside
            of (0, 1), fewer than one resample, bars or smooth curves on logit axes, bars on axes
            with another diagram, axes with a diagram of another kind or scale, or
            ``style="corp"`` or ``"smooth"`` without rows.
        """
        check_integer("n_resamples", n_resamples)
        _layout.check_legend(legend)
        check_look(style, scale, confidence_level, band, has_rows=self.rows is not None)
        ax = self._on(ax, (5.2, 6.2))
        look = Look.next_on(ax, style, self.kind, scale)
        # Matplotlib overflows where artists at infinity are added to logit axes.
        before = ax.get_xlim()
        _layout.set_scale(ax, "linear")
        self.diagonal_ = diagonal(ax, look.theme)
        name = self.name if name is None else name
        resampling = band, n_resamples, random_state
        for attribute, artist in draw_model(self, look, name, confidence_level, resampling).items():
            setattr(self, attribute, artist)
        self.counts_ax_ = self.counts_ = None
        if counts:
            self.counts_ax_ = _layout.histogram_on(ax)
            self.counts_ = draw_counts(self.counts_ax_, _curves.shown_rows(self), look)
        ax.set(xlabel=AXIS_NAMES[self.kind][0], ylabel=AXIS_NAMES[self.kind][1])
        limits = _curves.linear_limits(self)
        if scale == "logit":
            low, high = _curves.logit_limits(self, style)
            limits = (min(low, before[0]), max(high, before[1])) if look.number else (low, high)
        _layout.arrange(ax, scale, limits)
        _layout.legend_of_diagram(ax, legend=legend)
        _layout.make_room(ax)
        return self

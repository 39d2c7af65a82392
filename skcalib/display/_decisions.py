"""Curves of what is decided above a threshold: risk and coverage, and net benefit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._rows import ArrayLike, Floats, Ranked
from skcalib._rows.ranking import ranked
from skcalib._scores.columns import Scored
from skcalib._validation.inputs import check_flag, check_integer, check_real
from skcalib.metrics._clinical import risks_of
from skcalib.metrics._cost import benefits_of, checked_thresholds
from skcalib.metrics._input import check_kind, scored_rows
from skcalib.metrics._resampling import bootstrap_band
from skcalib.metrics._selective import Accepted, curve_of

from . import _artists
from ._layout import ModelDisplay, check_legend, draw_legend, make_room
from ._style import Look, entry, record, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.lines import Line2D

# Number of places at which curves and their bands are drawn.
PLACES = 400

# Risks of a smaller share of the rows, which are noisy, do not set the scale.
LEAST_COVERAGE = 0.05

# What artists are that show the net benefit of no model.
REFERENCE = "reference"

# Places of a line, the values of a curve there, the curve of ranked scores, the name of the
# vertical axis, and the score in the legend.
Line = tuple[Floats, Callable[[Any], Floats], Callable[[Ranked], Any], str, str]


class CurveDisplay(ModelDisplay):
    """A line for each model, and its band: what displays of decisions share.

    Derived classes say what to draw, ``_line``, and set limits, ``_arrange``.
    """

    line_: Line2D
    band_: FillBetweenPolyCollection | None

    def __init__(self, curve: Any, *, name: str | None = None, rows: Scored | None = None) -> None:
        self.curve = curve
        self.name = name
        self.rows = rows

    def plot(
        self,
        ax: Axes | None = None,
        *,
        confidence_level: float | None = 0.95,
        legend: bool | str = True,
        n_resamples: int = 200,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may hold curves of other models.
        confidence_level : float or None, default=0.95
            Level of the band; None for no band.
        legend : bool or str, default=True
            Whether to draw the legend, above the axes, or a location of matplotlib within them.
        n_resamples : int, default=200
            Number of bootstrap samples for the band.
        random_state : int, RandomState instance or None, default=0
            Seed or generator of the samples.

        Returns
        -------
        Display
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For a confidence level outside of (0, 1), fewer than one sample, an unknown location of
            the legend, or axes with a diagram of another kind.
        """
        check_legend(legend)
        check_integer("n_resamples", n_resamples)
        if confidence_level is not None:
            remedy = "Pass None to draw no band."
            check_real("confidence_level", confidence_level, high=1, remedy=remedy)
        x, values, curve_from, ylabel, score = self._line()
        ax = self._on(ax, (5.2, 4))
        look = Look.next_on(ax, "curve", ylabel, "linear")
        self.band_ = None
        label = entry(self.name or f"Model {look.number + 1}") + score
        self.line_ = _artists.line(ax, x, values(self.curve), look, label)
        self.line_.set_clip_on(True)
        if confidence_level is not None and self.rows is not None:
            resampling = confidence_level, n_resamples, random_state
            ends = bootstrap_band(self.rows, lambda rows: values(curve_from(rows)), *resampling)
            self.band_ = _artists.band(ax, (x, *ends), look, confidence_level, "confidence band")
        self._arrange(look, ax.get_ylim()[1] if look.number else 0.0)
        ax.set_ylabel(ylabel)
        handles = ax.get_legend_handles_labels()[0]
        handles.sort(key=lambda handle: handle in recorded(ax.lines, REFERENCE))
        draw_legend(ax, handles, legend=legend)
        make_room(ax)
        return self

    @abstractmethod
    def _line(self) -> Line:
        """What to draw."""

    @abstractmethod
    def _arrange(self, look: Look, top: float) -> None:
        """Set limits, for other models at ``top``."""


class RiskCoverageDisplay(CurveDisplay):
    r"""Risk of the accepted rows, over the share of rows that are accepted.

    A classifier that may abstain accepts the rows of the largest confidence. The curve is the
    error rate among them, see :func:`skcalib.metrics.risk_coverage_curve`; at a coverage of 1 it
    is that of all rows. The area below the curve (AURC), which is in the legend, is small if errors
    have the least confidence. The band has the pointwise confidence intervals of bootstrap samples
    of the rows. Where there are few rows, on the left, curves are noisy.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display. Several models can
    be drawn on the same axes.

    Parameters
    ----------
    curve : RiskCoverageCurve
        The curve.
    name : str, default=None
        Name of the model.
    rows : named tuple (label, score, event, weight), default=None
        Scores of the rows, whether they are right, and weights (or None) as arrays of shape
        (n_samples,), from which the band is drawn.

    Attributes
    ----------
    curve : RiskCoverageCurve
        The curve.
    ax_ : matplotlib Axes
        Axes with the diagram.
    figure_ : matplotlib Figure
        Figure that contains them.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib FillBetweenPolyCollection or None
        The band.

    References
    ----------
    .. [1] El-Yaniv, Wiener, "On the Foundations of Noise-free Selective Classification", Journal of
       Machine Learning Research 11, 2010.

    Examples
    --------
    >>> from skcalib import RiskCoverageDisplay
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> display = RiskCoverageDisplay.from_estimator(
    ...     digits.classifier, digits.X_test, digits.y_test)
    >>> round(display.curve.area, 3)
    0.027
    """

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        kind: Accepted = "top-label",
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the curve of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, kind, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.risk_coverage_curve`.
        name : str, default=None
            Name of the model.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may hold curves of other models.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        RiskCoverageDisplay
            With the curve drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.risk_coverage_curve` and :meth:`plot`.
        """
        check_kind(kind, Accepted)
        _, columns = scored_rows(y_true, y_proba, kind, sample_weight, labels, pos_label)
        rows = next(columns)
        curve = curve_of(ranked(rows.score, rows.event, rows.weight))
        return cls(curve, name=name, rows=rows).plot(ax, **plot_params)

    def _summary(self) -> str:
        return f"AURC {self.curve.area:.3g}, risk {self.curve.risk[-1]:.3g} of all rows"

    def _line(self) -> Line:
        coverage = self.curve.coverage
        some = np.unique(np.linspace(0, len(coverage) - 1, PLACES).astype(np.intp))
        # Corners of steps: rows of equal score are accepted together.
        x = np.append(0.0, np.repeat(coverage[some], 2)[:-1])
        t = np.repeat(self.curve.threshold[some], 2)

        def risks(curve: Any) -> Floats:
            at = np.searchsorted(-curve.threshold, -t, side="right") - 1
            return curve.risk[np.maximum(at, 0)]

        return x, risks, curve_of, "Risk", f" (AURC {self.curve.area:.3g})"

    def _arrange(self, look: Look, top: float) -> None:  # noqa: ARG002
        high = float(self.curve.risk[self.curve.coverage >= LEAST_COVERAGE].max())
        top = min(max(1.5 * high, 1e-3, top), 1.0)
        self.ax_.set(xlim=(0, 1), ylim=(0, top), xlabel="Coverage")


class NetBenefitDisplay(CurveDisplay):
    r"""Decision curve: the net benefit of a model, over the threshold of the risk.

    The net benefit of treating rows whose risk is at least the threshold, see
    :func:`skcalib.metrics.net_benefit`, with the lines of treating everyone and of treating none.
    A model is of use at the thresholds where it is above both. The band has the pointwise
    confidence intervals of bootstrap samples of the rows.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display. Several models can
    be drawn on the same axes, where the two lines are those of the first of them.

    Parameters
    ----------
    curve : NetBenefitCurve
        The curve.
    name : str, default=None
        Name of the model.
    rows : named tuple (label, score, event, weight), default=None
        Risks, events and weights (or None) of the rows as arrays of shape (n_samples,), from which
        the band is drawn.

    Attributes
    ----------
    curve : NetBenefitCurve
        The curve.
    ax_ : matplotlib Axes
        Axes with the diagram.
    figure_ : matplotlib Figure
        Figure that contains them.
    line_ : matplotlib Line2D
        The curve.
    band_ : matplotlib FillBetweenPolyCollection or None
        The band.

    References
    ----------
    .. [1] Vickers, Elkin, "Decision Curve Analysis: A Novel Method for Evaluating Prediction
       Models", Medical Decision Making 26, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skcalib import NetBenefitDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> display = NetBenefitDisplay.from_estimator(
    ...     GaussianNB().fit(X[:300], y[:300]), X[300:], y[300:], thresholds=[0.1, 0.5])
    >>> display.curve.net_benefit.round(2).tolist()
    [0.74, 0.72]
    """

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
        standardized: bool = False,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_params: Any,
    ) -> Self:
        """Draw the decision curve of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, thresholds, standardized, sample_weight, labels, pos_label
            As for :func:`skcalib.metrics.net_benefit_curve`.
        name : str, default=None
            Name of the model.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure. Axes may hold curves of other models.
        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        NetBenefitDisplay
            With the curve drawn.

        Raises
        ------
        ValueError
            As :func:`skcalib.metrics.net_benefit_curve` and :meth:`plot`.
        """
        check_flag("standardized", standardized)
        t = checked_thresholds(thresholds)
        rows = risks_of(y_true, y_proba, sample_weight, labels, pos_label)
        found = ranked(rows.score, rows.event, rows.weight)
        curve = benefits_of(found, t, standardized=standardized)
        return cls(curve, name=name, rows=rows).plot(ax, **plot_params)

    def _summary(self) -> str:
        t, most = self.curve.threshold, self.curve.net_benefit.max()
        return f"net benefit up to {most:.3g} at thresholds from {t[0]:.2g} to {t[-1]:.2g}"

    def _line(self) -> Line:
        t, standardized = self.curve.threshold, self.curve.scale != 1
        curve_from = partial(benefits_of, t=t, standardized=standardized)
        name = "Standardized net benefit" if standardized else "Net benefit"
        return t, lambda curve: curve.net_benefit, curve_from, name, ""

    def _arrange(self, look: Look, top: float) -> None:
        t, everyone = self.curve.threshold, self.curve.treat_all
        # Without an event nothing is above 0.
        top = max(1.1 * self.curve.net_benefit.max(), 1.1 * everyone.max(), top) or 1.0
        if self.band_ is not None:
            top = max(top, float(np.max(np.asarray(self.band_.get_paths()[0].vertices)[:, 1])))
        self.ax_.set(xlim=(0, t[-1]), ylim=(-0.15 * top, top), xlabel="Threshold probability")
        if look.number:
            return
        for label, values, dashes in (("Treat all", everyone, ":"), ("Treat none", 0 * t, "-")):
            params: dict[str, Any] = {"color": look.theme.muted, "linewidth": 1.1, "zorder": 1.5}
            (line,) = self.ax_.plot(t, values, linestyle=dashes, label=label, **params)
            record(line, REFERENCE)

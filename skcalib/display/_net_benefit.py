"""Decision curves: net benefit over the threshold of the risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._output.theme import Theme
from skcalib._rows import ArrayLike, Floats, Ranked
from skcalib._rows.ranking import ranked
from skcalib._scores.columns import Scored
from skcalib._validation.inputs import check_flag
from skcalib.metrics import NetBenefitCurve
from skcalib.metrics._clinical import risks_of
from skcalib.metrics._net_benefit import benefits_of, checked_thresholds

from ._decision_curve import CurveDisplay
from ._layout import legend_above
from ._style import record, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What artists are that show the net benefit of no model.
REFERENCE = "reference"


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
    standardized : bool, default=False
        Whether net benefits are divided by the event rate.
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

    def __init__(
        self,
        curve: NetBenefitCurve,
        *,
        standardized: bool = False,
        name: str | None = None,
        rows: Scored | None = None,
    ) -> None:
        self.curve = curve
        self.standardized = standardized
        self.name = name
        self.rows = rows

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
        display = cls(curve, standardized=standardized, name=name, rows=rows)
        return display.plot(ax, **plot_params)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        confidence_level: float | None = 0.95,
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
        n_resamples : int, default=200
            Number of bootstrap samples for the band.
        random_state : int, RandomState instance or None, default=0
            Seed or generator of the samples.

        Returns
        -------
        NetBenefitDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For a confidence level outside of (0, 1), fewer than one sample, or axes with a diagram
            of another kind.
        """
        t, benefit, everyone = self.curve.threshold, self.curve.net_benefit, self.curve.treat_all
        name = "Standardized net benefit" if self.standardized else "Net benefit"

        def benefits(rows: Ranked) -> Floats:
            return benefits_of(rows, t, standardized=self.standardized).net_benefit

        resampling = n_resamples, random_state
        look = self._draw(ax, name, "", (t, benefit), benefits, confidence_level, resampling)
        ax = self.ax_
        top = max(float(benefit.max()), float(everyone.max()))
        if look.number:
            top = max(top, ax.get_ylim()[1] / 1.1)
        else:
            self._draw_references(look.theme)
        ax.set(xlim=(0, t[-1]), ylim=(-0.15 * top, 1.1 * top), ylabel=name)
        ax.set_xlabel("Threshold probability")
        handles = ax.get_legend_handles_labels()[0]
        legend_above(ax, sorted(handles, key=lambda h: h in recorded(ax.lines, REFERENCE)))
        return self

    def _draw_references(self, theme: Theme) -> None:
        """Lines of treating everyone and of treating none."""
        t, dotted = self.curve.threshold, (0, (1, 1))
        for label, values, dashes in (
            ("Treat all", self.curve.treat_all, dotted),
            ("Treat none", np.zeros_like(t), "-"),
        ):
            look: dict[str, Any] = {"color": theme.muted, "linestyle": dashes, "linewidth": 1.1}
            record(self.ax_.plot(t, values, label=label, zorder=1.5, **look)[0], REFERENCE)

"""Curves of what is decided above a threshold: risk and coverage, and net benefit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._rows import ArrayLike
from skcalib._rows.ranking import ranked
from skcalib._validation.inputs import check_flag
from skcalib.display._curve_display import CurveDisplay, Line
from skcalib.display._style import Look, record

from ._net_benefit import benefits_of, checked_thresholds
from ._regression import risks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Number of places at which curves and their bands are drawn.
PLACES = 400

# Risks of a smaller share of the rows, which are noisy, do not set the scale.
LEAST_COVERAGE = 0.05

# What artists are that show the net benefit of no model.
REFERENCE = "reference"


class NetBenefitDisplay(CurveDisplay):
    r"""Decision curve: the net benefit of a model, over the threshold of the risk.

    The net benefit of treating rows whose risk is at least the threshold, see
    :func:`skcalib.clinical.net_benefit`, with the lines of treating everyone and of treating none.
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
    >>> from skcalib.clinical import NetBenefitDisplay
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
            As for :func:`skcalib.clinical.net_benefit_curve`.
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
            As :func:`skcalib.clinical.net_benefit_curve` and :meth:`plot`.
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

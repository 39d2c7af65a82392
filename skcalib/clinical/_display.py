"""Decision curve: the net benefit over the threshold."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._input.groups import group_numbers
from skcalib._input.parameters import check_flag
from skcalib._output import drawing
from skcalib._output.curves import REFERENCE, CurveDisplay, Line
from skcalib._rows.ranking import distinct_scores
from skcalib._typing import ArrayLike

from ._net_benefit import benefits_of, checked_thresholds
from ._regression import risks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class NetBenefitDisplay(CurveDisplay):
    r"""Decision curve: the net benefit of a model against the threshold of the risk.

    The display shows the net benefit of treating the rows with a risk of at least the threshold,
    see :func:`skcalib.clinical.net_benefit`, and the lines for treating all and treating none. A
    model is useful at the thresholds where it is above both lines. The band contains pointwise
    confidence intervals from bootstrap samples of the rows.

    Use :meth:`from_estimator` or :meth:`from_predictions` to create a display. Several models can
    be drawn on the same axes; the two lines are drawn for the first model.

    Parameters
    ----------
    curve : NetBenefitCurve
        The curve.
    name : str, default=None
        Name of the model.
    rows : named tuple (label, score, event, weight), default=None
        Risks, events and weights (or None) of the rows as arrays of shape (n_samples,), for
        the band.
    groups : ndarray of shape (n_samples,), default=None
        Number of the group of each row, for the band.

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
        groups: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        confidence_level: float | None = 0.95,
        legend: bool | str = True,
        n_resamples: int = 200,
        random_state: Any = None,
        color: Any = None,
        line_kw: Any = None,
    ) -> Self:
        """Draw the decision curve of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, thresholds, standardized, sample_weight, labels, pos_label
            As for :func:`skcalib.clinical.net_benefit_curve`.
        groups : array-like of shape (n_samples,), default=None
            Rows with the same value belong together; the band resamples whole groups.
        name : str, default=None
            Name of the model.
        ax, confidence_level, legend, n_resamples, random_state, color, line_kw
            As for :meth:`plot`.

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
        ranks = distinct_scores(rows.score, rows.event, rows.weight)
        curve = benefits_of(ranks, t, standardized=standardized)
        numbers = group_numbers(groups, y_proba, sample_weight)
        return cls(curve, name=name, rows=rows, groups=numbers).plot(
            ax, confidence_level=confidence_level, legend=legend, n_resamples=n_resamples,
            random_state=random_state, color=color, line_kw=line_kw,
        )  # fmt: skip

    def _summary(self) -> str:
        t, most = self.curve.threshold, self.curve.net_benefit.max()
        return f"net benefit up to {most:.3g} at thresholds from {t[0]:.2g} to {t[-1]:.2g}"

    def _line(self) -> Line:
        t, standardized = self.curve.threshold, self.curve.scale != 1
        curve_from = partial(benefits_of, t=t, standardized=standardized)
        name = "Standardized net benefit" if standardized else "Net benefit"
        return t, lambda curve: curve.net_benefit, curve_from, name, ""

    def _arrange(self, number: int, top: float) -> None:
        ax, t, everyone = self.ax_, self.curve.threshold, self.curve.treat_all
        # Without an event nothing is above 0.
        top = max(1.1 * self.curve.net_benefit.max(), 1.1 * everyone.max(), top) or 1.0
        if self.band_ is not None:
            top = max(top, float(np.max(np.asarray(self.band_.get_paths()[0].vertices)[:, 1])))
        ax.set(xlim=(0, t[-1]), ylim=(-0.15 * top, top), xlabel="Threshold probability")
        if number:
            return
        colour = drawing.foreground(ax, 0.7)
        for label, values, dashes in (("Treat all", everyone, ":"), ("Treat none", 0 * t, "-")):
            ax.plot(
                t, values, color=colour, linestyle=dashes, linewidth=1.1, zorder=1.5, label=label,
                gid=REFERENCE,
            )  # fmt: skip

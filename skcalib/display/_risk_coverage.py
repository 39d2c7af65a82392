"""Risk and coverage of a classifier that may abstain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._rows import ArrayLike, Floats
from skcalib._rows.ranking import ranked
from skcalib._scores.columns import Scored
from skcalib.metrics import RiskCoverageCurve
from skcalib.metrics._input import check_kind, scored_rows
from skcalib.metrics._selective import Accepted, curve_of

from ._decision_curve import CurveDisplay
from ._layout import legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Number of places at which curves and their bands are drawn.
PLACES = 400

# Risks of a smaller share of the rows, which are noisy, do not set the scale.
LEAST_COVERAGE = 0.05


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

    def __init__(
        self, curve: RiskCoverageCurve, *, name: str | None = None, rows: Scored | None = None
    ) -> None:
        self.curve = curve
        self.name = name
        self.rows = rows

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
        RiskCoverageDisplay
            The display itself, with the attributes that end in an underscore set.

        Raises
        ------
        ValueError
            For a confidence level outside of (0, 1), fewer than one sample, or axes with a diagram
            of another kind.
        """
        coverage = self.curve.coverage
        some = np.unique(np.linspace(0, len(coverage) - 1, PLACES).astype(np.intp))
        # Corners of steps: rows of equal score are accepted together.
        x = np.append(0.0, np.repeat(coverage[some], 2)[:-1])
        t = np.repeat(self.curve.threshold[some], 2)

        def risks(curve: RiskCoverageCurve) -> Floats:
            at = np.searchsorted(-curve.threshold, -t, side="right") - 1
            return curve.risk[np.maximum(at, 0)]

        label, resampling = f" (AURC {self.curve.area:.3g})", (n_resamples, random_state)
        look = self._draw(
            ax, "risk and coverage", label, (x, risks(self.curve)),
            lambda rows: risks(curve_of(rows)), confidence_level, resampling,
        )  # fmt: skip
        ax = self.ax_
        high = float(self.curve.risk[coverage >= LEAST_COVERAGE].max())
        top = max(1.5 * high, 1e-3, ax.get_ylim()[1] if look.number else 0)
        ax.set(xlim=(0, 1), ylim=(0, min(top, 1)), xlabel="Coverage", ylabel="Risk")
        legend_above(ax, ax.get_legend_handles_labels()[0])
        return self

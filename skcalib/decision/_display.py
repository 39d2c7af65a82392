"""Curves of what is decided above a threshold: risk and coverage, and net benefit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._rows import ArrayLike, Floats
from skcalib._rows.ranking import ranked
from skcalib.display._curve_display import CurveDisplay, Line
from skcalib.display._style import Look
from skcalib.metrics._input import check_kind, scored_rows

from ._selective import Accepted, curve_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Number of places at which curves and their bands are drawn.
PLACES = 400

# Risks of a smaller share of the rows, which are noisy, do not set the scale.
LEAST_COVERAGE = 0.05

# What artists are that show the net benefit of no model.
REFERENCE = "reference"


class RiskCoverageDisplay(CurveDisplay):
    r"""Risk of the accepted rows, over the share of rows that are accepted.

    A classifier that may abstain accepts the rows of the largest confidence. The curve is the
    error rate among them, see :func:`skcalib.decision.risk_coverage_curve`; at a coverage of 1 it
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
    >>> from skcalib.decision import RiskCoverageDisplay
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
            As for :func:`skcalib.decision.risk_coverage_curve`.
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
            As :func:`skcalib.decision.risk_coverage_curve` and :meth:`plot`.
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

"""Curve of the risk over the coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skcalib._input.groups import group_numbers
from skcalib._input.measures import check_kind, scored_rows
from skcalib._output.curves import CurveDisplay, Line
from skcalib._rows.ranking import distinct_scores
from skcalib._typing import ArrayLike, Floats

from ._selective import Accepted, risk_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Number of points along curves and bands.
N_POINTS = 400

# At a smaller coverage the risk is noisy, and does not set the scale of the axis.
MIN_COVERAGE = 0.05


class RiskCoverageDisplay(CurveDisplay):
    r"""Error rate among accepted rows, against the share of rows that are accepted.

    A classifier that may abstain accepts the rows with the largest confidence. The curve is the
    error rate among them, see :func:`skcalib.decision.risk_coverage_curve`. The legend shows the
    area under the curve (AURC), which is small if errors have the smallest confidence. The band
    consists of pointwise bootstrap confidence intervals. Curves are noisy on the left, where few
    rows are accepted.

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
        (n_samples,), for the band.
    groups : ndarray of shape (n_samples,), default=None
        Number of the group of each row, for the band.

    Attributes
    ----------
    curve : RiskCoverageCurve
        The curve.
    ax_ : matplotlib Axes
        Axes with the diagram.
    figure_ : matplotlib Figure
        Figure that contains the axes.
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
        """Draw the curve of labels and probabilities.

        Parameters
        ----------
        y_true, y_proba, kind, sample_weight, labels, pos_label
            As for :func:`skcalib.decision.risk_coverage_curve`.
        groups : array-like of shape (n_samples,), default=None
            Rows with the same value belong together; the band resamples whole groups.
        name : str, default=None
            Name of the model.
        ax, confidence_level, legend, n_resamples, random_state, color, line_kw
            As for :meth:`plot`.

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
        curve = risk_curve(distinct_scores(rows.score, rows.event, rows.weight))
        numbers = group_numbers(groups, y_proba, sample_weight)
        return cls(curve, name=name, rows=rows, groups=numbers).plot(
            ax, confidence_level=confidence_level, legend=legend, n_resamples=n_resamples,
            random_state=random_state, color=color, line_kw=line_kw,
        )  # fmt: skip

    def _summary(self) -> str:
        return f"AURC {self.curve.area:.3g}, risk {self.curve.risk[-1]:.3g} of all rows"

    def _line(self) -> Line:
        coverage = self.curve.coverage
        corners = np.unique(np.linspace(0, len(coverage) - 1, N_POINTS).astype(np.intp))
        # Corners of steps: rows of equal score are accepted together.
        x = np.append(0.0, np.repeat(coverage[corners], 2)[:-1])
        t = np.repeat(self.curve.threshold[corners], 2)

        def risks(curve: Any) -> Floats:
            index = np.searchsorted(-curve.threshold, -t, side="right") - 1
            return curve.risk[np.maximum(index, 0)]

        return x, risks, risk_curve, "Risk", f" (AURC {self.curve.area:.3g})"

    def _arrange(self, number: int, top: float) -> None:  # noqa: ARG002
        high = float(self.curve.risk[self.curve.coverage >= MIN_COVERAGE].max())
        top = min(max(1.5 * high, 1e-3, top), 1.0)
        self.ax_.set(xlim=(0, 1), ylim=(0, top), xlabel="Coverage")

"""Rows of a diagram, their bins, and the limits of the axes that show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from skcalib._scores.bins import Strategy
from skcalib._scores.columns import Scored
from skcalib.metrics import ReliabilityCurve, reliability_curve, score_decomposition
from skcalib.metrics._calibration_error import FORMULAS

# Limits of logit axes are no nearer to 0 and 1 than that.
NEAREST = 1e-6


def with_weight(rows: Scored) -> Scored:
    """The rows with a positive weight: others are neither counted nor drawn."""
    w = rows.weight
    if w is None or (len(w) and w.all()):
        return rows
    if not w.any():
        raise ValueError(
            "rows must have a positive total weight, got zero weights only. Pass weight=None for "
            "equal weights."
        )
    return Scored(rows.label, rows.score[w > 0], rows.event[w > 0], w[w > 0])


def _of_events(rows: Scored) -> dict[str, Any]:
    """Arguments of measures that take the rows as those of a binary model."""
    weight = {"sample_weight": rows.weight, "labels": [False, True]}
    return {"y_true": rows.event, "y_proba": rows.score, "kind": "binary", **weight}


def curve_of_rows(rows: Scored, n_bins: int, strategy: Strategy) -> ReliabilityCurve:
    """The bins of the rows."""
    return reliability_curve(n_bins=n_bins, strategy=strategy, **_of_events(rows))


def curve_of_class(
    rows: Scored, n_bins: int, strategy: Strategy | None
) -> tuple[ReliabilityCurve, bool]:
    """The bins of the rows of a class, and whether they are quantile bins for want of others.

    That is so without a strategy where all scores are in one uniform bin, which shows nothing.
    """
    curve = curve_of_rows(rows, n_bins, strategy or "uniform")
    if strategy is None and len(curve.n_samples) == 1 < n_bins:
        finer = curve_of_rows(rows, n_bins, "quantile")
        if len(finer.n_samples) > 1:
            return finer, True
    return curve, False


def ece_of(curve: ReliabilityCurve) -> float:
    """The expected calibration error of the bins."""
    return float(FORMULAS["expected_calibration_error"](curve))


def miscalibration_of(rows: Scored) -> float:
    """The miscalibration of the Brier score of the rows."""
    return float(score_decomposition(score="brier_score", **_of_events(rows)).miscalibration)


def logit_limits(display: Any, style: str) -> tuple[float, float]:
    """Limits of logit axes that show scores and frequencies, but not 0 and 1."""
    x = np.append(display.curve.confidence, display.curve.accuracy)
    if style == "corp":
        # A few extreme scores, or frequencies of 0 and 1, must not squeeze all others.
        score, value = np.asarray(display.line_.get_data())
        score = np.clip(score, *np.quantile(display.rows.score, [0.005, 0.995]))
        x = np.append(score, value)[np.tile((value > 0) & (value < 1), 2)]
    # Frequencies that are nearer to 0 and 1 cannot be told apart with this number of rows.
    nearest = max(NEAREST, 0.1 / display.curve.n_samples.sum())
    z = logit(np.clip(x[(x > 0) & (x < 1)], nearest, 1 - nearest))
    low, high = (z.min(), z.max()) if len(z) else (-2.0, 2.0)
    margin = max(0.05 * (high - low), 0.3)
    return float(expit(low - margin)), float(expit(high + margin))


def linear_limits(display: Any) -> tuple[float, float]:
    """Limits of the axes of a display: 0 and 1, or on zoomed axes the scores and accuracies."""
    if not display.zoomed or display.rows is None:
        return 0.0, 1.0
    scores = display.rows.score
    shown = np.concatenate([[scores.min(), scores.max()], display.curve.accuracy])
    low, high = float(shown.min()), float(shown.max())
    margin = 0.05 * (high - low)
    # Where 0 or 1 is near, it is worth more than some magnification.
    near = 0.5 * (high - low)
    low = 0.0 if low < near else low - margin
    return low, 1.0 if high > 1 - near else high + margin


def shown_bins(display: Any) -> ReliabilityCurve:
    """The bins of a display, of which the first and the last end where zoomed axes do."""
    curve: ReliabilityCurve = display.curve
    low, high = linear_limits(display)
    lower, upper = np.maximum(curve.lower, low), np.minimum(curve.upper, high)
    return replace(curve, lower=lower, upper=upper)


def shown_rows(display: Any) -> ReliabilityCurve:
    """The bins of the histogram of a display.

    On zoomed axes they are as many bins of equal width: quantile bins all hold as many rows.
    """
    curve = shown_bins(display)
    if not display.zoomed or display.rows is None:
        return curve
    n = len(curve.n_samples)
    counts, edges = np.histogram(display.rows.score, n, linear_limits(display))
    return replace(curve, lower=edges[:-1], upper=edges[1:], n_samples=counts)

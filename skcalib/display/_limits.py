"""Limits of the axes of a reliability diagram, and what of its rows is in sight."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from skcalib._rows.arrays import Floats
from skcalib.metrics import ReliabilityCurve

from ._look import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Limits of logit axes are no nearer to 0 and 1 than that.
NEAREST = 1e-6


def logit_limits(x: Floats, n_rows: float) -> tuple[float, float]:
    """Limits of logit axes that show scores and frequencies of so many rows, but not 0 and 1."""
    # Frequencies that are nearer to 0 and 1 cannot be told apart with this number of rows.
    nearest = max(NEAREST, 0.1 / n_rows)
    z = logit(np.clip(x[(x > 0) & (x < 1)], nearest, 1 - nearest))
    low, high = (z.min(), z.max()) if len(z) else (-2.0, 2.0)
    margin = max(0.05 * (high - low), 0.3)
    return float(expit(low - margin)), float(expit(high + margin))


def zoomed_limits(curve: ReliabilityCurve, scores: Floats) -> tuple[float, float]:
    """Limits of axes that show scores close to each other, and the accuracy of their bins."""
    shown = np.concatenate([scores[[scores.argmin(), scores.argmax()]], curve.accuracy])
    low, high = float(shown.min()), float(shown.max())
    margin = 0.05 * (high - low)
    # Where 0 or 1 is near, it is worth more than some magnification.
    near = 0.5 * (high - low)
    low = 0.0 if low < near else low - margin
    return low, 1.0 if high > 1 - near else high + margin


def limits_on(ax: Axes, display: Any, look: Look) -> tuple[float, float]:
    """Limits of axes for a display, and for those of other models on them."""
    if look.scale == "linear":
        return linear_limits(display)
    rows = display.curve.n_samples.sum()
    low, high = logit_limits(shown_frequencies(display, look.style), rows)
    if look.number:
        before = ax.get_xlim()
        return min(low, before[0]), max(high, before[1])
    return low, high


def linear_limits(display: Any) -> tuple[float, float]:
    """Limits of the axes of a display, of 0 and 1 unless it is zoomed."""
    if not display.zoomed or display.rows is None:
        return 0.0, 1.0
    return zoomed_limits(display.curve, display.rows.score)


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


def shown_frequencies(display: Any, style: str) -> Floats:
    """Scores and frequencies that logit axes should show."""
    if display.rows is None or display.line_ is None or style != "corp":
        return np.append(display.curve.confidence, display.curve.accuracy)
    # A few extreme scores, or frequencies of 0 and 1, must not squeeze all others.
    score, value = np.asarray(display.line_.get_data())
    score = np.clip(score, *np.quantile(display.rows.score, [0.005, 0.995]))
    return np.append(score, value)[np.tile((value > 0) & (value < 1), 2)]

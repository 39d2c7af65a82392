"""Confidence limits of the mean confidence less the accuracy, also where few rows are wrong."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from skcalib._typing import Bools, Floats


def mean_and_error(values: Floats, w: Floats) -> tuple[float, float]:
    r"""Weighted mean and its standard error, which is NaN for a single row.

    The error is that of the bootstrap of rows, :math:`s^2 = \sum_i w_i^2 (x_i - \bar x)^2 / W^2`,
    with the factor :math:`n / (n - 1)` of an unbiased variance.
    """
    w = w / w.max()
    n, mean = np.count_nonzero(w), float(np.average(values, weights=w))
    if n < 2:
        return mean, math.nan
    variance = np.sum(w**2 * (values - mean) ** 2) / w.sum() ** 2
    return mean, math.sqrt(variance * n / (n - 1))


def mean_gap(confidence: Floats, hit: Floats | Bools, w: Floats) -> float:
    """The mean confidence less the accuracy."""
    return float((w / w.sum()) @ (confidence.astype(np.float64) - hit))


def mean_gap_ends(
    confidence: Floats, hit: Floats | Bools, w: Floats, level: float, correction: float = 0.0
) -> tuple[float, float]:
    r"""Wilson's confidence interval of the mean confidence less the accuracy.

    Its ends are the gaps g for which :math:`|\hat g - g| = z\, s(g) + \kappa \sum_i w_i^2 / W^2`,
    where :math:`s(g)^2 = \sum_i w_i^2 p_i (1 - p_i) / W^2`, and the probabilities :math:`p_i` of
    being right are the confidences, moved proportionally towards 0 or 1 until their mean is less by
    g. The correction for continuity :math:`\kappa` is 0, or 1/2 for ends close to the exact ones.
    """
    c, share = confidence.astype(np.float64), w / w.sum()
    mean, gap = float(share @ c), mean_gap(confidence, hit, w)
    z, least = float(ndtri((1 + level) / 2)), correction * float(share @ share)

    def excess(g: float) -> float:
        wrong = 1 - c + c * (g / mean) if g > 0 else (1 - c) * (1 + g / max(1 - mean, 1e-300))
        distance = max(abs(g - gap) - least, 0.0)
        return distance**2 - z**2 * float(share**2 @ (wrong * (1 - wrong)))

    def end(bound: float) -> float:
        # The variance, and with it the excess, may be 0 at the estimate itself.
        start = gap + 1e-9 * (bound - gap)
        if excess(start) >= 0 or excess(bound) <= 0:
            return start if excess(start) >= 0 else bound
        return float(brentq(excess, start, bound))

    return end(min(mean - 1, gap)), end(max(mean, gap))

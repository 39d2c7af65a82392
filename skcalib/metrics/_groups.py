"""Groups of dependent rows, such as the visits of a patient, in intervals and tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from skcalib._input.groups import effective_number
from skcalib._typing import Bools, Floats, Indices

Random = np.random.RandomState


def draw_rows(groups: Indices, random: Random) -> Indices:
    """Draw a bootstrap sample of groups, and count how often it has each row."""
    n_groups = int(groups.max()) + 1
    return np.bincount(random.randint(n_groups, size=n_groups), minlength=n_groups)[groups]


def degrees_of_freedom(sizes: Floats) -> float:
    """Return the degrees of freedom for a variance between groups with these total weights.

    If the rows in a group are equal, the variance of their sum is proportional to the squared
    size. A few large groups count as few groups (Carter, Schnepel, Steigerwald, Review of
    Economics and Statistics 99, 2017).
    """
    return max(effective_number(sizes) - 1, 1.0)


def inflation(level: float, freedom: Any) -> Any:
    """Return the quantile of the t distribution divided by the quantile of the normal."""
    tail = (1 + level) / 2
    return stdtrit(freedom, tail) / ndtri(tail)


def skewed_interval(
    estimate: float, deviations: Floats, level: float, freedom: float
) -> tuple[float, float, float]:
    """Return the interval for a mean of independent terms, and the p-value for the mean 0.

    ``deviations`` are the terms minus their mean. If terms are skewed, so is their t statistic. A
    cubic polynomial in it has a symmetric distribution (Hall, "On the Removal of Skewness by
    Transformation", Journal of the Royal Statistical Society B 54, 1992). A single outlier among 12
    terms would move an end to 7 standard errors. Therefore the skewness is bounded, so that no end
    is more than about 1.5 times as far from the mean as the end of the t interval.
    """
    n, squares = len(deviations), float(deviations @ deviations)
    if squares == 0:
        return estimate, estimate, float(estimate == 0)
    error, skewness = np.sqrt(squares / (n * (n - 1))), float((deviations**3).sum()) / squares**1.5
    limit = float(stdtrit(freedom, (1 + level) / 2))
    skewness = float(np.clip(skewness, -0.75 / limit, 0.75 / limit))
    t = estimate / error
    symmetric = t + skewness * (t**2 / 3 + 1 / 6) + skewness**2 * t**3 / 27
    shifted = np.array([limit, -limit]) - skewness / 6
    root = np.cbrt(1 + skewness * shifted)
    low, high = estimate - error * 3 * shifted / (root**2 + root + 1)  # the inverse polynomial
    return float(low), float(high), float(2 * stdtr(freedom, -abs(symmetric)))


def effective_rates(
    hit: Bools, rates: Floats, w: Floats, groups: Indices | None, level: float
) -> tuple[Floats, Floats]:
    """Return effective numbers of rows for limits of rates (k,), and the covariance matrix.

    ``hit`` (k, n) says which rows count. The number is at most the number of rows, and at least
    the number for groups of equal rows. A t distribution for few groups makes it smaller.
    """
    total = w.sum()
    if groups is None:
        covariance = (np.diag(rates) - np.outer(rates, rates)) / total
        return np.full(len(rates), total), covariance
    sizes = sums_by_group(w, groups)
    sums = np.stack([sums_by_group(w * row, groups) for row in hit]) - np.outer(rates, sizes)
    covariance = sums @ sums.T * len(sizes) / max(len(sizes) - 1, 1) / total**2
    variance, fewest = covariance.diagonal(), total**2 / (sizes @ sizes)
    n = np.divide(
        rates * (1 - rates), variance, out=np.full(len(rates), fewest), where=variance > 0
    )
    few = inflation(level, degrees_of_freedom(sizes))
    return np.clip(n, fewest, total) / few**2, covariance


def sums_by_group(values: Floats, groups: Indices | None) -> Floats:
    """Sum the values in each group, or return the values if there are no groups."""
    return values if groups is None else np.bincount(groups, values).astype(np.float64)

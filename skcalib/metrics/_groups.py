"""Groups of dependent rows, such as the visits of a patient, in intervals and tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from skcalib._rows import Floats, Indices
from skcalib._splits import checked_groups
from skcalib._validation.inputs import check_weights
from skcalib._warnings import warn

# Fewer groups do not show how much groups vary.
FEW_GROUPS = 20

# Signs of groups are flipped unless the squared skewness of the sum of residuals exceeds this: 420
# groups with uniform risks have 0.002. Skewed sums do not have a symmetric distribution.
MOST_SKEWNESS = 0.002

Random = np.random.RandomState


def group_numbers(groups: Any, y_proba: Any, sample_weight: Any) -> Indices | None:
    """Number of the group of each row of positive weight; None if all groups have one row."""
    if groups is None:
        return None
    labels = checked_groups(np.empty((np.shape(y_proba)[0], 0)), groups)
    w = check_weights(sample_weight, len(labels))
    labels = labels if w is None else labels[w > 0]
    numbers = np.unique(labels, return_inverse=True)[1].reshape(-1)
    n_groups = int(numbers.max()) + 1
    warn_of_few_groups(n_groups)
    return None if n_groups == len(numbers) else numbers


def warn_of_few_groups(n_groups: int) -> None:
    """Warn if there are too few groups to estimate how much they vary."""
    if n_groups < FEW_GROUPS:
        warn(
            f"Intervals and tests with groups hold for {FEW_GROUPS} groups and more, got "
            f"{n_groups}: intervals may be too narrow. Collect rows of more groups."
        )


def draw_rows(n: int, random: Random, groups: Indices | None = None) -> Indices:
    """Number of times that each of n rows is in a bootstrap sample of the rows or the groups."""
    if groups is not None:
        n_groups = int(groups.max()) + 1
        return np.bincount(random.randint(n_groups, size=n_groups), minlength=n_groups)[groups]
    return np.bincount(random.randint(n, size=n), minlength=n)


def normal_quantile(level: float, groups: Indices | None = None) -> float:
    """Quantile of a two-sided interval, from the t distribution if rows have groups."""
    tail = (1 + level) / 2
    return float(ndtri(tail) if groups is None else stdtrit(max(groups.max(), 1), tail))


def skewed_interval(
    estimate: float, deviations: Floats, level: float
) -> tuple[float, float, float]:
    """Interval of a mean of independent terms, and the p-value of the mean 0.

    ``deviations`` are the terms minus their mean. If terms are skewed, so is their t statistic. A
    cubic polynomial of it has a symmetric distribution (Hall, "On the Removal of Skewness by
    Transformation", Journal of the Royal Statistical Society B 54, 1992).
    """
    n, squares = len(deviations), float(deviations @ deviations)
    if squares == 0:
        return estimate, estimate, float(estimate == 0)
    error, skewness = np.sqrt(squares / (n * (n - 1))), float((deviations**3).sum()) / squares**1.5
    t = estimate / error
    symmetric = t + skewness * (t**2 / 3 + 1 / 6) + skewness**2 * t**3 / 27
    limit = float(stdtrit(n - 1, (1 + level) / 2))
    shifted = np.array([limit, -limit]) - skewness / 6
    root = np.cbrt(1 + skewness * shifted)
    low, high = estimate - error * 3 * shifted / (root**2 + root + 1)  # the inverse polynomial
    return float(low), float(high), float(2 * stdtr(n - 1, -abs(symmetric)))


def sums_by_group(values: Floats, groups: Indices | None) -> Floats:
    """Sum of the values of each group, or the values if there are no groups."""
    return values if groups is None else np.bincount(groups, values).astype(np.float64)


def are_skewed(P: Floats, w: Floats, groups: Indices) -> bool:
    """Whether sums of residuals of groups are skewed, so that their signs must not be flipped.

    The measure is the ratio of third absolute to second moments for labels that are equal within
    groups. It depends on the probabilities (n_columns, n) only, not on the labels.
    """
    size, variance = np.bincount(groups, w)[groups], w * P * (1 - P)
    second = (size * variance).sum() / len(P)
    third = (size**2 * variance * np.abs(1 - 2 * P)).sum() / len(P)
    return bool(third**2 > MOST_SKEWNESS * second**3)


def uniform_numbers(n: int, random: Random, groups: Indices | None) -> Floats:
    """Uniform number of each row. Rows of a group share a number, so labels depend fully."""
    if groups is None:
        return random.uniform(size=n)
    return random.uniform(size=int(groups.max()) + 1)[groups]

r"""The scale of scores ``b Z`` at which their log loss is least: one over the temperature.

Notation as in :mod:`skcalib._linear.loss`. The loss is convex in ``b``, with the derivatives
``E_p[z] - z_y`` and ``Var_p[z]`` for a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from skcalib._engine.array_api import astype, at_least, at_most, into, namespace, smallest_normal
from skcalib._engine.blocks import (
    both_columns,
    double,
    joined_flat,
    of_labels,
    row_dots,
    weighted_sum,
)
from skcalib._engine.rows import Plan, Rows
from skcalib._typing import Floats, Indices

# Where the logits are no better than chance, 1e6 times the mean range of a row leaves nothing but
# 1/K.
SMALLEST_SCALE = 1e-6

# Smoothed targets leave out classes that are this many times as far below the largest logit of the
# row as others typically are: such a logit says that a class is impossible, not how improbable.
FAR_BELOW = 100.0

# Rounding makes the slope at zero negative by no more than this share of the mean range of a row.
ROUNDING = 1e-13

# Scores further below the largest of their row than this have a probability of zero.
LOWEST_SCORE = -1e4

# Ranges of logits that are smaller have no finite scale in double precision.
SMALLEST_RANGE = 1e-280

# Single precision holds the products of logits with scales between these.
SINGLE_SCALES = 1e-30, 1e30

# Newton steps smaller than this share of the scale are the last.
LAST_STEP = 1e-5

# Curvatures smaller than this share of the slope, both relative to the scale, count as this.
FLATTEST = 1e-6

TINY = float(np.finfo(float).tiny)

# Passes after which every other step is a bisection.
MANY_PASSES = 10


@dataclass(frozen=True)
class FittedScale:
    """The scale at which the log loss of ``scale * Z`` is least, or what stands in for it.

    For rows that are separable, or tied, that is the optimum for smoothed targets; for rows no
    better than chance, a bound.
    """

    value: float
    outcome: Literal["minimum", "separable", "tied", "hopeless", "constant"]

    @property
    def is_separable(self) -> bool:
        """Whether no label has a logit below the largest of its row."""
        return self.outcome in {"separable", "tied"}


def fit_scale(rows: Rows) -> FittedScale:
    r"""The scale ``b > 0`` that minimises the log loss of scores ``b Z``.

    The loss is convex in ``b``, so its slope increases and the minimum is the only zero of the
    slope. It is found by Newton's method from the zero for a sample of the rows, each step one
    pass; the error squares at every step, and the last one is below 1e-5, so that what is left is
    of the order of 1e-10. Without a sample, or if it misleads, the start comes from bounds.
    """
    start = rows.sample(_scale_within_bounds)
    if start is not None and start.outcome == "minimum":
        found = _zero_of_slope(rows, start.value, max_passes=8)
        if found is not None:
            return FittedScale(found, "minimum")
    return _scale_within_bounds(rows)


def _summed_slope(b: float, rows: Rows) -> Floats:
    return rows.sum(lambda *block: scale_slope(b, *block), Plan(scratch=2))


def scale_slope(
    b: float,
    Z: Floats,
    y: Indices,
    w: Floats | None,
    U: Floats | None = None,
    P: Floats | None = None,
) -> Floats:
    """Derivatives of the summed log loss of ``b Z``, times ``b`` and ``b**2``.

    With scores ``s = b z`` and their probabilities ``p`` that is ``E_p[s] - s_y`` for a row, and
    ``Var_p[s]``: shape (2,). Scores are moderate where logits are not, and squares of them finite.
    ``U`` and ``P`` are scratch arrays like ``Z``.
    """
    xp = namespace(Z)
    if Z.dtype == xp.float32 and not SINGLE_SCALES[0] < b < SINGLE_SCALES[1]:
        Z, U, P = double(Z), None, None
    if Z.shape[1] <= 2:
        return _slope_of_two_classes(b, Z[:, -1] - (Z[:, 0] if Z.shape[1] == 2 else 0), y, w)
    top = xp.max(Z, axis=1, keepdims=True)
    U = Z - top if U is None else np.subtract(Z, top, out=U)
    with np.errstate(over="ignore", invalid="ignore"):
        U *= float(b)
        of_label = of_labels(U, y)
        P = into("exp", P, U)
        total = xp.sum(P, axis=1)
        mean = row_dots(P, U) / total
        if not xp.all(xp.isfinite(mean)):  # zero times infinity
            U = at_least(U, LOWEST_SCORE, U)
            mean = row_dots(P, U) / total
        P *= U
        square = row_dots(P, U) / total
    return joined_flat(weighted_sum(mean - of_label, w), weighted_sum(square - mean**2, w))


def _slope_of_two_classes(b: float, M: Floats, y: Indices, w: Floats | None) -> Floats:
    """The same for log-odds ``M`` (m,) of the second of two classes, with one exponential a row."""
    highest = -float(np.log(smallest_normal(M))) / 2
    with np.errstate(over="ignore"):
        S = M * float(b)
    S *= astype(2 * y - 1, M.dtype)  # log-odds of the label
    S = at_most(S, highest, S)
    wrong = into("exp", None, S)
    wrong = into("reciprocal", wrong, 1 + wrong)
    first = wrong * S
    second = into("multiply", wrong, 1 - wrong, S)
    second *= first
    return joined_flat(-weighted_sum(first, w), weighted_sum(second, w))


def _zero_of_slope(
    rows: Rows, start: float, high: float = np.inf, max_passes: int = 100, *, pull: float = 0.0
) -> float | None:
    """Zero of the slope below ``high``, by Newton's method between bounds that its signs narrow.

    The slope is that of the summed loss, to which ``pull`` times the scale is added.

    None if there is none above the smallest number, or if the method does not converge. Steps out
    of the bounds, and after many passes some others, are replaced by bisection of the logarithm.
    """
    b, low, reach = start, 0.0, 4.0
    for n_passes in range(max_passes):
        first, second = _summed_slope(b, rows)
        first += b * pull
        low, high = (low, b) if first >= 0 else (b, high)
        ahead = b * (1 - first / max(second, FLATTEST * abs(first), TINY))
        if abs(ahead - b) <= LAST_STEP * b or high - low <= LAST_STEP**2 * b:
            return float(np.clip(ahead, low, high))
        if not low < ahead < high or (n_passes > MANY_PASSES and n_passes % 2):
            if low > 0 and high < np.inf:
                ahead = np.sqrt(low) * np.sqrt(high)
            else:
                ahead = b / reach if first >= 0 else b * reach
                reach *= reach  # up to infinity, where ** would raise an error
        if not TINY <= ahead < np.inf:
            return None
        b = ahead
    return None


def _scale_within_bounds(rows: Rows) -> FittedScale:
    """The scale between two bounds, or what stands in for it where the loss has no minimum.

    With the gap of a row, its largest logit less that of its label, the loss is at least ``b``
    times the mean gap, and it is the mean of ``log K`` at ``b = 0``. So the minimum is below the
    quotient of the two. There is none exactly where the mean gap is zero, so that the loss has
    no minimum, and where the slope at ``b = 0`` is not negative. Logits that are far below the
    others enter none of the three.
    """
    facts = Facts(*rows.sum(partial(_facts, rows.weight)).tolist())
    check_range(facts.range)
    if facts.range == 0:
        return FittedScale(1.0, "constant")
    if facts.gap == 0:
        smoothed = _scale_of_smoothed_targets(rows, facts)
        return FittedScale(smoothed, "tied" if facts.tied else "separable")
    least = max(SMALLEST_SCALE / facts.range, TINY)
    hopeless = FittedScale(least, "hopeless")
    if facts.slope >= -ROUNDING * facts.range:
        return hopeless

    high = 2 * facts.entropy / facts.gap
    # The minimum of a line and an exponential with the slopes of the loss at zero and far from it.
    fall = facts.gap - facts.slope
    start = facts.entropy / fall * float(np.log(fall) - np.log(facts.gap))
    found = _zero_of_slope(rows, start, high)
    # None where rounding makes the slope negative all the same.
    return hopeless if found is None else FittedScale(found, "minimum")


class Facts(NamedTuple):
    """Means over the rows that bound the best scale and tell whether there is one."""

    gap: float  #: the largest logit less that of the label
    slope: float  #: the mean logit less that of the label: the slope of the loss at zero
    entropy: float  #: the logarithm of the number of classes that are not masked
    range: float  #: the largest logit less the least that is finite
    tied: float  #: whether the largest logit is that of several classes


def _scale_of_smoothed_targets(rows: Rows, facts: Facts) -> float:
    """The best scale for targets ``(1 - eps) e_y + eps u``, if no label is below the largest logit.

    With ``eps = 1 / (N + 1)``, N the weight of the rows, and ``u`` uniform over the classes of the
    row: the loss is the log loss plus ``eps`` times the scale times the mean distance from the
    largest logit to the others, and grows without bound with the scale.
    """
    log_distance, n = rows.sum(_log_distances)
    typical = float(np.exp(log_distance / n))
    pull = float(rows.sum(partial(_mean_distances, FAR_BELOW * typical))) / (rows.weight + 1)
    high = 2 * facts.entropy * rows.weight / pull
    # The optimum where every row has two classes at the typical distance.
    start = np.log1p(2 * rows.weight) / typical
    found = _zero_of_slope(rows, min(start, high / 8), high, pull=pull)
    return TINY if found is None else found


def _log_distances(Z: Floats, _: Indices, w: Floats | None) -> Floats:
    """Sum of logarithms of the mean distances from the largest logit of a row, and their number.

    The means over the logits below the largest are harmonic: near ones count.
    """
    Z = double(both_columns(Z))
    xp = namespace(Z)
    distance = xp.max(Z, axis=1, keepdims=True) - Z
    below = (distance >= SMALLEST_RANGE) & xp.isfinite(distance)
    total = xp.sum(xp.where(below, 1 / xp.where(below, distance, 1.0), 0.0), axis=1)
    some = total > 0
    n_below = double(xp.count_nonzero(below, axis=1))
    logs = xp.log(xp.where(some, n_below / xp.where(some, total, 1.0), 1.0))
    return joined_flat(weighted_sum(logs, w), weighted_sum(some, w))


def _mean_distances(limit: float, Z: Floats, _: Indices, w: Floats | None) -> Any:
    """Mean distances from the largest logit to those at most ``limit`` below it, summed."""
    Z = double(both_columns(Z))
    xp = namespace(Z)
    distance = xp.max(Z, axis=1, keepdims=True) - Z
    near = distance <= limit
    n_near = double(xp.count_nonzero(near, axis=1))
    return weighted_sum(xp.sum(xp.where(near, distance, 0.0), axis=1) / n_near, w)


def _facts(weight: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """What the rows of a block add to the :class:`Facts` of rows of this weight in all."""
    Z = double(both_columns(Z))
    xp = namespace(Z)
    top, label = xp.max(Z, axis=1), of_labels(Z, y)
    masked = -np.inf == Z
    n = double(xp.count_nonzero(~masked, axis=1))
    # Each is divided before it is added, for the sum of large ones need not be finite.
    slope = xp.sum(xp.where(masked, 0.0, Z - label[:, None]) / n[:, None], axis=1)
    least = xp.min(xp.where(masked, np.inf, Z), axis=1)
    tied = xp.count_nonzero(top[:, None] == Z, axis=1) > 1
    facts = [top - label, slope, xp.log(n), top - least, double(tied)]
    shares = xp.full_like(top, 1 / weight) if w is None else w / weight
    return joined_flat(*(weighted_sum(fact, shares) for fact in facts))


def check_range(value: float) -> None:
    """Raise a ValueError for logits whose best scale may be beyond the largest number."""
    if 0 < value < SMALLEST_RANGE:
        raise ValueError(
            f"The logits of a row of X must differ by {SMALLEST_RANGE:g} or more on average for "
            f"their scale to be finite, or not at all, got differences of {value:.2g}. Scale them "
            "up."
        )

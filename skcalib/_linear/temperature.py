r"""The scale of scores ``b Z`` at which their log loss is least: one over the temperature.

Notation as in :mod:`skcalib._linear.loss`. The loss is convex in ``b``, with the derivatives
``E_p[z] - z_y`` and ``Var_p[z]`` for a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from skcalib._engine.blocks import both_columns, weighted_sum, with_both_columns
from skcalib._engine.rows import Plan, Rows
from skcalib._typing import Floats, Indices

# Where no temperature is best, 1e6 times the mean range of a row leaves nothing but 1/K, and 1e-4
# times the typical distance from the largest logit to the next leaves nothing but zeros and ones.
SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e4

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

# Passes after which every other step is a bisection.
MANY_PASSES = 10


@dataclass(frozen=True)
class FittedScale:
    """The scale at which the log loss of ``scale * Z`` is least, or where the search ended."""

    value: float
    outcome: Literal["minimum", "separable", "tied", "hopeless", "constant"]


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
    if Z.dtype == np.float32 and not SINGLE_SCALES[0] < b < SINGLE_SCALES[1]:
        Z, U, P = Z.astype(np.float64), None, None
    Z, U, P = with_both_columns(Z, U, P)
    U = np.subtract(Z, Z.max(axis=1, keepdims=True), out=U)
    with np.errstate(over="ignore", invalid="ignore"):
        U *= np.asarray(b, U.dtype)
        of_label = U[np.arange(len(U)), y]
        P = np.exp(U, out=P)
        total = P.sum(axis=1)
        mean = np.einsum("ij,ij->i", P, U) / total
        if not np.isfinite(mean).all():  # zero times infinity
            np.maximum(U, LOWEST_SCORE, out=U)
            mean = np.einsum("ij,ij->i", P, U) / total
        P *= U
        square = np.einsum("ij,ij->i", P, U) / total
    return np.array([weighted_sum(mean - of_label, w), weighted_sum(square - mean**2, w)])


def _zero_of_slope(
    rows: Rows, start: float, high: float = np.inf, max_passes: int = 100
) -> float | None:
    """Zero of the slope below ``high``, by Newton's method between bounds that its signs narrow.

    None if there is none above the smallest number, or if the method does not converge. Steps out
    of the bounds, and after many passes some others, are replaced by bisection of the logarithm.
    """
    b, low, reach, tiny = start, 0.0, 4.0, float(np.finfo(float).tiny)
    for n_passes in range(max_passes):
        first, second = _summed_slope(b, rows)
        low, high = (low, b) if first >= 0 else (b, high)
        ahead = b * (1 - first / max(second, FLATTEST * abs(first), tiny))
        if abs(ahead - b) <= LAST_STEP * b or high - low <= LAST_STEP**2 * b:
            return float(ahead)
        if not low < ahead < high or (n_passes > MANY_PASSES and n_passes % 2):
            if low > 0 and high < np.inf:
                ahead = np.sqrt(low) * np.sqrt(high)
            else:
                ahead = b / reach if first >= 0 else b * reach
                reach *= reach  # up to infinity, where ** would raise an error
        if not tiny <= ahead < np.inf:
            return None
        b = ahead
    return None


def _scale_within_bounds(rows: Rows) -> FittedScale:
    """The scale between two bounds, or the bound where the loss has no minimum.

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
        # With nothing but ties and masked classes below the largest logits any scale will do.
        distance = np.exp(facts.log_distance / facts.has_distance) if facts.has_distance else 1.0
        outcome: Literal["tied", "separable"] = "tied" if facts.tied else "separable"
        return FittedScale(float(LARGEST_SCALE / distance), outcome)
    least = max(SMALLEST_SCALE / facts.range, float(np.finfo(float).tiny))
    hopeless = FittedScale(least, "hopeless")
    if facts.slope >= 0:
        return hopeless

    high = 2 * facts.entropy / facts.gap
    found = _zero_of_slope(rows, high / 8, high)
    # None where only rounding makes the slope at zero negative.
    return hopeless if found is None else FittedScale(found, "minimum")


class Facts(NamedTuple):
    """Means over the rows that bound the best scale and tell whether there is one."""

    gap: float  #: the largest logit less that of the label
    slope: float  #: the mean logit less that of the label: the slope of the loss at zero
    entropy: float  #: the logarithm of the number of classes that are not masked
    range: float  #: the largest logit less the least that is finite
    log_distance: float  #: logarithm of the distance from the largest logit to the next lower one
    has_distance: float  #: whether there is such a distance
    tied: float  #: whether the largest logit is that of several classes


def _facts(weight: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """What the rows of a block add to the :class:`Facts` of rows of this weight in all."""
    Z = both_columns(Z).astype(np.float64)
    top, label = Z.max(axis=1, keepdims=True), Z[np.arange(len(Z)), y][:, None]
    masked = np.isneginf(Z)
    n = np.count_nonzero(~masked, axis=1)
    # Each is divided before it is added, for the sum of large ones need not be finite.
    slope = (np.where(masked, 0, Z - label) / n[:, None]).sum(axis=1)
    least = np.where(masked, np.inf, Z).min(axis=1)
    next_one = np.where(top > Z, Z, -np.inf).max(axis=1)
    top, label = top[:, 0], label[:, 0]
    has_distance = np.isfinite(next_one)
    log_distance = np.log(np.where(has_distance, top - next_one, 1))
    tied = np.count_nonzero(top[:, None] == Z, axis=1) > 1
    facts = [top - label, slope, np.log(n), top - least, log_distance, has_distance, tied]
    return np.array(facts) @ (np.full(len(Z), 1 / weight) if w is None else w / weight)


def check_range(value: float) -> None:
    """Raise a ValueError for logits whose best scale may be beyond the largest number."""
    if 0 < value < SMALLEST_RANGE:
        raise ValueError(
            f"The logits of a row of X must differ by {SMALLEST_RANGE:g} or more on average for "
            f"their scale to be finite, or not at all, got differences of {value:.2g}. Scale them "
            "up."
        )

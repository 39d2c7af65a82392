r"""Inverse temperatures: the factor ``b`` that minimizes the log loss of ``softmax(b Z)``.

The loss is convex in ``b``. A row contributes ``E_p[z] - z_y`` to its derivative, which increases
with ``b``. Halley's method finds the root in ``log b``, or Brent's method between two bounds if
Halley's method does not converge.

*Bounds.* Let g be the mean of the largest logit minus the label's logit, d the mean of the largest
logit minus the average logit, and H the mean of log K. The loss is H at ``b = 0``, with slope
``g - d``, and at least ``b g`` everywhere. The minimum is therefore below ``2 H / g``. The search
starts at ``H / d log(d / g)``. This minimizes a line plus an exponential with the loss's value and
slope at 0 and its slope far from 0.

*No minimum.* The loss has no minimum if rows are separable (g is 0), no better than chance (g is at
least d), or constant (d is 0). For separable rows, labels are smoothed by 1 / (N + 1), with N the
total weight, which adds ``b d / (N + 1)`` to the loss. For rows no better than chance the factor is
the lower bound, for constant rows 1.

*Saturated rows.* A few rows with a wrong label and logits of thousands may determine the minimum.
Mixing in a share :math:`\varepsilon` of the uniform distribution bounds their loss:

.. math:: -\frac1N \sum_i w_i \log\left((1 - \varepsilon)\, \mathrm{softmax}(b z_i)_{y_i}
    + \varepsilon / K\right) .

The minimizer replaces ``b`` if one confidence for all predictions has a lower log loss than
``softmax(b Z)``. The mixture's loss is not convex, so a grid precedes the search.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize

from skcalib._rows import Rows, arrays, thin
from skcalib._typing import Floats, Indices
from skcalib._warnings import NoMinimumWarning, warn

# Smallest factor times the mean range of a row's logits: there all classes are equally probable.
SMALLEST_SCALE = 1e-6

# Clip scores so that products are finite. exp(LOWEST_SCORE) is zero in single precision.
LOWEST_SCORE, LARGEST_SCORE = -80.0, 1e30

HALLEY_STEPS = 10

NO_MINIMUM = {
    "separable": (
        "The log loss has no minimum: every row is classified correctly (separable rows), so it "
        "falls as the temperature falls to 0. The temperature is set to {T:g}, the optimum "
        "for labels smoothed by 1/(N + 1), where N is the sum of the weights. Calibrate on rows "
        "that the classifier was not trained on, or on more of them."
    ),
    "no_better_than_chance": (
        "The log loss has no minimum: on these rows the logits are no better than chance, so it "
        "falls all the way to the largest temperature tried, {T:g}, where all classes are "
        "equally probable. Check that the columns of X are in the order of the classes, or that a "
        "single column holds the log-odds of the second one."
    ),
    "constant": (
        "The log loss has no minimum: the logits of each row are all equal, so every "
        "temperature gives the same probabilities. The temperature is set to {T:g}. Check X."
    ),
}


class InverseTemperature(NamedTuple):
    """Factor that minimizes the log loss, or a fallback if the loss has no minimum."""

    value: float
    outcome: Literal["minimum", "separable", "no_better_than_chance", "constant"]


def warn_of_no_minimum(scale: InverseTemperature, *, penalized: bool = False) -> None:
    """Warn if the log loss has no minimum, and name the temperature that is used instead.

    Separable rows get no warning if a ``penalized`` map follows: its penalty ensures a minimum.
    """
    if scale.outcome == "minimum" or (penalized and scale.outcome == "separable"):
        return
    message = NO_MINIMUM[scale.outcome].format(T=1 / scale.value)
    warn(message, NoMinimumWarning, scale.outcome)


def fit_inverse_temperature(rows: Rows, smoothing: float = 0.0) -> InverseTemperature:
    """Return the factor ``b > 0`` that minimizes the log loss of ``softmax(b Z)``.

    With ``smoothing``, ``b`` minimizes the mixture's loss if saturated rows would determine it.
    """
    # From a sample's factor two passes over all rows suffice.
    few = thin(rows)
    sample = None if few is None else fit_inverse_temperature(few, smoothing)
    if sample is not None and sample.outcome == "minimum":
        b = _find_root(rows, sample.value)
        # Rows that the sample lacks may be saturated: the factor then differs from the sample's.
        if b is not None and (smoothing == 0 or 1 / 1.5 < b / sample.value < 1.5):
            return InverseTemperature(b, "minimum")

    N = rows.weight
    accuracy, gap, slope, entropy, spread = (rows.sum(row_statistics) / N).tolist()
    if spread < 1e-300:  # also if a factor would overflow
        return InverseTemperature(1.0, "constant")
    distance, penalty, is_separable = gap - slope, 0.0, gap == 0
    if is_separable:  # smoothed labels
        gap = distance / (N + 1)
        penalty = N * gap
    b, smallest = None, SMALLEST_SCALE / spread
    if slope < -1e-13 * spread:  # more negative than rounding errors
        start = entropy / distance * math.log(distance / gap)
        b = _find_root(rows, start, (smallest, 2 * entropy / gap), penalty)
    if is_separable:
        return InverseTemperature(b or smallest, "separable")
    plain = InverseTemperature(b or smallest, "minimum" if b else "no_better_than_chance")
    if smoothing == 0:
        return plain
    # One confidence for all predictions: the smoothed accuracy; other classes share the rest.
    p = (accuracy * N + 1) / (N + 2)
    other = (1 - p) / max(math.exp(entropy) - 1, np.finfo(float).tiny)
    loss = rows.sum(partial(log_loss, plain.value)) / N
    if p <= other or loss <= -p * math.log(p) - (1 - p) * math.log(other):
        return plain
    return _fit_mixture(rows, smoothing, plain)


def _find_root(
    rows: Rows, start: float, bounds: tuple[float, float] | None = None, penalty: float = 0.0
) -> float | None:
    """Return the factor ``b`` that minimizes the summed log loss plus ``penalty * b``.

    Return None if Halley's method does not converge and there are no ``bounds``, or if the loss
    rises at the lower bound.
    """

    def slope(log_b: float) -> tuple[float, float, float]:
        """Return the slope and its two derivatives in ``log b``, all three times ``b``."""
        b = math.exp(min(max(log_b, -700), 700))
        first, second, third = rows.sum(partial(scale_derivatives, b)).tolist()
        first += b * penalty
        second = max(second, abs(first) / 10, np.finfo(float).tiny)  # short steps on flat parts
        return first, second, second + third

    log_b = math.log(start)
    for _ in range(HALLEY_STEPS):
        first, second, third = slope(log_b)
        step = first / second
        bend = step * third / second / 2
        step /= 1 - bend if abs(bend) < 1 else 1
        log_b -= step
        if abs(step) <= 1e-4:  # cubic convergence: the error is negligible
            return math.exp(log_b)
    if bounds is None or slope(math.log(bounds[0]))[0] >= 0:
        return None
    logs, sign = np.log(bounds), lambda u: slope(u)[0]
    return math.exp(optimize.brentq(sign, *logs, xtol=1e-11))


def _fit_mixture(rows: Rows, smoothing: float, plain: InverseTemperature) -> InverseTemperature:
    """Minimize the mixture's loss over ``plain`` and larger factors.

    At the upper end a row with the typical gap, a geometric mean, has a loss of 1 / N.
    """

    def loss_and_slope(log_b: float) -> Floats:
        sums: Floats = rows.sum(partial(mixture_derivatives, math.exp(log_b), smoothing))
        return sums / rows.weight

    log_gap, weight = rows.sum(log_gaps).tolist()
    start, end = math.log(plain.value), math.log(math.log1p(2 * rows.weight)) - log_gap / weight
    if end <= start:
        return plain
    grid = np.linspace(start, end, 2 + int((end - start) / math.log(2)))
    losses, slopes = np.array([loss_and_slope(u) for u in grid.tolist()]).T
    best = int(np.argmin(losses))
    k = best if slopes[best] < 0 else best - 1  # the minimum is between grid[k] and grid[k + 1]
    if k < 0:
        return plain
    if k + 1 == len(grid) or not slopes[k] < 0 < slopes[k + 1]:  # as at the upper end
        return InverseTemperature(math.exp(grid[best]), "minimum")
    slope, cell = lambda u: float(loss_and_slope(u)[1]), grid[k : k + 2]
    root = optimize.root_scalar(slope, bracket=cell, method="brentq", xtol=1e-12)
    return InverseTemperature(math.exp(root.root), "minimum")


def row_statistics(Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Sum the statistics that bound the factor over rows: (5,).

    They are whether the label's logit is the largest, the largest logit minus the label's logit,
    the slope at 0, the logarithm of the number of unmasked classes, and the largest logit minus the
    smallest. ``Z`` is (m, K); ``y`` and ``w`` are (m,).
    """
    Z = arrays.both_columns(Z)
    distance = Z.max(axis=1, keepdims=True) - Z
    gap = distance[np.arange(len(y)), y]
    is_possible = np.isfinite(distance)
    n_classes = np.count_nonzero(is_possible, axis=1)
    distance = np.where(is_possible, distance, 0)
    slope = gap - distance.sum(axis=1) / n_classes
    statistics = np.stack([gap == 0, gap, slope, np.log(n_classes), distance.max(axis=1)])
    return arrays.weighted_sum(statistics.T, w)


def scale_derivatives(b: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Return three derivatives by ``b`` of the summed log loss, times powers of ``b``: (3,).

    The probabilities are ``softmax(b Z)``. With the scores ``s = b z`` the derivatives times ``b``,
    ``b**2`` and ``b**3`` are ``E[s] - s_y`` and the second and third central moments of ``s``.
    ``Z`` is (m, K); ``y`` and ``w`` are (m,).
    """
    if Z.shape[1] <= 2:  # one exponential per row
        with np.errstate(over="ignore"):  # large logits in float32
            S = (b * (Z[:, -1] - (Z[:, 0] if Z.shape[1] == 2 else 0))) * (2 * y - 1)
        S = np.clip(S, -LARGEST_SCORE, -LOWEST_SCORE)
        wrong = 1 / (1 + np.exp(S))
        first = -wrong * S
        second = first * (wrong - 1) * S
        terms = np.stack([first, second, second * (2 * wrong - 1) * S])
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            S = Z - Z.max(axis=1, keepdims=True)
            S *= b
            label = np.maximum(S[np.arange(len(y)), y], -LARGEST_SCORE)
            m1, m2, m3 = _moments(S)
            if np.isnan(m1).any():  # from -inf; clipping in every pass would be slower
                m1, m2, m3 = _moments(np.maximum(S, LOWEST_SCORE))
        terms = np.stack([m1 - label, m2 - m1**2, m3 - (3 * m2 - 2 * m1**2) * m1])
    return arrays.weighted_sum(terms.T, w)


def _moments(S: Floats) -> list[Floats]:
    """Average ``S``, ``S**2`` and ``S**3`` (m, K) under ``softmax(S)``: three arrays (m,)."""
    A = np.exp(S)
    moments = [A.sum(axis=1)]
    for _ in range(3):
        A *= S
        moments.append(A.sum(axis=1) / moments[0])
    return moments[1:]


def log_loss(b: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Return the summed log loss of ``softmax(b Z)``. ``Z`` is (m, K); ``y`` and ``w`` are (m,)."""
    Z = arrays.both_columns(Z)
    S = b * (Z - Z.max(axis=1, keepdims=True))
    losses = np.log(np.exp(S).sum(axis=1)) - S[np.arange(len(y)), y]
    loss: Floats = arrays.weighted_sum(losses, w)
    return loss


def mixture_derivatives(b: float, share: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Return the summed log loss of a mixture and its derivative by ``log b``: (2,).

    The uniform distribution over the unmasked classes is mixed into ``softmax(b Z)`` with a
    ``share``. ``Z`` is (m, K); ``y`` and ``w`` are (m,).
    """
    Z = arrays.both_columns(Z).astype(np.float64, copy=False)
    S = b * (Z - Z.max(axis=1, keepdims=True))
    n_classes = np.count_nonzero(np.isfinite(S), axis=1)
    label = np.maximum(S[np.arange(len(y)), y], -LARGEST_SCORE)
    S = np.maximum(S, LOWEST_SCORE)
    A = np.exp(S)
    total = A.sum(axis=1)
    log_scaled = math.log1p(-share) + label - np.log(total)
    log_p = np.logaddexp(log_scaled, np.log(share / n_classes))
    slope = np.exp(log_scaled - log_p) * ((A * S).sum(axis=1) / total - label)
    return arrays.weighted_sum(np.column_stack([-log_p, slope]), w)


def log_gaps(Z: Floats, _: Indices, w: Floats | None) -> Floats:
    """Sum the largest logit minus the next one, as a logarithm, and the weight: (2,).

    Rows with equal logits do not count. ``Z`` is (m, K); ``w`` is (m,).
    """
    Z = arrays.both_columns(Z).astype(np.float64, copy=False)
    distance = Z.max(axis=1, keepdims=True) - Z
    gap = np.where(distance > 0, distance, np.inf).min(axis=1)
    counts = np.isfinite(gap)
    return arrays.weighted_sum(np.column_stack([np.log(np.where(counts, gap, 1)), counts]), w)


def mixed_logits(temperature: float, smoothing: float, Z: Floats) -> Floats:
    """Scale logits by a temperature and mix in the uniform distribution: logits (m, K).

    Masked classes have logits of -inf. With several columns and smoothing the logits are
    log-probabilities.
    """
    if Z.shape[1] > 1:  # remove constants of rows before rounding
        Z = Z - arrays.namespace(Z).max(Z, axis=1, keepdims=True)
    return arrays.mix_logits(arrays.finite_unless_masked(lambda U: U / temperature, Z), smoothing)


def log_mixture(temperature: float, smoothing: float, Z: Floats) -> Floats:
    """Return the normalized log-probabilities (m, K) for :func:`mixed_logits`."""
    L = mixed_logits(temperature, smoothing, Z)
    return L if smoothing > 0 and Z.shape[1] > 1 else arrays.log_softmax(L)

r"""Inverse temperatures: factors ``b`` of logits ``Z`` at which the log loss of ``b Z`` is least.

Notation as in :mod:`skcalib._optimize.loss`. The loss is convex in ``b``, with the derivatives
``E_p[z] - z_y`` and ``Var_p[z]`` for a row, so that the minimum is the only zero of an increasing
slope, which :func:`scipy.optimize.root_scalar` finds.

A few rows with a wrong label and logits of thousands or millions may determine that minimum, where
the others have all but uniform probabilities. Mixed with a share ``eps`` of the uniform
distribution such rows have a bounded loss, and the minimum of

.. math:: -\frac1N \sum_i w_i \log\left((1 - \varepsilon)\, \mathrm{softmax}(b z_i)_{y_i}
    + \varepsilon / K_i\right)

is the scale of the others. It is not convex, and takes a search. That is worth it where the log
loss of the rows is larger than with one confidence for all predictions, which knows nothing about
the rows but how many of them are classified correctly.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import optimize

from skcalib._rows import Floats, Indices, Plan, Rows, arrays as xa
from skcalib._warnings import NoMinimumWarning, warn

# Where the logits are no better than chance, 1e6 times the mean range of a row leaves nothing but
# 1/K.
SMALLEST_SCALE = 1e-6

# Smoothed targets leave out classes that are this many times as far below the largest logit of the
# row as the next class typically is: such a logit says that a class is impossible, not how
# improbable.
FAR_BELOW = 100.0

# Rounding makes the slope at zero negative by no more than this share of the mean range of a row.
ROUNDING = 1e-13

# Scores further below the largest of their row than this have a probability of zero.
LOWEST_SCORE = -1e4

# Logits of a row that differ by less on average may have no finite factor.
SMALLEST_RANGE = 1e-100

# Single precision holds the products of logits with factors between these.
SINGLE_SCALES = 1e-30, 1e30

# A step smaller than this share of the factor is the last: each leaves the cube of the error.
LAST_STEP = 1e-4

# Steps at most before the zero is bracketed, and precision of the logarithm that then ends.
MAX_STEPS, BRACKET_TOL = 10, 1e-11

# Scratch arrays of a pass for the derivatives.
SCRATCH = Plan(scratch=2)

# Curvatures smaller than this share of the slope, both relative to the factor, count as this.
FLATTEST = 1e-6

# Scales in a search differ by a factor of this at most. Its end, relative to a logarithm.
STEP, SEARCH_TOL = 2.0, 1e-9

# The minimum for all rows is where that for a sample is, if they differ by less than this factor.
CLOSE = 1.5

NO_MINIMUM = {
    "separable": (
        "The log loss has no minimum: every row is classified correctly, or tied (separable rows), "
        "so it falls as the temperature falls to 0. The temperature is set to {T:g}, the optimum "
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


@dataclass(frozen=True)
class InverseTemperature:
    """The factor at which the log loss is least, or what stands in for it.

    For rows that are separable, or tied, that is the optimum for smoothed targets; for rows no
    better than chance, a bound; where a few rows have determined it, the optimum of a mixture.
    """

    value: float
    outcome: Literal["minimum", "separable", "tied", "no_better_than_chance", "constant"]

    @property
    def is_separable(self) -> bool:
        """Whether no label has a logit below the largest of its row."""
        return self.outcome in {"separable", "tied"}


class ScaleBounds(NamedTuple):
    """Means over the rows that bound the best factor and tell whether there is one."""

    hits: float  #: whether the largest logit is that of the label
    gap: float  #: the largest logit less that of the label
    slope: float  #: the mean logit less that of the label: the slope of the loss at zero
    entropy: float  #: the logarithm of the number of classes that are not masked
    range: float  #: the largest logit less the least that is finite
    tied: float  #: whether the largest logit is that of several classes


def warn_of_no_minimum(scale: InverseTemperature) -> None:
    """Warn where no temperature is best, of what is used instead."""
    if scale.outcome != "minimum":
        outcome = "separable" if scale.is_separable else scale.outcome
        warn(NO_MINIMUM[outcome].format(T=1 / scale.value), NoMinimumWarning, outcome)


def fit_inverse_temperature(rows: Rows, smoothing: float = 0.0) -> InverseTemperature:
    """The factor ``b > 0`` that minimises the log loss of scores ``b Z``.

    Halley's method from the answer for a sample of the rows takes about two passes. Without one, or
    where it misleads, there is a search between bounds. With ``smoothing`` one more pass finds out
    whether a few rows have determined the factor, which then is that of the mixture.
    """
    sample = rows.sample(partial(fit_inverse_temperature, smoothing=smoothing))
    if sample is not None and sample.outcome == "minimum":
        value = _zero_of_slope(rows, sample.value)
        if value is not None and (smoothing == 0 or 1 / CLOSE < value / sample.value < CLOSE):
            return InverseTemperature(value, "minimum")

    bounds = ScaleBounds(*rows.sum(partial(_bounds_of_block, rows.weight)).tolist())
    if 0 < bounds.range < SMALLEST_RANGE:
        raise ValueError(
            f"The logits of a row of X must differ by {SMALLEST_RANGE:g} or more on average for "
            f"their scale to be finite, or not at all, got differences of {bounds.range:.2g}. "
            "Scale them up."
        )
    if bounds.range == 0:
        return InverseTemperature(1.0, "constant")
    if bounds.gap == 0:
        value = _for_smoothed_targets(rows, bounds)
        return InverseTemperature(value, "tied" if bounds.tied else "separable")
    plain = _between_bounds(rows, bounds)
    return _of_mixture(rows, smoothing, bounds, plain) if smoothing > 0 else plain


def _between_bounds(rows: Rows, bounds: ScaleBounds) -> InverseTemperature:
    """The factor of least log loss, which is at least ``b`` times the mean gap.

    The gap of a row is its largest logit less that of its label. At ``b = 0`` the loss is the mean
    of ``log K``. So the minimum is below the quotient of the two. There is none exactly where the
    mean gap is zero, so that the loss has no minimum, and where the slope at ``b = 0`` is not
    negative. Logits that are far below the others enter none of the three.
    """
    least = SMALLEST_SCALE / bounds.range
    value = None
    if bounds.slope < -ROUNDING * bounds.range:
        # The minimum of a line and an exponential with the slopes of the loss at 0 and far from it.
        drop = bounds.gap - bounds.slope
        start = bounds.entropy / drop * float(np.log(drop) - np.log(bounds.gap))
        value = _zero_of_slope(rows, start, (least, 2 * bounds.entropy / bounds.gap))
    if value is None:  # rounding may make a slope negative
        return InverseTemperature(least, "no_better_than_chance")
    return InverseTemperature(value, "minimum")


def _of_mixture(
    rows: Rows, smoothing: float, bounds: ScaleBounds, plain: InverseTemperature
) -> InverseTemperature:
    """The factor for the mixture with the uniform distribution, where a few rows set ``plain``.

    Its log loss is then larger than the entropy of predictions that are right with the smoothed
    accuracy of the rows, and else any other class, whatever their logits.
    """

    def loss(t: float, share: float = smoothing) -> float:
        of_block = partial(_losses_of_mixture, share, float(np.exp(t)), masked=rows.masked)
        return float(rows.sum(of_block)) / rows.weight

    start, n_classes = float(np.log(plain.value)), float(np.exp(bounds.entropy))
    p = (bounds.hits * rows.weight + 1) / (rows.weight + 2)
    entropy = -p * np.log(p) - (1 - p) * np.log((1 - p) / max(n_classes - 1, xa.TINY))
    if p * n_classes <= 1 or loss(start, 0.0) <= entropy:
        return plain
    end = float(np.log(_saturated(rows)[0]))
    if end <= start:
        return plain
    scales = np.linspace(start, end, 2 + int((end - start) / np.log(STEP)))
    best = int(np.argmin([loss(t) for t in scales.tolist()]))
    if best == 0 and plain.outcome != "minimum":
        return plain
    cell = scales[[max(best - 1, 0), min(best + 1, len(scales) - 1)]]
    options = {"xatol": SEARCH_TOL}
    found = optimize.minimize_scalar(loss, bounds=cell, method="bounded", options=options)
    return InverseTemperature(float(np.exp(found.x)), "minimum")


def _losses_of_mixture(
    smoothing: float, b: float, Z: Floats, y: Indices, w: Floats | None, *, masked: bool
) -> Any:
    """Summed log loss of the mixture of the probabilities of ``b Z`` with the uniform ones."""
    xp, n_classes, Z = xa.namespace(Z), Z.shape[1], xa.double(Z)
    two = n_classes <= 2
    if two:  # the score of the other class less that of the label
        M = Z[:, -1] - (Z[:, 0] if n_classes == 2 else 0)
        above = M * xa.astype(1 - 2 * y, M.dtype)
        n_classes = 2 - xa.double(above == -np.inf)
    else:
        above = Z - xa.of_labels(Z, y)[:, None]
        if masked:
            n_classes = xa.double(xp.count_nonzero(above > -np.inf, axis=1))
    with np.errstate(over="ignore"):
        above *= b
    above = xa.at_most(above, xa.largest_exponent(above), above)
    total = xa.into("exp", above, above)
    total = 1 + total if two else xp.sum(total, axis=1)
    return xa.weighted_sum(-xp.log((1 - smoothing) / total + smoothing / n_classes), w)


def _zero_of_slope(
    rows: Rows, start: float, bracket: tuple[float, float] | None = None, ridge_slope: float = 0.0
) -> float | None:
    """Zero of the slope of the summed loss plus ``ridge_slope`` times ``b``.

    By Halley's method from the start, or between bounds, if there are some, where that does not
    converge. None if there is no zero between them.
    """

    def slope(b: float) -> tuple[float, float, float]:
        """Slope of the loss and its derivatives, with ``start`` as the unit of ``b``."""
        if not 0 < b < np.inf:
            return np.nan, np.nan, np.nan  # gives up
        first, second, third = rows.sum(partial(scale_derivatives, b * start), SCRATCH).tolist()
        first += b * start * ridge_slope
        return first / b, max(second, FLATTEST * abs(first), xa.TINY) / b**2, third / b**3

    found = optimize.root_scalar(
        slope,
        x0=1.0,
        fprime=True,
        fprime2=True,
        method="halley",
        rtol=LAST_STEP,
        xtol=xa.TINY,
        maxiter=MAX_STEPS,
    )
    if not found.converged and bracket is not None:
        low, high = np.log(bracket) - np.log(start)
        if slope(np.exp(low))[0] >= 0:
            return None
        found = optimize.root_scalar(
            lambda t: slope(np.exp(t))[0], bracket=(low, high), method="brentq", xtol=BRACKET_TOL
        )
        return start * float(np.exp(found.root))
    return start * float(found.root) if found.converged else None


def scale_derivatives(
    b: float,
    Z: Floats,
    y: Indices,
    w: Floats | None,
    U: Floats | None = None,
    P: Floats | None = None,
) -> Floats:
    """Derivatives of the summed log loss of ``b Z``, times ``b``, ``b**2`` and ``b**3``: (3,).

    With scores ``s = b z`` and their probabilities ``p`` these are, for a row, ``E_p[s] - s_y`` and
    the second and third central moments of ``s``. Scores are moderate where logits are not.
    ``U`` and ``P`` are scratch arrays like ``Z``.
    """
    xp = xa.namespace(Z)
    if Z.dtype == xp.float32 and not SINGLE_SCALES[0] < b < SINGLE_SCALES[1]:
        Z, U, P = xa.double(Z), None, None
    if Z.shape[1] <= 2:
        return _of_two_classes(b, Z[:, -1] - (Z[:, 0] if Z.shape[1] == 2 else 0), y, w)
    top = xp.max(Z, axis=1, keepdims=True)
    U = Z - top if U is None else np.subtract(Z, top, out=U)
    with np.errstate(over="ignore", invalid="ignore"):
        U *= float(b)
        of_label = xa.of_labels(U, y)
        P = xa.into("exp", P, U)
        total = xp.sum(P, axis=1)
        mean = xa.vecdot(P, U) / total
        if not xp.all(xp.isfinite(mean)):  # zero times infinity
            U = xa.at_least(U, LOWEST_SCORE, U)
            mean = xa.vecdot(P, U) / total
        P *= U
        square = xa.vecdot(P, U) / total
        P *= U
        cube = xa.vecdot(P, U) / total
        terms = mean - of_label, square - mean**2, cube - (3 * square - 2 * mean**2) * mean
    return xa.flat(*map(partial(xa.weighted_sum, w=w), terms))


def _of_two_classes(b: float, M: Floats, y: Indices, w: Floats | None) -> Floats:
    """The same for log-odds ``M`` (m,) of the second of two classes, with one exponential a row."""
    with np.errstate(over="ignore"):
        S = M * float(b)
    S *= xa.astype(2 * y - 1, M.dtype)  # log-odds of the label
    S = xa.at_most(S, xa.largest_exponent(S), S)
    wrong = xa.into("exp", None, S)
    wrong = xa.into("reciprocal", wrong, 1 + wrong)
    first = wrong * -S
    second = first * (wrong - 1) * S
    third = second * (2 * wrong - 1) * S
    return xa.flat(*map(partial(xa.weighted_sum, w=w), (first, second, third)))


def _bounds_of_block(weight: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """What a block adds to the :class:`ScaleBounds` of rows of this weight in all."""
    Z = xa.double(xa.both_columns(Z))
    xp = xa.namespace(Z)
    distance = xp.max(Z, axis=1, keepdims=True) - Z
    is_class = xp.isfinite(distance)
    n, near = xa.double(xp.count_nonzero(is_class, axis=1)), xp.where(is_class, distance, 0.0)
    gap, tied = xa.of_labels(distance, y), xa.double(xp.count_nonzero(distance == 0, axis=1) > 1)
    hits, slope = xa.double(gap == 0), gap - xp.sum(near, axis=1) / n
    terms = [hits, gap, slope, xp.log(n), xp.max(near, axis=1), tied]
    shares = xp.full_like(gap, 1 / weight) if w is None else w / weight
    return xp.stack(terms) @ shares


def _for_smoothed_targets(rows: Rows, bounds: ScaleBounds) -> float:
    """The best factor for targets ``(1 - eps) e_y + eps u``, where no label is below the largest.

    With ``eps = 1 / (N + 1)``, N the weight of the rows, and ``u`` uniform over the classes of the
    row: the loss is the log loss plus ``eps`` times the factor times the mean distance from the
    largest logit to the others, and grows without bound with the factor.
    """
    start, typical = _saturated(rows)
    distance = float(rows.sum(partial(_distances, FAR_BELOW * typical))[0])
    ridge_slope = distance / (rows.weight + 1)
    high = 2 * bounds.entropy * rows.weight / ridge_slope
    start = min(start, high / 8)
    value = _zero_of_slope(rows, start, (SMALLEST_SCALE * start, high), ridge_slope)
    return SMALLEST_SCALE * start if value is None else value


def _saturated(rows: Rows) -> tuple[float, float]:
    """The best factor for smoothed targets if the rows have two classes at a distance; and that.

    The distance is the typical one, by the geometric mean, from the largest logit to the next.
    """
    log_distance, weight = rows.sum(partial(_distances, None)).tolist()
    typical = float(np.exp(log_distance / weight))
    return float(np.log1p(2 * rows.weight)) / typical, typical


def _distances(limit: float | None, Z: Floats, _: Indices, w: Floats | None) -> Any:
    """Distances from the largest logit of a row to lower ones, summed over the rows; and weight.

    The logarithm of the least, in rows where there is one; or, with a limit, the mean over all
    classes that are no further below.
    """
    Z = xa.double(xa.both_columns(Z))
    xp = xa.namespace(Z)
    distance = xp.max(Z, axis=1, keepdims=True) - Z
    if limit is None:
        least = xp.min(xp.where(distance > 0, distance, np.inf), axis=1)
        counts = xp.isfinite(least)
        value = xp.log(xp.where(counts, least, 1.0))
    else:
        near = distance <= limit
        counts = xp.any(near, axis=1)
        n_near = xa.double(xp.count_nonzero(near, axis=1))
        value = xp.sum(xp.where(near, distance, 0.0), axis=1) / n_near
    return xa.flat(xa.weighted_sum(value, w), xa.weighted_sum(xa.double(counts), w))


def mixed_logits(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Logits of the mixture that temperature scaling gives; of several classes log-probabilities.

    Those of masked classes are -inf.
    """
    if Z.shape[1] > 1:  # else constants of rows leave rounding errors of their size
        Z = Z - xa.namespace(Z).max(Z, axis=1, keepdims=True)
    scaled = xa.finite_unless_masked(partial(divided, temperature=temperature), Z)
    return xa.mix_logits(scaled, smoothing)


def log_mixture(temperature: float, smoothing: float, Z: Floats, *_: Any) -> Floats:
    """Log-probabilities (m, K) of the same."""
    L = mixed_logits(temperature, smoothing, Z)
    return L if smoothing > 0 and Z.shape[1] > 1 else xa.log_softmax(L)


def divided(Z: Floats, temperature: float) -> Floats:
    """Logits divided by a temperature, which a number of their precision may not hold."""
    if not isinstance(temperature, float):  # a parameter of a module
        return Z / temperature
    limits = xa.namespace(Z).finfo(Z.dtype)
    if limits.smallest_normal <= temperature <= limits.max:
        return Z / float(temperature)
    return xa.astype(xa.double(Z) / float(temperature), Z.dtype)

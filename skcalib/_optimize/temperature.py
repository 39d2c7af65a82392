r"""Inverse temperatures: the factor ``b`` that minimizes the log loss of ``softmax(b Z)``.

The loss is convex in ``b``. For a row its derivatives are ``E_p[z] - z_y`` and ``Var_p[z]``, so the
minimum is the only root of an increasing slope. :func:`scipy.optimize.root_scalar` finds the root
by Halley's method, or by Brent's method between bounds.

Three kinds of data have no minimum: separable rows (each label has the largest logit of its row),
rows no better than chance, and constant rows. One rule serves them: labels are smoothed by
:math:`\delta = 1 / (N + 1)`, N being the sum of the weights, and ``b`` is at least
:data:`SMALLEST_SCALE` over the mean range of the logits of a row. For separable rows smoothing adds
:math:`\delta b d` to the loss, with the mean distance d from the largest logit of a row to its
logits. The factor is the bound for rows no better than chance, and 1 for constant rows.

A few rows with a wrong label and logits of thousands may determine the minimum. Mixed with a share
:math:`\varepsilon` of the uniform distribution these rows have a bounded loss, and the minimum of

.. math:: -\frac1N \sum_i w_i \log\left((1 - \varepsilon)\, \mathrm{softmax}(b z_i)_{y_i}
    + \varepsilon / K\right)

is the factor for the other rows. This loss is not convex. The search takes place only if the log
loss of the rows exceeds the log loss of one confidence for all predictions.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize

from skcalib._rows import Floats, Indices, Rows, arrays, thin
from skcalib._warnings import NoMinimumWarning, warn

# Smallest factor, times the mean range of the logits of a row: all classes are equally probable.
SMALLEST_SCALE = 1e-6

# Scores below this bound, relative to the largest of their row, have a probability of zero in
# single precision: products with the score are finite.
LOWEST_SCORE = -80.0
# Scores are at most this large, so that float32 does not overflow.
LARGEST_SCORE = 1e30

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
    """The factor that minimizes the log loss, or its replacement where there is no minimum."""

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
    """Factor ``b > 0`` that minimizes the log loss of ``softmax(b Z)``.

    With many rows the search starts from the factor of a sample and takes about two passes. With
    ``smoothing`` the factor minimizes the loss of the mixture if a few rows determine it otherwise.
    """
    # From the factor of a sample a few steps are enough.
    few = thin(rows)
    sample = None if few is None else fit_inverse_temperature(few, smoothing)
    if sample is not None and sample.outcome == "minimum":
        value = _find_root(rows, sample.value)
        # The mixture of all rows is where the mixture of the sample is, within a factor.
        if value is not None and (smoothing == 0 or 1 / 1.5 < value / sample.value < 1.5):
            return InverseTemperature(value, "minimum")

    means = RowMeans(*(rows.sum(_row_means) / rows.weight).tolist())
    if means.range == 0:
        return InverseTemperature(1.0, "constant")
    least, distance = SMALLEST_SCALE / means.range, means.gap - means.slope
    if means.gap == 0:
        return InverseTemperature(_fit_separable(rows, means.entropy, distance, least), "separable")
    plain = InverseTemperature(least, "no_better_than_chance")
    if means.slope < -1e-13 * means.range:  # not by rounding
        # The loss is at least b times the gap, and log K at b = 0, which bounds the minimum. The
        # start is the minimum of a line and an exponential with the slopes at 0 and far from it.
        start = means.entropy / distance * float(np.log(distance / means.gap))
        value = _find_root(rows, start, (least, 2 * means.entropy / means.gap))
        if value is not None:
            plain = InverseTemperature(value, "minimum")
    return plain if smoothing == 0 else _fit_mixture(rows, smoothing, means, plain)


def _fit_separable(rows: Rows, entropy: float, distance: float, least: float) -> float:
    """Factor of least log loss for smoothed labels, if each label has the largest logit.

    Smoothing adds the ``distance`` times ``1 / (N + 1)`` to the slope of the mean loss.
    """
    penalty = rows.weight * distance / (rows.weight + 1)
    high = 2 * entropy * rows.weight / penalty
    start = min(float(np.log1p(2 * rows.weight)) / distance, high / 8)
    value = _find_root(rows, start, (least, high), penalty)
    return least if value is None else value


class RowMeans(NamedTuple):
    """Means over the rows that bound the factor and tell whether there is a minimum."""

    accuracy: float  #: whether the label has the largest logit
    gap: float  #: the largest logit minus the logit of the label
    slope: float  #: the mean logit minus the logit of the label: the slope of the loss at 0
    entropy: float  #: the logarithm of the number of classes that are not masked
    range: float  #: the largest logit minus the smallest


def _row_means(Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Sums over a block of the five numbers of :class:`RowMeans`."""
    Z = arrays.both_columns(Z)
    distance = Z.max(axis=1, keepdims=True) - Z
    gap = distance[np.arange(len(y)), y]
    possible = np.isfinite(distance)
    n = np.count_nonzero(possible, axis=1)
    distance = np.where(possible, distance, 0)
    slope = gap - distance.sum(axis=1) / n
    terms = np.stack([gap == 0, gap, slope, np.log(n), distance.max(axis=1)])
    return arrays.weighted_sum(terms.T, w)


def scale_derivatives(b: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Three derivatives of the summed log loss of ``softmax(b Z)``, times ``b, b**2, b**3``: (3,).

    With the scores ``s = b z`` and their probabilities these are ``E[s] - s_y`` and the second and
    third central moments of ``s``.
    """
    if Z.shape[1] <= 2:  # one exponential per row
        with np.errstate(over="ignore"):  # of large logits in float32
            S = (b * (Z[:, -1] - (Z[:, 0] if Z.shape[1] == 2 else 0))) * (2 * y - 1)
        S = np.clip(S, -LARGEST_SCORE, -LOWEST_SCORE)
        wrong = 1 / (1 + np.exp(S))
        first = -wrong * S
        second = first * (wrong - 1) * S
        terms = np.stack([first, second, second * (2 * wrong - 1) * S])
    else:
        with np.errstate(over="ignore"):
            S = b * (Z - Z.max(axis=1, keepdims=True))
        label = np.maximum(S[np.arange(len(y)), y], -LARGEST_SCORE)
        S = np.maximum(S, LOWEST_SCORE)
        A = np.exp(S)
        total = A.sum(axis=1)
        A *= S
        m1 = A.sum(axis=1) / total
        A *= S
        m2 = A.sum(axis=1) / total
        A *= S
        m3 = A.sum(axis=1) / total
        terms = np.stack([m1 - label, m2 - m1**2, m3 - (3 * m2 - 2 * m1**2) * m1])
    return arrays.weighted_sum(terms.T, w)


def _find_root(
    rows: Rows, start: float, bracket: tuple[float, float] | None = None, penalty: float = 0.0
) -> float | None:
    """Root of the slope of the summed log loss plus ``penalty * b``, or None if there is none.

    If Halley's method from the start does not converge, Brent's method searches the bracket.
    """

    def slope(t: float) -> tuple[float, float, float]:
        """Slope with its derivatives, with ``start`` as the unit of ``b``."""
        if not 0 < t < np.inf:
            return np.nan, np.nan, np.nan  # root_scalar gives up
        b = float(t * start)  # a number of NumPy would make single precision double
        first, second, third = rows.sum(partial(scale_derivatives, b)).tolist()
        first += b * penalty
        second = max(second, 1e-6 * abs(first), np.finfo(float).tiny)
        return first / t, second / t**2, third / t**3

    # The error of the last step is of the order of its cube.
    options = {"rtol": 1e-4, "xtol": np.finfo(float).tiny, "maxiter": 10}
    root = optimize.root_scalar(
        slope, x0=1.0, fprime=True, fprime2=True, method="halley", **options
    )
    if root.converged:
        return start * float(root.root)
    if bracket is None or slope(bracket[0] / start)[0] >= 0:
        return None
    limits = np.log(np.array(bracket) / start)
    root = optimize.root_scalar(
        lambda u: slope(np.exp(u))[0], bracket=limits, method="brentq", xtol=1e-11
    )
    return start * float(np.exp(root.root))


def _fit_mixture(
    rows: Rows, smoothing: float, means: RowMeans, plain: InverseTemperature
) -> InverseTemperature:
    """Factor for the mixture if a few rows determine ``plain``, otherwise ``plain``.

    A few rows determine it if the log loss exceeds the entropy of constant predictions: the label
    has the smoothed accuracy, and the other classes share the rest.
    """

    def loss(log_b: float, share: float = smoothing) -> float:
        return float(rows.sum(partial(mixture_losses, float(np.exp(log_b)), share)) / rows.weight)

    start, n_classes = float(np.log(plain.value)), float(np.exp(means.entropy))
    p = (means.accuracy * rows.weight + 1) / (rows.weight + 2)
    other = (1 - p) / max(n_classes - 1, np.finfo(float).tiny)
    if p <= other or loss(start, 0.0) <= -p * np.log(p) - (1 - p) * np.log(other):
        return plain
    # At the end rows with the typical distance, by the geometric mean, have a loss of 1 / N.
    log_gap, weight = rows.sum(_log_gaps).tolist()
    end = float(np.log(np.log1p(2 * rows.weight))) - log_gap / weight
    if end <= start:
        return plain
    grid = np.linspace(start, end, 2 + int((end - start) / np.log(2)))
    best = int(np.argmin([loss(u) for u in grid.tolist()]))
    if best == 0 and plain.outcome != "minimum":
        return plain
    cell = grid[[max(best - 1, 0), min(best + 1, len(grid) - 1)]]
    options = {"xatol": 1e-5}
    minimum = optimize.minimize_scalar(loss, bounds=cell, method="bounded", options=options).x
    # The loss is flat there, so its values do not show the minimum more closely; its slope does.
    root = optimize.root_scalar(
        lambda u: float(rows.sum(partial(mixture_slopes, float(np.exp(u)), smoothing))),
        x0=minimum, x1=minimum + 1e-5, method="secant", maxiter=10,
    )  # fmt: skip
    is_close = root.converged and abs(root.root - minimum) < 1e-3
    return InverseTemperature(float(np.exp(root.root if is_close else minimum)), "minimum")


def mixture_losses(b: float, share: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Summed log loss of ``softmax(b Z)`` mixed with a share of the uniform distribution."""
    Z = arrays.both_columns(Z)
    S = b * (Z - Z.max(axis=1, keepdims=True))
    S = S.astype(np.float64) if share else S  # the search compares losses that differ little
    log_p = S[np.arange(len(y)), y] - np.log(np.exp(S).sum(axis=1))
    if share:
        n_classes = np.count_nonzero(np.isfinite(S), axis=1)
        log_p = np.logaddexp(np.log1p(-share) + log_p, np.log(share) - np.log(n_classes))
    return -arrays.weighted_sum(log_p, w)


def mixture_slopes(b: float, share: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    """Summed derivative of :func:`mixture_losses` by the logarithm of ``b``."""
    Z = arrays.both_columns(Z).astype(np.float64, copy=False)
    S = b * (Z - Z.max(axis=1, keepdims=True))
    n_classes = np.count_nonzero(np.isfinite(S), axis=1)
    S = np.maximum(S, LOWEST_SCORE)
    P = np.exp(S)
    P /= P.sum(axis=1, keepdims=True)
    each = np.arange(len(y))
    scaled = (1 - share) * P[each, y]
    slopes = scaled / (scaled + share / n_classes) * ((P * S).sum(axis=1) - S[each, y])
    return arrays.weighted_sum(slopes, w)


def _log_gaps(Z: Floats, _: Indices, w: Floats | None) -> Floats:
    """Summed logarithm of the distance from the largest logit to the next, and the weight.

    Rows in which the two are equal do not count.
    """
    Z = arrays.both_columns(Z).astype(np.float64, copy=False)
    distance = Z.max(axis=1, keepdims=True) - Z
    gap = np.where(distance > 0, distance, np.inf).min(axis=1)
    counts = np.isfinite(gap)
    return arrays.weighted_sum(np.stack([np.log(np.where(counts, gap, 1)), counts], axis=1), w)


def mixed_logits(temperature: float, smoothing: float, Z: Floats) -> Floats:
    """Logits of the mixture that temperature scaling gives, -inf for masked classes.

    With several columns and smoothing the logits are log-probabilities.
    """
    if Z.shape[1] > 1:  # remove constants of rows before rounding
        Z = Z - arrays.namespace(Z).max(Z, axis=1, keepdims=True)
    return arrays.mix_logits(arrays.finite_unless_masked(lambda U: U / temperature, Z), smoothing)


def log_mixture(temperature: float, smoothing: float, Z: Floats) -> Floats:
    """Log-probabilities (m, K) of the mixture that temperature scaling gives."""
    L = mixed_logits(temperature, smoothing, Z)
    return L if smoothing > 0 and Z.shape[1] > 1 else arrays.log_softmax(L)

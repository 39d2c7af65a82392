r"""Log loss for ordinal calibration and its gradient.

The probabilities :math:`p = \mathrm{softmax}(z / T)` sum to :math:`B` below class k, and to
:math:`A` above class k. The two cut points of class k have the log-odds

.. math:: u_k = a \log \frac{B + p_k}{A} + b , \qquad l_k = a \log \frac{B}{p_k + A} + b ,

and its calibrated probability is :math:`\sigma(u_k) - \sigma(l_k)`. A row needs only the two cut
points around its label. The parameters are :math:`(\log T, \log a, b)`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.special import expit, log_expit

from skcalib._rows import Rows, both_columns
from skcalib._typing import Floats, Indices

# Scaled logits are clipped at this distance from the largest, so that neither exp nor the squares
# of probabilities in gradients underflow.
LOWEST_LOGIT = -350.0


def loss_gradient(
    parameters: Floats, smoothing: float, Z: Floats, y: Indices, w: Floats | None
) -> Floats:
    """Return the summed log loss and its three derivatives by the parameters: (4,).

    ``Z`` is (m, K); ``y`` and ``w`` are (m,).
    """
    log_temperature, log_slope, intercept = parameters
    slope = np.exp(log_slope)
    Z = both_columns(Z)
    U = Z.astype(np.float64) - Z.max(axis=1, keepdims=True)
    U = np.maximum(U * np.exp(-log_temperature), LOWEST_LOGIT)
    E = np.exp(U)
    # Unnormalized probabilities below, at and above the label, and their derivatives by log T.
    (B, e, A), (dB, de, dA) = (_sums_around(values, y) for values in (E, -E * U))

    # Log-odds of both cut points before the linear map, infinite beyond the first and last class.
    # Their distance is accurate where the label is improbable.
    with np.errstate(divide="ignore"):
        upper, lower = np.log((B + e) / A), np.log(B / (e + A))
        distance = np.log1p(e / B) + np.log1p(e / A)
    dlog_B, dlog_e, dlog_A = _ratio(dB, B), de / e, _ratio(dA, A)
    d_upper = (dB + de) / (B + e) - dlog_A
    d_lower = dlog_B - (de + dA) / (e + A)
    d_distance = e / (B + e) * (dlog_e - dlog_B) + e / (A + e) * (dlog_e - dlog_A)

    u, v = slope * upper + intercept, slope * lower + intercept
    log_p = log_expit(u) + log_expit(-v) + np.log(-np.expm1(-slope * distance))
    # Derivatives of the three terms, by u, v and the distance. They vanish at infinite cut points.
    by_u, by_v = expit(-u), -expit(v)
    with np.errstate(over="ignore"):
        by_distance = 1 / np.expm1(slope * distance)
    derivatives = [
        slope * (by_u * d_upper + by_v * d_lower + by_distance * d_distance),
        slope * (by_u * _finite(upper) + by_v * _finite(lower) + by_distance * _finite(distance)),
        by_u + by_v,
    ]
    if smoothing > 0:  # the log loss of the mixture with the uniform distribution
        n_classes = np.count_nonzero(np.isfinite(Z), axis=1)  # masked classes do not count
        p = (1 - smoothing) * np.exp(log_p)
        q = p + smoothing / n_classes
        log_p, derivatives = np.log(q), [p / q * d for d in derivatives]
    values = -np.stack([log_p, *derivatives])
    return np.asarray(values.sum(axis=1) if w is None else values @ w)


def _sums_around(E: Floats, y: Indices) -> tuple[Floats, Floats, Floats]:
    """Sum each row of ``E`` (m, K) below the label, at the label and above it: 3 arrays (m,)."""
    rows, last = np.arange(len(y)), E.shape[1] - 1
    total = np.cumsum(E, axis=1)
    reverse = np.cumsum(E[:, ::-1], axis=1)[:, ::-1]
    below = np.where(y > 0, total[rows, y - 1], 0.0)
    above = np.where(y < last, reverse[rows, np.minimum(y + 1, last)], 0.0)
    return below, E[rows, y], above


def _ratio(a: Floats, b: Floats) -> Floats:
    """Return ``a / b``, or 0 where ``b`` is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _finite(x: Floats) -> Floats:
    """Replace infinity by 0."""
    return np.where(np.isfinite(x), x, 0.0)


def fit_ordinal(
    rows: Rows, temperature: float, smoothing: float, alpha: float, max_iter: int
) -> OptimizeResult:
    """Fit the parameters (3,) by the log loss with a ridge penalty toward temperature scaling."""
    start = np.array([np.log(temperature), 0.0, 0.0])

    def objective(x: Floats) -> tuple[float, Floats]:
        sums = rows.sum(partial(loss_gradient, x, smoothing)) / rows.weight
        step = x - start
        penalty = alpha / rows.weight
        return sums[0] + penalty * step @ step, sums[1:] + 2 * penalty * step

    options = {"maxiter": max_iter, "gtol": 1e-7}
    return minimize(objective, start, jac=True, method="BFGS", options=options)

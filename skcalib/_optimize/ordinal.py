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

# Scaled logits are clipped at this distance from the largest: exp would underflow.
LOWEST_LOGIT = -700.0


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
    D = -E * U  # derivative of E with respect to log T
    rows, last = np.arange(len(y)), Z.shape[1] - 1
    first, final = y == 0, y == last
    e, d = E[rows, y], D[rows, y]
    # Sums below and above the label. An empty sum has no cut point; 1 avoids a logarithm of 0.
    B, A = _sums_around(E, y)
    dB, dA = _sums_around(D, y)
    B[first], A[final] = 1.0, 1.0

    # Log-odds of the cut points before the linear map, and their derivatives.
    upper = np.where(final, 0, np.log((B * ~first + e) / A))
    lower = np.where(first, 0, np.log(B / (e + A * ~final)))
    d_upper = np.where(final, 0, (dB + d) / (B * ~first + e) - dA / A)
    d_lower = np.where(first, 0, dB / B - (d + dA) / (e + A * ~final))
    # Their difference, accurate where the label is improbable.
    width = np.where(first, np.inf, np.log1p(e / B)) + np.where(final, np.inf, np.log1p(e / A))
    d_width = np.where(
        first | final, 0, e / (B + e) * (d / e - dB / B) + e / (A + e) * (d / e - dA / A)
    )

    u = np.where(final, np.inf, slope * upper + intercept)
    v = np.where(first, -np.inf, slope * lower + intercept)
    log_p = log_expit(u) + log_expit(-v) + np.log(-np.expm1(-slope * width))
    below, above = expit(-u), expit(v)
    inner = ~(first | final)
    with np.errstate(over="ignore"):
        ratio = np.where(inner, 1 / np.expm1(np.where(inner, slope * width, 1.0)), 0)
    derivatives = [
        slope * (below * d_upper - above * d_lower + ratio * d_width),
        slope * (below * upper - above * lower + ratio * np.where(inner, width, 0)),
        below - above,
    ]
    if smoothing > 0:  # the log loss of the mixture with the uniform distribution
        n_classes = np.count_nonzero(np.isfinite(Z), axis=1)  # masked classes do not count
        p = (1 - smoothing) * np.exp(log_p)
        q = p + smoothing / n_classes
        log_p, derivatives = np.log(q), [p / q * d for d in derivatives]
    values = -np.stack([log_p, *derivatives])
    return np.asarray(values.sum(axis=1) if w is None else values @ w)


def _sums_around(E: Floats, y: Indices) -> tuple[Floats, Floats]:
    """Sum each row of ``E`` (m, K) below the label (m,), and above the label (m,)."""
    rows = np.arange(len(y))
    total = np.cumsum(E, axis=1)
    reverse = np.cumsum(E[:, ::-1], axis=1)[:, ::-1]
    below = np.where(y > 0, total[rows, y - 1], 0.0)
    above = np.where(y < E.shape[1] - 1, reverse[rows, np.minimum(y + 1, E.shape[1] - 1)], 0.0)
    return below, above


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

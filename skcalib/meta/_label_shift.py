r"""Estimate class priors from unlabelled rows under label shift, by maximum likelihood.

Under label shift the logits within each class have the same distribution as in the calibration
rows. Only the class priors :math:`\pi` differ. The likelihood of a row is the mixture
:math:`\sum_k \pi_k p_{ik} / \pi^{\mathrm{calibration}}_k`, up to a constant.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skcalib._optimize.mixture import MixtureLoss
from skcalib._optimize.newton import cached_parts
from skcalib._rows import Rows
from skcalib._rows.arrays import double, log_softmax
from skcalib._typing import Bools, Floats

# Larger arrays of probability ratios are not stored: each pass computes them again.
MAX_STORED = 1 << 24

# The search ends at GRADIENT, by the logarithms of the priors. If rounding or MAX_ITERATIONS ends
# it earlier, it has converged if the gradient is at most LARGEST_GRADIENT.
GRADIENT, LARGEST_GRADIENT, MAX_ITERATIONS = 1e-10, 1e-6, 1000


class Estimate(NamedTuple):
    """Class priors with standard errors, and the outcome of the search."""

    priors: Floats  #: (K,)
    standard_errors: Floats  #: (K,)
    log_likelihood_ratio: float  #: against the calibration priors
    n_passes: int
    converged: bool


def most_likely_priors(rows: Rows, calibration_priors: Floats, labels: Floats) -> Estimate:
    """Estimate class priors by maximum likelihood, with one pseudo-row.

    The calibration priors (K,) divide the pseudo-row among the classes. ``labels`` (K,) are the
    weights of the calibration rows per class. Classes without calibration rows get the prior 0.
    """
    present, calibration_weight = labels > 0, float(labels.sum())
    start = calibration_priors[present] / calibration_priors[present].sum()
    ratios = partial(_ratios, np.log(calibration_priors[present]), present)
    loss = MixtureLoss(rows, start, ratios)
    if rows.n_rows * len(start) <= MAX_STORED:
        loss = MixtureLoss(rows.map(ratios), start)

    # Search in logarithms, because the pseudo-row keeps priors above zero. A search within bounds
    # needs ten times as many passes if many priors are small. The Hessian omits the diagonal of
    # the gradient, which vanishes at the minimum.
    def in_logarithms(u: Floats) -> tuple[float, Floats, Floats]:
        x = np.exp(u)
        value, gradient, hessian = loss.second_order(x)
        return value, x * gradient, x[:, None] * hessian * x

    fun, jac, hess = cached_parts(in_logarithms, 3, start.shape)
    result = minimize(
        fun, np.log(start), jac=jac, hess=hess, method="trust-ncg",
        options={"gtol": GRADIENT, "maxiter": MAX_ITERATIONS, "max_trust_radius": 100.0},
    )  # fmt: skip
    x = np.exp(result.x) / np.exp(result.x).sum()
    gain = (loss.second_order(start)[0] - result.fun) * loss.weight
    variances = _variances(x, loss.second_order(x)[2], start, loss.weight, calibration_weight)
    priors, errors = np.zeros(len(labels)), np.zeros(len(labels))
    priors[present], errors[present] = x, np.sqrt(variances)
    # The gradient equals the step of an EM iteration, so its size says how far the priors are off.
    converged = bool(np.abs(result.jac).max() <= LARGEST_GRADIENT)
    return Estimate(priors, errors, float(gain), result.nfev, converged)


def _ratios(log_priors: Floats, present: Bools, Z: Floats, *_: Any) -> Floats:
    """Return ratios of probabilities to calibration priors (m, n_present), scaled per row.

    ``log_priors`` are (n_present,), ``present`` (K,) and ``Z`` logits (m, K). The largest ratio in
    a row is 1. A row with all these classes masked has equal ratios: it carries no information.
    """
    L = log_softmax(double(Z))[:, present] - log_priors
    top = L.max(axis=1, keepdims=True)
    return np.exp(np.where(top > -np.inf, L - np.where(top > -np.inf, top, 0), 0))


def _variances(
    x: Floats, hessian: Floats, before: Floats, weight: float, calibration_weight: float
) -> Floats:
    r"""Return variances (K,) of the priors :math:`\pi'`, by the observed information :math:`H`.

    ``x`` and ``before`` are priors (K,), ``hessian`` is (K, K). The calibration priors are as
    uncertain as label frequencies. Their relative errors :math:`\varepsilon` add
    :math:`(\mathrm{diag}(\pi') - H^{-1})\, \varepsilon` to the estimate.
    """
    inverse = np.linalg.pinv(hessian, hermitian=True)
    sums = inverse.sum(axis=0)
    row_part = np.diag(inverse) - sums**2 / sums.sum()  # priors sum to one
    prior_part = (np.diag(x) - inverse) ** 2 @ (1 / before)
    return np.maximum(row_part / weight + prior_part / calibration_weight, 0)

r"""Class priors from unlabelled rows under label shift, by maximum likelihood.

Under label shift the logits of each class have the same distribution as in the calibration rows,
and only the priors :math:`\pi` of the classes differ. The likelihood of a row is the mixture
:math:`\sum_k \pi_k p_{ik} / \pi^{\mathrm{calibration}}_k`, up to a constant.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from skcalib._optimize.mixture import MixtureLoss
from skcalib._optimize.newton import cached_parts
from skcalib._rows import Bools, Floats, Rows
from skcalib._rows.arrays import double, log_softmax

# Up to this many probability ratios are stored; otherwise each pass computes them again.
STORED = 1 << 24

# The search ends at this gradient by the logarithms of the priors. It has converged if the gradient
# is below the second number, when rounding or the number of iterations ends it earlier.
GRADIENT, LARGEST_GRADIENT, MAX_ITERATIONS = 1e-10, 1e-6, 1000


class Estimate(NamedTuple):
    """Class priors with standard errors, and the outcome of the search."""

    priors: Floats  #: (K,)
    standard_errors: Floats  #: (K,)
    log_likelihood_ratio: float  #: of the rows, against the priors of the calibration rows
    n_passes: int
    converged: bool


def most_likely_priors(rows: Rows, calibration_priors: Floats, labels: Floats) -> Estimate:
    """Maximum likelihood estimate with one pseudo-row, divided like the calibration priors.

    ``labels`` (K,) are the weights of calibration rows. Priors of classes without any are zero.
    """
    present, calibration_weight = labels > 0, float(labels.sum())
    start = calibration_priors[present] / calibration_priors[present].sum()
    ratios = partial(_ratios, np.log(calibration_priors[present]), present)
    loss = MixtureLoss(rows, start, ratios)
    if rows.n_rows * len(start) <= STORED:
        loss = MixtureLoss(rows.map(ratios), start)

    # In logarithms, because the pseudo-row keeps priors above zero: a search within bounds takes
    # ten times as many passes if many priors are small. The Hessian leaves out the diagonal of the
    # gradient, which vanishes at the minimum.
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
    # The gradient is the change of the priors by an iteration of EM.
    converged = bool(np.abs(result.jac).max() <= LARGEST_GRADIENT)
    return Estimate(priors, errors, float(gain), result.nfev, converged)


def _ratios(log_priors: Floats, present: Bools, Z: Floats, *_: Any) -> Floats:
    """Ratios of probabilities to calibration priors, with a maximum of 1 in each row.

    A row with all of these classes masked has equal ratios: it carries no information.
    """
    L = log_softmax(double(Z))[:, present] - log_priors
    top = L.max(axis=1, keepdims=True)
    return np.exp(np.where(top > -np.inf, L - np.where(top > -np.inf, top, 0), 0))


def _variances(
    x: Floats, hessian: Floats, before: Floats, weight: float, calibration_weight: float
) -> Floats:
    r"""Variances of priors :math:`\pi'`, by the observed information :math:`H`.

    The calibration priors are as uncertain as the frequencies of labels. Their relative errors
    :math:`\varepsilon` add :math:`(\mathrm{diag}(\pi') - H^{-1})\, \varepsilon` to the estimate.
    """
    inverse = np.linalg.pinv(hessian, hermitian=True)
    along = inverse.sum(axis=0)
    row_part = np.diag(inverse) - along**2 / along.sum()
    prior_part = (np.diag(x) - inverse) ** 2 @ (1 / before)
    return np.maximum(row_part / weight + prior_part / calibration_weight, 0)

r"""One increasing, piecewise linear function for all scores, fitted by the log loss.

With knots :math:`t_1 < \dots < t_J` and slopes :math:`b_0, \dots, b_J` the function is

.. math:: f(l) = \sum_j b_j \varphi_j(l), \qquad \varphi_j(l) = \min(\max(l, t_j), t_{j+1}) ,

where :math:`\varphi_0` has no lower and :math:`\varphi_J` no upper limit. The function is linear in
the slopes, so the log loss is convex in the slopes. Slopes of 1 change no probability. With
positive slopes the function keeps the order of the scores, also in floating point: all terms are
non-decreasing after rounding, and so is their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import optimize

from skcalib._optimize.maps import mask_scores
from skcalib._optimize.minimize import cached_parts, newton
from skcalib._rows import Rows, arrays
from skcalib._typing import Floats, Indices

# Largest number of passes over the rows.
MAX_PASSES = 100


def terms(L: Floats, knots: Floats) -> Iterator[Floats]:
    """Yield the terms at the scores ``L`` without their slopes, each in the shape of ``L``."""
    ends = [float(knots[k]) for k in range(knots.shape[0])]
    for low, high in pairwise([-np.inf, *ends, np.inf]):
        yield arrays.namespace(L).clip(L, low, high)


def piecewise(L: Floats, knots: Floats, slopes: Floats) -> Floats:
    """Evaluate the function with slopes (p,) at the scores ``L``."""
    S = arrays.namespace(L).zeros_like(L)
    for term, slope in zip(terms(L, knots), arrays.to_library(slopes, L, L.dtype), strict=True):
        S = S + term * slope
    return S


def derivatives(knots: Floats, slopes: Floats, L: Floats, y: Indices, w: Floats | None) -> Floats:
    """Return the summed log loss, its gradient (p,), and sums for :func:`_hessian` in one array.

    ``slopes`` are (p,), ``L`` is (m, K), ``y`` and ``w`` are (m,). ``L`` are finite
    log-probabilities. Double precision is needed, since variances on segments may be small
    differences between large numbers.
    """
    L, w = L.astype(np.float64, copy=False), np.ones(len(y)) if w is None else w
    i = np.arange(len(y))
    S = mask_scores(piecewise(L, knots, slopes), L)
    S -= S.max(axis=1, keepdims=True)
    P = np.exp(S)
    total = P.sum(axis=1)
    P /= total[:, None]
    loss = w @ (np.log(total) - S[i, y])
    means, firsts, squares = [], [], []
    for segment, origin in zip(terms(L, knots), _origins(knots).tolist(), strict=True):
        term = segment - origin
        product = P * term
        means.append(product.sum(axis=1))
        firsts.append(w @ (means[-1] - term[i, y]))
        squares.append(w @ np.einsum("ij,ij->i", product, term))
    mean = np.array(means)
    products = (mean * w) @ mean.T
    return np.concatenate([[loss], firsts, mean @ w, squares, products.ravel()])


def _origins(knots: Floats) -> Floats:
    """Return the constants (p,) that are subtracted from the terms before squaring."""
    return np.concatenate([knots[:1], knots]) if len(knots) else np.zeros(1)


def _hessian(knots: Floats, sums: Floats) -> Floats:
    """Return the Hessian (p, p) from mean terms, mean squares, and products of means.

    Products of two terms are not needed: on a segment the terms for lower segments are constant.
    """
    p = len(knots) + 1
    mean, square, products = sums[:p], sums[p : 2 * p], sums[2 * p :]
    H = np.triu(np.outer(np.diff(_origins(knots), append=0), mean), 1)
    H += H.T + np.diag(square) - products.reshape(p, p)
    return H


@dataclass(frozen=True)
class PiecewiseLoss:
    """Log loss of the function plus a ridge penalty that shrinks its slopes to 1."""

    rows: Rows
    knots: Floats
    ridge: float

    def at(self, slopes: Floats) -> tuple[float, Floats, Floats]:
        """Return the value, gradient (p,) and Hessian (p, p) at ``slopes`` (p,)."""
        p, off = len(slopes), slopes - 1
        sums = self.rows.sum(partial(derivatives, self.knots, slopes))
        mean = sums / self.rows.weight
        hessian = _hessian(self.knots, mean[p + 1 :]) + 2 * self.ridge * np.eye(p)
        value = float(mean[0] + self.ridge * off @ off)
        return value, mean[1 : p + 1] + 2 * self.ridge * off, hessian


def fit_slopes(loss: PiecewiseLoss, start: Floats, smallest: float) -> optimize.OptimizeResult:
    """Return the slopes ``x`` (p,) that minimize the loss, none below ``smallest``."""
    value, gradient, hessian = cached_parts(loss.at, 3, start.shape)
    return optimize.minimize(
        value,
        start,
        jac=gradient,
        hess=hessian,
        bounds=[(smallest, np.inf)] * len(start),
        method=newton,
        options={"tol": 1e-10, "maxiter": MAX_PASSES},  # the last step squares the error
    )

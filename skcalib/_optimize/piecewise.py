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
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import optimize

from skcalib._optimize.maps import mask_scores
from skcalib._optimize.minimize import newton
from skcalib._rows import Rows, arrays
from skcalib._typing import Floats, Indices

# Largest number of passes over the rows.
MAX_PASSES = 100


def terms(L: Floats, knots: Floats) -> Iterator[Floats]:
    """Yield the terms at the scores ``L`` without their slopes, each in the shape of ``L``."""
    ends = [float(knots[k]) for k in range(knots.shape[0])]
    for low, high in pairwise([-np.inf, *ends, np.inf]):
        yield arrays.clip(L, low, high)


def piecewise(L: Floats, knots: Floats, slopes: Floats) -> Floats:
    """Evaluate the function with slopes (p,) at the scores ``L``."""
    S = arrays.namespace(L).zeros_like(L)
    for term, slope in zip(terms(L, knots), arrays.to_library(slopes, L, L.dtype), strict=True):
        S = S + term * slope
    return S


def derivatives(knots: Floats, slopes: Floats, L: Floats, y: Indices, w: Floats | None) -> Floats:
    """Return the gradient (p,) of the summed log loss, and sums for :func:`_hessian`, in one array.

    ``slopes`` are (p,), ``L`` is (m, K), ``y`` and ``w`` are (m,). ``L`` are finite
    log-probabilities. Double precision is needed, since variances on segments may be small
    differences between large numbers.
    """
    L, w = L.astype(np.float64, copy=False), np.ones(len(y)) if w is None else w
    i = np.arange(len(y))
    S = mask_scores(piecewise(L, knots, slopes), L)
    S -= S.max(axis=1, keepdims=True)
    P = np.exp(S)
    P /= P.sum(axis=1, keepdims=True)
    means, firsts, squares = [], [], []
    for segment, origin in zip(terms(L, knots), _origins(knots).tolist(), strict=True):
        term = segment - origin
        product = P * term
        means.append(product.sum(axis=1))
        firsts.append(w @ (means[-1] - term[i, y]))
        squares.append(w @ np.einsum("ij,ij->i", product, term))
    mean = np.array(means)
    products = (mean * w) @ mean.T
    return np.concatenate([firsts, mean @ w, squares, products.ravel()])


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


def fit_slopes(
    rows: Rows, knots: Floats, ridge: float, start: Floats, smallest: float
) -> optimize.OptimizeResult:
    """Return the slopes ``x`` (1, p) that minimize the log loss, none below ``smallest``.

    A penalty, ``ridge`` times the squared distance from slopes of 1, is added to the mean log loss.
    """
    p = len(start)

    def means(x: Floats) -> tuple[Floats, Floats]:
        sums = rows.sum(partial(derivatives, knots, x[0])) / rows.weight
        gradient = sums[:p] + 2 * ridge * (x[0] - 1)
        hessian = _hessian(knots, sums[p:]) + 2 * ridge * np.eye(p)
        return gradient[None], hessian[None]

    return optimize.minimize(
        means,
        start,
        method=newton,
        options={
            "shape": (1, p),
            "low": np.full((1, p), smallest),
            "tol": 1e-10,  # the last step squares the error
            "maxiter": MAX_PASSES,
        },
    )

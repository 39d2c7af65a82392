r"""One increasing, piecewise linear function of all scores, and the minimum of its log loss.

With knots :math:`t_1 < \dots < t_J` and slopes :math:`b_0, \dots, b_J` the function is

.. math:: f(l) = \sum_j b_j \varphi_j(l), \qquad \varphi_j(l) = \min(\max(l, t_j), t_{j+1}) ,

where :math:`\varphi_0` has no lower and :math:`\varphi_J` no upper limit. It is linear in the
slopes, so the log loss of ``softmax(f(L))`` is convex in them; slopes of 1 leave the probabilities
as they are. With positive slopes it keeps the order of the scores, also in floating point: each
of the terms is non-decreasing after rounding, and so is their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from scipy.optimize import lsq_linear

from skcalib._engine.array_api import into, namespace, on_host
from skcalib._engine.blocks import double, joined_flat, of_labels, ones_unless, row_dots
from skcalib._engine.rows import Plan, Rows
from skcalib._typing import Floats, Indices

from .features import mask_scores

# A Newton step that lowers the objective by less than this, relative to it or by itself, is the
# last one. Newton's method squares the error, so that this is exact.
LAST_DECREASE, SMALLEST_DECREASE = 1e-10, 1e-13

# Curvatures are no smaller than this, or this share of the largest: where no score is on a segment
# there is none.
FLATTEST = 1e-12

# Rounding error of the objective, relative to it, and sufficient decrease, relative to that of the
# quadratic model.
NOISE, ENOUGH = 1e-13, 1e-4

MAX_PASSES = 100


def segments(L: Floats, knots: Floats) -> Iterator[Floats]:
    """The terms of the function without their slopes, each of the shape of the scores ``L``.

    In NumPy all are in the same array, which the next one overwrites.
    """
    out = namespace(L).empty_like(L)
    for low, high in pairwise([-np.inf, *on_host(knots).tolist(), np.inf]):
        yield into("clip", out, L, low, high)


def piecewise(L: Floats, knots: Floats, slopes: Floats) -> Floats:
    """Values of the function at the scores ``L``."""
    S = namespace(L).zeros_like(L)
    for term, slope in zip(segments(L, knots), on_host(slopes).tolist(), strict=True):
        S += into("multiply", term, term, slope)
    return S


def derivatives(knots: Floats, slopes: Floats, L: Floats, y: Indices, w: Floats | None) -> Floats:
    """Summed log loss of a block, its gradient (p,), and sums for :func:`_hessian`, as one array.

    ``L`` are features, as of :mod:`.features`. Computed in double precision, since variances on
    segments may be small differences of large numbers.
    """
    L, w = double(L), ones_unless(w, L)
    xp = namespace(L)
    P = mask_scores(piecewise(L, knots, slopes), L)
    P -= xp.max(P, axis=1, keepdims=True)
    loss = -of_labels(P, y)
    P = into("exp", P, P)
    total = xp.sum(P, axis=1, keepdims=True)
    P /= total
    loss = w @ (loss + xp.log(total[:, 0]))
    means, firsts, squares = [], [], []
    product = xp.empty_like(L)
    for clipped, origin in zip(segments(L, knots), _origins(knots).tolist(), strict=True):
        term = into("subtract", clipped, clipped, origin)
        product = into("multiply", product, P, term)
        means.append(xp.sum(product, axis=1))
        firsts.append(w @ (means[-1] - of_labels(term, y)))
        squares.append(w @ row_dots(product, term))
    mean = xp.stack(means)
    return joined_flat(loss, *firsts, mean @ w, *squares, (mean * w) @ mean.T)


def _origins(knots: Floats) -> Floats:
    """What is subtracted from each term: (p,)."""
    return np.concatenate([knots[:1], knots]) if len(knots) else np.zeros(1)


def _hessian(knots: Floats, sums: Floats) -> Floats:
    """Hessian (p, p) from sums of the means of terms, of their squares, and of products of means.

    It needs no products of two terms: on a segment the distances from the origins of the lower
    segments are their widths.
    """
    p = len(knots) + 1
    mean, square, products = np.split(sums, [p, 2 * p])
    H = np.triu(np.outer(np.diff(_origins(knots), append=0), mean), 1)
    H += H.T + np.diag(square) - products.reshape(p, p)
    return H


@dataclass(frozen=True)
class PiecewiseObjective:
    """Log loss of the function plus a ridge penalty on the distance of its slopes from 1."""

    rows: Rows
    knots: Floats
    ridge: float

    def at(self, slopes: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (p,) and Hessian (p, p) at ``slopes``."""
        p, off = len(slopes), slopes - 1
        sums = self.rows.sum(partial(derivatives, self.knots, slopes), Plan(room=4))
        mean = sums / self.rows.weight
        hessian = _hessian(self.knots, mean[p + 1 :]) + 2 * self.ridge * np.eye(p)
        value = float(mean[0] + self.ridge * off @ off)
        return value, mean[1 : p + 1] + 2 * self.ridge * off, hessian


def best_slopes(objective: PiecewiseObjective, start: Floats, least: float) -> tuple[Floats, bool]:
    """Slopes of at least ``least`` at the minimum of the objective, and whether that was reached.

    Newton's method: each step is to the minimum of the quadratic model above the bounds.
    """
    x, (value, gradient, hessian) = start, objective.at(start)
    for _ in range(MAX_PASSES):
        end = least + lowest_point(x - least, gradient, hessian)
        step = end - x
        decrease = -float(gradient @ step + step @ hessian @ step / 2)
        if decrease <= max(LAST_DECREASE * value, SMALLEST_DECREASE):
            return end, True
        share, ahead = 1.0, objective.at(end)
        while ahead[0] > value * (1 + NOISE) - ENOUGH * share * decrease:
            share /= 2
            end = x + share * step
            ahead = objective.at(end)
        x, (value, gradient, hessian) = end, ahead
    return x, False


def lowest_point(x: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Minimum, among non-negative vectors, of a quadratic function by its derivatives at ``x``."""
    curvatures, basis = np.linalg.eigh(hessian)
    curvatures = np.maximum(curvatures, FLATTEST * max(curvatures[-1], 1))
    lowest = x - basis @ (gradient @ basis / curvatures)
    if (lowest >= 0).all():
        return lowest
    # The function is half the squared residual of linear equations whose solution is ``lowest``.
    # (scipy.optimize.nnls would do as well, but does not always converge in SciPy 1.12.)
    roots = np.sqrt(curvatures)[:, None] * basis.T
    found = lsq_linear(roots, roots @ lowest, (0, np.inf), method="bvls", max_iter=100 * len(x))
    return np.maximum(found.x, 0)

r"""Weights on the simplex: of least quadratic, and of a mixture with the least log loss.

A mixture of M probabilities :math:`q_{im}` of the label of row i, with weights :math:`\pi_m \ge 0`
that sum to one, has the log loss

.. math:: L(\pi) = -\frac1N \sum_i w_i \log \sum_m \pi_m q_{im} ,

convex in :math:`\pi`. With :math:`D_m = \frac1N \sum_i w_i\, q_{im} / \sum_j \pi_j q_{ij}`, minus
its gradient, :math:`\sum_m \pi_m D_m = 1`, and the loss is at most :math:`\max_m D_m - 1` above its
minimum: the duality gap, which is zero at the minimum and only there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from skcalib._engine.array_api import at_least, like, namespace
from skcalib._engine.blocks import joined_flat
from skcalib._engine.rows import Rows
from skcalib._typing import Floats, Indices

# Probabilities of labels, the largest of the row being 1, in a mixture are at least this.
TINY = 1e-100

# The loss is at most this far above its minimum, in nats.
GAP = 1e-9

# Passes at most, of which the first few are iterations of EM, which reach small weights fast.
MAX_PASSES, EM_PASSES = 100, 3

# Nor is it more above it where a Newton step promises to lower it by less.
ROUNDING = 1e-14

# A step leaves at least this share of each weight, and is shortened where the slope at its end is
# steeper than this share of that at its start.
LEAST_SHARE, STEEPEST = 0.1, 0.5

# Smaller weights that the gradient pushes to zero are zero.
SMALL = 1e-6


def least_quadratic(H: Floats, g: Floats) -> Floats:
    """The point y (M,) of the simplex at which ``y H y / 2 + g y`` is least, for convex H (M, M).

    Coordinates that are negative where the quadratic is stationary are left out one at a time. If
    what this leads to is not the least, it is that of all faces of the simplex, of which there are
    ``2^M - 1``: for small M.
    """
    face, y = list(range(len(g))), _stationary(H, g)
    while not y.min() >= 0:
        face.remove(int(y.argmin()))
        y = _stationary_on(face, H, g)
    slope = H @ y + g
    return y if slope.min() >= slope[face].min() else _least_of_all_faces(H, g)


def _least_of_all_faces(H: Floats, g: Floats) -> Floats:
    M = len(g)
    best, least = np.eye(M)[0], np.inf
    for size in range(M, 0, -1):
        for face in map(list, combinations(range(M), size)):
            y = _stationary_on(face, H, g)
            value = float(y @ H @ y / 2 + g @ y)
            if y.min() >= 0 and value < least:
                best, least = y, value
    return best


def _stationary_on(face: list[int], H: Floats, g: Floats) -> Floats:
    """Where the quadratic is stationary on a face, given by its coordinates."""
    y = np.zeros(len(g))
    y[face] = _stationary(H[face][:, face], g[face])
    return y


def _stationary(H: Floats, g: Floats) -> Floats:
    """Where ``y H y / 2 + g y`` is stationary among the y that sum to one; NaN if not at a point.

    The least of a face along whose interior the quadratic is flat, or falls, is at its boundary.
    """
    others = H[1:] - H[0]
    curvature = others[:, 1:] - others[:, :1]
    try:
        rest = np.linalg.solve(curvature, -(others[:, 0] + g[1:] - g[0]))
    except np.linalg.LinAlgError:
        return np.full(len(g), np.nan)
    return np.append(1 - rest.sum(), rest)


@dataclass(frozen=True)
class Weights:
    """Weights of a mixture, and the derivatives of its log loss there."""

    x: Floats  #: (M,)
    descent: Floats  #: (M,), minus the gradient
    hessian: Floats  #: (M, M)

    @property
    def gap(self) -> float:
        """Bound on how far the loss is above its minimum."""
        return float(self.descent.max()) - 1

    @classmethod
    def of(cls, x: Floats, rows: Rows) -> Weights:
        """One pass over the rows."""
        M = len(x)

        def block(Q: Floats, _: Indices, w: Floats | None) -> Floats:
            mixed = at_least(Q @ like(x, Q), TINY)
            shares = Q / mixed[:, None]
            weighted = shares if w is None else shares * w[:, None]
            return joined_flat(namespace(Q).sum(weighted, axis=0), weighted.T @ shares)

        mean = rows.sum(block) / rows.weight
        return cls(x, mean[:M], mean[M:].reshape(M, M))


def least_log_loss(rows: Rows) -> tuple[Floats, bool]:
    """Weights (M,) of the least log loss, and whether these were found.

    The rows have probabilities (n, M) of the labels, in any units per row, in place of logits.
    A few iterations of EM, then Newton's method from inside the simplex. Weights of zero are
    approached, and in the end taken where the gap allows it.
    """
    found = Weights.of(np.full(rows.n_columns, 1 / rows.n_columns), rows)
    length, promised = 1.0, np.inf
    for n_passes in range(MAX_PASSES):
        if found.gap <= GAP:
            break
        if n_passes < EM_PASSES:
            found = Weights.of(found.x * found.descent, rows)
            continue
        step = _newton_step(found)
        promised = float(found.descent @ step)
        if promised <= ROUNDING:
            break
        ahead = Weights.of(found.x + length * step, rows)
        after = -float(ahead.descent @ step)
        if after <= STEEPEST * promised:
            found, length = ahead, 1.0
        else:
            length *= min(max(promised / (promised + after), 0.1), 0.9)
    found = _rounded(found, rows)
    return found.x, found.gap <= GAP or promised <= ROUNDING


def _rounded(found: Weights, rows: Rows) -> Weights:
    """The weights without those that are all but zero, if the gap allows it."""
    kept = np.where((found.x < SMALL) & (found.descent < 1), 0, found.x)
    rounded = Weights.of(kept / kept.sum(), rows)
    return rounded if rounded.gap <= GAP else found


def _newton_step(found: Weights) -> Floats:
    """To the least of the quadratic model among weights that are no less than a share of these."""
    low = LEAST_SHARE * found.x
    rest = 1 - low.sum()
    H, shift = found.hessian, low - found.x
    return shift + rest * least_quadratic(rest**2 * H, rest * (H @ shift - found.descent))

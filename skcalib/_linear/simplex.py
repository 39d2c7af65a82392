r"""Weights on the simplex: of least quadratic, and of a mixture with the least log loss.

A mixture of M probabilities :math:`q_{im}` of the label of row i, with weights :math:`\pi_m \ge 0`
that sum to one, has the log loss

.. math:: L(\pi) = -\frac1N \sum_i w_i \log \sum_m \pi_m q_{im} ,

convex in :math:`\pi`. With :math:`D_m = \frac1N \sum_i w_i\, q_{im} / \sum_j \pi_j q_{ij}`, minus
its gradient, :math:`\sum_m \pi_m D_m = 1`, and the loss is at most :math:`\max_m D_m - 1` above its
minimum: the duality gap, which is zero at the minimum and only there.

Pseudo-rows :math:`a_m` add :math:`-\frac1N \sum_m a_m \log \pi_m` to the loss, with N the sum of
both: each is a row whose label only member m gives any probability to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from skcalib._engine.array_api import at_least, like, namespace
from skcalib._engine.blocks import joined_flat, weighted_sum
from skcalib._engine.rows import OfBlock, Plan, Rows
from skcalib._typing import Bools, Floats, Indices

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

# Up to so many coordinates all faces of the simplex may be tried.
FEW = 12

# Exchanges of coordinates at most, and how many may bring no progress before they are exchanged one
# at a time.
MAX_EXCHANGES, PATIENCE = 1000, 3


def least_quadratic(H: Floats, g: Floats) -> Floats:
    """The point y (M,) of the simplex at which ``y H y / 2 + g y`` is least, for convex H (M, M).

    Coordinates that are negative where the quadratic is stationary are left out one at a time. If
    what this leads to is not the least, it is that of all faces of the simplex, of which there are
    ``2^M - 1``: for small M. With many coordinates H must be positive definite.
    """
    if len(g) > FEW:
        return _least_by_exchanges(H, g)
    face, y = list(range(len(g))), _stationary(H, g)
    while not y.min() >= 0:
        face.remove(int(y.argmin()))
        y = _stationary_on(face, H, g)
    slope = H @ y + g
    return y if slope.min() >= slope[face].min() else _least_of_all_faces(H, g)


def _least_by_exchanges(H: Floats, g: Floats) -> Floats:
    """The same by block pivoting (Júdice, Pires 1994): all coordinates on the wrong side change it.

    Those are negative ones of the face, and others along which the quadratic falls. Where their
    number no longer falls only the last of them is exchanged, which leads to the end.
    """
    inside = np.ones(len(g), bool)
    fewest, patience = len(g) + 1, PATIENCE
    y = np.full(len(g), 1 / len(g))
    for _ in range(MAX_EXCHANGES):
        y = _stationary_inside(inside, H, g)
        slope = H @ y + g
        level = slope[inside].mean()
        wrong = np.where(inside, y < 0, slope < level - ROUNDING * np.abs(slope).max())
        n_wrong = int(wrong.sum())
        if n_wrong == 0:
            break
        patience = PATIENCE if n_wrong < fewest else patience - 1
        fewest = min(fewest, n_wrong)
        changed = np.flatnonzero(wrong)
        inside[changed if patience > 0 else changed[-1:]] ^= True
        inside[y.argmax()] = True  # the face has a point
    y = np.maximum(y, 0)
    return y / y.sum()


def _stationary_inside(inside: Bools, H: Floats, g: Floats) -> Floats:
    """Where a positive definite quadratic is stationary on a face, given by its coordinates."""
    right = np.stack([np.ones(int(inside.sum())), g[inside]], axis=1)
    ones, shift = np.linalg.solve(H[np.ix_(inside, inside)], right).T
    y = np.zeros(len(g))
    y[inside] = ones * (1 + shift.sum()) / ones.sum() - shift
    return y


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
    """Weights of a mixture, and its log loss there with the derivatives."""

    x: Floats  #: (M,)
    loss: float
    descent: Floats  #: (M,), minus the gradient
    hessian: Floats  #: (M, M)

    @property
    def gap(self) -> float:
        """Bound on how far the loss is above its minimum."""
        return float(self.descent.max()) - 1

    @classmethod
    def of(
        cls,
        x: Floats,
        rows: Rows,
        pseudo_rows: Floats | None = None,
        of_block: OfBlock | None = None,
    ) -> Weights:
        """One pass over the rows, whose probabilities ``of_block`` makes if they are not stored."""
        M = len(x)
        sums = rows.sum(partial(_derivatives, x, of_block), Plan(at_least=M))
        total, first, second = sums[0], sums[1 : M + 1], sums[M + 1 :].reshape(M, M)
        weight = rows.weight
        if pseudo_rows is not None:
            total = total + pseudo_rows @ np.log(x)
            first = first + pseudo_rows / x
            second = second + np.diag(pseudo_rows / x**2)
            weight += float(pseudo_rows.sum())
        return cls(x, -float(total) / weight, first / weight, second / weight)


def _derivatives(
    x: Floats, of_block: OfBlock | None, Q: Floats, y: Indices | None, w: Floats | None
) -> Floats:
    """Sums over a block of the log-likelihood, and of its first and second derivatives."""
    Q = Q if of_block is None else of_block(Q, y, w)
    xp, M = namespace(Q), len(x)
    mixed = at_least(Q @ like(x, Q), TINY)
    shares = Q / mixed[:, None]
    weighted = shares if w is None else shares * w[:, None]
    logs = xp.reshape(weighted_sum(xp.log(mixed), w), (1,))
    return joined_flat(logs, xp.sum(weighted, axis=0), xp.reshape(weighted.T @ shares, (M * M,)))


@dataclass(frozen=True)
class Mixture:
    """Weights of the least log loss, and how they were found."""

    weights: Weights
    n_passes: int
    converged: bool


def least_log_loss(rows: Rows) -> tuple[Floats, bool]:
    """Weights (M,) of the least log loss, and whether these were found.

    The rows have probabilities (n, M) of the labels, in any units per row, in place of logits.
    Weights of zero are approached, and in the end taken where the gap allows it.
    """
    start = np.full(rows.n_columns, 1 / rows.n_columns)
    found = fit_mixture(lambda x: Weights.of(x, rows), start)
    weights = _rounded(found.weights, rows)
    return weights.x, found.converged or weights.gap <= GAP


def fit_mixture(at: Callable[[Floats], Weights], start: Floats) -> Mixture:
    """The least of the log loss that ``at`` gives, from weights none of which is zero.

    A few iterations of EM, then Newton's method from inside the simplex.
    """
    found = at(start)
    length, promised = 1.0, np.inf
    for n_passes in range(MAX_PASSES):
        if found.gap <= GAP:
            return Mixture(found, n_passes + 1, converged=True)
        if n_passes < EM_PASSES:
            found = at(found.x * found.descent)
            continue
        step = _newton_step(found)
        promised = float(found.descent @ step)
        if promised <= ROUNDING:
            return Mixture(found, n_passes + 1, converged=True)
        ahead = at(found.x + length * step)
        after = -float(ahead.descent @ step)
        if after <= STEEPEST * promised:
            found, length = ahead, 1.0
        else:
            length *= min(max(promised / (promised + after), 0.1), 0.9)
    return Mixture(found, MAX_PASSES + 1, converged=found.gap <= GAP)


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

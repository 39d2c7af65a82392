r"""Logistic regression on functions of one score, from counts in cells of the score.

Scores of a class in a narrow cell are replaced by their mean. Then the log loss of a smooth
function of the score depends on the weight and the hits of each cell only, at a cost that does not
depend on the number of rows: parameters for many regularization strengths, and their leave-one-out
log losses, cost less than a pass over the rows. What is lost is of second order in the width of the
cells, and nothing where scores are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from skcalib._engine.blocks import is_event
from skcalib._engine.rows import Plan, Rows
from skcalib._typing import Floats, Indices

from .leave_one_out import LEAST_REST, NOISE

# Cells between the least and the largest score of each class.
N_CELLS = 512

# Scores of a class that vary by no more than this many rounding errors are equal.
ROUNDINGS = 8

# Blocks have this many rows, so that counting does not cost less than adding up the counts.
ROWS_AT_LEAST = 2048


class Cells(NamedTuple):
    """Scores of a class in cells that are not empty: arrays of shape (m,)."""

    scores: Floats  #: mean scores, increasing
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights of the rows of the class


def cells_of(rows: Rows) -> list[Cells]:
    """Cells of each column of rows of scores; those that are not finite do not count."""
    low, high = rows.reduce(np.maximum, _range) * [[-1], [1]]
    width = np.maximum(high - low, 0)
    rounding = ROUNDINGS * np.finfo(rows.dtype).eps * np.maximum(np.abs([low, high]).max(axis=0), 1)
    per_cell = np.divide(N_CELLS, width, out=np.zeros_like(width), where=width > rounding)
    counts = partial(_counts, np.where(width > 0, low, 0), per_cell)
    found = []
    for weight, hits, total in rows.sum(counts, Plan(at_least=ROWS_AT_LEAST)).swapaxes(0, 1):
        some = weight > 0
        found.append(Cells(total[some] / weight[some], weight[some], hits[some]))
    return found


def _range(M: Floats, *_: object) -> Floats:
    """Minus the least and the largest finite score of each column: (2, K)."""
    there = np.isfinite(M)
    limits = [np.max(S, axis=0, where=there, initial=-np.inf) for S in (-M, M)]
    return np.array(limits, dtype=np.float64)


def _counts(low: Floats, per_cell: Floats, M: Floats, y: Indices, w: Floats | None) -> Floats:
    """Weight, hits and summed scores in the cells of each column: (3, K, N_CELLS)."""
    K = M.shape[1]
    there = np.isfinite(M)
    M = np.where(there, M, low).astype(np.float64, copy=False)
    cell = np.minimum((M - low) * per_cell, N_CELLS - 1).astype(np.intp)
    cell += np.arange(K) * N_CELLS
    W = there.astype(np.float64) if w is None else there * w[:, None]
    sums = W, W * is_event(y, K), W * M
    counts = [np.bincount(cell.ravel(), S.ravel(), K * N_CELLS) for S in sums]
    return np.array(counts, dtype=np.float64).reshape(3, K, N_CELLS)


@dataclass(frozen=True)
class Binned:
    """Logistic regressions of one class on the same cells, with L ridge penalties.

    As :class:`.logistic.Logistic`, but features are arrays (m, d), and weights sum to ``total``.
    """

    features: Floats  #: (m, d), the last of them 1
    weight: Floats  #: (m,)
    targets: Floats  #: (m,), sums over the rows of each cell
    ridge: Floats  #: (L, d), strengths of the penalties on each mean loss

    @property
    def total(self) -> float:
        """Sum of the weights, or 1 if there are no rows."""
        return float(self.weight.sum()) or 1.0

    @property
    def rate(self) -> Floats:
        """Mean target (L,)."""
        return np.full(len(self.ridge), self.targets.sum() / self.total)

    @property
    def spread(self) -> Floats:
        """Root mean square of the features but the last: (d - 1, L)."""
        squares = self.weight @ self.features[:, :-1] ** 2 / self.total
        return np.repeat(np.sqrt(squares)[:, None], len(self.ridge), axis=1)

    @property
    def rounding(self) -> Floats:
        """Features that vary by no more than this have no slope: (d - 1, L)."""
        return np.full((self.ridge.shape[1] - 1, len(self.ridge)), 1e-12)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Gradients (L, d) and Hessians (L, d, d) of the objectives at ``theta`` (L, d)."""
        F, P = self.features, expit(self.features @ theta.T)
        gradient = (self.weight[:, None] * P - self.targets[:, None]).T @ F / self.total
        curvature = (self.weight[:, None] * P * (1 - P)).T / self.total
        hessian = (curvature[:, None] * F.T) @ F
        penalty = 2 * self.ridge[:, :, None] * np.eye(F.shape[1])
        return gradient + 2 * self.ridge * theta, hessian + penalty

    def leave_one_out_losses(self, theta: Floats, hits: Floats) -> Floats:
        """Summed approximate leave-one-out log losses at the minima ``theta`` (L, d): (L,).

        Each time a weight of one is left out, whatever the weights of the rows are. Without it one
        Newton step moves the score by ``a r / (1 - a p (1 - p))``, with the residual ``r`` and the
        leverage ``a`` (see :mod:`.leave_one_out`).
        """
        S = self.features @ theta.T
        P = expit(S)
        hessian = self.total * self.derivatives(theta)[1]
        size = np.einsum("lii->l", hessian)[:, None, None]
        inverse = np.linalg.inv(hessian + NOISE * size * np.eye(theta.shape[1]))
        A = np.einsum("lij,ij->il", self.features @ inverse, self.features)
        A /= np.maximum(1 - A * P * (1 - P), LEAST_REST)
        of_hit, of_other = log_expit(S + A * (P - 1)), log_expit(-S - A * P)
        return -(hits @ of_hit + (self.weight - hits) @ of_other)

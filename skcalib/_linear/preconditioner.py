r"""Approximate inverses of the Hessian, with one block for each class: preconditioners.

With :math:`q_k = p_k (1 - p_k)`, averaged over the rows, the block of the Hessian of the log loss
that belongs to the slopes and the offset of class k is

.. math:: \mathrm E[q_k (f, 1) (f, 1)^\top] = b_k \begin{pmatrix}
    \Sigma_k + m_k m_k^\top & m_k \\ m_k^\top & 1 \end{pmatrix},

with the mass :math:`b_k = \mathrm E[q_k]`, and the mean :math:`m_k` and the covariance
:math:`\Sigma_k` of the features f under weights in proportion to :math:`q_k`. The blocks of a
vector map have two rows and are inverted as they are. For a matrix map the covariance is taken to
be the same for all classes, as in linear discriminant analysis, so that one eigendecomposition
serves all blocks; means and masses are not, since they differ widely.

Adding the same numbers to the scores of all classes changes no probability. Preconditioners project
this null space of the Hessian out, along the direction in which the ridge penalty is least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skcalib._engine.array_api import at_least, concat, into, like, namespace
from skcalib._engine.blocks import column_dots, double
from skcalib._typing import Floats

from .loss import Objective, Regularization, centred_scores

# From a gradient (p,) to a step (p,).
Preconditioner = Callable[[Floats], Floats]

# What is added to curvatures, relative to the largest one, and at least.
SMALL_CURVATURE, TINY_CURVATURE = 1e-6, 1e-12

# Number of rows of the sample that moments are estimated from: per class, and at least.
ROWS_PER_CLASS, FEWEST_ROWS = 4, 1024


def vector_preconditioner(objective: Objective, theta: Floats, n_kinds: int) -> Preconditioner:
    """Inverse of the blocks of slope and offset (``n_kinds`` 2), or slope alone (1), per class."""
    K, inverse = objective.features.n_classes, vector_blocks(objective, theta, n_kinds)

    def solve(g: Floats) -> Floats:
        g = g.reshape(n_kinds, K).copy()
        g[1:] -= g[1:].mean(axis=1, keepdims=True)
        step = np.einsum("kij,jk->ik", inverse, g)
        step[1:] -= step[1:].mean(axis=1, keepdims=True)
        return step.ravel()

    return solve


def vector_blocks(objective: Objective, theta: Floats, n_kinds: int) -> Floats:
    """The inverses (K, n_kinds, n_kinds) of these blocks."""
    K = objective.features.n_classes

    def moments(F: Floats, Q: Floats) -> Floats:
        QF = Q * F
        xp = namespace(F)
        return xp.stack([column_dots(QF, F), xp.sum(QF, axis=0), xp.sum(Q, axis=0)])

    square, mean, mass = _mean_of_curvatures(moments, objective, theta)
    hessian = np.array([[square, mean], [mean, mass]]).transpose(2, 0, 1)[:, :n_kinds, :n_kinds]
    ridge = 2 * objective.ridge.reshape(n_kinds, K).T
    inverse: Floats = np.linalg.inv(
        hessian + (ridge + _floor(hessian))[:, :, None] * np.eye(n_kinds)
    )
    return inverse


def matrix_preconditioner(objective: Objective, theta: Floats) -> Preconditioner:
    """Inverse of the blocks of a row of the matrix and an offset, per class."""
    K = objective.features.n_classes
    blocks = ClassBlocks.of(*pooled_moments(objective, theta), objective.regularization)
    share = objective.regularization.of_matrix(K) + np.finfo(float).tiny
    share /= share.sum(axis=0)

    def solve(g: Floats) -> Floats:
        G, h = g[: K * K].reshape(K, K), g[K * K :]
        A, c = blocks.solve(G - share * G.sum(axis=0), h - h.mean())
        A -= np.einsum("kj,kj->j", share, A)
        return np.concatenate([A.ravel(), c - c.mean()])

    return solve


@dataclass(frozen=True)
class ClassBlocks:
    r"""Inverses of the blocks of a matrix map, whose classes share the covariance :math:`\Sigma`.

    With the ridge penalties d on the diagonal, o off it and r on offsets, each times 2, the block
    of class k is

    .. math:: \begin{pmatrix} B_k - (o - d) e_k e_k^\top + b_k m_k m_k^\top & b_k m_k \\
        b_k m_k^\top & b_k + r \end{pmatrix}, \qquad B_k = b_k \Sigma + o I .

    The offset is eliminated: it follows the slopes a by :math:`c = h / (b_k + r) - t_k^\top a`
    with :math:`t_k = b_k m_k / (b_k + r)`, which leaves the Schur complement

    .. math:: S_k = B_k - (o - d) e_k e_k^\top + r\, t_k m_k^\top

    for the slopes. In the eigenvectors of the covariance :math:`B_k` is diagonal, and each of the
    two matrices of rank one changes its inverse by one of rank one, :math:`g v v^\top`
    (Sherman and Morrison).
    """

    basis: Floats  #: (K, K), columns are the eigenvectors of the covariance
    inverse_diagonal: Floats  #: (K, K), row k is the diagonal of the inverse of B_k in the basis
    rank_one: list[tuple[Floats, Floats]]  #: gains g (K,) and vectors v (K, K) in the basis
    offset_per_slope: Floats  #: (K, K), row k is t_k
    inverse_offset: Floats  #: (K,), 1 / (b_k + r)

    @classmethod
    def of(
        cls, b: Floats, m: Floats, covariance: Floats, regularization: Regularization
    ) -> ClassBlocks:
        """The blocks of masses ``b`` (K,), means ``m`` (K, K) and the covariance (K, K)."""
        d, o, r = (2 * strength for strength in regularization.strengths)
        spread, basis = np.linalg.eigh(covariance)
        B = b[:, None] * np.maximum(spread, 0) + o
        inverse = 1 / (B + _floor(b.max() * spread))
        inverse_offset = 1 / (b + r + _floor(b))
        t = (b * inverse_offset)[:, None] * m
        gain_e, v_e = _rank_one_change(d - o, basis, inverse * basis)
        M = m @ basis
        solved = inverse * M + (gain_e * _row_products(v_e, M))[:, None] * v_e
        change_m = _rank_one_change(b - b**2 * inverse_offset, M, solved)
        return cls(basis, inverse, [(gain_e, v_e), change_m], t, inverse_offset)

    def solve(self, G: Floats, h: Floats) -> tuple[Floats, Floats]:
        """Slopes (K, K) and offsets (K,) that the blocks map to ``G`` (K, K) and ``h`` (K,)."""
        G = (G - self.offset_per_slope * h[:, None]) @ self.basis
        A = self.inverse_diagonal * G
        for gain, V in self.rank_one:
            A += (gain * _row_products(V, G))[:, None] * V
        A = A @ self.basis.T
        return A, h * self.inverse_offset - _row_products(self.offset_per_slope, A)

    def leverages(self, F: Floats) -> Floats:
        """``(f, 1)^T B (f, 1)`` of features (m, K) and the inverse B of each block: (m, K)."""
        T = self.offset_per_slope @ self.basis
        weighted = self.inverse_diagonal * T

        def of(matrix: Floats) -> Floats:  # on the device of F
            return like(matrix, F)

        F = F @ of(self.basis)
        Q = F**2 @ of(self.inverse_diagonal).T - F @ of(2 * weighted).T
        Q += of(_row_products(weighted, T))
        for gain, V in self.rank_one:
            Q += of(gain) * (F @ of(V).T - of(_row_products(V, T))) ** 2
        return at_least(Q, 0, Q) + of(self.inverse_offset)


def _rank_one_change(factor: Any, U: Floats, V: Floats) -> tuple[Floats, Floats]:
    r"""Gain g and v with :math:`(S + f u u^\top)^{-1} = S^{-1} + g v v^\top`, :math:`v = S^{-1}u`.

    For each row u of U, and v of V.
    """
    return -factor / (1 + factor * _row_products(U, V)), V


def _row_products(U: Floats, V: Floats) -> Any:
    """Scalar product of each row of U with that of V."""
    return np.einsum("kj,kj->k", U, V)


def pooled_moments(objective: Objective, theta: Floats) -> tuple[Floats, Floats, Floats]:
    """Masses (K,), means (K, K) and common covariance (K, K) under the weights ``q_k``."""
    K = objective.features.n_classes

    def moments(F: Floats, Q: Floats) -> Floats:
        xp = namespace(F)
        second = (F * xp.sum(Q, axis=1, keepdims=True)).T @ F
        return concat([xp.sum(Q, axis=0)[None, :], Q.T @ F, second])

    b, first, second = np.split(_mean_of_curvatures(moments, objective, theta), [1, K + 1])
    mass = b[0] + np.finfo(float).tiny
    mean = first / mass[:, None]
    return mass, mean, (second - first.T @ mean) / mass.sum()


def _mean_of_curvatures(
    f: Callable[[Floats, Floats], Floats], objective: Objective, theta: Floats
) -> Floats:
    """Mean of ``f`` of features and of ``q = p (1 - p)``, on a sample of rows without weights.

    With weights on all rows, since a sample may leave out those that matter. In double precision,
    so that rounding does not make a block of the Hessian indefinite.
    """
    features, map_, masks = objective.features, objective.map_, objective.features.masks
    rows = features.rows
    if rows.w is None:
        sampled = max(ROWS_PER_CLASS * features.n_classes, FEWEST_ROWS)
        features = features.every(max(1, rows.n_rows // sampled))

    def block(F: Floats, _: Any, w: Floats | None) -> Floats:
        F = double(F)
        P = centred_scores(theta, map_, F, None, masks=masks)
        P = into("exp", P, P)
        P /= namespace(P).sum(P, axis=1, keepdims=True)
        Q = P * (1 - P)
        return f(F, Q if w is None else Q * w[:, None])

    return features.mean(block, scratch=0, room=4)


def _floor(curvatures: Floats) -> float:
    return SMALL_CURVATURE * float(np.max(curvatures)) + TINY_CURVATURE

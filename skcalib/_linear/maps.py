r"""Linear maps of logits: their scores, adjoints, ridges, and coordinates to search in.

Notation as in ``_minimise``: features ``F`` of shape (m, K), parameters ``theta``, scores ``S``.

The coordinates make the Hessian of the log loss at some parameters near the identity matrix. With
:math:`q_k = p_k (1 - p_k)`, averaged over the rows, the block of it that belongs to class k is

.. math:: \mathrm E[q_k (f, 1) (f, 1)^\top] = b_k \begin{pmatrix}
    \Sigma_k + m_k m_k^\top & m_k \\ m_k^\top & 1 \end{pmatrix},

with the mass ``b_k = E[q_k]``, the mean ``m_k`` and the covariance of the features as class k
weighs them. As in linear discriminant analysis, the covariance is taken to be the same for all
classes, which one decomposition of it serves; means and masses are not, and differ widely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from skcalib._typing import Floats

from .features import mask_scores
from .loss import LinearMap, Objective
from .solver import Coordinates

# What is added to curvatures, relative to the largest one, and at least: directions that hardly
# matter need no large steps.
SMALL_CURVATURE, TINY_CURVATURE = 1e-6, 1e-12

# The covariance of the features comes from so many rows per class, or more.
ROWS_PER_CLASS, FEWEST_ROWS = 4, 2048


@dataclass(frozen=True)
class VectorMap:
    """Scores ``a * F + c``, with parameters ``(a, c)``, or ``a`` alone."""

    fit_intercept: bool = True

    def identity(self, K: int) -> Floats:
        """Parameters that leave features of K classes as they are."""
        return np.repeat([1.0, 0.0] if self.fit_intercept else [1.0], K)

    def ridge(self, K: int) -> Floats:
        """How strongly each parameter is held to the identity, times the number of rows."""
        return np.full_like(self.identity(K), K)

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Slopes (K,) and offsets (K,)."""
        return theta[:K], theta[K:] if self.fit_intercept else np.zeros(K)

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``Z`` (m, K)."""
        K = Z.shape[1]
        out = np.multiply(Z, theta[:K], out=out)
        if self.fit_intercept:
            out += theta[K:]
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Sum over the rows of what ``R`` (m, K) says on each parameter."""
        slopes = np.einsum("ij,ij->j", R, Z)
        return np.concatenate([slopes, R.sum(axis=0)]) if self.fit_intercept else slopes

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        K, n_kinds = Z.shape[1], 1 + self.fit_intercept
        G = np.hstack([P * Z, P][:n_kinds])
        WG = w[:, None] * G
        H = -WG.T @ G
        moments = [np.einsum("ik,ik->k", WG[:, :K], Z)]
        if self.fit_intercept:
            moments += [WG[:, :K].sum(axis=0), WG[:, K:].sum(axis=0)]
        # Views of the diagonals of the blocks (K, K) that slopes and offsets have.
        diagonals = np.einsum("akbk->abk", H.reshape(n_kinds, K, n_kinds, K))
        for a, b in np.ndindex(n_kinds, n_kinds):
            diagonals[a, b] += moments[a + b]
        return H

    def coordinates(self, objective: Objective, theta: Floats) -> Coordinates:
        """Coordinates in which the Hessian at ``theta`` has unit blocks per class."""
        K, n_kinds = objective.rows.n_classes, 1 + self.fit_intercept
        masks = objective.rows.masks

        def block(F: Floats, _: Any, w: Floats | None) -> Floats:
            F, Q = _curvatures(theta, self, F, w, masks)
            QF = Q * F
            return np.stack([np.einsum("ij,ij->j", QF, F), QF.sum(axis=0), Q.sum(axis=0)])

        moments = objective.rows.mean(block, scratch=0)
        hessian = np.array([moments[:2], moments[1:]]).transpose(2, 0, 1)[:, :n_kinds, :n_kinds]
        floor = 2 * np.max(objective.ridge) + _floor(hessian)
        root = np.linalg.inv(np.linalg.cholesky(hessian + floor * np.eye(n_kinds)))

        def forward(u: Floats) -> Floats:
            theta = np.einsum("kij,ik->jk", root, u.reshape(n_kinds, K))
            # The same offset for all classes changes nothing.
            theta[1:] -= theta[1:].mean(axis=1, keepdims=True)
            return theta.ravel()

        def transposed(g: Floats) -> Floats:
            g = g.reshape(n_kinds, K).copy()
            g[1:] -= g[1:].mean(axis=1, keepdims=True)
            return np.einsum("kij,jk->ik", root, g).ravel()

        return Coordinates(forward, transposed)


def _curvatures(
    theta: Floats,
    map_: LinearMap,
    F: Floats,
    w: Floats | None,
    masks: bool,  # noqa: FBT001
) -> tuple[Floats, Floats]:
    """Features, and ``q = w p (1 - p)`` at ``theta``, in double precision."""
    # So that rounding does not make a block of the Hessian indefinite.
    F = F.astype(np.float64)
    S = map_.scores(theta, F)
    Q = softmax(mask_scores(S, F) if masks else S, axis=1)
    Q -= Q**2
    return F, Q if w is None else Q * w[:, None]


def _floor(curvatures: Floats) -> float:
    return SMALL_CURVATURE * float(np.max(curvatures)) + TINY_CURVATURE


@dataclass(frozen=True)
class MatrixMap:
    """Scores ``F A^T + c``, with parameters the rows of ``A`` (K, K) and then ``c`` (K,)."""

    def identity(self, K: int) -> Floats:
        """Parameters that leave features of K classes as they are."""
        return np.concatenate([np.eye(K).ravel(), np.zeros(K)])

    def ridge(self, K: int) -> Floats:
        """How strongly each parameter is held to the identity, times the number of rows.

        The K (K - 1) entries off the diagonal as much in all as the K on it (Berta et al.,
        arXiv:2511.03685).
        """
        slopes = np.full((K, K), K * (K - 1.0))
        np.fill_diagonal(slopes, K)
        return np.concatenate([slopes.ravel(), np.full(K, float(K))])

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Matrix (K, K) and offsets (K,)."""
        return theta[: K * K].reshape(K, K), theta[K * K :]

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``Z`` (m, K)."""
        A, c = self.coefficients(theta, Z.shape[1])
        out = np.matmul(Z, A.T, out=out)
        out += c
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Sum over the rows of what ``R`` (m, K) says on each parameter."""
        return np.concatenate([(R.T @ Z).ravel(), R.sum(axis=0)])

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        m, K = Z.shape
        G = np.hstack([(P[:, :, None] * Z[:, None, :]).reshape(m, K * K), P])
        H = -(w[:, None] * G).T @ G
        slopes, offsets = slice(0, K * K), slice(K * K, None)
        on_slopes = np.einsum("kjkl->kjl", H[slopes, slopes].reshape(K, K, K, K))
        crossed = np.einsum("kjk->kj", H[slopes, offsets].reshape(K, K, K))
        transposed = np.einsum("kkj->kj", H[offsets, slopes].reshape(K, K, K))
        for k in range(K):
            q = w * P[:, k]
            on_slopes[k] += (q[:, None] * Z).T @ Z
            crossed[k] += q @ Z
            transposed[k] += q @ Z
        H[np.arange(K * K, K * K + K), np.arange(K * K, K * K + K)] += w @ P
        return H

    def coordinates(self, objective: Objective, theta: Floats) -> Coordinates:
        """Coordinates in which the Hessian at ``theta`` is near the identity matrix.

        Row k of the matrix has the block ``b_k Sigma + ridge``; a weaker ridge on its diagonal
        entry and a ridge on the offset each add a matrix of rank one to it. What leaves all
        probabilities as they are, the same row added to all rows, is kept where the ridge is
        least.
        """
        K = objective.rows.n_classes
        ridge = np.broadcast_to(objective.ridge, K * K + K)
        blocks = _ClassBlocks.of(objective, theta, ridge)
        share = ridge + np.finfo(float).tiny
        share = share[: K * K].reshape(K, K) / share[: K * K].reshape(K, K).sum(axis=0)

        def forward(u: Floats) -> Floats:
            A, c = blocks.forward(*self.coefficients(u, K))
            A = A - np.einsum("kj,kj->j", share, A)
            return np.concatenate([A.ravel(), c - c.mean()])

        def transposed(g: Floats) -> Floats:
            G, h = self.coefficients(g, K)
            G, h = blocks.transposed(G - share * G.sum(axis=0), h - h.mean())
            return np.concatenate([G.ravel(), h])

        return Coordinates(forward, transposed)


@dataclass(frozen=True)
class _ClassBlocks:
    r"""Roots of the inverse of a Hessian that has one block for each class.

    The block of class k is :math:`D^{1/2} (I - u u^\top + v v^\top) D^{1/2}` in the basis of the
    covariance, with a diagonal D and two vectors, next to that of the offset about the mean of
    the class.
    """

    basis: Floats  # (K, K), columns are eigenvectors of the covariance
    root: Floats  # (K, K), row k is D^-1/2 of class k
    lighter: tuple[Floats, Floats]  # the ridge on the diagonal entry is weaker: u
    tied: tuple[Floats, Floats]  # the ridge on the offset ties it to the mean: v
    mean: Floats  # (K, K), row k is how far the offset of class k follows its slopes
    root_offset: Floats  # (K,)

    @classmethod
    def of(cls, objective: Objective, theta: Floats, ridge: Floats) -> _ClassBlocks:
        """The blocks at ``theta``, with the ridge (K K + K,) on the parameters."""
        on, off, offset = 2 * ridge[0], 2 * ridge[1], 2 * ridge[-1]
        b, m, covariance = _pooled_moments(objective, theta)
        spread, basis = np.linalg.eigh(covariance)
        D = b[:, None] * np.maximum(spread, 0)
        root = (D + off + _floor(D)) ** -0.5
        curvature = b + offset + _floor(b)
        lighter = _inverse_root(np.sqrt(max(off - on, 0)) * basis * root, -1)
        tied = (np.sqrt(b - b**2 / curvature)[:, None] * m) @ basis * root
        return cls(
            basis,
            root,
            lighter,
            _inverse_root(_stretched(tied, *lighter), +1),
            (b / curvature)[:, None] * m,
            curvature**-0.5,
        )

    def forward(self, U: Floats, d: Floats) -> tuple[Floats, Floats]:
        """Matrix and offsets at coordinates ``U`` (K, K) and ``d`` (K,)."""
        A = _stretched(_stretched(U, *self.tied), *self.lighter)
        A = (A * self.root) @ self.basis.T
        return A, d * self.root_offset - np.einsum("kj,kj->k", self.mean, A)

    def transposed(self, G: Floats, h: Floats) -> tuple[Floats, Floats]:
        """The transpose of :meth:`forward`."""
        G = (G - self.mean * h[:, None]) @ self.basis * self.root
        return _stretched(_stretched(G, *self.lighter), *self.tied), h * self.root_offset


def _pooled_moments(objective: Objective, theta: Floats) -> tuple[Floats, Floats, Floats]:
    """Masses (K,), means (K, K) and common covariance (K, K), each class weighing by ``q_k``."""
    rows, map_ = objective.rows, objective.map_
    K = rows.n_classes
    masks = rows.masks
    if rows.rows.w is None:
        rows = rows.every(max(1, rows.rows.n_rows // max(ROWS_PER_CLASS * K, FEWEST_ROWS)))

    def block(F: Floats, _: Any, w: Floats | None) -> Floats:
        F, Q = _curvatures(theta, map_, F, w, masks)
        second = (F * Q.sum(axis=1, keepdims=True)).T @ F
        return np.concatenate([Q.sum(axis=0)[None], Q.T @ F, second])

    b, first, second = np.split(rows.mean(block, scratch=0), [1, K + 1])
    mass = b[0] + np.finfo(float).tiny
    mean = first / mass[:, None]
    return mass, mean, (second - first.T @ mean) / mass.sum()


def _inverse_root(V: Floats, sign: int) -> tuple[Floats, Floats]:
    """Rows ``v`` of V and numbers g with ``(I + g v v^T)^2`` the inverse of ``I + sign v v^T``."""
    square = np.einsum("kj,kj->k", V, V) + np.finfo(float).tiny
    return V, ((1 + sign * square) ** -0.5 - 1) / square


def _stretched(X: Floats, V: Floats, gain: Floats) -> Floats:
    """Each row ``x`` of X times ``I + g v v^T``."""
    return X + (gain * np.einsum("kj,kj->k", X, V))[:, None] * V

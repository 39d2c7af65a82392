r"""Linear maps of features: scores, adjoints, Hessians, ridge penalties and preconditioners.

Notation as in :mod:`skcalib._optimize.linear`: features ``F`` of shape (m, K), parameters ``theta``
(p,), scores of shape (m, K).

Preconditioners are approximate inverses of the Hessian, with one block for each class. With
:math:`q_k = p_k (1 - p_k)`, averaged over the rows, the block of the slopes and the offset of
class k is

.. math:: \mathrm E[q_k (f, 1) (f, 1)^\top] = b_k \begin{pmatrix}
    \Sigma_k + m_k m_k^\top & m_k \\ m_k^\top & 1 \end{pmatrix},

with the mass :math:`b_k = \mathrm E[q_k]`, and the mean :math:`m_k` and the covariance
:math:`\Sigma_k` of the features f under weights in proportion to :math:`q_k`. The blocks of a
vector map have two rows and are inverted directly. A matrix map uses one common covariance for all
classes, as linear discriminant analysis does, so that one eigendecomposition serves all blocks.
Means and masses differ between the classes.

Adding the same numbers to the scores of all classes changes no probability. Preconditioners project
this null space of the Hessian out, along the direction in which the ridge penalty is least.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcalib._rows import Floats, Indices

# Curvature that is added to each block: a share of the largest curvature, plus a constant.
SMALL_CURVATURE, TINY_CURVATURE = 1e-6, 1e-12


class Regularization(NamedTuple):
    """Strengths of the ridge penalty on the diagonal of a matrix, off it, and on the intercepts.

    A vector map has no entries off the diagonal.
    """

    diagonal: float = 0.0
    off_diagonal: float = 0.0
    intercept: float = 0.0

    @classmethod
    def rule(cls, K: int, weight: float, alpha: float = 1.0) -> Regularization:
        r"""Strengths in proportion to the number of classes (Berta et al., arXiv:2511.03685).

        As a prior, the penalty counts as a constant number of rows, times ``alpha``. The K (K - 1)
        entries off the diagonal are penalized K - 1 times as much as the diagonal. With less than
        one row for two of these entries, their effective sample size is smaller than N:
        :math:`N \cdot 2 N / (K (K - 1))`.
        """
        scale = alpha / weight
        fewer = max(1.0, K * (K - 1) / (2 * weight))
        return cls(scale * K, scale * K * (K - 1) * fewer, scale * K)

    def matrix(self, K: int) -> Floats:
        """Strengths of the entries of a matrix (K, K)."""
        strengths = np.full((K, K), float(self.off_diagonal))
        np.fill_diagonal(strengths, self.diagonal)
        return strengths


class Moments(NamedTuple):
    """Means over the rows under the weights ``q_k`` of each class."""

    mass: Floats  #: (K,)
    mean: Floats  #: (K, K), of the features
    spread: Floats  #: (K,), eigenvalues of the common covariance
    basis: Floats  #: (K, K), columns are its eigenvectors


@dataclass(frozen=True)
class ClassBlocks:
    r"""Inverses of the blocks of a matrix map with a common covariance :math:`\Sigma`.

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

    moments: Moments
    share: Floats  #: (K, K), of each row in the ridge of its column
    inverse_diagonal: Floats  #: (K, K), row k is the diagonal of the inverse of B_k in the basis
    rank_one: list[tuple[Floats, Floats]]  #: gains g (K,) and vectors v (K, K) in the basis
    offset_per_slope: Floats  #: (K, K), row k is t_k
    inverse_offset: Floats  #: (K,), 1 / (b_k + r)

    @classmethod
    def of(cls, moments: Moments, regularization: Regularization) -> ClassBlocks:
        """The blocks of moments of the features."""
        b, m, spread, basis = moments
        d, o, r = (2 * strength for strength in regularization)
        share = shares(regularization, len(b))
        B = b[:, None] * np.maximum(spread, 0) + o
        inverse = 1 / (B + (SMALL_CURVATURE * (b.max() * spread).max() + TINY_CURVATURE))
        inverse_offset = 1 / (b + r + (SMALL_CURVATURE * b.max() + TINY_CURVATURE))
        t = (b * inverse_offset)[:, None] * m
        gain_e, v_e = _rank_one_change(d - o, basis, inverse * basis)
        M = m @ basis
        solved = inverse * M + (gain_e * _dots(v_e, M))[:, None] * v_e
        change_m = _rank_one_change(b - b**2 * inverse_offset, M, solved)
        return cls(moments, share, inverse, [(gain_e, v_e), change_m], t, inverse_offset)

    def under(self, objective: Any) -> ClassBlocks:
        """Blocks of the same curvatures under the ridge of another objective."""
        return ClassBlocks.of(self.moments, objective.regularization)

    def solve(self, g: Floats) -> Floats:
        """The step (p,) for a gradient (p,), without the part that all classes share."""
        K = len(self.inverse_offset)
        G, h = g[: K * K].reshape(K, K), g[K * K :]
        G, h = G - self.share * G.sum(axis=0), h - h.mean()
        G = (G - self.offset_per_slope * h[:, None]) @ self.moments.basis
        A = self.inverse_diagonal * G
        for gain, V in self.rank_one:
            A += (gain * _dots(V, G))[:, None] * V
        A = A @ self.moments.basis.T
        c = h * self.inverse_offset - _dots(self.offset_per_slope, A)
        A -= np.einsum("kj,kj->j", self.share, A)
        return np.concatenate([A.ravel(), c - c.mean()])

    def leverages(self, F: Floats) -> Floats:
        """``(f, 1)^T B (f, 1)`` of features (m, K) and the inverse B of each block: (m, K)."""
        b, m, _, basis = self.moments
        (gain_e, V_e), (gain_m, V_m) = self.rank_one
        # In terms of v = S^-1 m: the offsets add a linear function of the product of v and F.
        share = b * self.inverse_offset
        middle = share * _dots(V_m, m @ basis)
        slope = share + gain_m * middle
        cast = partial(np.asarray, dtype=F.dtype)  # all passes stay in the precision of F
        G = F @ cast(basis)
        along = G @ cast(V_m).T
        Q = G**2 @ cast(self.inverse_diagonal).T + cast(gain_e) * (G @ cast(V_e).T) ** 2
        Q += (cast(gain_m) * along - cast(2 * slope)) * along + cast(middle * slope)
        return np.maximum(Q, 0) + cast(self.inverse_offset)


def _dots(A: Floats, B: Floats) -> Floats:
    """Scalar product of each row of A and the same row of B."""
    return np.einsum("ij,ij->i", A, B)


def shares(regularization: Regularization, K: int) -> Floats:
    """Share (K, K) of each row of a matrix in the ridge of its column."""
    ridge = regularization.matrix(K) + np.finfo(float).tiny
    return ridge / ridge.sum(axis=0)


def _rank_one_change(factor: Any, U: Floats, V: Floats) -> tuple[Floats, Floats]:
    r"""Gain g and v with :math:`(S + f u u^\top)^{-1} = S^{-1} + g v v^\top`, :math:`v = S^{-1}u`.

    For each row u of U, and v of V.
    """
    return -factor / (1 + factor * _dots(U, V)), V


@dataclass(frozen=True)
class VectorBlocks:
    """Inverses (K, n, n) of the blocks of a vector map.

    n is 2 for slope and offset, or 1 for slope alone.
    """

    hessian: Floats  #: (K, n, n), without a ridge
    inverse: Floats

    @classmethod
    def of(cls, hessian: Floats, ridge: Floats) -> VectorBlocks:
        """The blocks of curvatures and a ridge (p,)."""
        n = hessian.shape[1]
        least = SMALL_CURVATURE * hessian.max() + TINY_CURVATURE
        added = 2 * ridge.reshape(n, -1).T + least
        return cls(hessian, np.linalg.inv(hessian + added[:, :, None] * np.eye(n)))

    def under(self, objective: Any) -> VectorBlocks:
        """Blocks of the same curvatures under the ridge of another objective."""
        return VectorBlocks.of(self.hessian, objective.ridge)

    def solve(self, g: Floats) -> Floats:
        """The step (p,) for a gradient (p,), without the part that all offsets share."""
        g = g.reshape(-1, len(self.inverse)).copy()
        g[1:] -= g[1:].mean(axis=1, keepdims=True)
        step = np.einsum("kij,jk->ik", self.inverse, g)
        step[1:] -= step[1:].mean(axis=1, keepdims=True)
        return step.ravel()

    def leverages(self, F: Floats) -> Floats:
        """``(f, 1)^T B (f, 1)`` of features (m, K) and the inverse B of each block: (m, K).

        The factor is a caution: with a few rows per class one Newton step is too short, and the
        estimated loss would favour too little regularization.
        """
        inverse = (1.1 * self.inverse).astype(F.dtype, copy=False)
        if inverse.shape[1] == 1:
            return inverse[:, 0, 0] * F * F
        return (inverse[:, 0, 0] * F + 2 * inverse[:, 0, 1]) * F + inverse[:, 1, 1]


@dataclass(frozen=True)
class VectorMap:
    """Scores ``a * F + c``, with parameters ``(a, c)``, or ``a`` alone."""

    fit_intercept: bool = True

    def prior(self, regularization: Regularization, K: int) -> tuple[Floats, Floats]:
        """Parameters (p,) that leave features of K classes unchanged, and the ridge of each."""
        n, strengths = 1 + self.fit_intercept, [regularization.diagonal, regularization.intercept]
        return np.repeat([1.0, 0.0][:n], K), np.repeat(strengths[:n], K)

    def balanced(self, theta: Floats, _: Regularization, __: int) -> Floats:
        """The parameters: the best offsets sum to zero for all strengths."""
        return theta

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Slopes (K,) and offsets (K,)."""
        return theta[:K], theta[K:] if self.fit_intercept else np.zeros(K)

    def scores(self, theta: Floats, F: Floats) -> Floats:
        """Scores (m, K) of features ``F`` (m, K)."""
        K = F.shape[1]
        S = F * theta[:K]
        if self.fit_intercept:
            S += theta[K:]
        return S

    def adjoint(self, R: Floats, F: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, F)>``, for ``R`` (m, K)."""
        slopes = np.einsum("ij,ij->j", R, F)
        return np.append(slopes, R.sum(axis=0)) if self.fit_intercept else slopes

    def hessian(self, P: Floats, F: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        n, K = 1 + self.fit_intercept, F.shape[1]
        X = np.stack([F.T, np.ones_like(F.T)])[:n]  # the factors of slopes and offsets
        G = P.T * X
        WG, each = w * G, np.arange(K)
        H = -WG.reshape(n * K, -1) @ G.reshape(n * K, -1).T
        own = np.einsum("akm,bkm->kab", WG, X)  # each class with itself
        H.reshape(n, K, n, K)[:, each, :, each] += own
        return H

    def leverages(self, inverse: Floats, F: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``F`` (m, K)."""
        n, K = 1 + self.fit_intercept, F.shape[1]
        blocks, G = inverse.reshape(n, K, n, K)[..., None], F.T
        A = G[:, None] * blocks[0, :, 0] * G
        if n == 2:
            A += G[:, None] * blocks[0, :, 1] + blocks[1, :, 0] * G
            A += blocks[1, :, 1]
        return A.transpose(2, 0, 1)

    def blocks(self, objective: Any, theta: Floats) -> VectorBlocks:
        """Inverses of the blocks of slope and offset, or slope alone, of each class."""

        def moments(F: Floats, Q: Floats) -> Floats:
            QF = Q * F
            return np.stack([np.einsum("ij,ij->j", QF, F), QF.sum(axis=0), Q.sum(axis=0)])

        n = 1 + self.fit_intercept
        square, mean, mass = objective.mean_curvature(moments, theta)
        hessian = np.array([[square, mean], [mean, mass]]).transpose(2, 0, 1)[:, :n, :n]
        return VectorBlocks.of(hessian, objective.ridge)


@dataclass(frozen=True)
class MatrixMap:
    """Scores ``F A^T + c``, with parameters the rows of ``A`` (K, K) and then ``c`` (K,)."""

    def prior(self, regularization: Regularization, K: int) -> tuple[Floats, Floats]:
        """Parameters (p,) that leave features of K classes unchanged, and the ridge of each."""
        identity = np.append(np.eye(K), np.zeros(K))
        return identity, np.append(regularization.matrix(K), np.full(K, regularization.intercept))

    def balanced(self, theta: Floats, regularization: Regularization, K: int) -> Floats:
        """Parameters (p,) of the same probabilities with the least ridge penalty.

        Preconditioners do not change the part that all classes share.
        """
        A, c = self.coefficients(theta, K)
        return np.append(A - np.sum(shares(regularization, K) * (A - np.eye(K)), axis=0), c)

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Matrix (K, K) and offsets (K,)."""
        return theta[: K * K].reshape(K, K), theta[K * K :]

    def scores(self, theta: Floats, F: Floats) -> Floats:
        """Scores (m, K) of features ``F`` (m, K), in Fortran order."""
        A, c = self.coefficients(theta, F.shape[1])
        S = A @ F.T
        S += c[:, None]
        return S.T

    def adjoint(self, R: Floats, F: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, F)>``, for ``R`` (m, K)."""
        return np.append(R.T @ F, R.sum(axis=0))

    def hessian(self, P: Floats, F: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        K = F.shape[1]
        p, each = K * (K + 1), np.arange(K)
        X = np.concatenate([F.T, np.ones((1, len(F)))])
        G = P.T[:, None, :] * X
        WG = w * G
        H = -WG.reshape(p, -1) @ G.reshape(p, -1).T
        H.reshape(K, K + 1, K, K + 1)[each, :, each] += WG @ X.T  # each class with itself
        order = np.argsort(_by_class(K))
        return H[np.ix_(order, order)]

    def leverages(self, inverse: Floats, F: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``F`` (m, K)."""
        (m, K), order = F.shape, _by_class(F.shape[1])
        blocks = inverse[np.ix_(order, order)].reshape(K, K + 1, K, K + 1).transpose(1, 3, 0, 2)
        X = np.append(F, np.ones((m, 1)), axis=1)
        squares = (X[:, :, None] * X[:, None, :]).reshape(m, -1)
        return (squares @ blocks.reshape(-1, K * K)).reshape(m, K, K)

    def blocks(self, objective: Any, theta: Floats) -> ClassBlocks:
        """Inverses of the blocks of a row of the matrix and an offset, of each class."""
        K = objective.n_classes

        def moments(F: Floats, Q: Floats) -> Floats:
            second = (F * Q.sum(axis=1, keepdims=True)).T @ F
            return np.concatenate([Q.sum(axis=0)[None], Q.T @ F, second])

        sums = objective.mean_curvature(moments, theta)
        b, first, second = np.split(sums, [1, K + 1])
        mass = b[0] + np.finfo(float).tiny
        mean = first / mass[:, None]
        spread, basis = np.linalg.eigh((second - first.T @ mean) / mass.sum())
        return ClassBlocks.of(Moments(mass, mean, spread, basis), objective.regularization)


# Inverses of the blocks of the Hessian that belong to each class.
Blocks = VectorBlocks | ClassBlocks


def _by_class(K: int) -> Indices:
    """Places of the parameters of a matrix map, slopes and then the offset of each class."""
    slopes, offsets = np.arange(K * K).reshape(K, K), K * K + np.arange(K)
    return np.column_stack([slopes, offsets]).ravel()

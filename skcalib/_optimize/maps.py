r"""Linear maps: scores, ridge penalties, and approximate inverse Hessians.

Notation as in :mod:`skcalib._optimize.linear`: features ``F`` and scores are (m, K), parameters
``theta`` are (p,).

The approximate inverse Hessian has one block per class. With :math:`q_k = p_k (1 - p_k)`, averaged
over the rows, the block for the slopes and the offset in class k is

.. math:: \mathrm E[q_k (f, 1) (f, 1)^\top] = b_k \begin{pmatrix}
    \Sigma_k + m_k m_k^\top & m_k \\ m_k^\top & 1 \end{pmatrix},

with the mass :math:`b_k = \mathrm E[q_k]`, and the features' mean :math:`m_k` and covariance
:math:`\Sigma_k` under weights in proportion to :math:`q_k`. Vector maps have 2 x 2 blocks, inverted
directly. A matrix map uses one common covariance for all classes, as linear discriminant analysis
does, so that one eigendecomposition serves all blocks. Means and masses differ between the classes.

Adding the same numbers to the scores of all classes changes no probability. This null space is
subtracted from gradients and steps, along the direction with the smallest ridge penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from skcalib._typing import Floats, Indices

# Log-probabilities are clipped here: lower ones are zero in double precision, and no row may
# outweigh all others. A lower feature marks masked classes.
LOWEST_FEATURE, MASKED_FEATURE = -1e3, -2e3


def mask_scores(S: Floats, F: Floats) -> Floats:
    """Replace the scores (m, K) by -inf where features (m, K) belong to masked classes."""
    return np.where(F == MASKED_FEATURE, -np.inf, S)


class Regularization(NamedTuple):
    """Ridge strengths on the diagonal, off the diagonal, and on the intercepts.

    Vector maps have no entries off the diagonal.
    """

    diagonal: float = 0.0
    off_diagonal: float = 0.0
    intercept: float = 0.0

    @classmethod
    def rule(cls, K: int, weight: float, alpha: float = 1.0) -> Regularization:
        r"""Return strengths in proportion to K and 1 / N, times ``alpha`` (arXiv:2511.03685).

        The K (K - 1) entries off the diagonal are penalized K - 1 times as much as the diagonal.
        If rows are fewer than half these entries, the effective sample size
        :math:`N \cdot 2 N / (K (K - 1))` replaces N.
        """
        scale = alpha / weight
        fewer = max(1.0, K * (K - 1) / (2 * weight))
        return cls(scale * K, scale * K * (K - 1) * fewer, scale * K)

    def matrix(self, K: int) -> Floats:
        """Return the strength for each entry of the matrix map (K, K)."""
        strengths = np.full((K, K), float(self.off_diagonal))
        np.fill_diagonal(strengths, self.diagonal)
        return strengths

    def shares(self, K: int) -> Floats:
        """Return ridge strengths divided by their sums over columns (K, K)."""
        ridge = self.matrix(K) + np.finfo(float).tiny
        return ridge / ridge.sum(axis=0)


class Blocks(Protocol):
    """Approximate inverse Hessian, with one block B for each class."""

    def solve(self, gradient: Floats) -> Floats:
        """Return the inverse times a gradient (p,), outside the null space."""

    def leverages(self, F: Floats) -> Floats:
        """Return ``(f, 1)^T B (f, 1)`` for each row f of ``F`` (m, K) and each class: (m, K)."""


@dataclass(frozen=True)
class VectorMap:
    """Scores ``a * F + c``, with parameters ``(a, c)``, or ``a`` alone.

    If ``masked``, some features are MASKED_FEATURE.
    """

    fit_intercept: bool = True
    masked: bool = False

    def identity(self, K: int) -> Floats:
        """Return the parameters (p,) that leave features of K classes unchanged."""
        return np.repeat([1.0, 0.0][: 1 + self.fit_intercept], K)

    def ridge(self, regularization: Regularization, K: int) -> Floats:
        """Return the ridge penalty (p,) of each parameter."""
        strengths = [regularization.diagonal, regularization.intercept]
        return np.repeat(strengths[: 1 + self.fit_intercept], K)

    def balanced(self, theta: Floats, regularization: Regularization, K: int) -> Floats:  # noqa: ARG002
        """Return ``theta`` unchanged: the best offsets sum to zero for all strengths."""
        return theta

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Return slopes (K,) and offsets (K,)."""
        return theta[:K], theta[K:] if self.fit_intercept else np.zeros(K)

    def scores(self, theta: Floats, F: Floats) -> Floats:
        """Return the scores (m, K) of features ``F`` (m, K)."""
        K = F.shape[1]
        S = F * theta[:K]
        if self.fit_intercept:
            S += theta[K:]
        return mask_scores(S, F) if self.masked else S

    def inputs(self, F: Floats) -> Floats:
        """Return the inputs (m, K, n) that the parameters of each class multiply."""
        return np.stack([F, np.ones_like(F)][: 1 + self.fit_intercept], axis=2)

    def by_class(self, K: int) -> Indices:
        """Return the indices (K n,) of the parameters, sorted by class."""
        return np.arange(K * (1 + self.fit_intercept)).reshape(-1, K).T.ravel()

    def adjoint(self, R: Floats, F: Floats) -> Floats:
        """Return the gradient (p,) of ``<R, scores(theta, F)>``, for ``R`` (m, K)."""
        slopes = np.einsum("ij,ij->j", R, F)
        return np.append(slopes, R.sum(axis=0)) if self.fit_intercept else slopes

    def moments(self, F: Floats, Q: Floats) -> Floats:
        """Sum ``q f f``, ``q f`` and ``q`` over the rows of ``F`` and ``Q`` (m, K): (3, K)."""
        QF = Q * F
        return np.stack([np.einsum("ij,ij->j", QF, F), QF.sum(axis=0), Q.sum(axis=0)])

    def blocks(self, moments: Floats, regularization: Regularization) -> VectorBlocks:
        """Return the inverse blocks for the mean ``moments`` (3, K) and a ridge penalty."""
        n, K = 1 + self.fit_intercept, moments.shape[1]
        square, mean, mass = moments
        hessian = np.array([[square, mean], [mean, mass]]).transpose(2, 0, 1)[:, :n, :n]
        ridge = 2 * self.ridge(regularization, K).reshape(n, K).T + _small(hessian.max())
        return VectorBlocks(np.linalg.inv(hessian + ridge[:, :, None] * np.eye(n)))


@dataclass(frozen=True)
class VectorBlocks:
    """Inverse blocks (K, n, n) for a vector map, with n = 2, or 1 without offsets."""

    inverse: Floats

    def solve(self, gradient: Floats) -> Floats:
        """Return the inverse times a gradient (p,), so that offsets sum to zero."""
        g = gradient.reshape(-1, len(self.inverse)).copy()
        g[1:] -= g[1:].mean(axis=1, keepdims=True)
        step = np.einsum("kij,jk->ik", self.inverse, g)
        step[1:] -= step[1:].mean(axis=1, keepdims=True)
        return step.ravel()

    def leverages(self, F: Floats) -> Floats:
        """Return ``(f, 1)^T B (f, 1)`` for each row f of ``F`` (m, K) and each class: (m, K).

        The factor 1.1 corrects estimates with few rows per class: one Newton step is too short,
        and the estimated loss would favour too little regularization.
        """
        inverse = (1.1 * self.inverse).astype(F.dtype, copy=False)
        if inverse.shape[1] == 1:
            return inverse[:, 0, 0] * F * F
        return (inverse[:, 0, 0] * F + 2 * inverse[:, 0, 1]) * F + inverse[:, 1, 1]


@dataclass(frozen=True)
class MatrixMap:
    """Scores ``F A^T + c``, with parameters the rows of ``A`` (K, K) and then ``c`` (K,)."""

    masked: bool = False

    def identity(self, K: int) -> Floats:
        """Return the parameters (p,) that leave features of K classes unchanged."""
        return np.append(np.eye(K), np.zeros(K))

    def ridge(self, regularization: Regularization, K: int) -> Floats:
        """Return the ridge penalty (p,) of each parameter."""
        return np.append(regularization.matrix(K), np.full(K, regularization.intercept))

    def balanced(self, theta: Floats, regularization: Regularization, K: int) -> Floats:
        """Return the parameters (p,) with equal probabilities and the smallest ridge penalty.

        Later steps stay outside the null space, so that they cannot find these parameters.
        """
        A, c = self.coefficients(theta, K)
        return np.append(A - np.sum(regularization.shares(K) * (A - np.eye(K)), axis=0), c)

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Return the matrix (K, K) and the offsets (K,)."""
        return theta[: K * K].reshape(K, K), theta[K * K :]

    def scores(self, theta: Floats, F: Floats) -> Floats:
        """Return the scores (m, K) of features ``F`` (m, K), in Fortran order."""
        A, c = self.coefficients(theta, F.shape[1])
        S = A @ F.T
        S += c[:, None]
        return mask_scores(S.T, F) if self.masked else S.T

    def inputs(self, F: Floats) -> Floats:
        """Return the inputs (m, K, K + 1) that the parameters of each class multiply."""
        m, K = F.shape
        return np.broadcast_to(np.append(F, np.ones((m, 1)), axis=1)[:, None], (m, K, K + 1))

    def by_class(self, K: int) -> Indices:
        """Return the indices (K (K + 1),) of the parameters, sorted by class."""
        slopes, offsets = np.arange(K * K).reshape(K, K), K * K + np.arange(K)
        return np.column_stack([slopes, offsets]).ravel()

    def adjoint(self, R: Floats, F: Floats) -> Floats:
        """Return the gradient (p,) of ``<R, scores(theta, F)>``, for ``R`` (m, K)."""
        return np.append(R.T @ F, R.sum(axis=0))

    def moments(self, F: Floats, Q: Floats) -> Floats:
        """Sum ``q``, ``q f`` and ``q f f^T`` over the rows of ``F`` and ``Q`` (m, K): (1 + 2 K, K).

        The third sum runs over all classes as well.
        """
        second = (F * Q.sum(axis=1, keepdims=True)).T @ F
        return np.concatenate([Q.sum(axis=0)[None], Q.T @ F, second])

    def blocks(self, moments: Floats, regularization: Regularization) -> MatrixBlocks:
        """Return the inverse blocks for the mean ``moments`` (1 + 2 K, K) and a ridge penalty."""
        return MatrixBlocks(moments, regularization)


class MatrixBlocks:
    r"""Inverse blocks for a matrix map with a common covariance :math:`\Sigma`.

    With the ridge penalties d on the diagonal, o off it and r on offsets, each times 2, class k has
    the block

    .. math:: \begin{pmatrix} B_k - (o - d) e_k e_k^\top + b_k m_k m_k^\top & b_k m_k \\
        b_k m_k^\top & b_k + r \end{pmatrix}, \qquad B_k = b_k \Sigma + o I .

    For a gradient (g, h) the offset follows from the slopes a by
    :math:`c = h / (b_k + r) - t_k^\top a` with :math:`t_k = b_k m_k / (b_k + r)`. The slopes are
    :math:`a = S_k^{-1} (g - h t_k)` with the Schur complement

    .. math:: S_k = B_k - (o - d) e_k e_k^\top + r\, t_k m_k^\top .

    In the eigenvectors U of the covariance :math:`B_k` is diagonal. Two matrices :math:`f u u^\top`
    of rank one change the inverse (Sherman and Morrison):

    .. math:: (B + f u u^\top)^{-1} = B^{-1} + \gamma v v^\top , \quad v = B^{-1} u , \quad
        \gamma = -f / (1 + f u^\top v) .
    """

    def __init__(self, moments: Floats, regularization: Regularization) -> None:
        K = moments.shape[1]
        first, second = moments[1 : K + 1], moments[K + 1 :]
        mass = moments[0] + np.finfo(float).tiny
        mean = first / mass[:, None]
        spread, self.eigenvectors = np.linalg.eigh((second - first.T @ mean) / mass.sum())
        spread = np.maximum(spread, 0)
        diagonal, off_diagonal, intercept = (2 * strength for strength in regularization)
        self.shares = regularization.shares(K)

        # Row k of each array (K, K) belongs to class k, in eigenvector coordinates.
        small = _small(mass.max() * spread.max())
        self.inverse_diagonal = 1 / (mass[:, None] * spread + off_diagonal + small)
        self.inverse_offset = 1 / (mass + intercept + _small(mass.max()))
        self.rank_one: list[tuple[Floats, Floats]] = []
        self._add_rank_one(np.full(K, diagonal - off_diagonal), self.eigenvectors)
        mean = mean @ self.eigenvectors
        self._add_rank_one(mass - mass**2 * self.inverse_offset, mean)
        self.offset_per_slope = (mass * self.inverse_offset)[:, None] * mean  # t_k

    def _add_rank_one(self, factor: Floats, vectors: Floats) -> None:
        """Add ``factor[k]`` times the outer square of ``vectors[k]`` to block k, for each k."""
        solved = self._solve_slopes(vectors)
        gain = -factor / (1 + factor * _dots(vectors, solved))
        self.rank_one.append((gain, solved))

    def _solve_slopes(self, G: Floats) -> Floats:
        """Solve for the slopes (K, K): row k is row k of ``G`` (K, K) times inverse block k."""
        A = self.inverse_diagonal * G
        for gain, V in self.rank_one:
            A += (gain * _dots(V, G))[:, None] * V
        return A

    def solve(self, gradient: Floats) -> Floats:
        """Return the inverse times a gradient (p,), outside the null space."""
        K = len(self.inverse_offset)
        G, h = gradient[: K * K].reshape(K, K), gradient[K * K :]
        G, h = G - self.shares * G.sum(axis=0), h - h.mean()
        A = self._solve_slopes(G @ self.eigenvectors - h[:, None] * self.offset_per_slope)
        c = h * self.inverse_offset - _dots(self.offset_per_slope, A)
        A = A @ self.eigenvectors.T
        A -= np.sum(self.shares * A, axis=0)
        return np.concatenate([A.ravel(), c - c.mean()])

    def leverages(self, F: Floats) -> Floats:
        r"""Return ``(f, 1)^T B (f, 1)`` for each row f of ``F`` (m, K) and each class: (m, K).

        This is :math:`(f - t_k)^\top S_k^{-1} (f - t_k) + 1 / (b_k + r)`.
        """
        T = self.offset_per_slope
        solved = self._solve_slopes(T)

        def single(A: Floats) -> Floats:
            return A.astype(F.dtype, copy=False)  # all products stay in the precision of F

        G = F @ single(self.eigenvectors)
        Q = (G * G) @ single(self.inverse_diagonal).T
        for gain, V in self.rank_one:
            Q += single(gain) * (G @ single(V).T) ** 2
        Q += single(_dots(T, solved)) - 2 * (G @ single(solved).T)
        return np.maximum(Q, 0) + single(self.inverse_offset)


def _dots(A: Floats, B: Floats) -> Floats:
    """Return the scalar products (m,) between equal rows of ``A`` and ``B``, both (m, n)."""
    return np.einsum("ij,ij->i", A, B)


def _small(largest: float) -> float:
    """Return a curvature, small relative to the largest, that makes blocks invertible."""
    return 1e-6 * float(largest) + 1e-12

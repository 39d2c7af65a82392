r"""Linear maps of features: scores, adjoints, Hessians, ridge penalties and preconditioners.

Notation as in :mod:`skcalib._optimize.loss`: features ``F`` of shape (m, K), parameters ``theta``
(p,), scores of shape (m, K).

Preconditioners are approximate inverses of the Hessian, with one block for each class. With
:math:`q_k = p_k (1 - p_k)`, averaged over the rows, the block that belongs to the slopes and the
offset of class k is

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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skcalib._optimize.loss import Objective, Regularization, centred_scores
from skcalib._rows import Floats, Indices, Plan, arrays as xa

# What is added to curvatures, relative to the largest one, and at least.
SMALL_CURVATURE, TINY_CURVATURE = 1e-6, 1e-12

# Number of rows of the sample that moments are estimated from: per class, and at least.
ROWS_PER_CLASS, FEWEST_ROWS = 4, 1024


class Moments(NamedTuple):
    """Means over the rows under the weights ``q_k`` of each class."""

    mass: Floats  #: (K,)
    mean: Floats  #: (K, K), of the features
    spread: Floats  #: (K,), eigenvalues of the common covariance
    basis: Floats  #: (K, K), columns are its eigenvectors


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
        solved = inverse * M + (gain_e * xa.vecdot(v_e, M))[:, None] * v_e
        change_m = _rank_one_change(b - b**2 * inverse_offset, M, solved)
        return cls(moments, share, inverse, [(gain_e, v_e), change_m], t, inverse_offset)

    def under(self, objective: Objective) -> ClassBlocks:
        """Those of the same curvatures under the ridge of another objective."""
        return ClassBlocks.of(self.moments, objective.regularization)

    def solve(self, g: Floats) -> Floats:
        """The step (p,) for a gradient (p,), neither of which changes all classes alike."""
        K = len(self.inverse_offset)
        G, h = g[: K * K].reshape(K, K), g[K * K :]
        G, h = G - self.share * G.sum(axis=0), h - h.mean()
        G = (G - self.offset_per_slope * h[:, None]) @ self.moments.basis
        A = self.inverse_diagonal * G
        for gain, V in self.rank_one:
            A += (gain * xa.vecdot(V, G))[:, None] * V
        A = A @ self.moments.basis.T
        c = h * self.inverse_offset - xa.vecdot(self.offset_per_slope, A)
        A -= np.einsum("kj,kj->j", self.share, A)
        return np.concatenate([A.ravel(), c - c.mean()])

    def leverages(self, F: Floats) -> Floats:
        """``(f, 1)^T B (f, 1)`` of features (m, K) and the inverse B of each block: (m, K)."""
        like = partial(xa.like, x=F, dtype=F.dtype)
        b, m, _, basis = self.moments
        (gain_e, V_e), (gain_m, V_m) = self.rank_one
        # In terms of v = S^-1 m: what offsets add is linear in the product of v and the features.
        share = b * self.inverse_offset
        middle = share * xa.vecdot(V_m, m @ basis)
        slope = share + gain_m * middle
        G = F @ like(basis)
        along = G @ like(V_m).T
        Q = G**2 @ like(self.inverse_diagonal).T
        Q += like(gain_e) * (G @ like(V_e).T) ** 2
        Q += (like(gain_m) * along - like(2 * slope)) * along + like(middle * slope)
        return xa.at_least(Q, 0, Q) + like(self.inverse_offset)


def shares(regularization: Regularization, K: int) -> Floats:
    """Share (K, K) of each row of a matrix in the ridge of its column."""
    ridge = regularization.of_matrix(K) + np.finfo(float).tiny
    return ridge / ridge.sum(axis=0)


def _rank_one_change(factor: Any, U: Floats, V: Floats) -> tuple[Floats, Floats]:
    r"""Gain g and v with :math:`(S + f u u^\top)^{-1} = S^{-1} + g v v^\top`, :math:`v = S^{-1}u`.

    For each row u of U, and v of V.
    """
    return -factor / (1 + factor * xa.vecdot(U, V)), V


def pooled_moments(objective: Objective, theta: Floats) -> Moments:
    """Masses, means and common covariance, which is the same for all classes."""
    K = objective.n_classes

    def moments(F: Floats, Q: Floats) -> Floats:
        xp = xa.namespace(F)
        second = (F * xp.sum(Q, axis=1, keepdims=True)).T @ F
        return xa.concat([xp.sum(Q, axis=0)[None, :], Q.T @ F, second])

    b, first, second = np.split(_mean_of_curvatures(moments, objective, theta), [1, K + 1])
    mass = b[0] + np.finfo(float).tiny
    mean = first / mass[:, None]
    return Moments(mass, mean, *np.linalg.eigh((second - first.T @ mean) / mass.sum()))


def _mean_of_curvatures(
    f: Callable[[Floats, Floats], Floats], objective: Objective, theta: Floats
) -> Floats:
    """Mean of ``f`` of features and of ``q = p (1 - p)``, on a sample of rows without weights.

    With weights on all rows, since a sample may leave out those that matter. Summed in double
    precision, so that rounding does not make a block of the Hessian indefinite.
    """
    rows, map_, masks = objective.rows, objective.map_, objective.masks
    parameters = theta.astype(objective.dtype, copy=False)
    step = rows.n_rows // max(ROWS_PER_CLASS * objective.n_classes, FEWEST_ROWS)
    if rows.w is None and step > 1:
        objective = replace(objective, rows=rows.thinned(step))

    def block(F: Floats, _: Any, w: Floats | None) -> Floats:
        P = centred_scores(parameters, map_, F, None, masks=masks)
        P = xa.double(xa.into("exp", P, P))
        P /= xa.namespace(P).sum(P, axis=1, keepdims=True)
        Q = P * (1 - P)
        return f(xa.double(F), Q if w is None else Q * w[:, None])

    return objective.mean(block, Plan(room=4))


# Leverages of a vector map are taken to be larger by this factor: with a few rows per class one
# Newton step is too short, and the estimated loss would favour hardly any regularization.
CAUTION = 1.1


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

    def under(self, objective: Objective) -> VectorBlocks:
        """Those of the same curvatures under the ridge of another objective."""
        return VectorBlocks.of(self.hessian, objective.ridge)

    def solve(self, g: Floats) -> Floats:
        """The step (p,) for a gradient (p,), neither of which changes all offsets alike."""
        g = g.reshape(-1, len(self.inverse)).copy()
        g[1:] -= g[1:].mean(axis=1, keepdims=True)
        step = np.einsum("kij,jk->ik", self.inverse, g)
        step[1:] -= step[1:].mean(axis=1, keepdims=True)
        return step.ravel()

    def leverages(self, F: Floats) -> Floats:
        """``(f, 1)^T B (f, 1)`` of features (m, K) and the inverse B of each block: (m, K)."""
        inverse = xa.like(CAUTION * self.inverse, F, F.dtype)
        Q = F * inverse[:, 0, 0]
        if inverse.shape[1] == 1:
            return Q * F
        Q += 2 * inverse[:, 0, 1]
        Q *= F
        return Q + inverse[:, 1, 1]


@dataclass(frozen=True)
class VectorMap:
    """Scores ``a * F + c``, with parameters ``(a, c)``, or ``a`` alone."""

    fit_intercept: bool = True

    def prior(self, regularization: Regularization, K: int) -> tuple[Floats, Floats]:
        """Parameters (p,) that leave features of K classes as they are, and the ridge of each."""
        n, strengths = 1 + self.fit_intercept, [regularization.diagonal, regularization.intercept]
        return np.repeat([1.0, 0.0][:n], K), np.repeat(strengths[:n], K)

    def balanced(self, theta: Floats, regularization: Regularization, K: int) -> Floats:  # noqa: ARG002
        """The parameters, since whatever the strengths the best offsets have a sum of zero."""
        return theta

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Slopes (K,) and offsets (K,)."""
        return theta[:K], theta[K:] if self.fit_intercept else np.zeros(K)

    def scores(self, theta: Floats, F: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``F`` (m, K)."""
        K = F.shape[1]
        out = xa.into("multiply", out, F, theta[:K])
        if self.fit_intercept:
            out += theta[K:]
        return out

    def adjoint(self, R: Floats, F: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, F)>``, for ``R`` (m, K)."""
        slopes = xa.vecdot(R, F, axis=0)
        return xa.flat(slopes, xa.namespace(R).sum(R, axis=0)) if self.fit_intercept else slopes

    def hessian(self, P: Floats, F: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        n, K, xp = 1 + self.fit_intercept, F.shape[1], xa.namespace(F)
        X = xp.stack([F.T, xp.ones_like(F.T)])[:n, ...]  # what slopes and offsets multiply
        G = P.T * X
        WG, p = w * G, n * K
        sums = xp.stack([xa.vecdot(WG[a, ...], X[b, ...]) for a in range(n) for b in range(n)])
        # On the diagonals of the blocks (K, K) that slopes and offsets have.
        own = xp.reshape(sums, (n, 1, n, K)) * xa.like(np.eye(K), F, F.dtype)[:, None, :]
        return xp.reshape(own, (p, p)) - xp.reshape(WG, (p, -1)) @ xp.reshape(G, (p, -1)).T

    def leverages(self, inverse: Floats, F: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``F`` (m, K)."""
        n, K, xp = 1 + self.fit_intercept, F.shape[1], xa.namespace(F)
        blocks = xa.like(inverse.reshape(n, K, n, K), F)
        X = xp.stack([F, xp.ones_like(F)])
        return sum(
            X[a, :, :, None] * blocks[a, :, b, :] * X[b, :, None, :]
            for a in range(n)
            for b in range(n)
        )

    def blocks(self, objective: Objective, theta: Floats) -> VectorBlocks:
        """Inverses of the blocks of slope and offset, or slope alone, of each class."""

        def moments(F: Floats, Q: Floats) -> Floats:
            xp, QF = xa.namespace(F), Q * F
            return xp.stack([xa.vecdot(QF, F, axis=0), xp.sum(QF, axis=0), xp.sum(Q, axis=0)])

        n = 1 + self.fit_intercept
        square, mean, mass = _mean_of_curvatures(moments, objective, theta)
        hessian = np.array([[square, mean], [mean, mass]]).transpose(2, 0, 1)[:, :n, :n]
        return VectorBlocks.of(hessian, objective.ridge)


@dataclass(frozen=True)
class MatrixMap:
    """Scores ``F A^T + c``, with parameters the rows of ``A`` (K, K) and then ``c`` (K,)."""

    def prior(self, regularization: Regularization, K: int) -> tuple[Floats, Floats]:
        """Parameters (p,) that leave features of K classes as they are, and the ridge of each."""
        identity = np.concatenate([np.eye(K).ravel(), np.zeros(K)])
        offsets = np.full(K, regularization.intercept)
        return identity, np.concatenate([regularization.of_matrix(K).ravel(), offsets])

    def balanced(self, theta: Floats, regularization: Regularization, K: int) -> Floats:
        """Parameters (p,) of the same probabilities with the least ridge penalty.

        Preconditioners leave what all classes share as it is at the start of a fit.
        """
        A, c = self.coefficients(theta, K)
        A = A - np.sum(shares(regularization, K) * (A - np.eye(K)), axis=0)
        return np.concatenate([A.ravel(), c])

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Matrix (K, K) and offsets (K,)."""
        return xa.namespace(theta).reshape(theta[: K * K], (K, K)), theta[K * K :]

    def scores(self, theta: Floats, F: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``F`` (m, K)."""
        A, c = self.coefficients(theta, F.shape[1])
        out = xa.into("matmul", out, F, A.T)
        out += c
        return out

    def adjoint(self, R: Floats, F: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, F)>``, for ``R`` (m, K)."""
        return xa.flat(R.T @ F, xa.namespace(R).sum(R, axis=0))

    def hessian(self, P: Floats, F: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        xp, K = xa.namespace(F), F.shape[1]
        p = K * (K + 1)
        X = xa.concat([F.T, xp.ones_like(F.T[:1, ...])])
        G = P.T[:, None, :] * X
        WG = w * G
        own = (WG @ X.T)[:, :, None, :] * xa.like(np.eye(K), F, F.dtype)[:, None, :, None]
        H = xp.reshape(own, (p, p)) - xp.reshape(WG, (p, -1)) @ xp.reshape(G, (p, -1)).T
        order = xa.like(np.argsort(_by_class(K)), F)
        return xp.take(xp.take(H, order, axis=0), order, axis=1)

    def leverages(self, inverse: Floats, F: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``F`` (m, K)."""
        xp, (m, K) = xa.namespace(F), F.shape
        order, shape = _by_class(K), (K, K + 1, K, K + 1)
        blocks = inverse[np.ix_(order, order)].reshape(shape).transpose(1, 3, 0, 2)
        X = xa.concat([F, xp.ones_like(F[:, :1])], axis=1)
        squares = xp.reshape(X[:, :, None] * X[:, None, :], (m, -1))
        return xp.reshape(squares @ xa.like(blocks.reshape(-1, K * K), F), (m, K, K))

    def blocks(self, objective: Objective, theta: Floats) -> ClassBlocks:
        """Inverses of the blocks of a row of the matrix and an offset, of each class."""
        return ClassBlocks.of(pooled_moments(objective, theta), objective.regularization)


# Inverses of the blocks of the Hessian that belong to each class.
Blocks = VectorBlocks | ClassBlocks


def _by_class(K: int) -> Indices:
    """Places of the parameters of a matrix map, slopes and then the offset of each class."""
    slopes, offsets = np.arange(K * K).reshape(K, K), K * K + np.arange(K)
    return np.column_stack([slopes, offsets]).ravel()

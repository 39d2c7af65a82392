r"""Linear maps of features: their scores, adjoints, Hessians and ridge penalties.

Notation as in :mod:`skcalib._linear.loss`: features ``Z`` of shape (m, K), parameters ``theta``
(p,), scores of shape (m, K).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skcalib._engine.array_api import concat, into, like, namespace
from skcalib._engine.blocks import column_dots, flat, row_dots
from skcalib._typing import Floats, Indices

from .loss import Objective, Regularization
from .preconditioner import (
    ClassBlocks,
    Preconditioner,
    matrix_preconditioner,
    pooled_moments,
    vector_blocks,
    vector_preconditioner,
)

# Leverages of a vector map are taken to be larger by this factor: with a few rows per class one
# Newton step is too short, and the estimated loss would favour hardly any regularization.
CAUTION = 1.1


@dataclass(frozen=True)
class VectorMap:
    """Scores ``a * F + c``, with parameters ``(a, c)``, or ``a`` alone."""

    fit_intercept: bool = True

    def identity(self, K: int) -> Floats:
        """Parameters that leave features of K classes as they are."""
        return np.repeat([1.0, 0.0] if self.fit_intercept else [1.0], K)

    def ridge(self, regularization: Regularization, K: int) -> Floats:
        """Regularization strength of each parameter (p,)."""
        strengths = [regularization.diagonal, regularization.intercept]
        return np.repeat(strengths[: 1 + self.fit_intercept], K)

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Slopes (K,) and offsets (K,)."""
        return theta[:K], theta[K:] if self.fit_intercept else np.zeros(K)

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``Z`` (m, K)."""
        K = Z.shape[1]
        out = into("multiply", out, Z, theta[:K])
        if self.fit_intercept:
            out += theta[K:]
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, Z)>``, for ``R`` (m, K)."""
        slopes = column_dots(R, Z)
        return flat(slopes, namespace(R).sum(R, axis=0)) if self.fit_intercept else slopes

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        n_kinds, K = 1 + self.fit_intercept, Z.shape[1]
        xp, p = namespace(Z), n_kinds * K
        F = _slopes_and_offsets(Z.T)[:n_kinds, ...]
        G = P.T * F
        WG = w * G
        kinds = range(n_kinds)
        sums = xp.stack([row_dots(WG[a, ...], F[b, ...]) for a in kinds for b in kinds])
        # On the diagonals of the blocks (K, K) that slopes and offsets have.
        own = xp.reshape(sums, (n_kinds, 1, n_kinds, K)) * _unit(Z)[:, None, :]
        return xp.reshape(own, (p, p)) - xp.reshape(WG, (p, -1)) @ xp.reshape(G, (p, -1)).T

    def leverages(self, inverse: Floats, Z: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``Z`` (m, K)."""
        K = Z.shape[1]
        blocks = like(inverse.reshape(-1, K, inverse.shape[1] // K, K), Z)
        F, kinds = _slopes_and_offsets(Z), range(blocks.shape[0])
        return sum(
            F[a, :, :, None] * blocks[a, :, b, :] * F[b, :, None, :] for a in kinds for b in kinds
        )

    def class_leverages(self, objective: Objective, theta: Floats) -> Callable[[Floats], Floats]:
        """Diagonals (m, K) of the same of logits, for an approximate inverse of the Hessian."""
        n_kinds = 1 + self.fit_intercept
        inverse = CAUTION * vector_blocks(objective, theta, n_kinds)

        def of(Z: Floats) -> Floats:
            slopes, *others = (like(entries, Z) for entries in _entries(inverse))
            Q = Z * slopes
            if not others:
                return Q * Z
            Q += 2 * others[0]
            Q *= Z
            return Q + others[1]

        return of

    def preconditioner(self, objective: Objective, theta: Floats) -> Preconditioner:
        """Approximate inverse of the Hessian of the objective at ``theta``."""
        return vector_preconditioner(objective, theta, 1 + self.fit_intercept)


@dataclass(frozen=True)
class MatrixMap:
    """Scores ``F A^T + c``, with parameters the rows of ``A`` (K, K) and then ``c`` (K,)."""

    def identity(self, K: int) -> Floats:
        """Parameters that leave features of K classes as they are."""
        return np.concatenate([np.eye(K).ravel(), np.zeros(K)])

    def ridge(self, regularization: Regularization, K: int) -> Floats:
        """Regularization strength of each parameter (p,)."""
        offsets = np.full(K, regularization.intercept)
        return np.concatenate([regularization.of_matrix(K).ravel(), offsets])

    def coefficients(self, theta: Floats, K: int) -> tuple[Floats, Floats]:
        """Matrix (K, K) and offsets (K,)."""
        return namespace(theta).reshape(theta[: K * K], (K, K)), theta[K * K :]

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``Z`` (m, K)."""
        A, c = self.coefficients(theta, Z.shape[1])
        out = into("matmul", out, Z, A.T)
        out += c
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, Z)>``, for ``R`` (m, K)."""
        return flat(R.T @ Z, namespace(R).sum(R, axis=0))

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        xp, K = namespace(Z), Z.shape[1]
        p = K * (K + 1)
        F = concat([Z.T, xp.ones_like(Z.T[:1, ...])])
        G = P.T[:, None, :] * F
        WG = w * G
        own = (WG @ F.T)[:, :, None, :] * _unit(Z)[:, None, :, None]
        H = xp.reshape(own, (p, p)) - xp.reshape(WG, (p, -1)) @ xp.reshape(G, (p, -1)).T
        order = like(np.argsort(_by_class(K)), Z)
        return xp.take(xp.take(H, order, axis=0), order, axis=1)

    def leverages(self, inverse: Floats, Z: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``Z`` (m, K)."""
        xp, (m, K) = namespace(Z), Z.shape
        order, shape = _by_class(K), (K, K + 1, K, K + 1)
        blocks = inverse[np.ix_(order, order)].reshape(shape).transpose(1, 3, 0, 2)
        F = concat([Z, xp.ones_like(Z[:, :1])], axis=1)
        squares = xp.reshape(F[:, :, None] * F[:, None, :], (m, -1))
        return xp.reshape(squares @ like(blocks.reshape(-1, K * K), Z), (m, K, K))

    def class_leverages(self, objective: Objective, theta: Floats) -> Callable[[Floats], Floats]:
        """Diagonals (m, K) of the same of logits, for an approximate inverse of the Hessian."""
        blocks = ClassBlocks.of(*pooled_moments(objective, theta), objective.regularization)
        return blocks.leverages

    def preconditioner(self, objective: Objective, theta: Floats) -> Preconditioner:
        """Approximate inverse of the Hessian of the objective at ``theta``."""
        return matrix_preconditioner(objective, theta)


def _slopes_and_offsets(Z: Floats) -> Floats:
    """What slopes and offsets are multiplied with: (2, *shape of Z)."""
    xp = namespace(Z)
    return xp.stack([Z, xp.ones_like(Z)])


def _unit(Z: Floats) -> Floats:
    """The unit matrix (K, K), like ``Z`` (m, K)."""
    return like(np.eye(Z.shape[1]), Z, Z.dtype)


def _entries(blocks: Floats) -> list[Floats]:
    """Entries (K,) of symmetric blocks (K, n, n) on and above the diagonal."""
    n = blocks.shape[1]
    return [blocks[:, i, j] for i in range(n) for j in range(i, n)]


def _by_class(K: int) -> Indices:
    """Places of the parameters of a matrix map, slopes and then the offset of each class."""
    slopes, offsets = np.arange(K * K).reshape(K, K), K * K + np.arange(K)
    return np.column_stack([slopes, offsets]).ravel()

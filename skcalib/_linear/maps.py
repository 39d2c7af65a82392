r"""Linear maps of features: their scores, adjoints, Hessians and ridge penalties.

Notation as in :mod:`skcalib._linear.loss`: features ``Z`` of shape (m, K), parameters ``theta``
(p,), scores of shape (m, K).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
        out = np.multiply(Z, theta[:K], out=out)
        if self.fit_intercept:
            out += theta[K:]
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, Z)>``, for ``R`` (m, K)."""
        slopes = np.einsum("ij,ij->j", R, Z)
        return np.concatenate([slopes, R.sum(axis=0)]) if self.fit_intercept else slopes

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        n_kinds, K = 1 + self.fit_intercept, Z.shape[1]
        F = _slopes_and_offsets(Z.T)[:n_kinds]
        G = P.T * F
        WG = w * G
        H = -WG.reshape(n_kinds * K, -1) @ G.reshape(n_kinds * K, -1).T
        # A view of the diagonals of the blocks (K, K) that slopes and offsets have.
        diagonals = np.einsum("akbk->abk", H.reshape(n_kinds, K, n_kinds, K))
        diagonals += np.einsum("akm,bkm->abk", WG, F)
        return H

    def leverages(self, inverse: Floats, Z: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``Z`` (m, K)."""
        K = Z.shape[1]
        blocks = inverse.reshape(-1, K, inverse.shape[1] // K, K)
        F = _slopes_and_offsets(Z)[: len(blocks)]
        return sum(
            f[:, :, None] * blocks[a, :, b] * g[:, None]
            for a, f in enumerate(F)
            for b, g in enumerate(F)
        )

    def class_leverages(self, objective: Objective, theta: Floats) -> Callable[[Floats], Floats]:
        """Diagonals (m, K) of the same of logits, for an approximate inverse of the Hessian."""
        n_kinds = 1 + self.fit_intercept
        inverse = CAUTION * vector_blocks(objective, theta, n_kinds)

        def of(Z: Floats) -> Floats:
            Q = Z * inverse[:, 0, 0]
            if n_kinds > 1:
                Q += 2 * inverse[:, 0, 1]
            Q *= Z
            return Q + inverse[:, 1, 1] if n_kinds > 1 else Q

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
        return theta[: K * K].reshape(K, K), theta[K * K :]

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of features ``Z`` (m, K)."""
        A, c = self.coefficients(theta, Z.shape[1])
        out = np.matmul(Z, A.T, out=out)
        out += c
        return out

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, Z)>``, for ``R`` (m, K)."""
        return np.concatenate([(R.T @ Z).ravel(), R.sum(axis=0)])

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""
        m, K = Z.shape
        F = np.vstack([Z.T, np.ones(m)])
        G = P.T[:, None] * F
        WG = w * G
        H = -WG.reshape(-1, m) @ G.reshape(-1, m).T
        blocks = np.einsum("kikj->kij", H.reshape(K, K + 1, K, K + 1))
        blocks += WG @ F.T
        order = np.argsort(_by_class(K))
        return H[np.ix_(order, order)]

    def leverages(self, inverse: Floats, Z: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``Z`` (m, K)."""
        m, K = Z.shape
        order, shape = _by_class(K), (K, K + 1, K, K + 1)
        blocks = inverse[np.ix_(order, order)].reshape(shape).transpose(1, 3, 0, 2)
        F = np.column_stack([Z, np.ones(m)])
        squares = (F[:, :, None] * F[:, None]).reshape(m, -1)
        return (squares @ blocks.reshape(-1, K * K)).reshape(m, K, K)

    def class_leverages(self, objective: Objective, theta: Floats) -> Callable[[Floats], Floats]:
        """Diagonals (m, K) of the same of logits, for an approximate inverse of the Hessian."""
        blocks = ClassBlocks.of(*pooled_moments(objective, theta), objective.regularization)
        return blocks.leverages

    def preconditioner(self, objective: Objective, theta: Floats) -> Preconditioner:
        """Approximate inverse of the Hessian of the objective at ``theta``."""
        return matrix_preconditioner(objective, theta)


def _slopes_and_offsets(Z: Floats) -> Floats:
    """What slopes and offsets are multiplied with: (2, *shape of Z)."""
    return np.stack([Z, np.ones_like(Z)])


def _by_class(K: int) -> Indices:
    """Places of the parameters of a matrix map, slopes and then the offset of each class."""
    slopes, offsets = np.arange(K * K).reshape(K, K), K * K + np.arange(K)
    return np.column_stack([slopes, offsets]).ravel()

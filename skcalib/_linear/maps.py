r"""Linear maps of features: their scores, adjoints, Hessians and ridge penalties.

Notation as in :mod:`skcalib._linear.loss`: features ``Z`` of shape (m, K), parameters ``theta``
(p,), scores of shape (m, K).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skcalib._typing import Floats

from .loss import Objective, Regularization
from .preconditioner import Preconditioner, matrix_preconditioner, vector_preconditioner


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
        F = np.stack([Z.T, np.ones_like(Z.T)][:n_kinds])
        G = P.T * F
        WG = w * G
        H = -WG.reshape(n_kinds * K, -1) @ G.reshape(n_kinds * K, -1).T
        # A view of the diagonals of the blocks (K, K) that slopes and offsets have.
        diagonals = np.einsum("akbk->abk", H.reshape(n_kinds, K, n_kinds, K))
        diagonals += np.einsum("akm,bkm->abk", WG, F)
        return H

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
        # From the order of classes to slopes of all classes, then offsets.
        order = np.arange(K * (K + 1)).reshape(K, K + 1)
        order = np.concatenate([order[:, :K].ravel(), order[:, K]])
        return H[np.ix_(order, order)]

    def preconditioner(self, objective: Objective, theta: Floats) -> Preconditioner:
        """Approximate inverse of the Hessian of the objective at ``theta``."""
        return matrix_preconditioner(objective, theta)

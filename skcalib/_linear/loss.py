r"""Log loss of linear maps of logits, with a ridge penalty.

Notation of the whole package, which is that of the user guide: a block of rows has logits ``Z``
of shape (m, K), class indices ``y`` (m,) and weights ``w`` (m,) or None for ones. A model has
parameters ``theta`` (p,), scores ``S = map(theta, Z)`` of shape (m, K) that are linear in
``theta``, and probabilities ``P = softmax(S)``. The log loss is

.. math:: L(\theta) = \frac1N \sum_i w_i (\log\sum_k e^{s_{ik}} - s_{i y_i}), \quad
    N = \sum_i w_i,

convex in ``theta``. With the residual ``R = w (P - Y)`` its gradient is ``adjoint(R, Z) / N``. A
ridge penalty on the distance from the parameters that leave the logits as they are may be added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from skcalib._engine.array_api import astype, into, like, namespace
from skcalib._engine.blocks import joined_flat, less_at_labels, of_labels, ones_unless, weighted_sum
from skcalib._engine.cached import cached_property
from skcalib._typing import Floats, Indices

from .features import Features, mask_scores


class LinearMap(Protocol):
    """A calibrator of the joint family: scores that are linear in ``theta``, and their adjoint.

    ``<R, scores(theta, Z)> = <adjoint(R, Z), theta>`` for every ``R`` of the shape of the scores.
    """

    def identity(self, K: int) -> Floats:
        """Parameters (p,) that leave features of K classes as they are."""

    def ridge(self, regularization: Regularization, K: int) -> Floats:
        """Regularization strength of each parameter (p,)."""

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of logits ``Z`` (m, K) under parameters ``theta`` (p,).

        Written to ``out`` if that is given; never to ``Z``, nor a view of it.
        """

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Gradient (p,) of ``<R, scores(theta, Z)>``, for ``R`` (m, K)."""

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""

    def leverages(self, inverse: Floats, Z: Floats) -> Floats:
        """``J inverse J'`` (m, K, K), J the Jacobians of the scores of ``Z`` (m, K)."""

    def class_leverages(self, objective: Objective, theta: Floats) -> Callable[[Floats], Floats]:
        """Diagonals (m, K) of the same of logits, for an approximate inverse of the Hessian."""

    def preconditioner(self, objective: Objective, theta: Floats) -> Callable[[Floats], Floats]:
        """Approximate inverse of the Hessian of the objective at ``theta``."""


@dataclass(frozen=True)
class Regularization:
    """Strengths of the ridge penalty on the diagonal of a matrix, off it, and on the intercepts.

    A vector map has nothing off the diagonal.
    """

    diagonal: float = 0.0
    off_diagonal: float = 0.0
    intercept: float = 0.0

    @classmethod
    def structured(cls, K: int, scale: float) -> Regularization:
        """Strengths in proportion to the number of classes (Berta et al., arXiv:2511.03685).

        The K (K - 1) entries off the diagonal are penalised K - 1 times as much as those on it.
        """
        return cls(scale * K, scale * K * (K - 1), scale * K)

    @classmethod
    def rule(cls, K: int, weight: float, alpha: float = 1.0) -> Regularization:
        r"""Structured strengths for rows of this weight, times ``alpha``.

        As a prior, the penalty counts as a constant number of rows. Where there is less than one
        row for two entries off the diagonal, the rows cannot tell how large these are, and the
        effective sample size for them is smaller than N: :math:`N \cdot 2 N / (K (K - 1))`.
        """
        structured = cls.structured(K, alpha / weight)
        fewer = max(1.0, K * (K - 1) / (2 * weight))
        return replace(structured, off_diagonal=structured.off_diagonal * fewer)

    @property
    def strengths(self) -> tuple[float, float, float]:
        """Of the diagonal, off it, and of the intercepts."""
        return self.diagonal, self.off_diagonal, self.intercept

    def of_matrix(self, K: int) -> Floats:
        """Strengths of the entries of a matrix (K, K)."""
        strengths = np.full((K, K), float(self.off_diagonal))
        np.fill_diagonal(strengths, self.diagonal)
        return strengths


def loss_gradient(theta: Floats, map_: LinearMap, features: Features) -> tuple[float, Floats]:
    """Mean log loss and its gradient (p,) at ``theta``: one pass over the rows."""
    theta, masks = theta.astype(features.dtype, copy=False), features.masks

    def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
        xp, S = namespace(F), centred_scores(theta, map_, F, S, masks=masks)
        of_label = of_labels(S, y)
        R = into("exp", S, S)
        total = xp.sum(R, axis=1)
        loss = weighted_sum(xp.log(total) - of_label, w)
        R *= _per_row(1 / total, w)
        R = less_at_labels(R, y, 1 if w is None else w)
        return joined_flat(loss, map_.adjoint(R, F))

    # Else adding the gradients of matrices up takes as long as their products.
    mean = features.mean(block, scratch=1, at_least=2 * len(theta) // features.n_classes)
    return float(mean[0]), mean[1:]


def second_order(
    theta: Floats, map_: LinearMap, features: Features
) -> tuple[float, Floats, Floats]:
    """Mean log loss at ``theta``, its gradient (p,) and its Hessian (p, p): one pass."""
    p, masks = len(theta), features.masks

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        xp, w = namespace(F), ones_unless(w, F)
        S = centred_scores(theta, map_, F, None, masks=masks)
        of_label, P = of_labels(S, y), xp.exp(S)
        total = xp.sum(P, axis=1)
        P /= total[:, None]
        H = map_.hessian(P, F, w)
        R = less_at_labels(P * w[:, None], y, w)
        loss = weighted_sum(xp.log(total) - of_label, w)
        return joined_flat(loss, map_.adjoint(R, F), H)

    mean = features.mean(block, scratch=0, room=p // features.n_classes)
    return float(mean[0]), mean[1 : p + 1], mean[p + 1 :].reshape(p, p)


def share_wrong(theta: Floats, map_: LinearMap, features: Features) -> float:
    """Share of the weight of the rows in which the score of the label is not the largest."""
    theta, masks = theta.astype(features.dtype, copy=False), features.masks

    def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
        S = centred_scores(theta, map_, F, S, masks=masks)
        of_label = of_labels(S, y)
        others = less_at_labels(S, y, np.inf)
        return weighted_sum(of_label <= namespace(F).max(others, axis=1), w)

    return float(features.mean(block, scratch=1))


def centred_scores(
    theta: Floats, map_: LinearMap, F: Floats, out: Floats | None, *, masks: bool
) -> Floats:
    """Scores whose largest in each row is 0, so that their exponentials are safe."""
    S = map_.scores(like(theta, F), F, out=out)
    S = mask_scores(S, F) if masks else S
    S -= namespace(S).max(S, axis=1, keepdims=True)
    return S


def _per_row(values: Floats, w: Floats | None) -> Floats:
    """Numbers per row, times the weights, as a column to multiply rows with."""
    return (values if w is None else astype(w * values, values.dtype))[:, None]


@dataclass(frozen=True)
class Objective:
    r"""Log loss of a linear map of features, plus a ridge penalty on the distance from identity.

    .. math:: L(\theta) + \sum_j \text{ridge}_j (\theta_j - \text{identity}_j)^2
    """

    map_: LinearMap
    features: Features
    regularization: Regularization = Regularization()

    @cached_property
    def identity(self) -> Floats:
        """Parameters (p,) that leave the features as they are."""
        return self.map_.identity(self.features.n_classes)

    @cached_property
    def ridge(self) -> Floats:
        """Regularization strength of each parameter (p,)."""
        return self.map_.ridge(self.regularization, self.features.n_classes)

    @property
    def separated(self) -> float:
        """Value below which every row is classified correctly, so that there is no minimum.

        A row that is not has a loss of at least log 2. With a ridge there always is a minimum.
        """
        if self.ridge.any():
            return -np.inf
        rows = self.features.rows
        return float(np.log(2) * rows.least_weight / rows.weight)

    def penalty(self, theta: Floats) -> float:
        """The ridge penalty at ``theta``."""
        return float(np.sum(self.ridge * (theta - self.identity) ** 2))

    def value_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient (p,) at ``theta``."""
        loss, gradient = loss_gradient(theta, self.map_, self.features)
        return loss + self.penalty(theta), gradient + 2 * self.ridge * (theta - self.identity)

    def second_order(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (p,) and Hessian (p, p) at ``theta``."""
        loss, gradient, hessian = second_order(theta, self.map_, self.features)
        hessian[np.diag_indices(len(theta))] += 2 * self.ridge
        gradient += 2 * self.ridge * (theta - self.identity)
        return loss + self.penalty(theta), gradient, hessian

    def in_double(self) -> Objective:
        """The same, computed in double precision whatever that of the rows."""
        return replace(self, features=replace(self.features, double=True))

r"""Linear maps of two classes: three parameters, whatever the map.

Notation as in :mod:`skcalib._linear.loss`. With features :math:`f_0, f_1` of two classes, the
log-odds of the second one under any linear map are

.. math:: s_1 - s_0 = \beta_0 f_0 + \beta_1 f_1 + \beta_2, \qquad \beta = T \theta,

so that the log loss depends on :math:`\beta` alone. Each parameter in :math:`\theta` enters one of
:math:`\beta`. Of those that give the same :math:`\beta`, the ridge penalty is least for

.. math:: \theta_j - \text{identity}_j
    = \frac{T_{kj} / \text{ridge}_j}{\sum_i T_{ki}^2 / \text{ridge}_i} (\beta - \beta^0)_k,

where it is :math:`\sum_k (\beta - \beta^0)_k^2 / \sum_i (T_{ki}^2 / \text{ridge}_i)`. Without a
ridge these parameters are the closest ones to the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skcalib._engine.array_api import (
    astype,
    at_least,
    at_most,
    into,
    like,
    namespace,
    put,
    smallest_normal,
)
from skcalib._engine.blocks import joined_flat, weighted_sum
from skcalib._engine.cached import cached_property
from skcalib._typing import Floats, Indices

from .features import MASKED_FEATURE, Features
from .loss import LinearMap, Objective

# Stands for a strength of zero, by which others are divided.
NO_RIDGE = 4 * float(np.finfo(float).tiny)

# Temporary arrays of a block, each with a number per row, relative to its features.
ROOM = 4


@dataclass(frozen=True)
class TwoClasses:
    """The objective of a linear map of two classes, as a function of ``beta``."""

    objective: Objective

    @cached_property
    def of_parameters(self) -> Floats:
        """The matrix T: (3, p), or (2, p) for a map without offsets."""
        return _log_odds_of(self.objective.map_, len(self.objective.identity))

    @cached_property
    def shares(self) -> Floats:
        """Changes of the parameters per change of ``beta``: (p, 3)."""
        T, ridge = self.of_parameters, np.maximum(self.objective.ridge, NO_RIDGE)
        return ((T / ridge) / (T**2 / ridge).sum(axis=1, keepdims=True)).T

    @cached_property
    def identity(self) -> Floats:
        """The ``beta`` that leaves the features as they are."""
        return self.of_parameters @ self.objective.identity

    @cached_property
    def ridge(self) -> Floats:
        """Regularization strength of each of ``beta``."""
        strengths: Floats = self.objective.ridge @ self.shares**2
        return strengths

    @property
    def features(self) -> Features:
        """The features of the map."""
        return self.objective.features

    @property
    def separated(self) -> float:
        """Value below which every row is classified correctly, so that there is no minimum."""
        return self.objective.separated

    def in_double(self) -> TwoClasses:
        """The same, computed in double precision whatever that of the rows."""
        return replace(self, objective=self.objective.in_double())

    def parameters(self, beta: Floats) -> Floats:
        """The parameters (p,) of least penalty that give ``beta``."""
        theta: Floats = self.objective.identity + self.shares @ (beta - self.identity)
        return theta

    def second_order(self, beta: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (3,) and Hessian (3, 3) at ``beta``, without a slope for no offset."""
        loss, gradient, hessian = second_order_of_log_odds(beta, self.features)
        hessian[np.diag_indices(len(beta))] += 2 * self.ridge
        distance = beta - self.identity
        penalty = float(self.ridge @ distance**2)
        return loss + penalty, gradient + 2 * self.ridge * distance, hessian


def second_order_of_log_odds(beta: Floats, features: Features) -> tuple[float, Floats, Floats]:
    """Mean log loss at ``beta``, its gradient (d,) and its Hessian (d, d): one pass."""
    d, dtype, masks = len(beta), features.dtype, features.masks
    beta = beta.astype(dtype)

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        xp, side = namespace(F), astype(y, F.dtype)
        side *= -2
        side += 1
        S = _log_odds(like(beta, F), F, masks=masks)
        S *= side  # of the class that is not the label
        losses, R, Q = _loss_and_derivatives(S)
        R *= side
        if w is not None:
            R, Q = R * w, Q * w
        G = Q[:, None] * F
        first = F.T @ R, xp.sum(R)
        second = F.T @ G, xp.sum(G, axis=0), xp.sum(Q)
        return joined_flat(weighted_sum(losses, w), *first, *second)

    loss, gradient, square, mean, mass = np.split(
        features.mean(block, scratch=0, room=ROOM), [1, 4, 8, 10]
    )
    hessian = np.block([[square.reshape(2, 2), mean[:, None]], [mean, mass]])
    return float(loss[0]), gradient[:d], hessian[:d, :d]


def _loss_and_derivatives(S: Floats) -> tuple[Floats, Floats, Floats]:
    """``log(1 + exp(s))`` of log-odds (m,), and its two derivatives ``p`` and ``p (1 - p)``."""
    xp, highest = namespace(S), -float(np.log(smallest_normal(S))) / 2  # keeps p^2 from underflow
    E = xp.exp(at_most(S, highest))
    rest = 1 + E
    losses = xp.log(rest)
    if xp.max(S) > highest:
        losses += at_least(S, highest) - highest
    rest = into("reciprocal", rest, rest)
    P = into("multiply", E, E, rest)
    return losses, P, into("multiply", rest, P, rest)


def _log_odds(beta: Floats, F: Floats, *, masks: bool) -> Floats:
    """Log-odds (m,) of the second class, infinite where one is masked."""
    S = F[:, 0] * beta[0]
    S += F[:, 1] * beta[1]
    if beta.shape[0] > 2:
        S += beta[2]
    if masks:
        S = put(S, np.inf, F[:, 0] == MASKED_FEATURE)
        S = put(S, -np.inf, F[:, 1] == MASKED_FEATURE)
    return S


def _log_odds_of(map_: LinearMap, p: int) -> Floats:
    """The matrix (3, p), or (2, p) without offsets, from parameters to ``beta``."""
    units = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    scores = np.array([map_.scores(theta, units) for theta in np.eye(p)])
    T = (scores[:, :, 1] - scores[:, :, 0]).T
    T[:2] -= T[2]
    return T[T.any(axis=1)]

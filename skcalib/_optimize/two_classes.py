r"""Linear maps of two classes: three parameters, whatever the map.

Notation as in :mod:`skcalib._optimize.loss`. With features :math:`f_0, f_1` of two classes, the
log-odds of the second one under any linear map are

.. math:: s_1 - s_0 = \beta_0 f_0 + \beta_1 f_1 + \beta_2, \qquad \beta = T \theta,

so that the log loss depends on :math:`\beta` alone. Each parameter in :math:`\theta` enters one of
:math:`\beta`. Of those that give the same :math:`\beta`, the ridge penalty is least for

.. math:: \theta_j - \text{identity}_j
    = \frac{T_{kj} / \text{ridge}_j}{\sum_i T_{ki}^2 / \text{ridge}_i} (\beta - \beta^0)_k,

where it is :math:`\sum_k (\beta - \beta^0)_k^2 / \sum_i (T_{ki}^2 / \text{ridge}_i)`. Without a
ridge these parameters are the closest ones to the identity.
"""

import numpy as np

from skcalib._optimize.loss import MASKED_FEATURE, Objective
from skcalib._rows import Floats, Indices, Plan, arrays as xa

# Stands for a strength of zero, by which others are divided.
NO_RIDGE = 4 * float(np.finfo(float).tiny)


class TwoClasses:
    """The objective of a linear map of two classes, as a function of ``beta``.

    ``of_parameters`` is the matrix T, (3, p), or (2, p) for a map without offsets, and ``shares``
    (p, 3) are the changes of the parameters of least penalty per change of ``beta``. ``identity``
    is the ``beta`` that leaves the features as they are, and ``ridge`` its penalty.
    """

    def __init__(self, objective: Objective) -> None:
        T, ridge = _log_odds_matrix(objective), np.maximum(objective.ridge, NO_RIDGE)
        self.objective, self.of_parameters = objective, T
        self.shares: Floats = ((T / ridge) / (T**2 / ridge).sum(axis=1, keepdims=True)).T
        self.identity: Floats = T @ objective.identity
        self.ridge: Floats = objective.ridge @ self.shares**2

    def parameters(self, beta: Floats) -> Floats:
        """The parameters (p,) of least penalty that give ``beta``."""
        theta: Floats = self.objective.identity + self.shares @ (beta - self.identity)
        return theta

    def second_order(self, beta: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (3,) and Hessian (3, 3) at ``beta``: one pass over the rows.

        Without a slope for no offset.
        """
        d, masks, slopes = len(beta), self.objective.masks, beta.astype(self.objective.dtype)

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            xp, side = xa.namespace(F), xa.astype(y, F.dtype)
            side *= -2
            side += 1
            S = _log_odds(xa.like(slopes, F), F, masks=masks)
            S *= side  # of the class that is not the label
            losses, R, Q = _loss_and_derivatives(S)
            R *= side
            if w is not None:
                R, Q = R * w, Q * w
            G = Q[:, None] * F
            first = F.T @ R, xp.sum(R)
            second = F.T @ G, xp.sum(G, axis=0), xp.sum(Q)
            return xa.flat(xa.weighted_sum(losses, w), *first, *second)

        sums = self.objective.mean(block, Plan(room=4))
        # The loss, its gradient, and the second moments of features, with 1 and of 1.
        hessian = sums[[4, 5, 8, 6, 7, 9, 8, 9, 10]].reshape(3, 3)[:d, :d]
        hessian[np.diag_indices(d)] += 2 * self.ridge
        away = beta - self.identity
        value = float(sums[0]) + float(self.ridge @ away**2)
        return value, sums[1 : d + 1] + 2 * self.ridge * away, hessian


def _loss_and_derivatives(S: Floats) -> tuple[Floats, Floats, Floats]:
    """``log(1 + exp(s))`` of log-odds (m,), and its two derivatives ``p`` and ``p (1 - p)``."""
    xp, highest = xa.namespace(S), xa.largest_exponent(S)  # keeps p^2 from underflow
    E = xp.exp(xa.at_most(S, highest))
    rest = 1 + E
    losses = xp.log(rest)
    if xp.max(S) > highest:
        losses += xa.at_least(S, highest) - highest
    rest = xa.into("reciprocal", rest, rest)
    P = xa.into("multiply", E, E, rest)
    return losses, P, xa.into("multiply", rest, P, rest)


def _log_odds(beta: Floats, F: Floats, *, masks: bool) -> Floats:
    """Log-odds (m,) of the second class, infinite where one is masked."""
    S = F[:, 0] * beta[0]
    S += F[:, 1] * beta[1]
    if beta.shape[0] > 2:
        S += beta[2]
    if masks:
        S = xa.put(S, np.inf, F[:, 0] == MASKED_FEATURE)
        S = xa.put(S, -np.inf, F[:, 1] == MASKED_FEATURE)
    return S


def _log_odds_matrix(objective: Objective) -> Floats:
    """The matrix (3, p), or (2, p) without offsets, from parameters to ``beta``."""
    units = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    each = np.eye(len(objective.identity))
    scores = np.array([objective.map_.scores(theta, units) for theta in each])
    T: Floats = (scores[:, :, 1] - scores[:, :, 0]).T
    T[:2] -= T[2]
    return T[T.any(axis=1)]

r"""Leave-one-out log loss of a regularized linear map, without refitting.

Notation as in :mod:`skcalib._linear.loss`. At the minimum of the objective, whose Hessian is H, a
row has Jacobian J (from parameters to scores), residual :math:`g = p - e_y` and curvature
:math:`D = \mathrm{diag}(p) - p p^\top`. Without a part u of its weight, one Newton step moves its
scores by

.. math:: u A (I - u D A)^{-1} g, \qquad A = J (N H)^{-1} J^\top ,

where A, the leverage of the row, is a matrix (K, K) (Rad and Maleki, "A scalable estimate of the
out-of-sample prediction error via approximate leave-one-out cross-validation", JRSS B 2020,
arXiv:1801.10243). Strengths are in proportion to 1 / N, so that the penalty of the summed loss is
the same without the row.

Of a row of weight w the part :math:`u = \min(w, 1)` is left out: a weight of 2 is the row twice,
and one of the two stays.

With more than :data:`MANY_CLASSES` the Hessian is taken to have one block for each class, as in
:mod:`skcalib._linear.preconditioner`. The leverage is then diagonal, with entries a, and the
equations have a closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skcalib._engine.array_api import at_least, at_most, like, namespace
from skcalib._engine.blocks import less_at_labels, of_labels, row_dots, weighted_sum
from skcalib._typing import Floats, Indices

from .loss import Objective, centred_scores

# The whole Hessian, and the equations of each row, take n K^4 operations for a matrix map; blocks
# of the Hessian take n K^2. With more classes than these blocks choose strengths as well.
MANY_CLASSES = 5

# Blocks share a covariance, that of all rows, and so hold only a part of the curvature of a single
# row. With half of it the estimates were closest to those of folds, on networks with 100 classes.
SHARE_OF_ROW = 0.5

# The equations of a row that has all but all of the weight are singular without this.
NOISE = 1e-10

# Curvatures below this share of the largest are zero, up to rounding.
RANK = 1e-14

# Least share of its curvature that a block keeps when a row is left out.
LEAST_REST = 0.1

# From leverages, probabilities (m, K) and residuals (m, K) to changes of scores (m, K).
Change = Callable[[Floats, Floats, Floats], Floats]


def leave_one_out_loss(objective: Objective, theta: Floats) -> float:
    """Approximate leave-one-out log loss at the minimum ``theta`` of an objective with a ridge."""
    features, map_ = objective.in_double().features, objective.map_
    leverages, change, room = _leverages(objective, theta)
    weight, masks = features.rows.weight, features.masks

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        xp, S = namespace(F), centred_scores(theta, map_, F, None, masks=masks)
        P = xp.exp(S)
        P /= xp.sum(P, axis=1, keepdims=True)
        R = less_at_labels(xp.positive(P), y, 1)  # NumPy's is a copy
        A = leverages(F)
        A *= _left_out(w, A.ndim) / weight
        S += change(A, P, R)
        S -= xp.max(S, axis=1, keepdims=True)
        return weighted_sum(xp.log(xp.sum(xp.exp(S), axis=1)) - of_labels(S, y), w)

    return float(features.mean(block, scratch=0, room=room))


def _left_out(w: Floats | None, ndim: int) -> Any:
    """The part of the weight of each row that is left out, along the first of the axes."""
    return 1.0 if w is None else at_most(w, 1.0)[(slice(None), *[None] * (ndim - 1))]


def _leverages(
    objective: Objective, theta: Floats
) -> tuple[Callable[[Floats], Floats], Change, int]:
    """Leverages, times N, of features; the change of scores; and the room that the two need."""
    map_, K = objective.map_, objective.features.n_classes
    if K > MANY_CLASSES:
        return map_.class_leverages(objective, theta), change_by_class, 4
    _, _, hessian = objective.in_double().second_order(theta)
    # Without a ridge some directions change no score: a constant added to all offsets is one.
    inverse = np.linalg.pinv(hessian, RANK, hermitian=True)
    return lambda F: map_.leverages(inverse, F), change_of_scores, 4 * K


def change_of_scores(A: Floats, P: Floats, R: Floats) -> Floats:
    """``A (I - D A)^-1 r`` for each row of leverages (m, K, K)."""
    xp = namespace(P)
    PA = P[:, :, None] * A
    DA = PA - P[:, :, None] * xp.sum(PA, axis=1, keepdims=True)
    unit = like((1 + NOISE) * np.eye(P.shape[1]), P)
    return (A @ xp.linalg.solve(unit - DA, R[:, :, None]))[:, :, 0]


def change_by_class(A: Floats, P: Floats, R: Floats) -> Floats:
    """The same for diagonal leverages (m, K), with a share of D (Sherman and Morrison)."""
    PA = SHARE_OF_ROW * P * A
    rest = at_least(1 - PA, LEAST_REST)
    PA /= rest
    total = row_dots(PA, R) / (1 + row_dots(PA, P))
    return A * (R - total[:, None] * P) / rest

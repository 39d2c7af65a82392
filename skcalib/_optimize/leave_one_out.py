r"""Leave-one-out log loss of a regularized linear map, without refitting, and strengths by it.

Notation as in :mod:`skcalib._optimize.loss`. At the minimum of the objective, whose Hessian is H, a
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
:mod:`skcalib._optimize.maps`. The leverage is then diagonal, with entries a, and the
equations have a closed form.

"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._optimize.loss import Objective, Regularization, centred_scores
from skcalib._optimize.maps import Blocks
from skcalib._optimize.minimize import best_parameters
from skcalib._rows import Floats, Indices, Plan, arrays as xa

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


def leave_one_out_loss(objective: Objective, theta: Floats, blocks: Blocks | None = None) -> float:
    """Approximate leave-one-out log loss at the minimum ``theta`` of an objective with a ridge.

    With few classes a Newton step leads there from somewhere near. With more, ``blocks`` are those
    of the Hessian, if they are known.
    """
    map_, masks, K = objective.map_, objective.masks, objective.n_classes
    weight = objective.rows.weight
    if K > MANY_CLASSES:
        leverages = (blocks or map_.blocks(objective, theta)).leverages
        change, room = change_by_class, 4
    else:
        objective = replace(objective, double=True)
        _, gradient, hessian = objective.second_order(theta)
        # Without a ridge some directions change no score: a constant added to all offsets is one.
        inverse = np.linalg.pinv(hessian, RANK, hermitian=True)
        theta = theta - inverse @ gradient
        leverages, change, room = partial(map_.leverages, inverse), change_of_scores, 4 * K
    theta = theta.astype(objective.dtype, copy=False)

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        xp, S = xa.namespace(F), centred_scores(theta, map_, F, None, masks=masks)
        P = xp.exp(S)
        P /= xp.sum(P, axis=1, keepdims=True)
        R = xa.less_at_labels(xp.positive(P), y, 1)  # NumPy's is a copy
        A = leverages(F) / weight
        if w is not None:  # of a row of more weight than 1 the rest stays
            A *= xa.astype(xa.at_most(w, 1.0), A.dtype)[(slice(None), *[None] * (A.ndim - 1))]
        S += change(A, P, R)
        S -= xp.max(S, axis=1, keepdims=True)
        return xa.weighted_sum(xp.log(xp.sum(xp.exp(S), axis=1)) - xa.of_labels(S, y), w)

    return float(objective.mean(block, Plan(room=room)))


def change_of_scores(A: Floats, P: Floats, R: Floats) -> Floats:
    """``A (I - D A)^-1 r`` for each row of leverages (m, K, K)."""
    xp = xa.namespace(P)
    if P.shape[1] == 2:  # D is q d d^T, and r a multiple of d = (1, -1) (Sherman and Morrison)
        along = A[:, :, 0] - A[:, :, 1]
        q = P[:, 0] * P[:, 1]
        return along * (R[:, 0] / (1 + NOISE - q * (along[:, 0] - along[:, 1])))[:, None]
    PA = P[:, :, None] * A
    DA = PA - P[:, :, None] * xp.sum(PA, axis=1, keepdims=True)
    unit = xa.like((1 + NOISE) * np.eye(P.shape[1]), P)
    return (A @ xp.linalg.solve(unit - DA, R[:, :, None]))[:, :, 0]


def change_by_class(A: Floats, P: Floats, R: Floats) -> Floats:
    """The same for diagonal leverages (m, K), with a share of D (Sherman and Morrison)."""
    PA = SHARE_OF_ROW * P * A
    rest = xa.at_least(1 - PA, LEAST_REST)
    PA /= rest
    total = xa.vecdot(PA, R) / (1 + xa.vecdot(PA, P))
    return A * (R - total[:, None] * P) / rest


# Strengths that are tried, as multiples of the rule.
ALPHAS = np.array([30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003])

# Number of the one that is tried first. Of few rows, which often need the strongest, the search
# goes from there to weaker ones; of many it begins close to the rule.
FIRST_OF_FEW, FIRST_OF_MANY = 0, 2

# A strength has a log-normal prior about 1: it is within this factor of it with two in three.
LIKELY_FACTOR = 3.0

# Gradient norm that is enough to compare strengths.
PATH_TOL = 3e-4


def log_prior(alphas: Floats) -> Floats:
    """Logarithm of the prior of strengths, up to a constant."""
    return -((np.log(alphas) / np.log(LIKELY_FACTOR)) ** 2) / 2


class Fit(NamedTuple):
    """A fit that is as exact as it takes to compare strengths, and what is known at its end."""

    objective: Objective
    solution: OptimizeResult
    x: Floats  #: one step closer to the minimum
    blocks: Blocks | None  #: those of the Hessian, with many classes
    loss: float  #: approximate leave-one-out log loss

    @classmethod
    def of(cls, objective: Objective, tol: float, max_iter: int, beside: Fit | None = None) -> Fit:
        """The minimum, perhaps from a fit with another strength.

        A step by the blocks leads from there to near the new minimum, without a pass.
        """
        x = blocks = None
        if beside is not None:
            x, before = beside.x, beside.solution
            if beside.blocks is not None:
                blocks = beside.blocks.under(objective)
                change = 2 * (objective.ridge - beside.objective.ridge)
                x = before.x - blocks.solve(before.jac + change * (before.x - objective.identity))
        solution = best_parameters(objective, tol, max_iter, x, blocks)
        x, blocks = solution.x, None
        if objective.n_classes > MANY_CLASSES:
            blocks = objective.map_.blocks(objective, x)
            x = x - blocks.solve(solution.jac)
        return cls(objective, solution, x, blocks, leave_one_out_loss(objective, x, blocks))


class Choice(NamedTuple):
    """A strength, as a multiple of the rule, and how it was found."""

    alpha: float
    alphas: Floats = np.empty(0)  #: strengths that were tried
    losses: Floats = np.empty(0)  #: their estimated losses
    fit: Fit | None = None
    nit: int = 0  #: iterations of all fits


def choose_strength(
    objective: Objective, rule: Callable[[float], Regularization], tol: float, max_iter: int
) -> Choice:
    """The strength of the least sum of leave-one-out log losses, approximate, minus its log prior.

    ``rule`` gives the regularization of a strength. From the first one the search goes to weaker
    ones, or if the next is no better to stronger ones, as far as the loss falls. Strengths that are
    weaker than that of the least loss are left out but for one: estimates for much weaker ones may
    be too low, where parameters are many for the rows.
    """
    losses, fits, nit = np.full(len(ALPHAS), np.inf), dict[int, Fit](), 0
    losses[FIRST_OF_FEW if objective.few else FIRST_OF_MANY] = np.finfo(float).max
    for step in (0, 1, -1):
        while 0 <= (k := int(losses.argmin()) + step) < len(ALPHAS) and k not in fits:
            at = replace(objective, regularization=rule(float(ALPHAS[k])))
            fits[k] = Fit.of(at, max(tol, PATH_TOL), max_iter, fits.get(k - step))
            losses[k], nit = fits[k].loss, nit + fits[k].solution.nit
            if step:  # blocks take memory
                worse = k if losses[k] > losses[k - step] else k - step
                fits[worse] = fits[worse]._replace(blocks=None)
    tried = np.flatnonzero(np.isfinite(losses[: losses.argmin() + 2]))
    alphas, losses = ALPHAS[tried], losses[tried]
    best = int(np.argmin(objective.rows.weight * losses - log_prior(alphas)))
    return Choice(float(alphas[best]), alphas, losses, fits[int(tried[best])], nit)

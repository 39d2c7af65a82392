r"""Fits of linear maps of features: log loss with a ridge penalty, and its strength.

The notation is the notation of the whole package and of the user guide: a block of rows has
logits ``Z`` (m, K), class indices ``y`` (m,) and weights ``w`` (m,) or None for ones. Features
``F`` (m, K) are the logits, or log-probabilities. A model has parameters ``theta`` (p,), scores
``S = map(theta, F)`` (m, K) that are linear in ``theta``, and probabilities ``P = softmax(S)``. The
log loss is

.. math:: L(\theta) = \frac1N \sum_i w_i (\log\sum_k e^{s_{ik}} - s_{i y_i}), \quad
    N = \sum_i w_i,

convex in ``theta``. With the residual ``R = w (P - Y)`` its gradient is ``adjoint(R, F) / N``. A
ridge penalty on the distance from the parameters that leave the features unchanged may be added.

*Leave-one-out loss.* At the minimum of the objective, with Hessian H, a row has Jacobian J (from
parameters to scores), residual :math:`g = p - e_y` and curvature
:math:`D = \mathrm{diag}(p) - p p^\top`. Without a part u of its weight, one Newton step moves its
scores by

.. math:: u A (I - u D A)^{-1} g, \qquad A = J (N H)^{-1} J^\top ,

where A (K, K) is the leverage of the row (Rad and Maleki, "A scalable estimate of the
out-of-sample prediction error via approximate leave-one-out cross-validation", JRSS B 2020,
arXiv:1801.10243). Strengths are in proportion to 1 / N, so that the penalty of the summed loss is
the same without the row. The part is :math:`u = \min(w, 1)`: a weight of 2 is the row twice, and
one of the two stays. With more than :data:`MANY_CLASSES` classes the Hessian is approximated by one
block for each class, as in :mod:`skcalib._optimize.maps`. The leverage is then diagonal, and the
equations have a closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from scipy.optimize import OptimizeResult

from skcalib._optimize.maps import Blocks, MatrixMap, Regularization, VectorMap
from skcalib._optimize.minimize import PreconditionedLBFGS
from skcalib._optimize.newton import newton, parts_of
from skcalib._optimize.temperature import log_mixture
from skcalib._rows import Floats, Indices, Rows
from skcalib._rows.arrays import weighted_sum

# Lower bound of log-probabilities: lower ones are zero probabilities in double precision, and no
# row may outweigh all others. Masked classes have a lower feature, which identifies them.
LOWEST_FEATURE, MASKED_FEATURE = -1e3, -2e3

# Up to this number of features all passes are in double precision.
FEW_ELEMENTS = 1 << 15

# Newton's method takes over problems with a ridge and up to this number of parameters that L-BFGS
# has not solved after this number of iterations.
MANY_PARAMETERS, PATIENCE = 512, 60

# Up to this number of classes the leave-one-out loss uses the whole Hessian, which takes n K^4
# operations for a matrix map; the blocks take n K^2.
MANY_CLASSES = 5

# The equations of a row with nearly all of the weight are singular without this.
NOISE = 1e-10

# Smallest share of its curvature that a block keeps without a row.
LEAST_REST = 0.1

# Strengths that are compared, as multiples of the rule, and the first of them. Fits with stronger
# ones take fewer iterations, and few rows often need them.
ALPHAS, FIRST_ALPHA = np.array([30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003]), 3

NO_RIDGE = Regularization()


@dataclass(eq=False)
class Objective:
    r"""Log loss of a linear map of features, plus a ridge penalty on the distance from identity.

    .. math:: L(\theta) + \sum_j \text{ridge}_j (\theta_j - \text{identity}_j)^2

    The rows hold the features. ``masks`` tells that some features may belong to masked classes.
    """

    map_: VectorMap | MatrixMap
    rows: Rows
    regularization: Regularization = NO_RIDGE
    masks: bool = False

    def __post_init__(self) -> None:
        self.n_classes = max(self.rows.n_columns, 2)
        self.few = self.rows.n_rows * self.n_classes <= FEW_ELEMENTS
        # Passes over many single precision features are much faster than in double precision.
        self.dtype = np.dtype(np.float64) if self.few else self.rows.dtype
        self.identity, self.ridge = self.map_.prior(self.regularization, self.n_classes)

    @property
    def separated(self) -> float:
        """Value below which every row is classified correctly, so that there is no minimum.

        A misclassified row has a loss of at least log 2. With a ridge there is always a minimum.
        """
        if self.ridge.any():
            return -np.inf
        return float(np.log(2) * self.rows.least_weight / self.rows.weight)

    def mean(self, f: Callable[..., Floats], dtype: Any = np.float64, at_least: int = 1) -> Floats:
        """Sum over the rows of ``f(F, y, w)`` for features in a precision, over their weight."""

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            return f(F.astype(dtype, copy=False), y, w)

        mean: Floats = self.rows.sum(block, at_least=at_least) / self.rows.weight
        return mean

    def value_gradient(self, theta: Floats, dtype: Any = np.float64) -> tuple[float, Floats]:
        """Value and gradient (p,) at ``theta``: one pass over the rows."""
        map_, scores = self.map_, self.scores_at(theta, dtype)

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            R, losses = softmax_and_losses(scores(F), y)
            R[np.arange(len(y)), y] -= 1
            if w is not None:
                R *= w[:, None]
            return np.append(weighted_sum(losses, w), map_.adjoint(R, F))

        # With fewer rows, adding the gradients of blocks would take as long as computing them.
        sums = self.mean(block, dtype, 2 * len(theta) // self.n_classes)
        return self._penalized(theta, sums[0], sums[1:])

    def second_order(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient (p,) and Hessian (p, p) at ``theta``: one pass over the rows."""
        p, map_, scores = len(theta), self.map_, self.scores_at(theta)

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            w = np.ones(len(y)) if w is None else w
            P, losses = softmax_and_losses(scores(F), y)
            H = map_.hessian(P, F, w)
            P[np.arange(len(y)), y] -= 1
            gradient = map_.adjoint(P * w[:, None], F)
            return np.concatenate([[w @ losses], gradient, H.ravel()])

        sums = self.mean(block)
        hessian = sums[p + 1 :].reshape(p, p) + 2 * np.diag(self.ridge)
        return *self._penalized(theta, sums[0], sums[1 : p + 1]), hessian

    def _penalized(self, theta: Floats, loss: float, gradient: Floats) -> tuple[float, Floats]:
        """Value and gradient with the ridge penalty."""
        away = theta - self.identity
        return float(loss + self.ridge @ away**2), gradient + 2 * self.ridge * away

    def scores_at(self, theta: Floats, dtype: Any = np.float64) -> Callable[[Floats], Floats]:
        """Function of features that returns the scores minus the largest of each row."""
        map_, masks, theta = self.map_, self.masks, theta.astype(dtype, copy=False)

        def scores(F: Floats) -> Floats:
            S = map_.scores(theta, F)
            if masks:
                S = mask_scores(S, F)
            S -= S.max(axis=1, keepdims=True)
            return S

        return scores

    def all_correct(self, theta: Floats) -> bool:
        """Whether the label has a larger score than all other classes in every row."""
        scores = self.scores_at(theta)

        def block(F: Floats, y: Indices, _: Floats | None) -> Any:
            S, each = scores(F), np.arange(len(y))
            label = S[each, y]
            S[each, y] = -np.inf
            return np.float64(np.count_nonzero(label <= S.max(axis=1)))

        return not self.mean(block)

    def mean_curvature(self, f: Callable[[Floats, Floats], Floats], theta: Floats) -> Floats:
        """Mean of ``f`` of features and of ``p (1 - p)``, on a sample of rows without weights.

        All rows are used if they have weights, since a sample may miss the rows that matter.
        """
        # Four rows per class, and at least 1024, determine the moments well enough.
        step = self.rows.n_rows // max(4 * self.n_classes, 1024)
        if self.rows.w is None and step > 1:
            return replace(self, rows=self.rows.take(slice(None, None, step))).mean_curvature(
                f, theta
            )
        scores = self.scores_at(theta)

        def block(F: Floats, _: Any, w: Floats | None) -> Floats:
            P = np.exp(scores(F))
            P /= P.sum(axis=1, keepdims=True)
            Q = P * (1 - P)
            return f(F, Q if w is None else Q * w[:, None])

        return self.mean(block)

    def minimize(
        self,
        tol: float,
        max_iter: int,
        start: Floats | None = None,
        blocks: Blocks | None = None,
    ) -> OptimizeResult:
        """Parameters at which the gradient norm, in double precision, is at most ``tol``.

        The search begins at ``start``, by default the identity; L-BFGS uses ``blocks`` of the
        Hessian if they are known. ``success`` is false, and the parameters are the best that were
        found, if ``max_iter`` iterations are not enough, if the objective has no minimum, or if
        rounding leaves no step that lowers the objective.
        """
        x = self.identity
        if start is not None:  # perhaps from a fit with other strengths
            x = self.map_.balanced(start, self.regularization, self.n_classes)
        if self.n_classes == 2 and self.few and self.ridge.all():
            return self._newton(x, tol, max_iter)
        method = PreconditionedLBFGS(partial(self.map_.blocks, self), blocks)
        nit = 0
        may_switch = self.ridge.all() and len(x) <= MANY_PARAMETERS  # to Newton's method
        limit = min(PATIENCE, max_iter) if may_switch else max_iter
        for dtype in dict.fromkeys([self.dtype, np.dtype(np.float64)]):
            solution = optimize.minimize(
                self.value_gradient,
                x,
                args=(dtype,),
                jac=True,
                method=method,
                options={
                    "gtol": tol,
                    "maxiter": limit - nit,
                    "lowest": self.separated,
                    "precision": dtype.char,
                },
            )
            x, nit = solution.x, nit + solution.nit
            if solution.success and tol >= 1e-4:  # exact enough in single precision
                break
        if may_switch and not solution.success:
            solution = self._newton(x, tol, max_iter - nit)
            nit += solution.nit
        solution.nit = nit
        return solution

    def _newton(self, x: Floats, tol: float, max_iter: int) -> OptimizeResult:
        """Newton's method with the whole Hessian."""
        value, gradient, hessian = parts_of(self.second_order, 3, x.shape)
        solution = optimize.minimize(
            value,
            x,
            jac=gradient,
            hess=hessian,
            method=newton,
            # The last step squares the error.
            options={"tol": min(1e-10, tol / 10), "maxiter": max_iter + 1},
        )
        fun, jac = self.value_gradient(solution.x)
        success = bool(np.linalg.norm(jac) <= tol)
        return OptimizeResult(x=solution.x, fun=fun, jac=jac, nit=solution.nit, success=success)

    def leave_one_out_loss(self, theta: Floats, blocks: Blocks | None = None) -> float:
        """Approximate leave-one-out log loss at the minimum ``theta`` of an objective with a ridge.

        With up to MANY_CLASSES classes ``theta`` may be near the minimum, since a Newton step leads
        to it. With more classes ``blocks`` are the blocks of the Hessian, if they are known.
        """
        weight, K = self.rows.weight, self.n_classes
        if K > MANY_CLASSES:
            leverages = (blocks or self.map_.blocks(self, theta)).leverages
            change = change_by_class
        else:
            _, gradient, hessian = self.second_order(theta)
            # Without a ridge some directions change no score, such as equal offsets.
            inverse = np.linalg.pinv(hessian, 1e-14, hermitian=True)
            theta = theta - inverse @ gradient
            leverages, change = partial(self.map_.leverages, inverse), score_change
        scores = self.scores_at(theta, self.dtype)

        def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
            S = scores(F)
            P, _ = softmax_and_losses(S, y)
            R = P.copy()
            R[np.arange(len(y)), y] -= 1
            A = leverages(F) / weight
            if w is not None:
                A *= np.minimum(w, 1).reshape(-1, *[1] * (A.ndim - 1))
            S += change(A, P, R)
            S -= S.max(axis=1, keepdims=True)
            return weighted_sum(softmax_and_losses(S, y)[1], w)

        return float(self.mean(block, self.dtype))


def softmax_and_losses(S: Floats, y: Indices) -> tuple[Floats, Floats]:
    """Probabilities (m, K) and log losses (m,) of scores with a largest score of 0 in each row."""
    P = np.exp(S)
    total = P.sum(axis=1)
    P /= total[:, None]
    return P, np.log(total) - S[np.arange(len(y)), y]


def score_change(A: Floats, P: Floats, R: Floats) -> Floats:
    """``A (I - D A)^-1 r`` for each row of leverages (m, K, K)."""
    if P.shape[1] == 2:  # D is q d d^T, and r a multiple of d = (1, -1) (Sherman and Morrison)
        along = A[:, :, 0] - A[:, :, 1]
        q = P[:, 0] * P[:, 1]
        return along * (R[:, 0] / (1 + NOISE - q * (along[:, 0] - along[:, 1])))[:, None]
    PA = P[:, :, None] * A
    DA = PA - P[:, :, None] * PA.sum(axis=1, keepdims=True)
    unit = (1 + NOISE) * np.eye(P.shape[1])
    return (A @ np.linalg.solve(unit - DA, R[:, :, None]))[:, :, 0]


def change_by_class(A: Floats, P: Floats, R: Floats) -> Floats:
    """Change of scores for diagonal leverages (m, K), with a share of D (Sherman and Morrison).

    Blocks share the covariance of all rows, and hold only a part of the curvature of a single row.
    With half of it the estimates were closest to folds on networks with 100 classes.
    """
    PA = 0.5 * P * A
    rest = np.maximum(1 - PA, LEAST_REST)
    PA /= rest
    total = np.einsum("ij,ij->i", PA, R) / (1 + np.einsum("ij,ij->i", PA, P))
    return A * (R - total[:, None] * P) / rest


def mask_scores(S: Floats, F: Floats) -> Floats:
    """Scores, -inf where features belong to masked classes."""
    return np.where(F == MASKED_FEATURE, -np.inf, S)


def log_features(temperature: float, smoothing: float, Z: Floats, *_: object) -> Floats:
    """Log-probabilities (m, K) of the mixture that temperature scaling gives, bounded below."""
    F = log_mixture(temperature, smoothing, Z)
    if F.min() >= LOWEST_FEATURE:
        return F
    return np.where(np.isneginf(F), MASKED_FEATURE, np.maximum(F, LOWEST_FEATURE))


def log_prior(alphas: Floats) -> Floats:
    """Logarithm of the log-normal prior of strengths about 1, up to a constant.

    A strength is within a factor of three of 1 with a probability of two in three.
    """
    return -((np.log(alphas) / np.log(3)) ** 2) / 2


class Fit(NamedTuple):
    """A fit that is exact enough to compare strengths."""

    objective: Objective
    solution: OptimizeResult
    x: Floats  #: one step closer to the minimum
    blocks: Blocks | None  #: blocks of the Hessian, with many classes
    loss: float  #: approximate leave-one-out log loss

    @classmethod
    def of(cls, objective: Objective, tol: float, max_iter: int, near: Fit | None = None) -> Fit:
        """The fit to an objective, started from the fit ``near`` with another strength if given."""
        start = start_blocks = None
        if near is not None:
            start = near.x
            if near.blocks is not None:  # a step without a pass leads near the new minimum
                before, start_blocks = near.solution, near.blocks.under(objective)
                change = 2 * (objective.ridge - near.objective.ridge)
                gradient = before.jac + change * (before.x - objective.identity)
                start = before.x - start_blocks.solve(gradient)
        solution = objective.minimize(tol, max_iter, start, start_blocks)
        x, blocks = solution.x, None
        if objective.n_classes > MANY_CLASSES:
            blocks = objective.map_.blocks(objective, x)
            x = x - blocks.solve(solution.jac)
        loss = objective.leave_one_out_loss(x, blocks)
        return cls(objective, solution, x, blocks, loss)


class Choice(NamedTuple):
    """A strength, as a multiple of the rule, and the strengths that it was compared with."""

    alpha: float
    alphas: Floats = np.empty(0)  #: in decreasing order
    losses: Floats = np.empty(0)  #: their estimated losses
    fit: Any = None  #: the Fit with this strength
    nit: int = 0  #: iterations of all fits


def choose_strength(
    objective: Objective, rule: Callable[[float], Regularization], tol: float, max_iter: int
) -> Choice:
    """The strength of the least sum of approximate leave-one-out losses minus its log prior.

    ``rule`` gives the regularization of a strength. The search walks from FIRST_ALPHA to weaker
    strengths as long as the sum falls, or else to stronger ones. It does not look beyond: with many
    parameters for the rows the estimates for much weaker strengths are too low.
    """
    weight, penalties = objective.rows.weight, -log_prior(ALPHAS)

    def fit_at(k: int, near: Fit | None) -> Fit:
        at = replace(objective, regularization=rule(float(ALPHAS[k])))
        # A gradient norm of 3e-4 is enough to compare strengths.
        return Fit.of(at, max(tol, 3e-4), max_iter, near)

    best = int(np.argmax(ALPHAS == FIRST_ALPHA))
    fit = fit_at(best, None)
    losses, nit = {best: fit.loss}, fit.solution.nit
    for step in (1, -1):
        while 0 <= best + step < len(ALPHAS) and best + step not in losses:
            ahead = fit_at(best + step, fit)
            losses[best + step], nit = ahead.loss, nit + ahead.solution.nit
            change = weight * (ahead.loss - fit.loss) + penalties[best + step] - penalties[best]
            if change >= 0:
                break
            best, fit = best + step, ahead
    tried = sorted(losses)
    alphas, tried_losses = ALPHAS[tried], np.array([losses[k] for k in tried])
    return Choice(float(ALPHAS[best]), alphas, tried_losses, fit, nit)

r"""Log loss of linear maps of logits, and their minimum.

Notation of the whole module, which is that of the user guide: a block of rows has logits ``Z``
of shape (m, K), class indices ``y`` (m,) and weights ``w`` (m,) or None for ones. A model has
parameters ``theta`` (p,), scores ``S = map(theta, Z)`` of shape (m, K) that are linear in
``theta``, and probabilities ``P = softmax(S)``. The log loss is

.. math:: L(\theta) = \frac1N \sum_i w_i (\log\sum_k e^{s_{ik}} - s_{i y_i}), \quad
    N = \sum_i w_i,

convex in ``theta``. With the residual ``R = w (P - Y)`` its gradient is ``adjoint(R, Z) / N``,
and its Hessian times ``v`` is ``adjoint(w (P * V - P (P . V)), Z) / N`` with ``V = map(v, Z)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse.linalg import LinearOperator, minres
from scipy.special import logsumexp

from ._rows import (
    both_columns,
    is_far,
    map_rows,
    reduce_rows,
    sum_rows,
    total_weight,
    weighted_sum,
    with_both_columns,
)

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

# Lower log-probabilities are those of a probability of zero in double precision, whatever slope a
# map gives them. None is to outweigh all others.
LOWEST_FEATURE = -1e3
# Log-probabilities of masked classes are lower yet, to be told from others.
MASKED_FEATURE = -2e3
# Products with the Hessian, each the cost of a gradient or two, for one Newton step.
NEWTON_PRODUCTS = 50
# A step has to lower the objective by this share of what its slope promises; shares of a step below
# the second are no step; and objectives that differ by the third, relative to them, by rounding.
ENOUGH, SMALLEST_SHARE, NOISE = 1e-4, 1e-6, 1e-12
# Iterations of L-BFGS after which the coordinates are made anew where the search has come to.
ROUND = 30


class LinearMap(Protocol):
    """A calibrator of the joint family, told by its map and the adjoint of it.

    ``scores`` is linear in ``theta``: ``<R, scores(theta, Z)> = <adjoint(R, Z), theta>`` for
    every ``R`` of the shape of the scores.
    """

    def scores(self, theta: Floats, Z: Floats, out: Floats | None = None) -> Floats:
        """Scores (m, K) of logits ``Z`` (m, K) under parameters ``theta`` (p,).

        Written to ``out`` if that is given; never to ``Z``, nor a view of it.
        """

    def adjoint(self, R: Floats, Z: Floats) -> Floats:
        """Sum over the rows of what ``R`` (m, K) says on each parameter: shape (p,)."""

    def hessian(self, P: Floats, Z: Floats, w: Floats) -> Floats:
        """Sum over the rows of the Hessians (p, p) at probabilities ``P`` (m, K)."""


@dataclass(frozen=True)
class Rows:
    """Rows of a problem: features ``scale * Z - shift``, class indices and weights.

    ``shift`` has one number per row or is None. With the log-sum-exp of ``scale * Z`` the
    features are log-probabilities, which are made block by block and never stored. With
    ``double`` they are made, and worked with, in double precision whatever the dtype of ``Z``.
    Log-probabilities below :data:`LOWEST_FEATURE`, as those of masked classes, are raised to it,
    and scores of -inf are as far below the largest of their row; ``reaching`` says that there may
    be some.
    """

    Z: Floats
    y: Indices
    w: Floats | None = None
    scale: float = 1.0
    shift: Floats | None = None
    double: bool = False
    reaching: bool = False

    @property
    def n_classes(self) -> int:
        """Number of columns of the features."""
        return max(self.Z.shape[1], 2)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return np.dtype(np.float64) if self.double else self.Z.dtype

    @property
    def masks(self) -> bool:
        """Whether there may be features of masked classes."""
        return self.reaching and self.shift is not None

    @property
    def arrays(self) -> tuple[Floats, Indices, Floats | None, Floats | None]:
        """What there is one of for each row."""
        return self.Z, self.y, self.w, self.shift

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        return total_weight(self.y, self.w)

    def every(self, step: int) -> Rows:
        """Every so-manieth row; all of them where a pass is a pass, however few rows it takes."""
        if is_far(self.Z):
            return self
        w, shift = (None if a is None else a[::step] for a in (self.w, self.shift))
        return replace(self, Z=self.Z[::step], y=self.y[::step], w=w, shift=shift)

    @classmethod
    def of_log_probabilities(cls, Z: Floats, y: Indices, w: Floats | None, scale: float) -> Self:
        """Rows whose features are the log-probabilities of the scores ``scale * Z``."""
        shift = map_rows(partial(_log_sum_exp, scale), Z)
        # No log-probability is further below zero than the range of its row and log K.
        reaching = is_far(Z) or scale * _longest_range(Z) > -LOWEST_FEATURE / 2
        return cls(Z, y, w, scale, shift, reaching=bool(reaching))

    @classmethod
    def of_scores(cls, Z: Floats, y: Indices, w: Floats | None, scale: float) -> Self:
        """Rows whose features are the scores ``scale * Z``."""
        return cls(Z, y, w, scale, reaching=is_far(Z) or bool(np.isinf(_longest_range(Z))))

    def mean(self, f: Callable[..., Floats], *, scratch: int, room: int = 1) -> Floats:
        """Sum of ``f(features, y, w, *scratch)`` over the rows, divided by their weight."""
        # What goes to the rows must not hold them.
        block = partial(_of_features, f, self.scale, self.dtype, self.reaching)
        total = sum_rows(block, *self.arrays, scratch=1 + scratch, dtype=self.dtype, room=room)
        return total / self.weight


def _of_features(
    f: Callable[..., Floats],
    scale: float,
    dtype: np.dtype[Any],
    reaching: bool,  # noqa: FBT001
    Z: Floats,
    y: Indices,
    w: Floats | None,
    shift: Floats | None,
    *spare: Floats | None,
) -> Floats:
    """``f`` of the features of a block of rows."""
    Z, F, *rest = with_both_columns(Z, *spare)
    with np.errstate(over="ignore" if reaching else "warn"):
        F = np.multiply(Z, scale, out=F, dtype=dtype)
    if shift is not None:
        F -= shift[:, None]
    if reaching and shift is None:
        np.copyto(F, F.max(axis=1, keepdims=True) + LOWEST_FEATURE, where=np.isneginf(F))
    return f(raised(F) if reaching and shift is not None else F, y, w, *rest)


def raised(F: Floats) -> Floats:
    """Log-probabilities, in place no less than :data:`LOWEST_FEATURE` but for masked classes."""
    masked = np.isneginf(F)
    np.maximum(F, np.asarray(LOWEST_FEATURE, F.dtype), out=F)
    np.copyto(F, np.asarray(MASKED_FEATURE, F.dtype), where=masked)
    return F


def mask_scores(S: Floats, F: Floats) -> Floats:
    """Scores, in place -inf where features are those of masked classes.

    Only maps of each class by itself meet such.
    """
    np.copyto(S, -np.inf, where=F == MASKED_FEATURE)
    return S


def _longest_range_of_block(Z: Floats) -> Any:
    Z = both_columns(Z)
    return np.max(Z.max(axis=1).astype(np.float64) - Z.min(axis=1))


def _longest_range(Z: Floats) -> float:
    """The largest range of a row of logits, infinite where a class is masked."""
    return float(reduce_rows(np.maximum, _longest_range_of_block, Z))


def _log_sum_exp(scale: float, Z: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return logsumexp(both_columns(np.multiply(Z, scale, dtype=Z.dtype)), axis=1)


def loss_gradient(theta: Floats, map_: LinearMap, rows: Rows) -> tuple[float, Floats]:
    """Mean log loss and its gradient (p,) at ``theta``: one pass over the rows."""
    theta, masks = theta.astype(rows.dtype, copy=False), rows.masks

    def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
        each = np.arange(len(F))
        S = _centred_scores(theta, map_, F, S, masks)
        of_label = S[each, y]
        R = np.exp(S, out=S)
        total = R.sum(axis=1)
        loss = weighted_sum(np.log(total) - of_label, w)
        R *= _per_row(1 / total, w)
        R[each, y] -= 1 if w is None else w
        return np.append(loss, map_.adjoint(R, F))

    mean = rows.mean(block, scratch=1)
    return float(mean[0]), mean[1:]


def hessian_product(theta: Floats, v: Floats, map_: LinearMap, rows: Rows) -> Floats:
    """Hessian (p, p) of the mean log loss at ``theta`` times ``v`` (p,): one pass."""
    theta, v = (a.astype(rows.dtype, copy=False) for a in (theta, v))
    masks = rows.masks

    def block(
        F: Floats, _: Indices, w: Floats | None, S: Floats | None, V: Floats | None
    ) -> Floats:
        S = _centred_scores(theta, map_, F, S, masks)
        P = np.exp(S, out=S)
        total = P.sum(axis=1)
        V = map_.scores(v, F, out=V)
        V -= _per_row(np.einsum("ij,ij->i", P, V) / total, None)
        V *= P
        V *= _per_row(1 / total, w)
        return map_.adjoint(V, F).astype(np.float64, copy=False)

    return rows.mean(block, scratch=2)


def second_order(theta: Floats, map_: LinearMap, rows: Rows) -> tuple[float, Floats, Floats]:
    """Mean log loss at ``theta``, its gradient (p,) and its Hessian (p, p): one dear pass."""
    p, masks = len(theta), rows.masks

    def block(F: Floats, y: Indices, w: Floats | None) -> Floats:
        w = np.ones(len(F)) if w is None else w
        S = _centred_scores(theta, map_, F, None, masks)
        each = np.arange(len(F))
        of_label, P = S[each, y], np.exp(S)
        total = P.sum(axis=1)
        P /= total[:, None]
        H = map_.hessian(P, F, w)
        R = P * w[:, None]
        R[each, y] -= w
        return np.concatenate([[w @ (np.log(total) - of_label)], map_.adjoint(R, F), H.ravel()])

    mean = rows.mean(block, scratch=0, room=p // rows.n_classes)
    return float(mean[0]), mean[1 : p + 1], mean[p + 1 :].reshape(p, p)


def share_wrong(theta: Floats, map_: LinearMap, rows: Rows) -> float:
    """Share of the weight of the rows in which the score of the label is not the largest."""
    theta, masks = theta.astype(rows.dtype, copy=False), rows.masks

    def block(F: Floats, y: Indices, w: Floats | None, S: Floats | None) -> Floats:
        S = _centred_scores(theta, map_, F, S, masks)
        each = np.arange(len(F))
        of_label = S[each, y]
        S[each, y] = -np.inf
        return weighted_sum(of_label <= S.max(axis=1), w)

    return float(rows.mean(block, scratch=1))


def _centred_scores(
    theta: Floats,
    map_: LinearMap,
    F: Floats,
    out: Floats | None,
    masks: bool,  # noqa: FBT001
) -> Floats:
    """Scores whose largest in each row is 0, so that their exponentials are safe."""
    S = map_.scores(theta, F, out=out)
    S = mask_scores(S, F) if masks else S
    S -= S.max(axis=1, keepdims=True)
    return S


def _per_row(values: Floats, w: Floats | None) -> Floats:
    """Numbers per row, times the weights, as a column to multiply rows with."""
    return (values if w is None else w * values)[:, None]


@dataclass(frozen=True)
class Objective:
    r"""Log loss of a linear map on some rows, plus a ridge towards the parameters ``centre``.

    .. math:: L(\theta) + \sum_j \text{ridge}_j (\theta_j - \text{centre}_j)^2
    """

    map_: LinearMap
    rows: Rows
    centre: Floats
    ridge: Floats | float = 0.0

    @cached_property
    def separated(self) -> float:
        """Value below which every row must be right, so that there is no minimum.

        A row that is wrong has a loss of at least log 2. With a ridge there always is a minimum.
        """
        if np.any(self.ridge):
            return -np.inf
        w = self.rows.w
        least = 1.0 if w is None else reduce_rows(np.minimum, _least_weight, w)
        return float(np.log(2) * least / self.rows.weight)

    def penalty(self, theta: Floats) -> float:
        """The ridge at ``theta``."""
        return float(np.sum(self.ridge * (theta - self.centre) ** 2))

    def value_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Value and gradient (p,) at ``theta``."""
        loss, gradient = loss_gradient(theta, self.map_, self.rows)
        return loss + self.penalty(theta), gradient + 2 * self.ridge * (theta - self.centre)

    def in_double(self) -> Objective:
        """The same, worked out in double precision whatever that of the rows."""
        return replace(self, rows=replace(self.rows, double=True))

    def hessian_product(self, theta: Floats, v: Floats) -> Floats:
        """Hessian at ``theta`` times ``v`` (p,)."""
        return hessian_product(theta, v, self.map_, self.rows) + 2 * self.ridge * v


def _least_weight(w: Floats) -> Any:
    return np.min(w, where=w > 0, initial=np.inf)


@dataclass(frozen=True)
class Coordinates:
    """A linear change of parameters, ``theta = forward(u)``, and the transpose of it."""

    forward: Callable[[Floats], Floats] = np.asarray
    transposed: Callable[[Floats], Floats] = np.asarray


def minimise(
    objective: Objective,
    start: Floats,
    *,
    coordinates: Callable[[Floats], Coordinates] = lambda _: Coordinates(),
    tol: float = 1e-8,
    max_iter: int = 100,
) -> OptimizeResult:
    """Parameters that minimise the objective, searched for from ``start``.

    L-BFGS comes near the minimum, to where rounding hides from it whether the objective falls;
    Newton steps that are judged by the gradient in double precision do the rest. Both are quick
    where the Hessian is near the identity, which ``coordinates``, a function of the parameters
    where the search is, are to see to.

    Returns
    -------
    OptimizeResult
        With parameters ``x``, objective ``fun``, gradient ``jac`` (the certificate), number of
        iterations ``nit``, and ``success``, which is whether the norm of the gradient is at most
        ``tol``.
    """
    found, precision = OptimizeResult(x=start, nit=0, success=False), objective
    while True:
        going_on = True
        while going_on and found.nit < max_iter:
            change = coordinates(found.x)
            limit = min(ROUND, max_iter - found.nit)
            found, going_on = _lbfgs(precision, found, change, tol, limit)
        found = _newton(precision, found, change, coordinates, tol, max_iter)
        settled = found.success or found.fun < objective.separated
        if settled or precision.rows.dtype == np.float64:
            return found
        precision = objective.in_double()


def _lbfgs(
    objective: Objective, found: OptimizeResult, change: Coordinates, tol: float, max_iter: int
) -> tuple[OptimizeResult, bool]:
    """The best that L-BFGS finds from ``found`` on, and whether it would go on from there."""
    start, best = found.x, OptimizeResult(found, fun=np.inf)

    def in_coordinates(u: Floats) -> tuple[float, Floats]:
        theta = start + change.forward(u)
        fun, jac = objective.value_gradient(theta)
        if fun < best.fun:
            best.update(x=theta, fun=fun, jac=jac)
        return fun, change.transposed(jac)

    def stop_if_settled(_: Floats) -> None:
        if np.linalg.norm(best.jac) <= tol or best.fun < objective.separated:
            raise StopIteration

    noise = float(np.finfo(objective.rows.dtype).eps) / 8
    near = minimize(
        in_coordinates,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        callback=stop_if_settled,
        # A line search that fails a few times has come to where rounding decides.
        options={"maxiter": max_iter, "maxcor": 20, "maxls": 5, "ftol": noise, "gtol": 0.0},
    )
    best.update(nit=found.nit + near.nit)
    return best, near.nit == max_iter


def _newton(
    objective: Objective,
    found: OptimizeResult,
    change: Coordinates,
    coordinates: Callable[[Floats], Coordinates],
    tol: float,
    max_iter: int,
) -> OptimizeResult:
    """Newton steps from ``found``, shortened where the objective does not fall, until none helps.

    Gradients are in double precision, the Hessian, which only says where to go, in that of the
    rows.
    """
    exact = objective.in_double()
    if exact.rows.dtype != objective.rows.dtype:
        fun, jac = exact.value_gradient(found.x)
        found = OptimizeResult(found, fun=fun, jac=jac)
    while not (length := float(np.linalg.norm(found.jac))) <= tol and found.nit < max_iter:
        if found.fun < objective.separated:
            break
        step = _newton_step(objective, found, change, 0.1 * tol / length)
        ahead, share = step_along(exact, found, step)
        if share == 0:
            break
        found = ahead
        if share < 1:  # what made the coordinates good lies behind
            change = coordinates(found.x)
    return OptimizeResult(found, success=bool(np.linalg.norm(found.jac) <= tol))


def step_along(
    exact: Objective, found: OptimizeResult, step: Floats
) -> tuple[OptimizeResult, float]:
    """Where a step leads, or the share of it that is accepted, and that share; else 0."""
    slope = float(found.jac @ step)
    share = 1.0 if slope < 0 else 0.0
    while share > SMALLEST_SHARE:
        x = found.x + share * step
        fun, jac = exact.value_gradient(x)
        ahead = OptimizeResult(found, x=x, fun=fun, jac=jac, nit=found.nit + 1)
        if is_accepted(found, ahead):
            return ahead, share
        # The zero of the derivative along the step, if that were a straight line.
        rise = float(jac @ step) - slope
        share *= min(max(-slope / rise if 0 < rise < np.inf else 0.0, 0.1), 0.5)
    return found, 0.0


def is_accepted(found: OptimizeResult, ahead: OptimizeResult) -> bool:
    """Whether the objective falls by a share of what the gradient promises.

    Close to the minimum rounding hides that it does. There the gradient has to be shorter.
    """
    promised, noise = float(found.jac @ (ahead.x - found.x)), NOISE * abs(found.fun)
    if -promised > noise and ahead.fun <= found.fun + ENOUGH * promised:
        return True
    shorter = np.linalg.norm(ahead.jac) < 0.9 * np.linalg.norm(found.jac)
    return bool(shorter and ahead.fun <= found.fun + noise)


def _newton_step(
    objective: Objective, found: OptimizeResult, change: Coordinates, rtol: float
) -> Floats:
    """Solution of the Newton equations at ``found``, to a relative tolerance."""
    p = len(found.x)

    def product(u: Floats) -> Floats:
        return change.transposed(objective.hessian_product(found.x, change.forward(u)))

    hessian = LinearOperator((p, p), matvec=product, dtype=np.float64)
    downhill = -change.transposed(found.jac)
    u, _ = minres(
        hessian, downhill, rtol=min(max(rtol, 1e-3), 0.1), maxiter=min(2 * p, NEWTON_PRODUCTS)
    )
    return change.forward(u)

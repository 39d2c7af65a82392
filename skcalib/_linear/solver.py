"""Minimisation of the log loss of linear maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse.linalg import LinearOperator, minres

from skcalib._typing import Floats

from .loss import Objective

# Products with the Hessian, each the cost of a gradient or two, for one Newton step.
NEWTON_PRODUCTS = 50

# A step has to lower the objective by this share of what its slope promises; shares of a step below
# the second are no step; and objectives that differ by the third, relative to them, by rounding.
ENOUGH, SMALLEST_SHARE, NOISE = 1e-4, 1e-6, 1e-12

# Iterations of L-BFGS after which the coordinates are made anew where the search has come to.
ROUND = 30


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

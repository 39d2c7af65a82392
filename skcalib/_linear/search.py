"""The minimum over rows that are far away, where the number of passes is what counts.

A pass over rows in memory costs what is computed. Where the rows are with the workers of a cluster
it costs a round of messages as well, however little is asked: then few passes that bring much, the
Hessian, are better than many that bring a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._engine.rows import Rows
from skcalib._typing import Floats

from .features import Features
from .loss import Objective, second_order
from .maps import MatrixMap, VectorMap
from .solver import is_accepted, minimise, step_along

# More parameters have a Hessian that costs more to sum up than to do without.
MANY_PARAMETERS = 512

# Problems with fewer parameters that take longer than that are better served with their Hessian.
FEW_ITERATIONS = 60

# A sample of fewer rows would be a worse start than none.
ROWS_PER_PARAMETER = 50

# Singular values that rounding leaves of the directions that change nothing.
RANK = 1e-13


def best_parameters(
    map_: VectorMap | MatrixMap, objective: Objective, tol: float, max_iter: int
) -> OptimizeResult:
    """Parameters that minimise the objective, as :func:`minimise` describes them."""
    start, rows = objective.centre, objective.rows
    if not rows.rows.passes_are_cheap:
        made = partial(Features, scale=rows.scale, reaching=rows.reaching)
        of_sample = partial(_minimum_of_sample, map_, start, objective.ridge, made, tol)
        at_least = ROWS_PER_PARAMETER * len(start)
        found = rows.rows.sample(of_sample, at_least)
        start = start if found is None else found
        if len(start) <= MANY_PARAMETERS:
            found = _newton_in_full(objective.in_double(), start, tol, max_iter)
            if found.success:
                return found
    coordinates = partial(map_.coordinates, objective)
    patience = FEW_ITERATIONS if len(start) <= MANY_PARAMETERS else max_iter
    patience = min(patience, max_iter)
    found = minimise(objective, start, coordinates=coordinates, tol=tol, max_iter=patience)
    settled = found.success or found.fun < objective.separated
    if settled or len(start) > MANY_PARAMETERS or found.nit >= max_iter:
        return found
    # The Hessian is too far from what the coordinates take it for.
    further = _newton_in_full(objective.in_double(), found.x, tol, max_iter - found.nit)
    return OptimizeResult(further, nit=found.nit + further.nit)


def _minimum_of_sample(
    map_: VectorMap | MatrixMap,
    centre: Floats,
    ridge: Any,
    made: Callable[[Rows], Features],
    tol: float,
    rows: Rows,
) -> Floats:
    """Parameters that are best for a sample of the rows."""
    objective = Objective(map_, made(rows), centre, ridge)
    coordinates = partial(map_.coordinates, objective)
    return minimise(objective, centre, coordinates=coordinates, tol=max(tol, 1e-4)).x


def _newton_in_full(
    objective: Objective, start: Floats, tol: float, max_iter: int
) -> OptimizeResult:
    """Newton steps with the whole Hessian, shortened where they do not help, until none does."""
    found, x, step = OptimizeResult(jac=[np.inf], nit=0, success=False), start, None
    while found.nit < max_iter:
        loss, gradient, hessian = second_order(x, objective.map_, objective.rows)
        jac = gradient + 2 * objective.ridge * (x - objective.centre)
        fun, success = loss + objective.penalty(x), bool(np.linalg.norm(jac) <= tol)
        ahead = OptimizeResult(x=x, fun=fun, jac=jac, nit=found.nit + 1, success=success)
        if step is not None and not is_accepted(found, ahead):
            shorter, share = step_along(objective, found, 0.5 * step)
            if share == 0:
                return found
            x, step = shorter.x, None  # accepted: rounding is not to judge it once more
            continue
        found = ahead
        if success or fun < objective.separated:
            return found
        hessian[np.diag_indices(len(x))] += 2 * objective.ridge
        step = -np.linalg.lstsq(hessian, jac, rcond=RANK)[0]
        x = x + step
    return found

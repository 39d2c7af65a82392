"""The minimum over rows that are far away, where the number of passes is what counts.

A pass over rows in memory costs what is computed. Where the rows are with the workers of a cluster
it costs a round of messages as well, however little is asked: then few passes that bring much, the
Hessian, are better than many that bring a gradient.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from ._maps import MatrixMap, VectorMap
from ._minimise import Objective, Rows, minimise, second_order
from ._rows import call_on_sample, is_far

Floats = NDArray[np.floating[Any]]

# More parameters have a Hessian that costs more to sum up than to do without.
MANY_PARAMETERS = 512
# A sample of fewer rows would be a worse start than none.
ROWS_PER_PARAMETER = 50
# Singular values that rounding leaves of the directions that change nothing.
RANK = 1e-13


def best_parameters(
    map_: VectorMap | MatrixMap, objective: Objective, tol: float, max_iter: int
) -> OptimizeResult:
    """Parameters that minimise the objective, as :func:`minimise` describes them."""
    start, rows = objective.centre, objective.rows
    if is_far(rows.Z):
        of_sample = partial(_minimum_of_sample, map_, start, objective.ridge, rows.scale, tol)
        at_least = ROWS_PER_PARAMETER * len(start)
        found = call_on_sample(of_sample, *rows.arrays, at_least=at_least)
        start = start if found is None else found
        if len(start) <= MANY_PARAMETERS:
            found = _newton_in_full(objective.in_double(), start, tol, max_iter)
            if found.success:
                return found
    coordinates = partial(map_.coordinates, objective)
    return minimise(objective, start, coordinates=coordinates, tol=tol, max_iter=max_iter)


def _minimum_of_sample(
    map_: VectorMap | MatrixMap,
    centre: Floats,
    ridge: Any,
    scale: float,
    tol: float,
    Z: Floats,
    y: NDArray[np.intp],
    w: Floats | None,
    shift: Floats | None,
) -> Floats | None:
    """Parameters that are best for a sample of the rows, or None if it has no weight."""
    if w is not None and not w.any():
        return None
    objective = Objective(map_, Rows(Z, y, w, scale, shift), centre, ridge)
    coordinates = partial(map_.coordinates, objective)
    return minimise(objective, centre, coordinates=coordinates, tol=max(tol, 1e-4)).x


def _newton_in_full(
    objective: Objective, start: Floats, tol: float, max_iter: int
) -> OptimizeResult:
    """Newton steps with the whole Hessian, for as long as they shorten the gradient."""
    found, x = OptimizeResult(jac=[np.inf], nit=0, success=False), start
    while found.nit < max_iter:
        loss, gradient, hessian = second_order(x, objective.map_, objective.rows)
        jac = gradient + 2 * objective.ridge * (x - objective.centre)
        if not np.linalg.norm(jac) < 0.9 * np.linalg.norm(found.jac):
            return found
        success = bool(np.linalg.norm(jac) <= tol)
        fun = loss + objective.penalty(x)
        found = OptimizeResult(x=x, fun=fun, jac=jac, nit=found.nit + 1, success=success)
        if success or fun < objective.separated:
            return found
        hessian[np.diag_indices(len(x))] += 2 * objective.ridge
        x = x - np.linalg.lstsq(hessian, jac, rcond=RANK)[0]
    return found

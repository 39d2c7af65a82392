r"""Minimisation of the log loss of linear maps: which method serves which problem, and why.

All fits of the joint family, and the sigmoids of one-vs-rest methods, are convex problems. Four
methods serve them:

- *Temperature scaling*, one parameter: the zero of an increasing slope, bracketed and then found by
  Newton's method (:mod:`skcalib._linear.temperature`).
- *Vector and matrix maps of two classes*: Newton's method (:func:`newton`) for the three parameters
  that the log-odds under any linear map have (:mod:`skcalib._linear.two_classes`), in double
  precision, which costs little with one exponential and one logarithm for each row.
- *Vector and matrix maps of more classes*: L-BFGS (:func:`lbfgs`) with the preconditioners of
  :mod:`skcalib._linear.preconditioner`. Passes over more than ``FEW_ELEMENTS`` features are in the
  precision of the logits until the gradient norm is small or rounding hides progress, and then in
  double precision.
- *The same with up to* ``MANY_PARAMETERS`` *parameters*, for row-chunked Dask arrays, on which each
  pass costs a round trip to the workers whatever it computes, and where L-BFGS does not converge in
  ``PATIENCE`` iterations: Newton's method with the whole Hessian.
- *Sigmoids, K problems of a few parameters each*: Newton's method for all of them at once
  (:mod:`skcalib._linear.logistic`).

Measured times, as multiples of those of the method that is used, for vector and matrix maps of
single precision logits, default regularization and smoothing (``python
benchmarks/bench_solvers.py``, one thread):

=============  =====================  =============  ========================  =================
rows, classes  Newton, whole Hessian  L-BFGS         L-BFGS in double alone    parameters
=============  =====================  =============  ========================  =================
200 x 2        1.0 and 1.0            1.8 and 2.3    1.8 and 2.1               4 and 6
1000 x 2       1.1 and 1.7            2.4 and 2.9    2.4 and 2.8               4 and 6
1 000 000 x 2  4 and 16               4.6 and 3.2    4.6 and 3.3               4 and 6
1000 x 10      1.1 and 3.7            used           1.0 and 0.9               20 and 110
5000 x 10      4 and 9                used           1.0 and 1.1               20 and 110
300 000 x 10   3 and 9                used           1.2 and 1.2               20 and 110
5000 x 100     6 (matrix: not tried)  used           1.4 and 1.3               200 and 10 100
50 000 x 100   4 (matrix: not tried)  used           1.6 and 1.7               200 and 10 100
=============  =====================  =============  ========================  =================

An inexact Newton method, whose equations are solved by MINRES with the same preconditioner, took
1.1 to 2.1 times as long as L-BFGS with five classes or more, since each product with the Hessian
costs more than a gradient. The minimum for a sample of the rows as the start saved one or two of
ten passes, about what it costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from skcalib._engine.rows import Rows
from skcalib._typing import Floats

from .features import Features
from .loss import LinearMap, Objective, Regularization
from .two_classes import TwoClasses

# More parameters than this have a Hessian that costs more to sum up than to do without.
MANY_PARAMETERS = 512

# Iterations of L-BFGS after which problems with a small Hessian are left to Newton's method.
PATIENCE = 60

# Up to so many features a pass in double precision costs little more than in single precision.
FEW_ELEMENTS = 1 << 15

# Number of differences that L-BFGS keeps, and of iterations between new preconditioners, but for
# the second one, where the first step leads.
HISTORY, RENEWAL = 20, 15

# Number of rows of a sample for each parameter: a minimum on fewer would be a poor start.
ROWS_PER_PARAMETER = 50

# Singular values of the Hessian below this share of the largest are zero, up to rounding.
RANK = 1e-13

# Largest tolerance of Newton's method for two classes: its error squares in a step, so that coarser
# ones would save nothing.
NEWTON_TOL = 1e-5

# Largest norm of a step, relative to that of the parameters, which is that of the identity or more.
LONGEST_STEP = 100.0

TINY = float(np.finfo(float).tiny)

# Sufficient decrease, as a share of what the slope promises; and where rounding hides the decrease,
# largest gradient norm after a step, as a share of that before.
ENOUGH, SHORTER = 1e-4, 0.9

# Rounding error of objectives, and shares of a step at which the line search ends, by precision.
NOISE = {"f": 1e-7, "d": 1e-12}
SMALLEST_SHARE = {"f": 0.05, "d": 1e-6}


@dataclass(frozen=True)
class Solution:
    """Parameters with what is known of the objective there, after a number of iterations."""

    x: Floats
    fun: float
    jac: Floats
    nit: int = 0
    success: bool = False  #: whether the norm of ``jac`` is at most the tolerance
    hessian: Any = None  #: (p, p), if the method has it


def best_parameters(
    objective: Objective, tol: float, max_iter: int, start: Floats | None = None
) -> Solution:
    """Parameters at which the gradient norm of the objective, in double precision, is ``tol``.

    Found from ``start``, by default the identity, or the best for a sample of the rows. Or the best
    ones found, where ``max_iter`` iterations are not enough, where the objective has no minimum, or
    where rounding leaves no step that lowers it.
    """
    p, distributed = len(objective.identity), not objective.features.rows.passes_are_cheap
    x = start
    if x is None:
        x = _start_of_sample(objective, tol) if distributed else objective.identity
    if objective.features.n_classes == 2:
        return _of_two_classes(TwoClasses(objective), x, tol, max_iter)
    if p > MANY_PARAMETERS:
        return lbfgs(objective, x, tol, max_iter)
    nit = 0
    for method in (newton, lbfgs) if distributed else (lbfgs, newton):
        limit = nit + PATIENCE if method is lbfgs else max_iter
        found = method(objective, x, tol, min(limit, max_iter), nit)
        if found.success or found.fun < objective.separated or found.nit >= max_iter:
            break
        x, nit = found.x, found.nit
    return found


def _of_two_classes(two: TwoClasses, start: Floats, tol: float, max_iter: int) -> Solution:
    """Newton's method for the three parameters that two classes have, whatever the map."""
    T = two.of_parameters
    # At most two parameters have the same derivative, up to its sign.
    found = newton(two, T @ start, min(tol, NEWTON_TOL) / np.sqrt(2), max_iter)
    jac = found.jac @ T
    success = bool(np.linalg.norm(jac) <= tol)
    return replace(found, x=two.parameters(found.x), jac=jac, success=success, hessian=None)


def newton(
    objective: Objective | TwoClasses, start: Floats, tol: float, max_iter: int, nit: int = 0
) -> Solution:
    """Newton's method with the whole Hessian, in double precision, after ``nit`` iterations."""

    def direction(found: Solution) -> Floats:
        curvatures, basis = np.linalg.eigh(found.hessian)
        slopes, longest = found.jac @ basis, _longest_step(found.x)
        curved = curvatures > RANK * curvatures[-1]
        steps = np.divide(slopes, curvatures, out=np.zeros_like(slopes), where=curved)
        return -basis @ np.clip(steps, -longest, longest)

    exact = objective.in_double()
    return _descend(exact, exact.second_order, direction, start, tol, max_iter, nit)


def lbfgs(objective: Objective, start: Floats, tol: float, max_iter: int, nit: int = 0) -> Solution:
    """L-BFGS, in the precision of the rows as far as that goes, and then in double precision."""
    direction, exact = _QuasiNewton(objective), objective.in_double()
    if _is_worth_single_precision(objective.features):
        evaluate = objective.value_gradient
        found = _descend(objective, evaluate, direction, start, tol, max_iter, nit)
        start, nit = found.x, found.nit
    return _descend(exact, exact.value_gradient, direction, start, tol, max_iter, nit)


def _is_worth_single_precision(features: Features) -> bool:
    """Whether passes over single precision rows are much faster than those in double precision."""
    many = features.rows.n_rows * features.n_classes > FEW_ELEMENTS
    return many and features.dtype != np.float64


def _descend(
    objective: Objective | TwoClasses,
    evaluate: Callable[[Floats], tuple[Any, ...]],
    direction: Callable[[Solution], Floats],
    start: Floats,
    tol: float,
    max_iter: int,
    nit: int,
) -> Solution:
    """Steps until the gradient norm is at most ``tol``, or none is accepted."""

    def at(nit: int, x: Floats) -> Solution:
        fun, jac, *hessian = evaluate(x)
        return Solution(x, fun, jac, nit, bool(np.linalg.norm(jac) <= tol), *hessian)

    found, precision = at(nit, start), objective.features.dtype.char
    while not (found.success or found.fun < objective.separated or found.nit >= max_iter):
        step = direction(found)
        step *= min(1.0, _longest_step(found.x) / max(float(np.linalg.norm(step)), TINY))
        ahead = _line_search(partial(at, found.nit + 1), found, step, precision)
        if ahead is None:
            break
        found = ahead
    return found


def _longest_step(x: Floats) -> float:
    """Bound on the norm of a step: where the loss is nearly linear its curvature gives none."""
    return LONGEST_STEP * (1 + float(np.linalg.norm(x)))


def _line_search(
    at: Callable[[Floats], Solution], found: Solution, step: Floats, precision: str
) -> Solution | None:
    """The end of the step, or of the largest tried share of it that is accepted, if any."""
    slope, noise = float(found.jac @ step), NOISE[precision] * abs(found.fun)
    short = SHORTER * np.linalg.norm(found.jac)
    share = 1.0 if slope < 0 else 0.0
    while share > SMALLEST_SHARE[precision]:
        ahead = at(found.x + share * step)
        rise = ahead.fun - found.fun
        if rise <= ENOUGH * share * slope or (rise <= noise and np.linalg.norm(ahead.jac) < short):
            return ahead
        # Between the minimum of a parabola and that of the tangents at both ends.
        end = float(ahead.jac @ step)
        tangents = (share * end - rise) / share
        shorter = 0.5 * (tangents - slope) / (end - slope) if slope < end < np.inf else 0.0
        share *= min(max(shorter, 0.1), 0.5)
    return None


class _QuasiNewton:
    """Directions of L-BFGS (Nocedal 1980), with a preconditioner as the initial inverse Hessian."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=HISTORY)
        self.last: Solution | None = None
        self.age = 0
        self.precondition: Callable[[Floats], Floats]

    def __call__(self, found: Solution) -> Floats:
        """The direction at the solution so far, anew where rounding has spoilt the differences."""
        self._prepare(found)
        step = self._two_loops(-found.jac)
        if found.jac @ step >= 0:
            self.pairs.clear()
            self.last, self.age = None, 0
            self._prepare(found)
            step = self._two_loops(-found.jac)
        return step

    def _two_loops(self, step: Floats) -> Floats:
        """The approximate inverse Hessian times a vector."""
        shares = []
        for s, y, sy in reversed(self.pairs):
            shares.append(float(s @ step) / sy)
            step = step - shares[-1] * y
        step = self.precondition(step)
        for s, y, sy in self.pairs:
            step += (shares.pop() - float(y @ step) / sy) * s
        return step

    def _prepare(self, found: Solution) -> None:
        """Take up the last step and the change of the gradient along it."""
        if self.last is not None:
            s, y = found.x - self.last.x, found.jac - self.last.jac
            sy = float(s @ y)
            if sy > 0:
                self.pairs.append((s, y, sy))
        if self.age % RENEWAL < 2:  # the first step goes most of the way
            self.precondition = self.objective.map_.preconditioner(self.objective, found.x)
        self.last, self.age = found, self.age + 1


def _start_of_sample(objective: Objective, tol: float) -> Floats:
    """Parameters that are best for a sample of the rows, or the identity if it is too small."""
    features, identity = objective.features, objective.identity
    made = partial(
        Features, scale=features.scale, clips=features.clips, smoothing=features.smoothing
    )
    best = partial(_best_of_sample, objective.map_, objective.regularization, made, tol)
    found = features.rows.sample(best, ROWS_PER_PARAMETER * len(identity))
    return identity if found is None else found


def _best_of_sample(
    map_: LinearMap,
    regularization: Regularization,
    made: Callable[[Rows], Features],
    tol: float,
    rows: Rows,
) -> Floats:
    objective = Objective(map_, made(rows), regularization)
    return best_parameters(objective, max(tol, 1e-4), max_iter=100).x

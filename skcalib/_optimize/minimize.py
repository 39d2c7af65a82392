"""Fits of linear maps by scipy.optimize: which method serves which problem of a fit, and why.

All fits that minimise are calls of :mod:`scipy.optimize`, of convex problems but for one:

- *Temperature scaling*, one parameter: ``root_scalar`` finds the zero of the slope by Halley's
  method, or between bounds. Where a few rows have determined it, ``minimize_scalar`` finds the best
  for the mixture, which is not convex (:mod:`skcalib._optimize.temperature`).
- *Vector and matrix maps of two classes*: a logistic regression of the three parameters that the
  log-odds under any linear map have, fitted as sigmoids are, in double precision.
- *Vector and matrix maps of more classes*: ``minimize`` with :class:`PreconditionedLBFGS` as its
  ``method``, and the preconditioners of :mod:`skcalib._optimize.maps`. Passes over more than
  ``FEW_ELEMENTS`` features are in the precision of the logits until the gradient norm is small or
  rounding hides progress, and then in double precision.
- *The same with up to* ``MANY_PARAMETERS`` *parameters*, for row-chunked Dask arrays, on which each
  pass costs a round trip to the workers, up to ``MANY_PRODUCTS``, and where L-BFGS does not
  converge in ``PATIENCE`` iterations: ``minimize`` with ``"trust-exact"`` and the whole Hessian.
- *Sigmoids and splines, K problems of a few parameters each*: ``minimize`` with a method that takes
  Newton steps for all of them at once (:mod:`skcalib._optimize.logistic`).
- *Slopes of an increasing function*: :mod:`skcalib._optimize.piecewise`. *Weights of a mixture*:
  Newton's method, each step of which is a call of ``nnls`` (:mod:`skcalib._optimize.mixture`): it
  takes 5 to 11 passes over the rows where "L-BFGS-B" takes 30 to 70, and a half to a fifth of the
  time. *Effects of features*, slopes and intercepts of levels: "L-BFGS-B"
  (:mod:`skcalib._optimize.effects`). *Class priors*: "trust-ncg" in their logarithms
  (:mod:`skcalib.meta._label_shift`). *Isotonic regression*: :mod:`skcalib._scores.isotonic`.

Measured times, as multiples of those of the method that is used, for vector and matrix maps of
single precision logits, default regularization and smoothing (``python
benchmarks/bench_solvers.py``, one thread). "L-BFGS-B" is that of SciPy, in coordinates in which the
preconditioner at the start is the unit matrix:

=============  ======================  ================  ===================  =================
rows, classes  "trust-exact", whole    preconditioned    "L-BFGS-B" of SciPy  parameters
               Hessian                 L-BFGS
=============  ======================  ================  ===================  =================
200 x 2        1.2 and 1.3             1.5 and 2.4       1.5 and 2.1          4 and 6
1000 x 2       1.4 and 1.5             2.0 and 2.0       2.2 and 1.6          4 and 6
1 000 000 x 2  1.8 and 5.2             2.1 and 1.7       4.6 and 2.2          4 and 6
1000 x 10      1.4 and 2.7             used              1.5 and 3.0          20 and 110
5000 x 10      1.8 and 8               used              1.4 and 2.2          20 and 110
300 000 x 10   2.5 and 6.5             used              1.4 and 1.1          20 and 110
5000 x 100     4.1 and not tried       used              2.1 and not tried    200 and 10 100
50 000 x 100   1.8 and not tried       used              1.7 and not tried    200 and 10 100
=============  ======================  ================  ===================  =================

Sigmoids of all classes at once by ``newton``, the method that is used, beside methods of SciPy
class by class, which are given gradients, and "trust-exact" Hessians as well:

=============  =============  ======  ==========
rows, classes  "trust-exact"  "BFGS"  "L-BFGS-B"
=============  =============  ======  ==========
200 x 2        1.8            3.2     2.1
1000 x 10      9.6            13.7    10.4
5000 x 10      4.4            7.1     6.2
5000 x 100     5.8            14.6    9.7
300 000 x 10   1.6            3.3     3.6
1 000 000 x 2  2.6            5.6     5.0
=============  =============  ======  ==========

An inexact Newton method, whose equations are solved by MINRES with the same preconditioner, took
1.1 to 2.1 times as long as L-BFGS with five classes or more, since each product with the Hessian
costs more than a gradient. The minimum for a sample of the rows as the start saved one or two of
ten passes, about what it costs.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import optimize
from scipy.optimize import OptimizeResult

from skcalib._optimize.logistic import TOLERANCE, Prior, RowSigmoids, fit_sigmoids
from skcalib._optimize.loss import MASKED_FEATURE, Objective
from skcalib._optimize.maps import Blocks
from skcalib._optimize.newton import parts_of
from skcalib._rows import Bools, Floats, Indices, Rows, arrays as xa

# More parameters than this have a Hessian that costs more to sum up than to do without.
MANY_PARAMETERS = 512

# And so have more than the first number where the rows, times the square of theirs, are more than
# the second: on a cluster as well a Hessian then costs more than the further passes of L-BFGS.
FEW_PARAMETERS, MANY_PRODUCTS = 64, 1 << 30

# Iterations of L-BFGS after which problems with a small Hessian are left to Newton's method.
PATIENCE = 60

# Number of differences that L-BFGS keeps, and of iterations between new preconditioners, each
# followed by another one where the next step leads.
HISTORY, RENEWAL = 20, 15

# Number of rows of a sample for each parameter: a minimum on fewer would be a poor start.
ROWS_PER_PARAMETER = 50

# For such tolerances and larger ones gradients in single precision are exact enough.
COARSE = 1e-4

# First radius of trust regions, in which the distance of the identity from zero is 1 or more, and
# the largest: where rows are nearly separable, the minimum is far.
RADII = {"initial_trust_radius": 100.0, "max_trust_radius": 1e100}

# Largest norm of a step, relative to that of the parameters, which is that of the identity or more:
# where the loss is nearly linear its curvature gives none.
LONGEST_STEP = 100.0

# Singular values of the Hessian below this share of the largest are zero, up to rounding.
RANK = 1e-13

# Sufficient decrease, as a share of what the slope promises; and where rounding hides the decrease,
# largest gradient norm after a step, as a share of that before.
ENOUGH, SHORTER = 1e-4, 0.9

# Rounding error of objectives, and shares of a step at which the line search ends, by precision.
NOISE = {"f": 1e-7, "d": 1e-12}
SMALLEST_SHARE = {"f": 0.05, "d": 1e-6}


def best_parameters(
    objective: Objective,
    tol: float,
    max_iter: int,
    start: Floats | None = None,
    blocks: Blocks | None = None,
) -> OptimizeResult:
    """Parameters at which the gradient norm of the objective, in double precision, is ``tol``.

    Found from ``start``, by default the identity, or the best for a sample of the rows; L-BFGS
    begins with ``blocks`` of the Hessian if they are known. Or the best parameters found, where
    ``max_iter`` iterations are not enough, where the objective has no minimum, or where rounding
    leaves no step that lowers it: then ``success`` is false.
    """
    is_local = objective.rows.is_local
    if start is not None:  # perhaps from a fit with other strengths
        x = objective.map_.balanced(start, objective.regularization, objective.n_classes)
    else:
        x = objective.identity if is_local else _start_of_sample(objective, tol)
    if objective.n_classes == 2 < len(x) and objective.ridge.all():  # and with offsets
        return _of_two_classes(objective, x, tol, max_iter)
    if len(x) > MANY_PARAMETERS:
        return lbfgs(objective, x, tol, max_iter, blocks)
    nit = 0
    many = len(x) > FEW_PARAMETERS and objective.rows.n_rows * len(x) ** 2 > MANY_PRODUCTS
    for method in (lbfgs, newton) if is_local or many else (newton, lbfgs):
        limit = min(PATIENCE, max_iter - nit) if method is lbfgs else max_iter - nit
        known = (blocks,) if method is lbfgs else ()
        solution = method(objective, x, tol, limit, *known)
        x, nit = solution.x, nit + solution.nit
        if solution.success or solution.fun < objective.separated or nit >= max_iter:
            break
    solution.nit = nit
    return solution


def _of_two_classes(
    objective: Objective, start: Floats, tol: float, max_iter: int
) -> OptimizeResult:
    r"""A logistic regression, whose three parameters stand for those of any linear map.

    With features :math:`f_0, f_1` of two classes, the log-odds of the second one are

    .. math:: s_1 - s_0 = \beta_0 f_0 + \beta_1 f_1 + \beta_2, \qquad \beta = T \theta,

    so that the log loss depends on :math:`\beta` alone. Each parameter in :math:`\theta` enters one
    of :math:`\beta`. Of those that give the same :math:`\beta`, the ridge penalty is least for

    .. math:: \theta_j - \text{identity}_j
        = \frac{T_{kj} / \text{ridge}_j}{\sum_i T_{ki}^2 / \text{ridge}_i} (\beta - \beta^0)_k,

    where it is :math:`\sum_k (\beta - \beta^0)_k^2 / \sum_i (T_{ki}^2 / \text{ridge}_i)`.
    """
    units, ridge, make, masks = np.eye(3), objective.ridge, objective.make_features, objective.masks
    difference = np.array([[-1.0, 1.0]])
    T = np.array([objective.map_.adjoint(difference, unit[None, :2]) for unit in units])
    T[:2] -= T[2]
    variance = (T**2 / ridge).sum(axis=1)
    identity, rows = T @ objective.identity, objective.rows

    def features(Z: Floats, _: Indices) -> tuple[list[Floats], Bools | None]:
        F = xa.double(Z) if make is None else make(xa.double(Z))
        masked = xa.namespace(F).any(F == MASKED_FEATURE, axis=1)[:, None] if masks else None
        return [F[:, :1], F[:, 1:]], None if masked is None else ~masked  # which are certain

    prior = Prior(identity, 2 * rows.weight * np.diag(1 / variance))
    sigmoids = RowSigmoids.of(rows, features, 1, prior, smooth=False)
    # A gradient of this norm or less: the last step squares the error.
    exact = min(TOLERANCE, tol / 10)
    found = fit_sigmoids(sigmoids, (T @ start)[None], tol=exact, max_iter=max_iter)
    x = objective.identity + ((found.x[0] - identity) / variance) @ T / ridge
    fun, jac = replace(objective, double=True).value_gradient(x)
    success = bool(np.linalg.norm(jac) <= tol)
    return OptimizeResult(x=x, fun=fun, jac=jac, nit=found.nit, success=success)


def newton(objective: Objective, start: Floats, tol: float, max_iter: int) -> OptimizeResult:
    """Newton's method in a trust region, with the whole Hessian, in double precision."""
    problem = replace(objective, double=True)
    fun, jac, hess = parts_of(problem.second_order, 3, start.shape)
    lowest = problem.separated

    def stop_below(intermediate_result: OptimizeResult) -> None:
        if intermediate_result.fun < lowest:
            raise StopIteration

    solution = optimize.minimize(
        fun, start, jac=jac, hess=hess, method="trust-exact",
        callback=stop_below if lowest > -np.inf else None,
        options={"gtol": tol, "maxiter": max_iter, **RADII},
    )  # fmt: skip
    # Along what changes nothing, trust regions are gone through to the end.
    if not np.all(problem.ridge):
        inverse = np.linalg.pinv(solution.hess, RANK, hermitian=True)
        solution.x = start + inverse @ (solution.hess @ (solution.x - start))
    # Where rounding hides how far a step lowers the objective, the gradient tells.
    solution.success = bool(np.linalg.norm(solution.jac) <= tol)
    while not (solution.success or solution.fun < lowest or solution.nit >= max_iter):
        step = np.linalg.lstsq(solution.hess, -solution.jac, rcond=RANK)[0]
        x = solution.x + step
        gradient = jac(x)
        if not np.linalg.norm(gradient) < SHORTER * np.linalg.norm(solution.jac):
            break
        solution.update(x=x, fun=fun(x), jac=gradient, hess=hess(x), nit=solution.nit + 1)
        solution.success = bool(np.linalg.norm(gradient) <= tol)
    return solution


def lbfgs(
    objective: Objective, start: Floats, tol: float, max_iter: int, blocks: Blocks | None = None
) -> OptimizeResult:
    """L-BFGS, in the precision of the rows as far as that goes, and then in double precision."""
    # A start that is near needs one preconditioner.
    age = 0 if np.array_equal(start, objective.identity) else 1
    method = PreconditionedLBFGS(partial(objective.map_.blocks, objective), age, blocks)
    # Passes over many single precision features are much faster than those in double precision.
    stages = [] if objective.few or objective.dtype == np.float64 else [objective]
    x, nit = start, 0
    for stage in [*stages, replace(objective, double=True)]:
        solution = optimize.minimize(
            stage.value_gradient,
            x,
            jac=True,
            method=method,
            options={
                "gtol": tol,
                "maxiter": max_iter - nit,
                "lowest": stage.separated,
                "precision": stage.dtype.char,
            },
        )
        x, nit = solution.x, nit + solution.nit
        if solution.success and tol >= COARSE:
            break
    solution.nit = nit
    return solution


class PreconditionedLBFGS:
    """L-BFGS (Nocedal 1980) with a preconditioner as the initial inverse Hessian.

    A ``method`` of :func:`scipy.optimize.minimize` that stops where the gradient norm is at most
    ``gtol``, where the value is below ``lowest``, or where no step is accepted. ``preconditioner``
    gives blocks at a point, whose ``solve`` leads from gradients to steps, and is asked every few
    iterations: at the first two of them, with an ``age`` of 1 at the first alone, or with known
    ``blocks`` at neither. A second call
    goes on with the differences of the first, as of the same function in another precision.
    """

    def __init__(
        self,
        preconditioner: Callable[[Floats], Blocks],
        age: int = 0,
        blocks: Blocks | None = None,
    ) -> None:
        self.preconditioner = preconditioner
        self.pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=HISTORY)
        self.age = age
        self.blocks: Blocks
        if blocks is not None:
            self.age, self.blocks = 2, blocks

    def __call__(
        self,
        fun: Callable[..., float],
        x0: Floats,
        args: tuple[Any, ...] = (),
        *,
        jac: Callable[..., Floats],
        gtol: float = 1e-5,
        maxiter: int = 200,
        lowest: float = -np.inf,
        precision: str = "d",
        **_: Any,
    ) -> OptimizeResult:
        """Steps from ``x0`` until the gradient norm is at most ``gtol``, or none is accepted."""

        def at(x: Floats, nit: int) -> OptimizeResult:
            value, gradient = float(fun(x, *args)), jac(x, *args)
            success = bool(np.linalg.norm(gradient) <= gtol)
            return OptimizeResult(x=x, fun=value, jac=gradient, nit=nit, success=success)

        here = at(x0, 0)
        while not (here.success or here.fun < lowest or here.nit >= maxiter):
            step = self._direction(here)
            longest = LONGEST_STEP * (1 + float(np.linalg.norm(here.x)))
            step *= min(1.0, longest / max(float(np.linalg.norm(step)), xa.TINY))
            ahead = _line_search(partial(at, nit=here.nit + 1), here, step, precision)
            if ahead is None:
                break
            s, y = ahead.x - here.x, ahead.jac - here.jac
            if (sy := float(s @ y)) > 0:
                self.pairs.append((s, y, sy))
            here = ahead
        return here

    def _direction(self, here: OptimizeResult) -> Floats:
        """The approximate inverse Hessian times the negative gradient, by the two loops."""
        if self.age % RENEWAL < 2:
            self.blocks = self.preconditioner(here.x)
        self.age += 1
        shares, step = [], -here.jac
        for s, y, sy in reversed(self.pairs):
            shares.append(float(s @ step) / sy)
            step = step - shares[-1] * y
        step = self.blocks.solve(step)
        for s, y, sy in self.pairs:
            step += (shares.pop() - float(y @ step) / sy) * s
        if here.jac @ step >= 0 and self.age > 1:  # anew, since rounding has spoilt the differences
            self.pairs.clear()
            self.age = 0
            return self._direction(here)
        return step


def _line_search(
    at: Callable[[Floats], OptimizeResult],
    here: OptimizeResult,
    step: Floats,
    precision: str,
) -> OptimizeResult | None:
    """The end of the step, or of the largest tried share of it that is accepted, if any."""
    slope, noise = float(here.jac @ step), NOISE[precision] * abs(here.fun)
    short = SHORTER * np.linalg.norm(here.jac)
    share = 1.0 if slope < 0 else 0.0
    while share > SMALLEST_SHARE[precision]:
        ahead = at(here.x + share * step)
        rise = ahead.fun - here.fun
        if rise <= ENOUGH * share * slope or (rise <= noise and np.linalg.norm(ahead.jac) < short):
            return ahead
        # Between the minimum of a parabola and that of the tangents at both ends.
        end = float(ahead.jac @ step)
        tangents = (share * end - rise) / share
        shorter = 0.5 * (tangents - slope) / (end - slope) if slope < end < np.inf else 0.0
        share *= min(max(shorter, 0.1), 0.5)
    return None


def _start_of_sample(objective: Objective, tol: float) -> Floats:
    """Parameters that are best for a sample of the rows, or the identity if it is too small."""
    map_, regularization = objective.map_, objective.regularization
    features = objective.make_features, objective.masks

    def best(rows: Rows) -> Floats:
        of_sample = Objective(map_, rows, regularization, *features)
        x: Floats = best_parameters(of_sample, max(tol, 1e-4), max_iter=100).x
        return x

    x = objective.rows.sample(best, ROWS_PER_PARAMETER * len(objective.identity))
    return objective.identity if x is None else x

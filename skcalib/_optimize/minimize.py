"""How every fit minimizes: the method of scipy.optimize for each problem, and L-BFGS.

All fits that minimize are calls of :mod:`scipy.optimize`. All problems are convex except one:

- *Temperature scaling*, one parameter: ``root_scalar`` finds the zero of the slope by Halley's
  method, or between bounds. If a few rows determine the zero, ``minimize_scalar`` finds the best
  factor for the mixture, which is not convex (:mod:`skcalib._optimize.temperature`).
- *Vector and matrix maps*: ``minimize`` with :class:`PreconditionedLBFGS` as its ``method``, and
  the preconditioners of :mod:`skcalib._optimize.maps`. Passes over more features than
  ``linear.FEW_ELEMENTS`` are in the precision of the logits until the gradient norm is small or
  rounding hides progress, and then in double precision. For few rows of two classes with a ridge
  penalty the method is :func:`~skcalib._optimize.newton.newton` with the whole Hessian.
- *Sigmoids and splines, K problems of a few parameters each*: ``minimize`` with ``newton``, which
  takes Newton steps for all of them at once (:mod:`skcalib._optimize.logistic`).
- *Slopes of an increasing function*: :mod:`skcalib._optimize.piecewise`. *Weights of a mixture*:
  Newton's method, with a call of ``nnls`` for each step (:mod:`skcalib._optimize.mixture`): it
  takes 5 to 11 passes over the rows where "L-BFGS-B" takes 30 to 70, and a half to a fifth of the
  time. *Effects of features*, slopes and intercepts of levels: "L-BFGS-B"
  (:mod:`skcalib.conditional._effects`). *Class priors*: "trust-ncg" in their logarithms
  (:mod:`skcalib.meta._label_shift`). *Isotonic regression*: :mod:`skcalib._scores.isotonic`.

Processor times as multiples of the method in use, for vector and matrix maps of single precision
logits with ``alpha=1`` (``python benchmarks/bench_solvers.py``, one thread). "L-BFGS-B" is SciPy's
method, in coordinates in which the preconditioner at the start is the unit matrix:

=============  ========  ======================  ===================
rows, classes  in use    "trust-exact", whole    "L-BFGS-B" of SciPy
                         Hessian
=============  ========  ======================  ===================
200 x 2        newton    1.2 and 1.0             1.7 and 1.7
1000 x 2       newton    1.1 and 1.2             1.7 and 1.6
300 000 x 2    L-BFGS    1.0 and 1.4             2.6 and 1.4
1000 x 10      L-BFGS    1.3 and 2.2             1.4 and 3.0
5000 x 10      L-BFGS    3.2 and 5.2             1.7 and 2.3
300 000 x 10   L-BFGS    2.2 and 6.2             2.0 and 2.3
5000 x 100     L-BFGS    3.1 and not tried       2.1 and not tried
=============  ========  ======================  ===================

Sigmoids of all classes at once by ``newton``, beside methods of SciPy class by class, which are
given gradients, and "trust-exact" Hessians as well:

=============  =============  ======  ==========
rows, classes  "trust-exact"  "BFGS"  "L-BFGS-B"
=============  =============  ======  ==========
200 x 2        2.1            2.9     2.0
1000 x 10      6.8            11.1    8.1
5000 x 10      3.3            5.1     4.5
5000 x 100     4.1            9.1     6.1
300 000 x 10   1.7            3.7     3.4
300 000 x 2    2.2            4.7     4.3
=============  =============  ======  ==========

An inexact Newton method with MINRES and the same preconditioner took 1.1 to 2.1 times as long
as L-BFGS with five classes or more, since each product with the Hessian costs more than a gradient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from skcalib._rows import Floats

# Number of iterations between new preconditioners.
RENEWAL = 15

# Largest norm of a step, relative to the norm of the parameters (at least 1): where the loss is
# nearly linear, its curvature gives no bound.
LONGEST_STEP = 100.0

# Sufficient decrease, as a share of the slope; and where rounding hides the decrease, largest
# gradient norm after a step, as a share of the norm before.
ENOUGH, SHORTER = 1e-4, 0.9

# Rounding error of objectives, and shares of a step at which the line search ends, by precision.
ROUNDING_NOISE = {"f": 1e-7, "d": 1e-12}
SMALLEST_SHARE = {"f": 0.05, "d": 1e-6}


class PreconditionedLBFGS:
    """L-BFGS (Nocedal 1980) with a preconditioner as the initial inverse Hessian.

    A ``method`` of :func:`scipy.optimize.minimize` that stops where the gradient norm is at most
    ``gtol``, where the value is below ``lowest``, or where no step is accepted. ``preconditioner``
    returns blocks at a point; their ``solve`` turns gradients into steps. It is called in the first
    iteration, unless ``blocks`` are given, and again every ``RENEWAL`` iterations. A second call of
    the method keeps the differences of the first, for the same function in another precision.
    """

    def __init__(self, preconditioner: Callable[[Floats], Any], blocks: Any = None) -> None:
        self.preconditioner = preconditioner
        self.pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=20)
        self.blocks: Any = blocks
        self.age = 0

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
        """Take steps from ``x0`` until the gradient norm is at most ``gtol``, or no step helps."""

        def at(x: Floats, nit: int) -> OptimizeResult:
            value, gradient = float(fun(x, *args)), jac(x, *args)
            success = bool(np.linalg.norm(gradient) <= gtol)
            return OptimizeResult(x=x, fun=value, jac=gradient, nit=nit, success=success)

        here = at(x0, 0)
        while not (here.success or here.fun < lowest or here.nit >= maxiter):
            step = self._direction(here)
            longest = LONGEST_STEP * (1 + float(np.linalg.norm(here.x)))
            step *= min(1.0, longest / max(float(np.linalg.norm(step)), np.finfo(float).tiny))
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
        if self.blocks is None or self.age == RENEWAL:
            self.blocks, self.age = self.preconditioner(here.x), 0
        self.age += 1
        shares, step = [], -here.jac
        for s, y, sy in reversed(self.pairs):
            shares.append(float(s @ step) / sy)
            step = step - shares[-1] * y
        step = self.blocks.solve(step)
        for s, y, sy in self.pairs:
            step += (shares.pop() - float(y @ step) / sy) * s
        if here.jac @ step >= 0 and self.pairs:  # no descent, by rounding of the pairs: start anew
            self.pairs.clear()
            self.blocks = None
            return self._direction(here)
        return step


def _line_search(
    at: Callable[[Floats], OptimizeResult],
    here: OptimizeResult,
    step: Floats,
    precision: str,
) -> OptimizeResult | None:
    """The point after the step, or after the first share of it that is accepted, or None."""
    slope, noise = float(here.jac @ step), ROUNDING_NOISE[precision] * abs(here.fun)
    short = SHORTER * np.linalg.norm(here.jac)
    share = 1.0 if slope < 0 else 0.0
    while share > SMALLEST_SHARE[precision]:
        ahead = at(here.x + share * step)
        rise = ahead.fun - here.fun
        if rise <= ENOUGH * share * slope or (rise <= noise and np.linalg.norm(ahead.jac) < short):
            return ahead
        # The mean of two estimates of the minimum: of a parabola with the slopes at both ends, and
        # the point where the tangents at both ends meet.
        end = float(ahead.jac @ step)
        tangents = (share * end - rise) / share
        shorter = 0.5 * (tangents - slope) / (end - slope) if slope < end < np.inf else 0.0
        share *= min(max(shorter, 0.1), 0.5)
    return None

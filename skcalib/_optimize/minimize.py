"""How every fit minimizes: the methods of scipy.optimize, L-BFGS, and Newton's method.

Most fits call :mod:`scipy.optimize`. All problems are convex except the loss with saturated rows:

- *Temperature scaling*, one parameter: Halley's method finds the zero of the slope, or ``brentq``
  between bounds (:mod:`skcalib._optimize.temperature`). If saturated rows determine the zero, a
  grid precedes the search, since the loss of the mixture is not convex.
- *Vector and matrix maps*: ``minimize`` with :func:`preconditioned_lbfgs` as its ``method``, and
  the preconditioners of :mod:`skcalib._optimize.maps`.
- *Sigmoids and splines, K problems with few parameters each*: ``minimize`` with :func:`newton`,
  which takes Newton steps for all at once (:mod:`skcalib._optimize.logistic`). One pass over the
  rows sums the gradients and Hessians of all problems. SciPy's methods, called K times, would take
  K times as many passes.
- *Slopes of an increasing function*: also ``newton`` (:mod:`skcalib._optimize.piecewise`).
- *Mixture weights*: Newton's method, with ``nnls`` for each step
  (:mod:`skcalib._optimize.mixture`). It needs 5 to 11 passes over the rows instead of 30 to 70 with
  "L-BFGS-B", and is two to five times as fast.
- *Feature effects*, slopes and level intercepts: "L-BFGS-B" (:mod:`skcalib.conditional._effects`).
  *Class priors*: "trust-ncg" in their logarithms (:mod:`skcalib.meta._prior_shift`). *Isotonic
  regression*: :mod:`skcalib._scores.isotonic`.

CPU time with "L-BFGS-B" divided by CPU time with the method in use, for vector and matrix maps,
float32 logits and ``alpha=1``. The coordinates make the preconditioner at the start the unit matrix
(``python benchmarks/bench_solvers.py``, one thread):

=============  ======  ======
rows, classes  vector  matrix
=============  ======  ======
200 x 2        1.4     1.7
1000 x 2       1.4     1.6
300 000 x 2    2.1     2.0
1000 x 10      1.4     2.4
5000 x 10      1.3     2.8
300 000 x 10   1.9     1.8
5000 x 100     2.3
=============  ======  ======

CPU time with SciPy's methods class by class, divided by CPU time with ``newton`` for all classes at
once. SciPy's methods get gradients, and "trust-exact" gets Hessians as well:

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
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, lsq_linear

from skcalib._typing import Floats

Function = Callable[..., Any]


def preconditioned_lbfgs(
    fun: Function,
    x0: Floats,
    args: tuple[()] = (),  # noqa: ARG001 (an argument of every method of SciPy)
    *,
    jac: Function,
    preconditioner: Callable[[Floats], Callable[[Floats], Floats]],
    precondition: Callable[[Floats], Floats] | None = None,
    gtol: float = 1e-5,
    maxiter: int = 200,
    lowest: float = -np.inf,
    noise: float = 1e-12,
    **_: Any,
) -> OptimizeResult:
    """Minimize by L-BFGS (Nocedal 1980) with a preconditioner as the initial inverse Hessian.

    Use it as a ``method`` of :func:`scipy.optimize.minimize`. It stops when the gradient norm is at
    most ``gtol``, the value is below ``lowest``, or no step is accepted. ``preconditioner(x)``
    returns a function that multiplies gradients with the approximate inverse Hessian. It is called
    every 15 iterations, and at the start unless ``precondition`` is this function. ``noise`` is the
    relative rounding error in ``fun``.
    """
    here = OptimizeResult(x=x0, fun=fun(x0), jac=jac(x0), nit=0)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=20)
    while np.linalg.norm(here.jac) > gtol and here.fun >= lowest and here.nit < maxiter:
        if precondition is None or (here.nit > 0 and here.nit % 15 == 0):
            precondition = preconditioner(here.x)
        step = -_inverse_hessian(here.jac, pairs, precondition)
        if here.jac @ step >= 0 and pairs:  # rounding: forget the pairs
            pairs.clear()
            precondition = preconditioner(here.x)
            step = -precondition(here.jac)
        # Bound the step where the loss is nearly linear and its curvature does not.
        longest = 100 * (1 + float(np.linalg.norm(here.x)))
        step *= min(1.0, longest / max(float(np.linalg.norm(step)), np.finfo(float).tiny))
        new = _line_search(fun, jac, here, step, noise * abs(here.fun))
        if new is None:
            break
        s, y = new.x - here.x, new.jac - here.jac
        if (sy := float(s @ y)) > 0:
            pairs.append((s, y, sy))
        here = new
    here.success = bool(np.linalg.norm(here.jac) <= gtol)
    return here


def _inverse_hessian(
    gradient: Floats, pairs: deque[tuple[Floats, Floats, float]], precondition: Function
) -> Floats:
    """Multiply a gradient (p,) by the approximate inverse Hessian, in the two L-BFGS loops.

    ``pairs`` are changes in the parameters (p,) and gradients (p,), and their scalar products.
    """
    shares, q = [], gradient
    for s, y, sy in reversed(pairs):
        shares.append(float(s @ q) / sy)
        q = q - shares[-1] * y
    step: Floats = precondition(q)
    for s, y, sy in pairs:
        step += (shares.pop() - float(y @ step) / sy) * s
    return step


def _line_search(
    fun: Function, jac: Function, here: OptimizeResult, step: Floats, noise: float
) -> OptimizeResult | None:
    """Shorten a step (p,) until it is accepted, and return the new point, or None.

    A step is accepted if it lowers the value sufficiently. If values differ by at most ``noise``,
    it is accepted if it shortens the gradient.
    """
    slope, short = float(here.jac @ step), 0.9 * np.linalg.norm(here.jac)
    share = 1.0 if slope < 0 else 0.0
    while share > 1e-6:
        x = here.x + share * step
        new = OptimizeResult(x=x, fun=fun(x), jac=jac(x), nit=here.nit + 1)
        rise = new.fun - here.fun
        if rise <= 1e-4 * share * slope or (rise <= noise and np.linalg.norm(new.jac) < short):
            return new
        # The mean of two estimates: the minimum of the parabola with the slopes at both ends, and
        # the point where the tangents at both ends meet.
        end = float(new.jac @ step)
        tangents = (share * end - rise) / share
        shorter = 0.5 * (tangents - slope) / (end - slope) if slope < end < np.inf else 0.0
        share *= min(max(shorter, 0.1), 0.5)
    return None


# Curvatures are clipped at this share of the curvatures at the start, and correlations at 1 minus
# this share: otherwise equations would be singular.
SMALLEST_CURVATURE = 1e-12


def cached_parts(
    at: Callable[[Floats], tuple[Any, ...]], n_parts: int, shape: tuple[int, ...]
) -> list[Callable[[Floats], Any]]:
    """Split a function with ``n_parts`` results, such as value and gradient, into functions.

    ``at`` takes parameters of a ``shape``; the functions take flat parameters. SciPy asks for the
    results one by one. They are cached by the bytes of the parameters, so that ``at`` passes over
    the rows once.
    """
    latest = lru_cache(maxsize=4)(lambda x: at(np.frombuffer(x).reshape(shape)))

    def part(k: int) -> Callable[[Floats], Any]:
        return lambda x: latest(x.tobytes())[k]

    return [part(k) for k in range(n_parts)]


def newton(
    derivatives: Callable[[Floats], tuple[Floats, Floats]],
    x0: Floats,
    args: tuple[()] = (),  # noqa: ARG001
    *,
    shape: tuple[int, int],
    low: Floats | None = None,
    tol: float | Floats = 1e-10,
    maxiter: int = 100,
    first_length: Callable[[Floats], Floats] | None = None,
    **_: Any,
) -> OptimizeResult:
    """Minimize a sum of K convex functions, each with d parameters, by Newton's method.

    Use it as a ``method`` of :func:`scipy.optimize.minimize`, with the ``shape`` (K, d) of the
    parameters. ``derivatives`` maps parameters (K, d) to gradients (K, d) and Hessians (K, d, d).
    Values are not needed: if a step ends on a rise, more than half as steep as the descent at its
    start, linear interpolation between the slopes shortens it. Step lengths differ between
    functions. A step that would cross a lower bound ``low`` (K, d) ends at the minimum of the
    quadratic model within the bounds. The search ends when a step promises a decrease by at most
    ``tol`` (K,) / 2. The last step is taken without an evaluation at its end, since its error is
    quadratic in the step. ``first_length`` returns the first step lengths (K,) for twice the
    promised decreases (K,).
    """
    x = x0.reshape(shape)
    gradient, hessian = derivatives(x)
    smallest = SMALLEST_CURVATURE * np.maximum(np.einsum("kii->ki", hessian), 0)
    step, n_passes = _steps(x, gradient, hessian, smallest, low), 1
    slope = np.einsum("kd,kd->k", gradient, step)
    length: Floats = np.ones(len(x)) if first_length is None else first_length(-slope)
    while not (done := -slope <= tol).all() and n_passes < maxiter:
        n_passes += 1
        trial = x + length[:, None] * step
        new_gradient, new_hessian = derivatives(trial)
        rise = np.einsum("kd,kd->k", new_gradient, step)
        good = (rise <= -0.5 * slope) & ~done
        ended = good | done
        shorter = np.maximum(slope / (slope - np.maximum(rise, np.finfo(float).tiny)), 0.1)
        length = np.where(ended, 1, length * np.minimum(shorter, 0.9))
        moved = good[:, None]
        hessian = np.where(moved[..., None], new_hessian, hessian)
        step = np.where(moved, _steps(trial, new_gradient, hessian, smallest, low), step)
        x, gradient = np.where(moved, trial, x), np.where(moved, new_gradient, gradient)
        slope = np.einsum("kd,kd->k", gradient, step)
    x = x + np.where(done[:, None], step, 0)
    return OptimizeResult(x=x, nfev=n_passes, success=bool(done.all()))


def _steps(
    x: Floats, gradient: Floats, hessian: Floats, smallest: Floats, low: Floats | None
) -> Floats:
    """Return Newton steps (K, d) within the lower bounds ``low`` (K, d).

    ``x``, ``gradient`` and the smallest curvatures ``smallest`` are (K, d); ``hessian`` is
    (K, d, d).
    """
    diagonal = np.einsum("kii->ki", hessian)
    # Parameters without curvature at the start do not move.
    size = np.where(smallest > 0, np.sqrt(np.maximum(diagonal, smallest)), np.inf)
    # Correlations are well conditioned for all units of the features.
    scaled = hessian / (size[:, :, None] * size[:, None, :])
    np.einsum("kii->ki", scaled)[:] = 1 + SMALLEST_CURVATURE
    step: Floats = -np.linalg.solve(scaled, (gradient / size)[..., None])[..., 0] / size
    if low is not None:
        for k in set(np.nonzero(x + step < low)[0].tolist()):
            step[k] = _bounded_step(x[k], gradient[k], hessian[k], low[k])
    return step


def _bounded_step(x: Floats, gradient: Floats, hessian: Floats, low: Floats) -> Floats:
    """Return the step (d,) that minimizes a quadratic function above the bounds ``low`` (d,).

    ``x`` and ``gradient`` are (d,); ``hessian`` is (d, d).
    """
    curvatures, basis = np.linalg.eigh(hessian)
    roots = np.sqrt(np.maximum(curvatures, SMALLEST_CURVATURE * max(curvatures[-1], 1)))
    # The function is half the squared residual of linear equations. (scipy.optimize.nnls does not
    # always converge in SciPy 1.12.)
    solution = lsq_linear(
        roots[:, None] * basis.T,
        -(gradient @ basis) / roots,
        (low - x, np.inf),
        method="bvls",
        max_iter=100 * len(x),
    )
    return solution.x

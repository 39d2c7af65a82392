"""Newton's method for many small convex problems at once, as a ``method`` of SciPy.

:func:`newton` minimizes the sum of K convex functions, each with d parameters: the sigmoids for K
classes or, with K = 1, the slopes of one function. The Hessian consists of K blocks (d, d). One
pass over the rows sums the blocks and the gradient. SciPy's methods, called K times, would take K
times as many passes. Usage::

    fun, jac, hess = cached_parts(value_gradient_and_hessian, 3, x0.shape)
    scipy.optimize.minimize(fun, x0, jac=jac, hess=hess, method=newton)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize

from skcalib._typing import Floats

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
    fun: Callable[[Floats], float],  # noqa: ARG001 (an argument of every method of SciPy)
    x0: Floats,
    args: tuple[()] = (),  # noqa: ARG001
    *,
    jac: Callable[[Floats], Floats],
    hess: Callable[[Floats], Floats],
    bounds: Sequence[tuple[float, float]] | None = None,
    tol: float | Floats = 1e-10,
    maxiter: int = 100,
    first_length: Callable[[Floats], Floats] | None = None,
    **_: Any,
) -> optimize.OptimizeResult:
    """Minimize a sum of K convex functions, each with d parameters, by Newton's method.

    Step lengths differ between functions. Only lower bounds are observed: a step that would cross a
    bound ends at the minimum of the quadratic model within the bounds. If a step ends on a rise,
    more than half as steep as the descent at its start, linear interpolation between the slopes
    shortens it. This suits convex functions and needs derivatives only: ``fun`` is not called. The
    search ends when a step promises a decrease by at most ``tol`` (K,) / 2. The last step is taken
    without an evaluation at its end, since its error is quadratic in the step. ``first_length``
    returns the first step lengths (K,) for twice the promised decreases (K,).
    """
    d = (hessian := hess(x0)).shape[-1]  # a single function may have a Hessian (d, d)
    shape, blocks = (x0.size // d, d), (-1, d, d)
    x, gradient, hessian = x0.reshape(shape), jac(x0).reshape(shape), hessian.reshape(blocks)
    low = None if bounds is None else np.reshape([low for low, _ in bounds], shape)
    smallest = SMALLEST_CURVATURE * np.maximum(np.einsum("kii->ki", hessian), 0)
    step, n_passes = _steps(x, gradient, hessian, smallest, low), 1
    slope = np.einsum("kd,kd->k", gradient, step)
    length: Floats = np.ones(len(x)) if first_length is None else first_length(-slope)
    while not (done := -slope <= tol).all() and n_passes < maxiter:
        n_passes += 1
        trial = x + length[:, None] * step
        new_gradient = jac(trial.ravel()).reshape(shape)
        rise = np.einsum("kd,kd->k", new_gradient, step)
        good = (rise <= -0.5 * slope) & ~done
        ended = good | done
        shorter = np.maximum(slope / (slope - np.maximum(rise, np.finfo(float).tiny)), 0.1)
        length = np.where(ended, 1, length * np.minimum(shorter, 0.9))
        moved = good[:, None]
        hessian = np.where(moved[..., None], hess(trial).reshape(blocks), hessian)
        step = np.where(moved, _steps(trial, new_gradient, hessian, smallest, low), step)
        x, gradient = np.where(moved, trial, x), np.where(moved, new_gradient, gradient)
        slope = np.einsum("kd,kd->k", gradient, step)
    return optimize.OptimizeResult(
        x=(x + np.where(done[:, None], step, 0)).ravel(),
        jac=gradient.ravel(),
        hess=hessian,  # where the last step began
        nit=n_passes - 1,
        nfev=n_passes,
        success=bool(done.all()),
    )


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
    # Correlations are well conditioned, whatever the units of the features.
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
    solution = optimize.lsq_linear(
        roots[:, None] * basis.T,
        -(gradient @ basis) / roots,
        (low - x, np.inf),
        method="bvls",
        max_iter=100 * len(x),
    )
    return solution.x

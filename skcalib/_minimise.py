r"""Log loss of linear maps of logits, minimised by Newton's method.

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
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize, root_scalar
from scipy.sparse.linalg import LinearOperator, cg

from ._rows import both_columns, sum_rows

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

# A temperature below 1e-4 or above 1e6 times the mean range of a row of logits leaves nothing
# but zeros and ones, or nothing but 1/K: nobody needs the loss minimised beyond.
SMALLEST_SCALE, LARGEST_SCALE = 1e-6, 1e4
# The first guess comes from one row in so many (but not fewer than the second number).
SAMPLE_EVERY, SAMPLE_ROWS = 64, 512
# Where the gradient is shorter, a step changes the loss by little more than its rounding.
RESOLVED_GRADIENT = 1e-6


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


def total_weight(y: Indices, w: Floats | None) -> float:
    """The N that turns sums over rows into means."""
    return float(len(y) if w is None else w.sum())


# --------------------------------------------------------------------------------------
# One parameter: the scale b of scores b Z, which is 1 / temperature.


@dataclass(frozen=True)
class Scale:
    """The scale at which the log loss of ``scale * Z`` is least, or where the search ended."""

    value: float
    outcome: Literal["minimum", "separable", "hopeless", "constant"]


def fit_scale(Z: Floats, y: Indices, w: Floats | None) -> Scale:
    r"""The scale ``b > 0`` that minimises the log loss of scores ``b Z``.

    The loss is convex in ``b``, so its slope increases and the minimum is the only zero of the
    slope. A zero is bracketed on a sample of the rows and then found by Newton steps on all of
    them, each one pass; the error squares at every step, and the last one is below 1e-5, so
    that what is left is of the order of 1e-10. Where Newton's method does not settle (no
    minimum, or a sample that misleads), the bracketing search runs over all rows.
    """

    def slope(b: float) -> Floats:
        return _summed_slope(b, Z, y, w)

    start = _bracketed_scale(*_sample(Z, y, w), tolerance=1e-2)
    if start.outcome == "minimum":
        found = _newton_scale(slope, start.value)
        if found is not None:
            return Scale(found, "minimum")
    return _bracketed_scale(Z, y, w, tolerance=1e-12)


def _summed_slope(b: float, Z: Floats, y: Indices, w: Floats | None) -> Floats:
    return sum_rows(lambda *block: scale_slope(b, *block), Z, y, w, scratch=2)


def scale_slope(
    b: float,
    Z: Floats,
    y: Indices,
    w: Floats | None,
    U: Floats | None = None,
    P: Floats | None = None,
) -> Floats:
    """First and second derivative by ``b`` of the summed log loss of ``b Z``: shape (2,).

    With probabilities ``p`` the slope of a row is ``E_p[z] - z_y``, its curvature ``Var_p[z]``.
    ``U`` and ``P`` are scratch arrays like ``Z``.
    """
    Z, U, P = _with_both_columns(Z, U, P)
    U = np.subtract(Z, Z.max(axis=1, keepdims=True), out=U)
    P = np.multiply(U, b, out=P, dtype=U.dtype)
    np.exp(P, out=P)
    total = P.sum(axis=1)
    mean = np.einsum("ij,ij->i", P, U) / total
    P *= U
    square = np.einsum("ij,ij->i", P, U) / total
    slope = mean - U[np.arange(len(U)), y]
    return np.array([_weighted_sum(slope, w), _weighted_sum(square - mean**2, w)])


def _with_both_columns(Z: Floats, *scratch: Floats | None) -> tuple[Any, ...]:
    """Logits with one column per class, and the scratch arrays if they are still like them."""
    both = both_columns(Z)
    return both, *(scratch if both is Z else [None] * len(scratch))


def _newton_scale(slope: Callable[[float], Floats], start: float) -> float | None:
    """Zero of the slope next to ``start``, or None if there is none within a factor of 4."""

    def relative(r: float) -> tuple[float, float]:
        first, second = slope(start * min(max(r, 0.25), 4.0))
        return first, max(start * second, np.finfo(float).tiny)

    found = root_scalar(relative, x0=1.0, fprime=True, method="newton", xtol=1e-5, maxiter=8)
    return float(start * found.root) if found.converged and 0.25 < found.root < 4.0 else None


def _bracketed_scale(Z: Floats, y: Indices, w: Floats | None, tolerance: float) -> Scale:
    """Zero of the slope between two bounds, to a relative tolerance; robust, some 15 passes."""
    spread = float(sum_rows(_ranges, Z, w)) / total_weight(y, w)
    if spread == 0:
        return Scale(1.0, "constant")
    low, high = SMALLEST_SCALE / spread, LARGEST_SCALE / spread

    def slope(log_b: float) -> float:
        return _summed_slope(np.exp(log_b), Z, y, w)[0]

    if slope(np.log(low)) >= 0:
        return Scale(low, "hopeless")
    if slope(np.log(high)) <= 0:
        return Scale(high, "separable")
    root = root_scalar(slope, bracket=(np.log(low), np.log(high)), method="brentq", xtol=tolerance)
    return Scale(float(np.exp(root.root)), "minimum")


def _ranges(Z: Floats, w: Floats | None) -> Floats:
    Z = both_columns(Z)
    return _weighted_sum(Z.max(axis=1) - Z.min(axis=1), w)


def _weighted_sum(values: Floats, w: Floats | None) -> Any:
    """Sum in float64 of one value per row."""
    return values.sum(dtype=np.float64) if w is None else w @ values


def _sample(Z: Floats, y: Indices, w: Floats | None) -> tuple[Floats, Indices, Floats | None]:
    """Every so-manieth row; all rows where a sample would be too small to be of use."""
    step = min(SAMPLE_EVERY, len(y) // SAMPLE_ROWS)
    if step < 2 or (w is not None and not w[::step].any()):
        return Z, y, w
    return Z[::step], y[::step], None if w is None else w[::step]


# --------------------------------------------------------------------------------------
# Many parameters: any linear map.


def loss_gradient(
    theta: Floats, map_: LinearMap, Z: Floats, y: Indices, w: Floats | None
) -> tuple[float, Floats]:
    """Mean log loss and its gradient (p,) at ``theta``: one pass over the rows."""
    theta = theta.astype(Z.dtype, copy=False)

    def block(Z: Floats, y: Indices, w: Floats | None, S: Floats) -> Floats:
        Z, S = _with_both_columns(Z, S)
        rows = np.arange(len(Z))
        S = _centred_scores(theta, map_, Z, S)
        of_label = S[rows, y]
        R = np.exp(S, out=S)
        total = R.sum(axis=1)
        loss = _weighted_sum(np.log(total) - of_label, w)
        R *= _per_row(1 / total, w)
        R[rows, y] -= 1 if w is None else w
        return np.append(loss, map_.adjoint(R, Z))

    total = sum_rows(block, Z, y, w, scratch=1, blas=True) / total_weight(y, w)
    return float(total[0]), total[1:]


def hessian_product(
    theta: Floats, v: Floats, map_: LinearMap, Z: Floats, y: Indices, w: Floats | None
) -> Floats:
    """Hessian (p, p) of the mean log loss at ``theta`` times ``v`` (p,): one pass."""
    theta, v = theta.astype(Z.dtype, copy=False), v.astype(Z.dtype, copy=False)

    def block(Z: Floats, w: Floats | None, S: Floats, V: Floats) -> Floats:
        Z, S, V = _with_both_columns(Z, S, V)
        S = _centred_scores(theta, map_, Z, S)
        P = np.exp(S, out=S)
        total = P.sum(axis=1)
        V = map_.scores(v, Z, out=V)
        V -= _per_row(np.einsum("ij,ij->i", P, V) / total, None)
        V *= P
        V *= _per_row(1 / total, w)
        return map_.adjoint(V, Z).astype(np.float64, copy=False)

    return sum_rows(block, Z, w, scratch=2, blas=True) / total_weight(y, w)


def _centred_scores(theta: Floats, map_: LinearMap, Z: Floats, out: Floats | None) -> Floats:
    """Scores whose largest in each row is 0, so that their exponentials are safe."""
    S = map_.scores(theta, Z, out=out)
    S -= S.max(axis=1, keepdims=True)
    return S


def _per_row(values: Floats, w: Floats | None) -> Floats:
    """Numbers per row, times the weights, as a column to multiply rows with."""
    return (values if w is None else w * values)[:, None]


def minimise(
    map_: LinearMap,
    start: Floats,
    Z: Floats,
    y: Indices,
    w: Floats | None,
    *,
    ridge: Floats | float = 0.0,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> OptimizeResult:
    """Parameters of the map that minimise the log loss plus a ridge towards ``start``.

    The objective is ``L(theta) + sum_j ridge_j (theta_j - start_j)^2``. A trust-region Newton
    method with exact Hessian products comes near the minimum, to where rounding hides from it
    whether the objective falls; Newton steps that are judged by the gradient do the rest.

    Returns
    -------
    OptimizeResult
        With parameters ``x``, objective ``fun``, gradient ``jac`` (the certificate), and
        ``success``, which is whether the norm of the gradient is at most ``tol``.
    """

    def objective(theta: Floats) -> tuple[float, Floats]:
        loss, gradient = loss_gradient(theta, map_, Z, y, w)
        away = theta - start
        return loss + float(np.sum(ridge * away**2)), gradient + 2 * ridge * away

    def product(theta: Floats, v: Floats) -> Floats:
        return hessian_product(theta, v, map_, Z, y, w) + 2 * ridge * v

    options = {"gtol": max(tol, RESOLVED_GRADIENT), "maxiter": max_iter, "inexact": True}
    near = minimize(
        objective, start, jac=True, hessp=product, method="trust-krylov", options=options
    )
    return _newton(objective, product, near, tol)


def _newton(
    objective: Callable[[Floats], tuple[float, Floats]],
    product: Callable[[Floats, Floats], Floats],
    found: OptimizeResult,
    tol: float,
) -> OptimizeResult:
    """Newton steps from ``found`` for as long as they shorten the gradient."""
    while not (length := np.linalg.norm(found.jac)) <= tol:
        hessian = LinearOperator(
            (len(found.x), len(found.x)), matvec=lambda v, x=found.x: product(x, v)
        )
        step, _ = cg(hessian, -found.jac, rtol=1e-3)
        fun, jac = objective(found.x + step)
        if not np.linalg.norm(jac) < length / 2:
            break
        found = OptimizeResult(found, x=found.x + step, fun=fun, jac=jac)
    return OptimizeResult(found, success=bool(np.linalg.norm(found.jac) <= tol))

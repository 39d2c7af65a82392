"""Minimizers for each linear map: times as multiples of the time of the library's choice.

The problems are the fits of vector and matrix scaling with ``alpha=1``, after temperature scaling.
The library's choice is L-BFGS with a preconditioner as a ``method`` of ``scipy.optimize.minimize``.
The other is "L-BFGS-B" in coordinates in which the preconditioner at the identity is the unit
matrix, if there are few parameters. Sigmoids of K classes are fitted at
once by ``newton``, and class by class by methods of SciPy. Run::

    python benchmarks/bench_solvers.py [--repeat 9] [--sizes 1000x2 5000x100] [--tol 1e-5]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from bench_methods import logits, shape
from command_line import run
from scipy.optimize import minimize
from timing import medians

from skcalib import MatrixScaling, VectorScaling
from skcalib._optimize.linear import LinearLoss
from skcalib._optimize.logistic import RowSigmoids, fit_sigmoids
from skcalib._optimize.maps import Regularization
from skcalib._optimize.minimize import cached_parts
from skcalib._optimize.temperature import fit_inverse_temperature
from skcalib._rows import Rows
from skcalib._rows.parallel import one_blas_thread
from skcalib._scores.columns import margins

# Methods that need the inverse of the preconditioner have no more parameters.
MANY_PARAMETERS = 512

SIZES = "200x2", "1000x2", "1000x10", "5000x10", "5000x100", "50000x100", "300000x10", "1000000x2"


def objective_of(calibrator: VectorScaling | MatrixScaling, n: int, n_columns: int) -> LinearLoss:
    """The objective that vector or matrix scaling minimizes."""
    rows = Rows(*logits(n, n_columns), None)
    scale = fit_inverse_temperature(rows).value
    loss = calibrator._loss(rows, scale, 1 / (n + 1))  # noqa: SLF001
    return loss.penalized_with(Regularization.rule(loss.n_classes, n))


def whitened(objective: LinearLoss, tol: float) -> None:
    """SciPy's own L-BFGS-B, in coordinates of the preconditioner, until the same gradient norm."""
    x0 = objective.identity
    blocks = objective.blocks(objective.moments(x0))
    inverse = np.array([blocks.solve(g) for g in np.eye(len(x0))])
    sizes, vectors = np.linalg.eigh((inverse + inverse.T) / 2)
    root = vectors * np.sqrt(np.maximum(sizes, 0))
    last = {}

    def fun(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, last["gradient"] = objective.value_gradient(x0 + root @ u)
        return value, root.T @ last["gradient"]

    def stop(_: np.ndarray) -> None:
        if np.linalg.norm(last["gradient"]) <= tol:
            raise StopIteration

    options = {"ftol": 0, "gtol": 0, "maxiter": 200}
    minimize(fun, 0 * x0, jac=True, method="L-BFGS-B", callback=stop, options=options)


def loss_of(one: RowSigmoids, theta: np.ndarray) -> float:
    """Mean log loss of one sigmoid, for methods of scipy, which ask for it."""
    rows = one.rows
    S = rows.X[:, 0] * theta[0] + theta[1]
    target = np.where(rows.y == 1, one.high, one.low)
    return float(np.mean(np.logaddexp(0, S) - target * S))


def class_by_class(sigmoids: list[RowSigmoids], method: str, tol: float) -> None:
    """The sigmoid of each class by a method of scipy, with all derivatives that it takes."""
    for one in sigmoids:
        gradient, hessian = cached_parts(one.derivatives, 2, (1, 2))  # of one pass
        minimize(
            partial(loss_of, one),
            one.constant.ravel(),
            jac=lambda x, gradient=gradient: gradient(x)[0],
            hess=(lambda x, hessian=hessian: hessian(x)[0]) if method == "trust-exact" else None,
            method=method,
            options={"gtol": tol},
        )


def of_sigmoids(n: int, n_columns: int, tol: float) -> dict[str, Callable[[], object]]:
    """Fits of Platt's sigmoids of all classes: at once, and class by class."""
    Z, y = logits(n, n_columns)
    M, K = margins(Z), 1 if n_columns == 2 else n_columns

    def fit_of(rows: Rows) -> RowSigmoids:
        return RowSigmoids.of(rows, lambda U: ([U], None), smooth=True)

    # Rows of one class: its margin as log-odds, and whether it is the label.
    labels = [(y == k + (K == 1)).astype(int) for k in range(K)]
    rows = [Rows(M[:, [k]], labels[k], None) for k in range(K)]
    every, single = fit_of(Rows(M, y, None)), list(map(fit_of, rows))
    return {
        "choice": lambda: fit_sigmoids(every, every.constant),
        **{
            method: partial(class_by_class, single, method, tol)
            for method in ("trust-exact", "BFGS", "L-BFGS-B")
        },
    }


def times(
    repeat: int = 9, sizes: tuple[str, ...] = SIZES, tol: float = 1e-5
) -> Iterator[tuple[Any, ...]]:
    """Milliseconds of the library's choice, and times of other methods as multiples."""
    others = "L-BFGS-B", "trust-exact", "BFGS"
    yield "problem", "parameters", "choice", *others

    def line(problem: str, n_parameters: int, methods: dict[str, Callable[[], object]]) -> tuple:
        with one_blas_thread:
            seconds = medians(methods, repeat)
        unit = seconds["choice"]
        ratios = (f"{seconds[name] / unit:.2f}" if name in seconds else "" for name in others)
        return problem, n_parameters, f"{1e3 * unit:.2f}", *ratios

    for kind, size in itertools.product((VectorScaling, MatrixScaling), sizes):
        objective = objective_of(kind(), *shape(size))
        n_parameters = len(objective.identity)
        methods = {"choice": lambda o=objective: o.minimize(tol, 200)}
        if n_parameters <= MANY_PARAMETERS:
            methods["L-BFGS-B"] = lambda o=objective: whitened(o, tol)
        yield line(f"{kind.__name__} {size}", n_parameters, methods)
    for size in sizes:
        n, K = shape(size)
        yield line(f"sigmoids {size}", 2 * (1 if K == 2 else K), of_sigmoids(n, K, tol))


if __name__ == "__main__":
    run(times)

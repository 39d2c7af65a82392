"""Minimizers for each linear map: times as multiples of the time of the library's choice.

The problems are the fits of vector and matrix scaling with ``alpha=1``, after temperature scaling.
The library's choice is L-BFGS with a preconditioner as a ``method`` of ``scipy.optimize.minimize``.
The other is "L-BFGS-B" in coordinates in which the preconditioner at the identity is the unit
matrix, if there are few parameters. Sigmoids of K classes are fitted at
once by ``newton``, and class by class by methods of SciPy. Run::

    python benchmarks/bench_solvers.py [--repeat 9] [--sizes 1000x2 5000x100] [--tol 1e-5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from bench_methods import logits
from scipy.optimize import minimize
from timing import medians

from skcalib._optimize.linear import LinearLoss
from skcalib._optimize.logistic import RowSigmoids, fit_sigmoids
from skcalib._optimize.maps import MatrixMap, Regularization, VectorMap
from skcalib._optimize.minimize import cached_parts
from skcalib._optimize.temperature import fit_inverse_temperature
from skcalib._rows import Rows
from skcalib._rows.parallel import one_blas_thread
from skcalib._scores.columns import margins
from skcalib.scaling._linear import _linear_loss

# Methods that need the inverse of the preconditioner have no more parameters.
MANY_PARAMETERS = 512

SIZES = ["200x2", "1000x2", "1000x10", "5000x10", "5000x100", "50000x100", "300000x10", "1000000x2"]


def objective_of(map_: VectorMap | MatrixMap, n: int, n_columns: int) -> LinearLoss:
    """The objective that vector or matrix scaling minimizes."""
    Z, y = logits(n, n_columns)
    rows = Rows(Z, y, None)
    scale = fit_inverse_temperature(rows).value
    loss = _linear_loss(map_, rows, scale, 1 / (n + 1), normalize=True)
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


def show(title: str, methods: dict[str, Callable[[], object]], repeat: int) -> None:
    """A line with the time of the library's choice, and those of others as multiples."""
    with one_blas_thread:
        seconds = medians(methods, repeat)
    unit = seconds["choice"]
    ratios = ", ".join(f"{name} {t / unit:.2f}" for name, t in seconds.items())
    print(f"{title}, {1e3 * unit:.2f} ms; {ratios}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--tol", type=float, default=1e-5)
    args = parser.parse_args()
    for map_ in (VectorMap(), MatrixMap()):
        for size in args.sizes:
            objective = objective_of(map_, *map(int, size.split("x")))
            n_parameters = len(objective.identity)
            methods = {"choice": lambda o=objective: o.minimize(args.tol, 200)}
            if n_parameters <= MANY_PARAMETERS:
                methods["L-BFGS-B"] = lambda o=objective: whitened(o, args.tol)
            show(f"{type(map_).__name__} {size}: {n_parameters} parameters", methods, args.repeat)
    for size in args.sizes:
        methods = of_sigmoids(*map(int, size.split("x")), args.tol)
        show(f"sigmoids {size}", methods, args.repeat)


if __name__ == "__main__":
    main()

"""Minimizers for each linear map: times as multiples of that of the library's choice.

The problems are those of vector and matrix scaling after temperature scaling, with the defaults.
L-BFGS, L-BFGS with passes in double precision only, and Newton's method with the whole Hessian
where that is small, are compared with the library's choice: L-BFGS, in single precision first where
features are many, or for two classes Newton's method for three parameters. Run::

    python benchmarks/bench_solvers.py [--repeat 9] [--sizes 1000x2 5000x100] [--tol 1e-5]
"""

from __future__ import annotations

import argparse
from functools import partial

from bench_methods import logits
from timing import medians

from skcalib import MatrixScaling
from skcalib._engine.blas import with_one_blas_thread
from skcalib._engine.memory import MemoryRows
from skcalib._linear.loss import Objective, Regularization
from skcalib._linear.maps import MatrixMap, VectorMap
from skcalib._linear.solver import MANY_PARAMETERS, best_parameters, lbfgs, newton

SIZES = ["1000x2", "1000x10", "5000x10", "5000x100", "50000x100", "300000x10", "1000000x2"]


def objective_of(map_: VectorMap | MatrixMap, n: int, n_columns: int) -> Objective:
    """The objective that vector or matrix scaling minimizes."""
    Z, y = logits(n, n_columns)
    features = MatrixScaling()._prepared(MemoryRows(Z, y, None)).features  # noqa: SLF001
    return Objective(map_, features, Regularization.rule(features.n_classes, n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--tol", type=float, default=1e-5)
    args = parser.parse_args()
    for map_ in (VectorMap(), MatrixMap()):
        for size in args.sizes:
            objective = objective_of(map_, *map(int, size.split("x")))
            start, exact = objective.identity, objective.in_double()
            methods = {
                "choice": lambda o=objective, x=start: best_parameters(o, args.tol, 200, x),
                "L-BFGS": lambda o=objective, x=start: lbfgs(o, x, args.tol, 200),
                "in double precision": lambda o=exact, x=start: lbfgs(o, x, args.tol, 200),
            }
            if len(start) <= MANY_PARAMETERS:
                methods["Newton"] = lambda o=objective, x=start: newton(o, x, args.tol, 200)
            timed = {name: partial(with_one_blas_thread, f) for name, f in methods.items()}
            seconds = medians(timed, args.repeat)
            unit = seconds["choice"]
            ratios = ", ".join(f"{name} {t / unit:.2f}" for name, t in seconds.items())
            name = type(map_).__name__
            print(f"{name} {size}: {len(start)} parameters, {1e3 * unit:.2f} ms; {ratios}")


if __name__ == "__main__":
    main()

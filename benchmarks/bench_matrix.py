"""Matrix scaling with 1000 classes and a million parameters: time, memory and convergence.

For the default ridge penalty, for weaker ones and for the paper's unregularized form: time, peak
memory, log loss before and after, and the gradient norm of the objective at the solution, computed
here from its formula in double precision, independently of the fit. Also the share of the matrix
products, of logits with the matrix and of residuals with logits, in the time of the threads of a
fit. Run::

    python benchmarks/bench_matrix.py [--rows 25000] [--classes 1000] [--alphas 1 0.01 0.0001 0]
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from skcalib import MatrixScaling
from skcalib._optimize.maps import MatrixMap
from skcalib.datasets import make_logits


def correlated_logits(n: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits as of a network with a narrow last layer, multiplied by a random matrix."""
    random = np.random.default_rng(0)
    width = min(64, max(2, K // 3))
    sizes = np.arange(1, width + 1) ** -0.5
    sizes *= np.sqrt(width / np.sum(sizes**2))
    layer = random.normal(size=(width, K)) / np.sqrt(width)
    true = 2 * (random.normal(size=(n, width)) * sizes) @ layer + 0.3 * random.normal(size=(n, K))
    P = softmax(true, axis=1)
    y = (P.cumsum(axis=1)[:, :-1] <= random.uniform(size=(n, 1))).sum(axis=1)
    mixing = 2 * np.eye(K) + 0.3 * random.normal(size=(K, K)) / np.sqrt(K)
    return (true @ mixing + random.normal(scale=0.5, size=K)).astype(np.float32), y


def independent_logits(n: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    offset = np.random.default_rng(0).normal(scale=0.5, size=K)
    return make_logits(n, K, temperature=2.0, offset=offset, dtype=np.float32, random_state=0)


def features(fitted: MatrixScaling, Z: np.ndarray) -> np.ndarray:
    """Log-probabilities of the mixture that temperature scaling gives, in double precision."""
    P = softmax(Z.astype(np.float64) / fitted.temperature_, axis=1)
    return np.log((1 - fitted.smoothing_) * P + fitted.smoothing_ / Z.shape[1])


def gradient_norm(fitted: MatrixScaling, Z: np.ndarray, y: np.ndarray, alpha: float) -> float:
    """Gradient norm of the objective in the docstring of MatrixScaling."""
    n, K = Z.shape
    on_diagonal = np.eye(K, dtype=bool)
    strength = 2 * alpha * K / n
    by_matrix = strength * np.where(on_diagonal, 1, K - 1) * (fitted.coef_ - np.eye(K))
    by_offset = strength * fitted.intercept_
    for rows in np.array_split(np.arange(n), max(1, n // 1000)):
        F = features(fitted, Z[rows])
        R = softmax(F @ fitted.coef_.T + fitted.intercept_, axis=1)
        R[np.arange(len(rows)), y[rows]] -= 1
        by_matrix += R.T @ F / n
        by_offset += R.sum(axis=0) / n
    return float(np.sqrt(np.sum(by_matrix**2) + np.sum(by_offset**2)))


@contextmanager
def time_of_products() -> Iterator[list[float]]:
    """Seconds that threads spend in the products of a matrix with logits and residuals."""
    spent: list[float] = []
    plain = {name: getattr(MatrixMap, name) for name in ("scores", "adjoint")}

    def timed(name: str) -> Any:
        def product(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            found = plain[name](*args, **kwargs)
            spent.append(time.thread_time() - start)
            return found

        return product

    for name in plain:
        setattr(MatrixMap, name, timed(name))
    try:
        yield spent
    finally:
        for name, method in plain.items():
            setattr(MatrixMap, name, method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--alphas", nargs="+", type=float, default=[1, 0.01, 1e-4, 0])
    args = parser.parse_args()
    for make in (independent_logits, correlated_logits):
        Z, y = make(args.rows, args.classes)
        softmax(Z, axis=1)
        start = time.perf_counter()
        softmax(Z, axis=1)
        unit = time.perf_counter() - start
        print(f"{make.__name__}, {args.rows} x {args.classes}, softmax {unit:.4f} s")
        before = None
        for alpha in args.alphas:
            with warnings.catch_warnings(record=True) as caught, time_of_products() as products:
                warnings.simplefilter("always")
                start, cpu = time.perf_counter(), time.process_time()
                fitted = MatrixScaling(alpha=alpha).fit(Z, y)
                wall, cpu = time.perf_counter() - start, time.process_time() - cpu
            if before is None:
                F = log_softmax(Z.astype(np.float64) / fitted.temperature_, axis=1)
                before = -F[np.arange(len(y)), y].mean()
                del F
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            norm = gradient_norm(fitted, Z, y, alpha)
            print(
                f"    alpha={alpha:<7g} {wall:6.2f} s = {wall / unit:6.1f} softmax, "
                f"products {sum(products) / cpu:.0%}, "
                f"{fitted.n_iter_} iterations, peak {peak:.2f} GiB so far, "
                f"loss {before:.6f} -> {fitted.loss_:.6g}, gradient {norm:.1e}",
                *(f"\n        {w.category.__name__}: {w.message}" for w in caught),
                flush=True,
            )


if __name__ == "__main__":
    main()

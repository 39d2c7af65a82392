"""Calibration of recorded network outputs: measures for every method, and for other libraries.

A record is a .npz file with class probabilities ``predictions`` (n, K) and labels
``ground_truth`` (n,). Methods are fitted on the first ``--rows`` rows, by default half of them, and
evaluated on the second half. The temperature is compared with a brute-force minimum of the log
loss. Run::

    python benchmarks/records.py --records DIRECTORY [--rows 500 1000 5000] [--choose-alpha]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from methods import Fitted, Method, all_methods
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.metrics import accuracy_score, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV

from skcalib import MatrixScaling, PlattScaling, TemperatureScaling, VectorScaling
from skcalib.metrics import expected_calibration_error, maximum_calibration_error

ALPHAS = [0.01, 0.03, 0.1, 0.3, 1, 3]


def read(file: Path, *, logits: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Logits, or the logarithms of the recorded probabilities, in double precision; and labels."""
    with np.load(file) as record:
        P, y = record["predictions"], record["ground_truth"].ravel()
    if not logits:
        P = np.log(np.maximum(P, np.finfo(P.dtype).tiny).astype(np.float64))
    return P.astype(np.float64), y


def brute_force(Z: np.ndarray, y: np.ndarray) -> float:
    """Temperature by a search that evaluates the log loss directly."""

    def loss(T: float) -> float:
        return -log_softmax(Z / T, axis=1)[np.arange(len(y)), y].mean()

    options = {"xatol": 1e-12}
    return float(minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options=options).x)


def variants(K: int, *, choose_alpha: bool) -> Iterator[Method]:
    """Variants of the methods of skcalib with other parameters than the default."""

    def method(kind: str, calibrator: object) -> Method:
        return Method(kind, "skcalib", lambda Z, y: calibrator.fit(Z, y).predict_proba)

    classes = range(K)
    yield Method("uncalibrated", "", lambda _, __: lambda Z: softmax(Z, axis=1))
    yield method("vector, plain", VectorScaling(alpha=0, smoothing=0, classes=classes))
    yield method("matrix, plain", MatrixScaling(alpha=0, smoothing=0, classes=classes))
    yield method("Platt, plain", PlattScaling(smooth_targets=False, classes=classes))
    if choose_alpha:
        scoring = make_scorer(
            log_loss, response_method="predict_proba", greater_is_better=False, labels=classes
        )
        for name, kind in {"vector": VectorScaling, "matrix": MatrixScaling}.items():
            search = GridSearchCV(kind(classes=classes), {"alpha": ALPHAS}, scoring=scoring, cv=5)
            yield method(f"{name}, alpha chosen", search)


def measures(P: np.ndarray, y: np.ndarray) -> list[float]:
    K = P.shape[1]
    P = np.maximum(P.astype(np.float64), np.finfo(np.float64).tiny)
    P /= P.sum(axis=1, keepdims=True)
    return [
        expected_calibration_error(y, P, labels=range(K)),
        maximum_calibration_error(y, P, labels=range(K)),
        log_loss(y, P, labels=range(K)),
        float(((P - np.eye(K)[y]) ** 2).sum(axis=1).mean()),
        accuracy_score(y, P.argmax(axis=1)),
    ]


def compare_temperatures(Z: np.ndarray, y: np.ndarray) -> None:
    T, brute = TemperatureScaling().fit(Z, y).temperature_, brute_force(Z, y)
    single = TemperatureScaling().fit(Z.astype(np.float32), y).temperature_
    print(f"    T = {T:.10f}, by brute force {brute:.10f}, relative {T / brute - 1:+.1e}")
    print(f"    from float32 logits {single:.10f}")


def fitted_in(method: Method, Z: np.ndarray, y: np.ndarray) -> tuple[Fitted, float]:
    X, start = method.prepare(Z), time.perf_counter()
    return method.fit(X, y), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--records", type=Path, required=True, metavar="DIRECTORY")
    parser.add_argument("--rows", type=int, nargs="+", help="calibration rows; by default half")
    parser.add_argument(
        "--choose-alpha", action="store_true", help="also with alpha chosen by cross-validation"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = ("ECE-15", "MCE", "log loss", "Brier", "accuracy", "seconds")
    for file in sorted(args.records.glob("*.npz")):
        Z, y = read(file)
        K, half = Z.shape[1], len(y) // 2
        for n in args.rows or [half]:
            print(f"{file.stem}: {n} calibration rows, {len(y) - half} test rows, {K} classes")
            compare_temperatures(Z[:n], y[:n])
            print(" " * 29, *(f"{c:>10}" for c in columns))
            methods = [*all_methods(), *variants(K, choose_alpha=args.choose_alpha)]
            for method in sorted(methods, key=lambda m: m.name):
                fitted, seconds = fitted_in(method, Z[:n], y[:n])
                values = measures(fitted(method.prepare(Z[half:])), y[half:])
                print(f"    {method.name:25}", *(f"{v:10.7f}" for v in [*values, seconds]))


if __name__ == "__main__":
    main()

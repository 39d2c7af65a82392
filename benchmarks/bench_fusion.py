"""Log loss and time of the fusion of several scores, on records and in simulations.

A record is a .npz file with ``scores_cal``, ``y_cal``, ``scores_test`` and ``y_test``, where scores
are (n, n_scores, n_classes) or log-odds (n, n_scores), or several files ``NAME-CLASSIFIER.npz`` in
the format of ``records.py`` with the same rows. Run::

    python benchmarks/bench_fusion.py [FOLDER ...] [--simulations] [--times] [--samples 20]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegressionCV

from skcalib import AutoCalibrator
from skcalib.fusion import FusionCalibrator

Record = tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
METHODS = "best score, default", "best score", "mean", "logistic regression", "fusion"


def loss(L: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log loss in nats, with probabilities of at least 1e-15."""
    return float(-np.maximum(L[np.arange(len(y)), y], np.log(1e-15)).mean())


def both(Z: np.ndarray) -> np.ndarray:
    """Return scores (n, n_scores, n_classes)."""
    Z = Z.astype(float)
    Z = Z[:, :, None] if Z.ndim == 2 else Z
    return np.concatenate([0 * Z, Z], axis=2) if Z.shape[2] == 1 else Z


def read(folder: Path) -> Iterator[Record]:
    """Yield the records of a folder."""
    tables = defaultdict(list)
    for file in sorted(folder.glob("*.npz")):
        data = np.load(file)
        if "scores_cal" in data:
            S, y, T, y_test = (data[k] for k in ("scores_cal", "y_cal", "scores_test", "y_test"))
            yield file.stem, both(S), y.astype(int), both(T), y_test.astype(int)
        else:
            tables[file.stem.rsplit("-", 1)[0]].append(data)
    for name, parts in tables.items():
        y, y_test = (parts[0][k].astype(int) for k in ("y_cal", "y_test"))
        if len(parts) > 1 and all(np.array_equal(part["y_cal"], y) for part in parts):
            S, T = (
                both(np.concatenate([part[k][:, None] for part in parts], axis=1))
                for k in ("logits_cal", "logits_test")
            )
            yield name, S, y, T, y_test


def compare(S: np.ndarray, y: np.ndarray, T: np.ndarray, y_test: np.ndarray) -> dict[str, Any]:
    """Return the test log losses of the methods, and of each score alone."""
    n_scores, n_classes = S.shape[1:]
    classes = np.arange(n_classes)
    fusion = FusionCalibrator(n_scores=n_scores, classes=classes).fit(S.reshape(len(S), -1), y)
    rates = np.log(fusion.base_rates_)
    losses = {}
    for m, calibrator in enumerate(fusion.calibrators_):
        has = ~np.isnan(T[:, m, 0])
        L = np.tile(rates, (len(T), 1))
        L[has] = calibrator.predict_log_proba(T[has, m])
        losses[f"score {m}"] = loss(L, y_test)
    best = int(np.argmin([fusion.loss_report_[f"score {m}"] for m in range(n_scores)]))
    losses["best score"] = losses[f"score {best}"]
    ok, has = ~np.isnan(S[:, best, 0]), ~np.isnan(T[:, best, 0])
    default = AutoCalibrator(classes=classes).fit(S[ok, best], y[ok])
    L = np.tile(rates, (len(T), 1))
    L[has] = default.predict_log_proba(T[has, best])
    losses["best score, default"] = loss(L, y_test)
    P = np.nan_to_num(np.nanmean(softmax(T, axis=2), axis=1), nan=1 / n_classes)
    losses["mean"] = loss(np.log(np.maximum(P, 1e-15)), y_test)
    A, B = (
        np.nan_to_num(np.maximum(log_softmax(Z, axis=2), -20)).reshape(len(Z), -1) for Z in (S, T)
    )
    model = LogisticRegressionCV(Cs=8, cv=5, scoring="neg_log_loss", max_iter=300, tol=1e-3)
    L = np.full((len(B), n_classes), np.log(1e-15))
    L[:, np.unique(y)] = model.fit(A, y).predict_log_proba(B)
    losses["logistic regression"] = loss(L, y_test)
    losses["fusion"] = loss(fusion.predict_log_proba(T.reshape(len(T), -1)), y_test)
    return losses


# --------------------------------------------------------------------------------------
# Simulations. Each score sees the log-odds with noise of its own.


def simulate(name: str, n: int, seed: int) -> Record:
    """Return a record with ``n`` calibration rows and 5000 test rows of two classes."""
    rng = np.random.default_rng(seed)
    total = n + 5000
    u = 2 * rng.normal(size=total)
    y = (rng.random(total) < expit(u)).astype(int)

    def score(sd: float) -> np.ndarray:
        return u + sd * rng.normal(size=total)

    good = score(1)
    kind, _, count = name.partition(" x ")
    if kind == "good, noise":
        Z = [good, *(2 * rng.normal(size=(int(count), total)))]
    elif kind == "equal":
        Z = [good] * int(count)
    elif kind == "reversed":
        Z = [good, -score(1), score(1.5)]
    elif kind == "scales":
        Z = [good, 100 * score(1.5), 0.01 * score(2)]
    elif kind == "constant":
        Z = [good, np.ones(total)]
    else:
        Z = [score(2) for _ in range(int(count))]
    X = np.array(Z).T
    hard = (X > 0) != y[:, None]
    if kind == "missing at random":
        X[rng.random(X.shape) < 0.4] = np.nan
    if kind == "missing when wrong":
        X[rng.random(X.shape) < np.where(hard, 0.6, 0.2)] = np.nan
    if kind == "missing together":
        X[(rng.random((total, 1)) < 0.5) & (rng.random(X.shape) < 0.8)] = np.nan
    X = X[:, :, None]
    X = np.concatenate([0 * X, X], axis=2)  # NaN in both columns
    return name, X[:n], y[:n], X[n:], y[n:]


SIMULATIONS = [
    "good, noise x 5", "equal x 2", "equal x 10", "reversed", "scales", "constant",
    "independent x 2", "independent x 10", "independent x 50", "missing at random x 5",
    "missing when wrong x 5", "missing together x 5",
]  # fmt: skip


def measure_times() -> None:
    """Print the CPU seconds of a fit, and the milliseconds of one row."""
    rng = np.random.default_rng(0)
    for n, n_scores, n_classes in ((5000, 5, 10), (5000, 5, 2), (1000, 10, 100), (1000, 18, 2)):
        y = rng.integers(n_classes, size=n)
        Z = rng.normal(size=(n, n_scores, n_classes)) + 2 * np.eye(n_classes)[y][:, None]
        X = Z.reshape(n, -1) if n_classes > 2 else Z[:, :, 1] - Z[:, :, 0]
        start = time.process_time()
        fusion = FusionCalibrator(n_scores=n_scores).fit(X, y)
        seconds, start = time.process_time() - start, time.process_time()
        for i in range(300):
            fusion.predict_proba(X[i : i + 1])
        row = (time.process_time() - start) / 0.3
        print(f"{n} x {n_scores} x {n_classes}: fit {seconds:.2f} s, one row {row:.2f} ms")


def print_losses(name: str, losses: dict[str, Any]) -> None:
    print(f"{name:26s}" + "".join(f"{losses[method]:9.4f}" for method in METHODS), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--simulations", action="store_true")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--samples", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.times:
        measure_times()
    print("; ".join(METHODS))
    for folder in options.folders:
        results = []
        for name, *parts in read(folder):
            results.append(compare(*parts))
            print_losses(f"{name} {parts[0].shape[1]} x {parts[0].shape[2]}", results[-1])
        print_losses(f"mean of {len(results)}", mean_of(results))
    for n in (100, 1000) if options.simulations else []:
        for name in SIMULATIONS:
            results = [compare(*simulate(name, n, seed)[1:]) for seed in range(options.samples)]
            print_losses(f"{name}, {n} rows", mean_of(results))


def mean_of(results: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each method."""
    return {method: float(np.mean([result[method] for result in results])) for method in METHODS}


if __name__ == "__main__":
    main()

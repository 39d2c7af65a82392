"""Log loss of the fusion of several scores, and of each candidate alone, on records, and times.

A record is a .npz file with ``scores_cal``, ``y_cal``, ``scores_test`` and ``y_test``, where scores
are (n, n_scores, n_classes) or log-odds (n, n_scores), or several files ``NAME-CLASSIFIER.npz`` in
the format of ``records.py`` with the same rows. The columns are the scores alone after calibration,
then the best of them on the calibration rows, also after the default, the mean of the raw
probabilities, the pool of calibrated scores with equal weights, logistic regression of all
log-probabilities, and the fusion. Run::

    python benchmarks/bench_fusion.py losses FOLDER
    python benchmarks/bench_fusion.py splits FOLDER
    python benchmarks/bench_fusion.py times
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from command_line import run
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegressionCV

from skcalib import AutoCalibrator
from skcalib.fusion import FusionCalibrator

Record = tuple[str, list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray]


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
    tables: dict[str, dict[str, Any]] = defaultdict(dict)
    for file in sorted(folder.glob("*.npz")):
        data = np.load(file)
        if "scores_cal" in data:
            S, y, T, y_test = (data[k] for k in ("scores_cal", "y_cal", "scores_test", "y_test"))
            names = [str(m) for m in range(S.shape[1])]
            yield file.stem, names, both(S), y.astype(int), both(T), y_test.astype(int)
        else:
            table, classifier = file.stem.rsplit("-", 1)
            tables[table][classifier] = data
    for name, files in tables.items():
        parts = list(files.values())
        y, y_test = (parts[0][k].astype(int) for k in ("y_cal", "y_test"))
        if len(parts) > 1 and all(np.array_equal(part["y_cal"], y) for part in parts):
            S, T = (
                both(np.concatenate([part[k][:, None] for part in parts], axis=1))
                for k in ("logits_cal", "logits_test")
            )
            yield name, list(files), S, y, T, y_test


def compare(
    names: list[str],
    S: np.ndarray,
    y: np.ndarray,
    T: np.ndarray,
    y_test: np.ndarray,
    *,
    regression: bool = True,
) -> dict[str, float]:
    """Return the test log loss of each score alone, and of the methods."""
    n_scores, n_classes = S.shape[1:]
    classes = np.arange(n_classes)
    fusion = FusionCalibrator(n_scores=n_scores, classes=classes).fit(S.reshape(len(S), -1), y)

    def predict(calibrator: Any, m: int) -> np.ndarray:
        """Return log-probabilities by score m, and base rates in rows without it."""
        has = ~np.isnan(T[:, m, 0])
        L = np.tile(np.log(fusion.base_rates_), (len(T), 1))
        L[has] = calibrator.predict_log_proba(T[has, m])
        return L

    alone = np.array([predict(c, m) for m, c in enumerate(fusion.calibrators_)])
    losses = {name: loss(L, y_test) for name, L in zip(names, alone, strict=True)}
    best = int(np.argmin([fusion.loss_report_[f"score {m}"] for m in range(n_scores)]))
    losses["best score"] = losses[names[best]]
    has = ~np.isnan(S[:, best, 0])
    default = AutoCalibrator(classes=classes).fit(S[has, best], y[has])
    losses["best, default"] = loss(predict(default, best), y_test)
    P = np.nan_to_num(np.nanmean(softmax(T, axis=2), axis=1), nan=1 / n_classes)
    losses["mean"] = loss(np.log(np.maximum(P, 1e-15)), y_test)
    losses["equal weights"] = loss(log_softmax(alone.mean(axis=0), axis=1), y_test)
    if regression:
        A, B = (np.maximum(log_softmax(Z, axis=2), -20).reshape(len(Z), -1) for Z in (S, T))
        A, B = np.nan_to_num(A), np.nan_to_num(B)
        model = LogisticRegressionCV(Cs=8, cv=5, scoring="neg_log_loss", max_iter=300, tol=1e-3)
        L = np.full((len(B), n_classes), np.log(1e-15))
        L[:, np.unique(y)] = model.fit(A, y).predict_log_proba(B)
        losses["regression"] = loss(L, y_test)
    losses["fusion"] = loss(fusion.predict_log_proba(T.reshape(len(T), -1)), y_test)
    return losses


def times(calls: int = 300) -> Iterator[tuple[Any, ...]]:
    """CPU seconds of a fit, and milliseconds of one row."""
    yield "rows", "scores", "classes", "fit", "one row"
    rng = np.random.default_rng(0)
    for n, n_scores, n_classes in ((5000, 5, 10), (5000, 5, 2), (1000, 10, 100), (1000, 18, 2)):
        y = rng.integers(n_classes, size=n)
        Z = rng.normal(size=(n, n_scores, n_classes)) + 2 * np.eye(n_classes)[y][:, None]
        X = Z.reshape(n, -1) if n_classes > 2 else Z[:, :, 1] - Z[:, :, 0]
        start = time.process_time()
        fusion = FusionCalibrator(n_scores=n_scores).fit(X, y)
        seconds, start = time.process_time() - start, time.process_time()
        for i in range(calls):
            fusion.predict_proba(X[i : i + 1])
        row = 1000 * (time.process_time() - start) / calls
        yield n, n_scores, n_classes, f"{seconds:.2f}", f"{row:.2f}"


def records(folders: Iterable[str]) -> list[Record]:
    return [record for folder in folders for record in read(Path(folder))]


def losses(*folders: str) -> Iterator[tuple[Any, ...]]:
    """Log losses of each score, and of the methods, on the records in a folder."""
    found = {name: compare(*parts) for name, *parts in records(folders)}
    header = list(next(iter(found.values())))
    yield "record", *header
    for name, values in found.items():
        yield name, *values.values()
    yield "mean", *(float(np.mean([values[k] for values in found.values()])) for k in header)


def splits(*folders: str, n: int = 8, only: str = "") -> Iterator[tuple[Any, ...]]:
    """Log losses over random splits of all rows, and excess over the best score's default."""
    yield "record", "best, default", "fusion", "excess", "standard error"
    for name, names, S, y, T, y_test in records(folders):
        if only not in name:
            continue
        X, labels, found = np.concatenate([S, T]), np.append(y, y_test), []
        for seed in range(1, n + 1):
            fit, test = np.split(np.random.default_rng(seed).permutation(len(X)), [len(y)])
            values = compare(names, X[fit], labels[fit], X[test], labels[test], regression=False)
            found.append([values["best, default"], values["fusion"]])
        best, fused = np.mean(found, axis=0)
        error = float(np.diff(found, axis=1).std(ddof=1) / np.sqrt(n))
        yield name, float(best), float(fused), float(fused - best), error


if __name__ == "__main__":
    run(losses, splits, times)

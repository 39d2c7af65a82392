"""Fusion of several scores of the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.metrics import log_loss

from skcalib import AutoCalibrator
from skcalib.fusion import FusionCalibrator

from . import simulation

N_NEW = 5000
# Numbers of calibration rows. Each score is the logits with noise; the first is the best.
SETTINGS = {
    "1 good, 5 of noise": (100, 1000),
    "2 equal": (100,),
    "10 equal": (100,),
    "3, one reversed": (100,),
    "2 independent": (100,),
    "10 independent": (100,),
    "50 independent": (100,),
    "5, missing at random": (100, 1000),
    "5, missing when wrong": (100, 1000),
    "5, missing together": (100, 1000),
}


def draw_scores(
    kind: str, n: int, n_classes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return logits (n, n_scores, n_classes) with NaN for missing scores, and labels."""
    U = 2 * rng.normal(size=(n, 1, n_classes - 1))
    P = softmax(np.insert(U[:, 0], 0, 0, axis=1), axis=1)
    y = (P.cumsum(axis=1)[:, :-1] < rng.random((n, 1))).sum(axis=1)
    count = int(kind.replace(",", " ").split(maxsplit=1)[0])
    noise = rng.normal(size=(n, 6 if "of noise" in kind else count, n_classes - 1))
    if "of noise" in kind:
        X = np.concatenate([U + noise[:, :1], 2 * noise[:, 1:]], axis=1)
    elif "equal" in kind:
        X = (U + noise[:, :1]) * np.ones((count, 1))
    elif "reversed" in kind:
        X = (U + noise * [[1], [1], [1.5]]) * [[1], [-1], [1]]
    else:
        X = U + 2 * noise
    X = np.insert(X, 0, 0, axis=2)
    is_wrong = X.argmax(axis=2) != y[:, None]
    if "at random" in kind:
        X[rng.random(is_wrong.shape) < 0.4] = np.nan
    if "when wrong" in kind:
        X[rng.random(is_wrong.shape) < np.where(is_wrong, 0.6, 0.2)] = np.nan
    if "together" in kind:
        X[(rng.random((n, 1)) < 0.5) & (rng.random(is_wrong.shape) < 0.8)] = np.nan
    return X, y


def losses(X: np.ndarray, y: np.ndarray, n: int) -> tuple[float, float]:
    """Return log losses on new rows: of the first score by the default, and of the fusion."""
    has = ~np.isnan(X[:, 0, 0])
    default = AutoCalibrator().fit(X[:n, 0][has[:n]], y[:n][has[:n]])
    columns = X.reshape(len(X), -1)
    fusion = FusionCalibrator(n_scores=X.shape[1]).fit(columns[:n], y[:n])
    P = np.tile(fusion.base_rates_, (len(X), 1))
    P[has] = default.predict_proba(X[has, 0])
    return log_loss(y[n:], P[n:]), log_loss(y[n:], fusion.predict_proba(columns[n:]))


@simulation
def fusion(
    samples: int = 40, classes: tuple[int, ...] = (2, 4), scores: tuple[str, ...] = tuple(SETTINGS)
) -> Iterator[tuple[Any, ...]]:
    """Log loss of the fusion, and its excess over the best single score.

    The best single score is calibrated by the default, and has the base rates where it is missing.
    """
    if unknown := set(scores) - SETTINGS.keys():
        raise SystemExit(f"--scores must be among {[*SETTINGS]}, got {sorted(unknown)}.")
    yield "classes", "scores", "rows", "best score", "fusion", "excess", "standard error"
    for n_classes, kind in itertools.product(classes, scores):
        for n in SETTINGS[kind]:
            results = []
            for seed in range(samples):
                X, y = draw_scores(kind, n + N_NEW, n_classes, np.random.default_rng(seed))
                results.append(losses(X, y, n))
            best, fused = np.mean(results, axis=0)
            error = np.diff(results, axis=1).std(ddof=1) / np.sqrt(samples)
            yield n_classes, kind, n, best, fused, fused - best, error

"""Fusion of several scores of the same rows, in data of two classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from skcalib import AutoCalibrator
from skcalib.fusion import FusionCalibrator

from . import simulation

N_NEW = 5000
# Numbers of calibration rows. Each score is the log-odds with noise; the first is the best.
SETTINGS = {
    "1 good, 5 of noise": (100, 1000),
    "2 equal": (100,),
    "10 equal": (100,),
    "3, one reversed": (100,),
    "2 independent": (100,),
    "10 independent": (100,),
    "50 independent": (100,),
    "5, missing at random": (100, 300, 1000),
    "5, missing when wrong": (100, 300, 1000),
    "5, missing together": (100, 300, 1000),
}


def draw_scores(kind: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return log-odds (n, n_scores) with NaN for missing scores, and labels."""
    u = 2 * rng.normal(size=n)
    y = (rng.random(n) < expit(u)).astype(int)
    count = int(kind.replace(",", " ").split(maxsplit=1)[0])
    noise = rng.normal(size=(n, 6 if "of noise" in kind else count))
    if "of noise" in kind:
        X = np.column_stack([u + noise[:, 0], 2 * noise[:, 1:]])
    elif "equal" in kind:
        X = (u + noise[:, 0])[:, None] * np.ones(count)
    elif "reversed" in kind:
        X = (u[:, None] + noise * [1, 1, 1.5]) * [1, -1, 1]
    else:
        X = u[:, None] + 2 * noise
    is_wrong = (X > 0) != y[:, None]
    if "at random" in kind:
        X[rng.random(X.shape) < 0.4] = np.nan
    if "when wrong" in kind:
        X[rng.random(X.shape) < np.where(is_wrong, 0.6, 0.2)] = np.nan
    if "together" in kind:
        X[(rng.random((n, 1)) < 0.5) & (rng.random(X.shape) < 0.8)] = np.nan
    return X, y


def losses(X: np.ndarray, y: np.ndarray, n: int) -> tuple[float, float]:
    """Return log losses on new rows: of the first score by the default, and of the fusion."""
    has = ~np.isnan(X[:, 0])
    default = AutoCalibrator().fit(X[:n][has[:n], :1], y[:n][has[:n]])
    fusion = FusionCalibrator(n_scores=X.shape[1]).fit(X[:n], y[:n])
    P = np.tile(fusion.base_rates_, (len(X), 1))
    P[has] = default.predict_proba(X[has, :1])
    return log_loss(y[n:], P[n:]), log_loss(y[n:], fusion.predict_proba(X[n:]))


@simulation
def fusion(
    samples: int = 40, scores: tuple[str, ...] = tuple(SETTINGS)
) -> Iterator[tuple[Any, ...]]:
    """Log loss of the fusion, and its excess over the best single score.

    The best single score is calibrated by the default, and has the base rates where it is missing.
    """
    yield "scores", "rows", "best score", "fusion", "excess", "standard error"
    for kind in scores:
        for n in SETTINGS[kind]:
            results = []
            for seed in range(samples):
                X, y = draw_scores(kind, n + N_NEW, np.random.default_rng(seed))
                results.append(losses(X, y, n))
            best, fused = np.mean(results, axis=0)
            error = np.diff(results, axis=1).std() / np.sqrt(samples)
            yield kind, n, best, fused, fused - best, error

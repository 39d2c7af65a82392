"""Promises of ``selective_threshold``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from skcalib.decision import selective_threshold

from . import simulation

N_POPULATION = 400_000
ROWS = 50, 500, 5000, 50_000


def populations(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Scores of rows, and the probability that each is wrong, for all kinds of data."""
    z = np.abs(rng.normal(0, 2, N_POPULATION))
    P = softmax(rng.normal(0, 2, (N_POPULATION, 10)), axis=1).max(axis=1)
    u = rng.uniform(size=N_POPULATION)
    return {
        "calibrated, K = 2": (expit(z), expit(-z)),
        "calibrated, K = 10": (P, 1 - P),
        "over-confident": (expit(3 * z), expit(-z)),
        "ten values": ((10 * u).astype(int) / 10, 0.3 * (1 - (10 * u).astype(int) / 10)),
        "rare errors": (u, 0.01 * (1 - u)),
        "errors at the top": (u, np.where(u > 0.95, 0.3, 0.2 * (1 - u))),
        "risk falls": (u, 0.1 + 0.2 * (u > 0.8) - 0.1 * (u < 0.6)),
        "no order, above the risk": (u, np.full(N_POPULATION, 0.1001)),
    }


def true_risk(score: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores in decreasing order, and the risk of accepting scores of at least each."""
    order = np.argsort(-score, kind="stable")
    score, total = score[order], np.cumsum(error[order])
    last = np.searchsorted(-score, -score, side="right") - 1  # ties are accepted together
    return score, (total / np.arange(1, len(total) + 1))[last]


def simulated(
    score: np.ndarray, error: np.ndarray, n: int, draws: int, confidence: float, seed: int
) -> tuple[float, float, float]:
    """The promised risk, the rate of violations, and the mean coverage."""
    ordered, risks = true_risk(score, error)
    rng, risk = np.random.default_rng(seed), float(risks[len(risks) // 2])
    if np.ptp(error) == 0:
        risk = 0.1
    violated, coverages = 0, []
    for _ in range(draws):
        rows = rng.integers(len(score), size=n)
        right = rng.uniform(size=n) >= error[rows]
        found = selective_threshold(
            right, score[rows], risk=risk, confidence_level=confidence, kind="binary",
            labels=[False, True],
        )  # fmt: skip
        accepted = np.searchsorted(-ordered, -found.threshold, side="right")
        violated += bool(accepted and risks[accepted - 1] > risk * (1 + 1e-9))
        coverages.append(found.coverage)
    return risk, violated / draws, float(np.mean(coverages))


@simulation
def selective(draws: int = 1000, confidence: float = 0.95) -> Iterator[tuple[Any, ...]]:
    """Violations of the risk that ``selective_threshold`` promises.

    The promised risk is the true one at half of the coverage, so that every threshold further down
    is a violation.
    """
    yield "data", "rows", "risk", "violations", "coverage"
    for name, (score, error) in populations(np.random.default_rng(0)).items():
        for n in ROWS:
            risk, violations, coverage = simulated(score, error, n, draws, confidence, seed=n)
            yield name, n, f"{risk:.3g}", f"{100 * violations:.1f} %", f"{coverage:.2f}"

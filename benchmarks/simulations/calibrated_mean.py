"""Coverage and width of ``calibrated_mean``, beside the labels alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import beta

from skcalib.judge import calibrated_mean

from . import simulation

Random = np.random.Generator
RATES, LABELS = (0.5, 0.1, 0.01), (30, 100, 300, 1000)


def normal(separation: float) -> Callable[[np.ndarray, Random], np.ndarray]:
    """Scores of two normal distributions, and so log-odds but for a factor and an offset."""
    return lambda y, rng: rng.normal(separation * y, 1)


SCORES: dict[str, Callable[[np.ndarray, Random], np.ndarray]] = {
    "good": normal(4),
    "fair": normal(1.5),
    "useless": normal(0),
    "anti-correlated": normal(-1.5),
    "verdict": lambda y, rng: rng.uniform(size=len(y)) < np.where(y, 0.85, 0.05),
    "verdict, nearly right": lambda y, rng: rng.uniform(size=len(y)) < np.where(y, 0.98, 0.01),
    "grade of 1 to 5": lambda y, rng: np.clip(np.round(rng.normal(1.5 + 3 * y, 1)), 1, 5),
    "over-confident": lambda y, rng: expit(5 * rng.normal(2 * y - 0.5, 1)),
    "spread, not mean": lambda y, rng: np.where(y, 2, 0.6) * rng.normal(size=len(y)),
}


def of_labels(y: np.ndarray) -> tuple[float, float]:
    """Interval of Clopper and Pearson."""
    hits, misses = y.sum(), (~y).sum()
    low = beta.ppf(0.025, hits, misses + 1) if hits else 0.0
    return low, beta.ppf(0.975, hits + 1, misses) if misses else 1.0


@simulation
def calibrated_mean_rates(draws: int = 1000, rows: int = 10_000) -> Iterator[tuple[Any, ...]]:
    """Coverage and width of ``calibrated_mean`` for rates, beside the labels alone.

    Width is the mean width over the width of the interval of Clopper and Pearson for the labels.
    """
    yield "score", "rate", "labels", "coverage", "least width", "mean width", "labels alone"
    for name, rate, n in itertools.product(SCORES, RATES, LABELS):
        rng = np.random.default_rng(n)
        covered, alone, widths = 0, 0, []
        for _ in range(draws):
            y = rng.uniform(size=rows) < rate
            s = SCORES[name](y, rng)
            found = calibrated_mean(y[:n], s[:n], s)
            low, high = of_labels(y[:n])
            covered += found.low <= rate <= found.high
            alone += low <= rate <= high
            widths.append([found.high - found.low, high - low])
        ours, theirs = np.mean(widths, axis=0)
        yield (
            name, f"{rate:g}", n, f"{100 * covered / draws:.1f} %",
            f"{min(a / b for a, b in widths):.2f}", f"{ours / theirs:.2f}",
            f"{100 * alone / draws:.1f} %",
        )  # fmt: skip

"""Coverage and width of ``calibrated_mean`` in simulated data, beside the labels alone.

Width is the mean width over that of the interval of Clopper and Pearson of the labels alone; "per
group" counts all intervals of the groups, whose rates differ. Run::

    python benchmarks/simulate_calibrated_mean.py [--draws 1000] [--rows 10000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from results import simple_table
from scipy.special import expit, logit
from scipy.stats import beta

from skcalib.judge import calibrated_mean

Random = np.random.Generator
HEADER = "score", "rate", "labels", "coverage", "least width", "mean width", "labels alone"
OF_GROUPS = "score", "groups", "labels of each", "coverage", "mean width"
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


def simulated(name: str, rate: float, n: int, n_all: int, draws: int) -> list[str]:
    """A row of the table."""
    rng = np.random.default_rng(n)
    covered, alone, widths = 0, 0, []
    for _ in range(draws):
        y = rng.uniform(size=n_all) < rate
        s = SCORES[name](y, rng)
        found = calibrated_mean(y[:n], s[:n], s)
        low, high = of_labels(y[:n])
        covered += found.low <= rate <= found.high
        alone += low <= rate <= high
        widths.append([found.high - found.low, high - low])
    ours, theirs = np.mean(widths, axis=0)
    return [
        name, f"{rate:g}", str(n), f"{100 * covered / draws:.1f} %",
        f"{min(a / b for a, b in widths):.2f}", f"{ours / theirs:.2f}",
        f"{100 * alone / draws:.1f} %",
    ]  # fmt: skip


def simulated_groups(name: str, n_groups: int, n: int, n_all: int, draws: int) -> list[str]:
    """A row of the table of groups, with rates from 0.1 to 0.6."""
    rng, rates = np.random.default_rng(n), expit(np.linspace(*logit([0.1, 0.6]), n_groups))
    among, covered, widths = np.arange(n_all) % n_groups, 0, []
    few = slice(0, n * n_groups)
    for _ in range(draws):
        y = rng.uniform(size=n_all) < rates[among]
        s = SCORES[name](y, rng) + among
        found = calibrated_mean(y[few], s[few], s, by=among[few], by_all=among)
        for k, part in found.by.items():
            low, high = of_labels(y[few][among[few] == k])
            covered += part.low <= rates[k] <= part.high
            widths.append([part.high - part.low, high - low])
    ours, theirs = np.mean(widths, axis=0)
    coverage = f"{100 * covered / len(widths):.1f} %"
    return [name, str(n_groups), str(n), coverage, f"{ours / theirs:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000)
    args = parser.parse_args()
    size = args.rows, args.draws
    lines = [simulated(s, rate, n, *size) for s in SCORES for rate in RATES for n in LABELS]
    print(simple_table(HEADER, lines), "\n")
    lines = [
        simulated_groups(s, k, n, *size) for s in SCORES for k in (2, 10) for n in (10, 30, 100)
    ]
    print(simple_table(OF_GROUPS, lines))


if __name__ == "__main__":
    main()

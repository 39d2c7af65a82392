"""Ratings of two systems by a judge, and promises of thresholds for categories."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit, stdtrit

from skcalib.decision import selective_threshold
from skcalib.judge import calibrated_mean_difference

from . import simulation

Random = np.random.Generator
LABELS = 30, 100, 300
N_ALL = 3000


def per_cent(covered: int, draws: int, mean: float) -> str:
    """Return a coverage in per cent, and in brackets the mean of another figure."""
    return f"{100 * covered / draws:.1f} ({mean:.2f})"


@simulation
def paired_ratings(draws: int = 400) -> Iterator[tuple[Any, ...]]:
    """Coverage of ``calibrated_mean_difference`` for two systems that often agree, in per cent.

    In brackets: the width over the width of the paired t interval of the labels alone. The next
    column is the coverage of that interval. Judges have a normal error, in points of the rating.
    """
    yield "agreement", "error", *itertools.chain(*((f"{n} labels", "alone") for n in LABELS))
    for agreement, error in itertools.product((0.5, 0.8, 0.95), (1.0, 3.0)):
        rng, cells = np.random.default_rng(0), []
        first, second = systems_that_agree(agreement, 2_000_000, rng)
        truth = np.mean(second - first)
        for n in LABELS:
            covered, alone, widths, classical = 0, 0, [], []
            for _ in range(draws):
                y, other = systems_that_agree(agreement, N_ALL, rng)
                s, t = (rated + rng.normal(0, error, N_ALL) for rated in (y, other))
                args = y[:n], s[:n], s, other[:n], t[:n], t
                found = calibrated_mean_difference(*args, bounds=(1, 5))
                covered += found.low <= truth <= found.high
                widths.append(found.high - found.low)
                gaps = (other - y)[:n]
                reach = stdtrit(n - 1, 0.975) * gaps.std(ddof=1) / np.sqrt(n)
                alone += abs(gaps.mean() - truth) <= reach
                classical.append(2 * reach)
            cells += [per_cent(covered, draws, np.mean(widths) / np.mean(classical))]
            cells += [f"{100 * alone / draws:.1f}"]
        yield agreement, error, *cells


def systems_that_agree(agreement: float, n: int, rng: Random) -> tuple[np.ndarray, np.ndarray]:
    """Ratings of 1 to 5 of two systems; the second one is often a point better if they differ."""
    first = np.clip(np.round(rng.normal(3, 1.2, n)), 1, 5)
    step = rng.choice([-1, 1, 1, 0], n) * (rng.uniform(size=n) > agreement)
    return first, np.clip(first + step, 1, 5)


@simulation
def joint_thresholds(draws: int = 400) -> Iterator[tuple[Any, ...]]:
    """Violations of the joint promises of ``selective_threshold`` with ``by=``, in per cent.

    The promised risk is the true one at half of the coverage. In brackets: the mean coverage.
    """
    numbers = 100, 500, 2500
    yield "categories", "rows of a group", *(f"{n} rows" for n in numbers)
    grid = np.sort(np.abs(np.random.default_rng(1).normal(0, 2, 100_000)))[::-1]
    risks = np.cumsum(expit(-grid)) / np.arange(1, len(grid) + 1)
    risk = risks[len(grid) // 2]
    for m, size in itertools.product((3, 10), (1, 4)):
        cells = []
        for n in numbers:
            rng, broken, coverages = np.random.default_rng(n), 0, []
            groups = np.repeat(np.arange(m * n // size), size)
            by = groups % m
            for _ in range(draws):
                z = rng.choice(grid, size=groups.max() + 1)
                right = rng.uniform(size=len(z)) < expit(z)
                found = selective_threshold(
                    right[groups], expit(z)[groups], risk=risk, kind="binary", by=by,
                    groups=groups, labels=[False, True],
                )  # fmt: skip
                limits = np.array([part.threshold for part in found.by.values()])
                counts = np.searchsorted(-expit(grid), -limits, side="right")
                broken += any(k and risks[k - 1] > risk * (1 + 1e-9) for k in counts)
                coverages += [part.coverage for part in found.by.values()]
            cells.append(per_cent(broken, draws, np.mean(coverages)))
        yield m, size, *cells

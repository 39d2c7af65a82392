"""Ratings by a judge, the averaged two-bin error, and promises of thresholds for categories."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logit, stdtrit

from skcalib.decision import selective_threshold
from skcalib.judge import calibrated_mean, calibrated_mean_difference
from skcalib.metrics import (
    averaged_two_bin_calibration_error,
    calibration_error_interval,
)

from . import simulation

Random = np.random.Generator
LABELS = 30, 100, 300
N_ALL = 3000
TWO_BIN = averaged_two_bin_calibration_error.__name__


def rating(levels: int | None, mean: float, rng: Random, quality: np.ndarray) -> np.ndarray:
    """Ratings of 1 to 5 with this number of levels, or continuous, that depend on the quality."""
    y = expit(logit(mean) + quality + rng.normal(0, 0.7, len(quality)))
    return 1 + 4 * (y if levels is None else np.round(y * (levels - 1)) / (levels - 1))


def per_cent(covered: int, draws: int, mean: float) -> str:
    """Return a coverage in per cent, and in brackets the mean of another figure."""
    return f"{100 * covered / draws:.1f} ({mean:.2f})"


@simulation
def calibrated_mean_ratings(draws: int = 400) -> Iterator[tuple[Any, ...]]:
    """Coverage of ``calibrated_mean`` for ratings of 1 to 5, in per cent.

    In brackets: the width over the classical width for the labels alone.
    """
    yield "levels", "mean", *(f"{n} labels" for n in LABELS)
    for levels, mean in itertools.product((3, 5, 11, None), (0.5, 0.9, 0.98)):
        draw, rng, cells = partial(rating, levels, mean), np.random.default_rng(0), []
        truth = draw(rng, rng.normal(size=2_000_000)).mean()
        for n in LABELS:
            covered, widths = 0, []
            for _ in range(draws):
                quality = rng.normal(size=N_ALL)
                y, score = draw(rng, quality), quality + rng.normal(0, 0.5, N_ALL)
                found = calibrated_mean(y[:n], score[:n], score, bounds=(1, 5))
                covered += found.low <= truth <= found.high
                widths.append(found.high - found.low)
            classical = 2 * 1.96 * np.std(y) / np.sqrt(n)
            cells.append(per_cent(covered, draws, np.mean(widths) / classical))
        yield levels or "continuous", f"{truth:.2f}", *cells


@simulation
def calibrated_mean_differences(draws: int = 400) -> Iterator[tuple[Any, ...]]:
    """Coverage of ``calibrated_mean_difference`` for ratings of two models, in per cent.

    In brackets: the width over the classical width for the labels alone.
    """
    yield "levels", "difference", *(f"{n} labels" for n in LABELS)
    pairs = (0.5, 0.5), (0.9, 0.85), (0.98, 0.98)
    for levels, means in itertools.product((2, 3, 5, 11, None), pairs):
        first, second = (partial(rating, levels, mean) for mean in means)
        rng, cells = np.random.default_rng(0), []
        many = rng.normal(size=2_000_000)
        truth = second(rng, many).mean() - first(rng, many).mean()
        for n in LABELS:
            covered, widths = 0, []
            for _ in range(draws):
                quality = rng.normal(size=N_ALL)
                one, two = first(rng, quality), second(rng, quality)
                s, t = (quality + rng.normal(0, 0.5, N_ALL) for _ in range(2))
                args = one[:n], s[:n], s, two[:n], t[:n], t
                found = calibrated_mean_difference(*args, bounds=(1, 5))
                covered += found.low <= truth <= found.high
                widths.append(found.high - found.low)
            classical = 2 * 1.96 * np.sqrt((np.var(one) + np.var(two)) / n)
            cells.append(per_cent(covered, draws, np.mean(widths) / classical))
        yield levels or "continuous", f"{truth:.2f}", *cells


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


def two_bin_case(
    name: str, temperature: float, n: int, size: int, kind: str, rng: Random
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, probabilities and groups, of ``size`` equal rows in each group."""
    n_groups = n // size
    shape = (n_groups, 5) if kind == "classwise" else (n_groups, 1)
    z = rng.normal(0, 1.5, shape) - (2.5 if name == "rare" else 0)
    z = z if kind == "classwise" else np.hstack([0 * z, z])
    P, true = (np.exp(v) / np.exp(v).sum(axis=1, keepdims=True) for v in (z, z / temperature))
    y = (rng.uniform(size=(n_groups, 1)) > np.cumsum(true, axis=1)[:, :-1]).sum(axis=1)
    groups = np.repeat(np.arange(n_groups), size)
    return y[groups], P[groups], groups


@simulation
def two_bin_error(
    draws: int = 400, resamples: int = 39, rows: tuple[int, ...] = (200, 1000)
) -> Iterator[tuple[Any, ...]]:
    """Coverage of the averaged two-bin error without noise, and rejections, in per cent.

    A calibrated model is rejected if the interval excludes zero.
    """
    columns = [text for n in rows for text in (f"covered, n = {n}", "rejected")]
    yield "risks", "T", "rows of a group", *columns
    kinds = ("uniform", "binary"), ("rare", "binary"), ("five", "classwise")
    for (name, kind), temperature in itertools.product(kinds, (1.0, 1.5)):
        rng = np.random.default_rng(0)
        case = partial(two_bin_case, name, temperature, kind=kind, rng=rng)
        y, P, _ = case(n=200_000, size=1)
        truth = averaged_two_bin_calibration_error(y, P, kind=kind) if temperature > 1 else 0
        for size in (1, 6):
            cells = []
            for n in rows:
                rejected = covered = 0
                for seed in range(draws):
                    y, P, groups = case(n=n, size=size)
                    found = calibration_error_interval(
                        y, P, measure=TWO_BIN, kind=kind, groups=groups,
                        labels=range(P.shape[1]), n_resamples=resamples, random_state=seed,
                    )  # fmt: skip
                    covered += found.low <= truth <= found.high
                    rejected += found.low > 0
                cells += [f"{100 * covered / draws:.1f}", f"{100 * rejected / draws:.1f}"]
            yield name, f"{temperature}", size, *cells


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

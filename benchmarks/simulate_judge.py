"""Coverage of the averaged two-bin error and of ratings, and joint promises of thresholds.

Run::

    python benchmarks/simulate_judge.py [--draws 400] [--only PARTS]
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from results import simple_table
from scipy.special import expit, logit

from skcalib.decision import selective_threshold
from skcalib.judge import calibrated_mean, calibrated_mean_difference
from skcalib.metrics import (
    averaged_two_bin_calibration_error,
    calibration_error_interval,
)

Random = np.random.Generator
LABELS = 30, 100, 300
N_ALL = 3000
TWO_BIN = averaged_two_bin_calibration_error.__name__


def rating(levels: int | None, mean: float, rng: Random, quality: np.ndarray) -> np.ndarray:
    """Ratings of 1 to 5 with this number of levels, or continuous, that depend on the quality."""
    y = expit(logit(mean) + quality + rng.normal(0, 0.7, len(quality)))
    return 1 + 4 * (y if levels is None else np.round(y * (levels - 1)) / (levels - 1))


def ratings(draws: int) -> None:
    lines = []
    for levels in (3, 5, 11, None):
        for mean in (0.5, 0.9, 0.98):
            draw = partial(rating, levels, mean)
            rng = np.random.default_rng(0)
            truth = draw(rng, rng.normal(size=2_000_000)).mean()
            line = [str(levels or "continuous"), f"{truth:.2f}"]
            for n in LABELS:
                covered, widths = 0, []
                for _ in range(draws):
                    quality = rng.normal(size=N_ALL)
                    y, score = draw(rng, quality), quality + rng.normal(0, 0.5, N_ALL)
                    found = calibrated_mean(y[:n], score[:n], score, bounds=(1, 5))
                    covered += found.low <= truth <= found.high
                    widths.append(found.high - found.low)
                classical = 2 * 1.96 * np.std(y) / np.sqrt(n)
                line.append(f"{100 * covered / draws:.1f} ({np.mean(widths) / classical:.2f})")
            lines.append(line)
    print(simple_table(("levels", "mean", *(f"{n} labels" for n in LABELS)), lines))


def differences(draws: int) -> None:
    lines = []
    for levels in (2, 3, 5, 11, None):
        for mean, other in ((0.5, 0.5), (0.9, 0.85), (0.98, 0.98)):
            first, second = (partial(rating, levels, value) for value in (mean, other))
            rng = np.random.default_rng(0)
            many = rng.normal(size=2_000_000)
            truth = second(rng, many).mean() - first(rng, many).mean()
            line = [str(levels or "continuous"), f"{truth:.2f}"]
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
                line.append(f"{100 * covered / draws:.1f} ({np.mean(widths) / classical:.2f})")
            lines.append(line)
    print(simple_table(("levels", "difference", *(f"{n} labels" for n in LABELS)), lines))


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


def two_bin(draws: int, resamples: int, sizes: list[int]) -> None:
    """Coverage of the error without noise. A calibrated model is rejected where this is not 0."""
    lines = []
    for name, kind in (("uniform", "binary"), ("rare", "binary"), ("five", "classwise")):
        for temperature in (1.0, 1.5):
            rng = np.random.default_rng(0)
            case = partial(two_bin_case, name, temperature, kind=kind, rng=rng)
            y, P, _ = case(n=200_000, size=1)
            truth = averaged_two_bin_calibration_error(y, P, kind=kind) if temperature > 1 else 0
            for size in (1, 6):
                line = [name, f"{temperature}", str(size)]
                for n in sizes:
                    rejected = covered = 0
                    for seed in range(draws):
                        y, P, groups = case(n=n, size=size)
                        found = calibration_error_interval(
                            y, P, measure=TWO_BIN, kind=kind, groups=groups,
                            labels=range(P.shape[1]), n_resamples=resamples, random_state=seed,
                        )  # fmt: skip
                        covered += found.low <= truth <= found.high
                        rejected += found.low > 0
                    line += [f"{100 * covered / draws:.1f}", f"{100 * rejected / draws:.1f}"]
                print(*line, flush=True)
                lines.append(line)
    header = ["risks", "T", "rows of a group"]
    for n in sizes:
        header += [f"covered, n = {n}", "rejected"]
    print(simple_table(header, lines))


def thresholds(draws: int) -> None:
    """Promises of all categories at once, at the true risk of half of the coverage."""
    lines, grid = [], np.sort(np.abs(np.random.default_rng(1).normal(0, 2, 100_000)))[::-1]
    risks = np.cumsum(expit(-grid)) / np.arange(1, len(grid) + 1)
    risk = risks[len(grid) // 2]
    for m in (3, 10):
        for size in (1, 4):
            line = [str(m), str(size)]
            for n in (100, 500, 2500):
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
                line.append(f"{100 * broken / draws:.1f} ({np.mean(coverages):.2f})")
            print(*line, flush=True)
            lines.append(line)
    print(simple_table(("categories", "rows of a group", "100", "500", "2500"), lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=39)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 1000])
    parts = {
        "ratings": ratings, "differences": differences, "two-bin": two_bin,
        "thresholds": thresholds,
    }  # fmt: skip
    parser.add_argument("--only", nargs="+", default=list(parts), choices=list(parts))
    args = parser.parse_args()
    for name in args.only:
        print(f"\n{name}\n")
        params = {"resamples": args.resamples, "sizes": args.rows} if name == "two-bin" else {}
        parts[name](args.draws, **params)


if __name__ == "__main__":
    main()

"""Level, power and coverage of tests and intervals where rows of a group depend on one another.

Each sample has ``groups`` groups. Rows of a group are equal (``equal``), or have own probabilities
and labels that depend fully (``shared``), by a correlation of 0.5 (``correlated``), or not at all
(``free``). Sizes of groups are constant, or vary from 1 to twice the mean (``~``). Run::

    python benchmarks/simulate_groups.py [--draws 400] [--resamples 99] [--only PARTS]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr

from skcalib.clinical import calibration_intercept, calibration_slope
from skcalib.metrics import (
    calibration_difference,
    calibration_error_interval,
    calibration_test,
)

#: Distributions of the risk, or of the largest of five probabilities.
RISKS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "rare": lambda rng, n: rng.beta(0.5, 19.5, n),
    "Beta(1, 6)": lambda rng, n: rng.beta(1, 6, n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "confident": lambda rng, n: expit(4 * rng.normal(size=n)),
    "five classes": lambda rng, n: 0.2 + 0.8 * rng.beta(3, 1, n),
}
#: True probabilities from predicted ones.
GAPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda p: p,
    "one bin": lambda p: np.clip(p - 0.2 * ((p > 0.4) & (p <= 0.4667)), 0, 1),
    "all bins": lambda p: expit(logit(np.clip(p, 1e-12, 1 - 1e-12)) / 1.5),
}
BINS = 15


class Cell(NamedTuple):
    """A setting of the simulation."""

    risks: str
    groups: int
    size: int
    dependence: str

    def sample(self, gaps: str, seed: int) -> tuple[np.ndarray, np.ndarray, dict]:
        """Labels, probabilities and arguments of tests and intervals."""
        rng = np.random.default_rng(seed)
        sizes = np.full(self.groups, self.size)
        if self.dependence.startswith("~"):
            sizes = rng.integers(1, 2 * self.size, self.groups)
        number = np.repeat(np.arange(self.groups), sizes)
        how = self.dependence.lstrip("~")
        p = RISKS[self.risks](rng, len(number))
        if how == "equal":
            p = p[np.unique(number, return_index=True)[1]][number]
        own, common = rng.normal(size=len(number)), rng.normal(size=self.groups)[number]
        share = {"equal": 1.0, "shared": 1.0, "correlated": 0.5, "free": 0.0}[how]
        u = ndtr(np.sqrt(share) * common + np.sqrt(1 - share) * own)
        event = u < GAPS[gaps](p)
        if self.risks != "five classes":
            return event.astype(int), p, {"groups": number, "kind": "binary", "labels": [0, 1]}
        top = rng.integers(5, size=self.groups)[number]
        P = np.repeat((1 - p[:, None]) / 4, 5, axis=1)
        P[np.arange(len(p)), top] = p
        other = (top + rng.integers(1, 5, len(p))) % 5
        return np.where(event, top, other), P, {"groups": number, "labels": range(5)}


@cache
def truth(risks: str, gaps: str) -> float:
    """True ECE of bins of equal width."""
    p = RISKS[risks](np.random.default_rng(1 << 20), 2_000_000)
    bins = np.ceil(p * BINS).clip(1) - 1
    return float(np.abs(np.bincount(bins.astype(int), p - GAPS[gaps](p))).sum() / len(p))


def rejections(cell: Cell, gaps: str, draws: int, resamples: int, measure: str) -> float:
    """Fraction of samples for which the test rejects at 5 %."""
    found = []
    for seed in range(draws):
        y, P, how = cell.sample(gaps, seed)
        how |= {"n_resamples": resamples, "random_state": seed, "measure": measure}
        found.append(calibration_test(y, P, **how).pvalue <= 0.05)
    return float(np.mean(found))


def print_level(draws: int, resamples: int) -> None:
    names = ["expected_calibration_error", "maximum_calibration_error", "spiegelhalter_z"]
    print("calibration_test: rejections at 5 %; power of the ECE if T = 1.5")
    print(f"{'risks':14}{'groups':>7}{'rows':>5} {'labels':13}", end="")
    print("".join(f"{title:>7}" for title in ("ECE", "MCE", "z", "power")))
    for cell in cells():
        print(f"{cell.risks:14}{cell.groups:7}{cell.size:5} {cell.dependence:13}", end="")
        for name in names:
            print(f"{rejections(cell, 'none', draws, resamples, name):7.3f}", end="", flush=True)
        print(f"{rejections(cell, 'all bins', draws // 4, resamples, names[0]):7.3f}", flush=True)


def print_coverage(draws: int, resamples: int) -> None:
    print("calibration_error_interval of the ECE: coverage at 95 %")
    print(f"{'risks':14}{'groups':>7}{'rows':>5} {'labels':13}", *(f"{g:>9}" for g in GAPS))
    for cell in cells():
        print(f"{cell.risks:14}{cell.groups:7}{cell.size:5} {cell.dependence:13}", end="")
        for gaps in GAPS:
            covered = []
            for seed in range(draws):
                y, P, how = cell.sample(gaps, seed)
                how |= {"n_resamples": resamples, "random_state": seed}
                found = calibration_error_interval(y, P, **how)
                covered.append(found.low <= truth(cell.risks, gaps) <= found.high)
            print(f"{np.mean(covered):10.3f}", end="", flush=True)
        print()


def print_clinical(draws: int, _: int) -> None:
    print("calibration_slope and calibration_intercept: coverage at 95 %, with and without groups")
    print(f"{'risks':14}{'groups':>7}{'rows':>5} {'labels':13}{'slope':>7}{'':7}{'intercept':>10}")
    risks = "Beta(1, 6)", "uniform", "confident"
    for cell in (Cell(name, *setting) for setting in CLINICAL_SETTINGS for name in risks):
        print(f"{cell.risks:14}{cell.groups:7}{cell.size:5} {cell.dependence:13}", end="")
        for figure, true in ((calibration_slope, 1.0), (calibration_intercept, 0.0)):
            covered = []
            for seed in range(draws):
                y, P, how = cell.sample("none", seed)
                try:
                    ends = [figure(y, P, groups=groups) for groups in (how["groups"], None)]
                except ValueError:  # a threshold separates the classes of few groups
                    continue
                covered += [found.low <= true <= found.high for found in ends]
            print(
                f"{np.mean(covered[::2]):7.3f}{np.mean(covered[1::2]):7.3f}", end="   ", flush=True
            )
        print()


def print_difference(draws: int, resamples: int) -> None:
    print("calibration_difference from a model with T = 1.5: coverage at 95 % of the difference of")
    print(f"{'risks':14}{'groups':>7}{'rows':>5} {'labels':13}{'RMSCE':>7}{'log loss':>10}")
    for cell in cells():
        if cell.risks != "uniform" or cell.size == 30:
            continue
        p = RISKS[cell.risks](np.random.default_rng(1 << 20), 1_000_000)
        q = GAPS["all bins"](p)
        bins = (np.ceil(q * BINS).clip(1) - 1).astype(int)
        weight = np.maximum(np.bincount(bins), 1)
        true = [
            -float(np.sqrt(np.sum((np.bincount(bins, q - p)) ** 2 / weight) / len(p))),
            float(np.mean(p * np.log(q / p) + (1 - p) * np.log((1 - q) / (1 - p)))),
        ]
        measures = ["debiased_root_mean_squared_calibration_error", mean_log_loss]
        print(f"{cell.risks:14}{cell.groups:7}{cell.size:5} {cell.dependence:13}", end="")
        for measure, error in zip(measures, true, strict=True):
            covered = []
            for seed in range(draws):
                y, P, how = cell.sample("none", seed)
                how |= {"n_resamples": resamples, "random_state": seed, "measure": measure}
                found = calibration_difference(y, P, GAPS["all bins"](P), **how)
                covered.append(found.low <= error <= found.high)
            print(f"{np.mean(covered):7.3f}", end="   ", flush=True)
        print()


def mean_log_loss(y: np.ndarray, p: np.ndarray) -> float:
    return float(-np.mean(np.log(np.where(y == 1, p, 1 - p))))


#: Groups, rows of a group, and labels. Groups of one row are tested as single rows.
SETTINGS = [
    (20, 6, "equal"),
    (200, 6, "~correlated"),
    (200, 6, "equal"),
    (50, 6, "equal"),
    (20, 30, "~correlated"),
    (200, 3, "free"),
    (200, 6, "shared"),
    (2000, 3, "equal"),
]


#: One row per group is the case without groups.
CLINICAL_SETTINGS = [
    *((n, 1, "free") for n in (20, 50, 200)),
    *product((20, 50, 200), (6, 30), ("equal", "correlated", "~correlated")),
    *(setting for setting in SETTINGS if setting[2] in {"free", "shared"} or setting[0] == 2000),
]


def cells() -> Iterator[Cell]:
    """All settings of all risks."""
    return (Cell(risks, *setting) for setting in SETTINGS for risks in RISKS)


PARTS = {
    "level": print_level,
    "coverage": print_coverage,
    "clinical": print_clinical,
    "difference": print_difference,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=99)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in args.only:
        PARTS[part](args.draws, args.resamples)


if __name__ == "__main__":
    main()

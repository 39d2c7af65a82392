"""Coverage of confidence intervals and rejection rates of tests in simulated data.

Logits are simulated by ``make_logits``: calibrated, over-confident (T > 1), under-confident
(T < 1), or with an over-predicted class. The true calibration error of the bins is computed from
up to 200 000 rows with their true probabilities in place of labels. Run::

    python benchmarks/simulate_uncertainty.py [--quick] [--simulations 400] [--resamples 199]
"""

from __future__ import annotations

import argparse
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits
from skcalib.metrics import (
    calibration_error_interval,
    calibration_test,
    compare_calibration,
)
from skcalib.metrics._calibration_error import HOMOGENEOUS
from skcalib.metrics._curve import edges_of
from skcalib.metrics._input import columns_of
from skcalib.metrics._inversion import Gaps

ECE = "expected_calibration_error"
RMSCE = "debiased_root_mean_squared_calibration_error"
#: Temperature, and offset of the logits of the first class.
MODELS = {"T=1": (1.0, 0.0), "1.2": (1.2, 0.0), "2": (2.0, 0.0), "0.7": (0.7, 0.0), "c=1": (1, 1.0)}


class Cell(NamedTuple):
    """A setting of the simulation: rows, and parameters of the measure."""

    kind: str
    n_classes: int
    n_rows: int
    strategy: str
    n_bins: int
    weights: str

    def sample(self, model: str, seed: int) -> tuple[np.ndarray, np.ndarray, dict]:
        y, P, _ = rows(self.n_rows, self.n_classes, model, seed)
        weights = np.random.RandomState(seed).exponential(size=self.n_rows)
        how = {"kind": self.kind, "n_bins": self.n_bins, "strategy": self.strategy}
        how |= {"labels": range(self.n_classes)}
        return y, P, how | {"sample_weight": weights if self.weights else None}

    def edges(self, y: np.ndarray, P: np.ndarray, w: np.ndarray | None) -> list[np.ndarray]:
        rows = MemoryRows(P, y, w, classes=np.arange(self.n_classes))
        columns = columns_of(None, rows, self.kind, None, None, None)
        return edges_of(columns, self.n_bins, self.strategy)


CELLS = [
    Cell("top-label", 3, 200, "uniform", 15, ""),
    Cell("top-label", 3, 200, "uniform", 15, "Exp(1)"),
    Cell("top-label", 3, 1000, "uniform", 15, ""),
    Cell("top-label", 10, 5000, "uniform", 15, ""),
    Cell("top-label", 3, 500, "quantile", 100, ""),
    Cell("top-label", 20, 1000, "quantile", 100, "Exp(1)"),
    Cell("top-label", 100, 500, "uniform", 100, "Exp(1)"),
    Cell("top-label", 100, 5000, "quantile", 100, "Exp(1)"),
    Cell("binary", 2, 200, "quantile", 15, ""),
    Cell("binary", 2, 500, "uniform", 100, "Exp(1)"),
    Cell("binary", 2, 1000, "uniform", 15, ""),
    Cell("classwise", 2, 500, "quantile", 15, ""),
    Cell("classwise", 3, 1000, "uniform", 15, "Exp(1)"),
    Cell("classwise", 10, 500, "quantile", 15, "Exp(1)"),
    Cell("classwise", 20, 500, "uniform", 15, ""),
    Cell("classwise", 100, 1000, "uniform", 15, ""),
]
OTHERS = [CELLS[k] for k in (0, 4, 8, 14)]


def rows(n: int, n_classes: int, model: str, seed: int) -> tuple[np.ndarray, ...]:
    """Labels, probabilities, true probabilities."""
    temperature, offset = MODELS[model]
    logits, y, true = make_logits(
        n,
        n_classes,
        temperature=temperature,
        offset=offset * np.eye(n_classes)[0],
        return_proba=True,
        random_state=seed,
    )
    return y, softmax(logits, axis=1), true


@cache
def population(kind: str, n_classes: int, model: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sorted scores, and cumulative sums of their deviations from the truth, for each column."""
    n = min(200_000, 4_000_000 // n_classes)
    _, P, true = rows(n, n_classes, model, 10**6)
    if model == "T=1":
        true = P
    off = P - true
    if kind == "top-label":
        best = P.argmax(axis=1)[:, None]
        P, off = (np.take_along_axis(values, best, axis=1) for values in (P, off))
    elif kind == "binary":
        P, off = P[:, 1:], off[:, 1:]
    order = P.argsort(axis=0)
    sums = np.cumsum(np.take_along_axis(off, order, axis=0), axis=0)
    return [(P[order[:, k], k], np.append(0, sums[:, k])) for k in range(P.shape[1])]


def truth(cell: Cell, model: str, edges: list[np.ndarray], measure: str = ECE) -> float:
    """True error of bins with these edges."""
    errors = []
    for (score, off), of_column in zip(
        population(cell.kind, cell.n_classes, model), edges, strict=True
    ):
        ends = np.searchsorted(score, of_column[1:-1], side="right")
        ends = np.r_[0, ends, len(score)]
        count = np.diff(ends)
        gap = np.diff(off[ends]) / np.maximum(count, 1)
        errors.append(HOMOGENEOUS[measure](Gaps(gap, count / len(score))))
    return float(np.mean(errors))


def coverage(cell: Cell, model: str, simulations: int, resamples: int, measure: str = ECE) -> float:
    """Fraction of samples whose interval contains the true error."""
    covered = []
    for seed in range(simulations):
        y, P, how = cell.sample(model, seed)
        error = truth(cell, model, cell.edges(y, P, how["sample_weight"]), measure)
        how |= {"measure": measure, "n_resamples": resamples, "random_state": seed}
        interval = calibration_error_interval(y, P, **how)
        covered.append(interval.low <= error <= interval.high)
    return float(np.mean(covered))


def level(cell: Cell, simulations: int, resamples: int, measure: str = ECE) -> float:
    """Fraction of samples of a calibrated model for which the test rejects at 5 %."""
    rejected = []
    for seed in range(simulations):
        y, P, how = cell.sample("T=1", seed)
        how |= {"measure": measure, "n_resamples": resamples, "random_state": seed}
        rejected.append(calibration_test(y, P, **how).pvalue <= 0.05)
    return float(np.mean(rejected))


def pair(case: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    """Labels and the probabilities of two models, both calibrated or one of them not."""
    random = np.random.RandomState(seed)
    if case == "beta scores, three levels":
        fine = random.beta(0.5, 0.5, size=n)
        y = (random.uniform(size=n) < fine).astype(int)
        # Means of the thirds of the arcsine law, so that both are calibrated.
        angle = np.arcsin(np.sqrt(1 / 3))
        outer = 0.5 - np.sqrt(2) / (6 * angle)
        coarse = np.select([fine < 1 / 3, fine < 2 / 3], [outer, 0.5], 1 - outer)
        return y, fine, coarse, {"kind": "binary"}
    if case == "beta scores, base rate":
        fine = random.beta(2, 2, size=n)
        y = (random.uniform(size=n) < fine).astype(int)
        return y, fine, np.full(n, 0.5), {"kind": "binary"}
    kind, K, other = case.split()
    K, how = int(K), {"kind": kind, "labels": range(int(K))}
    y, P, true = rows(n, K, "T=1" if other == "merged" else other, seed)
    if other == "merged":  # the classes of the first half have the same probability
        true = P.copy()
        true[:, : K // 2 + 1] = P[:, : K // 2 + 1].mean(axis=1, keepdims=True)
    return y, P, true, how


PAIRS = [
    "beta scores, three levels",
    "beta scores, base rate",
    "top-label 10 merged",
    "classwise 4 merged",
    "top-label 3 1.2",
    "top-label 3 2",
    "classwise 10 2",
    "binary 2 2",
]
BINS = [("uniform", 15), ("quantile", 50)]


def rejection_rate(case: str, n: int, simulations: int, resamples: int, **how: object) -> float:
    found = []
    for seed in range(simulations):
        y, one, other, kind = pair(case, n, seed)
        params = {"n_resamples": resamples, "random_state": seed, **kind, **how}
        found.append(compare_calibration(y, one, other, **params).pvalue <= 0.05)
    return float(np.mean(found))


def print_coverage(
    simulations: int, resamples: int, measures: list[str], cells: list[Cell]
) -> None:
    for measure in measures:
        print(f"{measure}: coverage of 95 % intervals, and rejections by the test at 5 % for T=1")
        print(f"{'kind':10}{'K':>4}{'rows':>6} {'bins':14}{'weights':8}", end="")
        print("".join(f"{model:>7}" for model in MODELS) + f"{'test':>7}")
        for cell in cells:
            print(f"{cell.kind:10}{cell.n_classes:4}{cell.n_rows:6} ", end="")
            print(f"{cell.strategy:9}{cell.n_bins:<5}{cell.weights:8}", end="")
            for model in MODELS:
                covered = coverage(cell, model, simulations, resamples, measure)
                print(f"{covered:7.3f}", end="", flush=True)
            population.cache_clear()
            print(f"{level(cell, simulations, resamples, measure):7.3f}", flush=True)


def print_pairs(simulations: int, resamples: int) -> None:
    print("compare_calibration: rejections at 5 %; the first four pairs are calibrated")
    print(f"{'pair':28}{'rows':>6} {'bins':12}{'default':>9}{'plain ECE':>11}")
    for case in PAIRS:
        for n in (300, 1000):
            for strategy, n_bins in BINS:
                rate = partial(rejection_rate, case, n, simulations, resamples)
                shares = [
                    rate(strategy=strategy, n_bins=n_bins, **measure)
                    for measure in ({}, {"measure": ECE})
                ]
                print(f"{case:28}{n:6} {strategy:9}{n_bins:<3}", end="")
                print(f"{shares[0]:9.3f}{shares[1]:11.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=199)
    parser.add_argument("--quick", action="store_true", help="100 simulations with 99 resamples")
    args = parser.parse_args()
    size = (100, 99) if args.quick else (args.simulations, args.resamples)
    print_coverage(*size, [ECE], CELLS)
    print_coverage(*size, [name for name in HOMOGENEOUS if name != ECE], OTHERS)
    print_pairs(*size)


if __name__ == "__main__":
    main()

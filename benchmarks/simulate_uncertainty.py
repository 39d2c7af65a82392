"""Coverage of confidence intervals and rejection rates of tests in simulated data.

Labels are drawn from true probabilities, which differ from those predicted by one of the
:data:`MODELS`. The true calibration error of the bins is computed from up to 200 000 rows with
their true probabilities in place of labels. Run::

    python benchmarks/simulate_uncertainty.py [--simulations 300] [--resamples 39] [--only PARTS]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from skcalib._rows import Rows
from skcalib.metrics import (
    calibration_difference,
    calibration_error_interval,
    calibration_test,
)
from skcalib.metrics._calibration_error import FORMULAS, HOMOGENEOUS
from skcalib.metrics._curve import edges_of
from skcalib.metrics._input import columns_of
from skcalib.metrics._inversion import BinsOfColumns

ECE = "expected_calibration_error"
RMSCE = "debiased_root_mean_squared_calibration_error"


def moved(gap: Callable[[np.ndarray], np.ndarray], P: np.ndarray) -> np.ndarray:
    """The second of two probabilities, or the largest of more, less a gap that depends on it."""
    i, k = np.arange(len(P)), P.argmax(axis=1) if P.shape[1] > 2 else 1
    p = P[i, k]
    true = np.clip(p - gap(p), 0, 1)
    out = P * ((1 - true) / np.maximum(1 - p, 1e-12))[:, None]
    out[i, k] = true
    return out


def tempered(temperature: float, P: np.ndarray) -> np.ndarray:
    """Probabilities of a model that is over-confident by this factor."""
    return softmax(np.log(P) / temperature, axis=1)


#: True probabilities from those predicted; ``above``: too high by 7 % above 0.9.
MODELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": lambda P: P,
    "over": partial(tempered, 1.5),
    "under": partial(tempered, 0.7),
    "every": partial(moved, lambda p: 0.06 + 0 * p),
    "one": partial(moved, lambda p: 0.2 * (np.ceil(15 * p) == 10)),
    "above": partial(moved, lambda p: 0.07 * (p > 0.9)),
    "alt.": partial(moved, lambda p: 0.06 * (2 * (np.ceil(15 * p) % 2) - 1)),
}


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
        rows = Rows(P, y, w, classes=np.arange(self.n_classes))
        columns = columns_of(None, rows, self.kind, None, None, None)
        return edges_of(columns, self.n_bins, self.strategy)


CELLS = [
    Cell("top-label", 3, 100, "uniform", 15, ""),
    Cell("top-label", 3, 1000, "uniform", 15, "Exp(1)"),
    Cell("top-label", 10, 10_000, "uniform", 15, ""),
    Cell("top-label", 3, 500, "quantile", 100, ""),
    Cell("top-label", 100, 1000, "quantile", 15, "Exp(1)"),
    Cell("binary", 2, 100, "quantile", 15, ""),
    Cell("binary", 2, 300, "uniform", 15, ""),
    Cell("binary", 2, 1000, "uniform", 15, ""),
    Cell("binary", 2, 1000, "uniform", 15, "Exp(1)"),
    Cell("binary", 2, 4000, "uniform", 15, ""),
    Cell("binary", 2, 10_000, "uniform", 15, ""),
    Cell("classwise", 2, 300, "uniform", 15, ""),
    Cell("classwise", 3, 1000, "uniform", 15, "Exp(1)"),
    Cell("classwise", 10, 300, "quantile", 15, ""),
    Cell("classwise", 30, 1000, "uniform", 15, ""),
    Cell("classwise", 100, 300, "uniform", 15, ""),
]
#: Kind and classes, and rows, of comparisons with the true probabilities.
DIFFERENCES = [((*of,), n) for of in (("binary", 2), ("top-label", 3)) for n in (300, 1000, 4000)]
OTHERS = [CELLS[k] for k in (0, 6, 9)]


def rows(n: int, n_classes: int, model: str, seed: int) -> tuple[np.ndarray, ...]:
    """Labels, probabilities, true probabilities."""
    random = np.random.RandomState(seed)
    P = softmax(2 * random.normal(size=(n, n_classes)), axis=1)
    true = MODELS[model](P)
    u = random.uniform(size=(n, 1))
    return (true.cumsum(axis=1)[:, :-1] <= u).sum(axis=1), P, true


@cache
def population(kind: str, n_classes: int, model: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sorted scores, and cumulative sums of their deviations from the truth, for each column."""
    n = min(200_000, 4_000_000 // n_classes)
    _, P, true = rows(n, n_classes, model, 10**6)
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
        bins = BinsOfColumns(count, count / len(score), score, gap, count)
        errors.append(HOMOGENEOUS[measure.removeprefix("debiased_")](bins))
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
        y, P, how = cell.sample("none", seed)
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
    y, P, true = rows(n, K, "none" if other == "merged" else other, seed)
    if other == "merged":  # the classes of the first half have the same probability
        true = P.copy()
        true[:, : K // 2 + 1] = P[:, : K // 2 + 1].mean(axis=1, keepdims=True)
    return y, P, true, how


PAIRS = [
    "beta scores, three levels",
    "beta scores, base rate",
    "top-label 10 merged",
    "classwise 4 merged",
]
BINS = [("uniform", 15), ("quantile", 50)]


def rejection_rate(case: str, n: int, simulations: int, resamples: int, **how: object) -> float:
    found = []
    for seed in range(simulations):
        y, one, other, kind = pair(case, n, seed)
        params = {"n_resamples": resamples, "random_state": seed, **kind, **how}
        found.append(calibration_difference(y, one, other, **params).pvalue <= 0.05)
    return float(np.mean(found))


def print_coverage(
    simulations: int, resamples: int, measures: list[str], cells: list[Cell]
) -> None:
    for measure in measures:
        print(f"{measure}: coverage of 95 % intervals; the test rejects where that of none lacks 0")
        print(f"{'kind':10}{'K':>4}{'rows':>6} {'bins':14}{'weights':8}", end="")
        print("".join(f"{model:>7}" for model in MODELS))
        for cell in cells:
            print(f"{cell.kind:10}{cell.n_classes:4}{cell.n_rows:6} ", end="")
            print(f"{cell.strategy:9}{cell.n_bins:<5}{cell.weights:8}", end="")
            for model in MODELS:
                covered = coverage(cell, model, simulations, resamples, measure)
                print(f"{covered:7.3f}", end="", flush=True)
            population.cache_clear()
            print()


def print_pairs(simulations: int, resamples: int) -> None:
    print("calibration_difference: rejections at 5 % of pairs that are both calibrated")
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


def differences(cell: Cell, model: str, simulations: int, resamples: int) -> tuple[float, float]:
    """Coverage and rejections of the difference of a model from the true probabilities."""
    found = []
    for seed in range(simulations):
        y, P, how = cell.sample(model, seed)
        true = rows(cell.n_rows, cell.n_classes, model, seed)[2]
        error = truth(cell, model, cell.edges(y, P, None), RMSCE)
        how |= {"n_resamples": resamples, "random_state": seed}
        result = calibration_difference(y, P, true, **how)
        found.append((result.low <= error <= result.high, result.pvalue <= 0.05))
    covered, rejected = np.mean(found, axis=0)
    return float(covered), float(rejected)


def print_differences(simulations: int, resamples: int) -> None:
    print(
        "calibration_difference with the true probabilities: coverage, and rejections in brackets"
    )
    models = [model for model in MODELS if model != "none"]
    print(f"{'kind':10}{'K':>4}{'rows':>6}" + "".join(f"{model:>14}" for model in models))
    for cell in [Cell(*of_scores, n, "uniform", 15, "") for of_scores, n in DIFFERENCES]:
        print(f"{cell.kind:10}{cell.n_classes:4}{cell.n_rows:6}", end="")
        for model in models:
            covered, rejected = differences(cell, model, simulations, resamples)
            print(f"{covered:8.3f} ({rejected:.2f})", end="", flush=True)
        print()
        population.cache_clear()


PARTS = {
    "ece": lambda *size: print_coverage(*size, [ECE], CELLS),
    "measures": lambda *size: print_coverage(*size, [*FORMULAS][1:], OTHERS),
    "pairs": print_pairs,
    "differences": print_differences,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument("--resamples", type=int, default=39)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    for part in args.only:
        PARTS[part](args.simulations, args.resamples)


if __name__ == "__main__":
    main()

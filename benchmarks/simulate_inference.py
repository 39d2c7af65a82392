"""Level of tests and coverage of intervals, for rows that depend on one another in different ways.

A *structure* says how many groups there are, how many rows a group has, how the rows of a group
depend on one another, how sure the probabilities are, and how many classes or labels there are.
A *figure* is a function with an interval or a p-value. Run::

    python benchmarks/simulate_inference.py level --figures ECE MCE z --draws 400
    python benchmarks/simulate_inference.py coverage --figures "log loss" slope --groups 20 50
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, softmax

from skcalib import clinical, judge, metrics

#: Distributions of risks, or of the logits of several classes by their standard deviation.
RISKS: dict[str, Callable[[np.random.Generator, Any], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "confident": lambda rng, n: expit(4 * rng.normal(size=n)),
    "1.2 %": lambda rng, n: rng.beta(0.5, 40, size=n),
    "0.5 %": lambda rng, n: rng.beta(0.5, 100, size=n),
    "certain": lambda rng, n: 1 - rng.beta(0.5, 60, size=n),
}
#: Standard deviation of the logits of several classes.
SPREAD = {"uniform": 2.0, "confident": 5.0}


class Structure(NamedTuple):
    """Groups of rows, and the probabilities of their labels."""

    groups: int = 200
    size: str = "6"  #: rows of a group: a number, or "heavy" for a few groups with most rows
    dependence: str = "equal"
    risks: str = "uniform"
    classes: str = "2"  #: a number of classes, or of labels such as "5 labels"

    def __str__(self) -> str:
        return (
            f"{self.groups:5} x {self.size:5} {self.dependence:12} {self.risks:10}{self.classes:>9}"
        )

    def sizes(self, rng: np.random.Generator) -> np.ndarray:
        """Number of rows of each group."""
        if self.size == "heavy":
            return np.minimum(np.ceil(2 * rng.pareto(1.1, self.groups)), 100 * self.groups) + 1
        return np.full(self.groups, int(self.size))

    def sample(self, seed: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Labels that are drawn from their probabilities, these, and the groups."""
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(self.groups), self.sizes(rng).astype(int))
        number, _, labels = self.classes.partition(" ")
        K, n = int(number), len(group)
        if labels:
            p = self._risks(rng, group, (K,))
            return self._events(rng, group, p), p, group
        if K == 2:
            p = self._risks(rng, group, ())
            if self.dependence == "negation":
                turn = np.arange(n) % 2 == 1
                p = rng.uniform(0.8, 0.99, self.groups)[group]
                y = rng.uniform(size=self.groups)[group] < p
                return (y != turn).astype(int), np.where(turn, 1 - p, p), group
            return self._events(rng, group, p), p, group
        first = np.unique(group, return_index=True)[1]
        P = softmax(SPREAD[self.risks] * rng.normal(size=(n, K)), axis=1)
        P = P[first][group] if self.dependence == "equal" else P
        ranks = np.argsort(-P, axis=1)
        if self.dependence == "events":
            ranks = np.arange(K) + 0 * ranks
        u = self._numbers(rng, group, ())
        drawn = (np.take_along_axis(P, ranks, 1).cumsum(axis=1)[:, :-1] <= u[:, None]).sum(axis=1)
        return ranks[np.arange(n), drawn], P, group

    def _risks(self, rng: np.random.Generator, group: np.ndarray, shape: tuple) -> np.ndarray:
        p = RISKS[self.risks](rng, (len(group), *shape))
        first = np.unique(group, return_index=True)[1]
        return p[first][group] if self.dependence == "equal" else p

    def _numbers(self, rng: np.random.Generator, group: np.ndarray, shape: tuple) -> np.ndarray:
        """Uniform numbers of the rows, or of the groups."""
        share = {"independent": 0.0, "correlated": 0.5}.get(self.dependence, 1.0)
        common = rng.normal(size=(self.groups, *shape[:0], *(1 for _ in shape)))[group]
        own = rng.normal(size=(len(group), *shape))
        return ndtr(np.sqrt(share) * common + np.sqrt(1 - share) * own)

    def _events(self, rng: np.random.Generator, group: np.ndarray, p: np.ndarray) -> np.ndarray:
        u = self._numbers(rng, group, p.shape[1:])
        if self.dependence == "right":
            return np.where(u < np.maximum(p, 1 - p), p > 0.5, p <= 0.5).astype(int)
        return (u < p).astype(int)


def sharpened(P: np.ndarray, factor: float = 1.5) -> np.ndarray:
    """Probabilities of an over-confident model: logits times the factor."""
    if P.ndim == 1:
        return expit(factor * logit(np.clip(P, 1e-12, 1 - 1e-12)))
    if not np.allclose(P.sum(axis=1), 1):
        return expit(factor * logit(np.clip(P, 1e-12, 1 - 1e-12)))
    return softmax(factor * np.log(np.maximum(P, 1e-300)), axis=1)


# --------------------------------------------------------------------------------------------------
# Figures: intervals and p-values of a sample, and true values.


def log_loss_of(y: np.ndarray, P: np.ndarray) -> float:
    """Log loss, for two or several classes."""
    p = np.where(y == 1, P, 1 - P) if P.ndim == 1 else P[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.maximum(p, 1e-300))))


def brier_of(y: np.ndarray, P: np.ndarray) -> float:
    """Sum of squared residuals of a row, for two or several classes."""
    Y = y[:, None] == np.arange(P.shape[1]) if P.ndim > 1 else y
    return float(np.sum((Y - P) ** 2) / len(y))


def arguments(structure: Structure) -> dict[str, Any]:
    """Keyword arguments of measures."""
    if structure.classes.endswith("labels"):
        return {"kind": "multilabel"}
    return {"labels": range(int(structure.classes))}


def p_value(measure: Any, y: Any, P: Any, g: Any, how: dict, seed: int, **params: Any) -> float:
    """P-value of a sample."""
    how = {"groups": g, "n_resamples": 99, "random_state": seed, "measure": measure, **how}
    return metrics.calibration_test(y, P, **how, **params).pvalue


def error_ends(measure: Any, y: Any, P: Any, g: Any, how: dict, seed: int, **params: Any) -> Any:
    """Interval of a calibration error or of a mean."""
    how = {"groups": g, "n_resamples": 99, "random_state": seed, "measure": measure, **how}
    found = metrics.calibration_error_interval(y, P, **how, **params)
    return found.low, found.high


def difference_ends(measure: Any, y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:
    """Interval of the difference of sharpened probabilities from the probabilities."""
    how = {"groups": g, "n_resamples": 99, "random_state": seed, "measure": measure, **how}
    found = metrics.calibration_difference(y, P, sharpened(P), **how)
    return found.low, found.high


def clinical_ends(function: Any, y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:  # noqa: ARG001
    """Interval of the slope or the intercept."""
    found = function(y, np.clip(P, 1e-9, 1 - 1e-9), groups=g, **how)
    return found.low, found.high


def benefit_ends(at: float, y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:  # noqa: ARG001
    """Interval of the net benefit."""
    found = clinical.net_benefit_curve(y, P, thresholds=[at], groups=g, **how)
    return found.low[0], found.high[0]


def bin_ends(y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:  # noqa: ARG001
    """Distances of interval ends of the bin with most rows from its mean score."""
    curve = metrics.reliability_curve(y, P, groups=g, n_bins=5, **how)
    low, high = curve.interval()
    k = curve.n_samples.argmax()
    return low[k] - curve.confidence[k], high[k] - curve.confidence[k]


def mean_ends(y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:  # noqa: ARG001
    """Interval of the rate in all rows from labels of half of the groups."""
    few = g < (g.max() + 1) // 2
    z = logit(np.clip(P, 1e-9, 1 - 1e-9))
    found = judge.calibrated_mean(y[few], z[few], z, groups=g[few], groups_all=g)
    return found.low, found.high


ERRORS = {
    "ECE": "expected_calibration_error",
    "MCE": "maximum_calibration_error",
    "RMSCE": "root_mean_squared_calibration_error",
    "debiased": "debiased_root_mean_squared_calibration_error",
    "smooth": "smooth_calibration_error",
    "two-bin": "averaged_two_bin_calibration_error",
}
TESTS: dict[str, Callable[..., float]] = {
    **{name: partial(p_value, measure) for name, measure in ERRORS.items()},
    "ECE 100": partial(p_value, ERRORS["ECE"], n_bins=100),
    "ECE 400": partial(p_value, ERRORS["ECE"], n_bins=400),
    "z": partial(p_value, "spiegelhalter_z"),
}
INTERVALS: dict[str, Callable[..., tuple[float, float]]] = {
    **{name: partial(error_ends, measure) for name, measure in ERRORS.items()},
    "ECE 100": partial(error_ends, ERRORS["ECE"], n_bins=100),
    "log loss": partial(error_ends, log_loss_of),
    "Brier": partial(error_ends, brier_of),
    "net benefit": partial(benefit_ends, 0.2),
    "slope": partial(clinical_ends, clinical.calibration_slope),
    "intercept": partial(clinical_ends, clinical.calibration_intercept),
    "bin": bin_ends,
    "mean": mean_ends,
    "difference": partial(difference_ends, log_loss_of),
}


@cache
def truth(name: str, structure: Structure, factor: float) -> float:
    """True value of a figure, from many independent rows and their true probabilities."""
    size = "2" if structure.dependence == "negation" else "1"
    many = structure._replace(groups=400_000 if structure.classes == "2" else 50_000, size=size)
    many = many._replace(dependence="negation" if size == "2" else "independent")
    y, true, _ = many.sample(10**6)
    P = true if factor == 1 else sharpened(true, factor)
    if name in {"slope", "intercept", "bin"}:
        return float(name == "slope") / factor
    if name == "mean":
        return float(true.mean())
    if name == "difference":
        return log_loss_of(y, sharpened(P)) - log_loss_of(y, P)
    if name == "net benefit":
        return float(np.mean(np.where(P >= 0.2, true - (1 - true) / 4, 0.0)))
    if name in {"log loss", "Brier"}:
        return {"log loss": log_loss_of, "Brier": brier_of}[name](y, P)
    if name in {"smooth", "two-bin"}:
        if factor == 1:
            return 0.0
        return float(getattr(metrics, ERRORS[name])(y, P, **arguments(structure)))
    if P.ndim > 1 and not structure.classes.endswith("labels"):
        top = P.argmax(axis=1)[:, None]
        P, true = np.take_along_axis(P, top, 1), np.take_along_axis(true, top, 1)
    n_bins, errors = 100 if name == "ECE 100" else 15, []
    for p, q in zip(np.atleast_2d(P.T), np.atleast_2d(true.T), strict=True):
        k = np.clip(np.ceil(p * n_bins).astype(int) - 1, 0, n_bins - 1)
        count = np.bincount(k, minlength=n_bins)
        gap = np.bincount(k, p - q, n_bins) / np.maximum(count, 1)
        square = np.sqrt(np.sum(count * gap**2) / len(p))
        error = float(np.sum(count * np.abs(gap)) / len(p))
        errors.append({"ECE": error, "ECE 100": error, "MCE": np.abs(gap).max()}.get(name, square))
    return float(np.mean(errors))


def level(name: str, structure: Structure, draws: int, factor: float = 1.0) -> float:
    """Share of samples with a p-value of at most 5 %, of probabilities sharpened by a factor."""
    rejected = []
    for seed in range(draws):
        y, P, g = structure.sample(seed)
        P = P if factor == 1 else sharpened(P, factor)
        rejected.append(TESTS[name](y, P, g, arguments(structure), seed) <= 0.05)
    return float(np.mean(rejected))


def coverage(name: str, structure: Structure, draws: int, factor: float = 1.0) -> tuple[float, ...]:
    """Share of samples with an interval that contains the true value, its width, and warnings."""
    covered, widths, warned, true = [], [], 0, truth(name, structure, factor)
    for seed in range(draws):
        y, P, g = structure.sample(seed)
        P = P if factor == 1 else sharpened(P, factor)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                low, high = INTERVALS[name](y, P, g, arguments(structure), seed)
            except ValueError:  # rows of one class, or separated by a threshold
                continue
        warned += any("groups" in str(one.message) for one in caught)
        covered.append(low - 1e-9 <= true <= high + 1e-9)
        widths.append(high - low)
    if not covered:
        return np.nan, np.nan, np.nan
    return float(np.mean(covered)), float(np.median(widths)), warned / draws


#: Structures for two classes, by all their features.
DEPENDENCES = ("independent", "equal", "correlated", "right", "negation")


def structures(options: argparse.Namespace) -> Iterator[Structure]:
    """Yield the structures of the command line."""
    for risks in options.risks:
        for classes in options.classes:
            for groups in options.groups:
                for dependence in options.dependence:
                    for size in ("2",) if dependence == "negation" else options.size:
                        yield Structure(groups, size, dependence, risks, classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["level", "coverage"])
    parser.add_argument("--figures", nargs="+", default=["ECE"], choices=[*TESTS, *INTERVALS])
    parser.add_argument("--groups", nargs="+", type=int, default=[20, 50, 200])
    parser.add_argument("--size", nargs="+", default=["6"])
    parser.add_argument("--dependence", nargs="+", default=DEPENDENCES, choices=DEPENDENCES)
    parser.add_argument("--risks", nargs="+", default=["uniform"], choices=RISKS)
    parser.add_argument("--classes", nargs="+", default=["2"])
    parser.add_argument("--factor", type=float, default=1.0, help="1.5: over-confident")
    parser.add_argument("--draws", type=int, default=400)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for structure in structures(options):
        start, cells = time.process_time(), []
        for name in options.figures:
            if options.what == "level":
                rate = level(name, structure, options.draws, options.factor)
                cells.append(f"{name} {rate:.3f}")
            else:
                rate, width, warned = coverage(name, structure, options.draws, options.factor)
                cells.append(f"{name} {rate:.3f} ({width:.3g}{', warns' * (warned > 0.5)})")
        print(structure, " | ".join(cells), f"[{time.process_time() - start:.0f} s]", flush=True)


if __name__ == "__main__":
    main()

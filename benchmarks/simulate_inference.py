"""Level of tests and coverage of intervals, for rows that depend on one another in different ways.

A *structure* says how many groups there are, how many rows a group has, how the rows of a group
depend on one another, how sure the probabilities are, and how many classes or labels there are.
A *figure* is a function with an interval or a p-value. Run::

    python benchmarks/simulate_inference.py level --figures ECE MCE z --draws 400
    python benchmarks/simulate_inference.py coverage --figures "log loss" slope --groups 20 50
    python benchmarks/simulate_inference.py cells --minutes 70
    python benchmarks/simulate_inference.py summary

``cells`` runs all figures on a design in which each pair of features occurs, and appends counts to
``results/inference.csv`` after each 100 draws. A figure stops after 400 draws, or when the exact
95 % interval of its rate is on one side of the promise after 100, 200 or 300 draws. The promise is
a level of at most 7 %, or a coverage of at least 93 %. With all looks together, a cell with a rate
of 7 % is taken for a kept promise in 3.6 % of cases and for a broken promise in 5.7 %; a cell with
a rate of 10 % is taken for a kept promise in 0.05 %. In 400 draws an exact test of level 5 %
rejects more than 7 % in 3.0 % of cases: among 100 cells of exact tests, three look broken by
chance. ``--first`` repeats a cell with other draws.
``summary`` prints a line for each figure, and the cells in which it does not keep its promise.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtr, softmax, xlogy

from skcalib import clinical, compare_calibrators, judge, metrics
from skcalib.base import BaseCalibrator

FILE = Path(__file__).parent / "results" / "inference.csv"

#: How the rows of a group depend on one another.
DEPENDENCES = ("independent", "equal", "correlated", "events", "right", "negation")

#: Share of the groups that only the second of two judged systems solves, if the first one fails.
MORE = 0.1

#: Part of the warnings of few groups, events or rows.
WARNING = "too narrow"

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
        if self.risks in SPREAD:
            P = softmax(SPREAD[self.risks] * rng.normal(size=(n, K)), axis=1)
        else:  # all classes but the first one are rare
            risk = RISKS[self.risks](rng, (n, 1))
            P = np.hstack([1 - risk, risk * rng.dirichlet(np.ones(K - 1), size=n)])
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
    if factor == 1:
        return P
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
    """Sum of squared residuals of a row, for two or several classes or labels."""
    Y = y if y.ndim == P.ndim else y[:, None] == np.arange(P.shape[1])
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


class Sharper(BaseCalibrator):
    """Logits times a factor."""

    def _fit(self, rows: Any) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _calibrate(self, Z: Any) -> Any:
        return 1.5 * Z


def comparison_ends(y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:  # noqa: ARG001
    """Interval of the difference of sharpened probabilities on a test set."""
    P = np.stack([1 - P, P], axis=1) if P.ndim == 1 else P
    Z = np.log(np.maximum(P, 1e-300))
    found = compare_calibrators(
        Z, y, calibrators={"sharper": Sharper()}, test=(Z, y, None, None, g),
        scoring="neg_log_loss", **how,
    )  # fmt: skip
    low, high = found.interval("log loss")
    k = found.names.index("sharper")
    return low[k], high[k]


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


def judged_ends(y: Any, P: Any, g: Any, how: dict, seed: int) -> Any:  # noqa: ARG001
    """Interval of the difference of two judged systems, from labels of half of the groups.

    The second system also solves a tenth of the groups in which the first one fails.
    """
    rng, few = np.random.default_rng((seed, 1)), g < (g.max() + 1) // 2
    more = rng.uniform(size=g.max() + 1)[g] < MORE
    z = logit(np.clip(P, 1e-9, 1 - 1e-9))
    other_z = z + 2 * more + rng.normal(0, 0.5, len(z))
    other = y | more
    found = judge.calibrated_mean_difference(
        y[few], z[few], z, other[few], other_z[few], other_z, groups=g[few], groups_all=g
    )
    return found.low, found.high


ERRORS = {
    "ECE": "expected_calibration_error",
    "MCE": "maximum_calibration_error",
    "RMSCE": "root_mean_squared_calibration_error",
    "debiased": "debiased_root_mean_squared_calibration_error",
    "smooth": "smooth_calibration_error",
    "two-bin": "averaged_two_bin_calibration_error",
}
BINS = {"ECE 100": 100, "ECE 400": 400}
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
    "judged": judged_ends,
    "difference": partial(difference_ends, log_loss_of),
    "errors": partial(difference_ends, ERRORS["debiased"]),
    "comparison": comparison_ends,
}


#: Figures of two classes, and figures that need much time.
TWO_CLASSES = {"z", "net benefit", "slope", "intercept", "bin", "mean", "judged"}
SLOW = {"smooth", "two-bin"}


def applies(name: str, structure: Structure) -> bool:
    """Whether a figure exists for the classes, and is fast enough for the number of rows."""
    rows = structure.groups * (6 if structure.size == "heavy" else int(structure.size))
    if name == "z" and structure.classes in {"3", "10"}:
        return True
    if name in TWO_CLASSES and structure.classes != "2":
        return False
    labels = structure.classes.endswith("labels")
    if name in {"log loss", "difference", "comparison"} and labels:
        return False
    return not (name in SLOW and (rows > 1500 or labels))


def truth(name: str, structure: Structure, factor: float) -> float:
    """Return the true value of a figure, from many rows and their true probabilities."""
    if name == "MCE":
        return np.nan
    return _truth(name, many(structure), factor)


def many(structure: Structure) -> Structure:
    """Return the structure of independent rows with the same risks."""
    size = "2" if structure.dependence == "negation" else "1"
    dependence = "negation" if size == "2" else "independent"
    return structure._replace(groups=0, size=size, dependence=dependence)


@cache
def _many(structure: Structure) -> np.ndarray:
    """Return true probabilities of many rows."""
    return structure._replace(groups=300_000 if structure.classes == "2" else 40_000).sample(10**6)[
        1
    ]


@cache
def _truth(name: str, structure: Structure, factor: float) -> float:
    if name in {"slope", "intercept", "bin"}:
        return float(name == "slope") / factor
    true = _many(structure)
    # A difference of calibration errors is the error of the sharpened probabilities.
    P = sharpened(true, 1.5 if name == "errors" else factor)
    if name in {"mean", "judged"}:
        return float(true.mean() if name == "mean" else MORE * (1 - true.mean()))
    if name in {"difference", "comparison"}:
        return expected_log_loss(true, sharpened(P)) - expected_log_loss(true, P)
    if name == "net benefit":
        return float(np.mean(np.where(P >= 0.2, true - (1 - true) / 4, 0.0)))
    if name == "log loss":
        return expected_log_loss(true, P)
    if name == "Brier":
        return float(np.sum(true * (1 - true) + (true - P) ** 2) / len(P))
    if name in SLOW:
        if factor == 1:
            return 0.0
        y = structure._replace(groups=len(true) // int(structure.size)).sample(10**6)[0]
        return float(getattr(metrics, ERRORS[name])(y, P, **arguments(structure)))
    if not structure.classes.endswith("labels"):
        P, true = top_label(P, true)
    return binned_error(name, P, true)


def top_label(P: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and probabilities of the event: the most probable of several classes."""
    if P.ndim == 1:
        return P, true
    top = P.argmax(axis=1)[:, None]
    return np.take_along_axis(P, top, 1), np.take_along_axis(true, top, 1)


def binned_error(name: str, P: np.ndarray, true: np.ndarray) -> float:
    """Return the mean over the columns of a calibration error without noise of labels."""
    n_bins, errors = BINS.get(name, 15), []
    for p, q in zip(np.atleast_2d(P.T), np.atleast_2d(true.T), strict=True):
        k = bins_of(p, n_bins)
        count = np.bincount(k, minlength=n_bins)
        gap = np.bincount(k, p - q, n_bins) / np.maximum(count, 1)
        square = np.sqrt(np.sum(count * gap**2) / len(p))
        error = float(np.sum(count * np.abs(gap)) / len(p))
        errors.append(error if name.startswith("ECE") else square)
    return float(np.mean(errors))


@cache
def gaps(structure: Structure, factor: float) -> np.ndarray:
    """Return the true gaps (n_columns, 15) of bins."""
    true = _many(structure)
    P, columns = sharpened(true, factor), []
    if not structure.classes.endswith("labels"):
        P, true = top_label(P, true)
    for p, q in zip(np.atleast_2d(P.T), np.atleast_2d(true.T), strict=True):
        k = bins_of(p)
        columns.append(np.bincount(k, p - q, 15) / np.maximum(np.bincount(k, minlength=15), 1))
    return np.abs(columns)


def bins_of(p: np.ndarray, n_bins: int = 15) -> np.ndarray:
    """Return the bin of each score."""
    return np.clip(np.ceil(p * n_bins).astype(int) - 1, 0, n_bins - 1)


def largest_gap(structure: Structure, factor: float, P: np.ndarray) -> float:
    """Return the mean over columns of the largest true gap of a bin that has rows of a sample."""
    if not structure.classes.endswith("labels"):
        P, _ = top_label(P, P)
    errors = []
    for gap, p in zip(gaps(many(structure), factor), np.atleast_2d(P.T), strict=True):
        errors.append(gap[np.unique(bins_of(p))].max())
    return float(np.mean(errors))


def expected_log_loss(true: np.ndarray, P: np.ndarray) -> float:
    """Return the mean of the log loss over the labels with these true probabilities."""
    losses = -xlogy(true, np.maximum(P, 1e-300))
    return float((losses - xlogy(1 - true, 1 - P) if P.ndim == 1 else losses.sum(axis=1)).mean())


class Count(NamedTuple):
    """Results of a figure in some samples of a structure."""

    draws: int  #: samples with a result
    hits: int  #: rejections, or intervals that contain the true value
    width: float  #: median width of the intervals
    warned: int  #: samples with a warning of few groups, events or rows


def simulate(
    what: str, name: str, structure: Structure, seeds: range, factor: float = 1.0
) -> Count:
    """Count rejections (``what`` is "level") or intervals with the true value ("coverage").

    The probabilities are sharpened by the factor: 1 for calibrated ones.
    """
    hits, widths, warned = [], [], 0
    true = truth(name, structure, factor) if what == "coverage" else 0.0
    how = arguments(structure)
    for seed in seeds:
        y, P, g = structure.sample(seed)
        P = sharpened(P, factor)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if what == "level":
                    hits.append(TESTS[name](y, P, g, how, seed) <= 0.05)
                else:
                    low, high = INTERVALS[name](y, P, g, how, seed)
                    if name == "MCE":  # the largest gap of the bins with rows
                        true = largest_gap(structure, factor, P)
                    hits.append(low - 1e-9 <= true <= high + 1e-9)
                    widths.append(high - low)
            except ValueError:  # rows of one class, or separated by a threshold
                continue
        warned += any(WARNING in str(one.message) for one in caught)
    return Count(len(hits), sum(hits), float(np.median(widths)) if widths else np.nan, warned)


# --------------------------------------------------------------------------------------------------
# Cells: a design with all pairs of features, in a file that grows.

LEVEL, COVERAGE, BLOCK, MOST_DRAWS = 0.07, 0.93, 100, 400
FEATURES = {
    "groups": [20, 50, 200, 2000],
    "size": ["1", "2", "6", "30", "heavy"],
    "dependence": [*DEPENDENCES],
    "risks": ["uniform", "confident", "1.2 %", "0.5 %"],
    "classes": ["2", "3", "10", "5 labels", "20 labels"],
}
#: Structures in which earlier versions failed.
WORST = [
    Structure(50, "30", "equal", "1.2 %"),
    Structure(50, "heavy", "equal"),
    Structure(20, "2", "negation"),
    Structure(1000, "2", "independent"),
    Structure(3000, "1", "independent"),
    Structure(200, "6", "right"),
    Structure(1000, "1", "independent", "uniform", "20 labels"),
    Structure(20, "6", "equal", "1.2 %"),
]


def design() -> list[Structure]:
    """Return the worst structures, and structures with each possible pair of features."""
    possible = [Structure(*values) for values in product(*FEATURES.values()) if is_possible(values)]
    cells, fields = [*WORST], range(len(FEATURES))
    pairs = {one: {(i, j, one[i], one[j]) for i, j in combinations(fields, 2)} for one in possible}
    missing = set().union(*pairs.values()) - {
        (i, j, one[i], one[j]) for one in WORST for i, j in combinations(fields, 2)
    }
    while missing:
        best = max(possible, key=lambda one: len(pairs[one] & missing) / (1 + cost(one) / 4000))
        cells.append(best)
        missing -= pairs[best]
    return sorted(cells, key=cost)


def is_possible(values: tuple[Any, ...]) -> bool:
    """Whether features may occur together: single rows have no dependence."""
    _, size, dependence, risks, classes = values
    if dependence == "negation":
        return size == "2" and classes == "2" and risks == "uniform"
    return (size != "1" or dependence == "independent") and (
        dependence != "events" or not classes.endswith("labels")
    )


def cost(structure: Structure) -> float:
    """Return the number of rows times the number of columns."""
    rows = structure.groups * (6 if structure.size == "heavy" else int(structure.size))
    return rows * (1 if structure.classes == "2" else int(structure.classes.split()[0]))


def is_decided(what: str, count: Count) -> bool:
    """Whether the exact limits of a rate are on one side of the promise."""
    n, k = count.draws, count.hits
    low = betaincinv(k, n - k + 1, 0.025) if k else 0.0
    high = betaincinv(k + 1, n - k, 0.975) if k < n else 1.0
    promise = LEVEL if what == "level" else COVERAGE
    return bool(n >= BLOCK and (high <= promise or low >= promise))


KEY = ("what", "figure", *Structure._fields, "factor")


def stored() -> dict[tuple[str, ...], list[Count]]:
    """Return the blocks of draws in the file, by what they are of."""
    blocks: dict[tuple[str, ...], list[Count]] = defaultdict(list)
    if FILE.exists():
        with FILE.open(newline="") as file:
            for row in csv.DictReader(file):
                n, hits, width, warned = (float(row[name]) for name in Count._fields)
                key = tuple(row[name] for name in KEY)
                blocks[key].append(Count(int(n), int(hits), width, int(warned)))
    return blocks


def total(blocks: list[Count]) -> Count:
    """Return the sums of blocks, and the mean of their widths."""
    draws, hits, widths, warned = zip(*blocks, strict=True)
    return Count(sum(draws), sum(hits), float(np.mean(widths)), sum(warned))


def run_cells(minutes: float, figures: list[str], promises: list[str]) -> None:
    """Append blocks of draws to the file, until the time is over or all cells are decided."""
    end, is_new = time.monotonic() + 60 * minutes, not FILE.exists()
    names = [("level", name, 1.0) for name in TESTS]
    names += [("coverage", name, 1.5 if name in {*ERRORS, *BINS} else 1.0) for name in INTERVALS]
    names = [one for one in names if one[0] in promises and one[1] in figures]
    with FILE.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([*KEY, *Count._fields])
        blocks = stored()

        def order(task: tuple[int, Structure, tuple[str, str, float]]) -> tuple[float, int]:
            # Cells without draws, then cells with rates next to the promise; cheap cells first.
            block, structure, (what, name, factor) = task
            done = blocks.get(tuple(map(str, (what, name, *structure, factor))))
            return round(margin(what, total(done)), 2) if done else block - 9.0, block

        tasks = product(range(MOST_DRAWS // BLOCK), design(), names)
        for block, structure, (what, name, factor) in sorted(tasks, key=order):
            key = tuple(map(str, (what, name, *structure, factor)))
            done = blocks[key]
            if not applies(name, structure) or len(done) > block:
                continue
            if done and is_decided(what, total(done)):
                continue
            if time.monotonic() > end:
                return
            seeds = range(block * BLOCK, (block + 1) * BLOCK)
            done.append(simulate(what, name, structure, seeds, factor))
            writer.writerow([*key, *done[-1]._replace(width=float(f"{done[-1].width:.4g}"))])
            file.flush()


def margin(what: str, count: Count) -> float:
    """Return how far the rate keeps, or breaks, the promise."""
    return abs(count.hits / max(count.draws, 1) - (LEVEL if what == "level" else COVERAGE))


def print_summary() -> None:
    """Print a line for each figure, and the cells in which it does not keep its promise."""
    from results import simple_table  # of the folder of this script, which tests do not have

    figures: dict[tuple[str, ...], list[tuple[Count, str]]] = defaultdict(list)
    for key, blocks in stored().items():
        if (count := total(blocks)).draws >= BLOCK // 2:
            cell = f"{key[2]} x {key[3]}, {', '.join(key[4:7])}"
            figures[key[:2]].append((count, cell))
    lines, broken = [], []
    for (what, name), cells in figures.items():
        numbers = [len(cells), sum(is_final(what, count) for count, _ in cells)]
        for warns in ("no", "yes"):
            some = [(c, cell) for c, cell in cells if (2 * c.warned >= c.draws) == (warns == "yes")]
            rates = [c.hits / c.draws for c, _ in some]
            bad = [rate > LEVEL if what == "level" else rate < COVERAGE for rate in rates]
            worst = [f"{max(rates) if what == 'level' else min(rates):.3f}"] if rates else [""]
            numbers += [len(some), *worst, sum(bad)]
            for (c, cell), rate, is_bad in zip(some, rates, bad, strict=True):
                if is_bad:
                    broken.append([what, name, cell, str(c.draws), f"{rate:.3f}", warns])
        lines.append([what, name, *map(str, numbers)])
    titles = "promise", "figure", "cells", "final", *2 * ("cells", "worst", "broken")
    print("Cells without a warning in most draws, then cells with a warning:\n")
    print(simple_table(titles, lines))
    titles = "promise", "figure", "cell", "draws", "rate", "warns"
    print(simple_table(titles, sorted(broken, key=lambda line: line[5])))


def is_final(what: str, count: Count) -> bool:
    """Whether draws decide, or there are as many as a cell can have."""
    return is_decided(what, count) or count.draws >= MOST_DRAWS


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
    parser.add_argument("what", choices=["level", "coverage", "cells", "summary"])
    parser.add_argument("--figures", nargs="+", choices=[*TESTS, *INTERVALS])
    parser.add_argument("--groups", nargs="+", type=int, default=[20, 50, 200])
    parser.add_argument("--size", nargs="+", default=["6"])
    parser.add_argument("--dependence", nargs="+", default=DEPENDENCES, choices=DEPENDENCES)
    parser.add_argument("--risks", nargs="+", default=["uniform"], choices=RISKS)
    parser.add_argument("--classes", nargs="+", default=["2"])
    parser.add_argument("--factor", type=float, default=1.0, help="1.5: over-confident")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--minutes", type=float, default=60.0, help="time for cells")
    parser.add_argument("--promises", nargs="+", default=["level", "coverage"], help="of cells")
    options = parser.parse_args()
    if options.what == "cells":
        figures = options.figures or [*TESTS, *INTERVALS]
        return run_cells(options.minutes, figures, options.promises)
    if options.what == "summary":
        return print_summary()
    for structure in structures(options):
        start, cells = time.process_time(), []
        for name in options.figures or ["ECE"]:
            seeds = range(options.first, options.first + options.draws)
            count = simulate(options.what, name, structure, seeds, options.factor)
            rate = count.hits / max(count.draws, 1)
            warns = ", warns" * (count.warned > count.draws / 2)
            width = "" if options.what == "level" else f", {count.width:.3g}"
            cells.append(f"{name} {rate:.3f} ({count.draws}{width}{warns})")
        print(structure, " | ".join(cells), f"[{time.process_time() - start:.0f} s]", flush=True)
    return None


if __name__ == "__main__":
    main()

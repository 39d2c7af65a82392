"""Monitors over long lives.

Logits are normal with a standard deviation of 2, and labels are drawn from their softmax: the
probabilities are calibrated. After a drift, labels are drawn from other probabilities.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from skcalib.monitor import CalibrationMonitor

from . import simulation

Random = np.random.Generator
# From logits to those of the true probabilities.
Truth = Callable[[np.ndarray], np.ndarray]
LEVEL = 0.05


class Life(NamedTuple):
    """A setting: what is monitored for how many rows."""

    n_classes: int
    kind: str
    batch: int
    n_rows: int
    n_bins: int = 15
    weights: bool = False
    group: int = 1
    tolerance: float = 0.0
    patients: int = 0  # who return in later batches, with a row for each visit
    effect: float = 1.0  # share of the visits with the outcome of the patient

    def monitor(self) -> CalibrationMonitor:
        how = {"kind": self.kind, "n_bins": self.n_bins, "tolerance": self.tolerance}
        return CalibrationMonitor(labels=range(self.n_classes), **how)

    def cells(self) -> list[str]:
        extra = "w" * self.weights + f" groups of {self.group}" * (self.group > 1)
        extra += f" {self.patients} patients, effect {self.effect:g}" * bool(self.patients)
        extra += f" tol. {self.tolerance}" * bool(self.tolerance)
        bins = f"{self.n_bins} {extra}".strip()
        return [self.kind, str(self.n_classes), bins, str(self.batch), str(self.n_rows)]


LIVES = [
    Life(2, "binary", 1, 3000),
    Life(2, "binary", 7, 10_000, n_bins=100),
    Life(2, "binary", 100, 50_000),
    Life(2, "binary", 100, 50_000, weights=True),
    Life(3, "top-label", 100, 100_000),
    Life(3, "top-label", 10_000, 1_000_000),
    Life(3, "top-label", 100, 20_000, tolerance=0.02),
    Life(10, "top-label", 100, 50_000, n_bins=5),
    Life(3, "classwise", 100, 50_000),
    Life(3, "classwise", 20, 10_000, weights=True),
    Life(100, "classwise", 200, 20_000),
    Life(2, "binary", 100, 20_000, group=10),
    Life(3, "top-label", 100, 20_000, group=5),
    Life(2, "binary", 100, 20_000, patients=200),
    Life(2, "binary", 100, 20_000, patients=2000, effect=0.5),
    Life(3, "top-label", 100, 20_000, patients=2000),
]


def labels_of(P: np.ndarray, u: np.ndarray) -> np.ndarray:
    return (P.cumsum(axis=1)[:, :-1] <= u[:, None]).sum(axis=1)


def batches(
    life: Life, random: Random, truth: Truth | None = None, begin: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Logits, labels, probabilities, groups; the logits of the truth are others from a row on."""
    of_patients = random.uniform(size=life.patients)
    logits = 2 * random.normal(size=(life.patients, life.n_classes))
    for start in range(0, life.n_rows, life.batch):
        n_groups = life.batch // life.group  # rows of a group have one label
        Z = np.repeat(2 * random.normal(size=(n_groups, life.n_classes)), life.group, axis=0)
        true = truth(Z) if truth and start >= begin else Z
        groups = (start + np.arange(life.batch)) // life.group if life.group > 1 else None
        u = random.uniform(size=n_groups)
        if life.patients:
            groups = random.integers(life.patients, size=life.batch)
            Z = true = logits[groups]
            u = np.where(random.uniform(size=life.batch) < life.effect, of_patients[groups], u)
        y = labels_of(softmax(true[:: life.group], axis=1), u)
        yield Z, np.repeat(y, life.group), softmax(Z, axis=1), groups


def alarm_at(
    life: Life, seed: int, truth: Truth | None = None, begin: int = 0, model: Any = None
) -> float:
    """Number of rows at the alarm, infinite without one."""
    random, monitor = np.random.default_rng(seed), life.monitor()
    for Z, y, P, groups in batches(life, random, truth, begin):
        weights = random.exponential(size=len(y)) if life.weights else None
        monitor.update(y, P if model is None else model(Z), weights, groups)
        if monitor.alarm_:
            return monitor.n_samples_at_alarm_
    return np.inf


@simulation
def monitor_false_alarms(lives: int = 200) -> Iterator[tuple[Any, ...]]:
    """Share of long lives with a false alarm. Slow settings have half the lives."""
    yield "kind", "classes", "bins", "batch", "rows", "false alarms", "lives"
    for life in LIVES:
        n = lives if life.batch > 1 and life.n_classes < 100 else lives // 2
        rate = np.mean([alarm_at(life, seed) < np.inf for seed in range(n)])
        yield *life.cells(), f"{rate:.3f}", n


def offset(Z: np.ndarray, size: float) -> np.ndarray:
    return Z + size * np.eye(Z.shape[1])[0]


def above(Z: np.ndarray, least: float) -> np.ndarray:
    """Over-confident where the confidence is large only."""
    confident = softmax(Z, axis=1).max(axis=1) > least
    return np.where(confident[:, None], Z / 2, Z)


TRUTHS: dict[str, Truth] = {
    **{f"T = {t}": partial(lambda Z, t: Z / t, t=t) for t in (1.1, 1.2, 1.5, 2, 0.8)},
    "class 0, offset 0.5": partial(offset, size=0.5),
    "T = 2 if confidence > 0.95": partial(above, least=0.95),
}


def shown(rows: list[float], begin: int) -> str:
    """Median, or the proportion of lives without an alarm if that is most of them."""
    delays = np.array(rows) - begin
    delays = np.where(delays <= 0, np.nan, delays)  # false alarms
    middle = np.nanmedian(delays)
    return f"{middle:.0f}" if np.isfinite(middle) else "none"


@simulation
def monitor_delays(lives: int = 40) -> Iterator[tuple[Any, ...]]:
    """Median number of rows from a drift to the alarm, by the row at which the drift begins."""
    settings = list(itertools.product((0, 10_000, 100_000), ("top-label", "classwise")))
    yield "drift", *(f"{begin}: {kind}" for begin, kind in settings)
    for name, truth in TRUTHS.items():
        cells = []
        for begin, kind in settings:
            life = Life(3, kind, 500, begin + 50_000)
            rows = [alarm_at(life, seed, truth, begin) for seed in range(lives)]
            cells.append(shown(rows, begin))
        yield name, *cells

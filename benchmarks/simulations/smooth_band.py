"""Bands of the smooth reliability diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit, logit

from skcalib._input.measures import Scored
from skcalib._scores.kernel import SmoothCurve
from skcalib.display import _curves

from . import simulation

Random = np.random.Generator
SCORES: dict[str, Callable[[Random, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "skewed to 1": lambda rng, n: 1 - 0.9 * rng.beta(0.25, 2, size=n),
    "rare events": lambda rng, n: rng.beta(0.5, 15, size=n),
    "ten values": lambda rng, n: rng.integers(0, 11, size=n) / 10,
    "weights": lambda rng, n: rng.uniform(size=n),
}
ROWS = 50, 500, 5000
PLACES = 60


def over_confident(scores: np.ndarray) -> np.ndarray:
    """True probabilities of an over-confident model, whose logits are 1.5 times too large."""
    return np.asarray(expit(logit(scores) / 1.5))


def rows_of(kind: str, n: int, truth: Any, rng: Random) -> Scored:
    score = SCORES[kind](rng, n)
    weight = rng.exponential(size=n) if kind == "weights" else None
    return Scored(None, score, rng.uniform(size=n) < truth(score), weight)


def weights_of(rows: Scored) -> np.ndarray:
    weight = np.ones(len(rows.score)) if rows.weight is None else rows.weight
    return weight / weight.sum()


def places(rows: Scored, curve: SmoothCurve) -> np.ndarray:
    """Cells that are evenly spaced along the curve."""
    cells = np.concatenate([*_curves.pieces(rows.score, curve), np.empty(0, int)])
    return cells[np.linspace(0, len(cells) - 1, PLACES * (len(cells) > 0)).round().astype(int)]


def kernel(t: np.ndarray, scores: np.ndarray, bandwidth: float) -> np.ndarray:
    """Weights of rows at places: (n_places, n_rows)."""
    images = [2 * k + sign * scores for k in (-1, 0, 1) for sign in (-1, 1)]
    scaled = (np.exp(-0.5 * ((t[:, None] - image) / bandwidth) ** 2) for image in images)
    return sum(scaled, np.zeros((len(t), len(scores)))) / (bandwidth * np.sqrt(2 * np.pi))


def confidence_band(
    rows: Scored, K: np.ndarray, w: np.ndarray, t: np.ndarray, level: float, n: int, rng: Random
) -> np.ndarray:
    """Quantiles of the curves of resampled rows, with the bandwidth of the curve."""
    drawn = w * rng.multinomial(len(w), np.full(len(w), 1 / len(w)), size=n)
    weight, above = drawn @ K.T, (drawn * (rows.event - rows.score)) @ K.T
    with np.errstate(invalid="ignore", divide="ignore"):
        curves = t + above / weight
    return np.nanquantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)


def smooth_curve(rows: Scored) -> SmoothCurve:
    """Smooth curve with the bandwidth that a display has."""
    return SmoothCurve.of(*rows[1:], narrowest=SmoothCurve.narrowest_drawn(rows.score, rows.weight))


def holds(band: Any, values: np.ndarray) -> float:
    if not len(values):  # no curve is drawn
        return np.nan
    values = np.clip(values, 0, 1)
    return float(np.mean((band[0] <= values + 1e-9) & (values - 1e-9 <= band[1])))


def coverages(
    kind: str, n: int, truth: Callable[[np.ndarray], np.ndarray], how: tuple[float, int], seed: int
) -> list[float]:
    """Shares of places at which the consistency band holds the curve, and the other the truth."""
    rng = np.random.default_rng(seed)
    rows = rows_of(kind, n, truth, rng)
    curve = smooth_curve(rows)
    cells = places(rows, curve)
    t, (level, n_resamples) = curve.score[cells], how
    K = kernel(t, rows.score, curve.bandwidth)
    resampling = level, n_resamples, seed
    drawn = _curves.band(rows, curve.at(cells), *resampling, calibrated=True)[1:]
    confident = confidence_band(rows, K, weights_of(rows), t, level, n_resamples, rng)
    return [holds(drawn, curve.value[cells]), holds(confident, truth(t))]


def mean(values: Iterable[float]) -> str:
    """Mean over the draws in which something is drawn."""
    known = [value for value in values if np.isfinite(value)]
    return f"{np.mean(known):.2f}" if known else "-"


@simulation
def smooth_band(
    draws: int = 50, resamples: int = 200, level: float = 0.95
) -> Iterator[tuple[Any, ...]]:
    """Coverage of bands of the smooth reliability diagram, over kinds of data.

    The consistency band that is drawn says where the curve of a calibrated model lies: *calibrated*
    is the share of places at which it holds the curve if events are drawn from the scores,
    *over-confident* if they are drawn from other probabilities. A confidence band of the curve,
    from resampled rows with the same bandwidth, should hold the true frequency of events: *held* is
    the share of places at which it does if the model is calibrated, *bent* if it is over-confident.
    Places are evenly spaced along the curve.
    """
    yield "scores", "rows", "calibrated", "held", "over-confident", "bent"
    how = level, resamples
    for kind in SCORES:
        for n in ROWS:
            results = [
                coverages(kind, n, lambda s: s, how, seed)
                + coverages(kind, n, over_confident, how, seed)
                for seed in range(draws)
            ]
            yield kind, n, *map(mean, zip(*results, strict=True))

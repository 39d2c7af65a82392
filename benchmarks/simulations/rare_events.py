"""Expected numbers of rare events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from skcalib import AutoCalibrator, PlattScaling, SplineCalibration

from . import simulation

Rows = tuple[np.ndarray, np.ndarray]
CALIBRATORS = [AutoCalibrator(), PlattScaling(), SplineCalibration()]
N_NEW = 50_000


def scores(n: int, odds: int, slope: float, shift: float, rng: np.random.Generator) -> Rows:
    """Scores of a normal distribution per class, and events at 1 to ``odds``.

    The log-odds are ``2 m - 2 - log(odds)``; a classifier gives ``slope`` times the score m, plus
    ``shift``.
    """
    y = (rng.random(n) < 1 / (1 + odds)).astype(int)
    return slope * (rng.normal(size=n) + 2 * y)[:, None] + shift, y


def simulated(n: int, odds: int, slope: float, shift: float) -> Callable[[int], tuple[Rows, Rows]]:
    def draw(seed: int) -> tuple[Rows, Rows]:
        rng = np.random.default_rng(seed)
        return scores(n, odds, slope, shift, rng), scores(N_NEW, odds, slope, shift, rng)

    return draw


def payments(n: int, rng: np.random.Generator) -> Rows:
    """Payments of the recipe, 0.9 % of them frauds."""
    amount, age = rng.lognormal(3.5, 1, n), rng.exponential(400, n)
    night, abroad = rng.random(n) < 0.1, rng.random(n) < 0.05
    log_odds = 0.9 * np.log(amount / 33) - 0.5 * np.log((age + 10) / 300)
    log_odds += 1.2 * night + 2 * abroad + 1.5 * (night & abroad)
    y = (rng.random(n) < expit(log_odds - 6)).astype(int)
    X = np.column_stack([np.log(amount), np.log(age + 1), night, abroad, rng.normal(size=(n, 4))])
    return X, y


def undersampled_classifier(seed: int) -> tuple[Rows, Rows]:
    """Log-odds of a classifier that is trained on as many frauds as honest payments."""
    rng = np.random.default_rng(seed)
    (X, y), calibration, new = (payments(n, rng) for n in (60_000, 20_000, N_NEW))
    kept = (y == 1) | (rng.random(len(y)) < y.mean() / (1 - y.mean()))
    boosting = HistGradientBoostingClassifier(early_stopping=True, random_state=0)
    boosting.fit(X[kept], y[kept])
    rows, new_rows = ((boosting.decision_function(X)[:, None], y) for X, y in (calibration, new))
    return rows, new_rows


DATA = {
    "payments, undersampled": undersampled_classifier,
    **{
        f"1:{odds}, {n:,} rows, {kind}": simulated(n, odds, slope, -shifted * np.log(odds))
        for n, odds in ((5000, 100), (20_000, 650), (100_000, 5000))
        for kind, slope, shifted in (
            ("under-confident", 1.0, 1),
            ("over-confident", 4.0, 1),
            ("balanced", 2.0, 0),
        )
    },
}


def ratios(rows: Rows, new: Rows) -> list[tuple[float, float]]:
    """Ratios for calibration rows and new rows, by calibrator."""
    fits = [calibrator.fit(*rows) for calibrator in CALIBRATORS]
    means = [[c.predict_proba(Z)[:, 1].mean() for Z, _ in (rows, new)] for c in fits]
    return (np.array(means) / rows[1].mean()).tolist()


@simulation
def rare_events(draws: int = 20) -> Iterator[tuple[Any, ...]]:
    """Expected events under calibrated probabilities, divided by the events that occur.

    Calibrators are fitted to simulated scores with rare events, and to the payments of the recipe
    on imbalanced data. A cell has the mean over the draws of the sum of the probabilities divided
    by the number of events, for the calibration rows and for new rows, and the largest ratio for
    new rows. The number of events among new rows is the rate of the calibration rows times the
    number of new rows, so that the ratio measures the bias of the calibrator.
    """
    yield "data", "events", *(type(c).__name__ for c in CALIBRATORS)
    for name, draw in DATA.items():
        pairs = [draw(seed) for seed in range(draws)]
        events = np.mean([rows[1].sum() for rows, _ in pairs])
        results = np.array([ratios(*pair) for pair in pairs])
        figures = np.column_stack([results.mean(axis=0), results[:, :, 1].max(axis=0)])
        yield name, f"{events:.0f}", *(" ".join(f"{v:.3f}" for v in f) for f in figures)

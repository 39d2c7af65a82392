"""Calibration given a category of few levels, in data of three sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit, rel_entr

from skcalib import PlattScaling
from skcalib.conditional import ConditionalCalibrator

from . import simulation

NEW_ROWS = 4000
# Slopes and offsets that turn the true log-odds into the logits of each source.
SOURCES = {
    "differ much": ([0.3, 0.8, 2.0], [2.5, 0.0, 0.0]),
    "differ little": ([1.2, 1.0, 0.8], [0.3, 0.0, -0.3]),
    "are equal": ([1.5, 1.5, 1.5], [0.0, 0.0, 0.0]),
}


def excesses(kind: str, n_rows: int, seed: int) -> list[float]:
    """Excess of the log loss for new rows, given the source and for each source by itself."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0.5, 1.2, n_rows + NEW_ROWS)
    source = rng.choice(3, len(true), p=[0.5, 0.3, 0.2])
    y = (rng.random(len(true)) < expit(true)).astype(int)
    slopes, offsets = map(np.array, SOURCES[kind])
    Z = (slopes[source] * true + offsets[source])[:, None]
    fit, new, F = slice(n_rows), slice(n_rows, None), source.astype(str).astype(object)[:, None]
    given = ConditionalCalibrator(random_state=0).fit(Z[fit], y[fit], features=F[fit])
    P = [given.predict_proba(Z[new], features=F[new]), np.empty((NEW_ROWS, 2))]
    for s in range(3):
        rows = source[fit] == s
        P[1][source[new] == s] = (
            PlattScaling().fit(Z[fit][rows], y[fit][rows]).predict_proba(Z[new][source[new] == s])
        )
    truth = expit(np.column_stack([-true[new], true[new]]))
    return [rel_entr(truth, Q).sum(axis=1).mean() for Q in P]


@simulation
def sources(samples: int = 20, rows: tuple[int, ...] = (300, 1500)) -> Iterator[tuple[Any, ...]]:
    """Mean excess over the log loss of the true probabilities, with and without sharing of rows.

    The logits of the sources have slopes and offsets that differ much, little or not at all.
    ``ConditionalCalibrator`` is given the source; ``PlattScaling`` is fitted to each source.
    """
    yield "sources", "rows", "given the source", "Platt for each"
    for kind in SOURCES:
        for n_rows in rows:
            results = [excesses(kind, n_rows, seed) for seed in range(samples)]
            yield kind, n_rows, *np.mean(results, axis=0)

"""Estimates of class priors after a shift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skcalib import PriorShift

from . import simulation

SETTINGS = [(2, 300), (2, 3000), (3, 1000), (10, 1000), (10, 10_000)]  #: classes and rows
SHARP = 1.5


def draw_rows(n: int, priors: np.ndarray, trained: np.ndarray, rng: np.random.Generator) -> tuple:
    """Logits that are calibrated for the priors ``trained``, and labels."""
    y = rng.choice(len(priors), p=priors, size=n)
    X = rng.normal(size=(n, len(priors)))
    X[np.arange(n), y] += SHARP
    return SHARP * X + np.log(trained), y


def draw(seed: int, n_classes: int, n: int, scale: float) -> tuple[float, float]:
    """Mean absolute error of the priors, and the share within 1.96 standard errors."""
    rng = np.random.default_rng([seed, n_classes, n])
    before, after = rng.dirichlet(np.full(n_classes, 3.0), size=2)
    Z, y = draw_rows(n, before, before, rng)
    Z_new, _ = draw_rows(n, after, before, rng)
    shift = PriorShift(classes=range(n_classes)).fit(scale * Z, y).adapt(scale * Z_new)
    error = np.abs(shift.priors_ - after)
    return error.mean(), (error < 1.96 * shift.standard_errors_).mean()


@simulation
def prior_shift(draws: int = 300) -> Iterator[tuple[Any, ...]]:
    """Errors of estimated class priors, and coverage of their standard errors.

    Classes are normal, with known densities; logits are calibrated, or twice as large. The class
    frequencies of both populations are drawn from a Dirichlet distribution.
    """
    yield "classes", "rows", "calibrated", "over-confident"
    for n_classes, n in SETTINGS:
        cells = []
        for scale in (1.0, 2.0):
            errors = [draw(seed, n_classes, n, scale) for seed in range(draws)]
            cells.append("{:.3f} ({:.0%})".format(*np.mean(errors, axis=0)))
        yield n_classes, n, *cells

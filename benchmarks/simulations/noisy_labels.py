"""Temperatures for labels of which some are wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from skcalib import TemperatureScaling
from skcalib.datasets import make_logits
from skcalib.experimental import NoisyLabelCalibration

from . import simulation

N_TEST = 5000


def losses(n_rows: int, n_classes: int, wrong: float, kind: str, seed: int) -> list[float]:
    """Log losses of a draw: noisy labels, matrix given, matrix estimated, true labels."""
    one = np.eye(n_classes)
    others = np.roll(one, 1, axis=1) if kind == "to the next" else (1 - one) / (n_classes - 1)
    Q = (1 - wrong) * one + wrong * others
    Z, y = make_logits(n_rows + N_TEST, n_classes, random_state=seed)
    u = np.random.default_rng(seed).random((n_rows, 1))
    noisy = (u > np.cumsum(Q, axis=1)[y[:n_rows]]).sum(axis=1)
    fits = [
        TemperatureScaling(classes=range(n_classes)).fit(Z[:n_rows], noisy),
        NoisyLabelCalibration(noise_matrix=Q, classes=range(n_classes)).fit(Z[:n_rows], noisy),
        NoisyLabelCalibration(classes=range(n_classes)).fit(Z[:n_rows], noisy),
        TemperatureScaling(classes=range(n_classes)).fit(Z[:n_rows], y[:n_rows]),
    ]
    labels = list(range(n_classes))
    return [log_loss(y[n_rows:], c.predict_proba(Z[n_rows:]), labels=labels) for c in fits]


@simulation
def noisy_labels(
    draws: int = 20,
    rows: tuple[int, ...] = (500, 2000, 20_000),
    classes: tuple[int, ...] = (2, 3, 10),
    wrong: tuple[float, ...] = (0.05, 0.2, 0.4),
) -> Iterator[tuple[Any, ...]]:
    """Log loss by the true classes, for four temperatures.

    They are fitted to the noisy labels, given their noise matrix, with an estimated matrix, and to
    the true labels. Noise goes evenly to all other classes, or from each class to the next.
    """
    names = "noisy", "given", "estimated", "true", "worse than noisy"
    yield "classes", "rows", "wrong", "noise", *names
    for case in itertools.product(classes, rows, wrong, ["even", "to the next"]):
        n_classes, n_rows, share, kind = case
        if n_classes == 2 and kind != "even":  # which is the same
            continue
        results = [losses(n_rows, n_classes, share, kind, seed) for seed in range(draws)]
        noisy, given, estimated, true = np.transpose(results)
        means = [x.mean() for x in (noisy, given, estimated, true)]
        yield n_classes, n_rows, f"{share:g}", kind, *means, f"{np.mean(estimated > noisy):.0%}"

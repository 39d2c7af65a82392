"""Test of ``multicalibration_error``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from skcalib.conditional import multicalibration_error

from . import simulation

# Columns, and categories of each.
SEGMENTS = {2: (1, 2), 20: (2, 10), 200: (20, 10)}


def rejections(n_rows: int, shape: tuple[int, int], shift: float, n_samples: int) -> np.ndarray:
    """Whether each sample is rejected at 5 %, and whether its worst segment is the shifted one."""
    columns, levels = shape
    found = np.zeros((n_samples, 2), bool)
    for seed in range(n_samples):
        rng = np.random.default_rng(seed)
        features = rng.integers(levels, size=(n_rows, columns))
        z = rng.normal(-1.5, 1.5, size=n_rows)
        y = rng.uniform(size=n_rows) < expit(z + shift * (features[:, 0] == 1))
        result = multicalibration_error(
            y, expit(z), features, categorical_features=range(columns), n_resamples=99,
            random_state=seed, labels=[False, True],
        )  # fmt: skip
        rejected = result.pvalue <= 0.05
        found[seed] = rejected, rejected and result.segment[0] == "0 = 1"
    return found


@simulation
def segments(
    samples: int = 300,
    rows: tuple[int, ...] = (300, 3000),
    shifts: tuple[float, ...] = (0.0, 0.5, 1.0),
) -> Iterator[tuple[Any, ...]]:
    """Level and power of the test of ``multicalibration_error``, in per cent.

    Scores are skewed to small ones, as of a rare event. For the power the log-odds of the events of
    one segment are shifted. In brackets: rejected with the shifted segment as the worst.
    """
    yield "rows", "segments", *(f"shift {shift:g}" for shift in shifts)
    for n_rows in rows:
        for n_segments, shape in SEGMENTS.items():
            cells = []
            for shift in shifts:
                share, named = 100 * rejections(n_rows, shape, shift, samples).mean(axis=0)
                cells.append(f"{share:.1f} ({named:.0f})" if shift else f"{share:.1f}")
            yield n_rows, n_segments, *cells

"""Isotonic regression of the events on the scores, and its consistency band."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skcalib._engine.ranking import Ranked, ranked
from skcalib._scores.columns import Scored
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._typing import Floats

# Number of scores at which the band is computed.
POINTS = 200


def isotonic_curve(rows: Scored) -> tuple[Floats, Floats]:
    """Corners of the isotonic regression of the events on the scores."""
    return _corners(ranked(rows.score, rows.event, rows.weight))


def consistency_band(
    rows: Scored, level: float, n_resamples: int, random_state: Any
) -> tuple[Floats, Floats, Floats]:
    """Scores, and pointwise quantiles there of the curves of a calibrated model."""
    random = check_random_state(random_state)
    score, w = rows.score, rows.weight
    in_order = ranked(score, None, w)
    position = np.searchsorted(in_order.scores, score, side="right") - 1
    x = _points(in_order.scores)
    curves = np.empty((n_resamples, len(x)))
    for curve in curves:
        event = random.uniform(size=len(score)) < score
        hits = np.bincount(position, event if w is None else event * w, len(in_order.scores))
        resampled = Ranked(in_order.scores, in_order.weight, hits.astype(float))
        curve[:] = np.interp(x, *_corners(resampled))
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return x, low, high


def _points(scores: Floats) -> Floats:
    """Half of the points are quantiles of the scores, half are evenly spaced between them."""
    some = np.linspace(0, len(scores) - 1, POINTS // 2).round().astype(np.intp)
    return np.union1d(scores[some], np.linspace(scores[0], scores[-1], POINTS // 2))


def _corners(rows: Ranked) -> tuple[Floats, Floats]:
    blocks = isotonic_blocks(rows)
    ends = np.stack([rows.scores[blocks.start], rows.scores[blocks.end]], axis=1)
    return ends.ravel(), np.repeat(blocks.value, 2)

"""Bins of the rows of a diagram, limits of logit axes, and curves without bins with their bands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.utils import check_random_state

from skcalib._rows import Bools, Floats, Indices, Ranked
from skcalib._rows.ranking import distinct_scores
from skcalib._scores import kernel
from skcalib._scores.columns import Scored
from skcalib._scores.isotonic import isotonic_blocks
from skcalib._scores.kernel import SmoothCurve, normalized_weights, smooth_curve
from skcalib.metrics import ReliabilityCurve, reliability_curve, score_decomposition
from skcalib.metrics._calibration_error import FORMULAS
from skcalib.metrics._curve import NBins, with_groups
from skcalib.metrics._groups import uniform_numbers
from skcalib.metrics._resampling import bootstrap_band

# Events with a smaller base rate are drawn with quantile bins on logit axes.
RARE = 0.02

# Limits of logit axes are no nearer to 0 and 1 than this.
NEAREST = 1e-6

# Cells between the points of a smooth curve, and cells beyond the first and last score.
STEP, MARGIN = 32, 64

# Smooth curves end where fewer effective rows are within reach of the kernel.
LEAST_EFFECTIVE_ROWS = 3

# Number of scores of a band.
POINTS = 200


def with_weight(rows: Scored) -> Scored:
    """Return the rows with a positive weight; other rows are neither counted nor drawn."""
    w = rows.weight
    if w is None or (len(w) and w.all()):
        return rows
    if not w.any():
        raise ValueError(
            "rows must have a positive total weight, got zero weights only. Pass weight=None for "
            "equal weights."
        )
    return Scored(rows.label, rows.score[w > 0], rows.event[w > 0], w[w > 0])


def _binary_arguments(rows: Scored) -> dict[str, Any]:
    """Return the arguments of measures for the events and scores of the rows."""
    weight = {"sample_weight": rows.weight, "labels": [False, True]}
    return {"y_true": rows.event, "y_proba": rows.score, "kind": "binary", **weight}


def bin_rows(
    rows: Scored, n_bins: NBins, strategy: Any, groups: Indices | None = None
) -> ReliabilityCurve:
    """Return the bins of the rows, with the class of the rows if they have one."""
    curve = reliability_curve(n_bins=n_bins, strategy=strategy, **_binary_arguments(rows))
    if rows.label is not None:
        curve = replace(curve, label=np.full(len(curve.gap), rows.label))
    return curve if groups is None else with_groups(curve, rows, groups)


def ece_of(curve: ReliabilityCurve) -> float:
    """Return the expected calibration error of the bins."""
    return float(FORMULAS["expected_calibration_error"](curve))


def miscalibration_of(rows: Scored) -> float:
    """Return the miscalibration component of the Brier score of the rows."""
    return float(score_decomposition(score="brier_score", **_binary_arguments(rows)).miscalibration)


def is_rare(rows: Scored) -> bool:
    """Return whether less than 2 per cent of the weight of the rows has the event."""
    return bool(np.average(rows.event, weights=rows.weight) < RARE)


def logit_limits(curve: ReliabilityCurve) -> tuple[float, float]:
    """Return limits of logit axes that contain the scores and the frequencies of the bins."""
    # Frequencies nearer to 0 and 1 cannot be told apart with this number of rows.
    nearest = max(NEAREST, 0.1 / curve.n_samples.sum())
    p = np.append(curve.confidence, curve.accuracy)
    z = logit(np.clip(p[(p > 0) & (p < 1)], nearest, 1 - nearest))
    low, high = (z.min(), z.max()) if len(z) else (-2.0, 2.0)
    margin = max(0.05 * (high - low), 0.3)
    return float(expit(low - margin)), float(expit(high + margin))


def row_counts(
    curve: ReliabilityCurve, rows: Scored | None, limits: tuple[float, float], scale: str
) -> tuple[Floats, Floats]:
    """Return numbers of rows and the edges between them, for a histogram.

    On linear axes these are the bins of the curve. Bins on logit axes are usually quantile bins,
    which all hold as many rows, so there the rows are counted in bins of equal width.
    """
    if scale == "logit" and rows is not None:
        low, high = map(logit, limits)
        counts, edges = np.histogram(rows.score, expit(np.linspace(low, high, 31)))
        return counts.astype(float), edges
    edges = np.union1d(curve.lower, curve.upper)
    counts = np.zeros(len(edges) - 1)
    counts[np.searchsorted(edges, curve.lower)] = curve.n_samples
    return counts, edges


def isotonic_curve(rows: Scored) -> tuple[Floats, Floats]:
    """Return the corners of the isotonic regression of the events on the scores."""
    return _corners(distinct_scores(rows.score, rows.event, rows.weight))


def consistency_band(
    rows: Scored, drawn: SmoothCurve | None, level: float, n_resamples: int, seed: Any,
    groups: Indices | None = None,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Return scores, and pointwise quantiles of the curves of a calibrated model.

    The events of the model are drawn from the scores. Curves are isotonic, or smooth with the
    bandwidth of ``drawn``. Events of rows in one group depend fully on one another.
    """
    random, score, w = check_random_state(seed), rows.score, normalized_weights(rows)
    if drawn is None:
        in_order = distinct_scores(score, None, w)
        position = np.searchsorted(in_order.scores, score, side="right") - 1
        x = _points(in_order.scores)

        def curve(event: Bools) -> Floats:
            hits: Floats = np.bincount(position, event * w, len(in_order.scores)).astype(float)
            return np.interp(x, *_corners(Ranked(in_order.scores, in_order.weight, hits)))
    else:
        x, cells, places = (
            drawn.score,
            _kernel_cells(score),
            _kernel_cells(np.nan_to_num(drawn.score)),
        )

        def curve(event: Bools) -> Floats:
            sums = np.bincount(cells, w * (event - score), kernel.N_CELLS)
            above = kernel.N_CELLS * kernel.smoothed(sums.astype(float), drawn.bandwidth)[places]
            return x + above / drawn.density

    n = len(score)
    curves = [curve(uniform_numbers(n, random, groups) < score) for _ in range(n_resamples)]
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return x, np.clip(low, 0, 1), np.clip(high, 0, 1)


def confidence_band(
    rows: Scored, drawn: SmoothCurve | None, level: float, n_resamples: int, seed: Any,
    groups: Indices | None = None,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Return scores, and pointwise quantiles of the curves of bootstrap samples of the rows.

    Smooth curves have the bandwidth of ``drawn``. With groups, whole groups are resampled.
    """
    x = _points(np.unique(rows.score)) if drawn is None else drawn.score

    def curve(sample: Ranked) -> Floats:
        if drawn is None:
            return np.interp(x, *_corners(sample))
        cells, w = _kernel_cells(sample.scores), sample.weight
        values = (sample.hits - w * sample.scores, w)
        sums = np.array([np.bincount(cells, v, kernel.N_CELLS) for v in values])
        above, density = kernel.smoothed(sums, drawn.bandwidth)[:, _kernel_cells(np.nan_to_num(x))]
        # Smaller densities are rounding errors.
        return np.clip(x + above / np.maximum(density, 1e-9 * density.max()), 0, 1)

    return x, *bootstrap_band(rows, curve, level, n_resamples, seed, groups)


def _points(scores: Floats) -> Floats:
    """Return scores for a band: half are quantiles of the scores, half are evenly spaced."""
    ranks = np.linspace(0, len(scores) - 1, POINTS // 2).round().astype(np.intp)
    return np.union1d(scores[ranks], np.linspace(scores[0], scores[-1], POINTS // 2))


def _corners(rows: Ranked) -> tuple[Floats, Floats]:
    blocks = isotonic_blocks(rows)
    ends = np.stack([rows.scores[blocks.start], rows.scores[blocks.end]], axis=1)
    return ends.ravel(), np.repeat(blocks.value, 2)


def pieces(scores: Floats, curve: SmoothCurve) -> list[Indices]:
    """Return the cells of the curve: one array for each piece.

    Pieces end where two neighbouring scores are more than two bandwidths apart, and where too few
    rows are within reach of the kernel.
    """
    occupied = np.flatnonzero(np.bincount(_kernel_cells(scores), minlength=kernel.N_CELLS))
    breaks = np.flatnonzero(np.diff(occupied) > 2 * curve.bandwidth * kernel.N_CELLS)
    starts, ends = occupied[np.append(0, breaks + 1)], occupied[np.append(breaks, -1)]
    is_near = np.zeros(kernel.N_CELLS, dtype=bool)
    for first, last in zip(starts, ends, strict=True):
        is_near[max(first - MARGIN, 0) : last + MARGIN + 1] = True
    edges = np.flatnonzero(
        np.diff(is_near & (curve.n_rows >= LEAST_EFFECTIVE_ROWS), prepend=False, append=False)
    )
    # Every 32nd cell of a piece, and both ends.
    return [
        np.union1d([first, end - 1], np.arange(first - first % -STEP, end, STEP))
        for first, end in edges.reshape(-1, 2)
    ]


def drawn_curve(rows: Scored) -> SmoothCurve:
    """Return the smooth curve at the scores where it is drawn, with NaN between two pieces."""
    whole = smooth_curve(rows)
    parts = pieces(rows.score, whole)
    ends = np.cumsum([len(part) for part in parts], dtype=np.intp)[:-1]
    cells = np.concatenate([*parts, np.empty(0, np.intp)])
    fields = (np.insert(field, ends, np.nan) for field in whole.at(cells)[:4])
    score, value, density, n_rows = fields
    return SmoothCurve(score, value, density, n_rows, whole.bandwidth, whole.error)


def _kernel_cells(scores: Floats) -> Indices:
    """Return the cell of each score."""
    return np.minimum(scores * kernel.N_CELLS, kernel.N_CELLS - 1).astype(np.intp)

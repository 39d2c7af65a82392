"""Draws a model into a reliability diagram, in one of its styles.

With the isotonic regression of the events on the scores, and its consistency band.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skcalib._rows.arrays import Floats
from skcalib._rows.ranking import Ranked, ranked
from skcalib._scores.columns import Scored
from skcalib._scores.isotonic import isotonic_blocks
from skcalib.display import _styles
from skcalib.display._axes import draw_title, ece_of, miscalibration_of
from skcalib.display._kernel_curve import drawn_curve, smooth_band
from skcalib.display._limits import shown_bins
from skcalib.display._look import Look
from skcalib.display._strokes import strokes

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


# Attributes of a display that hold the artists of its model.
_ARTISTS = (
    "bars_", "gaps_", "intervals_", "line_", "dots_", "joins_", "strokes_", "band_"
)  # fmt: skip

# Scores, lower and upper end of a band, from a level, a number of resamples and a seed.
Area = Callable[..., tuple[Floats, Floats, Floats]]


def draw_model(
    display: Any, look: Look, name: str | None, level: float | None, resampling: tuple[int, Any]
) -> dict[str, Any]:
    """The artists of the model of a display, by the attribute that is to hold each, or None."""
    ax, curve, rows = display.ax_, shown_bins(display), display.rows
    found: dict[str, Any] = dict.fromkeys(_ARTISTS)
    ece = f"ECE {ece_of(curve):.3f}"
    if look.style == "bars":
        found["bars_"], found["gaps_"] = _styles.bars(ax, curve, look, look.label(None, ece))
        if name is not None:
            draw_title(ax, name)
    elif look.style == "dots":
        drawn = _styles.dots(ax, curve, look, look.label(name, ece))
        found["line_"], found["joins_"], found["dots_"] = drawn
    else:
        draw = _draw_corp if look.style == "corp" else _draw_smooth
        artists, area = draw(ax, rows, look, name)
        found |= artists
        if level is not None:
            found["band_"] = _styles.band(ax, area(level, *resampling), look, level)
    if level is not None and look.style in ("bars", "dots"):
        found["intervals_"] = _styles.intervals(ax, curve, look, level)
    return found


def _draw_corp(ax: Any, rows: Scored, look: Look, name: str | None) -> tuple[dict[str, Any], Area]:
    label = look.label(name, f"MCB {miscalibration_of(rows):.3f}")
    line = _styles.line(ax, *isotonic_curve(rows), look, label)
    return {"line_": line}, partial(consistency_band, rows)


def _draw_smooth(
    ax: Any, rows: Scored, look: Look, name: str | None
) -> tuple[dict[str, Any], Area]:
    curve = drawn_curve(rows)
    label = look.label(name, f"smECE {curve.error:.3f}")
    drawn = strokes(ax, curve, look, label)
    names = ("line_", "strokes_", "dots_")
    return dict(zip(names, drawn, strict=True)), partial(smooth_band, rows, curve)

"""Draws a model into a reliability diagram, in one of its styles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from skcalib._scores.columns import Scored
from skcalib._typing import Floats

from . import _styles
from ._axes import draw_title, ece_of, miscalibration_of
from ._band import consistency_band, isotonic_curve
from ._kernel_curve import drawn_curve, smooth_band
from ._limits import shown_bins
from ._look import Look
from ._strokes import strokes

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

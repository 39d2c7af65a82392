"""The artists of the smooth curve of a reliability diagram, as thick as the density of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._rows.arrays import Floats

from ._axes import size_of
from ._kernel_curve import SmoothCurve
from ._look import Look, record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.lines import Line2D

# Thickness of the curve where the density is largest, in points: in large axes, and for each inch
# of the width of small ones; and the least thickness.
THICKEST, OF_AN_INCH, THINNEST = 6.0, 1.6, 0.8

# Markers of a model are that far apart, as a part of the axis, and have this diameter in points.
APART, MARKER = 0.12, 5.0


def strokes(
    ax: Axes, curve: SmoothCurve, look: Look, label: str
) -> tuple[Line2D, LineCollection, PathCollection | None]:
    """The data and the legend entry of a curve, its strokes, and markers on it."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Rectangle

    x, y = curve.score, np.clip(curve.value, 0, 1)
    marker = look.marker if look.number else None
    keyed: dict[str, Any] = {"linewidth": 2.5, "marker": marker, "markersize": MARKER}
    data = ax.plot(x, y, color=look.colour, label=label, **keyed)[0]
    # An entry in the legend has no clip path, so the line is seen there only.
    data.set_clip_path(Rectangle((0, 0), 0, 0, transform=ax.transAxes))
    record(data, look)
    drawn = np.flatnonzero(np.isfinite(x[:-1] + x[1:]))
    points = np.column_stack([x, y])
    segments = LineCollection(
        np.stack([points[drawn], points[drawn + 1]], axis=1),  # type: ignore[arg-type]
        linewidths=_of_segments(thickness(curve.density, size_of(ax)[0]))[drawn],
        colors=look.theme.tints(look.colour, _of_segments(curve.n_rows)[drawn]),
        capstyle="round",
        zorder=2.1,
    )
    ax.add_collection(segments, autolim=False)
    return data, segments, _markers(ax, curve, look) if look.number else None


def thickness(density: Floats, width: float) -> Floats:
    """Thickness in points, in proportion to the density of the rows, but never invisible."""
    thickest = max(min(THICKEST, OF_AN_INCH * width), 2.0)
    most = np.nanmax(density, initial=0.0)
    return np.maximum(thickest * density / most, THINNEST)


def _of_segments(x: Floats) -> Floats:
    return (x[:-1] + x[1:]) / 2


def _markers(ax: Axes, curve: SmoothCurve, look: Look) -> PathCollection:
    """Markers at places that depend on the number of the model, so that they stand side by side."""
    first = APART * (look.number * 0.382 % 1)
    finite = np.flatnonzero(np.isfinite(curve.score))
    places = np.arange(first, 1, APART)
    if len(finite):
        finite = finite[np.abs(curve.score[finite] - places[:, None]).argmin(axis=1)]
    at = curve.at(np.unique(finite))
    return ax.scatter(
        at.score,
        np.clip(at.value, 0, 1),
        s=MARKER**2,
        c=look.theme.tints(look.colour, at.n_rows),
        marker=look.marker,
        zorder=2.2,
        linewidths=0,
    )

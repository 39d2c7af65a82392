"""Geometry of the plane of miscalibration (MCB) and discrimination (DSC)."""

from __future__ import annotations

from skcalib._typing import Floats


def plane_limits(x: Floats, y: Floats) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits of MCB, from 0, and of DSC, from 0 unless all models are far above it.

    At the top and at the right there is room for the labels of lines.
    """
    right = float(x.max()) or 0.1 * float(y.max()) or 1.0
    low, high = float(y.min()), float(y.max())
    # Models that are equal but for noise are not drawn far apart.
    spread = max(high - low, 0.5 * right)
    bottom = low - 0.25 * spread if low > spread else -0.04 * max(high, spread)
    return (-0.04 * right, 1.25 * right), (bottom, high + 0.3 * spread)


def exit_of(
    offset: float, xlim: tuple[float, float], ylim: tuple[float, float]
) -> tuple[float, float, bool] | None:
    """Where the line y = x - offset leaves the axes, in fractions, and whether at the top.

    None where it leaves near a corner, in which a label has no room.
    """
    x = (ylim[1] + offset - xlim[0]) / (xlim[1] - xlim[0])
    y = (xlim[1] - offset - ylim[0]) / (ylim[1] - ylim[0])
    if x <= 1:
        return (x, 1.0, True) if 0.08 < x < 0.9 else None
    return (1.0, y, False) if 0.08 < y < 0.9 else None

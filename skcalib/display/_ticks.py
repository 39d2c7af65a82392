"""Round numbers for the ticks of logarithmic and of logit axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from skcalib._output.text import text_width
from skcalib._rows.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axis import Axis


def log_ticks(low: float, high: float) -> Floats:
    """Ticks of a logarithmic axis between two limits."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    steps = ([1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7])
    return _enough((np.outer(decades, some).ravel() for some in steps), low, high, 8)


def logit_ticks(low: float, high: float) -> Floats:
    """Ticks of a logit axis between two limits."""
    decades = 10.0 ** np.arange(-6, 0)
    near_zero = (np.outer(decades, steps).ravel() for steps in ([1], [1, 2, 5]))
    symmetric = (np.round(np.concatenate([x, [0.5], 1 - x]), 7) for x in near_zero)
    return _enough(symmetric, low, high, 7)


def even_ticks(low: float, high: float, most: int) -> Floats:
    """At most so many ticks of a linear axis between two limits."""
    from matplotlib.ticker import MaxNLocator

    ticks = np.asarray(MaxNLocator(most - 1, steps=[1, 2, 5, 10]).tick_values(low, high))
    return ticks[(ticks >= low) & (ticks <= high)]


def set_ticks(axis: Axis, ticks: Floats) -> None:
    """Set ticks with decimal numbers as labels."""
    axis.set_ticks(ticks, [_label(tick) for tick in ticks])


def thinned(ticks: Floats, places: Floats) -> Floats:
    """As many evenly chosen ticks as have labels beside each other, at places in font sizes."""
    widths = np.array([text_width(_label(tick)) for tick in ticks])
    for step in range(1, len(ticks)):
        x, half = places[::step], widths[::step] / 2
        if np.all(np.diff(x) > half[1:] + half[:-1] + 0.4):
            return ticks[::step]
    return ticks[:1]


def _label(tick: float) -> str:
    return f"{tick:.7g}"


def _enough(candidates: Iterable[Floats], low: float, high: float, most: int) -> Floats:
    """The first of the candidates with three ticks between the limits, thinned out to ``most``."""
    ticks = np.empty(0)
    for numbers in candidates:
        # Powers of ten may be off by rounding.
        inside = (numbers >= low * (1 - 1e-9)) & (numbers <= high * (1 + 1e-9))
        ticks = np.unique(numbers[inside])
        if len(ticks) >= 3:
            break
    return ticks[:: -(-len(ticks) // most)]

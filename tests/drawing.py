"""What tests of pictures share: combinations of parameters, and texts and places in a figure."""

from itertools import product

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text


def pairs(first, second, *others):
    """All combinations of the first two, with the values of the others in turn."""
    chosen = product(enumerate(first), enumerate(second))
    return [(a, b, *(of[(i + j) % len(of)] for of in others)) for (i, a), (j, b) in chosen]


def slow(*combinations):
    """Combinations for the slow tests alone."""
    return [pytest.param(*values, marks=pytest.mark.slow) for values in combinations]


def partly_slow(*values, quick=None):
    """Combinations as of pairs, and a diagonal that is quick, with every value, or its start."""
    n_quick = max(map(len, values)) if quick is None else quick
    diagonal = {tuple(k % len(of) for of in values) for k in range(n_quick)}
    indices = diagonal | {*pairs(*(range(len(of)) for of in values))}
    return [
        pytest.param(
            *(of[k] for of, k in zip(values, chosen, strict=True)),
            marks=() if chosen in diagonal else pytest.mark.slow,
        )
        for chosen in sorted(indices)
    ]


def texts_of(figure):
    """Texts that are drawn: without those of hidden axes, and of ticks beyond the limits."""
    figure.draw_without_rendering()
    found = [
        text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()
    ]
    unseen = set()
    for axis in (axis for ax in figure.findobj(Axes) for axis in (ax.xaxis, ax.yaxis)):
        if axis.get_visible() and axis.axes.get_visible():
            beyond = {*axis.majorTicks, *axis.minorTicks} - set(axis._update_ticks())
            unseen |= {label for tick in beyond for label in (tick.label1, tick.label2)}
        else:
            unseen |= {*axis.findobj(Text)}
    return [text for text in found if text not in unseen]


def in_legend(ax):
    """Labels without the breaks of their lines."""
    return [" ".join(text.get_text().split()) for text in ax.get_legend().get_texts()]


def inside(box, outer, by=1.0):
    """Whether a box is in another one, but for so many pixels."""
    return (
        outer.x0 - by <= box.x0
        and box.x1 <= outer.x1 + by
        and outer.y0 - by <= box.y0
        and box.y1 <= outer.y1 + by
    )


def band_of(display):
    """Scores, lower and upper end of the band, of one piece."""
    points = display.band_.get_paths()[0].vertices
    x = np.unique(points[:, 0])
    ends = [points[points[:, 0] == at, 1] for at in x]
    return x, np.array([e.min() for e in ends]), np.array([e.max() for e in ends])

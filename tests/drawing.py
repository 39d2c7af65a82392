"""Combinations of parameters, legends and bands for tests of displays."""

from itertools import product

import numpy as np
import pytest


def slow(*combinations):
    """Parameter combinations, all marked slow."""
    return [pytest.param(*values, marks=pytest.mark.slow) for values in combinations]


def partly_slow(*values, quick=None):
    """All combinations. Only a diagonal that covers every value is quick."""
    n_quick = max(map(len, values)) if quick is None else quick
    diagonal = {tuple(k % len(of) for of in values) for k in range(n_quick)}
    return [
        pytest.param(
            *(of[k] for of, k in zip(values, chosen, strict=True)),
            marks=() if chosen in diagonal else pytest.mark.slow,
        )
        for chosen in product(*(range(len(of)) for of in values))
    ]


def in_legend(ax):
    """Labels in the legend of the axes or of the figure."""
    legend = ax.get_legend() or ax.figure.legends[0]
    return [text.get_text() for text in legend.get_texts()]


def band_of(display):
    """Scores, lower limits and upper limits of a connected band."""
    points = display.band_.get_paths()[0].vertices
    x = np.unique(points[:, 0])
    ends = [points[points[:, 0] == at, 1] for at in x]
    return x, np.array([e.min() for e in ends]), np.array([e.max() for e in ends])

"""Isotonic regression of events on ranked scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from skcalib._engine.ranking import Ranked
from skcalib._typing import Floats


class Blocks(NamedTuple):
    """The isotonic least-squares fit: blocks of neighbouring scores with a common value."""

    start: NDArray[np.intp]  #: index of the first score of each block among the ranked scores
    end: NDArray[np.intp]  #: index of the last
    value: Floats


def isotonic_blocks(rows: Ranked) -> Blocks:
    """Isotonic regression of the frequency of hits on the scores."""
    best = isotonic_regression(rows.hits / rows.weight, weights=rows.weight)
    start, end = best.blocks[:-1], best.blocks[1:] - 1
    return Blocks(start, end, best.x[start])

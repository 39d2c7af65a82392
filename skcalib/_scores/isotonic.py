"""Isotonic regression of hits on ranked scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from skcalib._engine.ranking import Ranked
from skcalib._typing import Floats


class Blocks(NamedTuple):
    """The non-decreasing function of least squares: blocks of neighbours with one value each."""

    start: NDArray[np.intp]  #: position of the first score of each block among the ranked ones
    end: NDArray[np.intp]  #: and of the last
    value: Floats


def isotonic_blocks(rows: Ranked) -> Blocks:
    """Isotonic regression of the hits on the scores."""
    best = isotonic_regression(rows.hits / rows.weight, weights=rows.weight)
    start, end = best.blocks[:-1], best.blocks[1:] - 1
    return Blocks(start, end, best.x[start])

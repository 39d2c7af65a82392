"""Names of types in signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Array",
    "ArrayLike",
    "Bools",
    "Floats",
    "Indices",
    "Kind",
    "NBins",
    "Output",
    "Split",
    "Strategy",
]

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]

# Function from a fitted calibrator and checked logits (m, K), or log-odds (m, 1).
Output = Callable[[Any, Any], Any]

# The score and the event that a measure compares.
Kind = Literal["auto", "top-label", "classwise", "binary", "multilabel", "cumulative"]

# Number of bins, scikit-learn's rule, or edges.
NBins = int | Literal["cube_root"] | ArrayLike

# Bins of equal width, or of equal weight.
Strategy = Literal["uniform", "quantile"]


class Split(NamedTuple):
    """Indices of the training rows and of the test rows."""

    train: Indices
    test: Indices

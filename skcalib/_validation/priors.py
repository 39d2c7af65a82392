"""Checks of class priors."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._typing import Bools, Floats

from .floats import as_floats
from .labels import shown
from .probabilities import SUM_TOLERANCE


def check_priors(priors: Any, present: Bools) -> Floats:
    """Priors (K,) that sum to one; a ValueError unless they are a distribution over the classes.

    ``present`` (K,) says which classes have rows: others must have a prior of 0.
    """
    if isinstance(priors, str) or hasattr(priors, "keys"):
        raise ValueError(
            "priors must be a list of numbers in the order of the classes, got "
            f"{type(priors).__name__}. Pass [priors[label] for label in classes]."
        )
    found = np.asarray(as_floats(priors, "priors"), dtype=np.float64)
    if found.shape != present.shape:
        raise ValueError(
            f"priors must have one number for each of the {len(present)} classes, got an array of "
            f"shape {found.shape}."
        )
    if not (found.min() >= 0 and abs(found.sum() - 1) <= SUM_TOLERANCE):
        raise ValueError(
            "priors must be probabilities that sum to one, got a minimum of "
            f"{found.min():g} and a sum of {found.sum():g}. Pass numbers of rows divided by their "
            "sum."
        )
    absent = np.flatnonzero((found > 0) & ~present)
    if len(absent):
        raise ValueError(
            "priors must be 0 for classes without rows in y, whose predictions are unknown, got "
            f"positive ones in places [{shown(absent)}]. Set them to 0, or calibrate with rows of "
            "these classes."
        )
    return found / found.sum()

"""Log loss and Brier score of each row: the two proper scores, in scikit-learn's conventions.

They stand here and nowhere else, so that a table, a figure and a line of it agree.
"""

from __future__ import annotations

import numpy as np

from skcalib._typing import Floats, Indices


def bounded(p: Floats) -> Floats:
    """Probabilities at least the rounding error of 1 away from 0 and 1, so that logs are finite."""
    eps = np.finfo(p.dtype).eps
    return np.clip(p, eps, 1 - eps)


def log_losses_of(p: Floats) -> Floats:
    """Minus the log of the probability that the label was given."""
    return -np.log(bounded(p), dtype=np.float64)


def log_losses(P: Floats, y: Indices) -> Floats:
    """The same from the probabilities of all classes (m, K) and class indices (m,)."""
    return log_losses_of(P[np.arange(len(P)), y])


def brier_scores(P: Floats, y: Indices) -> Floats:
    """Sum over the classes of squared errors, and half of it for two: ``scale_by_half="auto"``."""
    off = P.astype(np.float64)
    off[np.arange(len(P)), y] -= 1
    return np.einsum("ij,ij->i", off, off) / (2 if P.shape[1] == 2 else 1)

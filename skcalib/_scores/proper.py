"""Proper scoring rules, the log loss and the Brier score of each row, as in scikit-learn.

All tables and figures use these functions, so that their values agree.
"""

from __future__ import annotations

import numpy as np

from skcalib._typing import Floats, Indices


def bounded(p: Floats) -> Floats:
    """Probabilities clipped to [eps, 1 - eps], as scikit-learn does, so that logs are finite."""
    eps = np.finfo(p.dtype).eps
    return np.clip(p, eps, 1 - eps)


def log_losses_of(p: Floats) -> Floats:
    """Log loss of each row, from the probability of its label."""
    return -np.log(bounded(p), dtype=np.float64)


def log_losses(P: Floats, y: Indices) -> Floats:
    """Log loss of each row, from the probabilities of all classes (m, K) and class indices (m,)."""
    return log_losses_of(P[np.arange(len(P)), y])


def brier_scores(P: Floats, y: Indices) -> Floats:
    """Squared errors summed over the classes, halved for two classes: ``scale_by_half="auto"``."""
    off = P.astype(np.float64)
    off[np.arange(len(P)), y] -= 1
    return np.einsum("ij,ij->i", off, off) / (2 if P.shape[1] == 2 else 1)

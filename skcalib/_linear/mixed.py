r"""Mixtures of probabilities, with the uniform distribution and with one another, in log space.

.. math:: q_k = (1 - \varepsilon)\, p_k + \varepsilon / K_i,

where :math:`K_i` is the number of classes of the row that are not masked. No probability is then
below :math:`\varepsilon / K_i`, and the order of the classes does not change.
"""

from __future__ import annotations

import numpy as np

from skcalib._engine.blocks import softmax
from skcalib._typing import Bools, Floats, Indices

TINY = float(np.finfo(np.float64).tiny)


def mix_with_uniform(L: Floats, smoothing: float) -> Floats:
    """Log-probabilities of the mixture, for log-probabilities or logits ``L`` (m, K).

    Those of masked classes are -inf. Computed in double precision, which holds every ``smoothing``
    where single precision need not. ``np.logaddexp`` is as exact, and takes ten times as long.
    """
    if smoothing == 0:
        return L
    M = np.subtract(L, L.max(axis=1, keepdims=True), dtype=np.float64)
    masked = _masked(M)
    np.exp(M, out=M)
    M *= (1 - smoothing) / M.sum(axis=1, keepdims=True)
    M += np.maximum(smoothing / _n_classes(M, masked), TINY)
    np.log(M, out=M)
    if masked is not None:
        M[masked] = -np.inf
    return M.astype(L.dtype, copy=False)


def _masked(Z: Floats) -> Bools | None:
    """Which classes are masked, or None if none is."""
    return np.isneginf(Z) if np.isneginf(Z.min()) else None


def _n_classes(Z: Floats, masked: Bools | None) -> Indices | int:
    """The number of classes, or for each row (m, 1) that of those that are not masked."""
    return Z.shape[1] if masked is None else np.count_nonzero(~masked, axis=1, keepdims=True)


def mix_logits(Z: Floats, smoothing: float) -> Floats:
    """Logits of the mixture, for logits ``Z`` (m, K), or (m, 1) for log-odds of two classes.

    Those of several classes are its log-probabilities.
    """
    if smoothing == 0 or Z.shape[1] > 1:
        return mix_with_uniform(Z, smoothing)
    # The odds of the more probable class less one, which is exact near 0 as well as far from it,
    # in the precision of the logits if it holds the smoothing.
    holds = smoothing / 2 > np.finfo(Z.dtype).tiny
    distance = np.abs(Z, dtype=Z.dtype if holds else np.float64)
    below = np.negative(distance, out=distance)
    excess = np.expm1(below)
    excess *= smoothing - 1
    less = np.exp(below, out=below)
    less *= 1 - smoothing / 2
    less += max(smoothing / 2, TINY)
    excess /= less
    np.log1p(excess, out=excess)
    return np.copysign(excess, Z, out=excess).astype(Z.dtype, copy=False)


def mixed_probabilities(Z: Floats, smoothing: float) -> Floats:
    """Probabilities (m, K) of the mixture, for logits (m, K), or (m, 1) for log-odds of two."""
    P = softmax(Z)
    if smoothing > 0:
        masked = _masked(Z)
        P *= 1 - smoothing
        P += smoothing / _n_classes(P, masked)
        if masked is not None:
            P[masked] = 0
    return P


def mixture(L: Floats, weights: Floats) -> Floats:
    """Logarithms (n, K) of the mixture of probabilities with logarithms ``L`` (M, n, K)."""
    shifted = L + np.log(weights).astype(L.dtype)[:, None, None]
    top = shifted.max(axis=0)
    finite = np.where(np.isneginf(top), 0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(shifted - finite).sum(axis=0)) + finite

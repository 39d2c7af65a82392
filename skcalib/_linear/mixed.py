r"""Mixtures of probabilities, with the uniform distribution and with one another, in log space.

.. math:: q_k = (1 - \varepsilon)\, p_k + \varepsilon / K_i,

where :math:`K_i` is the number of classes of the row that are not masked. No probability is then
below :math:`\varepsilon / K_i`, and the order of the classes does not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._engine.array_api import astype, into, like, namespace, smallest_normal
from skcalib._engine.blocks import double, softmax
from skcalib._typing import Bools, Floats

TINY = float(np.finfo(np.float64).tiny)


def mix_with_uniform(L: Floats, smoothing: float) -> Floats:
    """Log-probabilities of the mixture, for log-probabilities or logits ``L`` (m, K).

    Those of masked classes are -inf. Computed in double precision, which holds every ``smoothing``
    where single precision need not. ``np.logaddexp`` is as exact, and takes ten times as long.
    """
    if smoothing == 0:
        return L
    xp = namespace(L)
    M = double(L) - double(xp.max(L, axis=1, keepdims=True))
    masked = _masked(M)
    M = into("exp", M, M)
    M = into("multiply", M, M, (1 - smoothing) / xp.sum(M, axis=1, keepdims=True))
    M += _uniform(smoothing, M, masked)
    M = into("log", M, M)
    return astype(M if masked is None else xp.where(masked, -np.inf, M), L.dtype)


def _masked(Z: Floats) -> Bools | None:
    """Which classes are masked, or None if none is."""
    if namespace(Z).min(Z) != -np.inf:
        return None
    masked: Any = -np.inf == Z
    return masked


def _uniform(smoothing: float, Z: Floats, masked: Bools | None) -> Any:
    """What the uniform distribution adds to a probability, by row (m, 1) if classes are masked."""
    if masked is None:
        return max(smoothing / Z.shape[1], TINY)
    xp = namespace(Z)
    n_classes = xp.count_nonzero(~masked, axis=1, keepdims=True)
    return xp.clip(smoothing / astype(n_classes, Z.dtype), TINY, 1.0)


def mix_logits(Z: Floats, smoothing: float) -> Floats:
    """Logits of the mixture, for logits ``Z`` (m, K), or (m, 1) for log-odds of two classes.

    Those of several classes are its log-probabilities.
    """
    if smoothing == 0 or Z.shape[1] > 1:
        return mix_with_uniform(Z, smoothing)
    # The odds of the more probable class less one, which is exact near 0 as well as far from it,
    # in the precision of the logits if it holds the smoothing.
    xp = namespace(Z)
    distance = xp.abs(Z if smoothing / 2 > smallest_normal(Z) else double(Z))
    below = into("negative", distance, distance)
    excess = xp.expm1(below) * (smoothing - 1)
    less = into("exp", below, below)
    less = into("multiply", less, less, 1 - smoothing / 2)
    less += max(smoothing / 2, TINY)
    excess /= less
    excess = into("log1p", excess, excess)
    return astype(xp.where(Z < 0, -excess, excess), Z.dtype)


def mixed_probabilities(Z: Floats, smoothing: float) -> Floats:
    """Probabilities (m, K) of the mixture, for logits (m, K), or (m, 1) for log-odds of two."""
    P = softmax(Z)
    if smoothing > 0:
        masked = _masked(Z)
        P = into("multiply", P, P, 1 - smoothing)
        P += _uniform(smoothing, P, masked)
        if masked is not None:
            P = namespace(P).where(masked, 0.0, P)
    return P


def mixture(L: Floats, weights: Floats) -> Floats:
    """Logarithms (n, K) of the mixture of probabilities with logarithms ``L`` (M, n, K)."""
    shifted = L + like(np.log(weights)[:, None, None], L, L.dtype)
    xp = namespace(L)
    top = xp.max(shifted, axis=0)
    finite = xp.where(-np.inf == top, 0.0, top)
    with np.errstate(divide="ignore"):
        return xp.log(xp.sum(xp.exp(shifted - finite), axis=0)) + finite

r"""Mixtures of probabilities with the uniform distribution, in log space.

.. math:: q_k = (1 - \varepsilon)\, p_k + \varepsilon / K_i,

where :math:`K_i` is the number of classes of the row that are not masked. No probability is then
below :math:`\varepsilon / K_i`, and the order of the classes does not change.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from skcalib._typing import Floats

TINY = float(np.finfo(np.float64).tiny)


def mix_with_uniform(L: Floats, smoothing: float) -> Floats:
    """Log-probabilities of the mixture, for log-probabilities ``L`` (m, K), -inf where masked.

    Computed in double precision, which holds every ``smoothing`` where single precision need not.
    ``np.logaddexp`` is as exact, and takes ten times as long.
    """
    if smoothing == 0:
        return L
    masked = np.isneginf(L)
    n = L.shape[1] - np.count_nonzero(masked, axis=1)
    M = np.exp(L, dtype=np.float64)
    M *= 1 - smoothing
    M += np.maximum(smoothing / n, TINY)[:, None]
    np.log(M, out=M)
    M[masked] = -np.inf
    return M.astype(L.dtype, copy=False)


def mix_logits(Z: Floats, smoothing: float) -> Floats:
    """Logits of the mixture, for logits ``Z`` (m, K), or (m, 1) for log-odds of two classes."""
    if smoothing == 0:
        return Z
    if Z.shape[1] > 1:
        return mix_with_uniform(log_softmax(Z, axis=1), smoothing)
    # Of the larger over the smaller probability, less one: exact near 0 as well as far from it.
    odds = np.exp(-np.abs(Z), dtype=np.float64)
    excess = -(1 - smoothing) * np.expm1(-np.abs(Z), dtype=np.float64)
    excess /= (1 - smoothing / 2) * odds + max(smoothing / 2, TINY)
    return np.copysign(np.log1p(excess), Z).astype(Z.dtype, copy=False)

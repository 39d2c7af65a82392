r"""Mixtures of probabilities with the uniform distribution, in log space.

.. math:: q_k = (1 - \varepsilon)\, p_k + \varepsilon / K_i,

where :math:`K_i` is the number of classes of the row that are not masked. No probability is then
below :math:`\varepsilon / K_i`, and the order of the classes does not change.
"""

from __future__ import annotations

import numpy as np

from skcalib._typing import Floats


def mix_with_uniform(L: Floats, smoothing: float) -> Floats:
    """Log-probabilities of the mixture, for log-probabilities ``L`` (m, K), -inf where masked."""
    if smoothing == 0:
        return L
    masked = np.isneginf(L)
    n = L.shape[1] - np.count_nonzero(masked, axis=1)
    uniform = (np.log(smoothing) - np.log(n)).astype(L.dtype)
    mixed: Floats = np.logaddexp(L + np.log1p(-smoothing), uniform[:, None])
    mixed[masked] = -np.inf
    return mixed

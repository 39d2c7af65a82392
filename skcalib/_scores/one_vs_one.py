r"""One-vs-one calibration: scores of pairs of classes, and the coupling of their probabilities.

The score of the pair (j, k) is the probability of k among the two,
:math:`p_k / (p_j + p_k) = \mathrm{sigmoid}(z_k - z_j)`. Only rows of the two classes count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from skcalib._typing import Bools, Floats, Indices

# Probabilities of pairs below this count as this, so that sums of their inverses are finite.
LEAST = 1e-290


def pairs_of(n_classes: int) -> Indices:
    """All pairs j < k of column numbers, in lexicographic order: (n_pairs, 2)."""
    return np.stack(np.triu_indices(n_classes, 1), axis=1)


def pair_scores(Z: Floats, pairs: Indices) -> Floats:
    """Probability of the second class of each pair among the two, for finite logits (m, K)."""
    return expit(Z[:, pairs[:, 1]] - Z[:, pairs[:, 0]])


def events_of_pairs(Z: Floats, y: Indices, pairs: Indices) -> tuple[Floats, Bools]:
    """Scores of pairs, NaN for rows of other classes, and whether the label is the second one.

    A row where one of the two classes is masked carries no information about the pair.
    """
    first, second = (y[:, None] == pairs[:, k] for k in (0, 1))
    masked = np.isneginf(Z)
    left_out = ~(first | second) | masked[:, pairs].any(axis=2)
    S = pair_scores(np.where(masked, 0, Z), pairs)
    S[left_out] = np.nan
    return S, second


def coupled(of_pair: Callable[[int], Floats], pairs: Indices, masked: Bools) -> Floats:
    r"""Probabilities (m, K), up to a factor, from those of pairs.

    With the probability :math:`r_{kj}` of k among k and j,

    .. math:: p_k = 1 \big/ \big( \sum_{j \ne k} 1 / r_{kj} - (K - 2) \big),

    which is exact if pairs are consistent (Price, Knerr, Personnaz, Dreyfus, NIPS 1994).
    ``of_pair(i)`` returns the probabilities (m,) of the second class of a pair, and ``masked``
    (m, K) indicates classes that are impossible, of which the others are certain.
    """
    K = masked.shape[1]
    total = np.full(masked.shape, 2.0 - K)
    for i, (j, k) in enumerate(pairs):
        r = np.where(masked[:, j], 1.0, np.where(masked[:, k], 0.0, of_pair(i)))
        total[:, k] += 1 / np.maximum(r, LEAST)
        total[:, j] += 1 / np.maximum(1 - r, LEAST)
    return 1 / total

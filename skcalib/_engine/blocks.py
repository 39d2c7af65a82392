"""Helpers for functions of blocks of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._typing import Array


def both_columns(Z: Array) -> Array:
    """Logits with one column per class: one column ``z`` stands for ``(0, z)``."""
    if Z.shape[1] > 1:
        return Z
    both = np.zeros((len(Z), 2), Z.dtype, order="F")
    both[:, 1] = Z[:, 0]
    return both


def softmax(S: Array) -> Array:
    """Probabilities of all classes (m, K), for their logits, or for log-odds (m, 1) of two.

    That of SciPy takes several times as long for few columns.
    """
    both = both_columns(S)
    P = both - both.max(axis=1, keepdims=True)
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    return P


def log_softmax(S: Array) -> Array:
    """Logarithms of the same, finite but for masked classes."""
    both = both_columns(S)
    L = both - both.max(axis=1, keepdims=True)
    L -= np.log(np.exp(L).sum(axis=1, keepdims=True))
    return L


def with_both_columns(Z: Array, *scratch: Array | None) -> tuple[Any, ...]:
    """Logits with one column per class, and the scratch arrays if their shape still matches."""
    both = both_columns(Z)
    return both, *(scratch if both is Z else [None] * len(scratch))


def weighted_sum(values: Array, w: Array | None) -> Any:
    """Weighted sum in float64 of one value per row."""
    return values.sum(dtype=np.float64) if w is None else w @ values

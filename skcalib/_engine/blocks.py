"""Helpers for functions of blocks of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from skcalib._typing import Array, Floats

from .array_api import astype, concat, into, like, namespace, on_host


def both_columns(Z: Array) -> Array:
    """Logits with one column per class: one column ``z`` stands for ``(0, z)``."""
    if Z.shape[1] > 1:
        return Z
    if not isinstance(Z, np.ndarray):
        xp = namespace(Z)
        return xp.concat([xp.zeros_like(Z), Z], axis=1)
    both = np.zeros((len(Z), 2), Z.dtype, order="F")
    both[:, 1] = Z[:, 0]
    return both


def is_event(y: Array, n_maps: int) -> Array:
    """Whether the label of each row is the class of each map, one or all: (m, n_maps).

    The only one is for the second of two classes.
    """
    if n_maps == 1:
        return y[:, None] == 1
    if isinstance(y, np.ndarray):
        return y[:, None] == np.arange(n_maps)
    return y[:, None] == namespace(y).arange(n_maps, device=y.device)


def column_sums(A: Array, w: Array | None = None) -> Array:
    """Sum of each column of a block (m, K) over the rows, with weights if there are any: (K,)."""
    if isinstance(A, np.ndarray):
        return A.sum(axis=0) if w is None else w @ A
    A = double(A)
    return namespace(A).sum(A if w is None else A * w[:, None], axis=0)


def stacked(*parts: Array) -> Array:
    """Arrays of the same shape as one in double precision, with an axis more in front."""
    if isinstance(parts[0], np.ndarray):
        return np.array(parts, dtype=np.float64)
    return namespace(parts[0]).stack([double(part) for part in parts])


def softmax(S: Array) -> Array:
    """Probabilities of all classes (m, K), for their logits, or for log-odds (m, 1) of two.

    That of SciPy takes several times as long for few columns.
    """
    both = both_columns(S)
    xp = namespace(both)
    P = both - xp.max(both, axis=1, keepdims=True)
    P = into("exp", P, P)
    return into("divide", P, P, xp.sum(P, axis=1, keepdims=True))


def log_softmax(S: Array) -> Array:
    """Logarithms of the same, finite but for masked classes."""
    both = both_columns(S)
    xp = namespace(both)
    below = both - xp.max(both, axis=1, keepdims=True)
    return below - xp.log(xp.sum(xp.exp(below), axis=1, keepdims=True))


def of_labels(S: Array, y: Array) -> Array:
    """The entry of each row (m, K) in the column of its class index: (m,)."""
    if isinstance(S, np.ndarray):
        return S[np.arange(len(S)), y]
    return namespace(S).take_along_axis(S, y[:, None], axis=1)[:, 0]


def less_at_labels(S: Array, y: Array, amount: Any) -> Array:
    """``S`` (m, K), which may be overwritten, less an amount (m,) or number in these columns."""
    if isinstance(S, np.ndarray):
        S[np.arange(len(S)), y] -= amount
        return S
    xp = namespace(S)
    is_label = y[:, None] == xp.arange(S.shape[1], device=S.device)
    amount = amount if isinstance(amount, int | float) else astype(amount, S.dtype)[:, None]
    return xp.where(is_label, S - amount, S)


def row_dots(A: Array, B: Array) -> Array:
    """Scalar product of each row of ``A`` (m, K) with that of ``B``: (m,)."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->i", A, B)
    return namespace(A).sum(A * B, axis=1)


def column_dots(A: Array, B: Array) -> Array:
    """Scalar product of each column of ``A`` (m, K) with that of ``B``: (K,)."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->j", A, B)
    return namespace(A).sum(A * B, axis=0)


def scaled(Z: Array, scale: float, dtype: np.dtype[Any], out: Array | None = None) -> Array:
    """The array times a number, in a precision; for NumPy written to ``out``."""
    if isinstance(Z, np.ndarray):
        return np.multiply(Z, scale, out=out, dtype=dtype)
    return astype(Z, getattr(namespace(Z), dtype.name)) * float(scale)


def double(A: Array) -> Array:
    """The array in double precision."""
    return astype(A, namespace(A).float64)


def ones_unless(w: Array | None, Z: Array) -> Array:
    """The weights in double precision, or ones for the rows of ``Z`` (m, K)."""
    return double(namespace(Z).ones_like(Z[:, 0]) if w is None else w)


def flat(*parts: Array) -> Array:
    """Arrays of a block as one flat array."""
    return concat([namespace(parts[0]).reshape(part, (-1,)) for part in parts])


def joined_flat(*parts: Any) -> Array:
    """Numbers and arrays of a block as one flat array in double precision."""
    xp = namespace(parts[0])
    if xp is np:
        return np.concatenate([np.ravel(part) for part in parts], dtype=np.float64)
    return flat(*map(double, parts))


def with_both_columns(Z: Array, *scratch: Array | None) -> tuple[Any, ...]:
    """Logits with one column per class, and the scratch arrays if their shape still matches."""
    both = both_columns(Z)
    return both, *(scratch if both is Z else [None] * len(scratch))


def weighted_sum(values: Array, w: Array | None) -> Any:
    """Weighted sum in float64 of one value per row."""
    if not isinstance(values, np.ndarray):
        values = double(values)
        return namespace(values).sum(values if w is None else values * w)
    return values.sum(dtype=np.float64) if w is None else w @ values


def number_below(edges: Floats, x: Array) -> Array:
    """Number of the edges, which are in order, that are below each number of a tensor."""
    x = double(x)
    x = x.contiguous() if hasattr(x, "contiguous") else x  # torch warns of others
    return namespace(x).searchsorted(like(edges, x), x)


def sums_by_index(index: Array, values: Any, n: int) -> Floats:
    """Sum on the host of the values at each index below ``n``, or their number: float64 (n,).

    Values are those of arrays of the shape of the indices, or are broadcast to it.
    """
    xp = namespace(index)
    if values is not None:
        values = double(values)
        if values.shape != index.shape:  # a call that takes longer than the sums of a row
            values = xp.broadcast_to(values, index.shape)
        if isinstance(index, np.ndarray) and index.flags.f_contiguous:  # saves copies of both
            index, values = index.T, values.T
        values = xp.reshape(values, (-1,))
    index = xp.reshape(index, (-1,))
    if not hasattr(xp, "bincount"):  # which is not in the standard, but in most libraries
        xp, index, values = np, on_host(index), on_host(values)
    return np.asarray(on_host(xp.bincount(index, values, minlength=n)), np.float64)

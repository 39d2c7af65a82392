"""Weights of calibrators, and slopes and intercepts of their mixture, updated row by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skcalib._typing import Floats, Indices

# Precision of slopes and intercepts before the first row: a standard deviation of 0.3.
PRECISION = 10.0

# With more classes, maps have only a slope: a stream has few labels per class.
MAX_INTERCEPTS = 30

TINY = float(np.finfo(np.float64).tiny)


class Stream(NamedTuple):
    """State after the rows of a stream, with E calibrators, two maps and K classes."""

    weights: Floats  #: (E + 2,), of the calibrators and of both maps of their mixture
    maps: Floats  #: (2, 1 + K) or (2, 1), the slope and the intercepts of each map
    precisions: Floats  #: (2, d, d), matrices of the maps

    @classmethod
    def start(cls, n_calibrators: int, n_classes: int) -> Stream:
        """Return equal weights and maps that change nothing."""
        size = 1 + n_classes if n_classes <= MAX_INTERCEPTS else 1
        weights = np.full(n_calibrators + 2, 1 / (n_calibrators + 2))
        return cls(weights, np.eye(size)[[0, 0]], PRECISION * np.stack([np.eye(size)] * 2))


def updated(stream: Stream, L: Floats, y: Indices, w: Floats, forget: float) -> Stream:
    """Return the state after rows with log-probabilities ``L`` (n, E, K) and weights ``w`` (n,).

    ``y`` are columns (n,). A row with weight 2.5 counts as three rows with weight 2.5 / 3, because
    ``forget`` acts after every row.
    """
    for P, label, weight in zip(np.exp(L), y, w, strict=True):
        times = int(np.clip(np.ceil(weight), 1, 1000)) if weight else 0
        for _ in range(times):
            stream = _after_row(stream, P, label, weight / times, forget)
    return stream


def _after_row(stream: Stream, P: Floats, label: int, weight: float, forget: float) -> Stream:
    """Return the state after one row with probabilities ``P`` (E, K)."""
    v, maps, precisions = stream
    Z = mix_log_probabilities(v, P)
    Q = mapped(maps, Z)
    likelihood = np.maximum(np.append(P[:, label], Q[:, label]), TINY)
    v = v * (likelihood / likelihood.max()) ** weight
    v = np.maximum(v / v.sum(), 1e-300)  # a weight of 0 would remain 0 for ever
    memory = (1 - forget) ** weight
    v = memory * v + (1 - memory) / len(v)
    # Both maps make a Newton step. Half of the curvature is the squared gradient, which bounds the
    # step after a surprising row. The second map forgets faster, to follow sudden changes.
    fast = max(forget, min(10 * forget, 0.5), 0.01)
    map_memory = np.array([memory, (1 - fast) ** weight])[:, None, None]
    J = np.vstack([Z, np.eye(len(Z))])[: maps.shape[1]]
    gradient, spread = (Q - (np.arange(len(Z)) == label)) @ J.T, Q @ J.T
    curvature = (J * Q[:, None]) @ J.T - spread[:, :, None] * spread[:, None]
    curvature = curvature + gradient[:, :, None] * gradient[:, None]
    prior = (1 - map_memory) * PRECISION * np.eye(len(J))
    precisions = map_memory * precisions + prior + weight / 2 * curvature
    step = np.linalg.solve(precisions, weight * gradient[:, :, None])[:, :, 0]
    return Stream(v, maps - step, precisions)


def mix_log_probabilities(weights: Floats, P: Floats) -> Floats:
    """Return log-probabilities (..., K) of the calibrators together, from ``P`` (..., E, K)."""
    v = weights[:-2]
    return np.log(np.maximum(v @ P / v.sum(), TINY))


def mapped(maps: Floats, L: Floats) -> Floats:
    """Return probabilities (..., K) of log-probabilities ``L`` after maps (..., d)."""
    S = maps[..., :1] * L + (maps[..., 1:] if maps.shape[-1] > 1 else 0.0)
    P = np.exp(S - S.max(axis=-1, keepdims=True))
    probabilities: Floats = P / P.sum(axis=-1, keepdims=True)
    return probabilities

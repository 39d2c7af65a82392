"""Distinct scores in increasing order, with their weights and hits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from skcalib._typing import Bools, Floats, Indices


class Ranked(NamedTuple):
    """Distinct scores with weights and hits: float64 arrays (m,)."""

    scores: Floats  #: distinct scores, increasing
    weight: Floats  #: sum of weights
    hits: Floats  #: sum of weights with the event

    def first_reaching(self, t: Floats) -> Indices:
        """Return the index of the first score that reaches each threshold (n,).

        A score that is below a threshold only by rounding in float32 reaches it.
        """
        return np.searchsorted(self.scores, t - rounding(t, np.float32))


def distinct_scores(
    scores: Floats,
    hits: Bools | None = None,
    weights: Floats | None = None,
    *,
    are_sorted: bool = False,
    single: bool = False,
) -> Ranked:
    """Sort scores (n,), unless ``are_sorted``, and add the weights and hits of ties.

    ``hits`` and ``weights`` are (n,) or None. Rows with zero weight, and NaN scores, which mean
    masked classes, are left out. ``single`` says that scores were computed from float32 numbers.
    """
    if weights is not None and not weights.all():
        is_positive = weights > 0
        scores, weights = scores[is_positive], weights[is_positive]
        hits = None if hits is None else hits[is_positive]
    w = np.ones(len(scores)) if weights is None else weights
    happened = np.zeros(len(scores)) if hits is None else hits if weights is None else hits * w
    if hits is None and weights is None:  # sort is faster than argsort
        scores = np.sort(scores)
    elif not are_sorted:
        order = np.argsort(scores)
        scores, w, happened = scores[order], w[order], happened[order]
    n = np.searchsorted(scores, np.nan)  # NaN is last
    scores, w, happened = scores[:n], w[:n], happened[:n]
    first = _tie_starts(scores, single=single)
    return Ranked(
        scores[first].astype(np.float64, copy=False),
        np.add.reduceat(w, first, dtype=np.float64),
        np.add.reduceat(happened, first, dtype=np.float64),
    )


def _tie_starts(scores: Floats, *, single: bool) -> Indices:
    """Return the index of the first score in each run of ties among sorted scores (n,).

    Scores that differ by rounding errors are ties, such as equal votes in a forest.
    """
    n, single = len(scores), single or are_single(scores)
    scores = scores.astype(np.float64, copy=False)
    gaps, error = np.diff(scores), rounding(scores, np.float32)
    # The ratio of the two precisions is a power of two.
    double_error = error[1:] * float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)
    is_new = np.append(True, gaps > double_error)[:n]
    if not n or not single:
        return np.flatnonzero(is_new)
    first = np.flatnonzero(np.append(True, gaps > error[1:])[:n])
    last = np.append(first[1:], n) - 1
    # Dense scores form long runs; count only equal scores as ties there.
    is_short = scores[last] - scores[first] <= 2 * error[last]
    is_new &= ~np.repeat(is_short, last - first + 1)
    is_new[first] = True
    return np.flatnonzero(is_new)


def are_single(x: Floats) -> bool:
    """Return whether all numbers, or 1 minus them, are float32 numbers."""
    if x.dtype == np.float32:
        return True
    for p in (x[:64], x):  # the first rows decide in most cases
        q = 1 - p
        with np.errstate(over="ignore"):
            is_exact = (p.astype(np.float32) == p) | (q.astype(np.float32) == q)
        if not (is_exact | np.isnan(p)).all():
            return False
    return True


def rounding(p: Floats, dtype: DTypeLike) -> Floats:
    """Return an upper bound of rounding errors in ``p`` after a logarithm and an exponential."""
    # exp(z) multiplies the relative error by |z|.
    log = np.log(np.maximum(p, np.finfo(np.float64).tiny))
    return 4 * float(np.finfo(dtype).eps) * p * (1 - log)

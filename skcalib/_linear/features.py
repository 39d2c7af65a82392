"""Rows of features of a linear map, made block by block from logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from skcalib._engine.array_api import astype, at_least, into, namespace, put
from skcalib._engine.blocks import both_columns, double, scaled, with_both_columns
from skcalib._engine.rows import OfBlock, Plan, Rows
from skcalib._linear.mixed import mix_with_uniform
from skcalib._typing import Floats, Indices

# Lower log-probabilities are those of a probability of zero in double precision, whatever slope a
# map gives them. None is to outweigh all others.
LOWEST_FEATURE = -1e3

# Probabilities from here on are held by single precision, and their logarithms are exact.
HELD = 1e-30

# Log-probabilities of masked classes are lower yet, to be told from others.
MASKED_FEATURE = -2e3


@dataclass(frozen=True)
class Features:
    """Features ``scale * Z - shift`` of rows of logits ``Z``, class indices and weights.

    ``rows`` may have a fourth array, the shift, with one number per row. With the log-sum-exp of
    ``scale * Z`` the features are log-probabilities, which are made block by block. With ``stored``
    the logits are the features: log-probabilities, none of them too low. With ``double`` they are
    made, and worked with, in double precision whatever the dtype of ``Z``. Log-probabilities below
    :data:`LOWEST_FEATURE`, as those of masked classes, are raised to it, and scores of -inf are as
    far below the largest of their row; ``clips`` says that there may be some. With ``smoothing``
    they are those of a mixture with the uniform distribution, which takes each pass longer.
    """

    rows: Rows
    scale: float = 1.0
    double: bool = False
    clips: bool = False
    smoothing: float = 0.0
    stored: bool = False

    @property
    def n_classes(self) -> int:
        """Number of columns of the features."""
        return max(self.rows.n_columns, 2)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return np.dtype(np.float64) if self.double else self.rows.dtype

    @property
    def are_log_probabilities(self) -> bool:
        """Whether the rows have a shift, or need none."""
        return self.stored or len(self.rows.arrays) > 3

    @property
    def masks(self) -> bool:
        """Whether there may be features of masked classes."""
        return self.clips and self.are_log_probabilities

    def every(self, step: int) -> Features:
        """Those of every k-th row, where that makes a pass cheaper."""
        return replace(self, rows=self.rows.every(step))

    @classmethod
    def of_log_probabilities(cls, rows: Rows, scale: float) -> Self:
        """The log-probabilities of the scores ``scale * Z``."""
        # No log-probability is further below zero than the range of its row and log K.
        clips = _may_clip(rows, -LOWEST_FEATURE / 2 / scale)
        return cls(rows.extended(rows.map(partial(_log_sum_exp, scale))), scale, clips=clips)

    @classmethod
    def of_stored(cls, rows: Rows, f: OfBlock) -> Self:
        """The log-probabilities ``f(*block)`` of blocks, with one column per class."""
        rows = rows.with_logits(rows.map(partial(_as_features, f), order="F"))
        return cls(rows, clips=_may_clip(rows, -LOWEST_FEATURE / 2), stored=True)

    @classmethod
    def of_scores(cls, rows: Rows, scale: float) -> Self:
        """The scores ``scale * Z``."""
        return cls(rows, scale, clips=_may_clip(rows, float(np.finfo(float).max)))

    def mean(
        self, f: Callable[..., Floats], *, scratch: int, room: int = 1, at_least: int = 1
    ) -> Floats:
        """Sum of ``f(features, y, w, *scratch)`` over the rows, divided by their weight."""
        # What goes to the rows must not hold them.
        if self.stored:
            of_block, n = partial(_of_stored, f, self.dtype), scratch
        else:
            form = self.scale, self.dtype, self.clips, self.are_log_probabilities, self.smoothing
            of_block, n = partial(_of_features, f, form), 1 + scratch
        plan = Plan(scratch=n, dtype=self.dtype, room=room, at_least=at_least)
        return self.rows.sum(of_block, plan) / self.rows.weight


def _of_features(
    f: Callable[..., Floats],
    form: tuple[float, np.dtype[Any], bool, bool, float],
    Z: Floats,
    y: Indices,
    w: Floats | None,
    *others: Floats | None,
) -> Floats:
    """``f`` of the features of a block of rows."""
    scale, dtype, clips, shifted, smoothing = form
    shift, spare = (others[0], others[1:]) if shifted else (None, others)
    Z, F, *rest = with_both_columns(Z, *spare)
    with np.errstate(over="ignore" if clips else "warn"):
        F = scaled(Z, scale, dtype, F)
    if shift is not None:
        F -= shift[:, None]
        F = _mixed(F, smoothing, clips=clips)
        return f(raised(F) if clips else F, y, w, *rest)
    if clips:
        F = put(F, namespace(F).max(F, axis=1, keepdims=True) + LOWEST_FEATURE, -np.inf == F)
    return f(F, y, w, *rest)


def _mixed(F: Floats, smoothing: float, *, clips: bool) -> Floats:
    """Log-probabilities of the mixture with the uniform distribution."""
    least = smoothing / F.shape[1]
    if F.dtype == namespace(F).float64 or clips or least < HELD:
        return mix_with_uniform(F, smoothing)
    F = into("exp", F, F)
    F *= 1 - smoothing
    F += least
    return into("log", F, F)


def _of_stored(
    f: Callable[..., Floats], dtype: np.dtype[Any], F: Floats, *others: Floats | None
) -> Floats:
    """``f`` of a block of rows that are features."""
    return f(astype(F, getattr(namespace(F), dtype.name)), *others)


def _as_features(f: OfBlock, *block: Any) -> Floats:
    return raised(f(*block))


def raised(F: Floats) -> Floats:
    """Log-probabilities, in place no less than :data:`LOWEST_FEATURE` but for masked classes."""
    if namespace(F).min(F) >= LOWEST_FEATURE:
        return F
    masked = -np.inf == F
    return put(at_least(F, LOWEST_FEATURE, F), MASKED_FEATURE, masked)


def mask_scores(S: Floats, F: Floats) -> Floats:
    """Scores, in place -inf where features are those of masked classes.

    Only maps of each class by itself meet such.
    """
    return put(S, -np.inf, F == MASKED_FEATURE)


def _may_clip(rows: Rows, limit: float) -> bool:
    """Whether logits of a row may differ by more; if that takes a round trip, it is not asked."""
    return not rows.passes_are_cheap or bool(rows.reduce(np.maximum, _longest_range) > limit)


def _longest_range(Z: Floats, *_: Any) -> Any:
    """The largest range of a row of logits, infinite where a class is masked."""
    Z = both_columns(Z)
    xp = namespace(Z)
    return xp.max(double(xp.max(Z, axis=1)) - double(xp.min(Z, axis=1)))


def _log_sum_exp(scale: float, Z: Floats, *_: Any) -> Floats:
    with np.errstate(over="ignore"):
        S = both_columns(Z * float(scale))
        xp = namespace(S)
        top = xp.max(S, axis=1, keepdims=True)
        S -= top
    total = xp.sum(into("exp", S, S), axis=1)
    return xp.log(total) + top[:, 0]

"""Rows of features of a linear map, made block by block from logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp

from skcalib._engine.memory import (
    both_columns,
    is_far,
    map_rows,
    reduce_rows,
    sum_rows,
    total_weight,
    with_both_columns,
)
from skcalib._typing import Floats, Indices

# Lower log-probabilities are those of a probability of zero in double precision, whatever slope a
# map gives them. None is to outweigh all others.
LOWEST_FEATURE = -1e3

# Log-probabilities of masked classes are lower yet, to be told from others.
MASKED_FEATURE = -2e3


@dataclass(frozen=True)
class Rows:
    """Rows of a problem: features ``scale * Z - shift``, class indices and weights.

    ``shift`` has one number per row or is None. With the log-sum-exp of ``scale * Z`` the
    features are log-probabilities, which are made block by block and never stored. With
    ``double`` they are made, and worked with, in double precision whatever the dtype of ``Z``.
    Log-probabilities below :data:`LOWEST_FEATURE`, as those of masked classes, are raised to it,
    and scores of -inf are as far below the largest of their row; ``reaching`` says that there may
    be some.
    """

    Z: Floats
    y: Indices
    w: Floats | None = None
    scale: float = 1.0
    shift: Floats | None = None
    double: bool = False
    reaching: bool = False

    @property
    def n_classes(self) -> int:
        """Number of columns of the features."""
        return max(self.Z.shape[1], 2)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the features."""
        return np.dtype(np.float64) if self.double else self.Z.dtype

    @property
    def masks(self) -> bool:
        """Whether there may be features of masked classes."""
        return self.reaching and self.shift is not None

    @property
    def arrays(self) -> tuple[Floats, Indices, Floats | None, Floats | None]:
        """What there is one of for each row."""
        return self.Z, self.y, self.w, self.shift

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        return total_weight(self.y, self.w)

    def every(self, step: int) -> Rows:
        """Every so-manieth row; all of them where a pass is a pass, however few rows it takes."""
        if is_far(self.Z):
            return self
        w, shift = (None if a is None else a[::step] for a in (self.w, self.shift))
        return replace(self, Z=self.Z[::step], y=self.y[::step], w=w, shift=shift)

    @classmethod
    def of_log_probabilities(cls, Z: Floats, y: Indices, w: Floats | None, scale: float) -> Self:
        """Rows whose features are the log-probabilities of the scores ``scale * Z``."""
        shift = map_rows(partial(_log_sum_exp, scale), Z)
        # No log-probability is further below zero than the range of its row and log K.
        reaching = is_far(Z) or scale * _longest_range(Z) > -LOWEST_FEATURE / 2
        return cls(Z, y, w, scale, shift, reaching=bool(reaching))

    @classmethod
    def of_scores(cls, Z: Floats, y: Indices, w: Floats | None, scale: float) -> Self:
        """Rows whose features are the scores ``scale * Z``."""
        return cls(Z, y, w, scale, reaching=is_far(Z) or bool(np.isinf(_longest_range(Z))))

    def mean(self, f: Callable[..., Floats], *, scratch: int, room: int = 1) -> Floats:
        """Sum of ``f(features, y, w, *scratch)`` over the rows, divided by their weight."""
        # What goes to the rows must not hold them.
        block = partial(_of_features, f, self.scale, self.dtype, self.reaching)
        total = sum_rows(block, *self.arrays, scratch=1 + scratch, dtype=self.dtype, room=room)
        return total / self.weight


def _of_features(
    f: Callable[..., Floats],
    scale: float,
    dtype: np.dtype[Any],
    reaching: bool,  # noqa: FBT001
    Z: Floats,
    y: Indices,
    w: Floats | None,
    shift: Floats | None,
    *spare: Floats | None,
) -> Floats:
    """``f`` of the features of a block of rows."""
    Z, F, *rest = with_both_columns(Z, *spare)
    with np.errstate(over="ignore" if reaching else "warn"):
        F = np.multiply(Z, scale, out=F, dtype=dtype)
    if shift is not None:
        F -= shift[:, None]
    if reaching and shift is None:
        np.copyto(F, F.max(axis=1, keepdims=True) + LOWEST_FEATURE, where=np.isneginf(F))
    return f(raised(F) if reaching and shift is not None else F, y, w, *rest)


def raised(F: Floats) -> Floats:
    """Log-probabilities, in place no less than :data:`LOWEST_FEATURE` but for masked classes."""
    masked = np.isneginf(F)
    np.maximum(F, np.asarray(LOWEST_FEATURE, F.dtype), out=F)
    np.copyto(F, np.asarray(MASKED_FEATURE, F.dtype), where=masked)
    return F


def mask_scores(S: Floats, F: Floats) -> Floats:
    """Scores, in place -inf where features are those of masked classes.

    Only maps of each class by itself meet such.
    """
    np.copyto(S, -np.inf, where=F == MASKED_FEATURE)
    return S


def _longest_range_of_block(Z: Floats) -> Any:
    Z = both_columns(Z)
    return np.max(Z.max(axis=1).astype(np.float64) - Z.min(axis=1))


def _longest_range(Z: Floats) -> float:
    """The largest range of a row of logits, infinite where a class is masked."""
    return float(reduce_rows(np.maximum, _longest_range_of_block, Z))


def _log_sum_exp(scale: float, Z: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return logsumexp(both_columns(np.multiply(Z, scale, dtype=Z.dtype)), axis=1)

"""Interface of rows: arrays with one entry per row, and passes over them.

It is implemented for rows in memory (:class:`~.memory.MemoryRows`), for row-chunked Dask
collections (:class:`~.dask.DaskRows`) and for tensors on a device
(:class:`~.tensors.TensorRows`). Modules outside this package use the interface only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skcalib._typing import Array

from .blocks import weighted_sum
from .cached import cached_property
from .ranking import Ranked

T = TypeVar("T")

# Functions of a block of each array, and operations that put their results together.
OfBlock = Callable[..., Any]
Merge = Callable[[Any, Any], Any]

# A sample has every 64th row; more rows if these were fewer than the second number, and fewer if
# these had more elements than the third.
SAMPLE_EVERY, SAMPLE_ROWS, SAMPLE_ELEMENTS = 64, 512, 1 << 24


@dataclass(frozen=True)
class Plan:
    """How a pass divides rows into blocks, and the scratch arrays that it passes with them.

    ``scratch`` is the number of uninitialized arrays, of the shape of the first block and of
    ``dtype`` if that is given, that follow the blocks as arguments: allocating large temporaries
    costs more than filling them. Blocks have ``at_least`` this many rows if there are as many, for
    functions that loop over columns or return large arrays. ``room`` is the size of the largest
    temporary array relative to the block; blocks are smaller by this factor.
    """

    scratch: int = 0
    dtype: DTypeLike | None = None
    at_least: int = 1
    room: int = 1


PLAIN = Plan()


class Rows(ABC):
    """Arrays of the same length: ``X`` (n, ...), ``y`` (n,), ``w`` (n,) or None, and others.

    The functions that a pass applies to blocks are pure and can be pickled, and do not refer to
    the rows.
    """

    # Whether a pass costs no more than its arithmetic: no round trip to workers.
    passes_are_cheap: ClassVar[bool]

    def __init__(self, *arrays: Any, weight: float | None = None) -> None:
        self.arrays = arrays
        self._weight = weight
        # Number of elements in a row of the widest array.
        self._width = max([1, *(math.prod(a.shape[1:]) for a in arrays if a is not None)])

    @property
    def X(self) -> Any:  # noqa: N802
        """Logits or probabilities."""
        return self.arrays[0]

    @property
    def y(self) -> Any:
        """Labels or class indices."""
        return self.arrays[1]

    @property
    def w(self) -> Any:
        """Weights, or None for ones."""
        return self.arrays[2]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def n_columns(self) -> int:
        """Number of columns of ``X``."""
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of ``X``."""
        return np.dtype(self.X.dtype)

    @property
    def weight(self) -> float:
        """Sum of the weights, by which sums over rows are divided to give means."""
        # Not a cached_property, since rows that are derived from these take it over if it is known.
        if self._weight is None and self.w is None:
            self._weight = float(self.n_rows)
        elif self._weight is None:
            with np.errstate(over="ignore"):
                self._weight = float(self._having(self.w).sum(partial(weighted_sum, w=None)))
        return self._weight

    @cached_property
    def least_weight(self) -> float:
        """The smallest positive weight."""
        return float(1 if self.w is None else self._having(self.w).reduce(np.minimum, _least))

    def sum(self, f: OfBlock, plan: Plan = PLAIN) -> Array:
        """Sum over the blocks of ``f(*blocks)``, added in row order.

        ``f`` returns a float64 array, whatever the dtype of the rows, whose shape does not depend
        on the block. The number of threads and the block size change the sum by rounding only.
        """
        total: Array = self.reduce(add, f, plan)
        return total

    @abstractmethod
    def reduce(self, merge: Merge, f: OfBlock, plan: Plan = PLAIN) -> Any:
        """As :meth:`sum`, with the associative operation ``merge`` instead of addition."""

    @abstractmethod
    def map(self, f: OfBlock, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Any:
        """Concatenation of ``f(*blocks)``: an array with which the rows can be extended.

        ``order`` is its memory layout, where it is one array in memory.
        """

    @abstractmethod
    def ranked(
        self, of_block: OfBlock, n_columns: int, then: Callable[[Ranked], T], *, events: bool = True
    ) -> list[T]:
        """``then`` applied to the distinct scores of each column, with their weight and hits.

        ``of_block(X, y)`` returns the scores and events of a block, both (m, n_columns).
        """

    @abstractmethod
    def relabelled(self, f: Callable[[Any], Array]) -> Self:
        """The rows with class indices ``f(y)`` in place of ``y``."""

    @abstractmethod
    def in_memory(self) -> Rows:
        """The rows in the memory of this process; a ValueError if they are too many to gather."""

    def on_host(self) -> Rows:
        """The rows with arrays of NumPy in place of tensors."""
        return self

    @abstractmethod
    def every(self, step: int) -> Self:
        """Every k-th row; all rows if the cost of a pass does not depend on their number."""

    @abstractmethod
    def _call(self, f: Callable[[Rows], T], step: int) -> T:
        """``f`` of every k-th row, gathered in one process."""

    def sample(self, f: Callable[[Rows], T], at_least: int = SAMPLE_ROWS) -> T | None:
        """``f`` of every k-th row, of ``at_least`` this many rows.

        None if that would be all rows, or too many to gather.
        """
        few = self._step(at_least) > 1 and at_least * self._width <= SAMPLE_ELEMENTS
        return self.gather(f, at_least) if few else None

    def gather(self, f: Callable[[Rows], T], at_least: int = SAMPLE_ROWS) -> T:
        """As :meth:`sample`, also if these are all rows."""
        return self._call(f, self._step(at_least))

    def _step(self, at_least: int) -> int:
        step = max(SAMPLE_EVERY, self.n_rows * self._width // SAMPLE_ELEMENTS)
        return max(min(step, self.n_rows // at_least), 1)

    def extended(self, array: Any) -> Self:
        """The rows with another array, such as a result of :meth:`map`."""
        return type(self)(*self.arrays, array, weight=self._weight)

    def with_logits(self, X: Any) -> Self:
        """The rows with other logits, such as a result of :meth:`map`."""
        return type(self)(X, *self.arrays[1:], weight=self._weight)

    def _having(self, *arrays: Any) -> Self:
        return type(self)(*arrays)


def _least(w: Array) -> Any:
    return np.min(w, where=w > 0, initial=np.inf)

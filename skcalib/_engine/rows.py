"""Rows: arrays with one entry for each row, and what passes over them can find out.

Nothing above this package asks what kind of rows it has. There are rows in memory
(:class:`~.memory.MemoryRows`) and row-chunked Dask collections (:class:`~.dask.DaskRows`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from skcalib._typing import Array

from .ranking import Ranked

T = TypeVar("T")

# A sample holds one row in so many, or more rows where these would be fewer than the second number,
# or fewer where these would hold more numbers than the third.
SAMPLE_EVERY, SAMPLE_ROWS, SAMPLE_ELEMENTS = 64, 512, 1 << 24


@dataclass(frozen=True)
class Plan:
    """How a pass cuts rows into blocks, and what it hands over with each block.

    ``scratch`` arrays like the block of the first array, of undefined content and of ``dtype`` if
    that is given, follow the blocks: fresh memory for large temporaries costs more than the
    arithmetic that fills them. A block has ``at_least`` so many rows where there are as many, for
    functions that loop over columns or return more than they are given. The largest array that the
    function makes of a block is ``room`` times as large as the block, which is smaller by that.
    """

    scratch: int = 0
    dtype: DTypeLike | None = None
    at_least: int = 1
    room: int = 1


PLAIN = Plan()


class Rows(ABC):
    """Arrays of the same length: ``X`` (n, ...), ``y`` (n,), ``w`` (n,) or None, and others.

    What passes hand blocks of them to are pure functions, which may be pickled, and must not hold
    the rows.
    """

    # Whether a pass costs no more than its arithmetic, and not a round trip as well.
    passes_are_cheap: ClassVar[bool]

    def __init__(self, *arrays: Any, weight: float | None = None) -> None:
        self.arrays = arrays
        self._weight = weight
        self._least_weight: float | None = None

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
        """Sum of the weights: what turns sums over rows into means."""
        # Not a cached_property, one lock of which all instances share: a chunk would wait for it.
        if self._weight is None:
            with np.errstate(over="ignore"):
                total = self.n_rows if self.w is None else self._having(self.w).sum(np.sum)
            self._weight = float(total)
        return self._weight

    @property
    def least_weight(self) -> float:
        """The smallest positive weight."""
        if self._least_weight is None:
            least = 1 if self.w is None else self._having(self.w).reduce(np.minimum, _least)
            self._least_weight = float(least)
        return self._least_weight

    def sum(self, f: Callable[..., Array], plan: Plan = PLAIN) -> Array:
        """Sum of ``f`` of the blocks of each array, added in row order.

        ``f`` returns an array of a shape that does not depend on the block, in float64 whatever
        the dtype of the rows. Threads and block size change the sum by rounding only.
        """
        total: Array = self.reduce(add, f, plan)
        return total

    @abstractmethod
    def reduce(
        self, merge: Callable[[Any, Any], Any], f: Callable[..., Any], plan: Plan = PLAIN
    ) -> Any:
        """As :meth:`sum`, with another operation than addition."""

    @abstractmethod
    def map(self, f: Callable[..., Any], plan: Plan = PLAIN) -> Any:
        """``f`` of the blocks of each array, put together: an array to extend the rows with."""

    @abstractmethod
    def ranked(
        self,
        of_block: Callable[..., tuple[Array, Array]],
        n_columns: int,
        then: Callable[[Ranked], T],
        *,
        events: bool = True,
    ) -> list[T]:
        """``then`` of the distinct scores of each column, with their weight and hits.

        ``of_block(X, y)`` makes scores and events, both of shape (m, n_columns), of blocks.
        """

    @abstractmethod
    def relabelled(self, f: Callable[[Any], Array]) -> Self:
        """The rows with ``f(y)``, which are class indices, in place of ``y``."""

    @abstractmethod
    def every(self, step: int) -> Self:
        """Every k-th row; all rows where a pass costs the same however few rows it takes."""

    @abstractmethod
    def _call(self, f: Callable[[Rows], T], step: int) -> T:
        """``f`` of every k-th row, gathered in one place."""

    def sample(self, f: Callable[[Rows], T], at_least: int = SAMPLE_ROWS) -> T | None:
        """``f`` of every k-th row, of ``at_least`` so many.

        None if that would be all rows, or too many to gather.
        """
        few = self._step(at_least) > 1 and at_least * self._width <= SAMPLE_ELEMENTS
        return self.gather(f, at_least) if few else None

    def gather(self, f: Callable[[Rows], T], at_least: int = SAMPLE_ROWS) -> T:
        """As :meth:`sample`, also if that is all rows."""
        return self._call(f, self._step(at_least))

    def _step(self, at_least: int) -> int:
        step = max(SAMPLE_EVERY, self.n_rows * self._width // SAMPLE_ELEMENTS)
        return max(min(step, self.n_rows // at_least), 1)

    def extended(self, array: Any) -> Self:
        """The rows with another array, as :meth:`map` makes one."""
        return type(self)(*self.arrays, array, weight=self._weight)

    def _having(self, *arrays: Any) -> Self:
        return type(self)(*arrays)

    @property
    def _width(self) -> int:
        """Numbers in a row of the widest array."""
        return max(1, *(math.prod(a.shape[1:]) for a in self.arrays if a is not None))


def _least(w: Array) -> Any:
    return np.min(w, where=w > 0, initial=np.inf)

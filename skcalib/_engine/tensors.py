"""Rows of tensors: one block, unless that is huge, on the device of the logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from skcalib._typing import Array

from .array_api import is_tensor, like, namespace, on_host
from .memory import MemoryRows
from .ranking import Ranked, ranked
from .rows import PLAIN, Merge, OfBlock, Plan, Rows

# Number of elements of a temporary array: 2 GiB in double precision.
MOST_ELEMENTS = 1 << 28

T = TypeVar("T")


class TensorRows(Rows):
    """Rows whose logits, class indices and weights are tensors on the same device.

    Sums come to the host, where optimisers hold the few numbers that they search. Maps stay. Labels
    are on the host until they are replaced by class indices.
    """

    passes_are_cheap: ClassVar[bool] = True

    @classmethod
    def of(cls, Z: Any, labels: Array, w: Array | None) -> Self:
        """Rows of a tensor, and of labels and weights on the host."""
        return cls(Z, labels, None if w is None else like(w, Z), weight=_total(w, len(labels)))

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype("float32" if "float32" in str(self.X.dtype) else "float64")

    @property
    def least_weight(self) -> float:
        return 1.0 if self.w is None else float(namespace(self.w).min(self.w))

    def reduce(self, merge: Merge, f: OfBlock, plan: Plan = PLAIN) -> Any:
        blocks, scratch = self._blocks(plan), [None] * plan.scratch
        return reduce(merge, (np.asarray(on_host(f(*block, *scratch))) for block in blocks))

    def _blocks(self, plan: Plan) -> Iterator[Sequence[Any]]:
        """One block, or several if temporary arrays would not fit into the memory of a device."""
        step = max(plan.at_least, MOST_ELEMENTS // (self._width * plan.room))
        if step >= self.n_rows:
            yield self.arrays
            return
        for low in range(0, self.n_rows, step):
            rows = slice(low, min(low + step, self.n_rows))
            yield [None if a is None else a[rows, ...] for a in self.arrays]

    def map(self, f: OfBlock, plan: Plan = PLAIN, order: Literal["C", "F"] = "C") -> Any:
        del order  # their layout is that of the library
        return f(*self.arrays, *[None] * plan.scratch)

    def ranked(
        self, of_block: OfBlock, n_columns: int, then: Callable[[Ranked], T], *, events: bool = True
    ) -> list[T]:
        S, E = of_block(self.X, self.y)

        def of_column(k: int) -> T:
            order = namespace(S).argsort(S[:, k])
            columns = S[:, k], E[:, k] if events else None, self.w
            return then(ranked(*(_taken(a, order) for a in columns), are_sorted=True))

        return [of_column(k) for k in range(n_columns)]

    def relabelled(self, f: Callable[[Any], Array]) -> Self:
        y = like(f(on_host(self.y)), self.X)
        return type(self)(self.X, y, *self.arrays[2:], weight=self._weight)

    def in_memory(self) -> MemoryRows:
        return MemoryRows(*map(on_host, self.arrays), weight=self._weight)

    def on_host(self) -> MemoryRows:
        return self.in_memory()

    def every(self, step: int) -> Self:
        return self._having(*(None if a is None else a[::step, ...] for a in self.arrays))

    def _call(self, f: Callable[[Rows], T], step: int) -> T:
        return f(self.every(step))


def _taken(a: Any, order: Any) -> Any:
    """Entries of a tensor in an order, on the host."""
    return None if a is None else on_host(namespace(a).take(a, order))


def _total(w: Array | None, n_rows: int) -> float:
    return float(n_rows if w is None else w.sum())


def held(Z: Any, *others: Any, weight: float | None = None) -> MemoryRows | TensorRows:
    """Rows in memory or, for a tensor, on its device."""
    return (TensorRows if is_tensor(Z) else MemoryRows)(Z, *others, weight=weight)

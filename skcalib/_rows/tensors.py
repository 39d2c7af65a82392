"""Rows of tensors: one block, unless that is huge, on the device of the logits."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from .arrays import Array, like, namespace, on_host
from .ranking import Ranked, ranked
from .rows import PLAIN, MemoryRows, Merge, OfBlock, Plan, Rows

# Number of elements of a temporary array: 2 GiB in double precision.
MOST_ELEMENTS = 1 << 28

T = TypeVar("T")


class TensorRows(Rows):
    """Rows whose logits, class indices and weights are tensors on the same device.

    Sums come to the host, where optimisers hold the few numbers that they search. Maps stay. Labels
    are on the host until they are replaced by class indices.
    """

    is_local: ClassVar[bool] = True

    @classmethod
    def of(cls, Z: Any, *others: Any) -> Self:
        """Rows of a tensor, and of labels and weights, if there are any, on the host."""
        if len(others) < 2 or others[1] is None:
            return cls(Z, *others)
        labels, w = others
        return cls(Z, labels, like(w, Z))

    def sum(self, f: OfBlock, plan: Plan = PLAIN, merge: Merge = add) -> Any:
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

    def relabelled(self, f: Callable[[Any], Array], **about: Any) -> Self:
        y = like(f(on_host(self.y)), self.X)
        return type(self)(self.X, y, *self.arrays[2:], **self._about | about)

    def in_memory(self) -> MemoryRows:
        return MemoryRows(*map(on_host, self.arrays), **self._about)

    def on_host(self) -> MemoryRows:
        return self.in_memory()

    def thinned(self, step: int) -> Self:
        arrays = (None if a is None else a[::step, ...] for a in self.arrays)
        return type(self)(*arrays, classes=self.classes, masked=self.masked)


def _taken(a: Any, order: Any) -> Any:
    """Entries of a tensor in an order, on the host."""
    return None if a is None else on_host(namespace(a).take(a, order))

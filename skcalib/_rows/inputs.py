"""Rows of tensors, and the conversion of all input, array-likes to Dask collections, to rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from . import arrays as xa
from .arrays import Array, like, namespace, on_host
from .dask import checked_chunks
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
            columns: Any = (
                None if a is None else on_host(namespace(a).take(a, order))
                for a in (S[:, k], E[:, k] if events else None, self.w)
            )
            return then(ranked(*columns, are_sorted=True))

        return [of_column(k) for k in range(n_columns)]

    def relabelled(self, f: Callable[[Any], Array], **about: Any) -> Self:
        y = like(f(on_host(self.y)), self.X)
        return type(self)(self.X, y, *self.arrays[2:], **self._about | about)

    def in_memory(self, *, or_some: bool = False) -> MemoryRows:  # noqa: ARG002
        return MemoryRows(*map(on_host, self.arrays), **self._about)

    def on_host(self) -> MemoryRows:
        return self.in_memory()

    def thinned(self, step: int) -> Self:
        arrays = (None if a is None else a[::step, ...] for a in self.arrays)
        return type(self)(*arrays, classes=self.classes, masked=self.masked)


def as_array(x: Any, name: str = "X", *, n_columns: int | None = None, flat: bool = False) -> Any:
    """Logits or probabilities as an array; data frames and Dask collections are not converted.

    Nor are tensors, if scikit-learn's ``array_api_dispatch`` is on.

    Parameters
    ----------
    x : array-like
        Input of the user.
    name : str
        Name of the argument, for messages.
    n_columns : int or None
        Required number of columns, if it is known.
    flat : bool
        Whether one dimension is allowed.

    Returns
    -------
    object
        Lists and tensors as arrays of the same dtype; other objects unchanged.

    Raises
    ------
    ValueError
        For tensors that cannot be converted to NumPy, and for an invalid number of dimensions.
    """
    if type(x) is not np.ndarray:
        x = xa.check_tensor(x, name) if not xa.is_dask(x) and xa.is_tensor(x) else as_numpy(x, name)
    n_dimensions = getattr(x, "ndim", 2 if hasattr(x, "__len__") else 0)
    if n_dimensions > 2:
        raise ValueError(
            f"{name} must have two dimensions, one row for each label and one column for each "
            f"class, got shape {tuple(x.shape)}. Move the K classes to the last axis, by moveaxis, "
            f"and pass {name}.reshape(-1, K) and y.ravel()."
        )
    if n_dimensions == 0 and flat:
        raise ValueError(
            f"{name} must have one or two dimensions, got none. Pass a list, also for one row."
        )
    if n_dimensions == 1 and not flat:
        shape = "a single row of logits, X.reshape(1, -1)"
        if n_columns in {None, 1}:
            shape = "log-odds of two classes make a single column, X.reshape(-1, 1)"
        raise ValueError(f"{name} must have two dimensions, got one. Reshape your data: {shape}.")
    return x


def as_numpy(x: Any, name: str) -> Any:
    """Lists and tensors as arrays of the same dtype, other objects unchanged.

    scikit-learn would convert objects without a NumPy dtype, such as tensors, to float64.
    """
    if isinstance(x, list | tuple):
        try:
            return np.asarray(x)
        except ValueError:  # ragged, for which scikit-learn raises an error of its own
            return x
    if isinstance(x, np.ma.MaskedArray):
        if np.ma.is_masked(x):
            n_masked = int(np.ma.getmaskarray(x).sum())
            raise ValueError(
                f"{name} must have no masked entries, got {n_masked}. Leave out their "
                f"rows, or fill them in, as in {name}.filled(-np.inf) for logits of classes that "
                "are impossible."
            )
        return x.data
    if isinstance(x, np.ndarray) or xa.is_dask(x) or hasattr(x, "columns"):
        return x
    try:
        if xa.is_tensor(x):
            return xa.on_host(x)
        return np.asarray(x) if hasattr(x, "__array__") else x
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"{name} must be convertible to a NumPy array, got {type(x).__name__} of type "
            f"{getattr(x, 'dtype', 'unknown')}: {str(error).rstrip('.')}. Pass "
            f"it as a NumPy array, as {name}.detach().float().cpu().numpy() of torch."
        ) from error


def check_in_memory(inputs: Iterable[Any], message: str | None = None) -> None:
    """Raise a ValueError for a Dask collection where all rows are needed in memory."""
    if any(map(xa.is_dask, inputs)):
        raise ValueError(
            message
            or "All rows must be in memory for this, got a Dask collection. Call compute() on a "
            "part of it that fits into memory."
        )


def if_in_memory(f: Callable[..., tuple[Any, ...]], *inputs: Any) -> tuple[Any, ...]:
    """``f(*inputs)``, or Dask collections as they are."""
    return inputs if any(map(xa.is_dask, inputs)) else f(*inputs)


def checked_rows(
    check: Callable[..., tuple[tuple[Array | None, ...], Any]], **inputs: Any
) -> tuple[Rows, Any]:
    """Rows of the arrays that ``check`` returns for the inputs, and its statistics of them.

    The chunks of Dask collections are checked on the workers, and their statistics are added up:
    see :func:`~.dask.checked_chunks`.
    """
    if any(map(xa.is_dask, inputs.values())):
        return checked_chunks(check, **inputs)
    arrays, found = check(*inputs.values())
    # In memory or, for a tensor with labels and weights on the host, on its device.
    kind = MemoryRows if isinstance(arrays[0], np.ndarray) else TensorRows.of
    return kind(*arrays), found

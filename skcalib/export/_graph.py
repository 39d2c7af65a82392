"""Traced arrays, which record calibrators' operations as nodes in an ONNX graph.

A :class:`Traced` array supports the part of the array API that calibrators use. So
``skcalib.base.probabilities(calibrator, X)`` adds a node for each operation instead of computing
it. Each traced array includes an example, a NumPy array with two rows. From examples NumPy
determines the shapes and dtypes of all results. NumPy arrays become constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, partialmethod
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy.special import expit

from skcalib._typing import Floats, Indices

from ._classifiers import response

# Operator versions by domain, and the file format: runtimes since 2023 read them.
OPSETS, IR_VERSION = {"": 18, "ai.onnx.ml": 3}, 8

# Elementwise functions in the array API, and their ONNX operators. Functions in SAME have the same
# name in ONNX.
SAME = "abs", "add", "equal", "exp", "greater", "less", "log", "round", "sqrt", "tanh", "where"
ENTRYWISE = {name: name.capitalize() for name in SAME}
ENTRYWISE |= {"divide": "Div", "matmul": "MatMul", "multiply": "Mul", "subtract": "Sub"}
ENTRYWISE |= {"isnan": "IsNaN", "maximum": "Max", "minimum": "Min", "negative": "Neg"}
ENTRYWISE |= {"greater_equal": "GreaterOrEqual", "less_equal": "LessOrEqual"}
ENTRYWISE |= {"logical_and": "And", "logical_not": "Not", "logical_or": "Or"}

# NumPy functions that have another name in the array API.
RENAMED = {"absolute": "abs", "amax": "max", "amin": "min", "concatenate": "concat"}
RENAMED |= {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "invert": "logical_not"}
RENAMED |= {"rint": "round"}

REDUCTIONS = {"all": "ReduceMin", "any": "ReduceMax", "max": "ReduceMax", "min": "ReduceMin"}
REDUCTIONS |= {"count_nonzero": "ReduceSum", "sum": "ReduceSum"}


class Graph:
    """Nodes and constants in a graph, and array API functions for its arrays.

    Names in the graph begin with the prefix.
    """

    __name__ = "onnx"
    int64, float32, float64 = map(np.dtype, ("int64", "float32", "float64"))
    finfo = staticmethod(np.finfo)

    def __init__(self, prefix: str = "", opsets: Mapping[str, int] = OPSETS) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.tensor = helper, numpy_helper.from_array
        self.prefix, self.opsets = prefix, opsets
        self.nodes: list[Any] = []
        self.constants: dict[Any, Any] = {}
        self.outputs: dict[Any, Traced] = {}  #: of nodes

    def input(self, name: str, dtype: Any, *shape: int) -> Traced:
        """Return a graph input with any number of rows."""
        return Traced(self, name, np.zeros((2, *shape), dtype))

    def tensor_of(self, name: str, kind: Any) -> Traced:
        """Return a tensor of another graph by its name and its ONNX type."""
        kind = kind.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim[1:]]
        return self.input(name, self.helper.tensor_dtype_to_np_dtype(kind.elem_type), *shape)

    def constant(self, array: Any) -> str:
        """Add a constant unless an equal one exists, and return its name."""
        array = np.asarray(array)
        content = tuple(array.ravel()) if array.dtype.kind == "O" else array.tobytes()
        key = array.dtype.str, array.shape, content
        if key not in self.constants:
            name = f"{self.prefix}c{len(self.constants)}"
            self.constants[key] = self.tensor(array, name)
        return str(self.constants[key].name)

    def node(self, op: str, example: Any, *inputs: Any, **attributes: Any) -> Traced:
        """Add a node unless an equal one exists, and return its output."""
        names = [x.name if isinstance(x, Traced) else self.constant(x) for x in inputs]
        key = op, *names, *(f"{key}={value}" for key, value in attributes.items())
        if key not in self.outputs:
            name = f"{self.prefix}v{len(self.nodes)}"
            self.nodes.append(self.helper.make_node(op, names, [name], **attributes))
            self.outputs[key] = Traced(self, name, np.asarray(example))
        return self.outputs[key]

    def add_model(self, model: Any, inputs: Mapping[str, Traced]) -> list[Traced]:
        """Add another model's nodes, with ``inputs`` by name, and return its outputs."""
        from onnx import compose

        prefix = f"{self.prefix}m{len(self.nodes)}_"
        self.nodes += [
            self.helper.make_node("Identity", [inputs[info.name].name], [prefix + info.name])
            for info in model.graph.input
        ]
        model = compose.add_prefix(model, prefix)
        self.nodes.extend(model.graph.node)
        self.constants |= {c.name: c for c in model.graph.initializer}
        return [self.tensor_of(info.name, info.type) for info in model.graph.output]

    def nodes_for(self, outputs: Mapping[str, Traced]) -> tuple[list[Any], list[Any]]:
        """Name the outputs; return the nodes that they depend on, in order, and the constants."""
        last = [self.helper.make_node("Identity", [x.name], [key]) for key, x in outputs.items()]
        names, nodes = set(outputs), []
        for node in reversed([*self.nodes, *last]):
            if names.intersection(node.output):
                names.update(node.input)
                nodes.append(node)
        return nodes[::-1], [c for c in self.constants.values() if c.name in names]

    # Functions in the array API.

    def __getattr__(self, name: str) -> Any:
        if name in ENTRYWISE:
            return partial(self.entrywise, name)
        if name in REDUCTIONS:
            return partial(self._reduced, name)
        raise AttributeError(f"A graph of ONNX cannot be built: it has no operation {name!r}.")

    def entrywise(self, name: str, *args: Any) -> Any:
        """Apply an elementwise function in the dtype that NumPy would use."""
        examples = [x.example if isinstance(x, Traced) else x for x in args]
        with np.errstate(all="ignore"):
            example = getattr(np, name)(*examples)
        if not any(isinstance(x, Traced) for x in args):  # NumPy computes with constants directly
            return example
        dtypes = [np.result_type(*examples[name == "where" :])] * len(args)
        if name == "where":
            dtypes[0] = np.dtype(bool)
        inputs = [self.astype(x, dtype) for x, dtype in zip(args, dtypes, strict=True)]
        op = ENTRYWISE[name]
        if name == "add" and any(isinstance(x, float) and 0 < abs(x) < 1e-38 for x in args):
            op = "Sum"  # onnxruntime removes an Add if the number rounds to 0 in float32
        return self.node(op, example, *inputs)

    def astype(self, x: Any, dtype: Any, *, copy: bool = False) -> Any:  # noqa: ARG002
        """Return the array in another dtype."""
        if not isinstance(x, Traced):
            return np.asarray(x, dtype)
        if x.dtype == dtype:
            return x
        to = self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.node("Cast", x.example.astype(dtype), x, to=to)

    def _reduced(
        self, name: str, x: Traced, *, axis: int | None = None, keepdims: bool = False
    ) -> Any:
        example = getattr(np, name)(x.example, axis=axis, keepdims=keepdims)
        counted = self.astype(x, np.int64) if x.dtype == bool else x
        axes = [] if axis is None else [np.array([axis])]
        reduced = self.node(
            REDUCTIONS[name], np.asarray(example, counted.dtype), counted, *axes, keepdims=keepdims
        )
        return self.astype(reduced, bool) if name in {"all", "any"} else reduced

    def argmax(self, x: Traced, *, axis: int, keepdims: bool = False) -> Traced:
        """Return the first index of the maximum along an axis."""
        example = np.argmax(x.example, axis=axis, keepdims=keepdims)
        return self.node("ArgMax", example, x, axis=axis, keepdims=keepdims)

    def not_equal(self, x: Any, y: Any) -> Any:
        """Return which entries are not equal."""
        return ~(x == y)

    def isfinite(self, x: Traced) -> Any:
        """Return which entries are neither infinite nor NaN."""
        return abs(x) < np.inf

    def clip(self, x: Traced, low: Any = None, high: Any = None) -> Traced:
        """Clip the entries to the range from ``low`` to ``high``."""
        for name, limit in (("maximum", low), ("minimum", high)):
            if limit is not None and not (np.isscalar(limit) and np.isinf(limit)):
                x = self.entrywise(name, x, limit)
        return x

    def expm1(self, x: Traced) -> Traced:
        """Return ``exp(x) - 1``, accurate near 0."""
        return self.tanh(x * 0.5) * (self.exp(x) + 1.0)

    def log1p(self, x: Traced) -> Traced:
        """Return ``log(1 + x)``, accurate near 0 by a correction for the rounding of ``1 + x``."""
        one_more = x + 1.0
        rounded = one_more - 1.0
        is_zero = rounded == 0.0
        corrected = self.log(one_more) * (x / self.where(is_zero, 1.0, rounded))
        return self.where(is_zero, x, corrected)

    def softmax(self, x: Traced, *, axis: int) -> Traced:
        """Return the softmax along an axis."""
        return self.node("Softmax", x.example, x, axis=axis)

    def log_softmax(self, x: Traced, *, axis: int) -> Traced:
        """Return the logarithm of the softmax along an axis."""
        return self.node("LogSoftmax", x.example, x, axis=axis)

    def concat(self, arrays: Sequence[Any], *, axis: int = 0) -> Traced:
        """Concatenate arrays in NumPy's common dtype."""
        examples = [x.example if isinstance(x, Traced) else x for x in arrays]
        example = np.concatenate(examples, axis=axis)
        inputs = [self.astype(x, example.dtype) for x in arrays]
        return self.node("Concat", example, *inputs, axis=axis)

    def stack(self, arrays: Sequence[Any], *, axis: int = 0) -> Traced:
        """Concatenate arrays along a new axis."""
        at = (*(slice(None),) * axis, None)
        return self.concat([x[at] for x in arrays], axis=axis)

    def full_like(self, x: Traced, value: float) -> Traced:
        """Return an array in the same shape, filled with a number."""
        shape = self.node("Shape", np.array(x.shape), x)
        example = np.full_like(x.example, value)
        return self.node("Expand", example, np.full(1, value, x.dtype), shape)

    ones_like = partialmethod(full_like, value=1)
    zeros_like = empty_like = partialmethod(full_like, value=0)

    def asarray(self, value: Any, *, dtype: Any = None, device: Any = None) -> Any:  # noqa: ARG002
        """Return a constant as a NumPy array."""
        return np.asarray(value, dtype)

    def predict_proba(self, classifier: Any, F: Traced) -> Any:
        """Predict probabilities by a fitted scikit-learn classifier for features."""
        return response(classifier, "predict_proba", {"X": F})

    def step_values(
        self, S: Traced, edges: list[Floats], values: list[Floats], *, log_odds: bool = False
    ) -> Traced:
        """Evaluate step functions, or functions that are linear between knots: (m, n_maps).

        Scores (m, n_maps) are log-odds, or logits for three or more classes. ``edges`` and
        ``values`` are lists with one array per map. Probabilities are computed in double precision.
        """
        dtype, is_steps = S.dtype, len(edges[0]) > len(values[0])  # steps have one more edge
        if is_steps and (S.shape[1] == 1 or log_odds):
            index = _bin_index(S, [as_log_odds(ends[1:-1], dtype) for ends in edges])
            return self.take(np.concatenate(values), index)
        # Round as NumPy does, because close knots amplify rounding errors.
        wide = self.astype(S, np.float64)
        P = self.softmax(wide, axis=1) if S.shape[1] > 1 else self.exp(-wide)
        P = self.astype(P, dtype) if S.shape[1] > 1 else 1 / (1 + self.astype(P, dtype))
        P = self.astype(P, np.float64)
        if is_steps:
            return self.take(np.concatenate(values), _bin_index(P, [ends[1:-1] for ends in edges]))
        return _interpolated(P, edges, values)

    def take(self, x: Any, index: Any, *, axis: int = 0) -> Any:
        """Select entries from a constant by traced indices."""
        if not isinstance(index, Traced):
            return np.take(x, index, axis=axis)
        example = np.take(x, index.example, axis=axis)
        return self.node("Gather", example, x, index, axis=axis)


class Traced(NDArrayOperatorsMixin):
    """Array in a graph, with NumPy's operators."""

    # x += y makes a new array, since nodes compute nothing in place.
    __iadd__, __isub__ = NDArrayOperatorsMixin.__add__, NDArrayOperatorsMixin.__sub__
    __imul__, __itruediv__ = NDArrayOperatorsMixin.__mul__, NDArrayOperatorsMixin.__truediv__
    __iand__, __ior__ = NDArrayOperatorsMixin.__and__, NDArrayOperatorsMixin.__or__
    device = "graph"

    def __init__(self, graph: Graph, name: str, example: Any) -> None:
        self.graph, self.name, self.example = graph, name, example
        self.shape, self.dtype, self.ndim = example.shape, example.dtype, example.ndim

    def __array_namespace__(self, *, api_version: str | None = None) -> Graph:
        return self.graph

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.__array_function__(
            ufunc if method == "__call__" else method, (), inputs, kwargs
        )

    def __array_function__(self, function: Any, _: Any, args: Any, kwargs: Any) -> Any:
        """Apply a NumPy function to traced arrays."""
        name = getattr(function, "__name__", function)
        return getattr(self.graph, RENAMED.get(name, name))(*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("A graph that is built has no numbers: use operations of its namespace.")

    def __bool__(self) -> bool:
        raise TypeError("A graph that is built has no numbers: use where in place of if.")

    def __getitem__(self, key: Any) -> Traced:
        x, axis = self, 0
        for part in key if isinstance(key, tuple) else (key,):
            at = (*(slice(None),) * axis, part)
            if part is None:
                x = self.graph.node("Unsqueeze", x.example[at], x, np.array([axis]))
            elif not isinstance(part, slice) or part != slice(None):
                is_slice = isinstance(part, slice)
                index = np.arange(x.shape[axis])[part] if is_slice else np.asarray(part)
                x = self.graph.node("Gather", x.example[at], x, index, axis=axis)
            axis += 1 if part is None or isinstance(part, slice) else np.ndim(part)
        return x

    def astype(self, dtype: Any) -> Traced:
        """Return the array in another dtype."""
        return self.graph.astype(self, dtype)


def _bin_index(S: Traced, edges: Sequence[Floats]) -> Traced:
    """Return bin numbers for scores (n_rows, n_maps), counted over the bins of all maps.

    ``edges`` are sorted inner edges, one array per map. Bins are closed on the right, and numbered
    one map after the other. A binary search, unrolled into nodes, needs no array larger than the
    scores.
    """
    n_bins = np.array([len(inner) + 1 for inner in edges])
    # Entry i + 1 is the upper edge of bin i, infinite for the last bin in each map.
    upper = np.concatenate([[np.inf], *(np.append(inner, np.inf) for inner in edges)])
    xp, last = S.graph, np.cumsum(n_bins)[None, :]
    bins: Any = last - n_bins
    step = 1 << int(n_bins.max() - 1).bit_length()
    while step := step // 2:
        # A score above the upper edge of bin i - 1 belongs to bin i or a later bin.
        trial = xp.minimum(bins + step, last)
        bins = xp.where(xp.take(upper.astype(S.dtype), trial) < S, trial, bins)
    return bins


def _interpolated(S: Traced, knots: Sequence[Floats], values: Sequence[Floats]) -> Traced:
    """Evaluate piecewise linear functions at scores (n_rows, n_maps), constant beyond the knots.

    ``knots`` and ``values`` are lists with one array per map.
    """
    index, xp = _bin_index(S, knots), S.graph
    # Line i passes through the knot at its left end, the first line through its right end.
    x = np.concatenate([np.append(part[:1], part) for part in knots])
    y = np.concatenate([np.append(part[:1], part) for part in values])
    slope = np.concatenate(
        [[0.0, *(np.diff(v) / np.diff(x)), 0.0] for x, v in zip(knots, values, strict=True)]
    )
    start, height, rise = (xp.take(table, index) for table in (x, y, slope))
    return rise * (S - start) + height


def as_log_odds(edges: Floats, dtype: np.dtype[Any]) -> Floats:
    """Convert edges to the largest log-odds in a dtype with probabilities up to the edges.

    Bisection over all numbers in the dtype uses the calibrators' ``expit``, so that comparing
    log-odds agrees exactly with comparing probabilities.
    """
    bits = np.dtype(f"i{dtype.itemsize}")
    # Log-odds beyond these have probabilities of 0 or 1.
    high = np.full(edges.shape, dtype.type(1e3).view(bits))
    low = -high
    for _ in range(8 * dtype.itemsize):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # the sum might overflow
        below = expit(_from_order(middle, dtype)) <= edges
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(edges >= 1, dtype.type(np.inf), _from_order(low, dtype))


def _from_order(order: Indices, dtype: np.dtype[Any]) -> Floats:
    """Return numbers by their rank: 1 is the smallest positive number, -1 its negative."""
    return np.copysign(np.abs(order).view(dtype), order).astype(dtype)

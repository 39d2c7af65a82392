"""Values in an ONNX graph that is being built, with the operations of formulas.

A formula of values reads as one of arrays: ``(Z - Z.max()).exp()``. Each operation adds a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skcalib._rows.arrays import Array

# Versions of the operators, by domain, and of the file format: runtimes since 2023 have them.
OPSETS, IR_VERSION = {"": 18, "ai.onnx.ml": 3}, 8


class Graph:
    """Nodes and constants of a graph, whose names begin with the prefix."""

    def __init__(self, prefix: str = "", opsets: dict[str, int] = OPSETS) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._numpy_helper = helper, numpy_helper
        self.prefix, self.opsets = prefix, opsets
        self.nodes: list[Any] = []
        self.constants: dict[tuple[str, Any, bytes], Any] = {}

    def constant(self, array: Any) -> Value:
        """A constant of the dtype of an array, or a text or texts."""
        array = np.asarray(array)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self.constants:
            name = f"{self.prefix}c{len(self.constants)}"
            self.constants[key] = self._numpy_helper.from_array(array, name)
        return Value(self, self.constants[key].name, array.dtype)

    def tensor(self, array: Any) -> Any:
        """An array as an attribute of a node."""
        return self._numpy_helper.from_array(array)

    def node(
        self,
        op: str,
        *inputs: Value,
        dtype: np.dtype[Any] | None = None,
        n_outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """The output of a node, or a list of them; by default of the dtype of the first input."""
        names = [f"{self.prefix}v{len(self.nodes)}_{k}" for k in range(n_outputs)]
        self.nodes.append(
            self._helper.make_node(
                op, [value.name for value in inputs], names, domain=domain, **attributes
            )
        )
        dtype = inputs[0].dtype if dtype is None else dtype
        outputs = [Value(self, name, dtype) for name in names]
        return outputs[0] if n_outputs == 1 else outputs

    def outputs_of(self, model: Any, inputs: Mapping[str, Value]) -> list[Value]:
        """The outputs of another model for inputs by name; its nodes are added."""
        from onnx import compose

        prefix = f"{self.prefix}m{len(self.nodes)}_"
        self.nodes += [
            self._helper.make_node("Identity", [inputs[info.name].name], [prefix + info.name])
            for info in model.graph.input
        ]
        model = compose.add_prefix(model, prefix)
        self.nodes.extend(model.graph.node)
        self.constants |= {(c.name, (), b""): c for c in model.graph.initializer}
        dtype_of = self._helper.tensor_dtype_to_np_dtype
        return [
            Value(self, info.name, dtype_of(info.type.tensor_type.elem_type))
            for info in model.graph.output
        ]

    def named(self, value: Value, name: str) -> Value:
        """The value under a name that users see."""
        self.nodes.append(self._helper.make_node("Identity", [value.name], [name]))
        return Value(self, name, value.dtype)

    def needed_for(self, outputs: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """The nodes that lead to the outputs, in order, and their constants."""
        names, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if names.intersection(node.output):
                names.update(node.input)
                nodes.append(node)
        return nodes[::-1], [c for c in self.constants.values() if c.name in names]


class Value:
    """A tensor (n_rows, n_columns), or what is broadcast to one, that the graph will compute."""

    def __init__(self, graph: Graph, name: str, dtype: np.dtype[Any]) -> None:
        self.graph, self.name, self.dtype = graph, name, dtype

    def like(self, x: Any) -> Value:
        """A number or array as a constant of the same dtype."""
        return x if isinstance(x, Value) else self.graph.constant(np.asarray(x, self.dtype))

    def _with(self, op: str, other: Any, dtype: Any = None) -> Value:
        return self.graph.node(op, self, self.like(other), dtype=dtype)

    def _over_columns(self, op: str) -> Value:
        return self.graph.node(op, self, self.graph.constant(np.array([1])), keepdims=1)

    def __add__(self, other: Any) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Any) -> Value:
        return self._with("Sub", other)

    def __mul__(self, other: Any) -> Value:
        return self._with("Mul", other)

    def __truediv__(self, other: Any) -> Value:
        return self._with("Div", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Value:
        return self.like(other) - self

    def __rtruediv__(self, other: Any) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        return self.graph.node("Neg", self)

    def __matmul__(self, other: Array) -> Value:
        return self._with("MatMul", other)

    def __lt__(self, other: Any) -> Value:
        return self._with("Less", other, np.dtype(bool))

    def __le__(self, other: Any) -> Value:
        return self._with("LessOrEqual", other, np.dtype(bool))

    def __gt__(self, other: Any) -> Value:
        return self._with("Greater", other, np.dtype(bool))

    def equals(self, other: Any) -> Value:
        return self._with("Equal", other, np.dtype(bool))

    def exp(self) -> Value:
        return self.graph.node("Exp", self)

    def log(self) -> Value:
        return self.graph.node("Log", self)

    def tanh(self) -> Value:
        return self.graph.node("Tanh", self)

    def abs(self) -> Value:
        return self.graph.node("Abs", self)

    def at_least(self, bound: Any) -> Value:
        return self._with("Max", bound)

    def at_most(self, bound: Any) -> Value:
        return self._with("Min", bound)

    def between(self, low: Any, high: Any) -> Value:
        return self.at_least(low).at_most(high)

    def max(self) -> Value:
        """The largest of each row (n_rows, 1)."""
        return self._over_columns("ReduceMax")

    def sum(self) -> Value:
        """The sum of each row (n_rows, 1)."""
        return self._over_columns("ReduceSum")

    def astype(self, dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        to = self.graph._helper.np_dtype_to_tensor_dtype(dtype)  # noqa: SLF001
        return self.graph.node("Cast", self, dtype=dtype, to=to)

    def columns(self, start: int, stop: int) -> Value:
        """Some of the columns."""
        bounds = (self.graph.constant(np.array([k])) for k in (start, stop, 1, 1))
        start_, stop_, axis, step = bounds
        return self.graph.node("Slice", self, start_, stop_, axis, step)

    def argmax(self, *, keepdims: bool = False) -> Value:
        """The column of the largest of each row, the first of those that are equal: (n_rows,)."""
        dtype = np.dtype(np.int64)
        return self.graph.node("ArgMax", self, dtype=dtype, axis=1, keepdims=int(keepdims))

    def taken(self, indices: Value) -> Value:
        """The entries of a constant (m, ...) at indices of any shape."""
        return self.graph.node("Gather", self, indices, axis=0)


def where(condition: Value, x: Any, y: Any) -> Value:
    """``x`` where the condition holds, else ``y``, one of which is a value and not a number."""
    value = x if isinstance(x, Value) else y
    return condition.graph.node("Where", condition, value.like(x), value.like(y), dtype=value.dtype)


def concat(values: Sequence[Value]) -> Value:
    """Columns of several values side by side."""
    return values[0].graph.node("Concat", *values, axis=1) if len(values) > 1 else values[0]


def both_columns(Z: Value, n_columns: int) -> Value:
    """Logits with one column per class: one column ``z`` stands for ``(0, z)``."""
    return concat([Z * 0.0, Z]) if n_columns == 1 else Z


def softmax(S: Value) -> Value:
    """Probabilities of each row."""
    return S.graph.node("Softmax", S, axis=1)


def log_softmax(S: Value) -> Value:
    """Their logarithms."""
    return S.graph.node("LogSoftmax", S, axis=1)


def log1p(x: Value) -> Value:
    """``log(1 + x)``, exact also near 0: the logarithm of ``1 + x`` as it is rounded, corrected."""
    one_more = x + 1.0
    rounded = one_more - 1.0
    is_zero = rounded.equals(0.0)
    return where(is_zero, x, one_more.log() * (x / where(is_zero, 1.0, rounded)))


def expm1(x: Value) -> Value:
    """``exp(x) - 1`` of numbers that are not positive, exact also near 0."""
    half = (x * 0.5).tanh()
    return half * 2.0 / (1.0 - half)

"""Calibrators as ONNX models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._rows.arrays import Array
from skcalib._validation.labels import shown
from skcalib._version import __version__

from . import (  # noqa: F401  (they register formulas)
    _onnx_binning,
    _onnx_one_vs_rest,
    _onnx_scaling,
    _onnx_selection,
)
from ._chain import chain_of
from ._formulas import Outputs, applied
from ._graph import IR_VERSION, OPSETS, Graph, Value
from ._onnx_groups import calibrated_in, groups_of

if TYPE_CHECKING:
    import onnx

# What the outputs hold, by name.
MEANINGS = {
    "probabilities": "Calibrated probability of each class, as of predict_proba.",
    "label": "The most probable class, as of predict.",
    "logits": "Calibrated logits, as of transform.",
}
# The same of several labels.
MEANINGS_OF_LABELS = {
    "probabilities": "Calibrated probability of each label, as of predict_proba.",
    "label": "Indicator of the labels with a probability above 0.5, as of predict.",
    "logits": "Calibrated log-odds of each label, as of transform.",
    "X": "Log-odds of each label.",
}
GROUPS = "The group of each row; one that the calibrator does not know for that of all rows."
DTYPES = "float32", "float64"


def to_onnx(
    calibrator: Any, *, dtype: Any = "float32", outputs: str | Sequence[str] = ("probabilities",)
) -> onnx.ModelProto:
    """A fitted calibrator, or a pipeline of calibrators, as an ONNX model.

    The model takes logits and returns calibrated probabilities, in any runtime of ONNX, without
    Python and scikit-learn. It consists of standard operators, without loops, and takes any number
    of rows.

    Parameters
    ----------
    calibrator : calibrator or Pipeline
        A fitted calibrator, or a pipeline of fitted calibrators, whose logits are handed from one
        to the next.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the logits that the model takes, and of its probabilities and logits. float32
        models compute in float32, but where that is not accurate, and then agree with the
        calibrator to 1e-5; those of float64 to 1e-6. Some runtimes have no operators for float64.
    outputs : str or sequence of str, default=("probabilities",)
        Outputs of the model, in this order: "probabilities" as of ``predict_proba``, "label" as of
        ``predict``, "logits" as of ``transform``.

    Returns
    -------
    onnx.ModelProto
        The model, with the input "X" of shape (n_rows, n_columns) and an output for each of the
        names: "probabilities" of shape (n_rows, n_classes), "label" (n_rows,) and "logits"
        (n_rows, n_columns); of a :class:`~skcalib.MultiLabelCalibrator` all are of the shape of
        "X". A :class:`~skcalib.GroupCalibrator` fitted with groups has a second input "groups" of
        shape (n_rows,). The metadata hold the classes, in the order of the columns, as JSON.

    Raises
    ------
    ImportError
        If onnx is not installed.
    NotFittedError
        If a calibrator is not fitted.
    TypeError
        If it is no calibrator of this library, or contains what has no formula in ONNX. A class
        derived from a calibrator is none, since it may compute something else.
    ValueError
        If ``dtype`` or ``outputs`` is none of these, or for "label" if the labels are neither
        numbers nor text.

    See Also
    --------
    skcalib.LogitTransformer : Makes logits of classifiers.

    Notes
    -----
    The model does not check its input, as the calibrators do. Rows that are -inf throughout, and
    for calibrators that take no masked classes rows with -inf, give NaN instead of an error. So do
    rows with NaN, but for step functions and trees, which give any numbers.

    Operators are those of version 18 of ONNX, in a file of version 8, which onnxruntime reads since
    version 1.14. Where rounding errors decide, in ties of calibrated probabilities and at the edges
    of bins, runtimes may differ from NumPy.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(500, 3, random_state=0)
    >>> calibrator = TemperatureScaling().fit(logits, y)

    .. code-block:: python

        import numpy as np
        import onnx
        import onnxruntime
        from skcalib.export import to_onnx

        onnx.save(to_onnx(calibrator), "calibrator.onnx")
        session = onnxruntime.InferenceSession("calibrator.onnx")
        (proba,) = session.run(["probabilities"], {"X": logits.astype(np.float32)})
    """
    _check_onnx()
    chain = [copy(member) for member in chain_of(calibrator, "to_onnx")]  # with arrays of NumPy
    dtype, names = _checked_dtype(dtype), _checked_outputs(outputs)
    graph, width = Graph(), chain[0].n_features_in_
    groups = groups_of(chain, graph)
    found = applied(chain, Value(graph, "X", dtype), partial(calibrated_in, groups))
    classes = np.asarray(chain[-1].classes_)
    of_name = {"probabilities": found.probabilities, "logits": found.logits}
    if "label" in names:
        of_name["label"] = _label(found, classes)
    columns = {"probabilities": [len(classes)], "logits": [width], "label": []}
    if found.indicator is not None:
        columns["label"] = [width]
    meanings = _meanings(found, width, classes)
    named = [graph.named(of_name[name], name) for name in names]
    return _model(
        graph,
        [
            _tensor("X", dtype, [width], meanings["X"]),
            *([] if groups is None else [_tensor("groups", groups.dtype, [], GROUPS)]),
        ],
        [_tensor(v.name, v.dtype, columns[v.name], meanings[v.name]) for v in named],
        {
            "skcalib.calibrator": " > ".join(type(member).__name__ for member in chain),
            "skcalib.classes": json.dumps(classes.tolist(), default=str),
        },
    )


def _check_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError as missing:
        raise ImportError("to_onnx needs onnx: pip install 'skcalib[onnx]'.") from missing


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    known = [np.dtype(name) for name in DTYPES]
    for candidate in known:
        if isinstance(dtype, str | type | np.dtype) and dtype in (candidate, candidate.type):
            return candidate
    raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}, got {dtype!r}.")


def _checked_outputs(outputs: Any) -> list[str]:
    names = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    known = {name for name in names if isinstance(name, str) and name in MEANINGS}
    if not known or len(known) < len(names):
        raise ValueError(
            f"outputs must be some of {', '.join(map(repr, MEANINGS))}, each once, got {outputs!r}."
        )
    return names


def _label(found: Outputs, classes: Array) -> Value:
    """The predicted class of each row, or an indicator of several labels."""
    if found.indicator is not None:
        return found.indicator
    return found.scores.graph.constant(_as_tensor(classes)).taken(found.scores.argmax())


def _as_tensor(classes: Array) -> Array:
    """Labels in a type of ONNX: integers, booleans, floats or text."""
    if classes.dtype.kind in "bf":
        return classes if classes.dtype.itemsize <= 8 else classes.astype(np.float64)
    labels = classes.tolist()
    if all(isinstance(label, int) and abs(label) < 2**63 for label in labels):
        return classes.astype(np.int64)
    if all(isinstance(label, str) for label in labels):
        return classes.astype(object)
    raise ValueError(
        "Labels must be integers of 64 bits, floats, booleans or strings for the output 'label', "
        f"got {shown(classes)}. Leave out 'label', and take the column of the largest probability."
    )


def _meanings(found: Outputs, width: int, classes: Array) -> dict[str, str]:
    """What the input and the outputs hold, by name."""
    if found.indicator is not None:
        return MEANINGS_OF_LABELS
    of_input = "Logits, one column for each class; -inf for classes that are impossible in a row."
    if width == 1:
        of_input = f"Log-odds of the class {classes.tolist()[1]!r}."
    return {**MEANINGS, "X": of_input}


def _tensor(name: str, dtype: np.dtype[Any], shape: list[int], meaning: str) -> Any:
    """The description of an input or output with any number of rows."""
    from onnx import helper

    element = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, element, ["n_rows", *shape], meaning)


def _model(graph: Graph, inputs: list[Any], outputs: list[Any], metadata: dict[str, str]) -> Any:
    """The model of the nodes that lead to the outputs."""
    from onnx import checker, helper

    nodes, constants = graph.needed_for([output.name for output in outputs])
    what = f"Calibrated probabilities of classes by {metadata['skcalib.calibrator']}."
    model = helper.make_model(
        helper.make_graph(nodes, "skcalib", inputs, outputs, constants, what),
        opset_imports=[
            helper.make_opsetid(domain, OPSETS[domain])
            for domain in sorted({"", *(node.domain for node in nodes)})
        ],
        ir_version=IR_VERSION,
        producer_name="skcalib",
        producer_version=__version__,
        doc_string=what,
    )
    helper.set_model_props(model, metadata)
    checker.check_model(model)
    return model

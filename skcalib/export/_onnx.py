"""Calibrators as ONNX models, traced from their outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from skcalib._fits import output_of
from skcalib._input.labels import shown
from skcalib._input.parameters import import_optional
from skcalib._typing import Array
from skcalib._version import __version__
from skcalib.base import OUTPUTS
from skcalib.meta import MultiLabelCalibrator

from ._calibrators import chain_logits, check_metadata, checked_dtype, fitted_chain
from ._graph import IR_VERSION, OPSETS, Graph, Traced

if TYPE_CHECKING:
    import onnx

# Descriptions of the outputs.
DESCRIPTIONS = {
    "probabilities": "Calibrated probabilities, as predict_proba returns them.",
    "label": "Predicted labels, as predict returns them.",
    "logits": "Calibrated logits or log-odds, as transform returns them.",
}


def to_onnx(
    calibrator: Any,
    *,
    dtype: Any = "float32",
    outputs: str | Sequence[str] = ("probabilities",),
    metadata: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """Convert a fitted calibrator, or a pipeline of calibrators, to an ONNX model.

    The model maps logits to calibrated probabilities, in any ONNX runtime, without Python and
    scikit-learn. It consists of standard operators, without loops, and accepts any number of rows.

    Parameters
    ----------
    calibrator : calibrator or Pipeline
        A fitted calibrator, or a pipeline of fitted calibrators.
    dtype : {"float32", "float64"}, default="float32"
        Precision for the input, the probabilities and the logits. float32 models compute in float32
        where that is accurate, and agree with the calibrator to 1e-5; float64 models agree to 1e-6.
        Some runtimes have no operators for float64.
    outputs : str or sequence of str, default=("probabilities",)
        Model outputs, in this order: "probabilities" as in ``predict_proba``, "label" as in
        ``predict``, "logits" as in ``transform``.
    metadata : dict, default=None
        Evidence about the calibrator, such as a data name, a date and a label count. It becomes
        ``metadata_props``: text unchanged, other values as JSON.

    Returns
    -------
    onnx.ModelProto
        The model, with the input "X" of shape (n_rows, n_columns) and the outputs by name:
        "probabilities" of shape (n_rows, n_classes), "label" of shape (n_rows,) and "logits" of
        shape (n_rows, n_columns). For a :class:`~skcalib.MultiLabelCalibrator` all outputs are
        shaped as "X". The metadata entry "skcalib.classes" lists the classes in column order, as
        JSON.

    Raises
    ------
    ImportError
        If onnx is not installed. If a calibrator contains a classifier other than histogram-based
        gradient boosting or a forest, and skl2onnx is not installed.
    NotFittedError
        If a calibrator is not fitted.
    TypeError
        If ``calibrator`` is no calibrator of skcalib, and its class is not derived from one without
        replacing public methods. If a part cannot be converted, or if ``metadata`` contains other
        types.
    AttributeError
        If your class computes with an operation that ONNX graphs lack.
    ValueError
        If ``dtype`` or ``outputs`` is unknown, for a calibrator that was fitted with features, or
        for "label" if the labels are neither numbers nor text.

    See Also
    --------
    skcalib.LogitTransformer : Computes logits by a classifier.

    Notes
    -----
    The model does not check its input. Outputs are NaN instead of an error if all logits in a row
    are -inf, or if the calibrator accepts no masked classes and a logit is -inf. For rows with NaN,
    smooth maps return NaN, and step functions and trees return any numbers.

    The model uses operator version 18 and file version 8, which onnxruntime reads since version
    1.14. Runtimes may differ from NumPy at ties between calibrated probabilities and at bin edges.

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
    import_optional("onnx", "to_onnx", "'skcalib[onnx]'")
    chain = fitted_chain(calibrator, "to_onnx")
    dtype, names, evidence = checked_dtype(dtype), _checked_outputs(outputs), _props(metadata)
    graph = Graph()
    width, classes = chain[0].n_features_in_, np.asarray(chain[-1].classes_)
    is_multilabel = isinstance(chain[-1], MultiLabelCalibrator)
    Z = graph.input("X", dtype, width)
    traced = traced_outputs(chain, Z, names)
    meaning = "Logits, one column for each class; -inf for classes that are impossible in a row."
    if is_multilabel:
        meaning = "Log-odds of each label."
    elif width == 1:
        meaning = f"Log-odds of the class {classes.tolist()[1]!r}."
    props = {
        "skcalib.calibrator": " > ".join(type(member).__name__ for member in chain),
        "skcalib.classes": json.dumps(classes.tolist(), default=str),
    }
    return _model(_tensor(Z, "X", meaning), traced, props | evidence)


def traced_outputs(chain: Sequence[Any], Z: Traced, names: Sequence[str]) -> dict[str, Traced]:
    """Trace the outputs by name for a chain of calibrators and logits (n_rows, n_columns)."""
    *before, last = chain
    Z = chain_logits(before, Z)
    if isinstance(last, MultiLabelCalibrator):
        return _multilabel_outputs(last, Z, names)
    numbered = copy(last)
    numbered.classes_ = np.arange(len(last.classes_))
    traced = {name: output_of(numbered, OUTPUTS[name], Z) for name in names}
    if "label" in names:
        labels = label_tensor(last.classes_)
        traced["label"] = Z.graph.take(labels, traced["label"])
    return traced


def _multilabel_outputs(
    calibrator: MultiLabelCalibrator, Z: Any, names: Sequence[str]
) -> dict[str, Traced]:
    """Trace the outputs by name for several labels and log-odds (n_rows, n_labels)."""
    if calibrator.increasing:
        raise TypeError(
            "to_onnx takes a MultiLabelCalibrator with increasing=False only, got increasing=True. "
            "Export with set_params(increasing=False), and replace rows of probabilities that fall "
            "after the model."
        )
    traced = {}
    for name in names:
        f = OUTPUTS["probabilities" if name == "label" else name]
        columns = [
            output_of(member, f, Z[:, k : k + 1])[:, -1:]
            for k, member in enumerate(calibrator.calibrators_)
        ]
        output: Any = Z.graph.concat(columns, axis=1)
        traced[name] = (output > 0.5).astype(np.int64) if name == "label" else output
    return traced


def _props(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    """Convert metadata to text: text unchanged, other values as JSON."""
    plain = check_metadata(metadata)
    reserved = [name for name in plain if name.startswith("skcalib.")]
    if reserved:
        raise ValueError(
            f"metadata must not use names that begin with 'skcalib.', got {reserved[0]!r}. Choose "
            "another name."
        )
    return {name: x if isinstance(x, str) else json.dumps(x) for name, x in plain.items()}


def _checked_outputs(outputs: Any) -> list[str]:
    names = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    valid = {name for name in names if isinstance(name, str) and name in DESCRIPTIONS}
    if not valid or len(valid) < len(names):
        raise ValueError(
            f"outputs must be among {', '.join(map(repr, DESCRIPTIONS))}, each once, got "
            f"{outputs!r}."
        )
    return names


def label_tensor(classes: Any) -> Array:
    """Convert labels to a dtype that ONNX supports: integers, booleans, floats or text."""
    classes = np.asarray(classes)
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


def _tensor(x: Traced, name: str, meaning: str) -> Any:
    """Declare an input or output with any number of rows."""
    helper = x.graph.helper
    element, shape = helper.np_dtype_to_tensor_dtype(x.dtype), ["n_rows", *x.shape[1:]]
    return helper.make_tensor_value_info(name, element, shape, meaning)


def _model(Z: Any, traced: Mapping[str, Traced], props: dict[str, str]) -> Any:
    """Build the model from its declared input and its traced outputs by name."""
    from onnx import checker, helper

    nodes, constants = next(iter(traced.values())).graph.nodes_for(traced)
    outputs = [_tensor(x, name, DESCRIPTIONS[name]) for name, x in traced.items()]
    description = f"Calibrated probabilities of classes by {props['skcalib.calibrator']}."
    model = helper.make_model(
        helper.make_graph(nodes, "skcalib", [Z], outputs, constants, description),
        opset_imports=[
            helper.make_opsetid(domain, OPSETS[domain])
            for domain in sorted({"", *(node.domain for node in nodes)})
        ],
        ir_version=IR_VERSION,
        producer_name="skcalib",
        producer_version=__version__,
        doc_string=description,
    )
    helper.set_model_props(model, props)
    checker.check_model(model)
    return model

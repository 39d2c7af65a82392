"""skl2onnx converters for calibrators, and for classifiers with calibrators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from skcalib._input.classes import with_unknown_classes
from skcalib._input.estimators import check_fitted
from skcalib._input.parameters import import_optional
from skcalib.base import BaseCalibrator
from skcalib.compose import CalibratedClassifier, LogitTransformer
from skcalib.meta import MultiLabelCalibrator

from ._calibrators import fitted_chain, known_calibrators
from ._classifiers import Features, response
from ._graph import OPSETS, Graph
from ._onnx import label_tensor, traced_outputs

FLAG = [False, True]
CONVERTER_OPTIONS = {"zipmap": [*FLAG, "columns"], "output_class_labels": FLAG, "nocl": FLAG}

# Attribute that stores a calibrator's logits on its outputs, for the next calibrator.
LOGITS = "_skcalib_logits"


def register_skl2onnx() -> None:
    """Register calibrators, ``CalibratedClassifier`` and ``LogitTransformer`` in skl2onnx.

    After a call ``skl2onnx.to_onnx`` converts these, and pipelines that contain them, in this
    process. An import of skcalib registers nothing.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.

    See Also
    --------
    to_onnx : Converts calibrators alone.

    Notes
    -----
    skl2onnx converts the classifier and the steps before it. skcalib converts histogram-based
    gradient boosting and forests. If there are several input columns, the classifier gets them side
    by side, in NumPy's common type. Options for converters of single estimators do not reach the
    classifier inside a ``CalibratedClassifier``.

    The operators need ONNX version 18, so ``target_opset`` must be at least 18. Calibrators that
    were fitted with features are refused, because such models have no input for features.

    Examples
    --------
    .. code-block:: python

        import skl2onnx
        from skcalib.export import register_skl2onnx

        register_skl2onnx()
        model = skl2onnx.to_onnx(classifier, X[:1], options={"zipmap": False})
    """
    skl2onnx = import_optional("skl2onnx", "register_skl2onnx")

    def register(kind: type, outputs: Any, **how: Any) -> None:
        name, convert = f"Skcalib{kind.__name__}", partial(_convert, outputs)
        skl2onnx.update_registered_converter(kind, name, _set_types, convert, **how)

    options = CONVERTER_OPTIONS
    for kind in known_calibrators().values():
        if issubclass(kind, BaseCalibrator):
            register(kind, _calibrator_outputs, parser=_parse_calibrator, options=options)
    register(CalibratedClassifier, _classifier_outputs, parser=_parse_classifier, options=options)
    register(LogitTransformer, _transformer_outputs)


def _parse_classifier(scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None) -> Any:
    """Declare outputs as skl2onnx does for a fitted classifier."""
    from skl2onnx import _parse

    check_fitted(model)
    return _parse._parse_sklearn_classifier(scope, model, inputs, custom_parsers)  # noqa: SLF001


def _parse_calibrator(scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None) -> Any:
    """Declare a calibrator's outputs; its input are the logits of the previous calibrator."""
    from skl2onnx import _parse

    check_fitted(model)
    inputs = [getattr(inputs[0], LOGITS, inputs[0])]
    kind, zipmap = inputs[0].type, scope.get_options(model, {"zipmap": True})["zipmap"]
    parse = _parse._parse_sklearn_simple_model if zipmap else _parse._parse_sklearn_classifier  # noqa: SLF001
    outputs = list(parse(scope, model, inputs, custom_parsers))
    # The operator returns logits, the model does not.
    logits = scope.declare_local_variable("calibrated_logits", kind.__class__())
    (operator,) = outputs[0].operators_outputs_
    operator.outputs.append(logits)
    if zipmap:
        outputs = _parse._apply_zipmap(zipmap, scope, model, kind, outputs)  # noqa: SLF001
    for output in outputs:
        setattr(output, LOGITS, logits)
    return outputs


def _set_types(operator: Any) -> None:
    """Set the types of a model's label, probabilities and logits, or of its logits alone."""
    from skl2onnx.common import data_types

    n_rows, model = operator.inputs[0].get_first_dimension(), operator.raw_operator
    check_fitted(model)
    if isinstance(model, LogitTransformer):  # as scikit-learn's classifiers usually predict
        width = len(model.get_feature_names_out())
        operator.outputs[0].set_type(data_types.DoubleTensorType([n_rows, width]))
        return
    is_text = label_tensor(model.classes_).dtype.kind == "O"
    LabelType = data_types.StringTensorType if is_text else data_types.Int64TensorType
    # Double precision for inputs in double precision, else single.
    is_double = isinstance(operator.inputs[0].type, data_types.DoubleTensorType)
    FloatType = data_types.DoubleTensorType if is_double else data_types.FloatTensorType
    label, probabilities, *logits = operator.outputs
    label.set_type(LabelType([n_rows]))
    # skl2onnx's default, dictionaries of probabilities, exists in single precision only.
    zipmap = operator.scope_inst.get_options(model, {"zipmap": True})["zipmap"]
    ProbabilityType = data_types.FloatTensorType if zipmap is True else FloatType
    probabilities.set_type(ProbabilityType([n_rows, len(model.classes_)]))
    for variable in logits:
        variable.set_type(FloatType([n_rows, model.n_features_in_]))


def _convert(
    outputs: Callable[[Any, Features], list[Any]], scope: Any, operator: Any, container: Any
) -> None:
    """Add the nodes for a model's ``outputs``, a function of the model and its inputs by name."""
    opsets = {**OPSETS, **container.target_opset_all}
    if any(opsets[domain] < version for domain, version in OPSETS.items()):
        raise RuntimeError(
            f"Calibrators need operators of versions {OPSETS} or later, got target_opset={opsets}. "
            "Leave target_opset out, or raise it."
        )
    prefix = scope.get_unique_variable_name("skcalib") + "_"
    graph = Graph(prefix, opsets)
    X, declared = (
        {x.raw_name: graph.tensor_of(x.full_name, x.type.to_onnx_type()) for x in variables}
        for variables in (operator.inputs, operator.outputs)
    )
    values = outputs(operator.raw_operator, X)
    named = {
        x.name: value if x.dtype.kind == "O" else value.astype(x.dtype)
        for value, x in zip(values, declared.values(), strict=True)
    }
    nodes, constants = graph.nodes_for(named)
    for i, node in enumerate(nodes):
        node.name = f"{prefix}{i}"
        container.node_domain_version_pair_sets.add((node.domain, opsets[node.domain]))
    container.nodes.extend(nodes)
    container.initializers.extend(constants)


def _calibrator_outputs(model: Any, X: Features) -> list[Any]:
    """Return a calibrator's labels, probabilities and logits."""
    (Z,) = X.values()
    Z = Z.astype(np.float64 if Z.dtype == np.float64 else np.float32)
    return list(traced_outputs([model], Z, ["label", "probabilities", "logits"]).values())


def _classifier_outputs(model: Any, X: Features) -> list[Any]:
    """Return the labels and probabilities of a classifier with its calibrators."""
    members = []
    # There is one calibrator for all classifiers, or one for each classifier.
    for estimator, calibrator in zip(model.estimators_, cycle(model.calibrators_), strict=False):
        if isinstance(calibrator, MultiLabelCalibrator):
            raise TypeError(
                "Classifiers have one label per row in skl2onnx, got a CalibratedClassifier of "
                "several labels. Convert its classifier, and its calibrator_ with to_onnx."
            )
        chain = fitted_chain(calibrator, "skl2onnx")
        traced: Any = traced_outputs(chain, _logits(model, estimator, X), ["probabilities"])
        classes = np.asarray(chain[-1].classes_)
        members.append(with_unknown_classes(traced["probabilities"], classes, model.classes_))
    P = model._average(members)  # noqa: SLF001 (the same function of traced probabilities)
    return [P.graph.take(label_tensor(model.classes_), np.argmax(P, axis=1)), P]


def _transformer_outputs(model: Any, X: Features) -> list[Any]:
    """Return the logits of a classifier in the order of the transformer's classes."""
    Z, classes = _logits(model, model.estimator_, X), np.asarray(model.estimator_.classes_)
    return [model._in_order(Z, classes)]  # noqa: SLF001 (the same function of traced logits)


def _logits(model: Any, estimator: Any, X: Features) -> Any:
    """Return a fitted classifier's logits in double precision."""
    output = response(estimator, model.response_method_, X).astype(np.float64)
    if model.response_method_ != "predict_proba":
        return output
    smallest = max(model.min_proba_, float(np.finfo(np.float64).tiny))
    return np.log(np.maximum(output, smallest))

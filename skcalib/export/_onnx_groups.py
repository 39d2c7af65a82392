"""Groups, with an input for the group of each row, class priors and several labels in ONNX."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from skcalib._rows.arrays import Array
from skcalib._validation.labels import shown
from skcalib.export._chain import chain_of
from skcalib.export._formulas import (
    Outputs,
    applied,
    as_outputs,
    calibrated,
    finite_unless_masked,
    formula,
    mixture,
)
from skcalib.export._graph import Graph, Value, concat, where
from skcalib.export._onnx_one_vs_rest import sigmoid_scores
from skcalib.export._onnx_scaling import as_wide_as_logits
from skcalib.export._onnx_selection import log_probabilities
from skcalib.meta import GroupCalibrator, MultiLabelCalibrator, PriorShift
from skcalib.scaling import PlattScaling


def groups_of(chain: Sequence[Any], graph: Graph) -> Value | None:
    """The input with the group of each row (n_rows,), if a calibrator was fitted with groups."""
    known = [member.groups_ for member in chain if _has_groups(member)]
    if not known:
        return None
    dtypes = {_dtype(groups) for groups in known}
    if len(dtypes) > 1:
        raise ValueError(
            "Calibrators of a pipeline must have groups of one type, got "
            f"{' and '.join(shown(groups[:1]) for groups in known)}. Fit them to the same groups."
        )
    return Value(graph, "groups", dtypes.pop())


def _has_groups(calibrator: Any) -> bool:
    return isinstance(calibrator, GroupCalibrator) and len(calibrator.groups_) > 0


def _dtype(groups: Array) -> np.dtype[Any]:
    """The type of the input: integers, numbers, booleans or text."""
    kinds = {"b": bool, "i": np.int64, "u": np.int64, "f": np.float64}
    if groups.dtype.kind in kinds:
        return np.dtype(kinds[groups.dtype.kind])
    if all(isinstance(group, str) for group in groups.tolist()):
        return np.dtype(object)
    raise ValueError(
        f"Groups must be numbers or strings in ONNX, got {shown(groups[:1])}. Fit the calibrator "
        "to their names."
    )


def calibrated_in(groups: Value | None, calibrator: Any, Z: Value) -> Outputs:
    """The outputs of a calibrator, for rows of groups if it was fitted with such."""
    if groups is None or not _has_groups(calibrator):
        return calibrated(calibrator, Z)
    names, of_rows = _numbered(calibrator.groups_, groups)
    pooled = log_probabilities(calibrator.pooled_calibrator_, Z)
    L = pooled
    shares = calibrator.shares_.tolist()
    for name, own, share in zip(names, calibrator.calibrators_, shares, strict=True):
        if share > 0:
            mixed = log_probabilities(own, Z)
            if share < 1:
                mixed = mixture([mixed, pooled], np.array([share, 1 - share]))
            L = where(of_rows.equals(name), mixed, L)
    return as_outputs(calibrator, Z, as_wide_as_logits(L, calibrator.n_features_in_))


def _numbered(names: Array, groups: Value) -> tuple[list[Any], Value]:
    """Groups, and those of the rows (n_rows, 1), as numbers."""
    graph = groups.graph
    known = names.tolist()
    if groups.dtype.kind == "O":
        groups = graph.node(
            "LabelEncoder",
            groups,
            dtype=np.dtype(np.int64),
            domain="ai.onnx.ml",
            keys_strings=known,
            values_int64s=list(range(len(known))),
            default_int64=-1,
        )
        known = list(range(len(known)))
    return known, graph.node("Unsqueeze", groups, graph.constant(np.array([1])))


@formula.register
def _prior_shift(calibrator: PriorShift, Z: Value) -> Outputs:
    ratios = calibrator.log_ratios_
    if calibrator.n_features_in_ == 1:
        ratios = ratios[1:] - ratios[:1]
    return as_outputs(calibrator, Z, finite_unless_masked(lambda S: S + ratios, Z))


@formula.register
def _multilabel(calibrator: MultiLabelCalibrator, Z: Value) -> Outputs:
    members = calibrator.calibrators_
    if all(type(member) is PlattScaling for member in members):  # one formula for all labels
        coef, intercept = (
            np.concatenate([getattr(member, name) for member in members])
            for name in ("coef_", "intercept_")
        )
        S = finite_unless_masked(lambda M: sigmoid_scores(M, coef, intercept), Z)
        P = 1.0 / (1.0 + (-S).exp())
    else:
        found = [
            applied(chain_of(member, "to_onnx"), Z.columns(k, k + 1))
            for k, member in enumerate(members)
        ]
        S = concat([of_label.logits for of_label in found])
        P = concat([of_label.probabilities.columns(1, 2) for of_label in found])
    return Outputs(S, P, P, (P > 0.5).astype(np.int64))

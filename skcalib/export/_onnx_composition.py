"""Formulas of changed class priors and of several labels."""

from __future__ import annotations

import numpy as np

from skcalib.compose import MultiLabelCalibrator, PriorShift
from skcalib.scaling import PlattScaling

from ._chain import chain_of
from ._formulas import Outputs, applied, as_outputs, finite_unless_masked, formula
from ._graph import Value, concat
from ._onnx_one_vs_rest import sigmoid_scores


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

"""Formulas of calibrators that contain calibrators or classifiers."""

from functools import partial
from typing import Any

import numpy as np

from skcalib._optimize.loss import LOWEST_FEATURE
from skcalib._rows.arrays import TINY
from skcalib.meta import ClassifierCalibrator, GroupCalibrator, TopLabelCalibration
from skcalib.meta._classifier_calibrator import FEATURE_UNIT
from skcalib.scaling import PlattScaling
from skcalib.selection import AutoCalibrator
from skcalib.selection._candidates import Uncalibrated, Uniform

from ._chain import chain_of
from ._formulas import (
    Outputs,
    as_mixed_outputs,
    as_outputs,
    calibrated,
    divided,
    finite_unless_masked,
    formula,
    mix_logits,
    mixture,
)
from ._graph import Value, both_columns, concat, log_softmax, where
from ._onnx_classifiers import Features, response
from ._onnx_one_vs_rest import log_sigmoid, sigmoid_scores
from ._onnx_scaling import as_wide_as_logits


@formula.register
def _uncalibrated(calibrator: Uncalibrated, Z: Value) -> Outputs:
    return as_outputs(calibrator, Z, finite_unless_masked(lambda S: S, Z))


@formula.register
def _uniform(calibrator: Uniform, Z: Value) -> Outputs:
    return as_outputs(calibrator, Z, finite_unless_masked(lambda S: S * 0.0, Z))


def log_probabilities(calibrator: Any, Z: Value) -> Value:
    """Logarithms (n_rows, K) of the probabilities of a calibrator, or of a pipeline of them."""
    n_columns = 0
    for step in chain_of(calibrator, "to_onnx"):
        Z, n_columns = calibrated(step, Z).logits, step.n_features_in_
    return log_softmax(both_columns(Z, n_columns))


@formula.register
def _auto(calibrator: AutoCalibrator, Z: Value) -> Outputs:
    n_columns = calibrator.n_features_in_
    parts = [log_probabilities(part, Z) for part in calibrator.components_]
    L = mixture(parts, calibrator.component_weights_)
    L = mix_logits(L, calibrator.smoothing_, max(n_columns, 2))
    return as_outputs(calibrator, Z, as_wide_as_logits(L, n_columns))


@formula.register
def _classifier(calibrator: ClassifierCalibrator, Z: Value) -> Outputs:
    n_columns, smoothing = calibrator.n_features_in_, calibrator.smoothing_
    S = Z - Z.max() if n_columns > 1 else Z
    S = finite_unless_masked(partial(divided, temperature=calibrator.temperature_), S)
    # As precise as it can be, since features are compared with thresholds.
    M = mix_logits(S.astype(np.float64), smoothing, n_columns).astype(Z.dtype)
    unmixed = finite_unless_masked(partial(_logits_of_classifier, calibrator), M)
    return as_mixed_outputs(calibrator, Z, unmixed, smoothing)


def _logits_of_classifier(calibrator: ClassifierCalibrator, Z: Value) -> Value:
    """Logarithms of the probabilities of the classifier, or its log-odds, for finite logits."""
    estimator, n_columns = calibrator.estimator_, calibrator.n_features_in_
    F = _features(Z, calibrator.smoothing_, n_columns)
    n_features = 2 * n_columns if n_columns > 2 else 1
    P = response(estimator, "predict_proba", Features({"X": F}, [n_features], {})).astype(
        np.float64
    )
    of_classes = np.eye(max(n_columns, 2))[np.asarray(estimator.classes_)]
    if of_classes.shape[0] < of_classes.shape[1]:
        P = P @ of_classes
    L = P.at_least(np.finfo(Z.dtype).tiny).log().astype(Z.dtype)
    return as_wide_as_logits(L, n_columns)


def _features(Z: Value, smoothing: float, n_columns: int) -> Value:
    """Log-probabilities and these less their mean, or the log-odds of two classes."""
    K = max(n_columns, 2)
    L = log_softmax(both_columns(Z.astype(np.float64), n_columns))
    lowest = max(np.log(smoothing / K), LOWEST_FEATURE) if smoothing else LOWEST_FEATURE
    if K == 2:
        return _rounded((L.columns(1, 2) - L.columns(0, 1)).between(lowest, -lowest))
    L = L.at_least(lowest)
    return _rounded(concat([L, L - L.sum() / float(K)]))


def _rounded(F: Value) -> Value:
    return F.graph.node("Round", F / FEATURE_UNIT) * FEATURE_UNIT


@formula.register
def _top_label(calibrator: TopLabelCalibration, Z: Value) -> Outputs:
    n_columns = calibrator.n_features_in_

    def of_finite(S: Value) -> Value:
        L = _with_confidence(calibrator, both_columns(S, n_columns))
        return as_wide_as_logits(L, n_columns)

    return as_outputs(calibrator, Z, finite_unless_masked(of_finite, Z))


def _with_confidence(calibrator: TopLabelCalibration, Z: Value) -> Value:
    """Log-odds of the top label, and log-probabilities of the others if it is none of them."""
    classes = np.arange(len(calibrator.classes_))
    is_top = Z.argmax(keepdims=True).equals(classes)
    below = where(is_top, -np.inf, Z - Z.max())
    second = below.max().at_least(np.finfo(Z.dtype).min)
    below = below - second
    others = below.exp().sum().log()
    margin = (-(second + others)).at_most(np.finfo(Z.dtype).max / 4)
    below = below - where(others.equals(-np.inf), 0.0, others)
    return where(is_top, _confidences(calibrator, margin), below)


def _confidences(calibrator: TopLabelCalibration, margin: Value) -> Value:
    """Log-odds of each class (n_rows, K) if it is the top label, with this margin."""
    shares, pooled = calibrator.shares_, calibrator.pooled_calibrator_
    of_classes = zip(calibrator.calibrators_, shares.tolist(), strict=True)
    each = [own if share > 0 else pooled for own, share in of_classes]
    if any(type(member) is not PlattScaling for member in (pooled, *each)):
        return concat([_log_odds(calibrator, k, margin) for k in range(len(each))])
    # One formula for all classes.
    coef, intercept = (
        np.concatenate([getattr(member, name) for member in each])
        for name in ("coef_", "intercept_")
    )
    own = sigmoid_scores(margin, coef, intercept)
    of_all = sigmoid_scores(margin, pooled.coef_, pooled.intercept_)
    weights = np.maximum([shares, 1 - shares], TINY)
    event, other = (
        mixture([log_sigmoid(S), log_sigmoid(s)], weights)
        for S, s in ((own, of_all), (-own, -of_all))
    )
    return event - other


def _log_odds(calibrator: TopLabelCalibration, k: int, margin: Value) -> Value:
    """Log-odds of a top label, by its own and the pooled calibrator."""
    own, share = calibrator.calibrators_[k], float(calibrator.shares_[k])
    L = _pooled(calibrator.pooled_calibrator_, own, share, margin)
    return L.columns(1, 2) - L.columns(0, 1)


def _pooled(pooled: Any, own: Any, share: float, Z: Value) -> Value:
    """Log-probabilities by two calibrators, of which one's own has the share."""
    if share == 0:
        return log_probabilities(pooled, Z)
    if share == 1:
        return log_probabilities(own, Z)
    parts = [log_probabilities(own, Z), log_probabilities(pooled, Z)]
    return mixture(parts, np.array([share, 1 - share]))


@formula.register
def _without_groups(calibrator: GroupCalibrator, Z: Value) -> Outputs:
    L = log_probabilities(calibrator.pooled_calibrator_, Z)
    return as_outputs(calibrator, Z, as_wide_as_logits(L, calibrator.n_features_in_))

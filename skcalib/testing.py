"""Explain which of scikit-learn's estimator checks fail, and why."""

from __future__ import annotations

from typing import Any

from sklearn.utils import get_tags

from skcalib.base import BaseCalibrator
from skcalib.compose import CalibratedClassifier, LogitTransformer
from skcalib.conditional import ConditionalCalibrator
from skcalib.experimental import EstimatorCalibration
from skcalib.fusion import FusionCalibrator
from skcalib.judge import ScoreTransformer
from skcalib.meta import MultiLabelCalibrator
from skcalib.selection import AutoCalibrator

__all__ = ["expected_failed_checks"]

_FEWER_COLUMNS = "the check has fewer columns than classes, where logits have one for each class"
_FEATURES = "the check wants accurate predictions from features, which are no logits"
_BOOSTING = "boosted trees count rows, not weights, for their bins and leaves"
_HELD_OUT = "fit_transform returns held-out logits, as TargetEncoder does for its encodings"
_FOLDS = "folds in the default calibrator count rows, not weights"
_LABELS = "the check does not pass one column of log-odds for each column of indicators in y"
_GAPS = "the check passes NaN in some columns of a score, but a missing score is NaN in all columns"
_SCORES = "the check passes scores outside the scale, or positive log-probabilities"

_LOGIT_CHECKS = {
    "check_estimators_overwrite_params": _FEWER_COLUMNS,
    "check_estimators_fit_returns_self": _FEWER_COLUMNS,
    "check_readonly_memmap_input": _FEWER_COLUMNS,
    "check_classifiers_classes": _FEWER_COLUMNS,
    "check_classifiers_train": _FEATURES,
}

# Checks that calibrators for several labels fail, without the prefix "check_".
_MULTILABEL_CHECKS = """
    classifier_data_not_an_array classifier_multioutput
    classifier_not_supporting_multiclass classifiers_classes
    classifiers_multilabel_output_format_decision_function
    classifiers_multilabel_output_format_predict
    classifiers_multilabel_output_format_predict_proba
    classifiers_multilabel_representation_invariance classifiers_one_label
    classifiers_one_label_sample_weights classifiers_regression_target classifiers_train
    dict_unchanged dont_overwrite_parameters dtype_object estimators_dtypes
    estimators_fit_returns_self estimators_nan_inf estimators_overwrite_params estimators_pickle
    f_contiguous_array_estimator fit2d_1feature fit2d_1sample fit2d_predict1d
    fit_check_is_fitted fit_idempotent fit_score_takes_y methods_sample_order_invariance
    methods_subset_invariance n_features_in n_features_in_after_fitting pipeline_consistency
    positive_only_tag_during_fit readonly_memmap_input sample_weight_equivalence_on_dense_data
    sample_weights_list sample_weights_not_an_array sample_weights_not_overwritten
    sample_weights_pandas_series sample_weights_shape transformer_data_not_an_array
    transformer_general transformer_preserve_dtypes
""".split()  # noqa: SIM905


# Checks that the transformer of scores from language models fails, without the prefix.
_SCORE_CHECKS = """
    dict_unchanged dont_overwrite_parameters dtype_object estimators_dtypes
    estimators_fit_returns_self estimators_nan_inf estimators_overwrite_params estimators_pickle
    f_contiguous_array_estimator fit2d_1feature fit2d_1sample fit2d_predict1d fit_check_is_fitted
    fit_idempotent fit_score_takes_y methods_sample_order_invariance methods_subset_invariance
    n_features_in n_features_in_after_fitting pipeline_consistency positive_only_tag_during_fit
    readonly_memmap_input transformer_data_not_an_array transformer_general
    transformer_preserve_dtypes transformers_unfitted_stateless
""".split()  # noqa: SIM905


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return scikit-learn's checks that an estimator of skcalib cannot pass, with reasons.

    Most checks pass a few features, and may have more labels than features. If there are fewer
    labels than columns, a calibrator reads the columns as logits and warns. An estimator of logits
    cannot pass the other checks. Whether a ``ScoreTransformer`` fails depends on its scale.

    Parameters
    ----------
    estimator : estimator
        An instance. The result depends on its parameters.

    Returns
    -------
    dict of str to str
        Reasons by the name of the check, for the parameter ``expected_failed_checks`` in
        scikit-learn's ``check_estimator``. Pass the function itself to
        ``parametrize_with_checks``. Empty for other estimators.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.testing import expected_failed_checks
    >>> reasons = expected_failed_checks(TemperatureScaling())
    >>> for name in reasons:
    ...     print(name)
    check_estimators_overwrite_params
    check_estimators_fit_returns_self
    check_readonly_memmap_input
    check_classifiers_classes
    check_classifiers_train
    >>> reasons["check_classifiers_classes"]
    'the check has fewer columns than classes, where logits have one for each class'

    Use it to test your own subclass of a calibrator::

        @parametrize_with_checks([MyCalibrator()], expected_failed_checks=expected_failed_checks)
        def test_scikit_learn(estimator, check):
            check(estimator)
    """
    weights = "check_sample_weight_equivalence_on_dense_data"
    takes_logits = isinstance(estimator, BaseCalibrator | FusionCalibrator)
    expected = dict(_LOGIT_CHECKS) if takes_logits else {}
    if isinstance(estimator, FusionCalibrator):
        expected["check_estimators_pickle"] = _GAPS
    if isinstance(estimator, BaseCalibrator) and hasattr(estimator, "partial_fit"):
        expected["check_estimators_partial_fit_n_features"] = _FEWER_COLUMNS
    if isinstance(estimator, EstimatorCalibration) and estimator.estimator is None:
        expected[weights] = _BOOSTING
    if isinstance(estimator, LogitTransformer):
        expected["check_transformer_general"] = _HELD_OUT
        expected["check_transformer_data_not_an_array"] = _HELD_OUT
    inner = getattr(estimator, "calibrator", estimator)
    is_default = isinstance(inner, AutoCalibrator | ConditionalCalibrator)
    if isinstance(estimator, CalibratedClassifier) and inner is None:
        is_default = True
    if is_default and inner is not estimator:
        expected[weights] = _FOLDS
        if get_tags(estimator).input_tags.sparse:
            expected[weights.replace("dense", "sparse")] = _FOLDS
    if isinstance(estimator, ScoreTransformer):
        expected = {f"check_{name}": _SCORES for name in _SCORE_CHECKS}
    if isinstance(estimator, MultiLabelCalibrator):
        expected = {f"check_{name}": _LABELS for name in _MULTILABEL_CHECKS}
    return expected

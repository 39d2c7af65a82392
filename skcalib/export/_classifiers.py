"""scikit-learn's classifiers in ONNX graphs.

skl2onnx converts all classifiers except histogram-based gradient boosting and forests, which are
converted here because the default calibrator contains them. skl2onnx 1.20 fails for gradient
boosting in scikit-learn 1.9 and for extra trees in float64, and it sends missing features in
forests to the wrong side. This is the only module that reads private attributes of scikit-learn,
because gradient boosting has no public attribute for its trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import ensemble, svm, tree
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline

from skcalib._input.parameters import import_optional
from skcalib._typing import Floats
from skcalib.base import both_columns

# Classifiers that round features to float32, in scikit-learn or in skl2onnx's models.
SINGLE = {
    ensemble.AdaBoostClassifier,
    ensemble.BaggingClassifier,
    ensemble.GradientBoostingClassifier,
    tree.DecisionTreeClassifier,
    tree.ExtraTreeClassifier,
}

# Attributes of nodes in trees: the feature, the threshold (rows with at most this value go to the
# left), the left and the right child (at most 0 for leaves), and the way of missing values.
NODES_OF_FORESTS = "feature", "threshold", "children_left", "children_right", "missing_go_to_left"
NODES_OF_BOOSTING = "feature_idx", "num_threshold", "left", "right", "missing_go_to_left"
FORESTS = ensemble.ExtraTreesClassifier, ensemble.RandomForestClassifier

# Inputs to a classifier by name: one matrix or several columns, traced.
Features = dict[str, Any]


def response(classifier: Any, method: str, X: Features) -> Any:
    """Predict probabilities (n_rows, K), or margins (n_rows, K) or (n_rows, 1).

    ``method`` is "predict_proba" or "decision_function".
    """
    steps, last = _split_pipeline(classifier)
    F: Any
    F, *others = X.values()
    if steps:
        F = F.graph.add_model(_model_by_skl2onnx(make_pipeline(*steps), X), X)[0]
    elif others:  # columns side by side, in NumPy's common type
        F = np.concatenate([F, *others], axis=1)
    if hasattr(last, method) and (trees := _trees(last)):
        return _tree_response(last, trees, method, F)
    if type(last) in SINGLE:
        F = F.astype(np.float32)
    elif F.dtype.kind != "f":
        F = F.astype(np.float64)
    if sparse.issparse(getattr(last, "coef_", None)):  # skl2onnx takes dense coefficients only
        last = copy(last).densify()
    return _converted_response(last, method, F)


def _split_pipeline(classifier: Any) -> tuple[list[Any], Any]:
    """Unwrap pipelines: return the steps before the last classifier, and this classifier."""
    while isinstance(classifier, FrozenEstimator) or hasattr(classifier, "best_estimator_"):
        classifier = getattr(classifier, "best_estimator_", classifier.estimator)
    if not isinstance(classifier, Pipeline):
        return [], classifier
    *before, (_, last) = classifier.steps
    after, last = _split_pipeline(last)
    return [*(step for _, step in before if step not in (None, "passthrough")), *after], last


def _trees(classifier: Any) -> list[Any]:
    """Return the trees in a forest or in gradient boosting without categories, else nothing."""
    if type(classifier) in FORESTS:
        return [member.tree_ for member in classifier.estimators_]
    if type(classifier) is not ensemble.HistGradientBoostingClassifier:
        return []
    members = [tree for iteration in classifier._predictors for tree in iteration]  # noqa: SLF001
    trees = [member.nodes.view(np.recarray) for member in members]
    return [] if any(tree.is_categorical.any() for tree in trees) else trees


def _tree_response(classifier: Any, trees: list[Any], method: str, F: Any) -> Any:
    """Predict probabilities or margins by trees for traced features (n_rows, n_features)."""
    if type(classifier) in FORESTS:
        # Scores are probabilities, averaged over the trees. scikit-learn rounds the features.
        values = [tree.value[:, 0] for tree in trees]
        sums = _tree_sums(F.astype(np.float32), trees, NODES_OF_FORESTS, values, values[0].shape[1])
        return sums / float(len(trees))
    baseline = np.ravel(classifier._baseline_prediction)  # noqa: SLF001
    values = [tree.value[:, None] for tree in trees]
    S = _tree_sums(F, trees, NODES_OF_BOOSTING, values, len(baseline)) + baseline
    if method == "decision_function":
        return S
    return F.__array_namespace__().softmax(both_columns(S), axis=1)


def _tree_sums(
    F: Any, trees: list[Any], names: Sequence[str], values: list[Floats], n_scores: int
) -> Any:
    """Sum the scores (n_rows, n_scores) over trees, with thresholds in double precision.

    ``names`` are the attributes of nodes. ``values`` have one array for each tree, (n_nodes, 1) or
    (n_nodes, n_scores).
    """
    graph, sizes = F.graph, [len(part) for part in values]
    columns = [np.concatenate([getattr(tree, name) for tree in trees]) for name in names]
    is_leaf = columns[2] <= 0
    columns = [np.where(is_leaf, 0, column) for column in columns]
    feature, threshold, left, right, missing_left = columns
    tree_number = np.repeat(np.arange(len(trees)), sizes)
    number = np.concatenate([np.arange(size) for size in sizes])  # within the tree
    # A leaf has one value per score, or each iteration has one tree per score.
    value = np.concatenate(values)[is_leaf]
    leaf, column = np.indices(value.shape).reshape(2, -1)
    target = column if value.shape[1] > 1 else tree_number[is_leaf] % n_scores
    sums = graph.node(
        "TreeEnsembleRegressor",
        np.zeros((len(F.example), n_scores), np.float32),  # runtimes round sums
        F.astype(np.float64),
        domain="ai.onnx.ml",
        n_targets=n_scores,
        nodes_treeids=tree_number.tolist(),
        nodes_nodeids=number.tolist(),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_featureids=feature.tolist(),
        nodes_values_as_tensor=graph.tensor(threshold),
        nodes_truenodeids=left.tolist(),
        nodes_falsenodeids=right.tolist(),
        nodes_missing_value_tracks_true=missing_left.tolist(),
        target_treeids=tree_number[is_leaf][leaf].tolist(),
        target_nodeids=number[is_leaf][leaf].tolist(),
        target_ids=target.tolist(),
        target_weights_as_tensor=graph.tensor(value.ravel()),
    )
    return sums.astype(np.float64)


def _converted_response(classifier: Any, method: str, F: Any) -> Any:
    """Predict probabilities or margins by a classifier that skl2onnx converts."""
    X = {"X": F}
    kind, is_binary = type(classifier).__name__, len(classifier.classes_) == 2
    # LinearSVC has no probabilities, so its converter refuses the option.
    options = {} if type(classifier) is svm.LinearSVC else {"zipmap": False}
    if method == "predict_proba":
        if type(classifier) is LinearDiscriminantAnalysis and is_binary:
            raise TypeError(
                "skl2onnx converts probabilities of LinearDiscriminantAnalysis wrongly for two "
                "classes. Calibrate its decision_function, as response_method='auto' does."
            )
        return F.graph.add_model(_model_by_skl2onnx(classifier, X, options), X)[-1]
    model = _model_by_skl2onnx(classifier, X, {**options, "raw_scores": True})
    # Converters in other libraries may accept the option raw_scores, and ignore it.
    has_proba = hasattr(classifier, "predict_proba")
    if has_proba and _model_by_skl2onnx(classifier, X, options).graph.node == model.graph.node:
        raise TypeError(
            f"The converter of {kind} ignores the option raw_scores, so the ONNX model would take "
            "probabilities for margins. Calibrate with response_method='predict_proba'."
        )
    margins = F.graph.add_model(model, X)[-1]
    # skl2onnx returns both classes' margins; skcalib uses the second.
    return margins[:, [-1]] if is_binary else margins


def _model_by_skl2onnx(estimator: Any, X: Features, options: dict[str, bool] | None = None) -> Any:
    """Convert an estimator by skl2onnx to an ONNX model, with converter ``options``."""
    kind, graph = type(estimator).__name__, next(iter(X.values())).graph
    skl2onnx = import_optional("skl2onnx", f"ONNX of {kind}")
    from skl2onnx.common import data_types

    types = []
    for name, value in X.items():
        ((_, tensor_type),) = data_types.guess_data_type(value.example)
        types.append((name, type(tensor_type)([None, *value.shape[1:]])))  # any number of rows
    try:
        return skl2onnx.to_onnx(
            estimator,
            initial_types=types,
            options={id(estimator): options} if options else None,
            target_opset=graph.opsets,
        )
    except (AttributeError, NameError, RuntimeError, ValueError) as error:
        raise TypeError(
            f"{kind} cannot be converted to ONNX by skl2onnx {skl2onnx.__version__}: "
            f"{str(error).splitlines()[0]} Use another classifier, or another response_method."
        ) from error

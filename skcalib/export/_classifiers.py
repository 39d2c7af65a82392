"""scikit-learn's classifiers in ONNX graphs.

skl2onnx converts all classifiers except histogram-based gradient boosting and forests, which are
converted here because the default calibrator contains them. skl2onnx 1.20 fails for gradient
boosting in scikit-learn 1.9 and for extra trees in float64, and it sends missing features in
forests to the wrong side. This is the only module that reads private attributes of scikit-learn,
because gradient boosting has no public attribute for its trees.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import ensemble, model_selection, svm, tree
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from skcalib._typing import Floats, Indices
from skcalib.base import both_columns

from ._graph import Namespace, Traced

# Classifiers that round features to float32, in scikit-learn or in skl2onnx's models.
SINGLE = {
    ensemble.AdaBoostClassifier,
    ensemble.BaggingClassifier,
    ensemble.GradientBoostingClassifier,
    tree.DecisionTreeClassifier,
    tree.ExtraTreeClassifier,
}

# Searches delegate to their best classifier.
SEARCHES = model_selection.GridSearchCV | model_selection.RandomizedSearchCV


# Inputs to a classifier by name: one matrix or several columns.
Features = dict[str, Traced]


def classifier_probabilities(classifier: Any, F: Any) -> Any:
    """Predict probabilities (n_rows, K) by a fitted classifier for traced features."""
    return response(classifier, "predict_proba", {"X": F})


def response(classifier: Any, method: str, X: Features) -> Any:
    """Predict probabilities (n_rows, K), or margins (n_rows, K) or (n_rows, 1).

    ``method`` is "predict_proba" or "decision_function".
    """
    steps, last = _split_pipeline(classifier)
    if steps:
        F: Any = _by_skl2onnx(Pipeline(steps), X)[0]
    else:  # columns side by side, in NumPy's common type
        F, *others = X.values()
        F = np.concatenate([F, *others], axis=1) if others else F
    if hasattr(last, method) and (trees := _trees(last)) is not None:
        return _tree_response(trees, method, F)
    if type(last) in SINGLE:
        F = F.astype(np.float32)
    elif F.dtype.kind != "f":
        F = F.astype(np.float64)
    if sparse.issparse(getattr(last, "coef_", None)):  # skl2onnx takes dense coefficients only
        last = copy(last).densify()
    return _converted_response(last, method, {"X": F})


def _split_pipeline(classifier: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Unwrap pipelines: return the steps before the last classifier, and this classifier."""
    while isinstance(classifier, FrozenEstimator | SEARCHES):
        is_search = isinstance(classifier, SEARCHES)
        classifier = classifier.best_estimator_ if is_search else classifier.estimator
    if not isinstance(classifier, Pipeline):
        return [], classifier
    *before, (_, last) = classifier.steps
    after, last = _split_pipeline(last)
    real = [step for _, step in before if step not in (None, "passthrough")]
    return [(f"step{i}", step) for i, step in enumerate([*real, *(s for _, s in after)])], last


class Trees(NamedTuple):
    """Nodes of all trees, one tree after the other: arrays (n_nodes,)."""

    sizes: list[int]  #: number of nodes per tree
    baseline: Floats  #: initial scores, (n_scores,)
    value: Floats  #: for one or all scores, (n_nodes, 1) or (n_nodes, n_scores)
    feature: Indices
    threshold: Floats  #: rows with at most this value go to the left
    left: Indices  #: left child, numbered within the tree, and at most 0 for leaves
    right: Indices
    missing_left: Indices  #: 1 if missing values go to the left


def _trees(classifier: Any) -> Trees | None:
    """Return the trees in a forest or in gradient boosting without categories, else None."""
    kind = type(classifier)
    if kind is ensemble.HistGradientBoostingClassifier:
        parts = [tree.nodes for iteration in classifier._predictors for tree in iteration]  # noqa: SLF001
        if any(part["is_categorical"].any() for part in parts):
            return None
        names = ["feature_idx", "num_threshold", "left", "right", "missing_go_to_left"]
        value = np.concatenate([part["value"][:, None] for part in parts])
        baseline = np.ravel(classifier._baseline_prediction)  # noqa: SLF001
    elif kind in {ensemble.ExtraTreesClassifier, ensemble.RandomForestClassifier}:
        states = [member.tree_.__getstate__() for member in classifier.estimators_]
        parts = [state["nodes"] for state in states]
        names = ["feature", "threshold", "left_child", "right_child", "missing_go_to_left"]
        value = np.concatenate([state["values"][:, 0] for state in states])
        baseline = np.zeros(value.shape[1])
    else:
        return None
    columns = (np.concatenate([part[name] for part in parts]) for name in names)
    return Trees([len(part) for part in parts], baseline, value, *columns)


def _tree_response(trees: Trees, method: str, F: Any) -> Any:
    """Predict probabilities or margins by trees, with thresholds in double precision.

    ``F`` are traced features (n_rows, n_features).
    """
    graph, n_scores, is_leaf = F.graph, len(trees.baseline), trees.left <= 0
    is_forest = trees.value.shape[1] > 1  # scores are then probabilities, averaged over the trees
    columns = (np.where(is_leaf, 0, column) for column in trees[3:])
    feature, threshold, left, right, missing_left = columns
    tree_number = np.repeat(np.arange(len(trees.sizes)), trees.sizes)
    number = np.concatenate([np.arange(size) for size in trees.sizes])  # within the tree
    value = trees.value[is_leaf]
    leaf, column = np.indices(value.shape).reshape(2, -1)
    # A leaf has one value per score, or each iteration has one tree per score.
    target = column if is_forest else tree_number[is_leaf] % n_scores
    # Forests in scikit-learn round features to single precision, and runtimes round all sums.
    F = F.astype(np.float32) if is_forest else F
    sums = graph.node(
        "TreeEnsembleRegressor",
        np.zeros((len(F.example), n_scores), np.float32),
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
    S = sums.astype(np.float64) + trees.baseline
    if is_forest:
        return S / float(len(trees.sizes))
    if method == "decision_function":
        return S
    logits: Any = both_columns(S)
    return Namespace(graph).softmax(logits, axis=1)


def _converted_response(classifier: Any, method: str, X: Features) -> Any:
    """Predict probabilities or margins by a classifier that skl2onnx converts."""
    kind, is_binary = type(classifier).__name__, len(classifier.classes_) == 2
    # LinearSVC has no probabilities, so its converter refuses the option.
    options = {} if type(classifier) is svm.LinearSVC else {"zipmap": False}
    if method == "predict_proba":
        if type(classifier) is LinearDiscriminantAnalysis and is_binary:
            raise TypeError(
                "skl2onnx converts probabilities of LinearDiscriminantAnalysis wrongly for two "
                "classes. Calibrate its decision_function, as response_method='auto' does."
            )
        return _by_skl2onnx(classifier, X, options)[-1]
    model = _model_by_skl2onnx(classifier, X, {**options, "raw_scores": True})
    # Converters in other libraries may accept the option raw_scores, and ignore it.
    has_proba = hasattr(classifier, "predict_proba")
    if has_proba and _model_by_skl2onnx(classifier, X, options).graph.node == model.graph.node:
        raise TypeError(
            f"The converter of {kind} ignores the option raw_scores, so the ONNX model would take "
            "probabilities for margins. Calibrate with response_method='predict_proba'."
        )
    margins = _outputs(model, X)[-1]
    # skl2onnx returns both classes' margins; skcalib uses the second.
    return margins[:, [-1]] if is_binary else margins


def _by_skl2onnx(estimator: Any, X: Features, options: dict[str, bool] | None = None) -> list[Any]:
    """Convert an estimator by skl2onnx, add it to the graph, and return its outputs."""
    return _outputs(_model_by_skl2onnx(estimator, X, options), X)


def _outputs(model: Any, X: Features) -> list[Traced]:
    """Add a model to the features' graph, and return its outputs."""
    return next(iter(X.values())).graph.add_model(model, X)


def _model_by_skl2onnx(estimator: Any, X: Features, options: dict[str, bool] | None) -> Any:
    """Convert an estimator by skl2onnx to an ONNX model, with converter ``options``."""
    kind, graph = type(estimator).__name__, next(iter(X.values())).graph
    try:
        import skl2onnx
        from skl2onnx.common import data_types
    except ImportError as missing:
        raise ImportError(
            f"{kind} is converted to ONNX by skl2onnx, which is not installed: "
            "pip install skl2onnx."
        ) from missing
    types = []
    for name, value in X.items():
        ((_, tensor_type),) = data_types.guess_data_type(value.example)
        types.append((name, type(tensor_type)([None, *value.shape[1:]])))  # any number of rows
    by_estimator: Any = options and {id(estimator): options}
    try:
        return skl2onnx.to_onnx(
            estimator, initial_types=types, options=by_estimator, target_opset=graph.opsets
        )
    except (AttributeError, NameError, RuntimeError, ValueError) as error:
        raise TypeError(
            f"{kind} cannot be converted to ONNX by skl2onnx {skl2onnx.__version__}: "
            f"{str(error).splitlines()[0]} Use another classifier, or another response_method."
        ) from error

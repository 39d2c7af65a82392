"""Classifiers of scikit-learn as ONNX graphs: by skl2onnx, but for those of which it loses digits.

Linear classifiers and ensembles of trees have formulas here, in double precision as those of
scikit-learn, since steps of a calibrator see the smallest differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from skcalib._rows import arrays as xa

from ._graph import Traced
from ._trees import Trees, trees_of

# Classifiers with linear margins.
LINEAR = {
    LinearDiscriminantAnalysis,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
}

# Classifiers that take features in single precision, in scikit-learn or in skl2onnx.
SINGLE = {
    AdaBoostClassifier,
    BaggingClassifier,
    DecisionTreeClassifier,
    ExtraTreeClassifier,
    GradientBoostingClassifier,
}


class Features(NamedTuple):
    """Inputs of a classifier, one matrix or several columns."""

    values: dict[str, Traced]  #: by their names
    options: dict[Any, Any]  #: of converters of skl2onnx, by the identity of estimators

    def as_one(self) -> Any:
        """All columns as one matrix."""
        values = list(self.values.values())
        return xa.concat(values, axis=1) if len(values) > 1 else values[0]

    def single(self) -> Features:
        """The same in single precision."""
        values = {name: xa.astype(value, np.float32) for name, value in self.values.items()}
        return self._replace(values=values)


def probabilities_of(classifier: Any, F: Any) -> Any:
    """Probabilities (n_rows, K) of a fitted classifier for features in a graph."""
    return response(classifier, "predict_proba", Features({"X": F}, {}))


def response(classifier: Any, method: str, X: Features) -> Any:
    """Probabilities (n_rows, K), or margins (n_rows, K) or (n_rows, 1), of a fitted classifier."""
    steps, last = _steps(classifier)
    if not _has_formula(last, method):
        whole = Pipeline([*steps, ("classifier", last)]) if steps else last
        return _response_by_skl2onnx(whole, last, method, X)
    if steps:
        X = Features({"X": _by_skl2onnx(Pipeline(steps), X)[0]}, X.options)
    return _by_formula(last, method, X.as_one())


def _steps(classifier: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Steps before the last classifier in pipelines, and that."""
    classifier = _innermost(classifier)
    if not isinstance(classifier, Pipeline):
        return [], classifier
    *before, (_, last) = classifier.steps
    after, last = _steps(last)
    real = [step for _, step in before if step not in (None, "passthrough")]
    return [(f"step{i}", step) for i, step in enumerate([*real, *(s for _, s in after)])], last


def _innermost(classifier: Any) -> Any:
    """The classifier that does the work, in frozen ones and in searches."""
    while isinstance(classifier, FrozenEstimator | GridSearchCV | RandomizedSearchCV):
        is_frozen = isinstance(classifier, FrozenEstimator)
        classifier = classifier.estimator if is_frozen else classifier.best_estimator_
    return classifier


def _has_formula(classifier: Any, method: str) -> bool:
    if trees_of(classifier) is not None:
        return hasattr(classifier, method)
    return type(classifier) in LINEAR and method == "decision_function"


def _by_formula(classifier: Any, method: str, F: Any) -> Any:
    trees = trees_of(classifier)
    if trees is not None:
        return _of_trees(trees, method, F, _missing(classifier))
    coef, intercept = classifier.coef_, np.asarray(classifier.intercept_, np.float64)
    F = F if F.dtype.kind == "f" else xa.astype(F, np.float64)
    S = xa.double(F) @ coef.T.astype(np.float64) + intercept
    return xa.astype(S, np.result_type(F.dtype, coef.dtype))


def _of_trees(trees: Trees, method: str, F: Any, missing: dict[str, Any]) -> Any:
    """Probabilities or margins of an ensemble of trees, whose sums runtimes round to float32."""
    is_forest, graph = trees.link_ == "mean", F.graph
    F = xa.astype(F, np.float32) if is_forest else F
    example = np.zeros((len(F.example), len(trees.baseline_)), np.float32)
    found = graph.node(
        "TreeEnsembleRegressor",
        example,
        xa.double(F),
        domain="ai.onnx.ml",
        n_targets=len(trees.baseline_),
        nodes_values_as_tensor=graph.tensor(trees.threshold_),
        target_weights_as_tensor=graph.tensor(trees.value_.ravel()),
        **_nodes(trees),
        **missing,
    )
    S = xa.double(found) + trees.baseline_
    if is_forest:
        return S / float(len(trees.root_))
    return S if method == "decision_function" else xa.softmax(S)


def _nodes(trees: Trees) -> dict[str, Any]:
    """Attributes of nodes, numbered from the root of their tree, and to which sum a leaf adds."""
    n_nodes, is_leaf = len(trees.feature_), trees.feature_ < 0
    tree = np.repeat(np.arange(len(trees.root_)), np.diff(trees.root_, append=n_nodes))
    number, root = np.arange(n_nodes), trees.root_[tree]
    leaves, n_values = np.flatnonzero(is_leaf), trees.value_.shape[1]
    first = tree[leaves] % (len(trees.baseline_) // n_values) * n_values
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": (number - root).tolist(),
        "nodes_featureids": np.maximum(trees.feature_, 0).tolist(),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_truenodeids": np.where(is_leaf, 0, trees.left_ - root).tolist(),
        "nodes_falsenodeids": np.where(is_leaf, 0, trees.right_ - root).tolist(),
        "target_treeids": np.repeat(tree[leaves], n_values).tolist(),
        "target_nodeids": np.repeat((number - root)[leaves], n_values).tolist(),
        "target_ids": (first[:, None] + np.arange(n_values)).ravel().tolist(),
    }


def _missing(classifier: Any) -> dict[str, Any]:
    """Attributes that say at which nodes features that are NaN go to the left."""
    if isinstance(classifier, Trees):
        return {}
    if isinstance(classifier, HistGradientBoostingClassifier):
        trees = [tree.nodes for of_round in classifier._predictors for tree in of_round]  # noqa: SLF001
        goes_left = np.concatenate([nodes["missing_go_to_left"] for nodes in trees])
    else:
        parts = [member.tree_.missing_go_to_left for member in classifier.estimators_]
        goes_left = np.concatenate(parts)
    return {"nodes_missing_value_tracks_true": goes_left.astype(int).tolist()}


def _response_by_skl2onnx(classifier: Any, last: Any, method: str, X: Features) -> Any:
    """As skl2onnx converts the classifier, of which ``last`` is the last step."""
    margins = method == "decision_function"
    if not margins and type(last) is LinearDiscriminantAnalysis and len(last.classes_) == 2:
        raise TypeError(
            "skl2onnx converts probabilities of LinearDiscriminantAnalysis wrongly for two "
            "classes. Calibrate its decision_function, as response_method='auto' does."
        )
    options: dict[str, bool] = {"zipmap": False, **({"raw_scores": True} if margins else {})}
    X = X._replace(options={**X.options, id(last): options})
    made = _by_skl2onnx(classifier, X.single() if type(last) in SINGLE else X)[-1]
    if margins and len(last.classes_) == 2:  # skl2onnx gives that of the other class as well
        return made[:, -1:]
    return made


def _by_skl2onnx(estimator: Any, X: Features) -> list[Traced]:
    """Outputs of an estimator of scikit-learn as skl2onnx converts it."""
    kind, graph = type(estimator).__name__, next(iter(X.values.values())).graph
    try:
        import skl2onnx
        from skl2onnx.common import data_types
    except ImportError as missing:
        raise ImportError(
            f"{kind} is converted to ONNX by skl2onnx, which is not installed: "
            "pip install skl2onnx."
        ) from missing
    kinds = {
        "float32": data_types.FloatTensorType,
        "float64": data_types.DoubleTensorType,
        "int64": data_types.Int64TensorType,
        "bool": data_types.BooleanTensorType,
        "object": data_types.StringTensorType,
    }
    types = [
        (name, kinds[value.dtype.name]([None, *value.shape[1:]]))
        for name, value in X.values.items()
    ]
    try:
        model = skl2onnx.to_onnx(
            estimator, initial_types=types, options=X.options, target_opset=graph.opsets
        )
    except (RuntimeError, NameError, NotImplementedError, ValueError) as error:
        raise TypeError(
            f"{kind} cannot be converted to ONNX by skl2onnx {skl2onnx.__version__}: "
            f"{str(error).splitlines()[0]} Use another classifier, or another response_method."
        ) from error
    return graph.outputs_of(model, X.values)

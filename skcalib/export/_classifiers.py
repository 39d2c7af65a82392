"""Classifiers of scikit-learn: ensembles of trees as plain arrays, and all as ONNX graphs.

Linear classifiers and ensembles of trees have formulas here, in double precision as those of
scikit-learn, since steps of a calibrator see the smallest differences. All others are converted by
skl2onnx. This is the only place that reads private attributes of scikit-learn: the trees of
``HistGradientBoostingClassifier`` have no public ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special
from sklearn import base, ensemble, linear_model, model_selection, svm, tree
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import extmath, validation

from skcalib._rows import arrays as xa

from ._graph import Traced

# Classifiers that are converted by way of their trees.
ENSEMBLES = (
    ensemble.ExtraTreesClassifier,
    ensemble.HistGradientBoostingClassifier,
    ensemble.RandomForestClassifier,
)

# Classifiers with linear margins.
LINEAR = {
    LinearDiscriminantAnalysis,
    linear_model.LogisticRegression,
    linear_model.LogisticRegressionCV,
    linear_model.Perceptron,
    linear_model.RidgeClassifier,
    linear_model.RidgeClassifierCV,
    linear_model.SGDClassifier,
    svm.LinearSVC,
}

# Classifiers that take features in single precision, in scikit-learn or in skl2onnx.
SINGLE = {
    ensemble.AdaBoostClassifier,
    ensemble.BaggingClassifier,
    ensemble.GradientBoostingClassifier,
    tree.DecisionTreeClassifier,
    tree.ExtraTreeClassifier,
}

# Searches for parameters, which hold the best classifier.
SEARCHES = model_selection.GridSearchCV | model_selection.RandomizedSearchCV

# Rows times trees that are followed from node to node at once.
AT_ONCE = 1 << 18


# Trees as arrays.
class Trees(base.BaseEstimator):
    """A fitted ensemble of trees: nodes of all trees, one tree after the other.

    A row at a node goes to ``left_`` if its feature is at most the threshold, else to ``right_``,
    which are later nodes. The leaves of a round of trees add their values to the scores: in a
    forest a round is one tree, whose leaves hold probabilities of all classes, and in gradient
    boosting it is one tree for each score, whose leaves hold a single number.
    """

    classes_: xa.Array  #: labels of the columns of probabilities
    n_features_in_: int
    link_: str  #: "mean" of rounds in a forest, "sigmoid" or "softmax" of sums in boosting
    baseline_: xa.Floats  #: scores to start from, (n_scores,)
    root_: xa.Indices  #: first node of each tree, (n_trees,)
    feature_: xa.Indices  #: column that a node compares, -1 for leaves, (n_nodes,)
    threshold_: xa.Floats  #: what it is compared with, 0 for leaves, (n_nodes,)
    left_: xa.Indices  #: node for smaller or equal ones; for leaves the row of value_, (n_nodes,)
    right_: xa.Indices  #: node for larger ones, 0 for leaves, (n_nodes,)
    value_: xa.Floats  #: of leaves, (n_leaves, n_values)
    missing: xa.Indices | None = None  #: 1 where NaN goes to the left, (n_nodes,); JSON has none

    def predict_proba(self, X: Any) -> xa.Floats:
        """Probabilities of the classes, bit for bit those of scikit-learn."""
        mean = self.link_ == "mean"
        X = validation.validate_data(self, X, reset=False, dtype=np.float32 if mean else np.float64)
        # Sums over classes depend on the order in memory, which is that of scikit-learn.
        S = np.zeros((len(X), len(self.baseline_)), order="C" if mean else "F")
        S += self.baseline_
        n_rows = max(1, AT_ONCE // len(self.root_))
        for start in range(0, len(X), n_rows):
            part = slice(start, start + n_rows)
            leaf = self._leaves(X[part])
            per_round = S.shape[1] // self.value_.shape[1]
            for k in range(0, leaf.shape[1], per_round):  # in this order, on which rounding depends
                S[part] += self.value_[leaf[:, k : k + per_round]].reshape(-1, S.shape[1])
        if mean:
            return S / len(self.root_)
        if self.link_ == "softmax":
            return extmath.softmax(S, copy=False)
        p = special.expit(S[:, 0])
        return np.column_stack([1 - p, p])

    def _leaves(self, X: xa.Floats) -> xa.Indices:
        """The row of ``value_`` of each tree that rows end in, (n_rows, n_trees)."""
        n_trees = len(self.root_)
        at = np.tile(self.root_, len(X))
        inner = np.flatnonzero(self.feature_[at] >= 0)  # those that are not at leaves yet
        while len(inner):
            node = at[inner]
            goes_left = X[inner // n_trees, self.feature_[node]] <= self.threshold_[node]
            at[inner] = np.where(goes_left, self.left_[node], self.right_[node])
            inner = inner[self.feature_[at[inner]] >= 0]
        return self.left_[at].reshape(-1, n_trees)


def check_trees(trees: Trees) -> None:
    """Raise a ValueError for nodes that are not there, or from which there is no way to a leaf."""
    feature, left, right, threshold = trees.feature_, trees.left_, trees.right_, trees.threshold_
    arrays = [feature, left, right, trees.root_, threshold, trees.value_]
    wanted = [*[("i", 1)] * 4, ("f", 1), ("f", 2)]
    holds = [(array.dtype.kind, array.ndim) for array in arrays] == wanted
    holds = holds and len(feature) == len(left) == len(right) == len(threshold)
    if holds:
        n_nodes, node = len(feature), np.arange(len(feature))
        after = (node < left) & (left < n_nodes) & (node < right) & (right < n_nodes)
        good = np.where(feature < 0, (left >= 0) & (left < len(trees.value_)), after)
        holds = bool(good.all() and feature.max() < trees.n_features_in_)
        holds &= bool(trees.root_.min() >= 0 and trees.root_.max() < n_nodes)
        holds &= bool(np.isfinite(trees.value_).all())
    if not holds:
        raise ValueError("trees must have nodes whose children are later ones")


def trees_of(classifier: Any) -> Trees | None:
    """The trees of a fitted forest, or of gradient boosting unless it splits by categories."""
    if isinstance(classifier, Trees):
        return classifier
    if type(classifier) not in ENSEMBLES:
        return None
    if isinstance(classifier, ensemble.HistGradientBoostingClassifier):
        parts = [tree.nodes for of_round in classifier._predictors for tree in of_round]  # noqa: SLF001
        names = ("feature_idx", "num_threshold", "left", "right", "missing_go_to_left")
        nodes = np.concatenate(parts)
        if nodes["is_categorical"].any():
            return None
        is_leaf, value = nodes["is_leaf"] == 1, nodes["value"][:, None]
        baseline = np.array(classifier._baseline_prediction).reshape(-1)  # noqa: SLF001
        link = "softmax" if len(baseline) > 1 else "sigmoid"
    else:
        states = [member.tree_.__getstate__() for member in classifier.estimators_]
        parts = [state["nodes"] for state in states]
        names = ("feature", "threshold", "left_child", "right_child", "missing_go_to_left")
        nodes = np.concatenate(parts)
        is_leaf = nodes["left_child"] < 0
        value = np.concatenate([state["values"][:, 0] for state in states])
        baseline, link = np.zeros(value.shape[1]), "mean"
    trees = _numbered(parts, [nodes[name] for name in names], is_leaf)
    trees.classes_, trees.n_features_in_ = classifier.classes_, classifier.n_features_in_
    trees.link_, trees.baseline_, trees.value_ = link, baseline, value[is_leaf]
    return trees


def _numbered(parts: list[Any], columns: list[Any], is_leaf: Any) -> Trees:
    """Trees of the nodes of all parts, numbered from the first node of the first of them."""
    feature, threshold, left, right, missing = columns
    size = np.array([len(part) for part in parts])
    root = np.cumsum(size) - size
    first = np.repeat(root, size)
    trees = Trees()
    trees.root_, trees.missing = root, missing.astype(np.intp)
    trees.feature_ = np.where(is_leaf, -1, feature).astype(np.intp)
    trees.threshold_ = np.where(is_leaf, 0.0, threshold)
    trees.left_ = np.where(is_leaf, np.cumsum(is_leaf) - 1, first + left.astype(np.intp))
    trees.right_ = np.where(is_leaf, 0, first + right.astype(np.intp))
    return trees


# Graphs.
class Features(NamedTuple):
    """Inputs of a classifier, one matrix or several columns."""

    values: dict[str, Traced]  #: by their names
    options: dict[Any, Any]  #: of converters of skl2onnx, by the identity of estimators

    def as_one(self) -> Any:
        """All columns as one matrix."""
        values = list(self.values.values())
        return xa.concat(values, axis=1) if len(values) > 1 else values[0]


def probabilities_of(classifier: Any, F: Any) -> Any:
    """Probabilities (n_rows, K) of a fitted classifier for features in a graph."""
    return response(classifier, "predict_proba", Features({"X": F}, {}))


def response(classifier: Any, method: str, X: Features) -> Any:
    """Probabilities (n_rows, K), or margins (n_rows, K) or (n_rows, 1), of a fitted classifier."""
    steps, last = _steps(classifier)
    trees = trees_of(last)
    if trees is not None and hasattr(last, method):
        formula = partial(_of_trees, trees, method)
    elif type(last) in LINEAR and method == "decision_function":
        formula = partial(_linear, last)
    else:
        whole = Pipeline([*steps, ("classifier", last)]) if steps else last
        return _response_by_skl2onnx(whole, last, method, X)
    return formula(_by_skl2onnx(Pipeline(steps), X)[0] if steps else X.as_one())


def _steps(classifier: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Steps before the last classifier in pipelines, and that."""
    # The classifier that does the work, in frozen ones and in searches.
    while isinstance(classifier, FrozenEstimator | SEARCHES):
        is_search = isinstance(classifier, SEARCHES)
        classifier = classifier.best_estimator_ if is_search else classifier.estimator
    if not isinstance(classifier, Pipeline):
        return [], classifier
    *before, (_, last) = classifier.steps
    after, last = _steps(last)
    real = [step for _, step in before if step not in (None, "passthrough")]
    return [(f"step{i}", step) for i, step in enumerate([*real, *(s for _, s in after)])], last


def _linear(classifier: Any, F: Any) -> Any:
    """Margins of a linear classifier, whose coefficients may be sparse."""
    coef, intercept = classifier.coef_, np.asarray(classifier.intercept_, np.float64)
    coef = coef.toarray() if sparse.issparse(coef) else coef
    F = F if F.dtype.kind == "f" else xa.astype(F, np.float64)
    S = xa.double(F) @ coef.T.astype(np.float64) + intercept
    return xa.astype(S, np.result_type(F.dtype, coef.dtype))


def _of_trees(trees: Trees, method: str, F: Any) -> Any:
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
    )
    S = xa.double(found) + trees.baseline_
    if is_forest:
        return S / float(len(trees.root_))
    return S if method == "decision_function" else xa.softmax(S)


def _nodes(trees: Trees) -> dict[str, Any]:
    """Attributes of nodes, numbered from the root of their tree, and to which sum a leaf adds."""
    n_nodes, is_leaf = len(trees.feature_), trees.feature_ < 0
    of_node = np.repeat(np.arange(len(trees.root_)), np.diff(trees.root_, append=n_nodes))
    number, root = np.arange(n_nodes), trees.root_[of_node]
    leaves, n_values = np.flatnonzero(is_leaf), trees.value_.shape[1]
    first = of_node[leaves] % (len(trees.baseline_) // n_values) * n_values
    goes_left = np.zeros(n_nodes, int) if trees.missing is None else trees.missing
    return {
        "nodes_missing_value_tracks_true": goes_left.tolist(),
        "nodes_treeids": of_node.tolist(),
        "nodes_nodeids": (number - root).tolist(),
        "nodes_featureids": np.maximum(trees.feature_, 0).tolist(),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_truenodeids": np.where(is_leaf, 0, trees.left_ - root).tolist(),
        "nodes_falsenodeids": np.where(is_leaf, 0, trees.right_ - root).tolist(),
        "target_treeids": np.repeat(of_node[leaves], n_values).tolist(),
        "target_nodeids": np.repeat((number - root)[leaves], n_values).tolist(),
        "target_ids": (first[:, None] + np.arange(n_values)).ravel().tolist(),
    }


def _response_by_skl2onnx(classifier: Any, last: Any, method: str, X: Features) -> Any:
    """As skl2onnx converts the classifier, of which ``last`` is the last step."""
    margins = method == "decision_function"
    if not margins and type(last) is LinearDiscriminantAnalysis and len(last.classes_) == 2:
        raise TypeError(
            "skl2onnx converts probabilities of LinearDiscriminantAnalysis wrongly for two "
            "classes. Calibrate its decision_function, as response_method='auto' does."
        )
    options: dict[str, bool] = {"zipmap": False, **({"raw_scores": True} if margins else {})}
    values = X.values
    if type(last) in SINGLE:
        values = {name: xa.astype(value, np.float32) for name, value in values.items()}
    made = _by_skl2onnx(classifier, Features(values, {**X.options, id(last): options}))[-1]
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
    types = []
    for name, value in X.values.items():
        ((_, of_example),) = data_types.guess_data_type(value.example)
        types.append((name, type(of_example)([None, *value.shape[1:]])))  # of any number of rows
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

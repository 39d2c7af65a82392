"""Fitted ensembles of trees of scikit-learn as plain arrays, and their probabilities.

This is the only place that reads private attributes of scikit-learn: the trees of
``HistGradientBoostingClassifier`` have no public ones.
"""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import validate_data

from skcalib._rows.arrays import Array, Floats, Indices

# Classifiers whose trees these are.
ENSEMBLES = (ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier)

# Rows times trees that are followed from node to node at once.
AT_ONCE = 1 << 18


class Trees(BaseEstimator):
    """A fitted ensemble of trees: nodes of all trees, one tree after the other.

    A row at a node goes to ``left_`` if its feature is at most the threshold, else to ``right_``,
    which are later nodes. The leaves of a round of trees add their values to the scores: in a
    forest a round is one tree, whose leaves hold probabilities of all classes, and in gradient
    boosting it is one tree for each score, whose leaves hold a single number.
    """

    classes_: Array  #: labels of the columns of probabilities
    n_features_in_: int
    link_: str  #: "mean" of rounds in a forest, "sigmoid" or "softmax" of sums in boosting
    baseline_: Floats  #: scores to start from, (n_scores,)
    root_: Indices  #: first node of each tree, (n_trees,)
    feature_: Indices  #: column that a node compares, -1 for leaves, (n_nodes,)
    threshold_: Floats  #: what it is compared with, 0 for leaves, (n_nodes,)
    left_: Indices  #: node for smaller or equal features; for leaves the row of value_, (n_nodes,)
    right_: Indices  #: node for larger ones, 0 for leaves, (n_nodes,)
    value_: Floats  #: of leaves, (n_leaves, n_values)

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, bit for bit those of scikit-learn."""
        mean = self.link_ == "mean"
        X = validate_data(self, X, reset=False, dtype=np.float32 if mean else np.float64)
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
            return softmax(S, copy=False)
        p = expit(S[:, 0])
        return np.column_stack([1 - p, p])

    def _leaves(self, X: Floats) -> Indices:
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
    holds = [(array.dtype.kind, array.ndim) for array in arrays] == [
        *[("i", 1)] * 4,
        ("f", 1),
        ("f", 2),
    ]
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
    if isinstance(classifier, HistGradientBoostingClassifier):
        parts = [tree.nodes for of_round in classifier._predictors for tree in of_round]  # noqa: SLF001
        names = ("feature_idx", "num_threshold", "left", "right")
        nodes = np.concatenate(parts)
        if nodes["is_categorical"].any():
            return None
        is_leaf, value = nodes["is_leaf"] == 1, nodes["value"][:, None]
        baseline = np.array(classifier._baseline_prediction).reshape(-1)  # noqa: SLF001
        link = "softmax" if len(baseline) > 1 else "sigmoid"
    else:
        states = [member.tree_.__getstate__() for member in classifier.estimators_]
        parts = [state["nodes"] for state in states]
        names = ("feature", "threshold", "left_child", "right_child")
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
    feature, threshold, left, right = columns
    size = np.array([len(part) for part in parts])
    root = np.cumsum(size) - size
    first = np.repeat(root, size)
    trees = Trees()
    trees.root_ = root
    trees.feature_ = np.where(is_leaf, -1, feature).astype(np.intp)
    trees.threshold_ = np.where(is_leaf, 0.0, threshold)
    trees.left_ = np.where(is_leaf, np.cumsum(is_leaf) - 1, first + left.astype(np.intp))
    trees.right_ = np.where(is_leaf, 0, first + right.astype(np.intp))
    return trees

"""Fitted ensembles of trees of scikit-learn as plain arrays, and their probabilities.

This is the only place that reads private attributes of scikit-learn: the trees of
``HistGradientBoostingClassifier`` have no public ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.utils import check_array
from sklearn.utils.extmath import softmax

from skcalib._rows.arrays import Array, Bools, Floats, Indices

# Rows times trees that are followed from node to node at once.
AT_ONCE = 1 << 18

Link = Literal["mean", "sigmoid", "softmax"]


@dataclass(frozen=True, eq=False)
class Trees:
    """An ensemble of trees: nodes of all trees, one tree after the other, each from its root.

    A row at a node goes to ``left`` if its feature is at most the threshold, else to ``right``,
    which are later nodes of the same tree. The leaves of a round of trees add their values to the
    scores: in a forest a round is one tree, whose leaves hold probabilities of all classes, and
    in gradient boosting it is one tree for each score, whose leaves hold a single number.
    """

    classes_: Array  #: labels of the columns of probabilities
    n_features_in_: int
    link: Link  #: probabilities are the mean over rounds, or the sigmoid or softmax of sums
    single: bool  #: whether features are rounded to float32 first
    baseline: Floats  #: scores to start from, (n_scores,)
    root: Indices  #: first node of each tree, (n_trees,)
    feature: Indices  #: column that a node compares, -1 for leaves, (n_nodes,)
    threshold: Floats  #: what it is compared with, 0 for leaves, (n_nodes,)
    left: Indices  #: node for smaller or equal features, the leaf itself for leaves, (n_nodes,)
    right: Indices  #: node for larger ones, the leaf itself for leaves, (n_nodes,)
    value: Floats  #: of leaves, in the order of nodes, (n_leaves, n_values)

    @cached_property
    def is_leaf(self) -> Bools:
        """Whether a node is a leaf, (n_nodes,)."""
        found: Bools = self.feature < 0
        return found

    @cached_property
    def leaf(self) -> Indices:
        """Row of ``value`` for a node that is a leaf, (n_nodes,)."""
        return np.cumsum(self.is_leaf) - 1

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, bit for bit those of scikit-learn."""
        X = check_array(X, dtype=np.float32 if self.single else np.float64)
        # Sums over classes depend on the order in memory, which is that of scikit-learn.
        S = np.zeros((len(X), len(self.baseline)), order="C" if self.link == "mean" else "F")
        S += self.baseline
        n_rows = max(1, AT_ONCE // len(self.root))
        for start in range(0, len(X), n_rows):
            self._add_leaves(X[start : start + n_rows], S[start : start + n_rows])
        if self.link == "mean":
            return S / (len(self.root) * self.value.shape[1] // S.shape[1])
        if self.link == "softmax":
            return softmax(S, copy=False)
        p = expit(S[:, 0])
        return np.column_stack([1 - p, p])

    def _add_leaves(self, X: Floats, S: Floats) -> None:
        """Add the values of the leaves that rows end in, one round of trees after the other."""
        per_round = S.shape[1] // self.value.shape[1]
        leaf = self.leaf[self._ends(X)].reshape(len(X), -1, per_round)
        for k in range(leaf.shape[1]):  # in this order, on which rounding depends
            S += self.value[leaf[:, k]].reshape(S.shape)

    def _ends(self, X: Floats) -> Indices:
        """The leaves that rows end in, (n_rows * n_trees,)."""
        node = at = np.tile(self.root, len(X))
        of_node = np.arange(len(node))
        row = np.repeat(np.arange(len(X)), len(self.root))
        for _ in range(len(self.feature)):  # no path is longer
            is_inner = ~self.is_leaf[at]
            n_inner = np.count_nonzero(is_inner)
            if n_inner == 0:
                break
            if n_inner <= len(at) // 2:  # few trees are deep
                at, of_node, row = at[is_inner], of_node[is_inner], row[is_inner]
            # For leaves the last column, which does not matter.
            goes_left = X[row, self.feature[at]] <= self.threshold[at]
            at = np.where(goes_left, self.left[at], self.right[at])
            node[of_node] = at
        return node


def faults_of(trees: Trees) -> str:
    """What arrays of the right kinds and sizes need to be trees, if they are none; else nothing."""
    return next((wanted for wanted, holds in _laws(trees) if not holds), "")


def _laws(trees: Trees) -> Iterator[tuple[str, bool]]:
    """What holds for trees; each only makes sense if those before hold."""
    feature, root, value, link = trees.feature, trees.root, trees.value, trees.link
    node, is_leaf, n_classes = np.arange(len(feature)), trees.is_leaf, len(trees.classes_)
    ordered = len(root) and root[0] == 0 and root[-1] < len(feature) and (np.diff(root) > 0).all()
    yield "root nodes that increase from 0", bool(ordered)
    yield "features that there are", int(feature.max()) < trees.n_features_in_
    yield "thresholds that are numbers", not bool(np.isnan(trees.threshold).any())
    count = np.diff(np.append(root, len(feature)))
    end = np.repeat(root + count, count)
    for child in (trees.left, trees.right):
        below = np.where(is_leaf, child == node, (node < child) & (child < end))
        yield (
            "children after their node in its tree, and leaves that are their own",
            bool(below.all()),
        )
    n_scores, n_values = len(trees.baseline), value.shape[1]
    wanted = 1 if link == "sigmoid" else n_classes
    yield "a score for each class, or one for two", n_scores == wanted
    yield "two classes if there is one score", link != "sigmoid" or n_classes == 2
    yield (
        "one value in each leaf, or one per class",
        n_values == (n_scores if link == "mean" else 1),
    )
    yield "values for each leaf", len(value) == int(is_leaf.sum())
    yield "rounds of as many trees", len(root) * n_values % n_scores == 0
    yield "probabilities in the leaves", link != "mean" or _are_probabilities(value)


def _are_probabilities(P: Floats) -> bool:
    return bool(P.min() >= 0 and np.abs(P.sum(axis=1) - 1).max() < 1e-6)


def trees_of(classifier: Any) -> Trees | None:
    """The trees of a fitted classifier; None if it is of another kind, or splits by categories."""
    if isinstance(classifier, Trees):
        return classifier
    if type(classifier) in (ExtraTreesClassifier, RandomForestClassifier):
        return _of_forest(classifier)
    if type(classifier) is HistGradientBoostingClassifier:
        return _of_boosting(classifier)
    return None


def missing_goes_left(classifier: Any) -> Bools:
    """Whether missing features go to the left at each node of the trees of a classifier."""
    if type(classifier) is HistGradientBoostingClassifier:
        trees = [tree.nodes for of_round in classifier._predictors for tree in of_round]  # noqa: SLF001
        found = [nodes["missing_go_to_left"] for nodes in trees]
    else:
        found = [member.tree_.missing_go_to_left for member in classifier.estimators_]
    return np.concatenate(found).astype(bool)


def _of_forest(forest: Any) -> Trees:
    trees = [member.tree_ for member in forest.estimators_]
    feature = np.concatenate([tree.feature for tree in trees])
    value = np.concatenate([tree.value[:, 0] for tree in trees])
    return Trees(
        classes_=forest.classes_,
        n_features_in_=forest.n_features_in_,
        link="mean",
        single=True,
        baseline=np.zeros(value.shape[1]),
        value=value[feature < 0],
        **_nodes(
            np.array([tree.node_count for tree in trees]),
            feature,
            np.concatenate([tree.threshold for tree in trees]),
            np.concatenate([tree.children_left for tree in trees]),
            np.concatenate([tree.children_right for tree in trees]),
        ),
    )


def _of_boosting(classifier: Any) -> Trees | None:
    rounds = classifier._predictors  # noqa: SLF001
    trees = [tree.nodes for of_round in rounds for tree in of_round]
    nodes = np.concatenate(trees)
    is_leaf = nodes["is_leaf"].astype(bool)
    if nodes["is_categorical"].any():
        return None
    return Trees(
        classes_=classifier.classes_,
        n_features_in_=classifier.n_features_in_,
        link="softmax" if len(rounds[0]) > 1 else "sigmoid",
        single=False,
        baseline=np.array(classifier._baseline_prediction).reshape(-1),  # noqa: SLF001
        value=nodes["value"][is_leaf][:, None],
        **_nodes(
            np.array([len(tree) for tree in trees]),
            np.where(is_leaf, -1, nodes["feature_idx"]),
            nodes["num_threshold"],
            nodes["left"],
            nodes["right"],
        ),
    )


def _nodes(count: Indices, feature: Array, threshold: Floats, left: Array, right: Array) -> Any:
    """Arrays of the nodes of all trees, from those with indices of nodes inside each tree."""
    root = np.cumsum(count) - count
    first, node, is_leaf = np.repeat(root, count), np.arange(len(feature)), feature < 0
    return {
        "root": root,
        "feature": np.where(is_leaf, -1, feature).astype(np.intp),
        "threshold": np.where(is_leaf, 0.0, threshold),
        "left": np.where(is_leaf, node, first + left.astype(np.intp)),
        "right": np.where(is_leaf, node, first + right.astype(np.intp)),
    }

"""Ensembles of trees as ONNX graphs."""

from typing import Any

import numpy as np

from skcalib._rows.arrays import Bools

from ._graph import Value, concat, softmax
from ._trees import Trees


def tree_probabilities(trees: Trees, F: Value, missing: Bools | None = None) -> Value:
    """Probabilities of the classes (n_rows, n_classes) in double precision."""
    S = tree_scores(trees, F, missing)
    if trees.link == "mean":
        return S / float(len(trees.root))
    if trees.link == "softmax":
        return softmax(S)
    p = 1.0 / (1.0 + (-S).exp())
    return concat([1.0 - p, p])


def tree_scores(trees: Trees, F: Value, missing: Bools | None = None) -> Value:
    """Sums of the values of leaves (n_rows, n_scores), which runtimes round to single precision.

    ``missing`` says at which nodes features that are NaN go to the left.
    """
    graph = F.graph
    goes_left = (
        {} if missing is None else {"nodes_missing_value_tracks_true": missing.astype(int).tolist()}
    )
    F = F.astype(np.float32) if trees.single else F
    found = graph.node(
        "TreeEnsembleRegressor",
        F.astype(np.float64),
        dtype=np.dtype(np.float32),
        domain="ai.onnx.ml",
        n_targets=len(trees.baseline),
        nodes_values_as_tensor=graph.tensor(trees.threshold),
        **_nodes(trees),
        **_targets(trees),
        **goes_left,
        target_weights_as_tensor=graph.tensor(trees.value.ravel()),
    )
    return found.astype(np.float64) + trees.baseline


def _nodes(trees: Trees) -> dict[str, Any]:
    """Attributes of the nodes, which are numbered from the root of their tree."""
    n_nodes = len(trees.feature)
    tree = np.repeat(np.arange(len(trees.root)), np.diff(trees.root, append=n_nodes))
    root = trees.root[tree]
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": (np.arange(n_nodes) - root).tolist(),
        "nodes_featureids": np.maximum(trees.feature, 0).tolist(),
        "nodes_modes": np.where(trees.is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_truenodeids": np.where(trees.is_leaf, 0, trees.left - root).tolist(),
        "nodes_falsenodeids": np.where(trees.is_leaf, 0, trees.right - root).tolist(),
    }


def _targets(trees: Trees) -> dict[str, Any]:
    """Attributes of the leaves: to which of the sums they add each of their values."""
    n_values = trees.value.shape[1]
    per_round = len(trees.baseline) // n_values
    leaves = np.flatnonzero(trees.is_leaf)
    tree = np.searchsorted(trees.root, leaves, side="right") - 1
    target = (tree % per_round * n_values)[:, None] + np.arange(n_values)
    return {
        "target_treeids": np.repeat(tree, n_values).tolist(),
        "target_nodeids": np.repeat(leaves - trees.root[tree], n_values).tolist(),
        "target_ids": target.ravel().tolist(),
    }

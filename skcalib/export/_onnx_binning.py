"""Binning methods as ONNX graphs.

For two classes the log-odds themselves are compared with the log-odds of the edges, so that each
row is in the bin that it is in for the calibrator. For more classes the softmax of a runtime and
that of NumPy may differ by a rounding error, and a row whose probability is that close to an edge
may be on its other side. It is computed in double precision, whatever the dtype of the logits, and
rounded to that.
"""

from functools import partial
from typing import Any

import numpy as np

from skcalib._rows.arrays import Indices
from skcalib._scores.columns import LEAST
from skcalib.binning import BBQ, HistogramBinning, IsotonicCalibration, VennAbersCalibration

from ._formulas import Outputs, as_outputs, finite_unless_masked, formula
from ._graph import Value, concat, softmax, where
from ._onnx_search import as_log_odds, in_dtype, interpolated, steps


@formula.register(HistogramBinning)
@formula.register(IsotonicCalibration)
@formula.register(BBQ)
def _per_class(calibrator: Any, Z: Value) -> Outputs:
    return as_outputs(calibrator, Z, finite_unless_masked(partial(_one_vs_rest, calibrator), Z))


@formula.register
def _venn_abers(calibrator: VennAbersCalibration, Z: Value) -> Outputs:
    if not len(calibrator.pairs_):
        return _per_class(calibrator, Z)
    return as_outputs(calibrator, Z, finite_unless_masked(partial(_one_vs_one, calibrator), Z))


def _one_vs_rest(calibrator: Any, Z: Value) -> Value:
    """Logits of the normalized probabilities of all classes."""
    n_columns = calibrator.n_features_in_
    edges, values = calibrator.bin_edges_, calibrator.bin_values_
    if len(edges[0]) == len(values[0]):  # steps have one edge more
        P = interpolated(_probabilities(Z, n_columns).astype(np.float64), edges, values)
        return _joined(P.astype(Z.dtype), n_columns)
    inner = [of_map[1:-1] for of_map in edges]
    if n_columns > 2:
        inner = [in_dtype(of_map, Z.dtype) for of_map in inner]
        return _joined(steps(_probabilities(Z, n_columns), inner, values, Z.dtype), n_columns)
    inner = [as_log_odds(of_map, Z.dtype) for of_map in inner]
    return _joined(steps(_log_odds(Z, n_columns), inner, values, Z.dtype), n_columns)


def _log_odds(Z: Value, n_columns: int) -> Value:
    """Those of the second of two classes (n_rows, 1)."""
    return Z if n_columns == 1 else Z.columns(1, 2) - Z.columns(0, 1)


def _probabilities(Z: Value, n_columns: int) -> Value:
    """Probability of each class, or of the second of two."""
    if n_columns > 2:
        return softmax(Z.astype(np.float64)).astype(Z.dtype)
    odds = (-_log_odds(Z, n_columns)).astype(np.float64).exp().astype(Z.dtype)
    return 1.0 / (1.0 + odds)


def _joined(P: Value, n_columns: int) -> Value:
    """Logits of one-vs-rest probabilities; those of 0 are the smallest normal number."""
    tiny = np.finfo(P.dtype).tiny
    event = P.at_least(tiny).log()
    if n_columns > 2:
        return event
    other = (1.0 - P).at_least(tiny).log()
    return event - other if n_columns == 1 else concat([other, event])


def _one_vs_one(calibrator: VennAbersCalibration, Z: Value) -> Value:
    """Logits of the coupled probabilities of pairs of classes."""
    pairs, K = calibrator.pairs_, calibrator.n_features_in_
    edges = [as_log_odds(of_pair[1:-1], Z.dtype) for of_pair in calibrator.bin_edges_]
    first, second = _of_columns(Z, pairs[:, 0]), _of_columns(Z, pairs[:, 1])
    R = steps(second - first, edges, calibrator.bin_values_, np.float64)
    # Masked classes are given this logit.
    lowest = np.finfo(Z.dtype).min / 4
    R = where(first <= lowest, 1.0, where(second <= lowest, 0.0, R))
    inverse = concat([1.0 / R.at_least(LEAST), 1.0 / (1.0 - R).at_least(LEAST)])
    # For each class, where its inverse probabilities in pairs with the others are.
    is_second = [np.append(pairs[:, 1], pairs[:, 0]) == k for k in range(K)]
    of_others = np.array([np.flatnonzero(is_here) for is_here in is_second])
    total = Z.graph.node(
        "ReduceSum", _of_columns(inverse, of_others), Z.graph.constant(np.array([2])), keepdims=0
    )
    return _joined((1.0 / (total - (K - 2.0))).astype(Z.dtype), K)


def _of_columns(S: Value, columns: Indices) -> Value:
    """Some columns, in the shape of their numbers."""
    return S.graph.node("Gather", S, S.graph.constant(columns), axis=1)

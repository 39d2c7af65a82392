"""Rows, and runs of ONNX models, for tests of what they compute."""

import numpy as np
import pytest

from skcalib.datasets import make_logits

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def logits_of(n_columns, n_rows=300, dtype=np.float64):
    """Logits with a number of columns, one for two classes, and labels."""
    Z, y = make_logits(n_rows, max(n_columns, 2), temperature=2.0, random_state=0)
    return (Z[:, 1:] - Z[:, :1] if n_columns == 1 else Z).astype(dtype), y


def run(model, X, *, optimized=True):
    """The outputs of a model by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def hard_rows(Z, n_rows, rng, *, masked):
    """Rows like the logits ``Z``, these themselves, ties, extremes and masked classes."""
    shape = n_rows // 2, Z.shape[1]
    some = Z[rng.integers(len(Z), size=len(Z) // 2)]
    parts = [
        Z,
        rng.normal(size=shape) * rng.choice([1e-3, 1, 3, 30], size=(len(Z[:1]) * shape[0], 1)),
        np.round(rng.normal(size=shape)),  # ties
        *(some * scale for scale in (1e-30, 1e4, 1e30)),
        some * (8e37 / np.abs(some).max()),
        some - 1e4,
        np.where(np.arange(Z.shape[1]) == 0, some - 1e4, some),
        np.where(np.arange(Z.shape[1]) == Z.shape[1] - 1, some - 1e30, some),
        np.zeros_like(Z[:1]),
    ]
    if masked and Z.shape[1] > 1:
        mask = rng.random(some.shape) < 0.4
        mask[np.arange(len(some)), rng.integers(Z.shape[1], size=len(some))] = False
        alone = np.where(np.eye(Z.shape[1]) == 1, 2.0, -np.inf)
        parts += [np.where(mask, -np.inf, some), np.where(mask, -np.inf, 1e4 * some), alone]
    return np.concatenate(parts)

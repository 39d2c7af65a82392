"""Steps and trees in ONNX models: the very edges, and rows that were fitted."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import skcalib
from skcalib.export import to_onnx

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from onnx_cases import logits_of, run  # noqa: E402  (after the skip)

DTYPES = [np.float32, np.float64]
STEPS = [
    skcalib.HistogramBinning(),
    skcalib.HistogramBinning(n_bins=1),
    skcalib.HistogramBinning(n_bins=64, strategy="quantile"),
    skcalib.IsotonicCalibration(pseudo_rows=0),
    skcalib.IsotonicCalibration(interpolation="linear"),
    skcalib.IsotonicCalibration(interpolation="centered"),
    skcalib.BBQ(),
    skcalib.VennAbersCalibration(),
    skcalib.VennAbersCalibration(merge="brier"),
]
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-6}


def difference(calibrator, X):
    """Largest difference of probabilities in each row."""
    P = run(to_onnx(calibrator, dtype=X.dtype), X)["probabilities"]
    return np.abs(P - calibrator.predict_proba(X)).max(axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("calibrator", STEPS, ids=repr)
def test_steps_of_two_classes_are_exact(calibrator, dtype, rng):
    """Rows at each edge and next to it, rows of the fit, and rows with very large log-odds."""
    for n_columns in (1, 2):
        Z, y = logits_of(n_columns, 1000, dtype)
        calibrator.fit(Z, y)
        edges = logit(calibrator.bin_edges_[0][1:-1]).astype(dtype)
        beside = [edges]
        for far in (-np.inf, np.inf):
            one = np.nextafter(edges, dtype(far))
            beside += [one, np.nextafter(one, dtype(far))]
        m = np.concatenate([*beside, [0, -1e3, 1e3, -1e30, 1e30], rng.normal(size=500)])
        M = m.astype(dtype)[:, None]
        X = np.concatenate([Z, M if n_columns == 1 else np.hstack([0 * M, M])])
        assert difference(calibrator, X).max() < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("calibrator", STEPS, ids=repr)
def test_steps_of_several_classes_differ_at_edges_only(calibrator, dtype, rng):
    """Rows differ only where a probability is within four rounding errors of an edge."""
    Z, y = logits_of(4, 1000, dtype)
    calibrator.fit(Z, y)
    ties = np.repeat([[0, 0, 0, 0], [1, 1, 0, -np.inf], [5, -np.inf, 5, 5]], 2, axis=0)
    X = np.concatenate([Z, rng.normal(size=(1000, 4)) * 4, ties]).astype(dtype)
    # Where scores in single precision are neighbours, interpolation multiplies their errors.
    is_steep = dtype == np.float32 and "linear" in calibrator.get_params().values()
    wrong = difference(calibrator, X) > (1e-3 if is_steep else TOLERANCE[dtype])
    assert not wrong[:1000].any()
    P = np.exp(X.astype(np.float64))
    P /= P.sum(axis=1, keepdims=True)
    rounding = 4 * np.finfo(dtype).eps * P
    away = [
        np.abs(P[:, k, None] - edges).min(axis=1) > rounding[:, k]
        for k, edges in enumerate(calibrator.bin_edges_)
    ]
    assert not (wrong & np.all(away, axis=0)).any()
    assert wrong.sum() <= 2


def test_pairs_of_classes_are_exact():
    for dtype in DTYPES:
        Z, y = logits_of(4, 500, dtype)
        calibrator = skcalib.VennAbersCalibration(multi_class="ovo").fit(Z, y)
        X = np.concatenate([Z, np.eye(4, dtype=dtype), np.zeros((1, 4), dtype)])
        X = np.concatenate([X, np.where(np.arange(4) == 2, dtype(-np.inf), X)])
        assert difference(calibrator, X).max() < TOLERANCE[dtype]


def test_the_size_of_a_search_does_not_grow_with_the_edges():
    """Nodes grow as the logarithm of the number of edges."""
    rng = np.random.default_rng(0)
    n_nodes = []
    for n_rows in (100, 10_000):
        Z = rng.normal(size=(n_rows, 1))
        calibrator = skcalib.VennAbersCalibration().fit(Z, rng.random(n_rows) < expit(Z[:, 0]))
        model = to_onnx(calibrator, dtype="float64")
        n_nodes.append(len(model.graph.node))
        assert difference(calibrator, Z).max() < 1e-6
    assert n_nodes[1] < 3 * n_nodes[0]
    assert n_nodes[1] < 120


FORESTS = [
    ExtraTreesClassifier(5, min_samples_leaf=5, random_state=0),
    RandomForestClassifier(5, random_state=0),
]


@pytest.mark.parametrize("estimator", [None, *FORESTS], ids=lambda e: type(e).__name__)
def test_trees_are_exact_in_double_precision(estimator):
    for n_columns in (1, 2, 5):
        Z, y = logits_of(n_columns, 600, np.float64)
        Z[:, 0] *= 1 + (Z[:, 0] > 0)
        X = np.concatenate([Z, -Z, 30 * Z])
        assert (
            difference(skcalib.experimental.EstimatorCalibration(estimator).fit(Z, y), X).max()
            < 1e-6
        )


def test_trees_do_not_divide_ties(rng):
    """Votes of a forest are equal up to rounding errors of their logarithms."""
    votes = rng.multinomial(10, [0.5, 0.3, 0.2], size=900) / 10
    with np.errstate(divide="ignore"):
        Z = np.log(np.maximum(votes, 1e-15))
    y = (rng.random((900, 1)) > np.cumsum(votes, axis=1)).sum(axis=1)
    calibrator = skcalib.experimental.EstimatorCalibration().fit(Z, y)
    assert difference(calibrator, Z).max() < 1e-6
    shifted = Z + rng.normal(size=(900, 1))
    P = calibrator.predict_proba(Z)
    np.testing.assert_allclose(calibrator.predict_proba(shifted), P, atol=1e-6)


@pytest.mark.filterwarnings("ignore::families.AbsentClassesWarning")
def test_a_class_that_no_row_is_labelled_with():
    Z, y = logits_of(4, 300, np.float64)
    some = y != 2
    calibrator = skcalib.experimental.EstimatorCalibration(classes=range(4)).fit(Z[some], y[some])
    assert difference(calibrator, Z).max() < 1e-6


@pytest.mark.parametrize("shrinkage", [0, 20])
def test_top_labels_with_steps_are_exact(shrinkage):
    Z, y = logits_of(3, 800, np.float64)
    calibrator = skcalib.experimental.TopLabelCalibration(
        skcalib.HistogramBinning(strategy="quantile"), shrinkage=shrinkage
    )
    assert difference(calibrator.fit(Z, y), Z).max() < 1e-6

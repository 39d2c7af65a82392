"""Any input leads to the documented errors, or to finite numbers that obey the laws."""

import warnings
from functools import partial
from inspect import signature

import matplotlib.pyplot as plt
import numpy as np
import pytest
from families import CALIBRATORS, both_columns
from hypothesis import given, reject, settings, strategies as st
from scipy.special import softmax
from sklearn.tree import DecisionTreeClassifier

import skcalib
from skcalib import metrics
from skcalib.monitor import CalibrationMonitor

# Property tests of the whole package. Quick property tests are in the folders.
pytestmark = pytest.mark.slow

SIZES = [0.0, 1.0, -1.0, 1e-8, 1e-300, 3.0, 40.0, 1e4, -1e4, 1e30]
SPOILS = [np.nan, np.inf, -np.inf, 1e308]


def answer(function, *args, **kwargs):
    """The result of a call. Hypothesis fails if messages leave too few examples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # also of convergence
        try:
            return function(*args, **kwargs)
        except ValueError as refusal:
            assert len(str(refusal)) > 20  # noqa: PT017
            reject()


def rarely(usual, rare):
    return st.sampled_from([*[usual] * 9, rare])


@st.composite
def problems(draw):
    """Logits, labels, weights or None: of any type, often degenerate, at times no good."""
    K = draw(st.integers(1, 4))
    # Every class has rows for two folds, or some may have none.
    least = draw(rarely(2 * list(range(max(K, 2))), [0]))
    y = np.array(least + draw(st.lists(st.integers(0, max(K, 2) - 1), max_size=8)))
    y, n = y[draw(st.permutations(range(len(y))))], len(y)
    values = st.lists(st.sampled_from(SIZES), min_size=n * K, max_size=n * K)
    Z = np.array(draw(values)).reshape(n, K)
    if draw(rarely(False, True)):
        Z[draw(st.integers(0, n - 1)), draw(st.integers(0, K - 1))] = draw(st.sampled_from(SPOILS))
    kind = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Clip values that overflow in integers and float16, which calibrators refuse.
        largest = {np.int64: 1e15, np.float16: 6e4}.get(kind, np.inf)
        Z = np.where(np.isfinite(Z), np.clip(Z, -largest, largest), Z).astype(kind)
    Z = np.asfortranarray(Z) if draw(st.booleans()) else Z
    labels = draw(st.sampled_from([None, np.array(["a", "b", "c", "d"]), np.array([7, -1, 9, 3])]))
    weights = st.sampled_from([1.0, 2.5, 1e-12, 1e12, 0.0])
    w = draw(st.none() | st.lists(weights, min_size=n, max_size=n).map(np.array))
    return Z, y if labels is None else labels[y], w


@pytest.mark.parametrize("kind", CALIBRATORS)
@settings(max_examples=8)
@given(problem=problems())
def test_calibrators(kind, problem):
    Z, y, w = problem
    before = Z.copy()
    calibrator = answer(kind().fit, Z, y, w)
    assert np.array_equal(Z, before, equal_nan=True)
    K = len(calibrator.classes_)
    P, log_P = calibrator.predict_proba(Z), calibrator.predict_log_proba(Z)
    possible = ~np.isneginf(both_columns(np.asarray(Z, dtype=float)))
    assert P.shape == log_P.shape == possible.shape == (len(Z), K)
    assert np.isfinite(P).all()
    assert np.isfinite(log_P[possible]).all()
    assert np.isfinite(calibrator.transform(Z)[~np.isneginf(Z)]).all()
    np.testing.assert_allclose(np.exp(log_P), P, rtol=1e-4, atol=1e-30)
    assert P.dtype == (Z.dtype if Z.dtype in (np.float32, np.float64) else np.float64)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert np.isin(calibrator.predict(Z), calibrator.classes_).all()


@st.composite
def judged(draw):
    """Labels, probabilities, weights or None."""
    Z, y, w = draw(problems())
    with np.errstate(all="ignore"):
        P = softmax(np.clip(np.nan_to_num(Z.astype(float)), -1e5, 1e5), axis=1)
    if P.shape[1] == 1 or (P.shape[1] == 2 and draw(st.booleans())):
        P = P[:, 0] * draw(st.sampled_from([1.0, 0.5, 0.3, 0.0, 1.5]))
    return y, P.astype(draw(st.sampled_from([np.float64, np.float32]))), w


# The error of segments takes features and has its own tests.
FUNCTIONS = [
    getattr(metrics, name)
    for name in metrics.__all__
    if name.endswith("_error") and not name.startswith("multi")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@settings(max_examples=12)
@given(
    rows=judged(),
    kind=st.sampled_from(["top-label", "classwise", "binary"]),
    n_bins=st.sampled_from([1, 2, 15, 100]),
    strategy=st.sampled_from(["uniform", "quantile"]),
)
def test_measures(function, rows, kind, n_bins, strategy):
    y, P, w = rows
    has_bins = "n_bins" in signature(function).parameters
    bins = {"n_bins": n_bins, "strategy": strategy} if has_bins else {}
    value = answer(function, y, P, kind=kind, sample_weight=w, **bins)
    curve = answer(metrics.reliability_curve, y, P, kind=kind, sample_weight=w)
    parts = answer(metrics.score_decomposition, y, P, kind=kind, sample_weight=w)
    assert 0 <= value <= 1 + 1e-6
    low, high = curve.interval()
    assert ((low <= curve.accuracy + 1e-9) & (curve.accuracy <= high + 1e-9)).all()
    assert (np.asarray(parts.miscalibration) >= -1e-9).all()
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    np.testing.assert_allclose(total, parts.score, atol=1e-9)


@settings(max_examples=12)
@given(rows=judged(), seed=st.integers(0, 99))
def test_intervals_tests_and_monitors(rows, seed):
    y, P, w = rows
    draws = {"n_resamples": 5, "random_state": seed, "sample_weight": w}
    interval = answer(metrics.calibration_error_interval, y, P, **draws)
    test = answer(metrics.calibration_test, y, P, **draws)
    compared = answer(metrics.calibration_difference, y, P, P, **draws)
    assert 0 <= interval.low <= interval.high
    assert 0 < test.pvalue <= 1
    assert compared.estimate == 0
    if P.ndim == 2 and len(np.unique(y)) == P.shape[1]:
        monitor = CalibrationMonitor(labels=np.unique(y))
        answer(monitor.update, y, P, w)
        assert monitor.measure("expected_calibration_error") == pytest.approx(interval.estimate)


DRAWN = [
    skcalib.ReliabilityDisplay.from_predictions,
    skcalib.ConfidenceDisplay.from_predictions,
    partial(skcalib.ReliabilityDisplay.from_predictions, kind="classwise", subset=2),
    partial(skcalib.ReliabilityDisplay.from_predictions, style="corp", n_resamples=5),
    partial(skcalib.ReliabilityDisplay.from_predictions, style="smooth", n_resamples=5),
]


@pytest.mark.parametrize("draw", DRAWN, ids=["bars", "confidence", "grid", "corp", "smooth"])
@settings(max_examples=8)
@given(rows=judged())
def test_diagrams(draw, rows):
    y, P, w = rows
    display = answer(draw, y, P, sample_weight=w)
    display.figure_.draw_without_rendering()
    ax = display.ax_ if hasattr(display, "ax_") else display.axes_[0]
    corners = np.array([patch.get_extents().get_points() for patch in ax.patches])
    assert np.isfinite(corners).all()
    plt.close("all")


@settings(max_examples=20)
@given(problem=problems(), calibrator=st.sampled_from(CALIBRATORS), ensemble=st.booleans())
def test_classifiers(problem, calibrator, ensemble):
    X, y, w = problem
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    model = skcalib.CalibratedClassifier(tree, calibrator(), cv=2, ensemble=ensemble)
    answer(model.fit, X, y, sample_weight=w)
    P = model.predict_proba(X)
    assert P.shape == (len(X), len(model.classes_))
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert np.isin(model.predict(X), model.classes_).all()
    transformer = skcalib.LogitTransformer(tree, cv=2)
    logits = answer(transformer.fit_transform, X, y)
    assert np.isfinite(logits).all()
    assert logits.shape == transformer.transform(X).shape

"""Whatever goes in: the documented errors, or finite numbers that obey the laws."""

import warnings
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
from families import CALIBRATORS
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.tree import DecisionTreeClassifier

import skcalib
from skcalib import metrics
from skcalib.datasets import make_logits

SIZES = [0.0, 1.0, -1.0, 1e-8, 1e-300, 3.0, 40.0, 1e4, -1e4, 1e30]
SPOILS = [np.nan, np.inf, -np.inf, 1e308]


@st.composite
def problems(draw):
    """Logits, labels, weights or None: of any type, often degenerate, at times no good."""
    n, K = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    values = st.lists(st.sampled_from(SIZES), min_size=n * K, max_size=n * K)
    Z = np.array(draw(values)).reshape(n, K)
    if draw(st.integers(0, 9)) == 0:
        Z[draw(st.integers(0, n - 1)), draw(st.integers(0, K - 1))] = draw(st.sampled_from(SPOILS))
    kind = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Z = Z.astype(kind)
    Z = np.asfortranarray(Z) if draw(st.booleans()) else Z
    y = np.array(draw(st.lists(st.integers(0, max(K, 2) - 1), min_size=n, max_size=n)))
    labels = draw(st.sampled_from([None, np.array(["a", "b", "c", "d"]), np.array([7, -1, 9, 3])]))
    weights = st.sampled_from([0.0, 1.0, 2.5, 1e-12, 1e12])
    w = draw(st.none() | st.lists(weights, min_size=n, max_size=n).map(np.array))
    return Z, y if labels is None else labels[y], w


@pytest.mark.parametrize("kind", CALIBRATORS)
@settings(max_examples=12)
@given(problem=problems())
def test_calibrators(kind, problem):
    Z, y, w = problem
    before = Z.copy()
    calibrator = kind()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # also of convergence, which it may doubt
        try:
            calibrator.fit(Z, y, w)
        except ValueError as refusal:
            assert len(str(refusal)) > 20  # noqa: PT017
            return
    assert np.array_equal(Z, before, equal_nan=True)
    K = len(calibrator.classes_)
    outputs = calibrator.transform(Z), calibrator.predict_log_proba(Z)
    P = calibrator.predict_proba(Z)
    assert all(np.isfinite(output).all() for output in (*outputs, P))
    assert P.shape == (len(Z), K)
    assert P.dtype == (Z.dtype if Z.dtype in (np.float32, np.float64) else np.float64)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
    assert np.isin(calibrator.predict(Z), calibrator.classes_).all()


@st.composite
def judged(draw):
    """Labels, probabilities, weights or None."""
    Z, y, w = draw(problems())
    with np.errstate(all="ignore"):
        P = softmax(np.clip(np.nan_to_num(Z.astype(float)), -1e5, 1e5), axis=1)
    if P.shape[1] == 1 or draw(st.booleans()):
        P = P[:, 0] * draw(st.sampled_from([1.0, 0.5, 0.0, 1.5]))
    return y, P.astype(draw(st.sampled_from([np.float64, np.float32]))), w


FUNCTIONS = [getattr(metrics, name) for name in metrics.__all__ if name.endswith("_error")]


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
    bins = {} if "smooth" in function.__name__ else {"n_bins": n_bins, "strategy": strategy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            value = function(y, P, kind=kind, sample_weight=w, **bins)
            curve = metrics.reliability_curve(y, P, kind=kind, sample_weight=w)
            parts = metrics.score_decomposition(y, P, kind=kind, sample_weight=w)
        except ValueError as refusal:
            assert len(str(refusal)) > 20  # noqa: PT017
            return
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            interval = metrics.calibration_error_interval(y, P, **draws)
        except ValueError as refusal:
            assert len(str(refusal)) > 20  # noqa: PT017
            return
        test = metrics.calibration_test(y, P, **draws)
        compared = metrics.compare_calibration(y, P, P, **draws)
    assert 0 <= interval.low <= interval.high
    assert 0 < test.pvalue <= 1
    assert compared.statistic == 0
    if P.ndim == 2 and np.unique(y).tolist() == list(range(P.shape[1])):
        monitor = skcalib.CalibrationMonitor(labels=range(P.shape[1])).update(y, P, w)
        assert monitor.expected_calibration_error() == pytest.approx(interval.estimate)


def said(action):
    """What the action returns, or None if it refuses with a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return action()
        except ValueError as refusal:
            assert len(str(refusal)) > 20  # noqa: PT017
            return None


DRAWN = [
    skcalib.ReliabilityDisplay.from_predictions,
    skcalib.ConfidenceDisplay.from_predictions,
    partial(skcalib.ReliabilityDisplay.from_predictions, kind="classwise", max_classes=2),
    partial(skcalib.ReliabilityDisplay.from_predictions, style="corp", n_resamples=5),
]


@pytest.mark.parametrize("draw", DRAWN, ids=["bars", "confidence", "grid", "corp"])
@settings(max_examples=8)
@given(rows=judged())
def test_diagrams(draw, rows):
    y, P, w = rows
    display = said(lambda: draw(y, P, sample_weight=w))
    if display is not None:
        display.figure_.draw_without_rendering()
        ax = display.ax_ if hasattr(display, "ax_") else display.axes_[0]
        corners = np.array([patch.get_bbox().get_points() for patch in ax.patches])
        assert np.isfinite(corners).all()
    plt.close("all")


@settings(max_examples=5)
@given(problem=problems())
def test_temperature_sweeps_and_reports(problem):
    Z, y, w = problem
    sweep = said(lambda: skcalib.TemperatureSweepDisplay.from_logits(y, Z, sample_weight=w))
    if sweep is not None:
        assert np.isfinite(sweep.log_losses).all()
    calibrator = skcalib.HistogramBinning()
    if said(lambda: calibrator.fit(Z, y, w)) is not None:
        figure = said(lambda: skcalib.calibration_report(calibrator, Z, y, sample_weight=w))
        figure.draw_without_rendering()
    plt.close("all")


@settings(max_examples=20)
@given(problem=problems())
def test_comparisons_and_scorers(problem):
    Z, y, w = problem
    some = [skcalib.TemperatureScaling(), skcalib.HistogramBinning()]
    found = said(lambda: skcalib.compare_calibrators(Z, y, calibrators=some, cv=2, sample_weight=w))
    if found is not None:
        assert all(np.isfinite(values).all() for values in found.scores.values())
    calibrator = some[0]
    if said(lambda: calibrator.fit(Z, y, w)) is not None:
        for name in ("expected_calibration_error", "maximum_calibration_error"):
            score = metrics.get_scorer(f"neg_{name}")(calibrator, Z, y, sample_weight=w)
            P, labels = calibrator.predict_proba(Z), calibrator.classes_
            value = getattr(metrics, name)(y, P, labels=labels, sample_weight=w)
            assert score == -value


@settings(max_examples=20)
@given(problem=problems(), calibrator=st.sampled_from(CALIBRATORS), ensemble=st.booleans())
def test_classifiers(problem, calibrator, ensemble):
    X, y, w = problem
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    model = skcalib.CalibratedClassifier(tree, calibrator(), cv=2, ensemble=ensemble)
    if said(lambda: model.fit(X, y, sample_weight=w)) is not None:
        P = model.predict_proba(X)
        assert P.shape == (len(X), len(model.classes_))
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-5)
        assert np.isin(model.predict(X), model.classes_).all()
    transformer = skcalib.LogitTransformer(tree, cv=2)
    logits = said(lambda: transformer.fit_transform(X, y))
    if logits is not None:
        assert np.isfinite(logits).all()
        assert logits.shape == transformer.transform(X).shape


@settings(max_examples=20)
@given(
    n=st.integers(0, 20),
    K=st.integers(0, 5),
    temperature=st.sampled_from([0.0, 1e-8, 1.0, 1e8, np.inf]),
    spread=st.sampled_from([0.0, 1e-8, 1.0, 1e8]),
    seed=st.integers(0, 9),
)
def test_made_logits(n, K, temperature, spread, seed):
    made = said(
        lambda: make_logits(n, K, temperature=temperature, spread=spread, random_state=seed)
    )
    if made is not None:
        Z, y = made
        assert Z.shape == (n, K)
        assert y.shape == (n,)
        assert np.isfinite(Z).all()
        assert ((y >= 0) & (y < K)).all()

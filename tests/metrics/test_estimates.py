"""Estimates without bias or bins, decompositions, intervals, tests: literally and by simulation."""

import numpy as np
import pytest
from families import GAPS
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss
from test_metrics import DEBIASED, KINDS

from skcalib import metrics
from skcalib.datasets import make_logits

ALL = [*GAPS, *DEBIASED, metrics.smooth_calibration_error]


def sample(n, temperature=1.0, seed=0, n_classes=3):
    logits, y = make_logits(n, n_classes, temperature=temperature, random_state=seed)
    return y, softmax(logits, axis=1)


# --------------------------------------------------------------------------------------
# Without bias.


def test_debiased_error_matches_many_resamples(rng):
    """Kumar et al. draw the accuracy of each bin anew; here the mean over all draws is exact."""
    y, P = sample(300, 1.5)
    curve = metrics.reliability_curve(y, P)
    share = curve.weight / curve.weight.sum()
    deviation = np.sqrt(curve.accuracy * (1 - curve.accuracy) / curve.n_samples)
    drawn = rng.normal(curve.accuracy, deviation, size=(200_000, len(share)))
    resampled = (share * np.abs(drawn - curve.confidence)).sum(axis=1).mean()
    expected = 2 * metrics.expected_calibration_error(y, P) - resampled
    assert metrics.debiased_expected_calibration_error(y, P) == pytest.approx(expected, abs=2e-4)


def square_without_bias(y, P):
    curve = metrics.reliability_curve(y, P)
    gap, noise = curve.gap, curve.accuracy * (1 - curve.accuracy) / (curve.n_samples - 1).clip(1)
    return np.average(gap**2 - noise * (curve.n_samples > 1), weights=curve.weight)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_bias_is_taken_off(temperature):
    """The square without bias; the mean size with the better part of it gone."""
    truth = [f(*sample(400_000, temperature)) for f in ALL[:3]]
    ece, rmsce = truth[0], truth[2]
    estimates = (
        metrics.expected_calibration_error,
        metrics.debiased_expected_calibration_error,
        lambda y, P: metrics.root_mean_squared_calibration_error(y, P) ** 2,
        square_without_bias,
    )
    samples = (sample(300, temperature, seed) for seed in range(200))
    draws = np.array([[estimate(*rows) for estimate in estimates] for rows in samples])
    plain, debiased, square, debiased_sq = draws.mean(axis=0) - [ece, ece, rmsce**2, rmsce**2]
    error = draws.std(axis=0) / np.sqrt(200)
    assert abs(debiased_sq) < 4 * error[3] < square
    assert abs(debiased) < 0.65 * plain


# --------------------------------------------------------------------------------------
# Without bins.


def literal_smooth(y, p, w=None):
    """The definition: a normal kernel, reflected at both ends, and an integral."""
    w = np.ones(len(p)) if w is None else w
    t = (np.arange(100_000) + 0.5) / 100_000

    def error(width):
        smoothed = np.zeros_like(t)
        for weight, residual, centre in zip(w, p - y, p, strict=True):
            for image in (*(2 * k + centre for k in (-1, 0, 1)), *(2 * k - centre for k in (0, 1))):
                smoothed += weight * residual * norm.pdf(t, image, width)
        return np.abs(smoothed).mean() / w.sum()

    return brentq(lambda width: error(width) - width, 0.02, 1, xtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_smooth_error_is_the_literal_definition(weighted, rng):
    p = rng.uniform(size=12)
    y = rng.uniform(size=12) < p**2
    w = rng.uniform(size=12) if weighted else None
    expected = literal_smooth(y, p, w)
    got = metrics.smooth_calibration_error(y, p, kind="binary", sample_weight=w)
    assert got == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_mass_at_the_ends_counts_in_full(end):
    """Mass in the outermost grid cells must not be halved, which gives 0.132 for 0.1 elsewhere."""
    y = (np.arange(100) < 90) == end
    error = metrics.smooth_calibration_error(y, np.full(100, end), kind="binary")
    assert error == pytest.approx(0.1)


def test_smooth_error_of_perfect_predictions_is_zero():
    assert metrics.smooth_calibration_error([0, 1, 1], [0.0, 1.0, 1.0], kind="binary") == 0
    # Smaller than the grid is fine: half of the rows are off by 2e-6, to either side.
    y = np.arange(1_000_000) % 2
    assert metrics.smooth_calibration_error(y, np.full(10**6, 0.5 + 1e-6), kind="binary") < 2e-6


# --------------------------------------------------------------------------------------
# Decomposition.


def own_score(name, event, p, w=None):
    if name == "log_loss":
        return log_loss(event, p, labels=[False, True], sample_weight=w)
    return brier_score_loss(event, p, pos_label=True, sample_weight=w)


@pytest.mark.parametrize("score", ["log_loss", "brier_score"])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_match_scikit_learns_isotonic_regression(score, weighted, rng):
    y, P = sample(300, 2.0)
    w = rng.integers(1, 4, size=300).astype(float) if weighted else None
    p, event = P.max(axis=1), P.argmax(axis=1) == y
    recalibrated = IsotonicRegression().fit(p, event, sample_weight=w).predict(p)
    rate = np.full(300, np.average(event, weights=w))
    s, best, constant = (own_score(score, event, q, w) for q in (p, recalibrated, rate))
    parts = metrics.score_decomposition(y, P, score=score, sample_weight=w)
    assert parts.score == pytest.approx(s)
    assert parts.miscalibration == pytest.approx(s - best, abs=1e-9)
    assert parts.discrimination == pytest.approx(constant - best, abs=1e-9)
    assert parts.uncertainty == pytest.approx(constant)
    assert parts.label is None


def test_classwise_parts_name_the_classes():
    y, P = sample(300)
    names = np.array(["a", "b", "c"])
    parts = metrics.score_decomposition(names[y], P, score="brier_score", kind="classwise")
    assert parts.label.tolist() == ["a", "b", "c"]
    for k in range(3):
        one = metrics.score_decomposition(y == k, P[:, k], score="brier_score", kind="binary")
        assert parts.discrimination[k] == pytest.approx(one.discrimination)


# --------------------------------------------------------------------------------------
# Intervals and tests.


@pytest.mark.parametrize("measure", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_estimate_and_statistic_are_the_measure(measure, kind, rng):
    y, P = sample(150, 2.0, n_classes=2 if kind == "binary" else 3)
    w = rng.uniform(size=150)
    given = {"kind": kind, "sample_weight": w, "labels": range(P.shape[1])}
    expected = measure(y, P, **given)
    given |= {"measure": measure.__name__, "n_resamples": 3, "random_state": 0}
    interval = metrics.calibration_error_interval(y, P, **given)
    assert interval.estimate == pytest.approx(expected)
    assert 0 <= interval.low <= interval.high
    assert metrics.calibration_test(y, P, **given).statistic == pytest.approx(expected)
    found = metrics.calibration_difference(y, P, P[::-1], **given)
    other = measure(y, P[::-1], kind=kind, sample_weight=w, labels=range(P.shape[1]))
    assert found.estimate == pytest.approx(other - expected)
    assert found.low <= found.high
    assert metrics.calibration_difference(y, P[::-1], P, **given).estimate == -found.estimate


def test_results_are_readable():
    result = metrics.CalibrationTestResult(1.2251159, 0.231)
    assert str(result) == "1.23 (p-value 0.231)"
    assert str(metrics.CalibrationTestResult(0.0123, 1e-7)) == "0.012 (p-value < 0.001)"
    found = metrics.CalibrationDifference(-0.1234, -0.19, -0.0612, 0.001)
    assert str(found) == "-0.12 (interval -0.19 to -0.061, p-value 0.001)"


def test_different_models_are_distinguished():
    y, P = sample(1000, 2.0)
    Q = softmax(np.log(P) / 2, axis=1)
    given = {"n_resamples": 119, "random_state": 0}
    found = metrics.calibration_difference(y, P, Q, **given)
    assert found.pvalue < 0.01
    assert found.low < found.estimate < found.high < 0
    back = metrics.calibration_difference(y, Q, P, **given)
    assert (back.estimate, back.low, back.high) == (-found.estimate, -found.high, -found.low)
    same = metrics.calibration_difference(y, P, P, **given)
    assert (same.estimate, same.pvalue) == (0, 1)


def test_p_values_of_differences_of_errors_are_shares_of_bootstrap_samples():
    """Also with more samples than rows, where scores have the jackknife."""
    y, P = sample(60, 2.0)
    found = metrics.calibration_difference(
        y, P, softmax(np.log(P) / 1.5, axis=1), measure="expected_calibration_error",
        n_resamples=99, random_state=0,
    )  # fmt: skip
    assert 100 * found.pvalue == pytest.approx(round(100 * found.pvalue))
    assert 100 * found.pvalue < 100


@pytest.mark.filterwarnings("ignore:Intervals of binned errors need half")  # two rows
def test_no_error_at_all():
    """The upper limit is 0.5 for two rows and nearly 0 for two thousand."""
    for n, high in [(1, 0.5), (1000, 0.003)]:
        interval = metrics.calibration_error_interval([0, 1] * n, [0.0, 1.0] * n, n_resamples=9)
        assert interval.estimate == interval.low == 0
        assert high / 2 < interval.high < high


def test_an_error_smaller_than_chance_allows():
    """Recalibration on the same rows causes this. The interval holds 0 and positive errors."""
    score = np.repeat([0.25, 0.75], 400)
    y = np.tile([1, 0, 0, 0], 100).tolist() + np.tile([1, 1, 1, 0], 100).tolist()
    y[0] = 0
    interval = metrics.calibration_error_interval(y, score, kind="binary", random_state=0)
    assert interval.low == 0
    assert interval.estimate < 0.02 < interval.high < 0.04


@pytest.mark.parametrize(
    "bad",
    [("measure", "ECE"), *(("n_resamples", n) for n in (0, True, 9.0)),
     *(("confidence_level", level) for level in (0, 1, 95, -0.5))],
)  # fmt: skip
def test_bad_arguments_are_named(bad):
    y, P = sample(20)
    interval, test = metrics.calibration_error_interval, metrics.calibration_test
    for function in (interval, test) if bad[0] != "confidence_level" else (interval,):
        with pytest.raises(ValueError, match=bad[0]):
            function(y, P, **dict([bad]))
    with pytest.raises(ValueError, match=bad[0]):
        metrics.calibration_difference(y, P, P, **dict([bad]))


@pytest.mark.parametrize("kind", ["binary", "classwise"])
def test_parts_are_finite_where_a_weight_is_lost_beside_another(kind):
    """The frequency of an event rounds to 1, though it did not always happen."""
    P, w = [[0.5, 0.5], [0.3, 0.7]], [1e-12, 1e12]
    parts = metrics.score_decomposition([0, 1], P, kind=kind, sample_weight=w)
    for value in (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty):
        assert np.isfinite(value).all()


def test_upper_end_where_most_draws_lack_the_gap():
    """One row is off, and one in ten of such rows might be."""
    y, p = np.ones(50, int), np.ones(50)
    p[0] = 0.25
    given = {"labels": [0, 1], "n_resamples": 50, "random_state": 0}
    found = metrics.calibration_error_interval(y, p, **given)
    assert found.estimate == pytest.approx(0.75 / 50)
    high = 1.96**2 / (49 + 1.96**2)  # Wilson's, of the fraction of an event that did not happen
    assert high < found.high < 1.8 * high


def test_certain_labels_have_a_p_value_of_one():
    """Every draw gives the same labels and, up to rounding, the same error."""
    y, certain = np.ones(20, int), np.full(20, 1 - 1e-9)
    test = metrics.calibration_test(y, certain, labels=[0, 1], n_resamples=99, random_state=0)
    assert test.statistic > 0
    assert test.pvalue == 1


def test_the_smooth_error_of_labels_out_of_order_has_an_interval(rng):
    """One-dimensional probabilities belong to the second entry of ``labels``."""
    p = rng.uniform(size=100) ** 2
    y = np.where(rng.uniform(size=100) < p, "ant", "zebra")
    given = {"kind": "binary", "labels": ["zebra", "ant"]}
    error = metrics.smooth_calibration_error(y, p, **given)
    given |= {"measure": "smooth_calibration_error", "n_resamples": 1, "random_state": 0}
    interval = metrics.calibration_error_interval(y, p, **given)
    assert interval.estimate == pytest.approx(error)
    assert error < 0.1

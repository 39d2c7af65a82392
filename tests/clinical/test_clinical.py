"""Figures of the clinic: closed forms, other programs, likelihoods and sums written out."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit
from scipy.stats import binom, chi2, norm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from skcalib.clinical import (
    calibration_intercept,
    calibration_slope,
    integrated_calibration_index,
    net_benefit,
    net_benefit_curve,
)
from skcalib.decision import expected_cost
from skcalib.metrics import (
    calibration_difference,
    calibration_error_interval,
    calibration_test,
    smooth_calibration_error,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(-1, 1.5, size=300)
Y = (RNG.uniform(size=300) < expit(0.6 * Z + 0.4)).astype(int)
P = expit(Z)
W = RNG.integers(0, 4, size=300)
LOGISTIC = [calibration_slope, calibration_intercept]
RISKS = [*LOGISTIC, integrated_calibration_index, net_benefit_curve]
values = pytest.mark.parametrize("figure", RISKS, ids=lambda f: f.__name__)


def numbers(result):
    return np.hstack([*vars(result).values()] if hasattr(result, "__dict__") else [result])


@values
def test_weights_are_repetitions_and_order_does_not_matter(figure):
    """Weights are repetitions, the order does not matter, and the event may be the other class."""
    weighted = numbers(figure(Y, P, sample_weight=W))
    order = RNG.permutation(300)
    repeated = figure(np.repeat(Y[order], W[order]), np.repeat(P[order], W[order]))
    np.testing.assert_allclose(numbers(repeated), weighted, rtol=1e-6)
    names = np.array(["sick", "fit"])[Y]  # fit is the first, and is said to be the event
    for given in (P, np.column_stack([P, 1 - P])):
        found = figure(names, given, sample_weight=W, pos_label="fit")
        np.testing.assert_allclose(numbers(found), weighted, rtol=1e-6)


def profile(slope, y, p, w):
    """Smallest sum of log losses for a slope."""
    z = slope * logit(p)
    return minimize_scalar(
        lambda a: -np.sum(w * np.where(y, np.log(expit(z + a)), np.log(expit(-z - a)))),
        bracket=(-1, 1), tol=1e-12,
    ).fun  # fmt: skip


@pytest.mark.parametrize("w", [np.ones(300), W.astype(float)])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_slope_matches_logistic_regression(w, level):
    found = calibration_slope(Y, P, sample_weight=w, confidence_level=level)
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(Z[:, None], Y, w)
    assert found.estimate == pytest.approx(model.coef_[0, 0], rel=1e-4)
    least = profile(found.estimate, Y, P, w)
    for end in (found.low, found.high):
        assert 2 * (profile(end, Y, P, w) - least) == pytest.approx(chi2.ppf(level, 1), rel=1e-4)
    assert found.low < found.estimate < found.high


def test_slope_and_intercept_of_two_risks():
    """Two rates determine both parameters; with the slope fixed, mean risk and rate agree."""
    p = np.repeat([0.2, 0.7], [40, 60])
    y = np.concatenate([np.arange(40) < 12, np.arange(60) < 33])
    slope = (logit(33 / 60) - logit(12 / 40)) / (logit(0.7) - logit(0.2))
    assert calibration_slope(y, p).estimate == pytest.approx(slope)
    shift = calibration_intercept(y, p).estimate
    assert expit(logit(p) + shift).sum() == pytest.approx(y.sum())


@pytest.mark.parametrize(("n", "events", "risk"), [(50, 7, 0.3), (1000, 999, 0.5), (9, 4, 0.01)])
def test_intercept_of_one_risk_is_a_binomial_likelihood(n, events, risk):
    found = calibration_intercept(np.arange(n) < events, np.full(n, risk))
    rate = events / n
    assert found.estimate == pytest.approx(logit(rate) - logit(risk))

    def excess(p):
        return 2 * (binom.logpmf(events, n, rate) - binom.logpmf(events, n, p)) - chi2.ppf(0.95, 1)

    ends = brentq(excess, 1e-9, rate), brentq(excess, rate, 1 - 1e-9)
    np.testing.assert_allclose([found.low, found.high], logit(ends) - logit(risk), rtol=1e-6)


def test_risks_of_zero_and_one():
    p = np.concatenate([[0, 1], P])
    for figure in LOGISTIC:
        found = figure(np.concatenate([[0, 1], Y]), p)
        assert np.isfinite(numbers(found)).all()


@pytest.mark.slow
def test_intervals_of_slope_and_intercept_cover():
    rng, covered = np.random.default_rng(0), []
    for _ in range(400):
        z = rng.normal(-1, 1, size=100)
        y = rng.uniform(size=100) < expit(0.5 * z)
        slope = calibration_slope(y, expit(z), labels=[False, True])
        y = rng.uniform(size=100) < expit(z + 0.5)
        shift = calibration_intercept(y, expit(z), labels=[False, True])
        covered.append([slope.low < 0.5 < slope.high, shift.low < 0.5 < shift.high])
    np.testing.assert_allclose(np.mean(covered, axis=0), 0.95, atol=0.03)


@pytest.mark.parametrize("w", [None, W])
def test_distances_are_from_the_smooth_curve(w):
    weight = np.ones(300) if w is None else w
    error = smooth_calibration_error(Y, P, sample_weight=w)

    def kernel(t, s):  # reflected at 0 and 1
        images = [2 * k + sign * s for k in range(-3, 4) for sign in (1, -1)]
        return sum(np.exp(-0.5 * ((t - image) / error) ** 2) for image in images)

    K = kernel(P[:, None], P[None]) * weight
    distance = np.abs(np.clip(P + K @ (Y - P) / K.sum(axis=1), 0, 1) - P)
    index = partial(integrated_calibration_index, Y, P, sample_weight=w)
    assert index() == pytest.approx(np.average(distance, weights=weight), abs=1e-5)
    assert index() == pytest.approx(error, rel=0.1)
    repeated = np.sort(np.repeat(distance, weight.astype(int)))
    for q in (0.1, 0.5, 0.9, 1):
        wanted = np.quantile(repeated, q, method="inverted_cdf")
        assert index(quantile=q) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
@pytest.mark.parametrize("w", [None, W])
def test_a_list_of_quantiles_has_the_results_of_each(w, groups):
    index = partial(integrated_calibration_index, Y, P, sample_weight=w)
    quantiles = [None, 0.5, 0.9]
    assert index(quantile=quantiles) == [index(quantile=q) for q in quantiles]
    given = {"confidence_level": 0.9, "n_resamples": 9, "groups": groups}
    found = index(quantile=quantiles, random_state=0, **given)
    assert found == [index(quantile=q, random_state=0, **given) for q in quantiles]
    random = np.random.RandomState(0)
    assert index(quantile=quantiles, random_state=random, **given) == found
    assert index(quantile=0.5, random_state=random, **given) != found[1]  # it has moved on
    with pytest.raises(ValueError, match="quantile"):
        index(quantile=[0.5, 2])


def test_the_smooth_curve_is_a_frequency():
    """The kernel estimate itself is below 0 beside risks that are too high."""
    p, y = np.repeat([0.0, 0.2], 50), np.zeros(100)
    index = partial(integrated_calibration_index, y, p, labels=[0, 1])
    assert index(quantile=0.5) == 0
    assert 0 < index(quantile=1) <= 0.2


@pytest.mark.parametrize("w", [None, W])
@pytest.mark.parametrize("kind", ["binary", "top-label"])
def test_spiegelhalter_compares_the_brier_score_with_its_mean(w, kind):
    weight = np.ones(300) if w is None else w
    p, y = (P, Y) if kind == "binary" else (np.maximum(P, 1 - P), (P > 0.5) == Y)
    found = calibration_test(Y, P, measure="spiegelhalter_z", kind=kind, sample_weight=w)
    brier, mean = np.sum(weight * (y - p) ** 2), np.sum(weight * p * (1 - p))
    variance = np.sum(weight**2 * (1 - 2 * p) ** 2 * p * (1 - p))
    assert found.statistic == pytest.approx((brier - mean) / np.sqrt(variance))
    assert found.pvalue == pytest.approx(2 * norm.sf(abs(found.statistic)))


def test_spiegelhalter_of_certain_rows():
    test = partial(calibration_test, measure="spiegelhalter_z")
    assert vars(test([0, 1], [0.0, 1.0])) == {"statistic": 0.0, "pvalue": 1.0}
    assert vars(test([1, 1, 0], [0.0, 1.0, 0.5])) == {"statistic": np.inf, "pvalue": 0.0}
    with pytest.raises(ValueError, match="classwise"):
        test(Y, P, kind="classwise")


# R's dcurves on its data set df_binary, of 750 patients, by threshold: treating everyone, and
# treating those with a family history of cancer, who are 24 of 105 with cancer and 91 of 645
# without it. From r_results/univ_canc_famhist/net_benefit.csv in the tests of the Python package
# dcurves (github.com/MSKCC-Epi-Bio/dcurves).
DCURVES = {
    0.05: (0.09473684210526317, 0.025614035087719297),
    0.1: (0.04444444444444447, 0.018518518518518517),
    0.14: (0.0, 0.012248062015503876),
    0.2: (-0.07499999999999998, 0.001666666666666667),
    0.35: (-0.3230769230769232, -0.03333333333333334),
    0.9: (-7.600000000000002, -1.0600000000000003),
}


def test_net_benefits_match_dcurves():
    cancer = np.repeat([1, 0], [105, 645])
    history = np.concatenate([np.arange(105) < 24, np.arange(645) < 91]).astype(float)
    curve = net_benefit_curve(cancer, history, thresholds=[*DCURVES])
    found = np.column_stack([curve.treat_all, curve.net_benefit])
    np.testing.assert_allclose(found, [*DCURVES.values()], atol=1e-12)
    scaled = net_benefit_curve(cancer, history, thresholds=[*DCURVES], standardized=True)
    np.testing.assert_allclose(scaled.net_benefit, curve.net_benefit / 0.14)
    np.testing.assert_allclose(scaled.treat_all, curve.treat_all / 0.14)


@pytest.mark.parametrize("w", [None, W])
def test_net_benefit_is_an_expected_cost(w):
    p, rate = P.round(2), np.average(Y, weights=w)
    for t in (0.015, 0.205, 0.5, 0.905):  # no row is at a threshold
        cost = expected_cost(Y, p, [[0, t], [1 - t, 0]], sample_weight=w)
        found = net_benefit(Y, p, t, sample_weight=w)
        assert found == pytest.approx(rate - cost / (1 - t))
    assert net_benefit([1, 0, 0], [0.2, 0.2, 0.1], 0.2) == pytest.approx((1 - 0.25) / 3)
    assert len(net_benefit_curve(Y, P).threshold) == 99


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_differences_of_models_have_intervals():
    measure = partial(net_benefit, threshold=0.3)
    found = calibration_difference(Y, 1 - P, P, measure=measure, n_resamples=99, random_state=0)
    assert found.estimate == pytest.approx(measure(Y, P) - measure(Y, 1 - P))
    assert 0 < found.low < found.estimate < found.high
    one = calibration_error_interval(Y, P, measure=measure, n_resamples=99, random_state=0)
    assert one.low < measure(Y, P) < one.high


THREE = {"y_true": [0, 1, 2], "y_proba": np.full((3, 3), 1 / 3)}
BAD = {
    "three classes": (RISKS, THREE, "two classes, got 3"),
    "one class": (LOGISTIC, {"y_true": [1, 1], "y_proba": [0.2, 0.5], "labels": [0, 1]}, "one cl"),
    "level": (LOGISTIC, {"confidence_level": 1}, "confidence_level"),
    "separated": ([calibration_slope], {"y_proba": 0.2 + 0.5 * Y}, "separates"),
    "reversed": ([calibration_slope], {"y_proba": 0.7 - 0.5 * Y}, "separates"),
    "constant": ([calibration_slope], {"y_proba": 0 * P + 0.3}, "all equal"),
    "quantile": ([integrated_calibration_index], {"quantile": 2}, "quantile"),
    "no threshold": ([net_benefit_curve], {"thresholds": []}, "thresholds"),
    "threshold of one": ([net_benefit_curve], {"thresholds": [0.2, 1]}, r"\[0.2, 1\]"),
    "threshold of zero": ([net_benefit_curve], {"thresholds": 0}, "thresholds"),
    "flag": ([net_benefit_curve], {"standardized": "yes"}, "standardized"),
}


@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.parametrize("case", BAD)
def test_wrong_input_is_refused_by_name(case):
    figures, change, word = BAD[case]
    for figure in figures:
        with pytest.raises(ValueError, match=word):
            figure(**({"y_true": Y, "y_proba": P} | change))


# R 4.2.2 on the data of breast tumours, with the risk below. rms 6.5-0, val.prob(p, y): "Slope",
# "Brier", "S:z", "S:p", and by lowess "Eavg" and "E90". val.prob.ci.2 of CalibrationCurves has the
# "Intercept" of a fit with offset=qlogis(p), and the mean distance from loess(y ~ p, degree=2),
# 0.1212. Intervals by confint: f <- glm(y ~ offset(qlogis(p)), family=binomial), and
# glm(y ~ qlogis(p), family=binomial).
def test_figures_match_rms_and_calibration_curves():
    X, benign = load_breast_cancer(return_X_y=True)
    y, p = 1 - benign, expit(0.6 * (X[:, 0] - 14) + 0.1 * (X[:, 1] - 19))
    slope, shift = calibration_slope(y, p), calibration_intercept(y, p)
    test = calibration_test(y, p, measure="spiegelhalter_z")
    found = [slope.estimate, shift.estimate, brier_score_loss(y, p), test.statistic]
    wanted = [1.80960403708029, -0.750795336805781, 0.0993592124635469, -5.66402932093505]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    assert test.pvalue == pytest.approx(1.47859124457020e-08)
    ends = [slope.low, slope.high, shift.low, shift.high]
    wanted = [1.50736474345100, 2.160741670674273, -0.985743645091439, -0.520033235877373]
    np.testing.assert_allclose(ends, wanted, rtol=1e-4)  # confint interpolates
    assert integrated_calibration_index(y, p) == pytest.approx(0.112564446549736, rel=0.05)
    assert integrated_calibration_index(y, p, quantile=0.9) == pytest.approx(0.20454884, rel=0.05)

"""Numbers of a report equal the results of the public functions."""

import numpy as np
import pytest
import sklearn.metrics
from numpy.testing import assert_allclose
from reports import Page, cohort, few_rows, masked, plain, report_of, two_classes
from scipy.special import softmax
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from skcalib import PlattScaling, calibration_report, clinical, metrics
from skcalib.datasets import make_logits
from skcalib.metrics._groups import skewed_interval
from skcalib.report import _numbers
from skcalib.report._numbers import (
    c_statistic,
    mean_estimate,
    mean_interval,
    observed_over_expected,
    proportion_interval,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_resamples")]

ERRORS = {
    "ECE": "expected_calibration_error",
    "debiased ECE": "debiased_expected_calibration_error",
    "MCE": "maximum_calibration_error",
}


def evaluated(case):
    """Labels, probabilities before and after, and keyword arguments of measures."""
    calibrator, Z, y, params = case()
    logits = np.asarray(Z, dtype=np.float64)
    logits = np.hstack([0 * logits, logits]) if logits.shape[1] == 1 else logits
    before, after = softmax(logits, axis=1), np.asarray(calibrator.predict_proba(Z))
    weight, n_bins = params.get("sample_weight"), params.get("n_bins", 15)
    labels = calibrator.classes_
    return np.asarray(y), before, after, {"sample_weight": weight, "labels": labels}, n_bins


@pytest.mark.parametrize("case", [plain, two_classes])
def test_errors_and_intervals_equal_the_functions(case):
    y, before, after, params, n_bins = evaluated(case)
    report = report_of(case)
    params |= {"n_bins": n_bins, "n_resamples": 19, "random_state": report.evaluation.seed}
    for title, measure in ERRORS.items():
        change = report.measures_[title]
        given = {**params, "measure": measure}
        assert change.before == metrics.calibration_error_interval(y, before, **given)
        assert change.after == metrics.calibration_error_interval(y, after, **given)
        assert change.difference == metrics.calibration_difference(y, before, after, **given)
    assert report.tests_[0] == metrics.calibration_test(y, before, **params)
    assert report.tests_[1] == metrics.calibration_test(y, after, **params)


@pytest.mark.parametrize("case", [plain, masked, two_classes, few_rows])
def test_means_equal_scikit_learn(case):
    y, before, after, params, _ = evaluated(case)
    found, w = report_of(case).measures_, params["sample_weight"]
    index = np.array([list(params["labels"]).index(label) for label in y])
    columns = list(range(len(params["labels"])))
    for P, k in ((before, 0), (after, 1)):
        Q = P / P.sum(axis=1, keepdims=True, dtype=float)
        loss = sklearn.metrics.log_loss(index, Q, sample_weight=w, labels=columns)
        assert found["log loss"][k].estimate == pytest.approx(loss, rel=1e-5)
        hit = P.argmax(axis=1) == index
        assert found["accuracy"][k].estimate == pytest.approx(np.average(hit, weights=w))
        brier = ((P - np.eye(len(columns))[index]) ** 2).sum(axis=1) / (1 + (len(columns) == 2))
        assert found["Brier score"][k].estimate == pytest.approx(np.average(brier, weights=w))
    for before, after, difference in found.values():
        assert difference.estimate == pytest.approx(after.estimate - before.estimate, abs=1e-12)
        assert np.isnan(before.low) or before.low <= before.high


def test_the_mean_gap_is_of_the_event():
    y, before, _, params, _ = evaluated(two_classes)
    gap = report_of(two_classes).measures_["mean probability - event rate"].before.estimate
    event = y == params["labels"][1]
    assert gap == pytest.approx(np.average(before[:, 1] - event, weights=params["sample_weight"]))
    found = report_of(plain).measures_["confidence - accuracy"].before
    assert found.low > 0  # the logits are over-confident


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3], ids=["rows", "groups"])
def test_risk_figures_equal_the_functions(groups):
    Z, y = make_logits(500, 2, temperature=2.0, random_state=0)
    calibrator = PlattScaling().fit(Z[:200], y[:200])
    report = calibration_report(calibrator, Z[200:], y[200:], groups=groups, random_state=0)
    P, y, found = calibrator.predict_proba(Z[200:]), y[200:], report.risk_
    for title, function in (
        ("calibration slope", clinical.calibration_slope),
        ("calibration in the large", clinical.calibration_intercept),
    ):
        want = function(y, P, groups=groups)
        assert found[title][1].low == pytest.approx(want.low), title
        assert found[title][1].estimate == pytest.approx(want.estimate), title
    for title, quantile in (("ICI", None), ("E50", 0.5), ("E90", 0.9), ("Emax", 1)):
        want = clinical.integrated_calibration_index(y, P, quantile=quantile)
        assert found[title][1].estimate == pytest.approx(want), title
    params = {"measure": "spiegelhalter_z", "groups": groups}
    want = metrics.calibration_test(y, P, **params, random_state=report.evaluation.seed)
    assert found["Spiegelhalter's z"][1] == pytest.approx(want)


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_separated_risks_have_no_slope():
    y = np.array([0, 1] * 20)
    Z = np.where(y == 1, 3.0, -3.0)[:, None]
    report = calibration_report(
        PlattScaling().fit(*make_logits(60, 2, random_state=0)), Z * [[0, 1]], y
    )
    assert report.risk_["calibration slope"] == (None, None)
    assert "calibration slopenonenone" in Page(report.to_html()).section("risk")


@pytest.mark.parametrize("case", [masked, two_classes])
def test_classes_equal_the_functions(case):
    y, before, after, params, n_bins = evaluated(case)
    found = report_of(case).by_class_
    assert found["label"].tolist() == params["labels"].tolist()
    given = {**params, "n_bins": n_bins, "kind": "classwise", "average": None}
    for when, P in (("before", before), ("after", after)):
        error = metrics.expected_calibration_error(y, P, **given)
        assert_allclose(found[f"ece_{when}"], error)
        assert_allclose(
            found[f"mean_{when}"], np.average(P, axis=0, weights=params["sample_weight"])
        )
    assert found["base_rate"].sum() == pytest.approx(1)


def test_weights_of_two_are_rows_twice():
    Z, y = make_logits(300, 3, random_state=0)
    w = np.random.default_rng(0).integers(0, 3, 300)
    calibrator = report_of(plain).calibrator
    weighted = calibration_report(calibrator, Z, y, sample_weight=w).measures_
    twice = np.repeat(np.arange(300), w)
    repeated = calibration_report(calibrator, Z[twice], y[twice]).measures_
    for name, change in weighted.items():
        if name == "debiased ECE":  # the bias is of the effective rows
            continue
        assert change.after.estimate == pytest.approx(repeated[name].after.estimate), name


def test_groups_of_equal_rows_are_single_rows(monkeypatch):
    monkeypatch.setattr(_numbers, "MOST_RESAMPLES", 99)
    Z, y = make_logits(200, 3, random_state=0)
    calibrator = report_of(plain).calibrator
    fourfold = np.repeat(np.arange(200), 4)
    grouped = calibration_report(
        calibrator, Z[fourfold], y[fourfold], groups=fourfold, random_state=0
    )
    once = calibration_report(calibrator, Z, y, random_state=0)
    for name in ("log loss", "Brier score", "accuracy"):
        for found, want in zip(grouped.measures_[name], once.measures_[name], strict=True):
            # The accuracy is a proportion, whose interval has a t distribution only with groups.
            rel = 0.02 if name == "accuracy" else 1e-6
            assert (found.low, found.high) == pytest.approx((want.low, want.high), rel=rel), name
    errors = [report.measures_["debiased ECE"].difference for report in (grouped, once)]
    widths = [error.high - error.low for error in errors]
    assert 0.7 < widths[0] / widths[1] < 1.4
    assert grouped.evaluation.n_effective == pytest.approx(200)
    assert "groups=groups_test" in grouped.code_


@pytest.mark.parametrize(("n_rows", "groups"), [(30, None), (300, None), (90, np.arange(90) // 3)])
def test_intervals_of_means_have_their_coverage(n_rows, groups, rng):
    """Skewed losses of weighted rows. Intervals of 30 rows without a correction cover 91.5 %."""
    covered = 0
    for _ in range(1000):
        values, w = rng.exponential(size=n_rows), rng.uniform(0.5, 2, size=n_rows)
        values = values if groups is None else values[groups]
        interval = mean_interval(values, w, groups)
        covered += interval.low <= 1 <= interval.high
    assert 920 <= covered <= 970


def test_the_interval_of_a_mean_is_the_interval_of_its_terms(rng):
    """Rows of weight 0 are no rows, and a single row has no interval."""
    values = rng.exponential(size=12)
    found = mean_interval(values, np.full(12, 2.0))
    low, high, pvalue = skewed_interval(values.mean(), values - values.mean(), 0.95, 11)
    assert (found.estimate, found.low, found.high) == pytest.approx((values.mean(), low, high))
    assert mean_estimate(values, np.ones(12))[3] == pytest.approx(pvalue)
    more = mean_interval(np.append(values, 9.0), np.append(np.ones(12), 0.0))
    assert (more.low, more.high) == pytest.approx((low, high))
    assert np.isnan(mean_interval(values[:1], np.ones(1)).low)


def test_proportions_have_the_interval_of_wilson():
    hit = np.arange(50) < 48
    found = proportion_interval(hit.astype(float), np.ones(50))
    want = binomtest(48, 50).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((want.low, want.high))
    assert proportion_interval(np.ones(50), np.ones(50)).low < 0.95


def test_equal_differences_have_no_width():
    assert mean_estimate(np.zeros(9), np.ones(9))[3] == 1
    assert mean_estimate(np.ones(9), np.ones(9))[3] == 0


def test_many_rows_have_no_slow_intervals():
    Z, y = make_logits(100_001, 2, random_state=0)
    report = calibration_report(PlattScaling().fit(Z[:500], y[:500]), Z, y)
    _, after, difference = report.measures_["smooth ECE"]
    assert np.isnan([after.low, after.high, difference.low]).all()
    assert 0 <= after.estimate < 0.1
    assert not np.isnan(report.measures_["ECE"].after.low)


def figures_of(y, p, groups):
    """Figures without the page, and without the figures that take long."""
    hit, w = y.astype(float), np.ones(len(y))
    return {
        "observed over expected": observed_over_expected(p, hit, w, groups),
        "c-statistic": c_statistic(p, hit, w, groups),
        "prevalence": proportion_interval(hit, w, groups),
    }


@pytest.mark.parametrize("size", [1, 4])
def test_intervals_of_a_risk_have_their_coverage(size):
    truth_y, truth_p = cohort(200_000, seed=9)
    truth = {
        "observed over expected": truth_y.mean() / truth_p.mean(),
        "c-statistic": roc_auc_score(truth_y, truth_p),
        "prevalence": truth_y.mean(),
    }
    covered = dict.fromkeys(truth, 0)
    for seed in range(200):
        y, p = cohort(150, seed=100 + seed)
        groups = np.repeat(np.arange(150), size) if size > 1 else None
        risk = figures_of(np.repeat(y, size), np.repeat(p, size), groups)
        for name, value in truth.items():
            covered[name] += risk[name].low <= value <= risk[name].high
    assert all(182 <= count <= 199 for count in covered.values()), covered

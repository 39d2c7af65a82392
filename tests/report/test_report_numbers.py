"""Every number of a report is that of the measure, and every interval that of its function."""

from unittest import mock

import numpy as np
import pytest
import sklearn.metrics
from numpy.testing import assert_allclose
from pages_of_reports import (
    CASES,
    cases,
    frame_of_few,
    masked,
    parsed,
    plain,
    report_of,
    rows_of_table,
    two_classes,
)
from scipy.special import softmax
from scipy.stats import norm

from skcalib import metrics
from skcalib._output.html import element, fragment, table
from skcalib._rows.arrays import both_columns
from skcalib.metrics._proper_scores import brier_scores, log_losses
from skcalib.report import _intervals, _sections
from skcalib.report._evaluation import Evaluation
from skcalib.report._measures import BINNED, SMOOTH, measures, of_classes


def problem_of(case):
    """Labels, probabilities before and after, and arguments of measures."""
    calibrator, Z, y, params = case()
    Z = both_columns(np.asarray(Z))
    rows = {"sample_weight": params.get("sample_weight"), "labels": calibrator.classes_}
    before, after = softmax(Z, axis=1), calibrator.predict_proba(case()[1])
    return np.asarray(y), before, after, rows, {**rows, "n_bins": params.get("n_bins", 15)}


@cases
def test_measures_are_those_of_the_functions(case):
    y, before, after, rows, binned = problem_of(case)
    found = report_of(case).measures_
    own = measures(len(rows["labels"]))
    assert list(found) == [measure.title for measure in own]
    for measure in own[3:]:
        function = getattr(metrics, measure.function)
        params = rows if measure is SMOOTH else binned
        expected = [function(y, P, kind=measure.kind, **params) for P in (before, after)]
        change = found[measure.title]
        assert_allclose([change.before.estimate, change.after.estimate], expected, atol=1e-9)
        assert change.difference.statistic == pytest.approx(expected[1] - expected[0], abs=1e-9)


@cases
def test_intervals_are_those_of_the_functions(case):
    y, before, after, _, binned = problem_of(case)
    report = report_of(case)
    n = _intervals.number_of_resamples(report._results.rows.n_samples)
    for measure in BINNED:
        change = report.measures_[measure.title]
        params = {"measure": measure.function, "n_resamples": n, "random_state": 0, **binned}
        for P, got in ((before, change.before), (after, change.after)):
            expected = metrics.calibration_error_interval(y, P, **params)
            assert_allclose([got.low, got.high], [expected.low, expected.high], atol=1e-8)
        expected = metrics.compare_calibration(y, after, before, **params)
        assert_allclose(
            [change.difference.low, change.difference.high, change.difference.pvalue],
            [expected.low, expected.high, expected.pvalue],
            atol=1e-8,
        )


@cases
def test_intervals_of_classes_and_of_the_smooth_error(case):
    y, before, after, rows, binned = problem_of(case)
    report = report_of(case)
    own = of_classes(len(rows["labels"]))
    n_entries = report._results.rows.n_samples * (
        1 if own.kind == "binary" else len(rows["labels"])
    )
    for measure, n in ((own, _intervals.number_of_resamples(n_entries)), (SMOOTH, 99)):
        change = report.measures_[measure.title]
        params = {
            "measure": measure.function, "n_resamples": n, "random_state": 0, "kind": measure.kind
        } | (rows if measure is SMOOTH else binned)  # fmt: skip
        for P, got in ((before, change.before), (after, change.after)):
            expected = metrics.calibration_error_interval(y, P, **params)
            assert_allclose([got.low, got.high], [expected.low, expected.high], atol=1e-8)
        expected = metrics.compare_calibration(y, after, before, **params)
        got = change.difference
        assert_allclose([got.low, got.high], [expected.low, expected.high], atol=1e-8)
        assert got.pvalue == expected.pvalue


@cases
def test_means_are_those_of_scikit_learn(case):
    y, before, after, rows, _ = problem_of(case)
    index = np.array([list(rows["labels"]).index(label) for label in y])
    found, w = report_of(case).measures_, rows["sample_weight"]
    for P, when in ((before, "before"), (after, "after")):
        expected = {
            "log loss": np.average(log_losses(P, index), weights=w),
            "Brier score": np.average(brier_scores(P, index), weights=w),
            "accuracy": sklearn.metrics.accuracy_score(index, P.argmax(axis=1), sample_weight=w),
        }
        for title, value in expected.items():
            got = getattr(found[title], when)
            assert got.estimate == pytest.approx(value)
            assert got.low < value < got.high
    assert 0 <= found["accuracy"].after.low <= found["accuracy"].after.high <= 1


@cases
def test_the_page_shows_these_numbers(case):
    report = report_of(case)
    rows = rows_of_table(parsed(case), "measures")
    assert [row[0] for row in rows] == list(report.measures_)
    for (_, before, after, difference), change in zip(rows, report.measures_.values(), strict=True):
        assert before == change.before.estimate
        assert after == change.after.estimate
        assert difference == change.difference.statistic
    text = parsed(case).section("measures")["text"]
    for change in report.measures_.values():
        for ends in (change.before, change.after):
            assert f"{ends.estimate:.4f} [{ends.low:.4f}, {ends.high:.4f}]" in text
        d = change.difference
        shown = f"{d.statistic:+.4f} [{d.low:+.4f}, {d.high:+.4f}]"
        assert shown.replace("-", "\N{MINUS SIGN}") in text


@cases
def test_classes_are_those_of_the_functions(case):
    y, before, after, rows, binned = problem_of(case)
    found, w = report_of(case).by_class_, rows["sample_weight"]
    labels = list(rows["labels"])
    index = np.array([labels.index(label) for label in y])
    assert list(found["label"]) == labels
    kept = np.ones(len(y), bool) if w is None else w > 0
    assert found["n_samples"].tolist() == np.bincount(index[kept], minlength=len(labels)).tolist()
    hits = index[:, None] == np.arange(len(labels))
    assert_allclose(found["base_rate"], np.average(hits, axis=0, weights=w))
    for P, when in ((before, "before"), (after, "after")):
        each = {"kind": "classwise", "average": None, **binned}
        expected = metrics.expected_calibration_error(y, P, **each)
        assert_allclose(found[f"ece_{when}"], expected)
        assert_allclose(found[f"mean_{when}"], np.average(P, axis=0, weights=w), rtol=1e-6)
    shown = rows_of_table(parsed(case), "classes")
    assert_allclose([row[6] for row in shown], np.sort(found["ece_after"])[::-1])


@cases
def test_decompositions_and_tests_are_those_of_the_functions(case):
    y, before, after, rows, binned = problem_of(case)
    report = report_of(case)
    for score, pair in report.decompositions_.items():
        for P, got in zip((before, after), pair, strict=True):
            assert got == metrics.score_decomposition(y, P, score=score, **rows)
    shown = rows_of_table(parsed(case), "decomposition")
    of_all = [d for pair in report.decompositions_.values() for d in pair]
    for (_, *values), d in zip(shown, of_all, strict=True):
        assert values == [d.score, d.miscalibration, d.discrimination, d.uncertainty]
    n = _intervals.number_of_resamples(report._results.rows.n_samples)
    for P, got in zip((before, after), report.tests_, strict=True):
        assert got == metrics.calibration_test(y, P, n_resamples=n, random_state=0, **binned)


def test_intervals_of_means_have_their_coverage(rng):
    """About 95 % of samples of weighted rows; and rows with a weight of 0 are absent."""
    covered = {"mean": 0, "fraction": 0}
    for _ in range(400):
        w = rng.integers(0, 3, size=200).astype(float)
        x, hit = rng.exponential(size=200), rng.uniform(size=200) < 0.9
        mean, fraction = _intervals.mean_interval(x, w), _intervals.wilson_interval(hit * 1.0, w)
        covered["mean"] += mean.low < 1 < mean.high
        covered["fraction"] += fraction.low < 0.9 < fraction.high
        part = _intervals.mean_interval(x[w > 0], w[w > 0])
        assert_allclose([part.low, part.high], [mean.low, mean.high])
    assert all(0.91 < count / 400 < 0.98 for count in covered.values()), covered


def test_normal_interval_without_weights(rng):
    x = rng.normal(size=50)
    got = _intervals.mean_interval(x, np.full(50, 7.0))
    half = norm.ppf(0.975) * x.std(ddof=1) / np.sqrt(50)
    assert_allclose([got.low, got.high], [x.mean() - half, x.mean() + half])
    compared = _intervals.compared_means(x, np.ones(50))
    assert compared.pvalue == pytest.approx(2 * norm.sf(abs(x.mean()) * norm.ppf(0.975) / half))


def test_many_rows_have_fewer_resamples_and_no_slow_intervals(monkeypatch):
    monkeypatch.setattr(_intervals, "MOST", 999)
    assert [_intervals.number_of_resamples(n) for n in (10, 20_000, 10**7)] == [999, 500, 99]
    monkeypatch.setattr(_intervals, "MOST", 99)
    monkeypatch.setattr(_intervals, "TOO_MANY", {"smooth": 10, "classes": 10})
    y, before, after, rows, _ = problem_of(plain)
    found = _intervals.Intervals(Evaluation(y, None, rows["labels"], 15, before, after)).changes()
    for title, change in found.items():
        expected = report_of(plain).measures_[title]
        assert change.after.estimate == expected.after.estimate
        assert np.isnan(change.after.low) == (title in {"smooth ECE", "classwise ECE"})


def test_summary_of_the_rows():
    text = parsed(frame_of_few).section("data")["text"]
    assert "float32" in text
    assert "40" in text
    summaries = {case.__name__: report_of(case)._results.data for case in CASES}
    assert summaries["masked"].n_masked == summaries["masked"].n_masked_rows == 250
    assert summaries["two_classes"].n_columns == 1
    assert summaries["two_classes"].n_given == 400
    assert summaries["two_classes"].counts.sum() < 400
    data = {case.__name__: parsed(case).section("data")["text"] for case in (two_classes, masked)}
    n = summaries["two_classes"].counts.sum()
    assert f"Rows{n}, and {400 - n} with a weight of 0, which are left out" in data["two_classes"]
    w = report_of(two_classes)._results.rows.w
    assert f"{w.sum():g} in total" in data["two_classes"]
    assert "250 logits in 250 rows" in data["masked"]
    assert "Masked classesnone" in data["two_classes"]
    assert "Classes without rowsnone" in data["masked"]
    assert np.isfinite([summaries["masked"].lowest, summaries["masked"].highest]).all()


def test_classes_of_few_rows_and_of_none_are_listed_apart():
    results = report_of(plain)._results
    few = results.data._replace(counts=np.array([0, 9, 10]))
    text = fragment(element("div", _sections.data(mock.Mock(rows=results.rows, data=few))))
    assert "<dt>Classes with fewer than 10 rows</dt><dd>1</dd>" in text
    assert "<dt>Classes without rows</dt><dd>0</dd>" in text


def test_values_without_an_interval_are_shown_alone():
    for end, shown in ((0.25, "0.5000<span"), (np.nan, "0.5000</td>")):
        value = _sections._value(mock.Mock(estimate=0.5, low=end, high=end))
        assert shown in fragment(table(["x", "y"], [["a", value]], caption="c"))

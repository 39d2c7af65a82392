"""Every number of a report is that of the measure, and every interval that of its function."""

import re
from functools import partial

import numpy as np
import pytest
import sklearn.metrics
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from pages_of_reports import (
    CASES,
    Page,
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
from scipy.stats import binomtest, norm

from skcalib import PlattScaling, calibration_report, clinical, metrics
from skcalib._output import written
from skcalib._rows.arrays import both_columns
from skcalib.metrics._proper_scores import brier_scores, log_losses
from skcalib.report._measures import (
    BINNED,
    Evaluation,
    changes_of,
    compared_means,
    facts_of,
    gap_interval,
    mean_interval,
    number_of_resamples,
    wilson_interval,
)
from skcalib.report._results import as_pvalue, signed


def problem_of(case):
    """Labels, probabilities before and after, and arguments of measures."""
    calibrator, Z, y, params = case()
    Z = both_columns(np.asarray(Z))
    rows = {"sample_weight": params.get("sample_weight"), "labels": calibrator.classes_}
    before, after = softmax(Z, axis=1), calibrator.predict_proba(case()[1])
    return np.asarray(y), before, after, rows, {**rows, "n_bins": params.get("n_bins", 15)}


@pytest.mark.slow
@cases
def test_errors_and_intervals_are_those_of_the_functions(case):
    y, before, after, rows, binned = problem_of(case)
    is_event = len(rows["labels"]) == 2
    report, kind = report_of(case), "binary" if is_event else "top-label"
    other, n = "top-label" if is_event else "classwise", report.rows.n_samples
    n_entries = n * (1 if is_event else len(rows["labels"]))
    expected = {title: (name, kind, binned, n) for title, name in BINNED.items()}
    expected["smooth ECE"] = ("smooth_calibration_error", kind, rows, 10**9)  # fewest
    expected[f"{other} ECE"] = ("expected_calibration_error", other, binned, n_entries)
    assert list(report.measures_) == ["log loss", "Brier score", "accuracy", *expected]
    for title, (name, kind, given, n_entries) in expected.items():
        change = report.measures_[title]
        params = {**given, "measure": name, "kind": kind, "random_state": 0}
        params["n_resamples"] = number_of_resamples(n_entries)
        for P, got in ((before, change.before), (after, change.after)):
            found = metrics.calibration_error_interval(y, P, **params)
            numbers = [found.estimate, found.low, found.high]
            assert_allclose([got.estimate, got.low, got.high], numbers, atol=1e-8)
        found, got = metrics.calibration_difference(y, after, before, **params), change.difference
        numbers = [found.estimate, found.low, found.high, found.pvalue]
        assert_allclose([got.estimate, got.low, got.high, got.pvalue], numbers, atol=1e-8)


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
        assert difference == change.difference.estimate
    text = parsed(case).section("measures")["text"]
    for change in report.measures_.values():
        for ends in (change.before, change.after):
            low, high = written(ends.low), written(ends.high)
            assert f"{written(ends.estimate)} [{low}, {high}]" in text
        d = change.difference
        assert f"{signed(d.estimate)} [{signed(d.low)}, {signed(d.high)}]" in text


def test_figures_of_risks_are_those_of_the_functions():
    """Shown with intervals and p-values, and as none where rows have no such figure."""
    y, before, after, rows, _ = problem_of(two_classes)
    cells = {title: values for title, *values in rows_of_table(parsed(two_classes), "risk")}
    w = rows["sample_weight"]
    rows = rows | {"sample_weight": w * (w.sum() / (w @ w))}  # which sum to the effective rows
    text, of = parsed(two_classes).section("risk")["text"], partial(partial, **rows)
    assert "Validation of the risk of class yes & $, " in text
    index = clinical.integrated_calibration_index
    for title, f in {
        "calibration in the large": of(clinical.calibration_intercept),
        "calibration slope": of(clinical.calibration_slope),
        "ICI": of(index), "E50": of(index, quantile=0.5), "E90": of(index, quantile=0.9),
        "Emax": of(index, quantile=1),
        "Spiegelhalter's z": of(metrics.calibration_test, measure="spiegelhalter_z"),
    }.items():  # fmt: skip
        pair = f(y, before), f(y, after)
        assert report_of(two_classes).risk_[title] == pair
        values = [x if isinstance(x, float) else next(iter(vars(x).values())) for x in pair]
        assert cells.pop(title) == values
        for found, value in zip(pair, values, strict=True):
            number = f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
            more = {2: "p", 3: "l"}.get(len(getattr(found, "__dict__", [])))
            if more == "l":
                ends = f"[{found.low:.2f}, {found.high:.2f}]".replace("-", "\N{MINUS SIGN}")
                assert f"{number} {ends}" in text
            elif more == "p":
                assert f"{number} ({as_pvalue(found.pvalue)})" in text
            else:
                assert written(value) in text
    assert not cells
    assert as_pvalue(0.0004) == "p < 0.001"
    at = re.search(r"threshold of ([\d.]+), .* is ([\d.-]+) before and ([\d.-]+) after", next(
        e["attrs"]["alt"] for e in parsed(two_classes).all("img") if "Decision" in e["attrs"]["alt"]
    )).groups()  # fmt: skip
    t, *benefits = map(float, at)
    wanted = [clinical.net_benefit(y, P, t, **rows) for P in (before, after)]
    assert_allclose(benefits, wanted, atol=3e-4)
    assert abs(wanted[0] - wanted[1]) > 1e-3
    assert abs(t - np.average(y == "yes & $", weights=rows["sample_weight"])) < 0.01


@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
@pytest.mark.slow
def test_risks_that_are_separated(quick):
    """There is no slope, and the page is made; a report on the top label has no such figures."""
    Z, y = np.array([-2.0, -1, 1, 2] * 9)[:, None], np.array([0, 0, 1, 1] * 9)
    calibrator = PlattScaling().fit(Z, np.roll(y, 1))
    report = calibration_report(calibrator, Z, y, figure=Figure())
    shown = rows_of_table(Page(report.to_html()), "risk")
    assert report.risk_["calibration slope"] == (None, None)
    assert np.isnan(shown[1][1:]).all()
    top = calibration_report(calibrator, Z, y, figure=Figure(), kind="top-label")
    assert top.risk_ is None


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
    n = number_of_resamples(report.rows.n_samples)
    for P, got in zip((before, after), report.tests_, strict=True):
        assert got == metrics.calibration_test(y, P, n_resamples=n, random_state=0, **binned)


@pytest.mark.slow
def test_intervals_of_means_have_their_coverage(rng):
    """About 95 % of samples of weighted rows; and rows with a weight of 0 are absent."""
    covered = {"mean": 0, "fraction": 0}
    for _ in range(400):
        w = rng.integers(0, 3, size=200).astype(float)
        x, hit = rng.exponential(size=200), rng.uniform(size=200) < 0.9
        mean, fraction = mean_interval(x, w), wilson_interval(hit * 1.0, w)
        covered["mean"] += mean.low < 1 < mean.high
        covered["fraction"] += fraction.low < 0.9 < fraction.high
        part = mean_interval(x[w > 0], w[w > 0])
        assert_allclose([part.low, part.high], [mean.low, mean.high])
    assert all(0.91 < count / 400 < 0.98 for count in covered.values()), covered


def test_normal_interval_without_weights(rng):
    x = rng.normal(size=50)
    got = mean_interval(x, np.full(50, 7.0))
    half = norm.ppf(0.975) * x.std(ddof=1) / np.sqrt(50)
    assert_allclose([got.low, got.high], [x.mean() - half, x.mean() + half])
    compared = compared_means(x, np.ones(50))
    assert compared.pvalue == pytest.approx(2 * norm.sf(abs(x.mean()) * norm.ppf(0.975) / half))


def test_wilson_interval_without_weights():
    for k in (0, 3, 50):
        got = wilson_interval(np.arange(50) < k, np.full(50, 2.0))
        expected = binomtest(k, 50).proportion_ci(method="wilson")
        assert_allclose([got.estimate, got.low, got.high], [k / 50, *expected], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("confidence", [0.999, 0.9, 0.6, 0.02])
@pytest.mark.parametrize("n", [100, 1000])
def test_gap_of_calibrated_rows_is_covered(confidence, n, weighted, rng):
    """Even where most samples hold no error, and the normal interval has no width."""
    c, covered = np.full(n, confidence), []
    for _ in range(400):
        w = rng.exponential(size=n) if weighted else np.ones(n)
        found = gap_interval(c, rng.uniform(size=n) < c, w)
        assert found.low <= found.estimate <= found.high
        covered.append(found.low <= 0 <= found.high)
    assert np.mean(covered) > 0.92


def test_gap_of_many_errors_is_that_of_the_mean(rng):
    c = rng.uniform(0.4, 1, size=20_000)
    hit, w = rng.uniform(size=20_000) < c**2, rng.uniform(size=20_000)
    found, normal = gap_interval(c, hit, w), mean_interval(c - hit, w)
    ends = [found.low, found.high]
    assert_allclose(ends, [normal.low, normal.high], atol=1e-3)


@pytest.mark.parametrize("hit", [0, 1])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 1.0])
def test_gap_of_rows_that_are_all_right_or_all_wrong(confidence, hit):
    """Its width is that of Wilson's interval on the side that rows do not rule out."""
    n, z2 = 500, 1.959964**2
    found = gap_interval(np.full(n, confidence), np.full(n, hit), np.ones(n))
    assert found.high - found.low == pytest.approx(z2 / (n + z2), rel=1e-4)
    assert found.estimate == pytest.approx(confidence - hit)


@pytest.mark.slow
def test_many_rows_have_fewer_resamples_and_no_slow_intervals(monkeypatch, quick):
    y, before, after, rows, _ = problem_of(plain)
    found = changes_of(Evaluation(y, None, rows["labels"], 15, before, after))
    for title, change in found.items():
        expected = report_of(plain).measures_[title]
        assert change.after.estimate == pytest.approx(expected.after.estimate)
        has_none = title in {"smooth ECE", "classwise ECE"}
        for part in change:
            assert np.isnan([part.low, part.high]).all() == has_none
    calibrator, Z, y, _ = plain()
    page = calibration_report(calibrator, Z, y, figure=Figure()).to_html()
    assert re.search(r"smooth ECE</th>(<td [^>]*>[^<\[]*</td>){3}", page)
    assert re.search(r'RMSCE</th><td [^>]*>[^<]*<span class="interval">', page)
    monkeypatch.undo()
    assert [number_of_resamples(n) for n in (10, 20_000, 10**7)] == [999, 500, 99]


@pytest.mark.slow
def test_facts_about_the_rows():
    data = {case: parsed(case).section("data")["text"] for case in CASES}
    assert "float32" in data[frame_of_few]
    assert "Rows40" in data[frame_of_few]
    rows = report_of(two_classes).rows
    n = np.count_nonzero(rows.w)
    assert n < 400
    assert f"Rows{n}, and {400 - n} with a weight of 0, which are left out" in data[two_classes]
    n_effective = rows.w.sum() ** 2 / np.sum(rows.w**2)
    weights = f"{rows.w.sum():g} in total, {n_effective:.1f} effective rows"
    assert weights in data[two_classes]
    assert "1 column of log-odds" in parsed(two_classes).section("subject")["text"]
    assert "Masked classesnone" in data[two_classes]
    assert "250 logits in 250 rows" in data[masked]
    assert re.search(r"Logits-\d.* to \d", data[masked])
    assert "Classes without rowsnone" in data[masked]


def test_facts_about_rare_rows():
    """Classes of few rows and of none, and ties."""
    y, P = np.repeat([1, 2], [9, 10]), np.full((19, 3), 1 / 3)
    facts = dict(facts_of(np.eye(3)[y] // 2, Evaluation(y, None, np.arange(3), 15, P, P)))
    assert facts["Classes with fewer than 10 rows"] == "1"
    assert facts["Classes without rows"] == "0"
    assert facts["Rows with a tie for the largest logit"] == "19"
    assert facts["Distinct confidences after calibration"] == "1"

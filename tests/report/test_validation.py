"""The report of a model from its probabilities: figures, events, groups and page."""

import re
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from reports import Page, cohort, validated
from scipy.special import expit, logit, softmax
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from skcalib import TemperatureScaling, calibration_report, clinical, metrics, validation_report
from skcalib.datasets import make_logits


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_figures_of_a_risk_are_the_figures_of_the_functions(weighted):
    y, p = cohort()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    report = validated(y, p, sample_weight=w)
    risk = report.risk_
    used = np.ones(len(y), bool) if w is None else w > 0
    assert risk["events"] == y[used].sum()
    assert risk["prevalence"].estimate == pytest.approx(np.average(y, weights=w))
    ratio = np.average(y, weights=w) / np.average(p, weights=w)
    assert risk["observed over expected"].estimate == pytest.approx(ratio)
    auc = roc_auc_score(y, p, sample_weight=w)
    assert risk["c-statistic"].estimate == pytest.approx(auc)
    for name in ("prevalence", "observed over expected", "c-statistic", "calibration slope"):
        assert risk[name].low < risk[name].estimate < risk[name].high
    if w is None:
        slope = clinical.calibration_slope(y, p)
        assert risk["calibration slope"].low == pytest.approx(slope.low)
    error = metrics.expected_calibration_error(y, p, sample_weight=w)
    assert report.measures_["ECE"].estimate == pytest.approx(error)
    assert report.verdict_[0].startswith("Not calibrated: the tests of the ECE, the ")


@pytest.mark.usefixtures("few_resamples")
def test_the_interval_of_the_c_statistic_has_the_variance_of_delong():
    y, p = cohort()
    events, others = p[y == 1], p[y == 0]
    wins = (events[:, None] > others) + 0.5 * (events[:, None] == others)
    auc = wins.mean()
    variance = wins.mean(axis=1).var(ddof=1) / len(events)
    variance += wins.mean(axis=0).var(ddof=1) / len(others)
    reach = norm.ppf(0.975) * np.sqrt(variance) / (auc * (1 - auc))
    found = validated(y, p).risk_["c-statistic"]
    # A correction for skewness moves both ends by less than a tenth of the width.
    assert_allclose(
        logit([found.low, found.high]), logit(auc) + np.array([-reach, reach]), atol=0.2 * reach
    )


@pytest.mark.slow
def test_a_report_of_groups_counts_groups():
    rng = np.random.default_rng(0)
    z = rng.normal(size=900)
    y = (rng.uniform(size=900) < expit(z)).astype(int)
    groups = np.arange(900) // 10  # 90 groups
    by_group = validated(y, expit(z), groups=groups)
    assert by_group.verdict_[-1].endswith("but 90 groups reveal only large errors.")
    by_row = validated(y, expit(z))
    assert by_row.verdict_[-1].endswith("which does not prove its absence.")
    assert "900 held-out rows in 90 groups" in Page(by_group.to_html()).all("header")[0]["text"]
    # Four equal rows of a group count once.
    fourfold = np.repeat(np.arange(900), 4)
    grouped = validated(y[fourfold], expit(z[fourfold]), groups=fourfold)
    for name in ("observed over expected", "c-statistic", "calibration slope", "prevalence"):
        a, b = by_row.risk_[name], grouped.risk_[name]
        assert (b.high - b.low) / (a.high - a.low) == pytest.approx(1, abs=0.1), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "shift", "words"),
    [
        (1, 1.0, "Risks are too high on average"),
        (1, -1.0, "Risks are too low on average"),
        (2, 0, "Risks are too extreme"),
        (0.4, 0, "Risks are not extreme enough"),
        (1, 0, "No error of the mean risk was detected"),
        (1, 0, "No error of the spread of the risks was detected"),
    ],
)
def test_the_verdict_names_the_error_of_the_risks(scale, shift, words):
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000)
    y = (rng.uniform(size=2000) < expit(z)).astype(int)
    assert any(words in sentence for sentence in validated(y, expit(scale * z + shift)).verdict_)


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(("n_wrong", "n_warnings"), [(2, 1), (7, 0)])
def test_a_report_warns_if_a_few_groups_have_most_of_the_wrong_predictions(n_wrong, n_warnings):
    groups, event = np.repeat(np.arange(24), 6), np.arange(144) % 2 == 0
    wrong = (groups < n_wrong) | ((groups < 14) & (np.arange(144) % 6 == 0))
    p = np.where(event != wrong, 0.9, 0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = validation_report(event, p, groups=groups, figure=Figure(), random_state=0)
    messages = [str(one.message) for one in caught if "groups with wrong" in str(one.message)]
    assert len(messages) == n_warnings
    assert all(one.filename == __file__ for one in caught)
    assert all(message in report.to_html() for message in messages)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_rows_without_an_event_have_no_figures_of_events():
    report = validated(np.zeros(50, int), np.full(50, 0.1), labels=[0, 1])
    assert report.risk_["c-statistic"] is report.risk_["observed over expected"] is None
    assert report.risk_["events"] == 0
    assert "none" in Page(report.to_html()).section("risk")
    assert "too narrow" not in " ".join(report.verdict_)
    y = np.array([0, 1] * 30)
    perfect = validated(y, np.where(y == 1, 0.9, 0.2))
    assert perfect.risk_["c-statistic"].estimate == 1
    assert np.isnan(perfect.risk_["c-statistic"].low)


@pytest.mark.usefixtures("few_resamples")
def test_the_page_is_of_a_model():
    y, p = cohort()
    centre = np.random.default_rng(0).choice(["north", "south"], len(y))
    report = validated(y, p, features=centre, name="<Score>", metadata={"Hospital": "A & B"})
    page = Page(report.to_html())
    assert page.all("h1")[0]["text"] == "Validation report: <Score>"
    assert page.headings() == [
        "Verdict", "Validation of the risk", "Measures", "Reliability diagrams", "Decisions",
        "Segments", "Model and data", "Code", "Glossary",
    ]  # fmt: skip
    text = " ".join(page.section(anchor) for anchor in ("verdict", "measures", "risk", "segments"))
    assert not re.search(r"\b(before|after|unchanged|change)\b", text)
    assert str(y.sum()) in page.section("risk")
    assert "A & B" in page.section("data")
    assert "threshold divides the rows into two bins" in page.section("glossary")
    assert len(page.all("img")) == 2
    assert report.segments_.segment[0]
    assert repr(report) == f"<ValidationReport of <Score> on {len(y)} rows>"
    assert "verdict" in report._repr_html_()


@pytest.mark.usefixtures("few_resamples")
def test_a_report_prints_its_verdict_and_figures():
    y, p = cohort(200)
    report = validated(y, p, name="Score")
    lines = str(report).splitlines()
    assert lines[0] == "Validation report: Score on 200 rows"
    assert " ".join(lines[1:]).startswith(" ".join(report.verdict_))
    title = "mean probability \N{MINUS SIGN} event rate"
    assert report.to_html().count(title) == 2  # in the table, and explained
    for name, found in (report.risk_ | report.measures_).items():
        (line,) = (line for line in lines if line.startswith(f"{name}  "))
        assert len(line) < 90
        if hasattr(found, "low") and name != "Emax":
            assert "[" in line
            assert found.low <= found.estimate <= found.high


@pytest.mark.usefixtures("few_resamples")
def test_two_rows_have_a_page():
    """No part of the smooth curve has three rows in reach, so none is drawn."""
    report = validated([0, 1], [0.2, 0.7])
    assert "but 2 rows reveal only large errors" in report.verdict_[-1]
    assert len(Page(report.to_html()).all("img")) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
@pytest.mark.parametrize("n_columns", [1, 3])
def test_one_row_is_written_in_the_singular(n_columns):
    """Numbers that a single row does not have are never "nan"."""
    Z, y = make_logits(200, max(n_columns, 2), random_state=0)
    w = np.array([1.0, 0.0])
    P = softmax(Z[:2], axis=1)[:, -n_columns:].squeeze()
    by_row = validated(y[:2], P, sample_weight=w, labels=np.unique(y), features=["a", "a"])
    calibrator = TemperatureScaling().fit(Z, y)
    params = {"sample_weight": w, "figure": Figure((8, 7)), "features": ["a", "a"]}
    for report in (by_row, calibration_report(calibrator, Z[:2], y[:2], **params)):
        page = Page(report.to_html())
        text = "\n".join([
            repr(report), str(report), *report.verdict_, *(e["text"] for e in page.all("body")),
        ])  # fmt: skip
        assert "1 held-out row, " in text
        assert "1 row of weight 0 is left out" in text
        assert "but 1 row reveals only" in text
        assert not re.search(r"\b1 rows|\bnan\b|None", text)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore::families.FewGroupsWarning")
def test_one_group_has_no_interval_of_the_effect():
    Z, y = make_logits(60, 3, temperature=2.0, random_state=0)
    params = {"groups": np.zeros(60), "figure": Figure((8, 7)), "random_state": 0}
    report = calibration_report(TemperatureScaling().fit(Z, y), Z, y, **params)
    assert report.verdict_[1].endswith(", without an interval).")
    assert "but 1 group reveals only large errors" in report.verdict_[2]


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore::families.FewGroupsWarning")
def test_the_slope_of_a_single_group_is_no_test_and_has_no_infinite_interval():
    y, p = cohort(100)
    report = validated(y, p, groups=np.zeros(100))
    assert np.isinf(report.risk_["calibration slope"].low)
    assert "none of 2 tests" in report.verdict_[0]
    assert "slope" not in " ".join(report.verdict_)
    assert "inf" not in Page(report.to_html()).section("risk")
    assert "inf]" not in str(report)


@pytest.mark.slow
def test_several_classes_have_no_risk():
    Z, y = make_logits(400, 3, temperature=2.0, random_state=0)
    report = validated(y, softmax(Z, axis=1))
    assert report.risk_ is None
    assert report.by_class_["n_samples"].sum() == 400
    assert len(report.verdict_) == 2
    headings = Page(report.to_html()).headings()
    assert "Classes" in headings
    assert "Validation of the risk" not in headings
    assert report.test_ == metrics.calibration_test(
        y, softmax(Z, axis=1), n_resamples=499, random_state=report.evaluation.seed
    )


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
def test_code_repeats_a_validation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y, p = cohort(200)
    names = np.where(y == 1, "died", "alive")
    report = validated(names, p, pos_label="died", n_bins=10, name="Mine")
    scope = {"y_test": names, "p_test": p}
    exec(report.code_, scope)
    assert scope["report"].measures_["log loss"] == report.measures_["log loss"]
    assert (scope["report"].name, scope["report"].evaluation.n_bins) == ("Mine", 10)
    assert (tmp_path / "report.html").stat().st_size > 30_000


def test_invalid_arguments_are_refused():
    y, p = cohort(50)
    with pytest.raises(ValueError, match="kind"):
        validation_report(y, p, kind="classwise")
    with pytest.raises(ValueError, match="between 0 and 1"):
        validation_report(y, 2 * p + 1)


@pytest.mark.usefixtures("few_resamples")
def test_codes_of_hospitals_are_categories():
    rng, hospital = np.random.default_rng(0), np.repeat(np.arange(30), 80)
    p = rng.beta(2, 3, size=len(hospital))
    y = (rng.uniform(size=len(p)) < np.where(hospital == 7, p**0.25, p)).astype(int)
    report = validated(y, p, features=hospital, categorical_features=[0])
    assert "a segment (0 = 7, scores from" in report.verdict_[0]
    assert "0 = 7, scores" in str(report)
    assert "categorical_features=[0]" in report.code_
    with pytest.warns(UserWarning, match="distinct integers"):
        mixed = validated(y, p, features=hospital)
    assert "distinct integers" in mixed.warnings_[0]
    assert "0 in (" in " ".join(mixed.segments_.segment)  # no second warning


@pytest.mark.usefixtures("few_resamples")
def test_two_columns_may_have_the_event_first():
    y, p = cohort(100)
    want = validated(y, p).risk_
    both = np.stack([p, 1 - p], axis=1)
    for found in (
        validated(1 - y, both, pos_label=0),
        validated(y, both, labels=[1, 0], pos_label=1),
    ):
        for name in ("prevalence", "observed over expected", "c-statistic"):
            assert found.risk_[name].estimate == pytest.approx(want[name].estimate), name


@pytest.mark.usefixtures("few_resamples")
def test_a_statistic_of_zero_has_no_sign():
    """With one event in five and risks of .2 the sum is 0, and its rounding error is negative."""
    report = validated(np.repeat([0, 1], [80, 20]), np.full(100, 0.2))
    assert report.risk_["Spiegelhalter's z"].statistic < 0
    assert " -0.00" not in str(report)

"""The page of a report: one file without scripts, with the sections that the data allow."""

from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from reports import (
    CASES,
    HOSTILE,
    Page,
    few_rows,
    hostile,
    masked,
    page_of,
    plain,
    report_of,
    two_classes,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib import AutoCalibrator, MatrixScaling, TemperatureScaling, calibration_report
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_resamples")]

ALWAYS = {"Verdict", "Measures", "Reliability diagrams", "Calibrator and data", "Code", "Glossary"}
SECTIONS = {
    plain: {"Classes"},
    hostile: {"Classes", "Comparison of calibrators"},
    two_classes: {"Segments", "Validation of the risk", "Decisions"},
    masked: {"Classes"},
    few_rows: {"Classes"},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_empty_sections_are_left_out(case):
    headings = page_of(case).headings()
    assert set(headings) == ALWAYS | SECTIONS[case]
    assert headings[0] == "Verdict"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_page_is_one_file_without_scripts(case):
    page = page_of(case)
    assert page.all("script") == page.all("link") == []
    assert [e["attrs"]["src"][:26] for e in page.all("img")] == [
        "data:image/svg+xml;base64,"
    ] * len(page.all("img"))
    assert len(page.source) < 3_000_000
    for image in page.all("img"):
        assert len(image["attrs"]["alt"]) > 20
        root = ET.fromstring(b64decode(image["attrs"]["src"][26:]))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_shows_the_numbers_of_the_report():
    report, page = report_of(plain), page_of(plain)
    text = page.section("measures")
    for before, after, difference in report.measures_.values():
        for value in (before.estimate, after.estimate, difference.low, difference.high):
            form = ".4f" if abs(value) >= 0.01 else ".5f" if abs(value) >= 0.001 else ".2g"
            assert f"{abs(value):{form}}" in text
    verdict = page.section("verdict").replace("\N{NO-BREAK SPACE}", " ")
    assert verdict == "Verdict" + "".join(report.verdict_)
    assert report.date in page.all("header")[0]["text"]
    about = page.section("data")
    assert all(fact in about for fact in ("300", f"NumPy {np.__version__}"))


def test_names_are_html_escaped():
    page = page_of(hostile)
    assert page.all("script") == []
    assert "<script>window.broken=1" not in page.source
    assert page.all("h1")[0]["text"].startswith(f"Calibration report: {HOSTILE[0]}")
    assert HOSTILE[0] in page.section("classes")
    assert f"{HOSTILE[0]}{HOSTILE[5]}" in page.section("data")  # metadata
    assert "x" * 61 not in page.section("classes")  # long names are cut


def test_the_page_shows_the_weights_of_a_mixture(logits3):
    mixture = AutoCalibrator([TemperatureScaling(), MatrixScaling()], cv=2).fit(*logits3)
    chain = make_pipeline(TemperatureScaling().fit(*logits3), mixture)
    for calibrator in (mixture, chain):
        report = calibration_report(calibrator, *logits3, figure=Figure(), random_state=0)
        text = Page(report.to_html()).section("data")
        weights = {name: w for name, w in mixture.weights_.items() if w > 0}
        assert "Weights of the mixture" in text
        for name, weight in weights.items():
            assert f"{name} {weight:.3f}" in text


def test_page_counts_rows_and_weights():
    text = page_of(two_classes).section("data")
    report = report_of(two_classes)
    n_absent = np.count_nonzero(two_classes()[3]["sample_weight"] == 0)
    assert f"{600 - n_absent}; {n_absent} rows of weight 0 are left out" in text
    assert f"{report.evaluation.n_effective:.1f}" in text
    assert "250" in page_of(masked).section("data")
    assert "Classes with fewer than 10 rows" in page_of(few_rows).section("data")


def test_pages_are_the_same_each_time():
    calibrator, Z, y, _ = plain()
    again = calibration_report(calibrator, Z, y, figure=Figure(), random_state=0)
    assert again.to_html() == page_of(plain).source


def test_a_calibrator_that_is_named_before_has_another_title(logits3):
    calibrator = TemperatureScaling().fit(*logits3)
    report = calibration_report(calibrator, *logits3, name="Before", figure=Figure((8, 7)))
    titles = [ax.get_title().partition(" (ECE")[0] for ax in report.figure_.axes if ax.get_title()]
    assert titles == ["Before", "After"]


@pytest.mark.parametrize(
    "calibrator",
    [
        TemperatureScaling(smoothing=0),
        make_pipeline(TemperatureScaling(), MatrixScaling(classes=np.arange(3))),
        AutoCalibrator([EstimatorCalibration(LogisticRegression(C=0.5)), TemperatureScaling()]),
    ],
    ids=["one", "pipeline", "mixture"],
)
def test_code_repeats_the_report(calibrator, logits3, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (X, y), (X_test, y_test) = logits3, make_logits(200, 3, random_state=1)
    params = {"n_bins": 10, "name": "Mine"}
    report = calibration_report(calibrator.fit(X, y), X_test, y_test, **params)
    scope = {"X": X, "y": y, "X_test": X_test, "y_test": y_test}
    exec(report.code_, scope)
    repeated = scope["report"]
    assert repeated.measures_["log loss"] == report.measures_["log loss"]
    assert (repeated.name, repeated.evaluation.n_bins) == ("Mine", 10)
    assert Path("report.html").stat().st_size > 100_000


def test_code_of_a_comparison_names_it():
    code = report_of(hostile).code_
    assert "comparison = compare_calibrators(X, y, test=(X_test, y_test))" in code
    assert "comparison=comparison" in code
    compile(code, "code", "exec")


# --------------------------------------------------------------------------------------
# Files and notebooks.


def test_a_file_appears_when_the_page_is_whole(tmp_path, monkeypatch):
    report, path = report_of(plain), tmp_path / "page.html"
    path.write_text("old")
    with monkeypatch.context() as patched:
        patched.setattr(type(report), "measures_", property(lambda _: 1 / 0))
        with pytest.raises(ZeroDivisionError):
            report.to_html(path)
    assert path.read_text() == "old"
    assert report.to_html(path) is None
    assert path.read_text(encoding="utf-8") == page_of(plain).source
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("path", [".", "missing/page.html", "page.html/x.html"])
def test_paths_that_are_no_files_are_refused(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    Path("page.html").touch()
    with pytest.raises(ValueError, match="path"):
        report_of(plain).to_html(path)


def test_a_device_is_not_replaced():
    with pytest.raises(OSError, match="device"):
        report_of(plain).to_html("/dev/null")


def test_a_notebook_shows_verdict_measures_and_figure(logits3):
    report = report_of(plain)
    shown = Page(report._repr_html_())
    texts = [element["text"].replace("\N{NO-BREAK SPACE}", " ") for element in shown.all("p")]
    assert texts[:3] == report.verdict_
    assert len(shown.all("table")) == len(shown.all("img")) == 1
    left, _ = plt.figure(figsize=(14, 7), layout="constrained").subfigures(1, 2)
    inner = skcalib.calibration_report(report.calibrator, *logits3, figure=left)
    assert len(Page(inner._repr_html_()).all("img")) == 1

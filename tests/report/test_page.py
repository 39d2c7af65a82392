"""The page of a report: whole, well-formed, self-contained, escaped, the same each time."""

import os
import pickle
import re
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from pages_of_reports import (
    DRAWN,
    HOSTILE,
    Page,
    cases,
    drawn_cases,
    drawn_page,
    hostile,
    masked,
    page_of,
    parsed,
    plain,
    report_of,
    two_classes,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skcalib import (
    AutoCalibrator,
    HistogramBinning,
    TemperatureScaling,
    VectorScaling,
    calibration_report,
)
from skcalib._output.html import as_text
from skcalib.datasets import make_logits
from skcalib.experimental import EstimatorCalibration
from skcalib.export import to_json
from skcalib.report import _sections
from skcalib.report._sections import SECTIONS


@cases
def test_sections_stand_in_order_and_are_listed(case):
    page = parsed(case)
    expected = [s[:2] for s in SECTIONS if s[0] != "risk" or case is two_classes]
    anchors = [e["attrs"]["id"] for e in page.all("section")]
    assert anchors == [anchor for anchor, _ in expected]
    headings = [e["text"] for e in page.all("h2")]
    assert headings == [heading for _, heading in expected]
    contents = [e for e in page.all("a") if "nav" in e["inside"]]
    assert [e["attrs"]["href"] for e in contents] == [f"#{anchor}" for anchor in anchors]
    assert [e["text"] for e in contents] == headings
    assert all(e["text"].strip() for e in page.all("section"))


@cases
def test_headings_links_and_tables_can_be_read_aloud(case):
    page = parsed(case)
    levels = [int(e["tag"][1]) for e in page.all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert (np.diff(levels) <= 1).all()
    ids = [e["attrs"]["id"] for e in page.elements if "id" in e["attrs"]]
    assert len(set(ids)) == len(ids)
    for element in page.elements:
        for name in ("href", "aria-labelledby"):
            target = element["attrs"].get(name)
            if target is not None:
                assert target.removeprefix("#") in ids
    first_link = page.all("a")[0]
    assert first_link["attrs"]["class"] == "skip"
    assert page.all("html")[0]["attrs"]["lang"] == "en"
    for cell in page.all("th"):
        assert cell["attrs"]["scope"] == ("col" if "thead" in cell["inside"] else "row")
    assert len(page.all("caption")) == len(page.all("table"))


@drawn_cases
def test_drawn_pages(case):
    page = parsed(case, drawn=True)
    assert len(page_of(case, drawn=True).encode()) < 2_000_000
    check_nothing_is_loaded(page)
    check_pictures_have_texts_and_captions(page)


def check_nothing_is_loaded(page):
    for element in page.elements:
        for name, value in element["attrs"].items():
            assert not name.startswith("on"), element
            if name in {"src", "srcset", "action", "data", "poster"}:
                assert value.startswith("data:image/svg+xml;base64,")
    assert len(page.all("script")) == 1
    assert not page.all("link", "iframe", "object", "embed", "form", "base")
    for style in page.all("style"):
        assert "url(" not in style["text"]
        assert "@import" not in style["text"]
    assert "default-src 'none'" in page.all("meta")[2]["attrs"]["content"]


def check_pictures_have_texts_and_captions(page):
    images = page.all("img")
    assert len(images) >= 6
    for image in images:
        assert image["inside"][-1] == "figure"
        alt = image["attrs"]["alt"]
        assert len(alt) > 60
        assert re.search(r"\d\.\d{3}", alt), "without a number"
        svg = ET.fromstring(b64decode(image["attrs"]["src"].partition(",")[2]))
        assert svg.tag.endswith("svg")
        assert not list(svg.iter("{http://www.w3.org/2000/svg}image"))
        assert not list(svg.iter("{http://www.w3.org/2000/svg}script"))
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(images)


@pytest.mark.slow
def test_pages_are_the_same_each_time():
    """Also with another style in use, and of copies."""
    calibrator, Z, y, params = hostile()
    again = calibration_report(calibrator, Z, y, figure=Figure((10, 8)), **params)
    with plt.style.context(["dark_background", {"font.size": 20, "svg.fonttype": "none"}]):
        text = drawn_page(pickle.loads(pickle.dumps(again)))
    fit_times = r'data-value="[^"]*">[\d.e-]+</td></tr>'  # of the comparison, which is made anew
    assert re.sub(fit_times, "", text) == re.sub(fit_times, "", page_of(hostile, drawn=True))
    assert plt.get_fignums() == []


@pytest.mark.slow
def test_a_hundred_classes_take_less_than_two_megabytes(quick):
    Z, y = make_logits(1500, 100, random_state=0)
    calibrator = TemperatureScaling().fit(Z[:700], y[:700])
    text = drawn_page(calibration_report(calibrator, Z[700:], y[700:], figure=Figure((10, 8))))
    assert len(text.encode()) < 2_000_000
    shown = Page(text)
    assert "The 20 of 100 classes" in shown.section("classes")["text"]


@pytest.mark.slow
def test_names_of_users_stay_texts():
    """None of them becomes an element, and all of them can be read."""
    page = parsed(hostile)
    tags = {e["tag"] for e in parsed(plain).elements} | {"strong"}  # of the comparison
    assert {e["tag"] for e in page.elements} == tags
    shown = page.section("classes")["text"]
    for name in HOSTILE:
        assert as_text(name) in shown
    assert as_text("".join(HOSTILE)) in page.all("h1")[0]["text"]
    assert as_text("".join(HOSTILE)) in page.all("title")[0]["text"]
    assert HOSTILE[0] in page.section("comparison")["text"]
    text = page_of(hostile)
    assert text.encode().decode() == text
    assert "\0" not in text


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_long_names_of_classes_are_cut(n_classes, quick):
    Z, y = make_logits(200, n_classes, random_state=0)
    y = np.array([f"{k}{1000 * 'L'}" for k in range(n_classes)])[y]
    page = calibration_report(TemperatureScaling().fit(Z, y), Z, y, figure=Figure()).to_html()
    assert max(map(len, re.findall("L+", page))) < 200
    assert "1" + 118 * "L" + "\N{HORIZONTAL ELLIPSIS}" in page


@pytest.mark.slow
def test_a_long_name_of_the_report_is_cut():
    """One of 5000 letters in many lines took half of a minute, and left no room for diagrams."""
    calibrator, Z, y, _ = plain()
    name = "ab " * 2000
    report = calibration_report(calibrator, Z, y, name=name, figure=Figure())
    assert report.name == name[:399] + "\N{HORIZONTAL ELLIPSIS}"
    assert name in _sections.to_repeat(report)  # where the name is given as it was
    whole = calibration_report(calibrator, Z, y, name=name[:400], figure=Figure())
    assert whole.name == name[:400]


@pytest.mark.slow
def test_a_calibrator_named_before_is_after(quick):
    calibrator, Z, y, _ = plain()
    report = calibration_report(calibrator, Z, y, name="Before", figure=Figure())
    page = report.to_html()
    for words in ("Before calibration:", "After calibration:", "before calibration:"):
        assert page.count(words) == page_of(plain).count(words)
    titles = [ax.get_title() for ax in report.figure_.axes if ax.get_title()]
    assert titles[:2] == ["Before", "After"]


@pytest.mark.slow
def test_threads_restore_the_settings():
    before = dict(mpl.rcParams)

    def draw(size):
        return size, DRAWN(lambda figure: figure.subplots().plot([0, 1]), (size, 3))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(draw, [3, 4] * 4))
    assert dict(mpl.rcParams) == before
    assert len(set(found)) == 2


# --------------------------------------------------------------------------------------
# Files and notebooks.


def test_file_is_replaced_when_the_page_is_complete(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    for target in (path, str(path)):
        path.write_text("old")
        assert report_of(plain).to_html(target) is None
        assert path.read_text("utf-8") == page_of(plain)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    path.write_text("old")
    with pytest.raises(OSError, match="full"):
        report_of(plain).to_html(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe"])
def test_what_is_no_file_stays(kind, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    report, path = report_of(plain), tmp_path / "pipe"
    if kind == "pipe":
        with pytest.raises(OSError, match="would replace what is no file"):
            report.to_html(path)
    else:
        (tmp_path / "link").symlink_to(path)
        report.to_html(tmp_path / "link")
        assert (tmp_path / "link").is_file()
    assert path.is_fifo()
    assert len(list(tmp_path.iterdir())) <= 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "must be that of a file, got the directory '.'. Add the name of a file"),
        ("none/report.html", "directory that exists, got 'none/report.html'. Create 'none' first"),
        (3, "must be that of a file, as a string or a pathlib.Path, got int. Pass path='report.h"),
    ],
    ids=str,
)
def test_paths_that_no_page_can_be_written_to(tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=re.escape(message)):
        report_of(plain).to_html(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_notebook_shows_verdict_measures_and_figure(monkeypatch):
    report = report_of(plain)
    shown = Page(report._repr_html_())
    assert [e["text"] for e in shown.all("p")][:3] == report.verdict_
    assert [e["text"] for e in shown.all("th") if "tbody" in e["inside"]] == list(report.measures_)
    (image,) = shown.all("img")
    assert image["attrs"]["src"].startswith("data:image/svg+xml")
    assert not shown.all("script")
    # The inline backend shows figures of pyplot by itself, after the output.
    monkeypatch.setattr("matplotlib.get_backend", lambda: "module://matplotlib_inline.backend")
    assert not Page(report._repr_html_()).all("img")
    assert repr(report) == "<CalibrationReport of TemperatureScaling on 300 rows>"


@pytest.mark.slow
def test_a_notebook_shows_the_figure_around_a_subfigure(quick):
    calibrator, Z, y, _ = plain()
    part = Figure((20, 8)).subfigures(1, 2)[0]
    report = calibration_report(calibrator, Z, y, figure=part)
    assert len(Page(report._repr_html_()).all("img")) == 1


# --------------------------------------------------------------------------------------
# The code of a page runs and makes the same report.


def blocks(page):
    """The two blocks of code of a page."""
    return [e["text"] for e in page.all("pre")]


@cases
def test_code_can_be_compiled(case):
    to_repeat, to_apply = blocks(parsed(case))
    assert ".fit(" in to_repeat
    assert "calibration_report(" in to_repeat
    assert ".predict_proba(" in to_apply
    for code in (to_repeat, to_apply):
        compile(code, "page", "exec")


CALIBRATORS = [
    TemperatureScaling(),
    VectorScaling(alpha=0.5, classes=np.array(["a", "b", "c"])),
    make_pipeline(TemperatureScaling(), HistogramBinning(n_bins=7)),
    EstimatorCalibration(LogisticRegression(C=0.5)),
    AutoCalibrator([TemperatureScaling(), VectorScaling()], combine="best", random_state=3),
]


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda c: type(c).__name__)
def test_code_repeats_the_report(calibrator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skcalib.report._report.page_of", lambda report: "page")
    Z, y = make_logits(300, 3, random_state=0)
    y = np.array(["a", "b", "c"])[y]
    w = np.random.default_rng(0).uniform(size=100)
    names = {
        "logits": Z[:200], "y": y[:200], "logits_test": Z[200:], "y_test": y[200:],
        "weights_test": w, "new_logits": Z,
    }  # fmt: skip
    fitted = calibrator.fit(Z[:200], y[:200])
    params = {"name": 'it\'s "mine" \\', "n_bins": 6, "sample_weight": w}
    report = calibration_report(fitted, Z[200:], y[200:], figure=Figure((10, 8)), **params)
    exec(_sections.to_repeat(report), names)
    plt.close()
    again = names["report"]
    assert again.name == report.name
    np.testing.assert_array_equal(again.rows.after, report.rows.after)
    assert again.rows.n_bins == 6
    np.testing.assert_array_equal(again.rows.w, w)
    assert (tmp_path / "report.html").read_text() == "page"
    exec(_sections.to_apply(report), names)
    np.testing.assert_array_equal(names["probabilities"], fitted.predict_proba(Z))
    if (tmp_path / "calibrator.json").exists():
        after = names["calibrator"].predict_proba(Z)
        np.testing.assert_array_equal(after, fitted.predict_proba(Z))


def test_json_is_offered_where_it_holds_the_calibrator():
    Z, y = make_logits(200, 3, random_state=0)
    code = [
        _sections.to_apply(SimpleNamespace(calibrator=member, given=())) for member in CALIBRATORS
    ]
    offered = ["to_json" in lines for lines in code]
    assert offered == [True, True, True, False, True]
    y = np.array(["a", "b", "c"])[y]
    for calibrator in np.array(CALIBRATORS, dtype=object)[offered]:
        assert to_json(calibrator.fit(Z, y))
    assert "to_json" in _sections.to_apply(report_of(masked))


def test_code_of_the_comparison():
    code, _ = blocks(parsed(hostile))
    test = ", test=(logits_test, y_test)" * bool(report_of(hostile).comparison.calibrators)
    assert f"comparison = compare_calibrators(logits, y{test})" in code
    assert "comparison=comparison" in code
    without, _ = blocks(parsed(plain))
    assert "compar" not in without
    assert "calibration_report(..., comparison=" in parsed(plain).section("comparison")["text"]

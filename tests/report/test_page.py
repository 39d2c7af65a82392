"""The page of a report: whole, well-formed, self-contained, escaped, the same each time."""

import re
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from pages_of_reports import (
    HOSTILE,
    Page,
    cases,
    drawn_cases,
    hostile,
    page_of,
    parsed,
    plain,
    report_of,
    two_classes,
)

from skcalib import TemperatureScaling, calibration_report
from skcalib._output.html import as_text
from skcalib.datasets import make_logits
from skcalib.report._page import SECTIONS


@cases
def test_sections_stand_in_order_and_are_listed(case):
    page = parsed(case)
    anchors = [e["attrs"]["id"] for e in page.all("section")]
    assert anchors == [section.anchor for section in SECTIONS]
    headings = [e["text"] for e in page.all("h2")]
    assert headings == [section.heading for section in SECTIONS]
    contents = [e for e in page.all("a") if "nav" in e["inside"]]
    assert [e["attrs"]["href"] for e in contents] == [f"#{anchor}" for anchor in anchors]
    assert [e["text"] for e in contents] == headings
    assert all(e["text"].strip() for e in page.all("section"))


@cases
def test_headings_descend_by_one_level(case):
    levels = [int(e["tag"][1]) for e in parsed(case).all("h1", "h2", "h3", "h4")]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert (np.diff(levels) <= 1).all()


@cases
def test_ids_are_unique_and_links_resolve(case):
    page = parsed(case)
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


@drawn_cases
def test_nothing_is_loaded_from_anywhere(case):
    page = parsed(case, drawn=True)
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


@drawn_cases
def test_pictures_have_texts_captions_and_two_looks(case):
    page = parsed(case, drawn=True)
    images = page.all("img")
    assert len(images) >= 6
    for image in images:
        assert image["inside"][-2:] == ("figure", "picture")
        alt = image["attrs"]["alt"]
        assert len(alt) > 60
        assert re.search(r"\d\.\d{3}", alt), "without a number"
    sources = page.all("source")
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(images) == len(sources)
    for image, source in zip(images, sources, strict=True):
        light, dark = (
            b64decode(address.partition(",")[2]).decode()
            for address in (image["attrs"]["src"], source["attrs"]["srcset"])
        )
        assert "dark" in source["attrs"]["media"]
        assert light != dark
        for svg in (light, dark):
            root = ET.fromstring(svg)
            assert root.tag.endswith("svg")
            assert not list(root.iter("{http://www.w3.org/2000/svg}image"))
            assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


@pytest.mark.slow
@pytest.mark.parametrize("case", [hostile, two_classes])
def test_pages_are_the_same_each_time(case):
    """Also with another style in use."""
    calibrator, Z, y, params = case()
    again = calibration_report(calibrator, Z, y, figure=Figure((10, 8)), **params)
    with plt.style.context(["dark_background", {"font.size": 20, "svg.fonttype": "none"}]):
        text = again.to_html()
    fit_times = r'data-value="[^"]*">[\d.e-]+</td></tr>'  # of the comparison, which is made anew
    assert re.sub(fit_times, "", text) == re.sub(fit_times, "", page_of(case, drawn=True))
    assert plt.get_fignums() == []


@drawn_cases
def test_size_is_below_two_megabytes(case):
    assert len(page_of(case, drawn=True).encode()) < 2_000_000


@pytest.mark.slow
def test_a_hundred_classes_take_less_than_two_megabytes():
    Z, y = make_logits(1500, 100, random_state=0)
    calibrator = TemperatureScaling().fit(Z[:700], y[:700])
    text = calibration_report(calibrator, Z[700:], y[700:], figure=Figure((10, 8))).to_html()
    assert len(text.encode()) < 2_000_000
    shown = Page(text)
    assert "The 20 of 100 classes" in shown.section("classes")["text"]


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


@cases
def test_values_of_tables_are_read_with_their_headers(case):
    page = parsed(case)
    for cell in page.all("th"):
        assert cell["attrs"]["scope"] == ("col" if "thead" in cell["inside"] else "row")
    assert len(page.all("caption")) == len(page.all("table"))


def test_file_is_replaced_when_the_page_is_complete(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    pages = {report_of(plain)._results: page_of(plain)}
    monkeypatch.setattr("skcalib.report._report.page_of", pages.get)
    assert report_of(plain).to_html(path) is None
    assert path.read_text("utf-8") == page_of(plain)
    path.write_text("old")
    assert report_of(plain).to_html(str(path)) is None
    assert path.read_text("utf-8") == page_of(plain)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    path.write_text("old")
    with pytest.raises(OSError, match="full"):
        report_of(plain).to_html(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


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


def test_a_notebook_shows_the_figure_around_a_subfigure():
    calibrator, Z, y, _ = plain()
    part = Figure((20, 8)).subfigures(1, 2)[0]
    report = calibration_report(calibrator, Z, y, figure=part)
    assert len(Page(report._repr_html_()).all("img")) == 1


def test_what_is_printed_is_short():
    assert repr(report_of(plain)) == "<CalibrationReport of TemperatureScaling on 300 rows>"


def test_what_is_no_comparison():
    calibrator, Z, y, _ = plain()
    with pytest.raises(ValueError, match="must be the result of compare_calibrators, got list"):
        calibration_report(calibrator, Z, y, comparison=[])

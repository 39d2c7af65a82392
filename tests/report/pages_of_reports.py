"""Reports of several kinds of data, and a parser of their pages."""

from functools import cache
from html.parser import HTMLParser
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib.datasets import make_logits
from skcalib.report._diagrams import drawn as DRAWN

HOSTILE = [
    "<script>alert(1)</script>",
    "\"quoted\" & 'so' on",
    "$\\frac{1}{0}$ $",
    "nul \0 and \ud800",
    "x" * 100,
    "</style><img src=http://evil.example/x onerror=alert(2)>",
]


def plain():
    Z, y = make_logits(600, 3, temperature=2.0, random_state=0)
    calibrator = skcalib.TemperatureScaling().fit(Z[:300], y[:300])
    return calibrator, Z[300:], y[300:], {}


def hostile():
    Z, y = make_logits(900, 6, temperature=2.0, random_state=1)
    names = np.array(HOSTILE, dtype=object)
    calibrator = skcalib.VectorScaling(classes=names).fit(Z[:500], names[y[:500]])
    compared = skcalib.compare_calibrators(
        Z, names[y], calibrators={HOSTILE[0]: skcalib.TemperatureScaling()}, cv=2, labels=names
    )
    name = "".join(HOSTILE)
    return calibrator, Z[500:], names[y[500:]], {"name": name, "comparison": compared}


def two_classes():
    Z, y = make_logits(700, 2, temperature=0.5, random_state=2)
    Z, names = Z[:, 1:] - Z[:, :1], np.array(["<b>no</b>", "yes & $"])
    w = np.random.default_rng(0).integers(0, 3, 700).astype(float)
    calibrator = skcalib.PlattScaling().fit(Z[:300], names[y[:300]])
    return calibrator, Z[300:], names[y[300:]], {"sample_weight": w[300:], "n_bins": 8}


def masked():
    Z, y = make_logits(500, 4, random_state=3)
    Z[np.arange(500), (y + 1) % 4] = -np.inf
    calibrator = make_pipeline(skcalib.TemperatureScaling(), skcalib.IsotonicCalibration()).fit(
        Z[:250], y[:250]
    )
    w = np.random.default_rng(0).uniform(0.5, 2, 250)
    return calibrator, Z[250:], y[250:], {"sample_weight": w}


def frame_of_few():
    Z, y = make_logits(100, 3, random_state=4)
    Z = pd.DataFrame(Z.astype(np.float32), columns=[0, 1, 2])
    return skcalib.BBQ().fit(Z[:60], y[:60]), Z[60:], pd.Series(y[60:]), {}


CASES = (plain, hostile, two_classes, masked, frame_of_few)


def every_case(*quick):
    """All cases, of which some are quick."""
    return pytest.mark.parametrize(
        "case",
        [pytest.param(case, marks=() if case in quick else pytest.mark.slow) for case in CASES],
        ids=lambda case: case.__name__,
    )


cases = every_case(two_classes, masked)
drawn_cases = every_case()  # drawing all pictures of a page takes seconds


@cache
def report_of(case):
    """The report of a case, drawn in a figure that pyplot does not hold."""
    calibrator, Z, y, params = case()
    return skcalib.calibration_report(calibrator, Z, y, figure=Figure((10, 8)), **params)


@cache
def page_of(case, drawn=False):
    """The page of a case as text, with empty pictures unless they are drawn."""
    return drawn_page(report_of(case)) if drawn else report_of(case).to_html()


def drawn_page(report):
    """The page of a report with its pictures."""
    with mock.patch("skcalib.report._diagrams.drawn", DRAWN):
        return report.to_html()


VOID = frozenset({"meta", "link", "img", "source", "br", "hr", "input"})


class Page(HTMLParser):
    """Elements of a page: tag, attributes and the text inside of each."""

    def __init__(self, text):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(text)
        self.close()
        assert not self._open, "elements that are never closed"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), "an attribute twice"
        found = {"tag": tag, "attrs": dict(attrs), "text": "", "inside": tuple(
            element["tag"] for element in self._open
        )}  # fmt: skip
        self.elements.append(found)
        if tag not in VOID:
            self._open.append(found)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, *tags):
        """Elements with one of the tags."""
        return [element for element in self.elements if element["tag"] in tags]

    def section(self, anchor):
        """The page of a section alone, by its anchor."""
        (found,) = (e for e in self.all("section") if e["attrs"].get("id") == anchor)
        return found


@cache
def parsed(case, drawn=False):
    """The page of a case, parsed."""
    return Page(page_of(case, drawn=drawn))


def rows_of_table(page, kind):
    """Cells of the body of a table by its class: a list of texts and numbers for each row."""
    (start,) = (
        k for k, e in enumerate(page.elements)
        if e["tag"] == "table" and kind in e["attrs"].get("class", "").split()
    )  # fmt: skip
    depth = len(page.elements[start]["inside"])
    rows = []
    for element in page.elements[start + 1 :]:
        if len(element["inside"]) <= depth:
            break
        if element["tag"] == "tr" and "tbody" in element["inside"]:
            rows.append([])
        elif element["tag"] in {"th", "td"} and "tbody" in element["inside"]:
            value = element["attrs"].get("data-value")
            rows[-1].append(element["text"] if value is None else float(value))
    return rows

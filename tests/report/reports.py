"""Reports of several kinds of data, and a parser of their pages."""

from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import expit
from sklearn.pipeline import make_pipeline

import skcalib
from skcalib.datasets import make_logits

HOSTILE = [
    "<script>window.broken=1</script>",
    "\"quoted\" & 'so' on",
    "$\\frac{1}{0}$ $",
    "nul \0 and \ud800",
    "x" * 100,
    "</style><img src=http://evil.example/x onerror=window.broken=1>",
]


def cohort(n=600, seed=0):
    """Outcomes and risks with ties, which are too extreme."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-1, 1, n)
    return (rng.uniform(size=n) < expit(z)).astype(int), expit(1.8 * z).round(2).clip(0.01, 0.99)


def validated(y, p, **params):
    """Report of a fixed model in a figure that pyplot does not hold."""
    return skcalib.validation_report(y, p, figure=Figure((5, 7)), random_state=0, **params)


def plain():
    """Temperature scaling of three classes."""
    Z, y = make_logits(600, 3, temperature=2.0, random_state=0)
    calibrator = skcalib.TemperatureScaling().fit(Z[:300], y[:300])
    return calibrator, Z[300:], y[300:], {}


def hostile():
    """Names that would break a page without escapes, and a comparison."""
    Z, y = make_logits(900, 6, temperature=2.0, random_state=1)
    names = np.array(HOSTILE, dtype=object)
    calibrator = skcalib.VectorScaling(classes=names).fit(Z[:500], names[y[:500]])
    compared = skcalib.compare_calibrators(
        Z, names[y], calibrators={HOSTILE[0]: skcalib.TemperatureScaling()}, cv=2, labels=names
    )
    metadata = {HOSTILE[0]: HOSTILE[5]}
    params = {"name": "".join(HOSTILE), "comparison": compared, "metadata": metadata}
    return calibrator, Z[500:], names[y[500:]], params


def two_classes():
    """Two classes in one column, with weights and segments."""
    Z, y = make_logits(900, 2, temperature=0.5, random_state=2)
    Z, names = Z[:, 1:] - Z[:, :1], np.array(["<b>no</b>", "yes & $"])
    rng = np.random.default_rng(0)
    w, site = rng.integers(0, 3, 900).astype(float), rng.choice(["north", "south"], 900)
    calibrator = skcalib.PlattScaling().fit(Z[:300], names[y[:300]])
    params = {"sample_weight": w[300:], "n_bins": 8, "features": site[300:]}
    return calibrator, Z[300:], names[y[300:]], params


def masked():
    """Masked classes, and a pipeline of calibrators."""
    Z, y = make_logits(500, 4, random_state=3)
    Z[np.arange(500), (y + 1) % 4] = -np.inf
    calibrator = make_pipeline(skcalib.TemperatureScaling(), skcalib.IsotonicCalibration())
    w = np.random.default_rng(0).uniform(0.5, 2, 250)
    return calibrator.fit(Z[:250], y[:250]), Z[250:], y[250:], {"sample_weight": w}


def few_rows():
    """Data frames of 20 rows."""
    Z, y = make_logits(100, 3, random_state=4)
    Z = pd.DataFrame(Z.astype(np.float32), columns=[0, 1, 2])
    return skcalib.BBQ().fit(Z[:80], y[:80]), Z[80:], pd.Series(y[80:]), {}


CASES = (plain, hostile, two_classes, masked, few_rows)


@cache
def report_of(case):
    """Report of a case, in a figure that pyplot does not hold."""
    calibrator, Z, y, params = case()
    figure = Figure((8, 7), layout="constrained")
    return skcalib.calibration_report(calibrator, Z, y, figure=figure, random_state=0, **params)


@cache
def page_of(case):
    """Parsed page of a case."""
    return Page(report_of(case).to_html())


VOID = frozenset({"meta", "link", "img", "source", "br", "hr", "input", "wbr"})


class Page(HTMLParser):
    """Elements of a page: tag, attributes, and the text inside of each."""

    def __init__(self, text):
        super().__init__()
        self.source, self.elements, self._open = text, [], []
        self.feed(text)
        self.close()
        assert not self._open, "elements that are never closed"

    def handle_starttag(self, tag, attrs):
        found = {"tag": tag, "attrs": dict(attrs), "text": ""}
        self.elements.append(found)
        if tag not in VOID:
            self._open.append(found)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, tag):
        return [element for element in self.elements if element["tag"] == tag]

    def headings(self):
        return [element["text"] for element in self.all("h2")]

    def section(self, anchor):
        """Text of the section with an anchor."""
        (found,) = (e["text"] for e in self.all("section") if e["attrs"]["id"] == anchor)
        return found

"""A comparison in a notebook: a table of HTML."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_html import Read

from skcalib import PlattScaling, TemperatureScaling, compare_calibrators
from skcalib.comparison import CalibratorComparison
from skcalib.datasets import make_logits

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'

TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


@pytest.fixture(scope="module")
def rows():
    return make_logits(400, 3, temperature=3.0, random_state=0)


@pytest.fixture(scope="module", params=["splits", "test set"])
def found(rows, request):
    test = None if request.param == "splits" else rows
    calibrators = {HOSTILE: TemperatureScaling(), "$a$": PlattScaling()}
    return compare_calibrators(*rows, calibrators=calibrators, test=test)


def texts_of(html):
    """The texts of the cells of each row."""
    html = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    rows = re.findall(r"<tr>(.*?)</tr>", html)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


def test_cells_hold_means_and_standard_errors(found):
    header, *rows = texts_of(found._repr_html_())
    others = list(found.scores)[1:]
    titles = ["log loss", f"difference from {found.reference}", *others]
    assert header == ["calibrator", *titles, "fit [s]"]
    assert len(rows) == len(found.names)
    for k, row in enumerate(rows):
        cells = [row[1], *row[3:-1]]
        for measure, cell in zip(found.scores, cells, strict=True):
            error = found.standard_error(measure)[k]
            is_best = measure in {"log loss", "Brier"} and found.best(measure)[k]
            best = "★ " if is_best else ""  # of proper scores alone
            spread = "" if np.isnan(error) else f" ± {error:.4f}"
            assert cell.replace("*", "") == f"{best}{found.mean(measure)[k]:.4f}{spread}"


def test_the_best_of_each_column(found):
    for measure in found.scores:
        means = found.mean(measure)
        best = means.max() if measure == "accuracy" else means.min()
        np.testing.assert_array_equal(found.best(measure), means == best)


def test_candidates_with_nan_loss_are_never_chosen():
    scores = {"log loss": np.array([[np.nan], [2.0], [1.0]]), "x": np.full((3, 1), np.nan)}
    found = CalibratorComparison(["a", "b", "uncalibrated"], scores, np.ones((3, 1)))
    assert found.best("log loss").tolist() == [False, False, True]
    assert not found.best("x").any()
    assert found._repr_html_().count("★ ") == 1 + 1  # and the note


def test_names_are_escaped(found):
    html = found._repr_html_()
    tags = Read(html).tags
    found_tags = {tag for tag, _ in tags}
    assert found_tags <= {"div", "style", "strong", "span", "p", "wbr", *TABLE}
    assert found_tags >= TABLE
    assert "&lt;script&gt;" in html
    # Formulas of names are not typeset by a notebook.
    assert {"mathjax_ignore", "tex2jax_ignore"} <= set(dict(tags[:1])["div"]["class"].split())


def test_names_may_break_in_front_of_capitals():
    found = CalibratorComparison(["uncalibrated", "VectorScaling"], {"a": np.eye(2)}, np.eye(2))
    assert "Vector<wbr>Scaling</th>" in found._repr_html_()

"""The code of a page runs and makes the same report; warnings are shown and given."""

import warnings
from unittest import mock

import numpy as np
import pytest
from matplotlib.figure import Figure
from pages_of_reports import cases, hostile, masked, parsed, plain, report_of
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skcalib import (
    AutoCalibrator,
    ClassifierCalibrator,
    HistogramBinning,
    TemperatureScaling,
    VectorScaling,
    calibration_report,
)
from skcalib._output.html import element, fragment
from skcalib.datasets import make_logits
from skcalib.export import to_json
from skcalib.report import _code, _sections


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
    ClassifierCalibrator(LogisticRegression(C=0.5)),
    AutoCalibrator([TemperatureScaling(), VectorScaling()], combine="best", random_state=3),
]


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=lambda c: type(c).__name__)
def test_code_repeats_the_report(calibrator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Z, y = make_logits(300, 3, random_state=0)
    y = np.array(["a", "b", "c"])[y]
    w = np.random.default_rng(0).uniform(size=100)
    data = {
        "logits": Z[:200], "y": y[:200], "logits_test": Z[200:], "y_test": y[200:],
        "weights_test": w, "new_logits": Z,
    }  # fmt: skip
    fitted = calibrator.fit(Z[:200], y[:200])
    params = {"name": 'it\'s "mine" \\', "n_bins": 6, "sample_weight": w}
    report = calibration_report(fitted, Z[200:], y[200:], figure=Figure((10, 8)), **params)
    names = dict(data)
    with mock.patch("skcalib.report._report.page_of", return_value="page"):
        exec(_code.to_repeat(report._results), names)
    again = names["report"]
    assert again.name == report.name
    np.testing.assert_array_equal(again._results.rows.after, report._results.rows.after)
    assert again._results.rows.n_bins == 6
    np.testing.assert_array_equal(again._results.rows.w, w)
    assert (tmp_path / "report.html").read_text() == "page"
    exec(_code.to_apply(report._results), names)
    np.testing.assert_array_equal(names["probabilities"], fitted.predict_proba(Z))
    if (tmp_path / "calibrator.json").exists():
        after = names["calibrator"].predict_proba(Z)
        np.testing.assert_array_equal(after, fitted.predict_proba(Z))


def test_json_is_offered_where_it_holds_the_calibrator():
    Z, y = make_logits(200, 3, random_state=0)
    offered = [_code.fits_json(calibrator) for calibrator in CALIBRATORS]
    assert offered == [True, True, True, False, True]
    y = np.array(["a", "b", "c"])[y]
    for calibrator in np.array(CALIBRATORS, dtype=object)[offered]:
        assert to_json(calibrator.fit(Z, y))
    assert "to_json" in _code.to_apply(report_of(masked)._results)


def test_code_of_the_comparison():
    code, _ = blocks(parsed(hostile))
    assert "comparison = compare_calibrators(logits, y)" in code
    assert "comparison=comparison" in code
    without, _ = blocks(parsed(plain))
    assert "compar" not in without
    assert "calibration_report(..., comparison=" in parsed(plain).section("comparison")["text"]


def test_warnings_are_shown_and_given_once():
    Z = np.array([[0.0, 1], [1, 0], [0, 2], [3, 0]])  # separable
    y = np.array([1, 0, 1, 0])
    calibrator = TemperatureScaling().fit(*make_logits(100, 2, random_state=0))
    with pytest.warns(ConvergenceWarning, match="no minimum") as caught:
        report = calibration_report(calibrator, Z, y, figure=Figure((10, 8)))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    (message,) = report.warnings_
    assert message.startswith("NoMinimumWarning: ")
    assert str(caught[0].message) in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            calibration_report(calibrator, Z, y)
    text = fragment(element("section", _sections.warnings(report._results)))
    assert "<li>NoMinimumWarning" in text
    assert "gave no warnings" in parsed(plain).section("warnings")["text"]
    assert report_of(plain).warnings_ == []

"""The verdict claims what the rows show, and no more."""

import re
from unittest import mock

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import softmax

from skcalib import TemperatureScaling, calibration_report
from skcalib.datasets import make_logits
from skcalib.metrics import calibration_test
from skcalib.report._evaluation import Evaluation
from skcalib.report._intervals import Intervals
from skcalib.report._verdict import _effect, as_pvalue, counted, joined, verdict


@pytest.fixture(autouse=True)
def _fewer_resamples(monkeypatch):
    monkeypatch.setattr("skcalib.report._intervals.MOST", 199)
    # Verdicts say nothing of these.
    monkeypatch.setattr("skcalib.report._intervals.TOO_MANY", {"smooth": 0, "classes": 0})


def said(before, after, *, n=2000, weight=None):
    """The verdict on calibrated logits that functions change before and after."""
    Z, y = make_logits(n, 3, temperature=1.0, random_state=0)
    before, after = (softmax(change(Z), axis=1) for change in (before, after))
    w = None if weight is None else np.full(n, weight)
    rows = Evaluation(y, w, np.arange(3), 15, before, after)
    tests = [calibration_test(y, P, n_resamples=199, random_state=0) for P in (before, after)]
    found = verdict(rows, "Method", Intervals(rows).changes(), tests)
    assert len(found) == 3
    for sentence in found:
        assert sentence.endswith(".")
        assert not re.search(r"\bnan\b|\.\.$|  ", sentence)
        assert not re.search(r"[.!?] [A-Z]", sentence), "more than one sentence"
        for ends in re.findall(r" ([\d.]+) to ([\d.]+)\)", sentence):
            assert float(ends[0]) <= float(ends[1])
    return found


def right(Z):
    return Z


def hot(Z):
    return 3 * Z


def cold(Z):
    return 0.4 * Z


def at_the_ends(Z):
    """Over-confident where the confidence is high, under-confident where it is low."""
    top = softmax(Z, axis=1).max(axis=1)
    return Z * np.where(top > 0.75, 3, 0.35)[:, None]


def a_little_hotter(Z):
    return 1.02 * Z


def shifted(by):
    """The logit of the first class is moved."""
    return lambda Z: Z + np.array([by, 0, 0])


def flat(Z):
    """Calibrated, and without any discrimination."""
    return np.log([[0.34, 0.33, 0.33]]) + 0 * Z


def test_over_confident_and_repaired():
    first, second, third = said(hot, right)
    assert first.startswith("Before calibration the model is over-confident: its mean confidence")
    assert second.startswith("Method lowers the log loss by ")
    for title in ("the log loss by", "the Brier score by", "the debiased ECE by"):
        assert title in second
    assert "accuracy" not in second
    assert "which does not prove that there is none" in third
    assert "no more than chance explains" in third


def test_under_confident():
    first, second, _ = said(cold, right)
    assert "the model is under-confident" in first
    assert second.startswith("Method lowers")
    gap = float(re.search(r"a difference of ([\d.]+) percentage points", first)[1])
    low, high = map(float, re.search(r"interval ([\d.]+) to ([\d.]+)\)", first).groups())
    assert 0 < low < gap < high


def test_made_worse():
    first, second, third = said(right, hot)
    assert "neither over- nor under-confidence on average, and no other miscalibration (" in first
    assert second.startswith("Method makes the probabilities worse: it raises the log loss by ")
    assert "more than chance explains" in third
    assert "the model is over-confident now, by " in third


def test_miscalibrated_although_the_means_agree():
    first, second, third = said(at_the_ends, at_the_ends)
    assert "but the model is miscalibrated, since confidence and accuracy differ from bin" in first
    assert second == "Method leaves all probabilities as they are."
    assert "more than chance explains" in third


def test_measures_that_disagree():
    """Constant probabilities are calibrated and have a large log loss."""
    _, second, _ = said(cold, flat)
    assert second.startswith("Method does not improve all measures: it lowers the debiased ECE by")
    assert "but raises the log loss by" in second


def test_an_error_that_rises_alone_does_not_make_probabilities_worse():
    y = np.repeat(np.arange(2), 200)
    P = np.tile([[0.6, 0.4], [0.4, 0.6]], (200, 1))
    rows = Evaluation(y, None, np.arange(2), 15, P, P[:, ::-1])
    clear = mock.Mock(statistic=0.02, low=0.01, high=0.03)
    other = mock.Mock(statistic=0.02, low=-0.01, high=0.03)
    for rising, start in (
        ({"debiased ECE"}, "Method raises the debiased ECE by 0.0200"),
        ({"Brier score"}, "Method makes the probabilities worse: it raises the Brier score"),
    ):
        titles = ("log loss", "Brier score", "debiased ECE", "accuracy")
        changes = {t: mock.Mock(difference=clear if t in rising else other) for t in titles}
        assert _effect(rows, "Method", changes).startswith(start)


def test_no_clear_effect():
    _, second, _ = said(right, a_little_hotter, n=300)
    assert second.startswith("Method has no clear effect on the log loss (")


def test_a_change_that_is_clear_in_part():
    _, second, _ = said(right, shifted(0.05), n=4000)
    assert "clear" in second


@pytest.mark.slow
def test_a_small_error_is_called_so_however_significant():
    _, _, third = said(right, lambda Z: 1.03 * Z, n=200_000)
    assert "which is small, but more than chance explains" in third
    assert "which is small" not in said(right, hot)[2]


def test_later_changes_of_arrays_change_nothing():
    Z, y = make_logits(300, 3, random_state=0)
    calibrator, w = TemperatureScaling().fit(Z, y), np.ones(300)
    params = {"figure": Figure((10, 8)), "sample_weight": w}
    report = calibration_report(calibrator, Z, y, **params)
    expected = calibration_report(calibrator, Z, y, figure=Figure((10, 8))).verdict_
    y[:], w[:100] = 0, 5
    assert report.verdict_ == expected


def test_accuracy_that_changes_is_said():
    _, second, _ = said(shifted(3), right)
    assert re.search(r"; the accuracy rises by \d+\.\d percentage points\.$", second)


@pytest.mark.parametrize(("n", "weight"), [(60, None), (99, 7.0)])
def test_few_rows(n, weight):
    first, second, third = said(hot, right, n=n, weight=weight)
    assert first.startswith(f"{n} rows are too few to say")
    assert "is uncertain with so few rows" in second
    assert "so few rows reveal only large errors" in third
    assert "\N{MINUS SIGN}" in second


def test_numbers_in_words():
    assert [as_pvalue(p) for p in (0.0012, 0.0994, 0.0996, 0.5)] == [
        "p = 0.001", "p = 0.099", "p = 0.10", "p = 0.50"
    ]  # fmt: skip
    rows = [mock.Mock(n_samples=n) for n in (1, 2, 12_345)]
    assert [counted(of) for of in rows] == ["1 row", "2 rows", "12,345 rows"]


def test_lists_in_words():
    assert [joined(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]

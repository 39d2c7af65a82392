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
from skcalib.report._measures import Evaluation, changes_of
from skcalib.report._results import as_pvalue, counted, joined, verdict

# Verdicts say nothing of intervals that take long.
pytestmark = pytest.mark.usefixtures("quick")


def said(before, after, *, n=2000, weight=None):
    """The verdict on calibrated logits that functions change before and after."""
    Z, y = make_logits(n, 3, temperature=1.0, random_state=0)
    before, after = (softmax(change(Z), axis=1) for change in (before, after))
    w = None if weight is None else np.full(n, weight)
    rows = Evaluation(y, w, np.arange(3), 15, before, after)
    tests = [calibration_test(y, P, n_resamples=99, random_state=0) for P in (before, after)]
    found = verdict(rows, "Method", changes_of(rows), tests)
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


@pytest.mark.slow
def test_over_confident_and_repaired():
    first, second, third = said(hot, right)
    assert first.startswith("Before calibration the model is over-confident: its mean confidence")
    assert second.startswith("Method lowers the log loss (")
    for title in ("the log loss (", "the Brier score (", "the debiased ECE ("):
        assert title in second
    assert "accuracy" not in second
    assert "which does not prove that there is none" in third
    assert "no more than chance explains" in third


@pytest.mark.slow
def test_under_confident():
    first, second, _ = said(cold, right)
    assert "the model is under-confident" in first
    assert second.startswith("Method lowers")
    gap = float(re.search(r"a difference of ([\d.]+) percentage points", first)[1])
    low, high = map(float, re.search(r"interval ([\d.]+) to ([\d.]+)\)", first).groups())
    assert 0 < low < gap < high


@pytest.mark.slow
def test_made_worse():
    first, second, third = said(right, hot)
    assert "neither over- nor under-confidence on average, and no other miscalibration (" in first
    assert second.startswith("Method makes the probabilities worse: it raises the log loss (")
    assert "more than chance explains" in third
    assert "the model is over-confident now, by " in third


@pytest.mark.slow
def test_miscalibrated_although_the_means_agree():
    first, second, third = said(at_the_ends, at_the_ends)
    assert (
        "but the model is miscalibrated, since predictions and frequencies differ from bin" in first
    )
    assert second == "Method leaves all probabilities as they are."
    assert "more than chance explains" in third


@pytest.mark.slow
def test_measures_that_disagree():
    """Constant probabilities are calibrated and have a large log loss."""
    _, second, _ = said(cold, flat)
    assert second.startswith("Method makes the probabilities worse: it lowers the debiased ECE (")
    assert "; it raises the log loss (" in second


@pytest.mark.slow
def test_an_error_that_rises_alone_does_not_make_probabilities_worse():
    y = np.repeat(np.arange(2), 200)
    P = np.tile([[0.6, 0.4], [0.4, 0.6]], (200, 1))
    rows = Evaluation(y, None, np.arange(2), 15, P, P[:, ::-1])
    clear = mock.Mock(estimate=0.02, low=0.01, high=0.03)
    other = mock.Mock(estimate=0.02, low=-0.01, high=0.03)
    changes, tests = changes_of(rows), [mock.Mock(pvalue=0.5)] * 2
    for rising, start in (
        ("debiased ECE", "Method raises the debiased ECE (+0.0200, "),
        ("Brier score", "Method makes the probabilities worse: it raises the Brier score"),
    ):
        for title, change in changes.items():
            changes[title] = change._replace(difference=clear if title == rising else other)
        assert verdict(rows, "Method", changes, tests)[1].startswith(start)


@pytest.mark.slow
def test_no_clear_effect():
    _, second, _ = said(right, a_little_hotter, n=300)
    assert second.startswith("Method has no clear effect on the log loss (")


@pytest.mark.slow
def test_a_change_that_is_clear_in_part():
    _, second, _ = said(right, shifted(0.05), n=4000)
    assert "clear" in second


@pytest.mark.slow
def test_a_small_error_is_called_so_however_significant():
    _, _, third = said(right, lambda Z: 1.03 * Z, n=200_000)
    assert "which is small, but more than chance explains" in third
    assert "which is small" not in said(right, hot)[2]


@pytest.mark.slow
def test_later_changes_of_arrays_change_nothing():
    Z, y = make_logits(300, 3, random_state=0)
    calibrator, w = TemperatureScaling().fit(Z, y), np.ones(300)
    params = {"figure": Figure((10, 8)), "sample_weight": w}
    report = calibration_report(calibrator, Z, y, **params)
    expected = calibration_report(calibrator, Z, y, figure=Figure((10, 8))).verdict_
    y[:], w[:100] = 0, 5
    assert report.verdict_ == expected


@pytest.mark.slow
def test_accuracy_that_changes_is_said():
    _, second, _ = said(shifted(3), right)
    assert re.search(r"; the accuracy rises by \d+\.\d percentage points\.$", second)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "weight"), [(60, None), (99, 7.0)])
def test_few_rows(n, weight):
    first, second, third = said(hot, right, n=n, weight=weight)
    assert first.startswith(f"{n} rows are too few to say")
    assert "is uncertain with so few rows" in second
    assert "so few rows reveal only large errors" in third
    assert "\N{MINUS SIGN}" in second


def said_of_an_event(factor, kind="auto", n=20_000):
    """The verdict on probabilities of an event that are so many times the true ones."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 10, n) * factor[1]
    y = np.array(["no", "yes"])[(rng.uniform(size=n) < p).astype(int)]
    before, after = (np.column_stack([1 - q, q]) for q in (factor[0] * p, p))
    rows = Evaluation(y, None, np.array(["no", "yes"]), 15, before, after, kind)
    tests = [
        calibration_test(y, P, kind=rows.kind, n_resamples=99, random_state=0)
        for P in (before, after)
    ]
    return verdict(rows, "Method", changes_of(rows), tests)


def test_risks_of_two_classes():
    """A risk that is too low is not called over-confident, though its confidence is too high."""
    first, effect, last = said_of_an_event((0.7, 1))
    assert first.startswith("Before calibration the model under-estimates the probability of yes: ")
    assert "its mean is 11.7%, and 16.8% of the rows are yes, a difference of 5.1 perc" in first
    assert effect.startswith("Method lowers the log loss (")
    assert "no more than chance explains" in last
    assert "over-estimates the probability of yes" in said_of_an_event((1.3, 1))[0]
    assert "neither over- nor under-estimation on average" in said_of_an_event((1, 1))[0]
    by_name, *_ = said_of_an_event((0.7, 1), "top-label")
    assert by_name.startswith("Before calibration the model is over-confident: its mean conf")


def test_rare_events_have_digits_that_count():
    first, effect, last = said_of_an_event((0.2, 0.01))
    assert re.search(r"its mean is 0\.03\d%, and 0\.1\d% of the rows are yes", first)
    assert "0.0000" not in effect
    assert re.search(r"After calibration the ECE is (0\.000\d\d|\de-05|\d\.\de-05) ", last)
    _, effect, _ = said_of_an_event((0.2, 0.001))
    assert re.search("since (only \\d|none) of them (is|are) of class yes", effect)


def test_numbers_in_words():
    assert [as_pvalue(p) for p in (0.0012, 0.0994, 0.0996, 0.5)] == [
        "p = 0.001", "p = 0.099", "p = 0.10", "p = 0.50"
    ]  # fmt: skip
    rows = [mock.Mock(n_samples=n) for n in (1, 2, 12_345)]
    assert [counted(of) for of in rows] == ["1 row", "2 rows", "12,345 rows"]


def test_lists_in_words():
    assert [joined(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


# --------------------------------------------------------------------------------------
# Rows of which hardly any is misclassified.


def report_on(Z, y, other=None):
    calibrator = TemperatureScaling().fit(*(other or (Z, y)))
    return calibration_report(calibrator, Z, y, figure=Figure((10, 8)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_rows_without_an_error_do_not_show_underconfidence(logits3, rng):
    """Probabilities of 0.9999, of which none is wrong in 500 rows, may well be right."""
    y = rng.integers(3, size=500)
    Z = np.log(0.00005) * (np.arange(3) != y[:, None])
    first, second, _ = report_on(Z, y, logits3).verdict_
    assert "neither over- nor under-confidence" in first
    assert second.endswith("but new rows may say otherwise, since none of them is misclassified.")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
@pytest.mark.parametrize(("n_wrong", "words"), [
    (1, "only 1 of them is misclassified"),
    (9, "only 9 of them are misclassified"),
    (493, "only 7 of them are classified correctly"),
])  # fmt: skip
def test_few_errors_make_scores_uncertain(n_wrong, words, logits3, rng):
    y = rng.integers(3, size=500)
    top = np.where(np.arange(500) < n_wrong, (y + 1) % 3, y)
    Z = 6.0 * (np.arange(3) == top[:, None])
    report = report_on(Z, y, logits3)
    _, second, third = report.verdict_
    assert words in second
    assert "interval of the mean confidence less the accuracy" in third
    assert f"too narrow for these rows, since {words}" in report._repr_html_()
    assert not re.search("worse|improve|lowers|raises", second)


@pytest.mark.slow
def test_enough_errors_let_the_scores_decide(logits3, rng):
    y = rng.integers(3, size=500)
    top = np.where(np.arange(500) < 10, (y + 1) % 3, y)
    report = report_on(3.0 * (np.arange(3) == top[:, None]), y, logits3)
    assert "misclassified" not in report.verdict_[1]
    assert "interval of the true error" in report.verdict_[2]
    assert "too narrow" not in report._repr_html_()

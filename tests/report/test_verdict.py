"""The verdict says no more than the rows show."""

from string import Template

import numpy as np
import pytest
from matplotlib.figure import Figure
from reports import validated
from scipy.special import expit
from scipy.stats import binom

from skcalib import PlattScaling, TemperatureScaling, calibration_report
from skcalib.datasets import make_logits
from skcalib.report._verdict import SENTENCES


def verdict_on(calibrator, Z, y, name="Method"):
    """Verdict of a report."""
    report = calibration_report(calibrator, Z, y, name=name, figure=Figure((8, 7)), random_state=0)
    headline, effect, remaining = report.verdict_
    assert headline.startswith(
        ("Calibrated after", "Not calibrated after", "Not shown", "Not clear")
    )
    assert effect.endswith(".")
    assert remaining.endswith(".")
    return effect, remaining


def verdict_of(before, temperature):
    """Verdict on calibrated logits times ``before``, which the calibrator divides by T."""
    Z, y = make_logits(2000, 3, temperature=1.0, random_state=0)
    calibrator = TemperatureScaling(smoothing=0).fit(Z, y)
    calibrator.temperature_ = temperature
    return verdict_on(calibrator, before * Z, y)


def test_over_confidence_that_is_repaired():
    effect, remaining = verdict_of(3, 3.0)
    assert effect.startswith("Method improves the probabilities: the log loss falls from 0.")
    assert "95% interval \N{MINUS SIGN}0." in effect
    assert remaining.startswith("After calibration the ECE is 0.0")
    assert remaining.endswith("which does not prove its absence.")


def test_probabilities_that_are_made_worse():
    effect, remaining = verdict_of(1, 0.3)
    assert effect.startswith("Method makes the probabilities worse: the log loss rises from 0.")
    assert "95% interval +0." in effect
    assert remaining.endswith("the model is still miscalibrated (p < 0.001).") or (
        "the model is still miscalibrated (p = 0.0" in remaining
    )


@pytest.mark.usefixtures("few_resamples")
def test_an_effect_that_may_be_chance():
    effect, _ = verdict_of(1.02, 1.02)
    assert effect.startswith("Method has no clear effect: the log loss goes from 0.")


@pytest.mark.usefixtures("few_resamples")
def test_probabilities_that_do_not_change():
    effect, _ = verdict_of(1, 1.0)
    assert effect == "Method leaves all probabilities unchanged."


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(
    ("n", "words"), [(1, "but 1 row reveals only"), (60, "but 60 rows reveal only")]
)
@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_few_rows_reveal_only_large_errors(n, words):
    Z, y = make_logits(500, 3, random_state=0)
    calibrator = TemperatureScaling().fit(Z, y)
    assert words in verdict_on(calibrator, Z[:n], y[:n])[1]


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
@pytest.mark.parametrize(
    ("n_wrong", "words"),
    [
        (0, "only 0 rows are misclassified, so this interval is too narrow"),
        (1, "only 1 row is misclassified, so this interval is too narrow"),
        (493, "only 7 rows are classified correctly, so this interval is too narrow"),
        (10, None),
    ],
)
def test_few_errors_make_scores_uncertain(n_wrong, words, rng):
    y = rng.integers(3, size=500)
    top = np.where(np.arange(500) < n_wrong, (y + 1) % 3, y)
    Z = 6.0 * (np.arange(3) == top[:, None])
    calibrator = TemperatureScaling().fit(*make_logits(300, 3, random_state=0))
    effect, _ = verdict_on(calibrator, Z, y)
    assert ("too narrow" in effect) == (words is not None)
    assert (words or "") in effect


@pytest.mark.usefixtures("few_resamples")
def test_rare_events_are_named():
    Z, y = make_logits(3000, 2, random_state=0)
    rows = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:6]])
    calibrator = PlattScaling().fit(Z, y)
    effect, _ = verdict_on(calibrator, Z[rows], y[rows])
    assert "only 6 rows are with the event" in effect


@pytest.mark.usefixtures("few_resamples")
def test_small_changes_have_significant_digits():
    effect, _ = verdict_of(1, 1.001)
    assert "0.0000" not in effect


def hospitals(seed=0, scale=1.8):
    """Outcomes, risks that are too extreme, and twelve hospitals, of which one has more events."""
    rng = np.random.default_rng(seed)
    hospital = rng.integers(12, size=3000)
    z = rng.normal(-1.2, 1, 3000)
    y = (rng.uniform(size=3000) < expit(z + np.where(hospital == 7, 1.3, 0))).astype(int)
    return y, expit(scale * z + 0.8 * (scale - 1)), hospital


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore::families.FewGroupsWarning")
def test_the_verdict_does_not_contradict_itself():
    """With 12 groups the test of the ECE has no power, but the slope is clearly wrong."""
    y, p, hospital = hospitals()
    verdict = validated(y, p, groups=hospital).verdict_
    assert verdict[0] == "Not calibrated: the test of the spread of the risks finds an error."
    assert verdict[2].startswith("Risks are too extreme")
    assert "the ECE alone does not show an error (p = " in verdict[3]


@pytest.mark.parametrize("table", ["tests", "ece"])
def test_sentences_of_both_reports_say_the_same(table):
    """A sentence after calibration has the numbers of the sentence without a calibrator."""
    both = (SENTENCES[report][table] for report in ("calibration", "validation"))
    after, alone = (
        {answer: set(Template(text).get_identifiers()) for answer, text in sentences.items()}
        for sentences in both
    )
    assert {answer: words - {"name", "before"} for answer, words in after.items()} == alone


@pytest.mark.slow
def test_the_first_sentence_is_of_all_tests(rng):
    p = rng.uniform(0.05, 0.95, size=1000)
    y = (rng.uniform(size=1000) < p).astype(int)
    first = validated(y, p).verdict_[0]
    assert first.startswith("Calibrated as far as 1,000 rows show: none of 4 tests finds an error")
    assert validated(y[-60:], p[-60:]).verdict_[0].startswith("Not shown: none of 4 tests finds")
    worse = validated(y, p, features=np.where((p > 0.4) & (y == 1), "a", "b"))
    s = worse.segments_
    gap, low, high = (f"{x[0]:+.4f}" for x in (s.gap, s.low, s.high))
    place = f"0 = b, scores from {s.lower[0]:.2f} to {s.upper[0]:.2f}"
    found = f"the test of a segment ({place}: gap {gap} [{low}, {high}]) finds an error."
    assert worse.verdict_[0] == f"Not calibrated: {found}"
    assert f"{s.segment[1]}, scores" in str(worse)


def test_an_error_that_may_be_chance_is_not_clear():
    for seed in range(7, 40):  # the first sample with a doubt
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.95, size=500)
        verdict = validated((rng.uniform(size=500) < p).astype(int), p).verdict_
        if verdict[0].startswith("Not clear"):
            assert "with p below 0.05, but not below 0.0125, the limit for 4 tests" in verdict[0]
            text = " ".join(verdict)
            assert "Risks may be" in text or "the model may be miscalibrated" in text
            assert "Risks are" not in text
            assert "the model is" not in text
            return
    raise AssertionError("no sample has a doubt")


@pytest.mark.slow
def test_a_calibrated_model_is_seldom_not_calibrated():
    """At most 5 % of samples, although the verdict has four tests."""
    count = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = rng.beta(2, 5, size=400)
        verdict = validated((rng.uniform(size=400) < p).astype(int), p).verdict_
        count += verdict[0].startswith("Not calibrated")
    assert count <= binom.ppf(0.999, 100, 0.05)

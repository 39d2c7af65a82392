"""The verdict says no more than the rows show."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from skcalib import PlattScaling, TemperatureScaling, calibration_report
from skcalib.datasets import make_logits


def verdict_on(calibrator, Z, y, name="Method"):
    """Verdict of a report."""
    report = calibration_report(calibrator, Z, y, name=name, figure=Figure((8, 7)), random_state=0)
    effect, remaining = report.verdict_
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


def test_an_effect_that_may_be_chance():
    effect, _ = verdict_of(1.02, 1.02)
    assert effect.startswith("Method has no clear effect: the log loss goes from 0.")


def test_probabilities_that_do_not_change():
    effect, _ = verdict_of(1, 1.0)
    assert effect == "Method leaves all probabilities unchanged."


@pytest.mark.parametrize(("n", "words"), [(1, "but 1 row reveal"), (60, "but 60 rows reveal")])
@pytest.mark.filterwarnings("ignore:The log loss has no minimum")
def test_few_rows_reveal_only_large_errors(n, words):
    Z, y = make_logits(500, 3, random_state=0)
    calibrator = TemperatureScaling().fit(Z, y)
    assert words in verdict_on(calibrator, Z[:n], y[:n])[1]


@pytest.mark.filterwarnings("ignore::skcalib._warnings.ColumnOrderWarning")
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


def test_rare_events_are_named():
    Z, y = make_logits(3000, 2, random_state=0)
    rows = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:6]])
    calibrator = PlattScaling().fit(Z, y)
    effect, _ = verdict_on(calibrator, Z[rows], y[rows])
    assert "only 6 rows are with the event" in effect


def test_small_changes_have_significant_digits():
    effect, _ = verdict_of(1, 1.001)
    assert "0.0000" not in effect

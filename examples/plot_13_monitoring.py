"""
13. Monitoring the calibration of a deployed model
==================================================

The labels of a deployed classifier arrive in batches, and the data may drift away from the rows
that the classifier was calibrated on. A monitor raises an alarm after a drift, and is unlikely to
raise one without. Monitors store sums of bins, not rows.
"""

# %%
# The classifier does not change: logits of three classes with a standard deviation of 2, and 400
# rows a week. Up to week 20 the labels are drawn from its probabilities, which are therefore
# calibrated. After week 20 the logits are divided by a temperature before the labels are drawn.
# The temperature increases by 0.04 a week, so the classifier becomes more and more over-confident.

import numpy as np
from scipy.special import softmax

from skcalib.datasets import make_logits

WEEKS, DRIFT = 40, 20


def draw_week(week):
    temperature = 1 + 0.04 * max(0, week - DRIFT)
    logits, y = make_logits(
        400, 3, temperature=temperature, spread=2 / temperature, random_state=week
    )
    return y, softmax(logits, axis=1)


# %%
# One monitor gets the rows of all weeks. Its alarm is a sequential test: if the probabilities are
# calibrated, the probability of any false alarm is at most 5 %, with a look every week. Another
# monitor per week has the ECE of the week.

from skcalib.monitor import CalibrationMonitor

LABELS = [0, 1, 2]
whole = CalibrationMonitor(LABELS)
weeks, e_values = [], []
for week in range(1, WEEKS + 1):
    y, proba = draw_week(week)
    weeks.append(CalibrationMonitor(LABELS).update(y, proba))
    e_values.append(whole.update(y, proba).e_value_)
alarm = whole.n_samples_at_alarm_ // 400
print(whole)
print(f"drift after week {DRIFT}, alarm in week {alarm}")

# %%
# Without a sequential test, :func:`~skcalib.metrics.calibration_test` can be applied to each week.
# At a level of 5 % it would raise a false alarm in every twentieth week of a calibrated model. For
# a probability of 5 % of any false alarm over all weeks, divide the level by their number
# (Bonferroni correction). This does not add up the evidence of several weeks.

from skcalib.metrics import calibration_test

pvalues = []
for week in range(1, WEEKS + 1):
    y, proba = draw_week(week)
    test = calibration_test(y, proba, labels=LABELS, n_resamples=799, random_state=0)
    pvalues.append(test.pvalue)
rejected = np.flatnonzero(np.array(pvalues) <= 0.05 / WEEKS) + 1
print(f"first rejection in week {rejected[0]}")
print(f"weeks before the drift below 5 %: {(np.array(pvalues[:DRIFT]) < 0.05).sum()} of {DRIFT}")

# %%
# Even a calibrated model has a positive ECE. Its expected value under calibration is estimated
# with labels that are drawn from the predicted probabilities.

random = np.random.default_rng(0)


def null_error(week):
    _, proba = draw_week(week)
    y = (proba.cumsum(axis=1)[:, :-1] <= random.uniform(size=(len(proba), 1))).sum(axis=1)
    return CalibrationMonitor(LABELS).update(y, proba).measure("expected_calibration_error")


null = np.mean([null_error(week) for week in range(1, WEEKS + 1) for _ in range(4)])
errors = np.array([monitor.measure("expected_calibration_error") for monitor in weeks])

# %%
# The e-value falls slowly while the model is calibrated, and grows exponentially after that. The
# ECE of single weeks varies around its expected value under calibration, so the drift is hard to
# see for some weeks.

import matplotlib.pyplot as plt

BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#777777"
numbers = np.arange(1, WEEKS + 1)

figure, (upper, ax) = plt.subplots(
    2, 1, figsize=(8, 6.5), sharex=True, layout="constrained", height_ratios=[2, 3]
)
upper.plot(numbers, e_values, color=BLUE, linewidth=2)
upper.axhline(20, color=GREY, linestyle="--", linewidth=1)
upper.text(1, 30, "alarm at 1 / 0.05", color=GREY, va="bottom")
upper.set(yscale="log", ylabel="e-value", ylim=(0.1, 1e6))

ax.plot(numbers, errors, "o", color=GREY, markersize=4, label="one week")
ax.plot(
    rejected, errors[rejected - 1], "o", color=VERMILION, markersize=7,
    label=f"one week, rejected at 0.05/{WEEKS}",
)  # fmt: skip
ax.axhline(null, color=GREY, linestyle="--", linewidth=1, label="expected if calibrated")
ax.set(xlabel="week", ylabel="ECE", xlim=(0, WEEKS + 1), ylim=(0, None))
for axes in (upper, ax):
    axes.axvline(DRIFT + 0.5, color=GREY, linestyle=":")
    axes.axvline(alarm, color=VERMILION, linestyle=":")
top = ax.get_ylim()[1]
ax.text(DRIFT + 0.2, 0.98 * top, "drift begins", ha="right", va="top", color=GREY)
ax.text(alarm + 0.3, 0.98 * top, "alarm", ha="left", va="top", color=VERMILION)
ax.legend(loc="upper left", bbox_to_anchor=(0, 0.92))
plt.show()

# %%
# The reliability diagram of the last four weeks shows the over-confidence. A new temperature,
# fitted to rows after the alarm, corrects it.

from skcalib import ReliabilityDisplay

last = CalibrationMonitor(LABELS)
for week in range(WEEKS - 3, WEEKS + 1):
    last.update(*draw_week(week))
ReliabilityDisplay(last.curve(), name="Last four weeks").plot()
plt.show()

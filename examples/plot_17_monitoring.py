"""
17. Monitoring the calibration of a deployed model
==================================================

The labels of a deployed classifier arrive in batches, and the data may drift away from those it was
calibrated on. A monitor raises an alarm when they do, and hardly ever if they do not. Monitors keep
the sums of bins, not rows, and those of weeks add up to longer periods.
"""

# %%
# The classifier does not change: logits of three classes with a standard deviation of 2, and 400
# rows a week. Up to week 20 its probabilities are calibrated: the labels are drawn from them. After
# that the data drift, and the labels are drawn from the softmax of the logits divided by a
# temperature that increases by 0.04 a week. The classifier becomes more and more over-confident.

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
# calibrated, the probability that it is ever raised is at most 5 %, although it is looked at every
# week. Another monitor per week keeps the sums of the bins of that week.

from skcalib.monitor import CalibrationMonitor, DriftMonitor

LABELS = [0, 1, 2]
whole = CalibrationMonitor(labels=LABELS)
weeks, e_values = [], []
for week in range(1, WEEKS + 1):
    y, proba = draw_week(week)
    weeks.append(CalibrationMonitor(labels=LABELS).update(y, proba))
    e_values.append(whole.update(y, proba).e_value)
alarm = whole.n_samples_at_alarm // 400
print(whole)
print(f"drift after week {DRIFT}, alarm in week {alarm}")

# %%
# Without a sequential test, :func:`~skcalib.metrics.calibration_test` can be applied to each week.
# At a level of 5 % it would raise a false alarm in every twentieth week of a calibrated model. For
# a probability of 5 % of any false alarm over all weeks, divide the level by their number, which is
# the Bonferroni correction. It does not add up the evidence of several weeks.

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
# The logits have not changed here, only what they mean, so there is no drift of the predictions to
# be found without labels.

reference, *unlabelled = [draw_week(week)[1] for week in range(WEEKS + 1)]
drift = DriftMonitor(reference)
for proba in unlabelled:
    drift.update(proba)
print(drift)

# %%
# Monitors can be added with ``+``, so the last four weeks are a sum, for which no rows are needed.


def last_four(monitors):
    return [
        sum(monitors[k - 4 : k], start=CalibrationMonitor(labels=LABELS))
        for k in range(4, WEEKS + 1)
    ]


months = last_four(weeks)
print(months[-1])

# %%
# Even a calibrated model has a positive ECE, which is larger with fewer rows, so the ECE of one
# week cannot be compared with that of four. Its expected value under calibration is estimated with
# labels drawn from the predicted probabilities.

random = np.random.default_rng(0)


def null_week(week):
    _, proba = draw_week(week)
    y = (proba.cumsum(axis=1)[:, :-1] <= random.uniform(size=(len(proba), 1))).sum(axis=1)
    return CalibrationMonitor(labels=LABELS).update(y, proba)


def errors(monitors):
    return np.array([monitor.expected_calibration_error() for monitor in monitors])


null_years = [[null_week(week) for week in range(1, WEEKS + 1)] for _ in range(4)]
null_of_a_week = np.mean([errors(year) for year in null_years])
null_of_four = np.mean([errors(last_four(year)) for year in null_years])

# %%
# The e-value falls slowly while the model is calibrated, and grows exponentially after that. The
# ECE of a single week varies about its expected value under calibration, from which the effect of
# the drift is hard to distinguish for some weeks. The ECE of four weeks varies less, and its
# expected value under calibration is half as high.

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

ax.plot(numbers, errors(weeks), "o", color=GREY, markersize=4, label="one week")
ax.plot(
    rejected, errors(weeks)[rejected - 1], "o", color=VERMILION, markersize=7,
    label=f"one week, rejected at 0.05/{WEEKS}",
)  # fmt: skip
ax.plot(numbers[3:], errors(months), color=BLUE, linewidth=2, label="last four weeks")
ax.axhline(null_of_a_week, color=GREY, linestyle="--", linewidth=1)
ax.axhline(null_of_four, color=BLUE, linestyle="--", linewidth=1)
ax.set(xlabel="week", ylabel="ECE", xlim=(0, WEEKS + 1), ylim=(0, None))
for axes in (upper, ax):
    axes.axvline(DRIFT + 0.5, color=GREY, linestyle=":")
    axes.axvline(alarm, color=VERMILION, linestyle=":")
top = ax.get_ylim()[1]
ax.text(DRIFT + 0.2, 0.98 * top, "drift begins", ha="right", va="top", color=GREY)
ax.text(alarm + 0.3, 0.98 * top, "alarm", ha="left", va="top", color=VERMILION)
right = {"x": WEEKS + 0.8, "ha": "right", "va": "bottom"}
ax.text(y=null_of_a_week, s="if calibrated, one week", color=GREY, **right)
ax.text(y=null_of_four, s="if calibrated, four weeks", color=BLUE, **right)
ax.legend(loc="upper left", bbox_to_anchor=(0, 0.92))
plt.show()

# %%
# The monitor of the last four weeks also draws the reliability diagram, ``months[-1].plot()``. Here
# the remedy would be a new temperature, fitted to rows from after the alarm.

import pandas as pd

periods = {"before the drift": months[DRIFT - 4], "last four weeks": months[-1]}
pd.DataFrame(
    {
        name: {
            "rows": monitor.n_samples,
            "ECE": monitor.expected_calibration_error(),
            "RMSCE": monitor.root_mean_squared_calibration_error(),
            "MCE": monitor.maximum_calibration_error(),
        }
        for name, monitor in periods.items()
    }
).round(3)

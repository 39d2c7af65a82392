"""
Monitoring the calibration of a deployed model
==============================================

The labels of a deployed classifier arrive in batches, and the data may drift away from those it was
calibrated on. A monitor per week keeps the sums of its bins, not its rows; monitors of weeks add up
to longer periods.
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
# Each week has its own monitor and a test of the hypothesis that the probabilities are calibrated.
# The test resamples the labels of the rows, so it is done while the rows are available; only the
# monitor is kept.
#
# A test at a level of 5 % each week would raise a false alarm in every twentieth week of a
# calibrated model. For a probability of 5 % of any false alarm over all weeks, divide the level by
# their number, which is the Bonferroni correction; p-values as small as that need enough resamples.

from skcalib import CalibrationMonitor
from skcalib.metrics import calibration_test

LABELS = [0, 1, 2]
level = 0.05 / WEEKS
weeks, pvalues = [], []
for week in range(1, WEEKS + 1):
    y, proba = draw_week(week)
    weeks.append(CalibrationMonitor(labels=LABELS).update(y, proba))
    test = calibration_test(y, proba, labels=LABELS, n_resamples=1999, random_state=0)
    pvalues.append(test.pvalue)
rejected = np.flatnonzero(np.array(pvalues) < level) + 1
alarm = rejected[0]
print(f"level {level:.5f}: drift after week {DRIFT}, alarm in week {alarm}")
print(f"weeks before the drift below 5 %: {(np.array(pvalues[:DRIFT]) < 0.05).sum()} of {DRIFT}")

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
# The ECE of a single week varies about its expected value under calibration, from which the effect
# of the drift is hard to distinguish for some weeks. The ECE of four weeks varies less, and its
# expected value under calibration is half as high.

import matplotlib.pyplot as plt

BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#777777"
numbers = np.arange(1, WEEKS + 1)

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.plot(numbers, errors(weeks), "o", color=GREY, markersize=4, label="one week")
ax.plot(
    rejected, errors(weeks)[rejected - 1], "o", color=VERMILION, markersize=7,
    label=f"one week, rejected at 0.05/{WEEKS}",
)  # fmt: skip
ax.plot(numbers[3:], errors(months), color=BLUE, linewidth=2, label="last four weeks")
ax.axhline(null_of_a_week, color=GREY, linestyle="--", linewidth=1)
ax.axhline(null_of_four, color=BLUE, linestyle="--", linewidth=1)
ax.axvline(DRIFT + 0.5, color=GREY, linestyle=":")
ax.axvline(alarm, color=VERMILION, linestyle=":")
ax.set(xlabel="week", ylabel="ECE", xlim=(0, WEEKS + 1), ylim=(0, None))
top = ax.get_ylim()[1]
ax.text(DRIFT + 0.2, 0.98 * top, "drift begins", ha="right", va="top", color=GREY)
ax.text(alarm - 0.3, 0.98 * top, "alarm", ha="right", va="top", color=VERMILION)
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

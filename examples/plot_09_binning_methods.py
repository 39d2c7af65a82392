"""
Step functions
==============

Histogram binning, isotonic regression and BBQ assume nothing about what is wrong with the
probabilities. Here is what they make of data whose fault is known.
"""

# %%
# Two classes and log-odds that are wrong in a way that no slope and offset repairs: sure rows are
# far too sure, unsure ones about right. The true probabilities are known.

import numpy as np
from scipy.special import expit

random = np.random.default_rng(0)
true_log_odds = random.normal(scale=1.5, size=20_000)
y = (random.uniform(size=true_log_odds.size) < expit(true_log_odds)).astype(int)
logits = (true_log_odds + 0.4 * true_log_odds**3)[:, None]
fit = slice(1000)

# %%
# Each method fits a function of the probability to 1000 rows. The steps show what it believes; the
# line is the truth.

import matplotlib.pyplot as plt

from skcalib import BBQ, HistogramBinning, IsotonicCalibration, PlattScaling

methods = {
    "Platt scaling": PlattScaling(),
    "histogram binning": HistogramBinning(n_bins=15),
    "isotonic regression": IsotonicCalibration(),
    "BBQ": BBQ(),
}
order = np.argsort(logits[:, 0])
before = expit(logits[order, 0])

figure, axes = plt.subplots(2, 2, figsize=(8, 7.5), layout="constrained", sharex=True, sharey=True)
for ax, (name, calibrator) in zip(axes.flat, methods.items(), strict=True):
    after = calibrator.fit(logits[fit], y[fit]).predict_proba(logits[order])[:, 1]
    ax.plot(before, expit(true_log_odds[order]), color="gray", linewidth=3, label="truth")
    ax.plot(before, after, color="C1", label=name)
    ax.set(title=name, aspect="equal")
    ax.legend(loc="upper left")
for ax in axes[1]:
    ax.set_xlabel("probability before")
for ax in axes[:, 0]:
    ax.set_ylabel("probability after")
plt.show()

# %%
# The sigmoid of Platt scaling cannot follow the truth, however many rows there are. The others can,
# within what chance does to them: histogram binning jumps up and down with the few rows in a bin,
# isotonic regression may only go up, and BBQ keeps to few steps for as long as the rows do not
# speak for more.
#
# How far they are from the truth depends on the number of rows. Platt scaling is as close as it
# will ever be from a few hundred rows on; the others go on improving.

import pandas as pd

judge = slice(10_000, None)
truth = expit(true_log_odds[judge])
table = pd.DataFrame(index=list(methods))
for n in (100, 300, 1000, 10_000):
    for name, calibrator in methods.items():
        found = calibrator.fit(logits[:n], y[:n]).predict_proba(logits[judge])[:, 1]
        table.loc[name, n] = np.sqrt(np.mean((found - truth) ** 2))
table.rename_axis("root mean squared error", axis=0).rename_axis("rows to fit", axis=1).round(3)

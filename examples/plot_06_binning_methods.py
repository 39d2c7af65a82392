"""
6. Histogram binning, isotonic regression and BBQ
=================================================

Histogram binning, isotonic regression and BBQ fit step functions to the probabilities. This example
compares them with Platt scaling on simulated data with known true probabilities.
"""

# %%
# The data have two classes and a miscalibration that is not linear. Large log-odds are strongly
# over-confident, and small log-odds are nearly calibrated.

import numpy as np
from scipy.special import expit

random = np.random.default_rng(0)
true_log_odds = random.normal(scale=1.5, size=20_000)
y = (random.uniform(size=true_log_odds.size) < expit(true_log_odds)).astype(int)
logits = (true_log_odds + 0.4 * true_log_odds**3)[:, None]
fit = slice(1000)

# %%
# Each method fits a function of the probability to 1000 rows. The grey line is the true
# calibration function.

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
    ax.plot(before, expit(true_log_odds[order]), color="0.6", linewidth=3, label="true")
    ax.plot(before, after, color="#0072B2", label=name)
    ax.set(title=name, aspect="equal")
    ax.legend(loc="upper left")
for ax in axes[1]:
    ax.set_xlabel("uncalibrated probability")
for ax in axes[:, 0]:
    ax.set_ylabel("calibrated probability")
plt.show()

# %%
# The sigmoid of Platt scaling has a bias that does not decrease with the number of rows. The other
# methods have little bias and more variance. Histogram binning is not monotone, because bins with
# few rows are noisy. Isotonic regression is monotone. BBQ averages over binnings and has few steps
# unless the data support more.
#
# The next figure shows the error by the number of rows. The error of Platt scaling is constant
# from a few hundred rows on. The other methods continue to improve.

import pandas as pd

test = slice(10_000, None)
truth = expit(true_log_odds[test])
table = pd.DataFrame(index=list(methods))
for n in (100, 300, 1000, 10_000):
    for name, calibrator in methods.items():
        found = calibrator.fit(logits[:n], y[:n]).predict_proba(logits[test])[:, 1]
        table.loc[name, n] = np.sqrt(np.mean((found - truth) ** 2))
table.rename_axis(index="root mean squared error", columns="calibration rows").round(3)

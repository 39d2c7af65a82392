"""
4. Confidence histograms and selective prediction
=================================================

Histograms of the confidence before and after calibration, separately for correct and wrong
predictions, and the error rate if only predictions with a high confidence are accepted.
"""

# %%
# The network of the first example, and two calibrators: temperature scaling keeps every
# prediction, matrix scaling may change them.

import numpy as np
from scipy.special import softmax

from skcalib import MatrixScaling, TemperatureScaling
from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
calibrators = {"Temperature": TemperatureScaling(), "Matrix": MatrixScaling()}
probabilities = {"Before": softmax(digits.logits_test, axis=1)}
for name, calibrator in calibrators.items():
    calibrator.fit(digits.logits_calibration, digits.y_calibration)
    probabilities[name] = calibrator.predict_proba(digits.logits_test)

# %%
# Before calibration nearly all rows are in the last bin, and the mean confidence exceeds the
# accuracy by a tenth. Temperature scaling lowers the confidence until both agree. Matrix scaling
# also raises the accuracy, and its confidence is higher than after temperature scaling.

import matplotlib.pyplot as plt

from skcalib import ConfidenceDisplay

figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, (name, proba) in zip(axes, probabilities.items(), strict=True):
    ConfidenceDisplay.from_predictions(digits.y_test, proba, name=name, ax=ax)
for ax in axes[1:]:
    ax.set_ylabel("")
plt.show()

# %%
# For decisions, the confidence must discriminate between correct and wrong predictions. The
# histograms count both on a logarithmic scale. Before calibration most wrong predictions are in
# the last bin. After calibration they are spread over many bins, and few are in the last bin.

figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained", sharey=True)
for ax, (name, proba) in zip(axes, probabilities.items(), strict=True):
    correct = proba.argmax(axis=1) == digits.y_test
    for rows, label, look in (
        (correct, "correct", {"color": "#56B4E9"}),
        (~correct, "wrong", {"fill": False, "edgecolor": "#D55E00", "hatch": "////"}),
    ):
        ax.hist(
            proba.max(axis=1)[rows], np.linspace(0, 1, 16), histtype="stepfilled",
            label=f"{rows.sum()} {label}", **look,
        )  # fmt: skip
    ax.set(title=name, xlabel="Confidence", xlim=(0, 1), yscale="log", ylim=(0.8, None))
    ax.legend(loc="upper left")
axes[0].set_ylabel("Rows")
plt.show()

# %%
# Suppose that predictions with a confidence above 0.95 are accepted, and a person reviews all
# others. The expected error rate of the accepted predictions is one minus their mean confidence.
# The table compares it with the observed error rate, as means and standard deviations over twenty
# random splits.

import pandas as pd

logits = np.concatenate([digits.logits_calibration, digits.logits_test])
y = np.concatenate([digits.y_calibration, digits.y_test])
random = np.random.default_rng(0)
draws = []
for _ in range(20):
    fit, test = np.array_split(random.permutation(len(y)), 2)
    found = {"Before": softmax(logits[test], axis=1)}
    for name, calibrator in calibrators.items():
        found[name] = calibrator.fit(logits[fit], y[fit]).predict_proba(logits[test])
    for name, proba in found.items():
        accepted = proba.max(axis=1) > 0.95
        draws.append(
            {
                "calibrator": name,
                "accepted": accepted.mean(),
                "expected error rate": 1 - proba[accepted].max(axis=1).mean(),
                "error rate": np.mean(proba[accepted].argmax(axis=1) != y[test][accepted]),
            }
        )
pd.DataFrame(draws).groupby("calibrator", sort=False).agg(["mean", "std"]).round(3)

# %%
# Before calibration the expected error rate is below one in two hundred, and the observed error
# rate is one in fourteen. After calibration the observed rate is below the expected rate: both
# calibrators are under-confident for these rows. About half of the predictions are accepted,
# instead of nearly nine in ten. Matrix scaling accepts more rows than temperature scaling, by a
# tenth of all rows, with no higher error rate.

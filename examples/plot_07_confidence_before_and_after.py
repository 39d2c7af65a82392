"""
What a confidence is worth
==========================

Histograms of the confidence before and after calibration, of the rows that are right and of those
that are wrong, and what comes of acting on sure rows only.
"""

# %%
# The network of the first example, and two calibrators: one keeps every prediction, the other may
# change them.

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
# Before, nearly all rows are in the last bin, and the average confidence is a tenth above the
# accuracy. Temperature scaling moves rows out of that bin until the two agree. Matrix scaling moves
# the accuracy as well: it makes more predictions right, and is surer again.

import matplotlib.pyplot as plt

from skcalib import ConfidenceDisplay

figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, (name, proba) in zip(axes, probabilities.items(), strict=True):
    ConfidenceDisplay.from_predictions(digits.y_test, proba, name=name, ax=ax)
for ax in axes[1:]:
    ax.set_ylabel("")
plt.show()

# %%
# What matters is how well the confidence keeps the wrong rows from the right ones. Here they are
# apart, as numbers of rows on a logarithmic scale. Before, there are more wrong rows in the last
# bin than in any other. Afterwards they are spread out, and few are left there.

figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained", sharey=True)
for ax, (name, proba) in zip(axes, probabilities.items(), strict=True):
    right = proba.argmax(axis=1) == digits.y_test
    for rows, label, look in (
        (right, "right", {"color": "#56B4E9"}),
        (~right, "wrong", {"fill": False, "edgecolor": "#D55E00", "hatch": "////"}),
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
# Suppose that rows are acted on if the confidence is above 0.95, and that a person looks at all
# others. For the rows acted on the probabilities promise a share of errors, one less their average
# confidence, and there is the share that comes true. For figures that do not hang on one split of
# the rows, the two halves are drawn anew twenty times; below are means and standard deviations.

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
        sure = proba.max(axis=1) > 0.95
        draws.append(
            {
                "calibrator": name,
                "rows acted on": sure.mean(),
                "errors promised": 1 - proba[sure].max(axis=1).mean(),
                "errors made": np.mean(proba[sure].argmax(axis=1) != y[test][sure]),
            }
        )
pd.DataFrame(draws).groupby("calibrator", sort=False).agg(["mean", "std"]).round(3)

# %%
# The network promises less than one error in two hundred rows, and makes one in fourteen. With a
# calibrator there are fewer errors than promised, so that both could be surer still of such rows.
# The price is that fewer of them are acted on: about half, where it was nearly nine in ten. Matrix
# scaling acts on a tenth of all rows more than temperature scaling does, and makes no more errors.

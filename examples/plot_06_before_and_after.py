"""
Before and after, by every method
=================================

The reliability diagrams of one network, as it is and after each of the seven calibrators, as in
figure 4 of Guo and others.
"""

# %%
# The network is the one of the first example: trained to perfection on 100 digits, right in 87 % of
# the others, and much surer than that. Calibrators are fitted on one half of these rows; all that
# follows is about the other half.

from scipy.special import softmax

from skcalib import (
    BBQ,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
calibrators = {
    "Histogram binning": HistogramBinning(),
    "Isotonic regression": IsotonicCalibration(),
    "BBQ": BBQ(),
    "Platt scaling": PlattScaling(),
    "Temperature scaling": TemperatureScaling(),
    "Vector scaling": VectorScaling(),
    "Matrix scaling": MatrixScaling(),
}
probabilities = {"Uncalibrated": softmax(digits.logits_test, axis=1)}
for name, calibrator in calibrators.items():
    calibrator.fit(digits.logits_calibration, digits.y_calibration)
    probabilities[name] = calibrator.predict_proba(digits.logits_test)

# %%
# Every method brings the bars close to the diagonal. What is left is mostly inside the whiskers, in
# bins with few rows. The histograms on top, whose tallest bin has the number of rows beside it,
# differ more than the bars do: of the scalings temperature is sure of the fewest rows, and the
# others of more, since they have learned more about which ones; histogram binning says nearly the
# same of nearly all.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, axes = plt.subplots(2, 4, figsize=(9, 6), layout="constrained")
for ax, (name, proba) in zip(axes.flat, probabilities.items(), strict=True):
    display = ReliabilityDisplay.from_predictions(digits.y_test, proba, ax=ax, legend=False)
    ax.set_title(f"{name}\nECE {display.expected_calibration_error:.3f}", fontsize="medium")
for ax in axes[0]:
    ax.set_xlabel("")
for ax in axes[:, 1:].flat:
    ax.set_ylabel("")
handles = [display.diagonal_, display.bars_, display.gaps_, display.intervals_]
labels = ["Perfect", "Accuracy", "Gap to the confidence", "95 % interval"]
figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# Bars do not tell which method to use, and nor does the ECE: it has chance in it, and the intervals
# of it that 849 rows allow overlap for nearly all. The p-value is that of a test whether the
# probabilities may be right. It leaves no doubt about the network. Of the calibrators it finds most
# fault with matrix scaling, whose bars mostly end above the diagonal: it could be surer.

import pandas as pd
from sklearn.metrics import accuracy_score, log_loss

from skcalib.metrics import calibration_error_interval, calibration_test

table = {}
for name, proba in probabilities.items():
    interval = calibration_error_interval(digits.y_test, proba, n_resamples=499, random_state=0)
    test = calibration_test(digits.y_test, proba, n_resamples=499, random_state=0)
    table[name] = {
        "ECE": interval.estimate,
        "from": interval.low,
        "to": interval.high,
        "p-value": test.pvalue,
        "log loss": log_loss(digits.y_test, proba),
        "accuracy": accuracy_score(digits.y_test, proba.argmax(axis=1)),
    }
pd.DataFrame(table).T.round(3)

# %%
# The log loss does tell them apart, and by it matrix scaling is the best: it corrects more errors
# than any other, and that outweighs a confidence that is a little low. Histogram binning and
# isotonic regression have an ECE among the lowest and the highest log loss of the seven, because
# they say zero where they have seen no row. What this order is worth on other data is the question
# of :ref:`sphx_glr_auto_examples_plot_10_methods_and_data_sets.py`.

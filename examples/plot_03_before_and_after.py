"""
3. Reliability diagrams of all calibration methods
==================================================

Reliability diagrams of one network, uncalibrated and after each of seven calibrators, as in figure
4 of Guo and others.
"""

# %%
# The network of the first example was trained on 100 digits. It has an accuracy of 87 % on the
# other digits and is over-confident. Calibrators are fitted to one half of the held-out rows and
# evaluated on the other half.

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
# With every method the bars end close to the diagonal. The remaining gaps are mostly within the
# confidence intervals, in pale bins with few rows. The histograms above the diagrams differ more.
# They show the sharpness of the predictions. Temperature scaling has fewer rows in the last bin
# than the other scaling methods, which have more parameters to recognize reliable rows. With
# histogram binning nearly all rows have nearly the same confidence.

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
entries = {}  # one for each kind of artist, without the ECE of one of the models
for ax in axes.flat:
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        entries[label.split(" (")[0]] = handle
kinds = ["Accuracy", "Over-confident", "Under-confident", "95 % interval", "Perfect"]
figure.legend(
    [entries[kind] for kind in kinds], kinds, loc="outside lower center", ncols=5, frameon=False
)
plt.show()

# %%
# Neither the diagrams nor the ECE show which method to use. The ECE is a noisy estimate, and with
# 849 rows the confidence intervals of nearly all methods overlap. The p-value tests the hypothesis
# that the probabilities are calibrated. The test rejects the uncalibrated network clearly. Matrix
# scaling has the lowest p-value of the calibrators: most of its bars end above the diagonal, so it
# is under-confident.

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
# The log loss separates the methods. Matrix scaling has the lowest log loss, because it corrects
# the most errors, which outweighs its slight under-confidence. Histogram binning has one of the
# lowest ECEs and the highest log loss of the seven, because it predicts zero for a class without
# calibration rows in a bin. :ref:`sphx_glr_auto_examples_plot_07_methods_and_data_sets.py` shows
# other data sets.

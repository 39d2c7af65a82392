"""
1. Calibrating a neural network
===============================

The basic workflow: an over-confident neural network, temperature scaling, and reliability diagrams
before and after calibration.
"""

# %%
# The network was trained on 100 of scikit-learn's digits until it classified all of them
# correctly. The logits of the other digits are in two halves. The first half fits the calibrator,
# and the second half tests it.

from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
print(f"calibration: {digits.logits_calibration.shape}, test: {digits.logits_test.shape}")

# %%
# Temperature scaling divides all logits by one number, the temperature, which is fitted to the
# first half by maximum likelihood.

from skcalib import TemperatureScaling

calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
print(f"temperature: {calibrator.temperature_:.2f}")

# %%
# The network is over-confident on the second half: the mean confidence exceeds the accuracy. After
# temperature scaling both agree. Temperature scaling keeps the order of the classes, so the
# accuracy does not change.

import pandas as pd
from sklearn.metrics import accuracy_score, log_loss

from skcalib.metrics import expected_calibration_error, maximum_calibration_error

before = digits.classifier.predict_proba(digits.X_test)
after = calibrator.predict_proba(digits.logits_test)

pd.DataFrame(
    {
        name: {
            "mean confidence": proba.max(axis=1).mean(),
            "accuracy": accuracy_score(digits.y_test, proba.argmax(axis=1)),
            "log loss": log_loss(digits.y_test, proba),
            "ECE": expected_calibration_error(digits.y_test, proba),
            "MCE": maximum_calibration_error(digits.y_test, proba),
        }
        for name, proba in {"before": before, "after": after}.items()
    }
).round(3)

# %%
# Reliability diagrams show the accuracy of each bin. Before calibration the accuracy is below the
# confidence in every bin. The hatched gaps show the over-confidence. After calibration the gaps
# are within the confidence intervals. The histogram above each diagram shows the number of rows
# per bin, and bins with few rows are pale. The MCE is the largest gap. Here the largest gap is in
# a pale bin with a single row, so the MCE says little.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, proba) in zip(axes, {"Before": before, "After": after}.items(), strict=True):
    ReliabilityDisplay.from_predictions(digits.y_test, proba, name=name, ax=ax)
plt.show()

# %%
# A single temperature treats all classes alike. Vector scaling has a slope and an intercept for
# each class and corrects over-predicted classes. A ridge penalty shrinks it towards temperature
# scaling. Vector scaling changes predictions, and here the accuracy rises.

from skcalib import VectorScaling

vector = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
loss = log_loss(digits.y_test, vector.predict_proba(digits.logits_test))
accuracy = vector.score(digits.logits_test, digits.y_test)
print(f"vector scaling: log loss {loss:.3f}, accuracy {accuracy:.3f}")

# %%
# Errors with a high confidence do the most harm in decisions. Few of them remain after
# calibration:

wrong = before.argmax(axis=1) != digits.y_test
for name, proba in {"before": before, "after": after}.items():
    confident = (proba[wrong].max(axis=1) > 0.95).sum()
    print(f"{name}: {confident} of {wrong.sum()} errors with a confidence above 95 %")

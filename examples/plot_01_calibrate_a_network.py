"""
Calibrate a network
===================

The main job: a neural network that is too sure of itself, the number that repairs it, and the
reliability diagrams before and after.
"""

# %%
# The network was trained to perfection on 100 of scikit-learn's digits. What it says about the
# others comes in two halves: one to fit the calibrator on, one to judge it on.

from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
print(f"calibration: {digits.logits_calibration.shape}, test: {digits.logits_test.shape}")

# %%
# Temperature scaling divides all logits by one number, which it finds on the first half.

from skcalib import TemperatureScaling

calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
print(f"temperature: {calibrator.temperature_:.2f}")

# %%
# On the second half, the network is surer than it is right. Afterwards it is not, and since the
# order of the classes is kept, it is right as often as before.

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
# The diagrams show it bin by bin. Before, all bars end below the diagonal, most of them far. After,
# the gaps are inside the whiskers. The histogram on top tells how many rows a bar stands on: the
# MCE, which is the largest gap of all, is decided by a bin with very few, so it need not fall.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, proba) in zip(axes, {"Before": before, "After": after}.items(), strict=True):
    ReliabilityDisplay.from_predictions(digits.y_test, proba, name=name, ax=ax)
plt.show()

# %%
# One number for all classes is not all there is to repair. Vector scaling gives each class a slope
# and an offset of its own, held to temperature scaling by a ridge, so that it can see that some
# digits are given too often. It changes predictions; here it is right more often as well.

from skcalib import VectorScaling

vector = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
loss = log_loss(digits.y_test, vector.predict_proba(digits.logits_test))
accuracy = vector.score(digits.logits_test, digits.y_test)
print(f"vector scaling: log loss {loss:.3f}, accuracy {accuracy:.3f}")

# %%
# The rows that the network was sure about and got wrong are the reason why all this is needed. It
# says so less loudly now:

wrong = before.argmax(axis=1) != digits.y_test
for name, proba in {"before": before, "after": after}.items():
    sure = (proba[wrong].max(axis=1) > 0.95).sum()
    print(f"{name}: {sure} of {wrong.sum()} errors made with more than 95 % confidence")

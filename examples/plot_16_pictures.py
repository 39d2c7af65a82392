"""
Displays of calibration
=======================

Reliability diagrams in three styles, diagrams of each class, the log loss and the ECE by
temperature, and a report with all of these. The network is that of
:ref:`sphx_glr_auto_examples_plot_01_calibrate_a_network.py`; for histograms of its confidence see
:ref:`sphx_glr_auto_examples_plot_07_confidence_before_and_after.py`.
"""

# %%
# Two calibrators are fitted to one half of the held-out rows. All figures show the other half.

from skcalib import TemperatureScaling, VectorScaling
from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
temperature = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
vector = VectorScaling().fit(digits.logits_calibration, digits.y_calibration)
before = digits.classifier.predict_proba(digits.X_test)
after = temperature.predict_proba(digits.logits_test)

# %%
# Two models on the same axes
# ---------------------------
# Each dot is at the mean confidence and the accuracy of a bin. The dots of the network are below
# the diagonal; those after temperature scaling are close to it, except for bins on the left that
# have few rows, as their confidence intervals and the histogram on top show.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, ax = plt.subplots(figsize=(5.5, 6.5), layout="constrained")
for name, proba in {"Network": before, "Temperature scaling": after}.items():
    ReliabilityDisplay.from_predictions(digits.y_test, proba, style="dots", name=name, ax=ax)
plt.show()

# %%
# Without bins
# ------------
# The curve of ``style="corp"`` is the isotonic regression of the events on the scores, which needs
# no choice of bins. The consistency band is where the curve would lie for a calibrated model with
# the same scores. It is wide where rows are few. The curve of the network is outside the band where
# most of the rows are; the one after temperature scaling is inside nearly everywhere.

figure, axes = plt.subplots(1, 2, figsize=(9, 5.5), layout="constrained")
for ax, (name, proba) in zip(axes, {"Network": before, "Scaled": after}.items(), strict=True):
    ReliabilityDisplay.from_predictions(digits.y_test, proba, style="corp", name=name, ax=ax)
plt.show()

# %%
# For rare events both axes can have a logit scale. Here the event is that the digit is an eight. An
# observed frequency of 0 is at minus infinity on this scale, and the curve leaves the axes there.
# It is below the band: one temperature for all classes does not correct an over-predicted class.

eight = after[:, 8]
display = ReliabilityDisplay.from_predictions(
    digits.y_test == 8, eight, kind="binary", style="corp", scale="logit", name="Eights"
)
plt.show()

# %%
# Class by class
# --------------
# One diagram for each class, in decreasing order of the calibration error. Nearly all rows are in
# the first bin, since nine in ten digits belong to another class. Bins in the middle have few rows
# and wide confidence intervals. Eights have the largest calibration error: their observed
# frequencies are far below the diagonal.

ReliabilityDisplay.from_predictions(
    digits.y_test, before, kind="classwise", max_classes=6, n_bins=10, name="Network"
)
plt.show()

# %%
# Log loss and ECE by temperature
# -------------------------------
# Logits are divided by a range of temperatures. The log loss has one minimum, which is the
# temperature that :class:`~skcalib.TemperatureScaling` would fit to these rows. The expected
# calibration error is not a smooth function of the temperature, as rows move between bins, and its
# minimum is close to that of the log loss but not the same. The horizontal line is the log loss of
# vector scaling, which is lower than with any temperature.

from skcalib import TemperatureSweepDisplay

TemperatureSweepDisplay.from_estimator(vector, digits.logits_test, digits.y_test)
plt.show()

# %%
# Miscalibration and discrimination of several models
# ---------------------------------------------------
# The log loss is miscalibration less discrimination plus uncertainty. All calibrators move the
# network to the left, where the miscalibration is small. Vector scaling moves it up a little, too:
# it improves the order of the predictions as well.

from skcalib import ScoreDecompositionDisplay

ScoreDecompositionDisplay.from_predictions(
    digits.y_test,
    {
        "Network": before,
        "Temperature scaling": temperature.predict_proba(digits.logits_test),
        "Vector scaling": vector.predict_proba(digits.logits_test),
    },
    arrows=[("Network", "Temperature scaling"), ("Network", "Vector scaling")],
)
plt.show()

# %%
# Calibration report
# ------------------
# The MCE in the table, which is the largest gap of all bins, has increased. It is that of the first
# bin after vector scaling, which has few rows and a wide confidence interval.

from skcalib import calibration_report

report = calibration_report(vector, digits.logits_test, digits.y_test, name="Vector scaling")
plt.show()

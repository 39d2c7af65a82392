"""
Pictures of calibration
=======================

Reliability diagrams in three styles, a diagram for each class, what a temperature does, and all of
it in one figure. The network is that of
:ref:`sphx_glr_auto_examples_plot_01_calibrate_a_network.py`; for histograms of its confidence see
:ref:`sphx_glr_auto_examples_plot_07_confidence_before_and_after.py`.
"""

# %%
# Two calibrators are fitted on one half of the rows. All pictures are of the other half.

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
# Dots stand at the mean confidence of their bin. Those of the network are below the diagonal;
# those after temperature scaling follow it, but for bins on the left with few rows, as their
# whiskers and the histogram on top tell.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, ax = plt.subplots(figsize=(5.5, 6.5), layout="constrained")
for name, proba in {"Network": before, "Temperature scaling": after}.items():
    ReliabilityDisplay.from_predictions(digits.y_test, proba, style="dots", name=name, ax=ax)
plt.show()

# %%
# Without bins
# ------------
# The curve of ``style="corp"`` is the isotonic regression of the events on the scores, so that
# there are no bins to choose. The band is where the curve of a calibrated model with the same
# scores would lie. It is wide where rows are few. The curve of the network leaves it where most of
# the rows are; the one after temperature scaling stays inside nearly everywhere.

figure, axes = plt.subplots(1, 2, figsize=(9, 5.5), layout="constrained")
for ax, (name, proba) in zip(axes, {"Network": before, "Scaled": after}.items(), strict=True):
    ReliabilityDisplay.from_predictions(digits.y_test, proba, style="corp", name=name, ax=ax)
plt.show()

# %%
# For rare events both axes can be stretched near 0 and 1. Here the event is that the digit is an
# eight. Where none of the rows is one, the frequency is 0, which lies at infinity: the curve goes
# down through the border. It lies below the band: one temperature for all classes has not repaired
# that eights are given too often.

eight = after[:, 8]
display = ReliabilityDisplay.from_predictions(
    digits.y_test == 8, eight, kind="binary", style="corp", scale="logit", name="Eights"
)
plt.show()

# %%
# Class by class
# --------------
# One diagram for each class, those with the largest calibration error first. Nearly all rows are in
# the first bin, since nine of ten digits are something else. A bar in the middle stands on a
# handful of rows, and its whiskers are long. For eights, which are worst, bars end far below the
# diagonal.

ReliabilityDisplay.from_predictions(
    digits.y_test, before, kind="classwise", max_classes=6, n_bins=10, name="Network"
)
plt.show()

# %%
# Which temperature
# -----------------
# Logits are divided by a range of temperatures. The log loss has one minimum, where
# :class:`~skcalib.TemperatureScaling` would put its temperature on these rows. The curve of the
# expected calibration error is not smooth, as rows move from bin to bin, and its lowest point is
# close by but not the same. The horizontal line is the log loss of vector scaling, which is below
# that of any temperature.

from skcalib import TemperatureSweepDisplay

TemperatureSweepDisplay.from_estimator(vector, digits.logits_test, digits.y_test)
plt.show()

# %%
# All in one figure
# -----------------
# The largest gap, the MCE in the table, has risen. It is in the first bin after scaling, whose
# whisker is long: few rows are in it.

from skcalib import calibration_report

figure = calibration_report(vector, digits.logits_test, digits.y_test, name="Vector scaling")
plt.show()

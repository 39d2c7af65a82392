"""
12. Displays of calibration
===========================

Reliability diagrams of two models, without bins, and of each class; log loss and ECE by
temperature; miscalibration and discrimination of several models. :ref:`The guide <styles>` says
when to use each style. Other examples show histograms of the confidence
(:ref:`sphx_glr_auto_examples_plot_04_confidence_before_and_after.py`) and a report
(:ref:`sphx_glr_auto_examples_plot_19_report.py`).
"""

# %%
# The network of :ref:`sphx_glr_auto_examples_plot_01_calibrate_a_network.py` has two calibrators,
# which are fitted to one half of the held-out rows. All figures show the other half.

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
# Each dot shows the mean confidence and the accuracy of a bin. The dots of the network are below
# the diagonal. After temperature scaling the dots are close to the diagonal, except for bins with
# few rows on the left. These have pale dots and long confidence intervals. The legend has the ECE
# of each model.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, ax = plt.subplots(figsize=(5.5, 6.5), layout="constrained")
for name, proba in {"Network": before, "Temperature scaling": after}.items():
    ReliabilityDisplay.from_predictions(digits.y_test, proba, style="dots", name=name, ax=ax)
plt.show()

# %%
# Without bins
# ------------
# The curve of ``style="corp"`` is the isotonic regression of the events on the scores. The curve
# of ``style="smooth"`` is a kernel estimate, thick where it has many rows. The curve of a
# calibrated model with the same scores would lie in the consistency band, which is wide where rows
# are few. The curves of the network are outside of their bands where most of the rows are. The
# curves after temperature scaling are inside nearly everywhere.

figure, axes = plt.subplots(2, 2, figsize=(8, 9.6), layout="constrained")
for row, style in zip(axes, ["corp", "smooth"], strict=True):
    for ax, (name, proba) in zip(row, {"Network": before, "Scaled": after}.items(), strict=True):
        ReliabilityDisplay.from_predictions(digits.y_test, proba, style=style, name=name, ax=ax)
    row[0].set_title(f'style="{style}"', loc="left")
plt.show()

# %%
# For rare events both axes can have a logit scale. Here the event is that the digit is an eight.
# An observed frequency of 0 is at minus infinity on this scale, and the curve leaves the axes
# there. It is below the band: one temperature for all classes does not correct an over-predicted
# class.

eight = after[:, 8]
display = ReliabilityDisplay.from_predictions(
    digits.y_test == 8, eight, kind="binary", style="corp", scale="logit", name="Eights"
)
plt.show()

# %%
# Class by class
# --------------
# One diagram for each class, in decreasing order of the calibration error. Nearly all rows are in
# the first bin, since nine in ten digits belong to another class. Bins in the middle have few
# rows: they are pale and have wide confidence intervals. Eights have the largest calibration
# error: their observed frequencies are far below the diagonal.

ReliabilityDisplay.from_predictions(
    digits.y_test, before, kind="classwise", subset=6, n_bins=10, name="Network"
)
plt.show()

# %%
# Log loss and ECE by temperature
# -------------------------------
# Logits are divided by a range of temperatures. The log loss has one minimum, which is the
# temperature that :class:`~skcalib.TemperatureScaling` would fit to these rows. The expected
# calibration error is not a smooth function of the temperature, as rows move between bins. Its
# minimum is close to the minimum of the log loss but not the same. The horizontal line is the log
# loss of vector scaling, which is lower than with any temperature.

from skcalib import TemperatureSweepDisplay

TemperatureSweepDisplay.from_estimator(vector, digits.logits_test, digits.y_test)
plt.show()

# %%
# Miscalibration and discrimination of several models
# ---------------------------------------------------
# The log loss is miscalibration minus discrimination plus uncertainty. Here it is the mean of the
# one-vs-rest log losses of all classes. Both calibrators move the network to the left, where the
# miscalibration is small. Vector scaling also moves it up a little, because it improves the order
# of the predictions. Models on the same line have the same log loss.

from skcalib.metrics import ScoreDecompositionDisplay

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

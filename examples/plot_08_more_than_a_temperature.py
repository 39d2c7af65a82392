"""
More than a temperature
=======================

One temperature for all classes cannot repair what is wrong with one of them. Vector, matrix and
Platt scaling can, each in its own way. What they need for it is rows.
"""

# %%
# The network is that of the first example. On the rows held out, the step from one temperature to a
# vector lowers the log loss and makes more predictions right, and so does that to a matrix
# (:ref:`sphx_glr_auto_examples_plot_06_before_and_after.py`): the network was trained on 100
# digits, and its mistakes have a pattern that more rows reveal.
#
# The matrix shows the pattern. Its rows are the classes that a score is for, its columns the
# log-probabilities that go into it. Blue off the diagonal says: when the network thinks of the
# column, it may well be the row.

import matplotlib.pyplot as plt
import numpy as np

from skcalib import MatrixScaling
from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
matrix = MatrixScaling().fit(digits.logits_calibration, digits.y_calibration)
change = matrix.coef_ - np.eye(10)
limit = np.abs(change).max()

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
image = ax.imshow(change, cmap="RdBu", vmin=-limit, vmax=limit)
figure.colorbar(image, label="coefficient, less 1 on the diagonal")
ax.set(
    xticks=range(10),
    yticks=range(10),
    xlabel="log-probability of digit",
    ylabel="score of digit",
    title="What matrix scaling changes",
)
plt.show()

# %%
# With few rows the same freedom fits noise. The ridge of vector and matrix scaling holds them to
# temperature scaling as strongly as the number of rows demands. The plain form of matrix scaling
# has none, and warns where that leaves it without an optimum: some matrix classifies all rows
# correctly. The lines are means over ten draws of the rows.

import warnings

import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skcalib import PlattScaling, TemperatureScaling, VectorScaling

methods = {
    "temperature": TemperatureScaling(),
    "Platt": PlattScaling(),
    "vector": VectorScaling(),
    "matrix": MatrixScaling(),
    "matrix, plain": MatrixScaling(alpha=0),
}
sizes = [50, 100, 200, 400, 800]
losses = pd.DataFrame(0.0, index=pd.Index(sizes, name="rows"), columns=list(methods))
without_optimum = pd.Series(0, index=losses.index, name="plain fits without optimum, of 10")
random = np.random.default_rng(0)
for size in sizes:
    for _ in range(10):
        rows = random.choice(len(digits.y_calibration), size, replace=False)
        for name, calibrator in methods.items():
            calibrator.set_params(classes=range(10))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                calibrator.fit(digits.logits_calibration[rows], digits.y_calibration[rows])
            if name == "matrix, plain":
                without_optimum[size] += any("no minimum" in str(w.message) for w in caught)
            proba = np.maximum(calibrator.predict_proba(digits.logits_test), 1e-15)
            losses.loc[size, name] += log_loss(digits.y_test, proba) / 10

figure, ax = plt.subplots(figsize=(6.5, 4.8), layout="constrained")
colors = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"]
for name, marker, color in zip(losses, "osD^v", colors, strict=True):
    style = "--" if "plain" in name else "-"
    ax.plot(losses[name], marker=marker, color=color, label=name, linestyle=style)
uncalibrated = log_loss(digits.y_test, digits.classifier.predict_proba(digits.X_test))
ax.axhline(uncalibrated, color="gray", linestyle=":", label="uncalibrated")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="rows to calibrate on",
    ylabel="log loss on the rows held out",
    title="Freedom needs rows, or a ridge",
)
for axis, ticks in ((ax.xaxis, sizes), (ax.yaxis, [0.3, 0.4, 0.6, 1, 2])):
    axis.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    axis.set_ticks([], minor=True)
ax.legend()
plt.show()

# %%
# Plain matrix scaling is not at its worst where rows are fewest. There it has no optimum, since
# some matrix gets all rows right, and the fit ends as soon as it has found one: the sooner the
# fewer rows there are, and with smaller numbers. In figures:

losses.round(3).join(without_optimum)

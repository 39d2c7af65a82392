"""
5. Beyond one temperature: vector, matrix and Platt scaling
===========================================================

One temperature for all classes cannot correct miscalibration that differs between classes. Vector,
matrix and Platt scaling can. They have more parameters and need more rows.
"""

# %%
# On held-out rows of the network of the first example, vector scaling has a lower log loss and a
# higher accuracy than temperature scaling. Matrix scaling improves both again
# (:ref:`sphx_glr_auto_examples_plot_03_before_and_after.py`). The network was trained on only 100
# digits, and its errors have a pattern that more rows reveal.
#
# The matrix shows the pattern. Row k has the coefficients of the score of class k, one for the
# log-probability of each class. Positive coefficients off the diagonal, in blue, mark confused
# classes: when the network predicts the class of the column, the label is often the class of the
# row.

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
figure.colorbar(image, label="coefficient, minus 1 on the diagonal")
ax.set(
    xticks=range(10),
    yticks=range(10),
    xlabel="log-probability of digit",
    ylabel="score of digit",
    title="Coefficients of matrix scaling",
)
plt.show()

# %%
# Many parameters overfit few rows. A ridge penalty shrinks vector and matrix scaling towards
# temperature scaling, with a strength that decreases with the number of rows. Without a penalty
# (``alpha=0``) a matrix may classify all rows correctly. Then the log loss has no minimum, and
# ``fit`` warns. Lines are means over ten random subsets.

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
    "matrix, no penalty": MatrixScaling(alpha=0),
}
sizes = [50, 100, 200, 400, 800]
losses = pd.DataFrame(0.0, index=pd.Index(sizes, name="rows"), columns=list(methods))
without_minimum = pd.Series(0, index=losses.index, name="fits without a minimum, of 10")
random = np.random.default_rng(0)
for size in sizes:
    for _ in range(10):
        rows = random.choice(len(digits.y_calibration), size, replace=False)
        for name, calibrator in methods.items():
            calibrator.set_params(classes=range(10))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                calibrator.fit(digits.logits_calibration[rows], digits.y_calibration[rows])
            if name == "matrix, no penalty":
                without_minimum[size] += bool(caught)
            proba = np.maximum(calibrator.predict_proba(digits.logits_test), 1e-15)
            losses.loc[size, name] += log_loss(digits.y_test, proba) / 10

figure, ax = plt.subplots(figsize=(6.5, 4.8), layout="constrained")
colors = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"]
for name, marker, color in zip(losses, "osD^v", colors, strict=True):
    style = "--" if "penalty" in name else "-"
    ax.plot(losses[name], marker=marker, color=color, label=name, linestyle=style)
uncalibrated = log_loss(digits.y_test, digits.classifier.predict_proba(digits.X_test))
ax.axhline(uncalibrated, color="gray", linestyle=":", label="uncalibrated")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="calibration rows",
    ylabel="held-out log loss",
    title="Log loss by number of calibration rows",
)
for axis, ticks in ((ax.xaxis, sizes), (ax.yaxis, [0.3, 0.4, 0.6, 1, 2])):
    axis.set_ticks(ticks, labels=[str(tick) for tick in ticks])
    axis.set_ticks([], minor=True)
ax.legend()
plt.show()

# %%
# Matrix scaling without a penalty is not worst with the fewest rows. There the log loss has no
# minimum, and the fit stops when a matrix classifies all rows correctly. With fewer rows this
# takes fewer iterations, so the coefficients are smaller. The table shows the numbers:

losses.round(3).join(without_minimum)

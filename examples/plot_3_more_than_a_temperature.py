"""
More than a temperature
=======================

One temperature for all classes cannot repair what is wrong with one of them. Vector, matrix and
Platt scaling can, each in its own way. What they need for it is rows.
"""

# %%
# The network of the first example again, with the methods side by side. All are fitted on the same
# rows and judged on others.

import pandas as pd
from sklearn.metrics import log_loss

from skcalib import MatrixScaling, PlattScaling, TemperatureScaling, VectorScaling
from skcalib.datasets import load_digits_logits
from skcalib.metrics import expected_calibration_error

digits = load_digits_logits()
methods = {
    "temperature": TemperatureScaling(),
    "Platt": PlattScaling(),
    "vector": VectorScaling(),
    "matrix": MatrixScaling(),
}
table = {}
for name, calibrator in methods.items():
    calibrator.fit(digits.logits_calibration, digits.y_calibration)
    proba = calibrator.predict_proba(digits.logits_test)
    table[name] = {
        "log loss": log_loss(digits.y_test, proba),
        "accuracy": calibrator.score(digits.logits_test, digits.y_test),
        "ECE": expected_calibration_error(digits.y_test, proba),
    }
pd.DataFrame(table).T.round(3)

# %%
# Here every step up in flexibility lowers the log loss and makes more predictions right: the
# network was trained on 100 digits, and its mistakes have a pattern that more rows reveal. The ECE
# tells another story, because it asks only whether the confidence is right on average, and not how
# much is known; it is no criterion to choose by.
#
# The matrix shows the pattern. Its rows are the classes that a score is for, its columns the
# log-probabilities that go into it. Blue off the diagonal says: when the network thinks of the
# column, it may well be the row.

import matplotlib.pyplot as plt
import numpy as np

matrix = methods["matrix"]
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

from sklearn.exceptions import ConvergenceWarning

methods["matrix, plain"] = MatrixScaling(alpha=0)
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

figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
for name, marker in zip(losses, "osD^v", strict=True):
    style = "--" if "plain" in name else "-"
    ax.plot(losses[name], marker=marker, label=name, linestyle=style)
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
# In figures:

losses.round(3).join(without_optimum)

"""
21. Curves through frequencies: from Platt to Venn-Abers
========================================================

For two classes a calibrator is a curve: the probability as a function of the log-odds of the
classifier. Here are the curves of six calibrators for naive Bayes on two data sets.
"""

# %%
# Log-odds of naive Bayes for rows that it was not fitted on, by cross-validation: for malignant and
# benign tumours, and for digits with some noise, below five or not. The features are not
# independent, as naive Bayes assumes, so it is strongly over-confident.

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB


def log_odds(X, y):
    log_proba = cross_val_predict(GaussianNB(), X, y, method="predict_log_proba")
    return log_proba[:, [1]] - log_proba[:, [0]]


tumours, benign = load_breast_cancer(return_X_y=True)
digits, labels = load_digits(return_X_y=True)
digits += np.random.default_rng(0).normal(size=digits.shape)
five_or_more = (labels >= 5).astype(int)
data = {
    "Benign tumour (569 rows)": (log_odds(tumours, benign), benign),
    "Digit of 5 or more (1797 rows)": (log_odds(digits, five_or_more), five_or_more),
}

# %%
# The calibrators, from a line in the log-odds (Platt scaling) to no assumption but that the
# frequency does not fall (isotonic regression, Venn-Abers). The log loss by cross-validation:

import pandas as pd

from skcalib import (
    BetaCalibration,
    IsotonicCalibration,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    VennAbersCalibration,
    compare_calibrators,
)

calibrators = {
    "Platt": PlattScaling(),
    "quadratic": QuadraticScaling(),
    "beta": BetaCalibration(),
    "spline": SplineCalibration(),
    "centred isotonic": IsotonicCalibration(interpolation="centered"),
    "Venn-Abers": VennAbersCalibration(),
}
table = pd.DataFrame(index=["uncalibrated", *calibrators])
for name, (logits, y) in data.items():
    compared = compare_calibrators(
        logits, y, calibrators=calibrators, cv=10, scoring=[], random_state=0
    )
    table[name] = pd.Series(dict(zip(compared.names, compared.mean("log loss"), strict=True)))
table.round(3)

# %%
# The curves, fitted to all rows. Dots are the observed frequencies in twenty bins with equally many
# rows, at the median of their log-odds. Venn-Abers has two probabilities for each row: the values
# of isotonic regression with this row added, once as a 0 and once as a 1. The band is between the
# two. Rows with larger log-odds of either sign are outside of the pictures.

import matplotlib.pyplot as plt

styles = {
    "Platt": {"color": "#555555", "linestyle": "--"},
    "quadratic": {"color": "#009E73", "linestyle": "-."},
    "beta": {"color": "#D55E00"},
    "spline": {"color": "#0072B2", "linestyle": ":", "linewidth": 2.5},
    "centred isotonic": {"color": "#D55E00"},
    "Venn-Abers": {"color": "#0072B2", "linestyle": "--"},
}


def draw(ax, logits, y, names, limits):
    grid = np.linspace(*limits, 1000)[:, None]
    for name in names:
        calibrator = calibrators[name].fit(logits, y)
        ax.plot(grid, calibrator.predict_proba(grid)[:, 1], label=name, **styles[name])
        if name == "Venn-Abers":
            p0, p1 = calibrator.predict_interval(grid)[:, 1].T
            ax.fill_between(grid[:, 0], p0, p1, color="#0072B2", alpha=0.3, linewidth=0)
    bins = np.array_split(np.argsort(logits[:, 0]), 20)
    centres = [np.median(logits[rows]) for rows in bins]
    ax.plot(centres, [y[rows].mean() for rows in bins], "ko", markersize=4, label="frequency")
    ax.set(xlabel="log-odds of the classifier", xlim=limits)


families = ["Platt", "quadratic", "beta", "spline"], ["centred isotonic", "Venn-Abers"]
figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained", sharex="row", sharey=True)
limits = (-70, 50), (-25, 25)
for row, (title, rows), ends in zip(axes, data.items(), limits, strict=True):
    for ax, names in zip(row, families, strict=True):
        draw(ax, *rows, names, ends)
        ax.set_title(title)
    row[0].set_ylabel("calibrated probability")
for ax in axes[0]:
    ax.legend(loc="upper left")
plt.show()

# %%
# *Tumours.* The frequency rises slowly at negative log-odds and fast at positive ones. That is one
# bend, which the three parameters of quadratic scaling and of beta calibration follow. Platt
# scaling is a line in the log-odds, and too high where they are near zero. With 569 rows the curves
# with three parameters have the lowest log loss, and the spline, which chooses its smoothness from
# the data, nearly the same. The steps of isotonic regression and of Venn-Abers are noisier.
#
# *Digits.* Of the digits with log-odds of 10 or 20 a tenth is below five all the same. The curve is
# steep in the middle and flat on both sides, for which one bend is not enough. The spline follows
# it, and so do isotonic regression and Venn-Abers, which with 1797 rows have nearly the same log
# loss.
#
# The band is wide where there are few rows. It shows how much one row more would change, and is no
# confidence interval of the frequency (:ref:`venn-abers`). :doc:`/guide/smooth_maps` and
# :doc:`/guide/binning` are about the other calibrators.

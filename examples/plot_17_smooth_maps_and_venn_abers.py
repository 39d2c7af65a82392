"""
17. Curves through frequencies: from Platt to Venn-Abers
========================================================

For two classes a calibrator is a curve: the probability as a function of the log-odds of the
classifier. Here are the curves of six calibrators for naive Bayes on two data sets.
"""

# %%
# The scores are out-of-fold log-odds of naive Bayes on two data sets: malignant and benign
# tumours, and noisy digits, below five or not. Naive Bayes assumes independent features. Both data
# sets violate this, so naive Bayes is strongly over-confident.

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
# Platt scaling is a line in the log-odds. Isotonic regression and Venn-Abers assume only that the
# frequency does not fall. The table shows the log loss by cross-validation:

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
# The curves are fitted to all rows. Dots are the observed frequencies in twenty bins with equally
# many rows, at the median of their log-odds. Venn-Abers has two probabilities for each row: the
# values of isotonic regression with this row added, once as a 0 and once as a 1. The band is
# between both probabilities. Rows with extreme log-odds are outside of the pictures.

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
# *Tumours.* The frequency rises slowly at negative log-odds and fast at positive log-odds.
# Quadratic scaling and beta calibration have three parameters and follow this bend. Platt scaling
# is a line in the log-odds, and too high near zero. With 569 rows the curves with three parameters
# have the lowest log loss. The spline chooses its smoothness from the data and is nearly as good.
# The steps of isotonic regression and Venn-Abers are noisier.
#
# *Digits.* A tenth of the digits with log-odds of 10 or 20 is still below five. The curve is steep
# in the middle and flat on both sides, so one bend is not enough. The spline, isotonic regression
# and Venn-Abers follow the curve, and have nearly the same log loss with 1797 rows.
#
# The band is wide where there are few rows. It shows the effect of one more row, and is no
# confidence interval of the frequency (:ref:`Venn-Abers predictors <venn-abers>`).
# :doc:`/guide/smooth_maps` and :doc:`/guide/binning` describe the other calibrators.

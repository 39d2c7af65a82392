"""
Choosing a calibrator
=====================

A calibrator is a step of a pipeline, and so a parameter that a grid search can choose. What it
should choose by is the log loss; here is what happens if it is the ECE.
"""

# %%
# A naive Bayes classifier on noisy digits is far too sure. In the pipeline a
# :class:`~skcalib.LogitTransformer` fits it across folds, and what follows is a calibrator, to be
# chosen from twelve. ``memory`` keeps the logits, so that the classifier is fitted once for each
# fold and not again for each calibrator.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skcalib import (
    BBQ,
    HistogramBinning,
    IsotonicCalibration,
    LogitTransformer,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from skcalib.metrics import get_scorer

calibrators = [
    TemperatureScaling(),
    PlattScaling(),
    VectorScaling(),
    MatrixScaling(alpha=0.1),
    MatrixScaling(),
    MatrixScaling(alpha=10),
    BBQ(),
    IsotonicCalibration(),
    HistogramBinning(n_bins=2),
    HistogramBinning(n_bins=5),
    HistogramBinning(n_bins=15),
    HistogramBinning(n_bins=50),
]
scoring = {
    "log loss": get_scorer("neg_log_loss"),
    "ECE": get_scorer("neg_expected_calibration_error"),
}
pixels, y = load_digits(return_X_y=True)


def searched(X, y, seed, memory):
    steps = [
        ("scaler", StandardScaler()),
        ("logits", LogitTransformer(GaussianNB(), cv=3)),
        ("calibrator", TemperatureScaling()),
    ]
    return GridSearchCV(
        Pipeline(steps, memory=memory),
        {"calibrator": calibrators},
        scoring=scoring,
        refit="log loss",
        cv=StratifiedKFold(3, shuffle=True, random_state=seed),
    ).fit(X, y)


# %%
# The search is done on 600 rows, five times, with other noise and other rows. The calibrator with
# the best ECE is then fitted to these rows as well as the one with the best log loss, and both are
# judged on the rows that are left.

import tempfile

import pandas as pd

names = [str(calibrator) for calibrator in calibrators]
found, judged = [], []
for seed in range(5):
    noise = np.random.default_rng(seed).normal(scale=0.3, size=pixels.shape)
    X_fit, X_test, y_fit, y_test = train_test_split(
        pixels / 16 + noise, y, train_size=600, stratify=y, random_state=seed
    )
    with tempfile.TemporaryDirectory() as memory:
        search = searched(X_fit, y_fit, seed, memory)
        of_seed = pd.DataFrame({m: -search.cv_results_[f"mean_test_{m}"] for m in scoring}, names)
        found.append(of_seed)
        for measure in scoring:
            calibrator = calibrators[np.argmin(of_seed[measure])]
            pipeline = search.best_estimator_.set_params(calibrator=calibrator).fit(X_fit, y_fit)
            judged.append(
                {
                    "chosen by": measure,
                    "chosen": str(calibrator),
                    **{m: -scorer(pipeline, X_test, y_test) for m, scorer in scoring.items()},
                    "accuracy": pipeline.score(X_test, y_test),
                }
            )
judged = pd.DataFrame(judged)

# %%
# This is what the search sees, as means over its folds. Each of the five has a dot, the bar is
# their mean. By log loss the methods with a formula and BBQ are close together, and every histogram
# is far behind. By ECE there is little order: the five disagree about as much as the calibrators
# differ.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained", sharey=True)
rows = np.arange(len(names))
for ax, measure in zip(axes, scoring, strict=True):
    values = np.stack([of_seed[measure] for of_seed in found])
    ax.plot(values.T, rows, "o", color="#0072B2", alpha=0.5, markersize=5)
    ax.plot(values.mean(axis=0), rows, "|", color="#D55E00", markersize=16, markeredgewidth=2)
    ax.set_xlabel(f"{measure} in the search")
    ax.grid(axis="y", color="0.9")
axes[0].set_yticks(rows, names)
axes[0].invert_yaxis()
axes[0].set(xscale="log")
axes[0].set_xticks([0.5, 1, 2, 4], [0.5, 1, 2, 4])
axes[0].minorticks_off()
axes[1].set_xlim(0, None)
plt.show()

# %%
# So what each of the five chooses is nearly always the same by log loss, and by ECE a matter of
# chance:

for measure, chosen in judged.groupby("chosen by", sort=False)["chosen"]:
    print(f"{measure}:", *chosen, sep="\n    ")

# %%
# On the rows that are left, the choice by ECE has a much higher log loss, and is right less often.
# Its ECE is no better for it than the standard deviation can tell.

columns = ["log loss", "ECE", "accuracy"]
judged.groupby("chosen by", sort=False)[columns].agg(["mean", "std"]).round(3)

# %%
# The ECE is a mean of errors without their signs, so chance adds to it, and on folds of 200 rows
# much of it is chance. Nor does it ask how much the probabilities tell. The log loss asks for both.
# Report the ECE, and choose by the log loss.

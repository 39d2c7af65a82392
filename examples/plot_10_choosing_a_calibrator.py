"""
10. Choosing a calibrator by grid search
========================================

A calibrator is a step of a pipeline, so a grid search can select it. Select it by the log loss.
This example shows the result of a selection by the ECE.
"""

# %%
# A naive Bayes classifier on noisy digits is strongly over-confident. In the pipeline
# :class:`~skcalib.LogitTransformer` computes its out-of-fold logits, and the last step is one of
# twelve calibrators. ``memory`` caches the logits, so that the classifier is fitted once for each
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
from skcalib.metrics import calibration_scorer

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
    "log loss": calibration_scorer("neg_log_loss"),
    "ECE": calibration_scorer("neg_expected_calibration_error"),
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
# The search is done on 600 rows and repeated five times, with different noise and rows. The
# calibrators with the lowest ECE and with the lowest log loss are then fitted to these rows and
# evaluated on the held-out rows.

import tempfile

import pandas as pd

names = [str(calibrator) for calibrator in calibrators]
found, evaluated = [], []
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
            evaluated.append(
                {
                    "selected by": measure,
                    "calibrator": str(calibrator),
                    **{m: -scorer(pipeline, X_test, y_test) for m, scorer in scoring.items()},
                    "accuracy": pipeline.score(X_test, y_test),
                }
            )
evaluated = pd.DataFrame(evaluated)

# %%
# The cross-validated scores of the search: dots are the five repetitions, vertical bars their
# means. The parametric methods, isotonic regression and BBQ have similar log losses, and every
# histogram binning has a much higher one. The ECE gives no clear order: the repetitions differ
# about as much as the calibrators.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained", sharey=True)
rows = np.arange(len(names))
for ax, measure in zip(axes, scoring, strict=True):
    values = np.stack([of_seed[measure] for of_seed in found])
    ax.plot(values.T, rows, "o", color="#0072B2", alpha=0.5, markersize=5)
    ax.plot(values.mean(axis=0), rows, "|", color="#D55E00", markersize=16, markeredgewidth=2)
    ax.set_xlabel(f"cross-validated {measure}")
    ax.grid(axis="y", color="0.9")
axes[0].set_yticks(rows, names)
axes[0].invert_yaxis()
axes[0].set(xscale="log")
axes[0].set_xticks([0.5, 1, 2, 4], [0.5, 1, 2, 4])
axes[0].minorticks_off()
axes[1].set_xlim(0, None)
plt.show()

# %%
# The log loss always selects matrix scaling, with different regularization strengths. The choice
# of the ECE varies at random:

for measure, selected in evaluated.groupby("selected by", sort=False)["calibrator"]:
    print(f"{measure}:", *selected, sep="\n    ")

# %%
# On the held-out rows the calibrators selected by the ECE have a much higher log loss and a lower
# accuracy, and not even a lower ECE.

columns = ["log loss", "ECE", "accuracy"]
evaluated.groupby("selected by", sort=False)[columns].agg(["mean", "std"]).round(3)

# %%
# The ECE is a mean of absolute differences, so sampling noise increases it. On folds of 200 rows
# much of it is noise. It does not measure refinement. The log loss is a proper scoring rule and
# measures both calibration and refinement. Report the ECE, and select by the log loss.

"""
11. Calibration with imbalanced classes
=======================================

Three classes have base rates of 90 %, 8 % and 2 %. Balanced class weights increase the recall of
the rare classes, at the cost of calibration. Class-wise measures and diagrams show the
miscalibration.
"""

# %%
# A logistic regression without class weights, and one with ``class_weight="balanced"``, which
# gives each class the same total weight in training. Calibrators are fitted to held-out rows, and
# all models are evaluated on a third set of rows. This is repeated for five problems of the same
# kind.

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skcalib import TemperatureScaling, VectorScaling

NAMES = np.array(["common", "rare", "very rare"])


def problem(seed):
    """Labels of the test rows, and their probabilities by each model."""
    X, y = make_classification(
        12_000, 20, n_informative=6, n_classes=3, weights=[0.9, 0.08, 0.02], flip_y=0,
        random_state=seed,
    )  # fmt: skip
    y = NAMES[y]
    X_train, X_rest, y_train, y_rest = train_test_split(
        X, y, train_size=4000, stratify=y, random_state=seed
    )
    X_fit, X_test, y_fit, y_test = train_test_split(
        X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=seed
    )
    plain = LogisticRegression(max_iter=1000).fit(X_train, y_train)
    balanced = LogisticRegression(max_iter=1000, class_weight="balanced").fit(X_train, y_train)
    logits_fit, logits_test = balanced.decision_function(X_fit), balanced.decision_function(X_test)
    found = {
        "plain": plain.predict_proba(X_test),
        "balanced": balanced.predict_proba(X_test),
        "balanced, temperature": TemperatureScaling().fit(logits_fit, y_fit),
        "balanced, vector": VectorScaling().fit(logits_fit, y_fit),
    }
    for name in list(found)[2:]:
        found[name] = found[name].predict_proba(logits_test)
    return y_test, found


problems = [problem(seed) for seed in range(5)]

# %%
# Means over the five problems. The first ECE is the top-label ECE. For the balanced regression it
# is a few per cent, which looks harmless. The class-wise ECE, the mean of the one-vs-rest errors,
# is many times as large. The last column is the mean predicted probability of the very rare class
# divided by its base rate.

import pandas as pd
from sklearn.metrics import log_loss

from skcalib.metrics import expected_calibration_error


def measures(y, proba):
    return {
        "log loss": log_loss(y, proba),
        "accuracy": np.mean(NAMES[proba.argmax(axis=1)] == y),
        "ECE": expected_calibration_error(y, proba),
        "class-wise ECE": expected_calibration_error(y, proba, kind="classwise"),
        "very rare, predicted / base rate": proba[:, 2].mean() / np.mean(y == "very rare"),
    }


rows = [
    {"model": name, **measures(y, proba)} for y, found in problems for name, proba in found.items()
]
table = pd.DataFrame(rows).groupby("model", sort=False).mean()
table.round(3)

# %%
# Temperature scaling does not correct the over-prediction: class weights shift the logits of each
# class by a constant, and a temperature cannot shift one class relative to another. Vector scaling
# has an intercept for each class. Its log loss is close to the log loss of the plain regression.
#
# Reliability diagrams of each class, for the first problem, show the miscalibration: the balanced
# regression over-predicts both rare classes and under-predicts the common one.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

y, found = problems[0]


def draw(name, model, ax, **params):
    return ReliabilityDisplay.from_predictions(
        y == name, found[model][:, NAMES.tolist().index(name)], kind="binary", style="dots",
        name=model.replace("balanced, ", ""), ax=ax, **params,
    )  # fmt: skip


figure, axes = plt.subplots(1, 3, figsize=(9, 4.2), layout="constrained")
for ax, name in zip(axes, NAMES, strict=True):
    errors = [
        draw(name, model, ax, n_bins=10, legend=False).expected_calibration_error
        for model in ("balanced", "balanced, vector")
    ]
    rows = f"{name}: {np.sum(y == name)} of {len(y)} rows"
    ax.set_title(f"{rows}\nECE {errors[0]:.3f} and {errors[1]:.4f}", fontsize="medium")
for ax in axes[1:]:
    ax.set_ylabel("")
handles, labels = axes[0].get_legend_handles_labels()
labels = [label.split(" (")[0] for label in labels]
figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# Most probabilities of the very rare class are small, so its diagram is compressed into one
# corner. Logit axes and equal-mass bins, here of 400 rows, spread it out. Bins without a row of
# the class have no dot, but an error bar. Where the balanced regression predicts a probability of
# one in ten, the observed frequency is about one in a hundred.

figure, ax = plt.subplots(figsize=(6, 5.8), layout="constrained")
for model in ("balanced", "balanced, vector", "plain"):
    draw("very rare", model, ax, strategy="quantile", n_bins=10, scale="logit", counts=False)
plt.show()

# %%
# With balanced class weights, use a calibrator with an intercept for each class: vector, matrix or
# Platt scaling. Alternatively use no class weights and move the decision threshold. The plain
# regression is already calibrated.

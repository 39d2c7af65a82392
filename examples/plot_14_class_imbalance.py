"""
Rare classes
============

Of three classes one has nine in ten rows, and one has one in fifty. Balanced class weights find
more of the rare ones, and spoil the probabilities. What is wrong with them is seen class by class.
"""

# %%
# A logistic regression, as it comes and with ``class_weight="balanced"``, which lets each class
# count as much as any other in training. Calibrators are fitted on rows that it has not seen, and
# all is judged on others still. That is done for five problems of the same kind.

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skcalib import TemperatureScaling, VectorScaling

NAMES = np.array(["common", "rare", "very rare"])


def problem(seed):
    """Labels of rows held out, and their probabilities by several means."""
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
# The mean over the five. The first ECE is the usual one, of the class that is predicted. Of the
# balanced regression it is a few per cent, which looks harmless. The next column is its mean over
# the classes, each against the others, and many times as large. The last column is how often the
# very rare class is promised, as a multiple of how often it comes.

import pandas as pd
from sklearn.metrics import log_loss

from skcalib.metrics import expected_calibration_error


def measures(y, proba):
    return {
        "log loss": log_loss(y, proba),
        "accuracy": np.mean(NAMES[proba.argmax(axis=1)] == y),
        "ECE": expected_calibration_error(y, proba),
        "class-wise ECE": expected_calibration_error(y, proba, kind="classwise"),
        "very rare, promised": proba[:, 2].mean() / np.mean(y == "very rare"),
    }


rows = [
    {"model": name, **measures(y, proba)} for y, found in problems for name, proba in found.items()
]
table = pd.DataFrame(rows).groupby("model", sort=False).mean()
table.round(3)

# %%
# Temperature scaling does nothing about it: the fault is one of offsets, the same in every row, and
# one number for all classes cannot move one class against another. Vector scaling has an offset for
# each class. It brings the log loss back to that of the plain regression, or nearly.
#
# Diagrams of each class, for the first problem, show where the fault is: the balanced regression
# gives too much to both rare classes, and what it gives to them it takes from the common one.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

y, found = problems[0]


def draw(name, model, ax, **params):
    ReliabilityDisplay.from_predictions(
        y == name, found[model][:, NAMES.tolist().index(name)], kind="binary", style="dots",
        name=model.replace("balanced, ", ""), ax=ax, **params,
    )  # fmt: skip


figure, axes = plt.subplots(1, 3, figsize=(9, 4.6), layout="constrained")
for ax, name in zip(axes, NAMES, strict=True):
    for model in ("balanced", "balanced, vector"):
        draw(name, model, ax, n_bins=10)
    ax.set_title(f"{name}: {np.sum(y == name)} of {len(y)} rows", fontsize="medium")
for ax in axes[1:]:
    ax.set_ylabel("")
plt.show()

# %%
# Most probabilities of the very rare class are small, so that its diagram is all in one corner.
# Logit axes spread it out, and bins of equal mass, here of 400 rows. Bins in which the class never
# comes have no dot, but a whisker. Where the balanced regression says one in ten, it is about
# one in a hundred.

figure, ax = plt.subplots(figsize=(6, 6.5), layout="constrained")
for model in ("balanced", "balanced, vector", "plain"):
    draw("very rare", model, ax, strategy="quantile", n_bins=10, scale="logit", counts=False)
plt.show()

# %%
# So with balanced weights, calibrate with a method that has an offset for each class: vector,
# matrix or Platt scaling. Or leave the weights alone and move the threshold: the plain regression
# was calibrated all along.

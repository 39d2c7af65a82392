"""
16. The default: AutoCalibrator
===============================

The best calibrator depends on the classifier and on the number of rows.
:class:`~skcalib.AutoCalibrator` fits several calibrators and mixes them with the weights that
minimize the out-of-fold log loss. This example shows its choice for three classifiers.
"""

# %%
# A third of the digits, with noise, trains each classifier, a third calibrates it, and the last
# third tests it. A probability of zero votes is raised to half a vote before the logarithm.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

pixels, labels = load_digits(return_X_y=True)
pixels += np.random.default_rng(0).normal(0, 6, pixels.shape)
X_train, X_rest, y_train, y_rest = train_test_split(
    pixels, labels, train_size=1 / 3, random_state=0
)
X, X_test, y, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
classifiers = {
    "Naive Bayes": (GaussianNB(), 1e-15),
    "Random forest": (RandomForestClassifier(30, random_state=0), 0.5 / 30),
    "Nearest neighbors": (KNeighborsClassifier(10), 0.5 / 10),
}

# %%
# ``AutoCalibrator()`` is fitted like any other calibrator, and needs no choice. Printing it shows
# the weights of the candidates.

import pandas as pd
from sklearn.metrics import log_loss

from skcalib import AutoCalibrator, TemperatureScaling

probabilities, losses, fitted = {}, {}, {}
for name, (classifier, min_proba) in classifiers.items():
    classifier.fit(X_train, y_train)
    before = classifier.predict_proba(X_test)
    logits, logits_test = (
        np.log(np.maximum(classifier.predict_proba(part), min_proba)) for part in (X, X_test)
    )
    fitted[name] = AutoCalibrator().fit(logits, y)
    probabilities[name] = {
        "uncalibrated": before,
        "temperature": TemperatureScaling().fit(logits, y).predict_proba(logits_test),
        "AutoCalibrator": fitted[name].predict_proba(logits_test),
    }
    losses[name] = {
        method: log_loss(y_test, proba) for method, proba in probabilities[name].items()
    }
    print(f"{name}: {fitted[name]}")

# %%
# The log loss on the test rows:

pd.DataFrame(losses).T.round(3)

# %%
# The weights differ between the classifiers. The log loss is lower than with temperature scaling,
# because a single parameter cannot correct over-predicted or confused classes. The reliability
# diagrams compare both:

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, axes = plt.subplots(1, 3, figsize=(12, 5.2), layout="constrained", sharey=True)
for ax, (name, of_methods) in zip(axes, probabilities.items(), strict=True):
    for method, proba in of_methods.items():
        ReliabilityDisplay.from_predictions(
            y_test, proba, n_bins=8, strategy="quantile", style="dots", name=method, ax=ax
        )
    ax.set_title(name)
for ax in axes[1:]:
    ax.set_ylabel("")
plt.show()

# %%
# Naive Bayes is over-confident. The forest and the nearest neighbours are under-confident. Both
# calibrators correct this, and :func:`~skcalib.metrics.calibration_difference` finds no
# significant difference of their calibration errors. AutoCalibrator has a higher accuracy and
# discriminates better, which lowers the log loss. The table shows the estimated log loss of each
# candidate for the forest, with its standard error:

forest = fitted["Random forest"]
pd.DataFrame(
    {
        "out-of-fold log loss": forest.cv_log_loss_,
        "standard error": forest.cv_log_loss_error_,
        "weight": forest.weights_,
    }
).round(3)

# %%
# :class:`~skcalib.CalibratedClassifier` fits AutoCalibrator by cross-fitting, so that no rows have
# to be held out by hand. :doc:`/guide/default` explains how the weights are found.

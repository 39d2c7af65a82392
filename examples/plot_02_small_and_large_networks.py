"""
2. Calibration of small and large networks
==========================================

Figure 1 of Guo and others shows a small network of 1998 that is well calibrated, and a large one of
2016 that is more accurate and strongly over-confident. The same happens on scikit-learn's digits,
in less than ten seconds.
"""

# %%
# Noise on the pixels makes the digits harder. Without noise the accuracy of every network is near
# 1. The networks have two hidden layers of 16 or of 256 units and no weight decay. All are trained
# for 60 epochs on 400 rows, five times, with different noise, training rows and initial weights.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

pixels, y = load_digits(return_X_y=True)


def trained(width, seed):
    """A network, and the held-out rows."""
    noise = np.random.default_rng(seed).normal(scale=0.3, size=pixels.shape)
    X = (pixels / 16 + noise).astype(np.float32)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=400, stratify=y, random_state=seed
    )
    network = MLPClassifier(
        (width, width),
        alpha=0,
        learning_rate_init=0.003,
        tol=1e9,  # no improvement is large enough: training stops after this many epochs:
        n_iter_no_change=60,
        random_state=seed,
    )
    return network.fit(X_train, y_train), X_test, y_test


runs = {
    name: [trained(width, seed) for seed in range(5)]
    for name, width in {"Small network": 16, "Large network": 256}.items()
}

# %%
# Means and standard deviations over the five runs. The large network is more accurate, but its
# confidence is higher by much more than its accuracy.

import pandas as pd

from skcalib.metrics import expected_calibration_error


def measures(network, X, y):
    proba = network.predict_proba(X)
    return {
        "weights": sum(layer.size for layer in network.coefs_),
        "accuracy": network.score(X, y),
        "confidence": proba.max(axis=1).mean(),
        "ECE": expected_calibration_error(y, proba),
    }


found = pd.DataFrame([{"": name, **measures(*run)} for name in runs for run in runs[name]])
found = found.groupby("", sort=False).agg(["mean", "std"]).drop(columns=("weights", "std"))
found.round(3)

# %%
# The confidence histograms of the first run correspond to the top of figure 1 of the paper. The
# lines of mean confidence and accuracy nearly coincide for the small network. They are far apart
# for the large network, where most confidences are close to 1.

import matplotlib.pyplot as plt

from skcalib import ConfidenceDisplay, ReliabilityDisplay

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for ax, (name, of_name) in zip(axes, runs.items(), strict=True):
    ConfidenceDisplay.from_estimator(*of_name[0], name=name, ax=ax)
axes[1].set_ylabel("")
plt.show()

# %%
# In the reliability diagrams, the accuracies of the small network agree with the diagonal within
# their confidence intervals. Nearly all accuracies of the large network are below the diagonal.
# Most rows are in the last bin, so its interval is short.

figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, of_name) in zip(axes, runs.items(), strict=True):
    ReliabilityDisplay.from_estimator(*of_name[0], name=name, ax=ax)
plt.show()

# %%
# The small network is well calibrated by coincidence. Still smaller networks are under-confident,
# as the next example shows.

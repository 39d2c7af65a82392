"""
Small networks and large ones
=============================

Guo and others open with a picture: a small network of 1998 that is as sure as it is right, and a
large one of 2016 that is right more often, and far too sure. The same happens on scikit-learn's
digits, in less than ten seconds.
"""

# %%
# The digits are too easy: every network is nearly always right, and confidence has nothing to be
# wrong about. Noise on the pixels makes them hard. The networks have two hidden layers, of 16 units
# or of 256, no weight decay, and all the same 60 epochs on 400 rows. Each is trained five times,
# with other noise, other rows and other weights to start from.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

pixels, y = load_digits(return_X_y=True)


def trained(width, seed):
    """A network, and the rows that it has not seen."""
    noise = np.random.default_rng(seed).normal(scale=0.3, size=pixels.shape)
    X = (pixels / 16 + noise).astype(np.float32)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=400, stratify=y, random_state=seed
    )
    network = MLPClassifier(
        (width, width),
        alpha=0,
        learning_rate_init=0.003,
        tol=1e9,  # no progress is enough, so that training ends after so many epochs:
        n_iter_no_change=60,
        random_state=seed,
    )
    return network.fit(X_train, y_train), X_test, y_test


runs = {
    name: [trained(width, seed) for seed in range(5)]
    for name, width in {"Small network": 16, "Large network": 256}.items()
}

# %%
# In figures, the mean of the five and their standard deviation. The large network is right more
# often. It is also surer, and by much more than that.

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
# The pictures are of the first of the five, as in figure 1 of the paper. On top is how many rows
# have which confidence. The lines of average confidence and accuracy nearly meet for the small
# network, and are far apart for the large one, which is all but certain of most rows.

import matplotlib.pyplot as plt

from skcalib import ConfidenceDisplay, ReliabilityDisplay

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for ax, (name, of_name) in zip(axes, runs.items(), strict=True):
    ConfidenceDisplay.from_estimator(*of_name[0], name=name, ax=ax)
plt.show()

# %%
# Below are the bins. Those of the small network keep to the diagonal, as far as their whiskers can
# tell. Nearly all bars of the large one end below it, and the whisker of the last, where most rows
# are, is short.

figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, of_name) in zip(axes, runs.items(), strict=True):
    ReliabilityDisplay.from_estimator(*of_name[0], name=name, ax=ax)
plt.show()

# %%
# The small network is well calibrated without anybody's doing. That is luck and no law: a network
# that is smaller still is not sure enough, as the next example shows.

"""
A temperature on other data
===========================

A temperature is fitted on rows of one kind, and used on rows of another. How far does it go?
"""

# %%
# A network learns 100 digits from the first half of the file. What it is then used on are the
# others of that half; the second half, which turns out to be harder; and the second half with
# noise, turned, moved by a pixel, and with less ink. The labels are known in all of them, so that
# each kind can have a temperature of its own, found on one half of its rows. The other half is to
# judge on.

import numpy as np
import pandas as pd
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skcalib import TemperatureScaling

images, y = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8) / 16
first, second = np.array_split(np.arange(len(y)), 2)


def noisy(scale, seed):
    return images + np.random.default_rng(seed).normal(scale=scale, size=images.shape)


def kinds(seed):
    """Images and rows of each kind, the first to train on as well."""
    return {
        "first half": (images, first),
        "second half": (images, second),
        "noise of 0.2": (noisy(0.2, seed), second),
        "noise of 0.4": (noisy(0.4, seed), second),
        "turned by 20°": (rotate(images, 20, axes=(1, 2), reshape=False, order=1), second),
        "moved by a pixel": (np.roll(images, 1, axis=2), second),
        "less ink": (0.4 * images, second),
    }


def halved(rows, seed):
    return train_test_split(rows, test_size=0.5, stratify=y[rows], random_state=seed)


results, own = [], []
for seed in range(5):
    train, rest = train_test_split(first, train_size=100, stratify=y[first], random_state=seed)
    network = MLPClassifier(
        (128, 128),
        alpha=0,
        learning_rate_init=0.003,
        tol=1e9,  # no progress is enough, so that training ends after so many epochs:
        n_iter_no_change=60,
        random_state=seed,
    ).fit(images[train].reshape(-1, 64), y[train])
    calibrators, held_out = {}, {}
    for name, (X, rows) in kinds(seed).items():
        fit, test = halved(rest if rows is first else rows, seed)
        proba = network.predict_proba(X.reshape(-1, 64))
        logits = np.log(np.maximum(proba, 1e-30))  # never -inf
        calibrators[name] = TemperatureScaling().fit(logits[fit], y[fit])
        held_out[name] = logits[test], y[test]
        own.append(
            {
                "used on": name,
                "accuracy": calibrators[name].score(*held_out[name]),
                "temperature": calibrators[name].temperature_,
                "log loss, uncalibrated": log_loss(y[test], proba[test]),
            }
        )
    for fitted, calibrator in calibrators.items():
        for used, (logits, labels) in held_out.items():
            loss = log_loss(labels, calibrator.predict_proba(logits))
            results.append({"fitted on": fitted, "used on": used, "log loss": loss})

# %%
# The accuracy, and the temperature that each kind would like to have, as means over five networks.
# Mostly, the more the images are spoilt, the less the network knows and the hotter it is, but for
# less ink, which takes away a little of the accuracy and a lot of the confidence.

own = pd.DataFrame(own).groupby("used on", sort=False)
own.mean().round(2)

# %%
# What it costs to use the temperature of another kind: the log loss above that with a temperature
# of their own. The line on top is for none at all.

import matplotlib.pyplot as plt

losses = pd.DataFrame(results).pivot_table(
    values="log loss", index="fitted on", columns="used on", sort=False
)
best = np.diag(losses)
losses = pd.concat([own["log loss, uncalibrated"].mean().to_frame("none").T, losses])
excess = losses - best

figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
image = ax.imshow(excess, cmap="Blues", vmin=0, vmax=1, aspect="auto")
figure.colorbar(image, label="log loss above that of their own temperature", extend="max")
ax.set_xticks(range(excess.shape[1]), excess.columns, rotation=30, ha="right")
ax.set_yticks(range(len(excess)), excess.index)
ax.set(xlabel="used on", ylabel="temperature fitted on")
for row, column in np.ndindex(excess.shape):
    value = excess.iloc[row, column]
    color = "white" if value > 0.6 else "black"
    ax.text(column, row, f"{max(value, 0):.2f}", ha="center", va="center", color=color)
plt.show()

# %%
# Between the two halves of the file a temperature goes both ways and costs next to nothing, though
# the accuracies differ, and so it does with a little noise. Where the images are turned or drowned
# in noise it is too low, and still takes away most of what is wrong; where they are moved, about
# half.
#
# The other way it may do harm. The temperature of moved images makes the network so unsure that on
# plain ones it is worse than no calibration, and that of images with less ink makes it surer still
# of everything else.
#
# So a temperature belongs to a kind of rows and not to the network alone. Fit it on rows like those
# that will come; if they may change, watch them, as in
# :ref:`sphx_glr_auto_examples_plot_17_monitoring.py`.

"""
Log loss overfits
=================

A network learns to put all training rows into the right class, and then goes on: the log loss on
these rows still falls if it becomes surer. On other rows it rises from there, while the error does
not. That is how Guo and others explain over-confidence, in their figure 3.
"""

# %%
# A network with two layers of 128 units is trained on 400 noisy digits for 100 epochs. Now and then
# it is asked for the probabilities of rows that it has not seen. One half of these serves to fit a
# temperature, the other to judge. All is done five times, with other noise, rows and weights.

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skcalib import TemperatureScaling

pixels, y = load_digits(return_X_y=True)
EPOCHS = [6, 8, 10, 14, 18, 24, 30, 40, 50, 65, 80, 100]


def training(seed):
    """What the network is worth after some of its epochs."""
    noise = np.random.default_rng(seed).normal(scale=0.3, size=pixels.shape)
    X = (pixels / 16 + noise).astype(np.float32)
    X_train, X, y_train, y_rest = train_test_split(
        X, y, train_size=400, stratify=y, random_state=seed
    )
    half = len(X) // 2
    network = MLPClassifier((128, 128), alpha=0, learning_rate_init=0.002, random_state=seed)
    for epoch in range(1, EPOCHS[-1] + 1):
        network.partial_fit(X_train, y_train, classes=np.arange(10))
        if epoch not in EPOCHS:
            continue
        logits = np.log(np.maximum(network.predict_proba(X), 1e-30))  # never -inf
        calibrator = TemperatureScaling().fit(logits[:half], y_rest[:half])
        scaled = calibrator.predict_proba(logits[half:])
        yield {
            "epoch": epoch,
            "training error": 1 - network.score(X_train, y_train),
            "error": np.mean(logits[half:].argmax(axis=1) != y_rest[half:]),
            "log loss": log_loss(y_rest[half:], np.exp(logits[half:])),
            "log loss, scaled": log_loss(y_rest[half:], scaled),
            "temperature": calibrator.temperature_,
        }


runs = pd.concat([pd.DataFrame(training(seed)) for seed in range(5)], keys=range(5))
found = runs.groupby("epoch").agg(["mean", "std"])

# %%
# The lines are means over the five, the bands one standard deviation to either side.

import matplotlib.pyplot as plt

looks = {
    "log loss": ("#0072B2", "-", "log loss"),
    "log loss, scaled": ("#D55E00", "--", "log loss after temperature scaling"),
    "error": ("#0072B2", "-", "error"),
    "training error": ("#555555", ":", "error on the training rows"),
}
figure, axes = plt.subplots(2, 1, sharex=True, figsize=(6.5, 6.5), layout="constrained")
for k, (measure, (color, style, label)) in enumerate(looks.items()):
    mean, sd = (found[measure, what].to_numpy() for what in ("mean", "std"))
    ax = axes[k // 2]
    ax.plot(EPOCHS, mean, style, color=color, marker="o", markersize=4, label=label)
    ax.fill_between(EPOCHS, mean - sd, mean + sd, color=color, alpha=0.15, linewidth=0)
lowest = found["log loss", "mean"].idxmin()
for ax in axes:
    ax.axvline(lowest, color="#555555", linewidth=1)
    ax.set_ylim(0, None)
    ax.legend()
axes[0].set_ylabel("log loss")
axes[0].set_title(f"The vertical line: lowest log loss, epoch {lowest}")
axes[1].set(ylabel="share of errors", xlabel="epoch")
plt.show()

# %%
# The log loss has its minimum when nearly all training rows are right, and then rises by nearly a
# half. So it does in the paper, where the error goes on falling at the same time. That does not
# show here: the error rises as well, but by a point or two, which is little next to the log loss.
#
# So it is mostly the confidence that overfits. A temperature for each epoch shows it: divide the
# logits by that, and most of the rise is gone. To train to the end and calibrate afterwards costs
# little against stopping in time, and needs nobody to watch.

found.xs("mean", axis=1, level=1).loc[[lowest, EPOCHS[-1]]].round(3)

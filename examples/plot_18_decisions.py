"""
18. The cost of miscalibration, and decisions without tuning
============================================================

The decision to pay, to block or to ask the customer follows from the probability of fraud and the
costs of mistakes: take the decision with the smallest expected cost. This needs calibrated
probabilities, and no tuning, also when costs change or differ between rows.
"""

# %%
# In the simulated card payments 6 % are frauds, with larger amounts on average. Naive Bayes treats
# dependent features as independent and counts the same evidence several times, so it is
# over-confident.

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

X, fraud = make_classification(
    30_000, 25, n_informative=6, n_redundant=15, n_clusters_per_class=1, weights=[0.94],
    flip_y=0.02, class_sep=0.8, random_state=0,
)  # fmt: skip
random = np.random.default_rng(0)
amount = 5 + np.exp(random.normal(3.5 + 0.7 * fraud, 1.1))
X = np.column_stack([X, np.log(amount)])
X_train, X_test, y_train, y_test, _, amount_test = train_test_split(
    X, fraud, amount, train_size=6000, stratify=fraud, random_state=0
)
classifier = GaussianNB()

# %%
# Three models have the same classifier: without calibration, with calibration by cross-fitting,
# and with a threshold that scikit-learn tunes by cross-validation for fixed costs. A missed fraud
# costs 60 and a blocked honest payment costs 10.

from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from skcalib import BetaCalibration, CalibratedClassifier
from skcalib.decision import bayes_decision, expected_cost


def costs_of(missed, blocked=10):
    """Rows are the truth, honest and fraud; columns the decisions, to pay and to block."""
    return np.array([[0, blocked], [missed, 0]])


def tuned(missed):
    """The classifier with the best threshold for these costs."""

    def gain(y, predicted):
        return -costs_of(missed)[y, predicted].mean()

    return TunedThresholdClassifierCV(classifier, scoring=make_scorer(gain), random_state=0)


plain = classifier.fit(X_train, y_train)
calibrated = CalibratedClassifier(classifier, BetaCalibration()).fit(X_train, y_train)
tuned_once = tuned(60).fit(X_train, y_train)
p_plain = plain.predict_proba(X_test)[:, 1]
p_calibrated = calibrated.predict_proba(X_test)[:, 1]

# %%
# The table shows the mean cost of a payment. The costs imply a threshold of 10 / 70. The
# uncalibrated probabilities are too close to 0 and 1, and another threshold is better for them.
# Calibration does not change the order of the payments, and saves as much as tuning the threshold.

import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score


def cost_of(decided, costs):
    """Mean cost of decisions, with one matrix or with one for each row."""
    costs = np.broadcast_to(costs, (len(y_test), *costs.shape[-2:]))
    return costs[np.arange(len(y_test)), y_test, decided].mean()


costs = costs_of(60)
pd.DataFrame(
    {
        "threshold": [0.5, 10 / 70, 10 / 70, tuned_once.best_threshold_],
        "mean cost": [
            cost_of((p_plain > 0.5).astype(int), costs),
            expected_cost(y_test, p_plain, costs),
            expected_cost(y_test, p_calibrated, costs),
            cost_of(tuned_once.predict(X_test), costs),
        ],
        "log loss": [log_loss(y_test, p) for p in (p_plain, p_plain, p_calibrated, p_plain)],
        "ROC AUC": [roc_auc_score(y_test, p) for p in (p_plain, p_plain, p_calibrated, p_plain)],
    },
    index=["most probable class", "least expected cost", "calibrated", "tuned threshold"],
).round(3)

# %%
# When costs change
# -----------------
# If the cost of a missed fraud changes, calibrated probabilities need no change, and the threshold
# follows from the costs. The threshold that was tuned for 60 is wrong for other costs. Each new
# threshold needs another cross-validation.

import matplotlib.pyplot as plt

BLUE, VERMILION, GREY, GREEN = "#0072B2", "#D55E00", "#777777", "#009E73"
missed = np.array([15, 30, 60, 120, 200, 400, 800])
found = {
    "least expected cost, uncalibrated": [
        expected_cost(y_test, p_plain, costs_of(m)) for m in missed
    ],
    "threshold tuned for 60": [cost_of(tuned_once.predict(X_test), costs_of(m)) for m in missed],
    "threshold tuned for each": [
        cost_of(tuned(m).fit(X_train, y_train).predict(X_test), costs_of(m)) for m in missed
    ],
    "least expected cost, calibrated": [
        expected_cost(y_test, p_calibrated, costs_of(m)) for m in missed
    ],
}

# %%
# When each row has its own costs
# -------------------------------
# A missed fraud costs the amount of the payment, and a blocked honest payment costs 10 plus 2 % of
# the amount. Asking the customer costs 4 and gives the right answer. Each row has a matrix of
# costs with three decisions. The best decision depends on the amount, so no single threshold can
# be tuned.

amounts = np.zeros((len(y_test), 2, 3))
amounts[:, 0, 1] = 10 + 0.02 * amount_test  # honest, blocked
amounts[:, 1, 0] = amount_test  # fraud, paid
amounts[:, :, 2] = 4  # asked
never_asked = amounts[:, :, :2]
by_amount = {
    "tuned threshold": cost_of(tuned_once.predict(X_test), never_asked),
    "uncalibrated": expected_cost(y_test, p_plain, never_asked),
    "calibrated": expected_cost(y_test, p_calibrated, never_asked),
    "uncalibrated,\nor ask": expected_cost(y_test, p_plain, amounts),
    "calibrated,\nor ask": expected_cost(y_test, p_calibrated, amounts),
}
decided = bayes_decision(p_calibrated, amounts)
print("paid, blocked, asked:", np.bincount(decided, minlength=3))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
looks = [(VERMILION, "o-"), (GREY, "s:"), (GREEN, "^--"), (BLUE, "o-")]
for (name, values), (color, look) in zip(found.items(), looks, strict=True):
    relative = np.divide(values, found["least expected cost, calibrated"])
    left.plot(missed, relative, look, color=color, label=name, markersize=5)
left.set(
    xscale="log", xlabel="cost of a missed fraud", ylabel="mean cost relative to calibrated",
    xticks=missed, xticklabels=missed,
)  # fmt: skip
left.minorticks_off()
left.legend()
bars = right.barh(
    list(by_amount)[::-1],
    list(by_amount.values())[::-1],
    color=[BLUE, VERMILION, BLUE, VERMILION, GREY],
)
right.bar_label(bars, fmt="%.2f", padding=3)
right.set(xlabel="mean cost of a payment, by amount", xlim=(0, 1.15 * max(by_amount.values())))
plt.show()

# %%
# Calibrated probabilities are as good as a threshold that is tuned for each cost, and better than
# all thresholds if costs depend on the row.

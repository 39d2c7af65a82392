"""
24. Abstaining with a promised error rate
=========================================

A network that reads digits is wrong in one of eight. It leaves the digits of which it is least
confident to a person, and promises that at most 5 % of the others are wrong.
"""

# %%
# The network that comes with the package, and its confidences after matrix scaling. One half of the
# held-out digits chooses the threshold, the other one shows what comes of it.

import numpy as np
from scipy.special import softmax

from skcalib import MatrixScaling
from skcalib.datasets import load_digits_logits
from skcalib.decision import RiskCoverageDisplay, area_under_risk_coverage, selective_threshold

digits = load_digits_logits()
calibrator = MatrixScaling().fit(digits.logits_calibration, digits.y_calibration)
probabilities = {
    "uncalibrated": softmax(digits.logits_test, axis=1),
    "matrix scaling": calibrator.predict_proba(digits.logits_test),
}
half = np.random.default_rng(0).permutation(len(digits.y_test)) < len(digits.y_test) // 2

# %%
# The share of errors among the accepted digits, over the share that is accepted. Matrix scaling
# changes predictions as well, and so the error rate of all rows, on the right.

display = None
for name, P in probabilities.items():
    ax = display.ax_ if display else None
    display = RiskCoverageDisplay.from_predictions(digits.y_test, P, name=name, ax=ax)
ax = display.ax_
_ = ax.axhline(0.05, color="grey", linewidth=1)

# %%
# The excess of the area over that of the best ordering compares the confidences, apart from the
# error rate.

import pandas as pd

pd.DataFrame(
    {
        "AURC": {
            name: area_under_risk_coverage(digits.y_test, P) for name, P in probabilities.items()
        },
        "excess": {
            name: area_under_risk_coverage(digits.y_test, P, excess=True)
            for name, P in probabilities.items()
        },
    }
).round(4)

# %%
# Thresholds that keep the promise with a confidence of 95 %, from one half of the rows, and the
# coverage and the errors in the other half. Both models keep it; the one with the better
# confidences answers more often.

rows = []
for name, P in probabilities.items():
    found = selective_threshold(digits.y_test[half], P[half], risk=0.05)
    accepted = ~half & (P.max(axis=1) >= found.threshold)
    wrong = P.argmax(axis=1)[accepted] != digits.y_test[accepted]
    rows.append([name, found.threshold, accepted.sum() / (~half).sum(), wrong.mean()])
pd.DataFrame(rows, columns=["model", "threshold", "coverage", "risk"]).set_index("model").round(3)

# sphinx_gallery_thumbnail_number = 1
